//! Stream sockets for drivers, on TCP (`HOST:PORT`) and on Unix paths (`unix:/path`). Whether they are real or simulated
//! is the host's business; nothing here blocks.

mod listener;
mod stream;
mod wait;

use thiserror::Error;

pub use listener::Listener;
pub use stream::{Shutdown, Stream};
pub use wait::{Interest, Readiness, Ready, WaitHandle, ready};

use crate::Status;

/// Listening or connecting did not work.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct BindError {
    status: Status,
    message: String,
}

impl BindError {
    pub(crate) fn new(address: &str, (status, message): (Status, String)) -> Self {
        let message = if message.is_empty() { format!("{address}: {status}") } else { message };
        BindError { status, message }
    }

    /// Why: `AddressInUse`, `InvalidArgs` for a malformed address, and so on.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Why, alone.
    pub fn into_status(self) -> Status {
        self.status
    }
}

impl From<BindError> for Status {
    fn from(error: BindError) -> Self {
        error.status
    }
}
