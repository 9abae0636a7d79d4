//! Waiting for room: how a writer learns that a queue that was full takes a message again.

use std::task::{Poll, Waker};

use super::channel::Channel;
use super::ends::Wanted;
use super::error::Refused;
use crate::runtime::{CancelError, DispatcherHandle, TakenBack};
use crate::site::Site;
use crate::status::Status;
use crate::sync::probe::{self, Point};

impl Channel {
    /// Registers `handler`, which is called once on `dispatcher` when the queue of the peer takes a message of `bytes`:
    /// `Ok` then (at once if it does), [`Status::PeerClosed`] when the peer closes first, [`Status::Canceled`] when the
    /// dispatcher shuts down or this end is closed first.
    ///
    /// It is what a writer does after [`Status::ShouldWait`]. If several write to this end, another may have taken the
    /// room; then it waits once more. The registration ends just before the call.
    ///
    /// # Errors
    /// [`Refused`] with the handler, in this order: [`Status::PeerClosed`]; [`Status::BadState`] when somebody
    /// waits for room on this end already; [`Status::Unavailable`] when the dispatcher shuts down or has shut down.
    ///
    /// # Thread requirements
    /// Any thread. The handler is never called inside of this call; it may be called inside of the peer's
    /// [`try_read`](Channel::try_read), as the handler of a read may be inside of a write.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::{Channel, DispatcherHandle, Message, Status};
    /// use std::sync::Arc;
    ///
    /// /// Sends a message as soon as the peer takes it.
    /// fn send(channel: Arc<Channel>, home: DispatcherHandle, message: Message) -> Result<(), Status> {
    ///     let Err(refused) = channel.write(message) else { return Ok(()) };
    ///     if refused.status() != Status::ShouldWait {
    ///         return Err(refused.into_status());
    ///     }
    ///     let (message, end, again) = (refused.into_message(), Arc::clone(&channel), home.clone());
    ///     channel.begin_writable(&home, message.len(), move |outcome| {
    ///         if outcome.is_ok() {
    ///             let _ = send(end, again, message);
    ///         }
    ///     })?;
    ///     Ok(())
    /// }
    /// ```
    #[track_caller]
    pub fn begin_writable<F>(&self, dispatcher: &DispatcherHandle, bytes: usize, handler: F) -> Result<(), Refused<F>>
    where
        F: FnOnce(Result<(), Status>) + Send + 'static,
    {
        self.begin_writable_from(Site::caller(), dispatcher, bytes, handler)
    }

    /// As [`begin_writable`](Channel::begin_writable), for code of others: the handler is listed as posted at `site`.
    ///
    /// # Errors
    /// As [`begin_writable`](Channel::begin_writable).
    pub fn begin_writable_from<F>(
        &self,
        site: Site,
        dispatcher: &DispatcherHandle,
        bytes: usize,
        handler: F,
    ) -> Result<(), Refused<F>>
    where
        F: FnOnce(Result<(), Status>) + Send + 'static,
    {
        self.begin_wait(Wanted::Room, dispatcher, site, handler, |pair, accept| {
            pair.register_room(self.side, bytes, accept)
        })
        .map_err(|(status, handler)| Refused::new("wait for room", status, handler))
    }

    /// Takes the registered wait for room back, like [`cancel_read`](Channel::cancel_read).
    ///
    /// # Errors
    /// [`CancelError`] when none is registered, or its handler begins at this moment.
    pub fn cancel_writable(&self) -> Result<TakenBack, CancelError> {
        probe::point(Point::Cancel);
        self.pair.cancel(self.side, Wanted::Room).map(TakenBack::new).ok_or(CancelError)
    }

    /// For the future: whether a message of `bytes` is taken, or the waker is noted.
    pub(crate) fn poll_writable(
        &self,
        bytes: usize,
        awaiting: &mut Option<u64>,
        waker: &Waker,
    ) -> Poll<Result<(), Status>> {
        self.pair.poll_room(self.side, bytes, awaiting, waker)
    }

    /// The future of this mark is dropped.
    pub(crate) fn stop_awaiting_room(&self, awaiting: u64) {
        drop(self.pair.stop_awaiting(self.side, Wanted::Room, awaiting));
    }
}
