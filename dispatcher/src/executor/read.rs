//! The next message of a channel as a future.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::channel::{Channel, Message};
use crate::status::Status;

/// Becomes ready with the next message. Made by [`Channel::read`].
///
/// # Cancel safety
/// Dropping it loses no message.
#[must_use = "a read does nothing until it is awaited"]
pub struct ChannelRead<'a> {
    channel: &'a Channel,
    /// Set while this future is the one that the end wakes.
    awaiting: Option<u64>,
}

impl Channel {
    /// Waits for the next message.
    ///
    /// The future is woken by the write itself; it registers no callback, so awaiting counts nowhere, and the memory that
    /// it needs is in the channel.
    ///
    /// # Errors
    /// [`Status::PeerClosed`] when no message is queued and none will come; [`Status::BadState`] when a read is
    /// registered on this end or another future waits on it. When its dispatcher shuts down, the future is dropped.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::{Channel, Message, Status};
    ///
    /// /// Answers until the client has gone.
    /// async fn serve(channel: Channel) -> Result<(), Status> {
    ///     loop {
    ///         match channel.read().await {
    ///             Ok(request) => channel.write(request)?,
    ///             Err(Status::PeerClosed) => return Ok(()),
    ///             Err(status) => return Err(status),
    ///         }
    ///     }
    /// }
    /// ```
    pub fn read(&self) -> ChannelRead<'_> {
        ChannelRead { channel: self, awaiting: None }
    }
}

impl Future for ChannelRead<'_> {
    type Output = Result<Message, Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        this.channel.poll_next(&mut this.awaiting, cx.waker())
    }
}

impl Drop for ChannelRead<'_> {
    fn drop(&mut self) {
        if let Some(awaiting) = self.awaiting {
            self.channel.stop_awaiting(awaiting);
        }
    }
}

impl fmt::Debug for ChannelRead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelRead").field("channel", self.channel).finish_non_exhaustive()
    }
}
