//! A child process with a socket, as its parent has it.
//!
//! # States
//! ```text
//!   runs ──it ends, however that is──▶ ended: not collected yet ──`ended`, or the drop──▶ collected
//! ```
//! A pidfd tells of the end, so a dispatcher waits for it as for any descriptor, and no signal handler is needed. Until it is
//! collected, the number of the process, and that of its group, belong to nobody else; nothing is sent to it after that.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};

use fuchsine_dispatcher::{Interest, ready};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// The variable by which a child is told the number of its parent.
pub(super) const PARENT: &str = "FUCHSINE_PARENT_PID";

/// A process that this one has started, and the group of processes that it began.
///
/// Dropping it kills the whole group and collects the process, so that none stays: neither running nor as a zombie.
///
/// # Examples
/// ```no_run
/// use std::process::Command;
/// use fuchsine_host::process::{Child, socket_pair};
///
/// # async fn watch() -> std::io::Result<()> {
/// let (ours, theirs) = socket_pair()?;
/// let mut child = Child::spawn(&mut Command::new("/usr/libexec/driver-process"), theirs)?;
/// // … a bridge on `ours` …
/// println!("the driver's process {}", child.ended().await?);
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping it kills the process"]
pub struct Child {
    process: std::process::Child,
    pidfd: OwnedFd,
    death: Option<Death>,
}

/// How a process has ended. Its text is a sentence without its subject: `4711 was killed by signal 11 (SIGSEGV)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    pid: u32,
    status: ExitStatus,
}

impl Child {
    /// Starts a program in a process group of its own, with `socket` as its standard input, where
    /// [`adopt`](super::adopt) takes it from. Everything else about the command is the caller's.
    ///
    /// # Errors
    /// What the system said: there is no such program, or no room for a process or a descriptor.
    pub fn spawn(command: &mut Command, socket: OwnedFd) -> io::Result<Child> {
        command.stdin(Stdio::from(socket)).process_group(0).env(PARENT, std::process::id().to_string());
        let spawned = command.spawn();
        // The command would keep the socket, and nobody were told when the child closes its own.
        command.stdin(Stdio::null());
        let mut process = spawned?;
        match pidfd_open(pid_of(&process), PidfdFlags::NONBLOCK) {
            Ok(pidfd) => Ok(Child { process, pidfd, death: None }),
            Err(error) => {
                let _ = kill_process_group(pid_of(&process), Signal::KILL);
                let _ = process.wait();
                Err(error.into())
            }
        }
    }

    /// The number of the process, which is that of its group too.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// A descriptor of the process.
    ///
    /// # Errors
    /// What the system said: this process has as many as it may.
    pub(crate) fn pidfd(&self) -> io::Result<OwnedFd> {
        self.pidfd.try_clone()
    }

    /// Waits for its end, and collects it. What is left of its group then is killed: nothing that it started outlives it.
    ///
    /// # Errors
    /// What the system said of the wait.
    ///
    /// # Thread requirements
    /// Polled on a dispatcher.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn ended(&mut self) -> io::Result<Death> {
        loop {
            if let Some(death) = self.try_ended()? {
                return Ok(death);
            }
            ready(&self.pidfd, Interest::READABLE).await.map_err(|status| io::Error::other(status.to_string()))?;
        }
    }

    /// How it has ended, if it has.
    ///
    /// # Errors
    /// What the system said.
    pub fn try_ended(&mut self) -> io::Result<Option<Death>> {
        if self.death.is_none() && self.has_ended()? {
            // The group first: once the process is collected, its number may be that of another group.
            self.kill()?;
            let status = self.process.wait()?;
            self.death = Some(Death { pid: self.process.id(), status });
        }
        Ok(self.death)
    }

    /// Whether it is over and not collected, without collecting it.
    fn has_ended(&self) -> io::Result<bool> {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        use std::os::fd::AsFd;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            match waitid(WaitId::PidFd(self.pidfd.as_fd()), options) {
                Ok(found) => return Ok(found.is_some()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Kills it and its group. One that has ended is left alone.
    ///
    /// # Errors
    /// What the system said.
    pub fn kill(&self) -> io::Result<()> {
        if self.death.is_some() {
            return Ok(());
        }
        match kill_process_group(pid_of(&self.process), Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn pid_of(process: &std::process::Child) -> Pid {
    Pid::from_child(process)
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.death.is_none() {
            let _ = self.kill();
            let _ = self.process.wait();
        }
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("id", &self.id()).field("death", &self.death).finish()
    }
}

impl Death {
    /// The number that the process had.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The signal that killed it, if one did.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// The exit code, unless a signal killed it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.signal(), self.code()) {
            (Some(signal), _) => {
                write!(f, "{} was killed by signal {signal}", self.pid)?;
                let name = signal_name(signal).map(|name| format!(" ({name})")).unwrap_or_default();
                let core = if self.status.core_dumped() { ", and left a core dump" } else { "" };
                write!(f, "{name}{core}")
            }
            (None, Some(code)) => write!(f, "{} ended with exit code {code}", self.pid),
            (None, None) => write!(f, "{} ended: {}", self.pid, self.status),
        }
    }
}

/// The names of those that end a process in practice.
fn signal_name(signal: i32) -> Option<&'static str> {
    let known = [
        (Signal::HUP, "SIGHUP"),
        (Signal::INT, "SIGINT"),
        (Signal::QUIT, "SIGQUIT"),
        (Signal::ILL, "SIGILL"),
        (Signal::TRAP, "SIGTRAP"),
        (Signal::ABORT, "SIGABRT"),
        (Signal::BUS, "SIGBUS"),
        (Signal::FPE, "SIGFPE"),
        (Signal::KILL, "SIGKILL"),
        (Signal::SEGV, "SIGSEGV"),
        (Signal::PIPE, "SIGPIPE"),
        (Signal::ALARM, "SIGALRM"),
        (Signal::TERM, "SIGTERM"),
        (Signal::XCPU, "SIGXCPU"),
        (Signal::XFSZ, "SIGXFSZ"),
        (Signal::SYS, "SIGSYS"),
    ];
    known.iter().find(|(known, _)| known.as_raw() == signal).map(|&(_, name)| name)
}
