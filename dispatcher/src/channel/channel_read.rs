//! Registered reads: a handler that a dispatcher calls once when there is something to read.
//!
//! The registration is an operation of the dispatcher (`Kind::Read`), which decides who ends it, once: the handler's
//! call, the dispatcher's shutdown, or a cancel. The pair knows its id. Just before the handler is called, the end is
//! free again, so the handler may register the next read, on this dispatcher or another, and may close the end.

use std::fmt;
use std::panic::Location;

use super::channel::{Channel, ChannelPair};
use super::error::BeginReadError;
use super::pair::{Completion, ReadOp, Side};
use crate::runtime::callback_queue::{Callback, Invoke, Kind, OpId, Outcome, Stage};
use crate::runtime::dispatcher::DispatcherInner;
use crate::runtime::inline::Origin;
use crate::runtime::{CancelError, DispatcherHandle, TakenBack};
use crate::status::Status;
use crate::sync::Arc;
use crate::time::Instant;

/// A read that a dispatcher has accepted.
#[derive(Clone)]
pub(crate) struct Registered {
    dispatcher: Arc<DispatcherInner>,
    id: OpId,
}

impl ReadOp for Registered {
    type Handler = Callback;

    fn complete(&self, how: Completion) {
        // While this thread unwinds, nobody else's code is run on it.
        let origin = if std::thread::panicking() { Origin::Queued } else { Origin::Message };
        match how {
            Completion::Message => self.dispatcher.complete(self.id, Outcome::Done(0), origin),
            Completion::PeerClosed => self.dispatcher.complete(self.id, Outcome::Failed(Status::PeerClosed), origin),
            Completion::Canceled => self.dispatcher.cancel_with_notice(self.id),
        }
    }

    fn take_back(&self) -> Option<Callback> {
        self.dispatcher.take_back(self.id)
    }
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registered").field(&self.id).finish()
    }
}

/// A user's handler as a callback.
struct ReadFn<F> {
    pair: Arc<ChannelPair>,
    place: Place,
    handler: F,
}

/// The side of a registration and its number in one word, which leaves the handler more room in its callback.
#[derive(Debug, Clone, Copy)]
struct Place(u64);

impl Place {
    fn new(side: Side, generation: u64) -> Self {
        Place(generation << 1 | side as u64)
    }

    fn side(self) -> Side {
        if self.0 & 1 == Side::A as u64 { Side::A } else { Side::B }
    }

    fn generation(self) -> u64 {
        self.0 >> 1
    }
}

/// Notes the end of a handler, also of one that panics.
struct Running {
    pair: Arc<ChannelPair>,
    side: Side,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.pair.handler_ends(self.side);
    }
}

impl<F: FnOnce(Result<(), Status>) + Send + 'static> Invoke for ReadFn<F> {
    fn invoke(self, outcome: Outcome) {
        let ReadFn { pair, place, handler } = self;
        drop(pair.handler_begins(place.side(), place.generation()));
        let _running = Running { pair, side: place.side() };
        handler(outcome.into_result().map(drop));
    }
}

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
    /// [`BeginReadError`] with the handler, in this order: [`Status::PeerClosed`] when nothing is queued and the other
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
    pub fn begin_read<F>(&self, dispatcher: &DispatcherHandle, handler: F) -> Result<(), BeginReadError<F>>
    where
        F: FnOnce(Result<(), Status>) + Send + 'static,
    {
        let location = Location::caller();
        let inner = dispatcher.inner();
        let mut handler = Some(handler);
        let registered = self.pair.register(self.side, |is_ready, generation| {
            let make = || {
                let handler = handler.take().expect("an accepted handler is made once");
                let place = Place::new(self.side, generation);
                Callback::new(ReadFn { pair: Arc::clone(&self.pair), place, handler })
            };
            let accepted = if is_ready {
                inner.accept_ready(Kind::Read, location, make)
            } else {
                inner.accept_armed(Stage::Reading, Kind::Read, Instant::INFINITE, location, make)
            };
            let id = accepted.ok()?;
            Some(Registered { dispatcher: Arc::clone(inner), id })
        });
        registered.map_err(|status| {
            if status != Status::Unavailable {
                inner.count_refusal();
            }
            BeginReadError::new(status, handler.take().expect("a refused handler was not made"))
        })
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
        self.pair.cancel(self.side).map(TakenBack::new).ok_or(CancelError)
    }
}
