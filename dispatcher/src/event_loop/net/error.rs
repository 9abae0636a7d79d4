//! [`NetError`]: what becomes of an operation on the network; [`NetRefused`]: one that was not accepted.

use std::fmt;
use std::io;

use crate::event_loop::source::WaitRefused;
use crate::status::Status;
use crate::sync::Arc;

/// Why an operation on the network did not succeed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// The other side has sent everything. Nothing more can be read; it may still read what is written.
    #[error("the other side has sent everything")]
    End,
    /// The other side is gone, and what was under way is lost.
    #[error("the connection was reset by the other side")]
    Reset,
    /// Nothing moved, or no connection came about, for as long as was allowed.
    #[error("the time that was allowed has passed")]
    TimedOut,
    /// The loop shuts down, or the operation was canceled.
    #[error("canceled: the loop shuts down, or somebody canceled this")]
    Canceled,
    /// This side has closed it.
    #[error("the connection is closed")]
    Closed,
    /// This side has said before that it would write no more.
    #[error("this side has finished writing")]
    Finished,
    /// More waits to be sent than is allowed. Try again when told that there is room.
    #[error("the write queue is full; wait for room with `writable`")]
    Full,
    /// There is one already.
    #[error("a read is registered already; `stop_reading` ends it")]
    AlreadyReading,
    /// Listeners are opened from loop 0 of a manager.
    #[error("listeners are opened from loop 0 of a manager; get there with `async_run`")]
    NotMainLoop,
    /// The loop has ended.
    #[error("the loop has ended")]
    LoopEnded,
    /// The operating system says no, for another reason.
    #[error("the operating system refuses: {0}")]
    System(#[source] Arc<io::Error>),
}

impl NetError {
    /// The condition as a status.
    pub fn status(&self) -> Status {
        match self {
            NetError::End => Status::PeerClosed,
            NetError::Reset => Status::ConnectionReset,
            NetError::TimedOut => Status::TimedOut,
            NetError::Canceled => Status::Canceled,
            NetError::Full => Status::ShouldWait,
            NetError::Closed | NetError::Finished | NetError::NotMainLoop | NetError::LoopEnded => Status::BadState,
            NetError::AlreadyReading => Status::AlreadyBound,
            NetError::System(error) => Status::from(&**error),
        }
    }
}

impl From<NetError> for Status {
    fn from(error: NetError) -> Self {
        error.status()
    }
}

impl From<io::Error> for NetError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
                NetError::Reset
            }
            // What the kernel gave up on, such as a peer that does not answer any more.
            io::ErrorKind::TimedOut => NetError::TimedOut,
            _ => NetError::System(Arc::new(error)),
        }
    }
}

impl From<&WaitRefused> for NetError {
    fn from(refused: &WaitRefused) -> Self {
        match refused {
            WaitRefused::Closed => NetError::LoopEnded,
            WaitRefused::System(error) => {
                let same = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
                NetError::System(Arc::new(same))
            }
            other => NetError::System(Arc::new(io::Error::other(other.to_string()))),
        }
    }
}

/// An operation that was not accepted: the reason, and what was given for it (bytes, a callback), untouched.
pub struct NetRefused<G> {
    reason: NetError,
    given: G,
}

impl<G> NetRefused<G> {
    pub(super) fn new(reason: impl Into<NetError>, given: G) -> Self {
        NetRefused { reason: reason.into(), given }
    }

    /// Why it was not accepted.
    pub fn reason(&self) -> &NetError {
        &self.reason
    }

    /// What was given.
    pub fn into_inner(self) -> G {
        self.given
    }

    /// The reason as a status.
    pub fn status(&self) -> Status {
        self.reason.status()
    }

    /// Drops what was given and keeps the reason.
    pub fn into_status(self) -> Status {
        self.reason.status()
    }
}

impl<G> fmt::Debug for NetRefused<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NetRefused({:?})", self.reason)
    }
}

impl<G> fmt::Display for NetRefused<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<G> std::error::Error for NetRefused<G> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.reason.source()
    }
}

impl<G> From<NetRefused<G>> for Status {
    fn from(error: NetRefused<G>) -> Self {
        error.status()
    }
}
