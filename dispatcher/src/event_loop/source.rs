//! What can be waited on: a descriptor of the operating system, or an object of the simulated one.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use crate::status::Status;
use crate::sync::Arc;
use crate::sys::sim;

pub(crate) use crate::sys::{Interest, Readiness};

/// Something that can be waited on: everything that has a descriptor, and the objects of the simulated network.
///
/// The trait is sealed: it is implemented for all `T: AsFd` and for what the simulated system of the testing kit offers.
pub trait Waitable: sealed::Sealed {
    #[doc(hidden)]
    fn as_source(&self) -> Source<'_>;

    /// What it is known by as long as the process lives, if it is known at all. A descriptor by itself is not: its number
    /// is given again to somebody else.
    #[doc(hidden)]
    fn identity(&self) -> Option<u64> {
        None
    }
}

pub(crate) mod sealed {
    pub trait Sealed {}
    impl<T: std::os::fd::AsFd + ?Sized> Sealed for T {}
    impl Sealed for crate::sys::sim::Stream {}
    impl Sealed for crate::sys::sim::Listener {}
    impl Sealed for crate::sys::sim::Event {}
}

impl<T: AsFd + ?Sized> Waitable for T {
    fn as_source(&self) -> Source<'_> {
        Source::Fd(self.as_fd())
    }
}

impl Waitable for sim::Stream {
    fn as_source(&self) -> Source<'_> {
        Source::Sim(self.object().clone())
    }

    fn identity(&self) -> Option<u64> {
        Some(self.object().id() << 1 | 1)
    }
}

impl Waitable for sim::Listener {
    fn as_source(&self) -> Source<'_> {
        Source::Sim(self.object().clone())
    }

    fn identity(&self) -> Option<u64> {
        Some(self.object().id() << 1 | 1)
    }
}

impl Waitable for sim::Event {
    fn as_source(&self) -> Source<'_> {
        Source::Sim(self.object().clone())
    }

    fn identity(&self) -> Option<u64> {
        Some(self.object().id() << 1 | 1)
    }
}

/// Something that can become readable or writable.
#[derive(Clone)]
pub enum Source<'a> {
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

/// A source by number, for those who arm it again and again. Whoever gave it promised to keep it open meanwhile; if the
/// promise is broken the number may mean another file, as it does for every program.
#[derive(Debug, Clone)]
pub(crate) enum SourceId {
    Fd(RawFd),
    Sim(Arc<sim::Object>),
}

impl From<Source<'_>> for SourceId {
    fn from(source: Source<'_>) -> Self {
        match source {
            Source::Fd(fd) => SourceId::Fd(fd.as_raw_fd()),
            Source::Sim(object) => SourceId::Sim(object),
        }
    }
}

/// A wait that was not accepted: the reason, and the callback, unrun.
pub struct WaitError<F> {
    reason: WaitRefused,
    given: F,
}

impl<F> WaitError<F> {
    pub(crate) fn new(reason: WaitRefused, given: F) -> Self {
        WaitError { reason, given }
    }

    /// Why the wait was not accepted.
    pub fn reason(&self) -> &WaitRefused {
        &self.reason
    }

    /// What was refused.
    pub fn into_inner(self) -> F {
        self.given
    }

    /// The reason as a status.
    pub fn status(&self) -> Status {
        self.reason.status()
    }

    /// Drops what was refused and keeps the reason.
    pub fn into_status(self) -> Status {
        self.reason.status()
    }
}

impl<F> fmt::Debug for WaitError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WaitError({:?})", self.reason)
    }
}

impl<F> fmt::Display for WaitError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<F> std::error::Error for WaitError<F> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.reason.source()
    }
}

impl<F> From<WaitError<F>> for Status {
    fn from(error: WaitError<F>) -> Self {
        error.status()
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
    /// An irq has one handler at a time.
    #[error("this irq is bound already; unbind its handler first")]
    AlreadyBound,
    /// The operating system refused for another reason, such as its limit of watched descriptors.
    #[error("the operating system refuses to watch this descriptor")]
    System(#[source] io::Error),
}

impl WaitRefused {
    /// The condition as a status.
    pub fn status(&self) -> Status {
        match self {
            WaitRefused::NotPollable | WaitRefused::Simulated => Status::NotSupported,
            WaitRefused::AlreadyBound => Status::AlreadyExists,
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
