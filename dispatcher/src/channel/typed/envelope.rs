//! A value in a message, and out of it.
//!
//! The value is wrapped in a type of its own for each protocol and role, so that a request of one protocol is no request of
//! another, even if both are numbers.

use std::any::type_name;
use std::marker::PhantomData;

use super::Protocol;
use crate::channel::{Handle, Message, ReadError, Txid};
use crate::status::Status;

/// A request of a protocol.
pub(super) struct Request<P: Protocol>(pub(super) P::Request);

/// What comes back to a call: the reply, or why there is none.
pub(super) struct Answer<P: Protocol>(pub(super) Result<P::Reply, Status>);

/// An event of a protocol.
pub(super) struct Event<P: Protocol>(pub(super) P::Event);

/// Nothing was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// Nothing is there at this moment.
    #[error("nothing is queued at this moment")]
    ShouldWait,
    /// Nothing is there and nothing will come: the other end is closed.
    #[error("nothing is queued and the other end is closed")]
    PeerClosed,
    /// Something came that is not of this protocol, or not of this image. It was dropped.
    #[error("expected {expected} and found {found}, which was dropped")]
    WrongType {
        /// The type that was expected.
        expected: &'static str,
        /// What was in the message: a type, `"bytes"`, or `"a value of another image"`.
        found: &'static str,
    },
}

impl ReceiveError {
    /// The condition as a status.
    pub fn status(self) -> Status {
        match self {
            ReceiveError::ShouldWait => Status::ShouldWait,
            ReceiveError::PeerClosed => Status::PeerClosed,
            ReceiveError::WrongType { .. } => Status::WrongType,
        }
    }
}

impl From<ReceiveError> for Status {
    fn from(error: ReceiveError) -> Status {
        error.status()
    }
}

impl From<ReadError> for ReceiveError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::ShouldWait => ReceiveError::ShouldWait,
            ReadError::PeerClosed => ReceiveError::PeerClosed,
        }
    }
}

/// Where a type stands that is only named.
pub(super) type Of<P> = PhantomData<fn() -> P>;

/// The message that carries a value.
pub(super) fn seal<T: Send + 'static>(value: T) -> Message {
    Message::new().with(Handle::value(value))
}

/// The value that a message of [`seal`] carries, and the call that it belongs to.
pub(super) fn open<T: Send + 'static>(mut message: Message) -> (Result<T, ReceiveError>, Option<Txid>) {
    let txid = message.txid();
    let expected = type_name::<T>();
    let wrong = |found| Err(ReceiveError::WrongType { expected, found });
    let opened = match message.take_only_handle() {
        Some(Handle::Value(value)) => match value.downcast() {
            Ok(value) => Ok(value),
            Err(foreign) if !foreign.is_of_this_image() => wrong("a value of another image"),
            Err(other) => wrong(other.type_name()),
        },
        None if message.handles().is_empty() => wrong("bytes"),
        _ => wrong("other handles"),
    };
    (opened, txid)
}

/// The value of a message that was not sent. It was sealed by the caller a moment ago.
pub(super) fn unseal<T: Send + 'static>(message: Message) -> T {
    match open(message).0 {
        Ok(value) => value,
        Err(error) => unreachable!("the message is as it was sealed: {error}"),
    }
}
