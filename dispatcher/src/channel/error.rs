//! What the operations of a channel answer when they do not do what was asked. Whatever was handed in comes back.

use std::fmt;

use crate::status::Status;

/// A message was not sent. It is inside, whole, with its handles.
pub struct WriteError<M = super::Message> {
    status: Status,
    message: M,
}

impl<M> WriteError<M> {
    pub(crate) fn new(status: Status, message: M) -> Self {
        WriteError { status, message }
    }

    /// [`Status::PeerClosed`]: nobody would read it. [`Status::ShouldWait`]: the limit of the queue is reached.
    /// [`Status::InvalidArgs`]: it carries an endpoint that has a registered read or a running handler.
    /// [`Status::NotSupported`]: it carries an end of the very channel.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The message.
    pub fn message(&self) -> &M {
        &self.message
    }

    /// The message, to be kept.
    pub fn into_message(self) -> M {
        self.message
    }

    /// Drops the message and keeps the status.
    pub fn into_status(self) -> Status {
        self.status
    }
}

impl<M> fmt::Debug for WriteError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteError").field(&self.status).finish()
    }
}

impl<M> fmt::Display for WriteError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.status {
            Status::PeerClosed => "the message was not sent: the other end is closed",
            Status::ShouldWait => "the message was not sent: the queue is full; write again when the peer has read",
            Status::InvalidArgs => {
                "the message was not sent: it carries an endpoint with a registered read; cancel the read first"
            }
            Status::NotSupported => "the message was not sent: it carries an end of the channel that it was written to",
            status => return write!(f, "the message was not sent: {status}"),
        })
    }
}

impl<M> std::error::Error for WriteError<M> {}

impl<M> From<WriteError<M>> for Status {
    fn from(error: WriteError<M>) -> Status {
        error.status
    }
}

/// A read was not registered. The handler is inside, uncalled.
pub struct BeginReadError<F> {
    status: Status,
    refused: F,
}

impl<F> BeginReadError<F> {
    pub(crate) fn new(status: Status, refused: F) -> Self {
        BeginReadError { status, refused }
    }

    /// [`Status::PeerClosed`]: nothing is queued and nothing will come. [`Status::BadState`]: a read is registered
    /// already. [`Status::Unavailable`]: the dispatcher shuts down or has shut down.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The handler.
    pub fn into_inner(self) -> F {
        self.refused
    }

    /// Drops the handler and keeps the status.
    pub fn into_status(self) -> Status {
        self.status
    }
}

impl<F> fmt::Debug for BeginReadError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BeginReadError").field(&self.status).finish()
    }
}

impl<F> fmt::Display for BeginReadError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.status {
            Status::PeerClosed => "the read was refused: nothing is queued and the other end is closed",
            Status::BadState => "the read was refused: one is registered on this end; cancel it or wait for its call",
            Status::Unavailable => "the read was refused: the dispatcher shuts down",
            status => return write!(f, "the read was refused: {status}"),
        })
    }
}

impl<F> std::error::Error for BeginReadError<F> {}

impl<F> From<BeginReadError<F>> for Status {
    fn from(error: BeginReadError<F>) -> Status {
        error.status
    }
}
