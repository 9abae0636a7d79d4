//! Channels: messages between drivers, in order, without copying.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use crate::abi::{CallSite, ChannelObject, here};
use crate::dispatcher::PostError;
use crate::slot::Slot;
use crate::{Dispatcher, Message, Status, Txid, current};

/// One end of a channel. Both ends write and read; dropping one closes it, and the other one reads what was sent and
/// then sees `PeerClosed`.
#[derive(Debug)]
pub struct Channel {
    object: ChannelObject,
    /// The registration of `poll_read` and `read`, until its outcome was taken.
    waiting: Mutex<Waiting>,
}

type Waiting = Option<Arc<Slot<Result<(), Status>>>>;

impl Channel {
    /// A new pair, with no limit on the messages that wait.
    ///
    /// # Errors
    /// `NoResources`, or `BadState` in an image that no host has attached.
    #[track_caller]
    pub fn pair() -> Result<(Channel, Channel), Status> {
        Channel::pair_with_limit(0)
    }

    /// A new pair, where at most `limit` messages may wait in each direction (0: no limit).
    ///
    /// # Errors
    /// As [`pair`](Self::pair).
    #[track_caller]
    pub fn pair_with_limit(limit: usize) -> Result<(Channel, Channel), Status> {
        let (a, b) = ChannelObject::pair(here::<Channel>(), limit)?;
        Ok((Channel::from_object(a), Channel::from_object(b)))
    }

    pub(crate) fn from_object(object: ChannelObject) -> Self {
        Channel { object, waiting: Mutex::new(None) }
    }

    pub(crate) fn object(&self) -> &ChannelObject {
        &self.object
    }

    pub(crate) fn into_object(self) -> ChannelObject {
        self.give_up_read();
        self.object
    }

    /// Sends a message: its bytes and handles move to the peer. The peer's callback may run before this returns. One that
    /// [replies](Message::in_reply_to) to a call goes to whoever made it.
    ///
    /// # Errors
    /// `PeerClosed`; `ShouldWait` at the limit; `InvalidArgs` for a channel end that has a registered read;
    /// `NotSupported` for the peer of this very end, which nobody could read again. The message is inside the error,
    /// whole.
    pub fn write(&self, message: Message) -> Result<(), WriteError> {
        let (content, txid) = message.into_parts();
        self.object
            .write(content, Txid::into_parts(txid))
            .map_err(|(content, status)| WriteError { status, message: Message::from_parts(content, txid) })
    }

    /// Takes the oldest message.
    ///
    /// # Errors
    /// `ShouldWait`: none is there. `PeerClosed`: none is there and none will come.
    pub fn try_read(&self) -> Result<Message, Status> {
        let (content, txid) = self.object.read()?;
        Ok(Message::from_parts(content, Txid::from_parts(txid)))
    }

    /// The next message. One task reads at a time.
    ///
    /// # Errors
    /// `PeerClosed`: no message will come. `Canceled`: the dispatcher that awaits shuts down. `BadState`: another read
    /// is registered, or this is polled outside of any dispatcher.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    #[track_caller]
    pub fn read(&self) -> Read<'_> {
        Read { channel: self, site: here::<Read<'_>>(), polled: false }
    }

    /// The next message, for futures that watch several things; see [`read`](Self::read). The task that polled last is
    /// woken.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[track_caller]
    pub fn poll_read(&self, cx: &mut Context<'_>) -> Poll<Result<Message, Status>> {
        self.poll_read_at(here::<Channel>(), cx)
    }

    /// As [`poll_read`](Self::poll_read), from a site that was noted before.
    pub(crate) fn poll_read_at(&self, site: &'static CallSite, cx: &mut Context<'_>) -> Poll<Result<Message, Status>> {
        loop {
            let waiting = self.waiting().clone();
            if let Some(slot) = waiting {
                let told = std::task::ready!(slot.poll_take(cx));
                *self.waiting() = None;
                // A peer that has closed may have left messages: the read below tells.
                match told {
                    Ok(()) | Err(Status::PeerClosed) => {}
                    Err(status) => return Poll::Ready(Err(status)),
                }
            }
            match self.try_read() {
                Err(Status::ShouldWait) => {}
                done => return Poll::Ready(done),
            }
            let Some(dispatcher) = current() else { return Poll::Ready(Err(Status::BadState)) };
            let slot = Arc::new(Slot::new());
            let filled = Arc::clone(&slot);
            match self.begin_read_at(site, &dispatcher, move |told| filled.fill(told)) {
                Ok(()) => *self.waiting() = Some(slot),
                // Closed since the look above, perhaps after a last message.
                Err(error) if error.status() == Status::PeerClosed => {}
                Err(error) if error.status() == Status::Unavailable => return Poll::Ready(Err(Status::Canceled)),
                Err(error) => return Poll::Ready(Err(error.into_status())),
            }
        }
    }

    /// Takes back the registration of `poll_read`, if there is one.
    fn give_up_read(&self) {
        let waiting = self.waiting().take();
        if waiting.is_some_and(|slot| !slot.is_filled()) {
            // Too late is as good: the slot has nobody to wake.
            let _ = self.object.cancel_read();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers `f`, to be called once on `dispatcher` when a message is there, the peer is closed with nothing left to
    /// read (`PeerClosed`), or the dispatcher shuts down (`Canceled`). It then reads what it wants and may register
    /// again.
    ///
    /// # Errors
    /// `BadState`: a read is registered already. `PeerClosed`: at once. `Unavailable`: the dispatcher is shutting down.
    /// The closure is inside the error.
    #[track_caller]
    pub fn begin_read<F>(&self, dispatcher: &Dispatcher, f: F) -> Result<(), PostError<F>>
    where
        F: FnOnce(Result<(), Status>) + Send + 'static,
    {
        self.begin_read_at(here::<F>(), dispatcher, f)
    }

    /// As [`begin_read`](Self::begin_read), from a site that was noted before.
    pub(crate) fn begin_read_at<F>(
        &self,
        site: &'static CallSite,
        dispatcher: &Dispatcher,
        f: F,
    ) -> Result<(), PostError<F>>
    where
        F: FnOnce(Result<(), Status>) + Send + 'static,
    {
        self.object.begin_read(site, dispatcher.object(), f).map_err(PostError::new)
    }

    /// Takes the registered callback back. No message is lost.
    ///
    /// # Errors
    /// `NotFound`: none is registered, or it is being called.
    pub fn cancel_read(&self) -> Result<(), Status> {
        self.object.cancel_read()
    }
}

/// The future of [`Channel::read`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Read<'a> {
    channel: &'a Channel,
    site: &'static CallSite,
    /// Whether a registration may be this future's.
    polled: bool,
}

impl Future for Read<'_> {
    type Output = Result<Message, Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.polled = true;
        self.channel.poll_read_at(self.site, cx)
    }
}

impl Drop for Read<'_> {
    fn drop(&mut self) {
        if self.polled {
            self.channel.give_up_read();
        }
    }
}

/// A message that could not be sent; it is inside, with its handles.
#[derive(Debug)]
pub struct WriteError {
    status: Status,
    message: Message,
}

impl WriteError {
    /// Why.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Why, alone; the message is dropped.
    pub fn into_status(self) -> Status {
        self.status
    }

    /// The message.
    pub fn into_message(self) -> Message {
        self.message
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the message could not be sent: {}", self.status)
    }
}

impl std::error::Error for WriteError {}

impl From<WriteError> for Status {
    fn from(error: WriteError) -> Self {
        error.status
    }
}
