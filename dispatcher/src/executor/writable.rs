//! Room in the queue of a channel as a future.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::channel::Channel;
use crate::status::Status;

/// Becomes ready when a message of the size would be taken. Made by [`Channel::writable`].
#[must_use = "a wait for room does nothing until it is awaited"]
pub struct Writable<'a> {
    channel: &'a Channel,
    bytes: usize,
    /// Set while this future is the one that the end wakes.
    awaiting: Option<u64>,
}

impl Channel {
    /// Waits until the queue of the peer takes a message of `bytes`. If several write to this end, another may have
    /// taken the room by then.
    ///
    /// # Errors
    /// [`Status::PeerClosed`]; [`Status::BadState`] when somebody else waits for room on this end. When its dispatcher
    /// shuts down, the future is dropped.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::{Channel, Message, Status};
    ///
    /// async fn send(channel: &Channel, mut message: Message) -> Result<(), Status> {
    ///     loop {
    ///         channel.writable(message.len()).await?;
    ///         match channel.write(message) {
    ///             Err(refused) if refused.status() == Status::ShouldWait => message = refused.into_message(),
    ///             outcome => return outcome.map_err(Status::from),
    ///         }
    ///     }
    /// }
    /// ```
    pub fn writable(&self, bytes: usize) -> Writable<'_> {
        Writable { channel: self, bytes, awaiting: None }
    }
}

impl Future for Writable<'_> {
    type Output = Result<(), Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.channel.poll_writable(this.bytes, &mut this.awaiting, cx.waker())
    }
}

impl Drop for Writable<'_> {
    fn drop(&mut self) {
        if let Some(awaiting) = self.awaiting {
            self.channel.stop_awaiting_room(awaiting);
        }
    }
}

impl fmt::Debug for Writable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writable").field("channel", self.channel).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
