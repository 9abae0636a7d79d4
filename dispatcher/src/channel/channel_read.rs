//! Registered reads: a handler that a dispatcher calls once when there is something to read.

use super::channel::Channel;
use super::ends::Wanted;
use super::error::Refused;
use crate::runtime::{CancelError, DispatcherHandle, TakenBack};
use crate::site::Site;
use crate::status::Status;
use crate::sync::probe::{self, Point};

impl Channel {
    /// Registers `handler`, which is called once on `dispatcher` when there is something to read: `Ok` when at least
    /// one message is queued (at once if one is), [`Status::PeerClosed`] when none is and none will come,
    /// [`Status::Canceled`] when the dispatcher shuts down or this end is closed first. No message is lost by that.
    ///
    /// The registration ends just before the call: the handler reads as much as it wants and may register again.
    /// Further messages that arrive before the call cause no further calls. If somebody else reads on this end, the
    /// handler may find that the message is gone.
    ///
    /// # Errors
    /// [`Refused`] with the handler, in this order: [`Status::PeerClosed`] when nothing is queued and the other
    /// end is closed; [`Status::BadState`] when a read is registered on this end; [`Status::Unavailable`] when the
    /// dispatcher shuts down or has shut down.
    ///
    /// # Thread requirements
    /// Any thread. The handler is never called inside of this call.
    ///
    /// # Examples
    /// ```
    /// # use std::sync::Arc;
    /// use fuchsine_dispatcher::{Channel, DispatcherHandle, Status};
    ///
    /// /// Answers every message with itself.
    /// fn echo(channel: Arc<Channel>, dispatcher: DispatcherHandle) -> Result<(), Status> {
    ///     let (end, home) = (Arc::clone(&channel), dispatcher.clone());
    ///     channel.begin_read(&dispatcher, move |outcome| {
    ///         while let Ok(message) = end.try_read() {
    ///             // A peer that has gone away needs no answer.
    ///             let _ = end.write(message);
    ///         }
    ///         if outcome.is_ok() {
    ///             let _ = echo(end, home);
    ///         }
    ///     })?;
    ///     Ok(())
    /// }
    /// ```
    #[track_caller]
    pub fn begin_read<F>(&self, dispatcher: &DispatcherHandle, handler: F) -> Result<(), Refused<F>>
    where
        F: FnOnce(Result<(), Status>) + Send + 'static,
    {
        self.begin_read_from(Site::caller(), dispatcher, handler)
    }

    /// As [`begin_read`](Channel::begin_read), for code of others: the handler is listed as posted at `site`.
    ///
    /// # Errors
    /// As [`begin_read`](Channel::begin_read).
    pub fn begin_read_from<F>(&self, site: Site, dispatcher: &DispatcherHandle, handler: F) -> Result<(), Refused<F>>
    where
        F: FnOnce(Result<(), Status>) + Send + 'static,
    {
        self.begin_wait(Wanted::Message, dispatcher, site, handler, |pair, accept| {
            pair.register(self.side, accept)?;
            pair.readers.note(self.side, dispatcher.id().as_raw());
            Ok(())
        })
        .map_err(|(status, handler)| Refused::new("read", status, handler))
    }

    /// Takes the registered read back: its handler will never be called, and belongs to the caller. Messages stay where
    /// they are.
    ///
    /// # Errors
    /// [`CancelError`] when no read is registered, or its handler begins at this moment. The end is free for the next
    /// registration in either case.
    ///
    /// # Thread requirements
    /// Any thread. On the synchronized dispatcher's own callbacks it always succeeds until the handler has begun.
    pub fn cancel_read(&self) -> Result<TakenBack, CancelError> {
        probe::point(Point::Cancel);
        self.pair.cancel(self.side, Wanted::Message).map(TakenBack::new).ok_or(CancelError)
    }
}
