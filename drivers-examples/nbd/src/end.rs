//! [`End`]: why a connection is over, as the log tells it.

use std::fmt;

use fuchsine_driver::{Level, Status};

use crate::patience::Exhausted;
use crate::protocol::Violation;
use crate::session::DeviceFault;

/// Why a connection is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The client said that it was done.
    Disconnected,
    /// The client closed the connection without a word.
    Left { within_request: bool },
    /// The client broke the protocol.
    Violation(Violation),
    /// The client kept the server waiting.
    Exhausted(Exhausted),
    /// The server is stopping; `unfinished` requests were still open after the time of grace.
    Stopped { unfinished: usize },
    /// The device failed in a way that ends the connection.
    Device(DeviceFault),
    /// The device could not be reached, or is gone.
    DeviceGone(Status),
    /// The connection itself failed.
    Socket(Status),
}

impl End {
    /// How much this matters to who reads the log.
    pub(crate) fn level(&self) -> Level {
        match self {
            End::Disconnected | End::Left { within_request: false } | End::Stopped { unfinished: 0 } => Level::Debug,
            End::Left { .. } | End::Exhausted(Exhausted::Idle(_)) | End::Socket(_) => Level::Info,
            End::Violation(_) | End::Exhausted(_) | End::Stopped { .. } => Level::Warn,
            End::Device(_) | End::DeviceGone(_) => Level::Error,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Disconnected => f.write_str("the client disconnected"),
            End::Left { within_request: false } => {
                f.write_str("the client closed the connection without disconnecting")
            }
            End::Left { within_request: true } => {
                f.write_str("the client closed the connection in the middle of a request")
            }
            End::Violation(violation) => violation.fmt(f),
            End::Exhausted(reason) => reason.fmt(f),
            End::Stopped { unfinished: 0 } => f.write_str("the server stops"),
            End::Stopped { unfinished } => {
                write!(f, "the server stops, and the client did not take its last {unfinished} replies in time")
            }
            End::Device(fault) => fault.fmt(f),
            End::DeviceGone(status) => write!(f, "the block device is out of reach: {status}"),
            End::Socket(status) => write!(f, "the connection broke: {status}"),
        }
    }
}

impl From<Violation> for End {
    fn from(violation: Violation) -> Self {
        End::Violation(violation)
    }
}

impl From<DeviceFault> for End {
    fn from(fault: DeviceFault) -> Self {
        End::Device(fault)
    }
}
