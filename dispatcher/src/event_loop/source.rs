//! What can be waited on: a descriptor of the operating system, or an object of the simulated one.

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

use crate::status::Status;
use crate::sync::Arc;
use crate::sys::sim;

pub(crate) use crate::sys::{Interest, Readiness};

/// Something that can become readable or writable.
#[derive(Clone)]
pub(crate) enum Source<'a> {
    /// A descriptor. It must stay open as long as somebody waits on it.
    Fd(BorrowedFd<'a>),
    /// An object that lives in memory.
    Sim(Arc<sim::Object>),
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Fd(fd) => write!(f, "Source({fd:?})"),
            Source::Sim(object) => write!(f, "Source({object:?})"),
        }
    }
}

/// Why a wait was not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitRefused {
    /// Regular files and folders (and some devices) are always "ready" and cannot be polled.
    #[error(
        "this descriptor cannot be polled, as is the case for regular files; read or write it with `offload` instead"
    )]
    NotPollable,
    /// The number names no open descriptor.
    #[error("this descriptor is not open")]
    NotOpen,
    /// Neither readability nor writability was asked for.
    #[error("a wait needs something to wait for: readable, writable or both")]
    NoInterest,
    /// A simulated reactor has no kernel to ask.
    #[error(
        "this runtime is simulated and waits on simulated objects only, not on descriptors of the operating system"
    )]
    Simulated,
    /// The loop or dispatcher that would have run the callback has closed.
    #[error("the loop has closed")]
    Closed,
    /// The operating system refused for another reason, such as its limit of watched descriptors.
    #[error("the operating system refuses to watch this descriptor")]
    System(#[source] io::Error),
}

impl WaitRefused {
    /// The condition as a status.
    pub fn status(&self) -> Status {
        match self {
            WaitRefused::NotPollable | WaitRefused::Simulated => Status::NotSupported,
            WaitRefused::NotOpen => Status::BadHandle,
            WaitRefused::NoInterest => Status::InvalidArgs,
            WaitRefused::Closed => Status::BadState,
            WaitRefused::System(error) => Status::from(error),
        }
    }
}

impl From<WaitRefused> for Status {
    fn from(error: WaitRefused) -> Self {
        error.status()
    }
}
