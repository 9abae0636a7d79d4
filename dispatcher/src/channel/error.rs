//! What the operations of a channel answer when they do not do what was asked. Whatever was handed in comes back.

use std::fmt;

use super::message::Message;
use crate::status::Status;

/// A message was not sent. It is inside, whole, with its handles.
pub struct WriteError<M = Message> {
    status: Status,
    message: M,
}

impl<M> WriteError<M> {
    pub(crate) fn new(status: Status, message: M) -> Self {
        WriteError { status, message }
    }

    /// [`Status::PeerClosed`]: nobody would read it. [`Status::ShouldWait`]: the limit of the queue is reached.
    /// [`Status::InvalidArgs`]: it carries an endpoint with something registered, a running handler, or a call in flight.
    /// [`Status::NotSupported`]: it carries an end of the very channel.
    pub fn status(&self) -> Status {
        self.status
    }

    pub(crate) fn map<N>(self, f: impl FnOnce(M) -> N) -> WriteError<N> {
        WriteError { status: self.status, message: f(self.message) }
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
        f.write_str("the message was not sent: ")?;
        unsent(self.status, f)
    }
}

impl<M> std::error::Error for WriteError<M> {}

impl<M> From<WriteError<M>> for Status {
    fn from(error: WriteError<M>) -> Status {
        error.status
    }
}

/// Something was refused: a read, a wait for room, a call, or what one does with a token. What was handed in is inside,
/// unused.
pub struct Refused<F> {
    what: &'static str,
    status: Status,
    refused: F,
}

impl<F> Refused<F> {
    pub(crate) fn map<G>(self, f: impl FnOnce(F) -> G) -> Refused<G> {
        Refused { what: self.what, status: self.status, refused: f(self.refused) }
    }

    pub(crate) fn new(what: &'static str, status: Status, refused: F) -> Self {
        Refused { what, status, refused }
    }

    /// [`Status::PeerClosed`]: nobody is there any more. [`Status::BadState`]: one is registered already.
    /// [`Status::Unavailable`]: the dispatcher shuts down or has shut down. [`Status::NotFound`]: nothing is there yet.
    /// For what is sent also what [`WriteError::status`] lists.
    pub fn status(&self) -> Status {
        self.status
    }

    /// What was handed in.
    pub fn into_inner(self) -> F {
        self.refused
    }

    /// Drops what was handed in and keeps the status.
    pub fn into_status(self) -> Status {
        self.status
    }
}

impl<F> fmt::Debug for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Refused").field(&self.what).field(&self.status).finish()
    }
}

impl<F> fmt::Display for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} was refused: ", self.what)?;
        f.write_str(match self.status {
            Status::PeerClosed => "the other end is closed",
            Status::BadState => "one is registered already; cancel it or wait for its call",
            Status::Unavailable => "the dispatcher shuts down",
            Status::NotFound => "nothing is there yet",
            status => return unsent(status, f),
        })
    }
}

impl<F> std::error::Error for Refused<F> {}

impl<F> From<Refused<F>> for Status {
    fn from(error: Refused<F>) -> Status {
        error.status
    }
}

/// A call has no reply.
pub struct CallError<M = Message> {
    status: Status,
    unsent: Option<M>,
}

impl<M> CallError<M> {
    pub(crate) fn unsent(status: Status, request: M) -> Self {
        CallError { status, unsent: Some(request) }
    }

    pub(crate) fn sent(status: Status) -> Self {
        CallError { status, unsent: None }
    }

    /// [`Status::TimedOut`]: the deadline passed. [`Status::PeerClosed`]: the other end closed before it replied.
    /// [`Status::Canceled`]: the dispatcher of the caller shuts down. [`Status::BadState`]: this thread may not block.
    /// Else what [`WriteError::status`] lists.
    pub fn status(&self) -> Status {
        self.status
    }

    pub(crate) fn map<N>(self, f: impl FnOnce(M) -> N) -> CallError<N> {
        CallError { status: self.status, unsent: self.unsent.map(f) }
    }

    /// The request, if it was not sent.
    pub fn into_request(self) -> Option<M> {
        self.unsent
    }

    /// Drops the request, if it was not sent, and keeps the status.
    pub fn into_status(self) -> Status {
        self.status
    }
}

impl<M> fmt::Debug for CallError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallError").field("status", &self.status).field("sent", &self.unsent.is_none()).finish()
    }
}

impl<M> fmt::Display for CallError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.status, &self.unsent) {
            (Status::TimedOut, _) => "no reply came before the deadline",
            (Status::PeerClosed, None) => "the other end closed before it replied",
            (Status::Canceled, _) => "the call was canceled: the dispatcher of the caller shuts down",
            (Status::BadState, Some(_)) => {
                "the request was not sent: this thread may not block; allow sync calls on the dispatcher, or use \
                 `call_async` (in a foreground runtime with `run_until_stalled`)"
            }
            (status, Some(_)) => {
                f.write_str("the request was not sent: ")?;
                return unsent(status, f);
            }
            (status, None) => return write!(f, "no reply: {status}"),
        })
    }
}

impl<M> std::error::Error for CallError<M> {}

impl<M> From<CallError<M>> for Status {
    fn from(error: CallError<M>) -> Status {
        error.status
    }
}

/// Why a message is not sent.
fn unsent(status: Status, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(match status {
        Status::PeerClosed => "the other end is closed",
        Status::ShouldWait => "the queue is full; write again when the peer has read (`writable` tells when)",
        Status::InvalidArgs => {
            "it carries an endpoint with something registered or a call in flight; cancel that first"
        }
        Status::NotSupported => "it carries an end of the channel that it was written to",
        status => return write!(f, "{status}"),
    })
}
