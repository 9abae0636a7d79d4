//! The other side of a [`Child`](super::Child): what a process does first that was started as one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getpgrp, getpid, getppid, kill_process_group, pidfd_open};

use super::child::PARENT;

/// Takes the socket from standard input, which is `/dev/null` from then on, and sees to it that this process does not
/// outlive its parent: a thread waits for the parent's end and then kills this process and its group, whatever its other
/// threads are stuck in. (A signal at the death of the parent would come already when the *thread* ends that started this
/// process.)
///
/// Call it first in `main`, once.
///
/// # Errors
/// This process was not started by [`Child::spawn`](super::Child::spawn), or its parent is gone already; else what the
/// system said.
pub fn adopt() -> io::Result<OwnedFd> {
    let told = std::env::var(PARENT).ok().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
    let parent = told.ok_or_else(|| {
        io::Error::other(format!("this is started by a host only, which tells its number in {PARENT}"))
    })?;
    let pidfd = pidfd_open(parent, PidfdFlags::empty())?;
    // It was the parent when the descriptor was opened if it is the parent now.
    if getppid() != Some(parent) {
        return Err(io::Error::other("the host that has started this process is gone"));
    }
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    std::thread::Builder::new().name("fuchsine-parent".to_owned()).spawn(move || outlive_not(&pidfd))?;
    Ok(socket)
}

fn outlive_not(parent: &OwnedFd) {
    while poll(&mut [PollFd::new(parent, PollFlags::IN)], None).is_err() {}
    if getpgrp() == getpid() {
        let _ = kill_process_group(getpid(), Signal::KILL);
    }
    std::process::abort();
}
