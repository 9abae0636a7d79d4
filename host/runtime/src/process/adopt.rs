//! The other side of a [`Child`](super::Child): what a process does first that was started as one.
//!
//! # Invariants
//! - [`close_inherited`] runs before anything in the process has opened a descriptor, so none that it closes has an owner.

use std::io;
use std::os::fd::{AsFd, OwnedFd, RawFd};

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

/// Closes everything that this process has inherited besides its three standard streams: what the parent has by its own
/// inheritance is not for drivers in another process.
///
/// Only at the begin of `main`: what this process has opened itself is closed too.
///
/// # Errors
/// The list of what is open cannot be read.
#[allow(unsafe_code, reason = "there is no safe way to close what nobody in this process owns")]
pub(crate) fn close_inherited() -> io::Result<()> {
    let mut open: Vec<RawFd> = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        open.extend(entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()));
    }
    // The list itself was open, and is closed by now.
    for descriptor in open.into_iter().filter(|&descriptor| descriptor > 2) {
        // SAFETY: nothing in this process owns a descriptor above the standard streams yet, as the caller vouches for.
        let still_open = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
        if rustix::io::fcntl_getfd(still_open).is_ok() {
            // SAFETY: as above, and it is there.
            unsafe { rustix::io::close(descriptor) };
        }
    }
    Ok(())
}
