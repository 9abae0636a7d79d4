//! Handlers that are handed each message: standing reads that read one message by the lock that begins them.
//!
//! A standing read is told that there is something and reads it by a lock of its own, because somebody else may read the
//! same end. Here the message leaves the queue, or never enters it, in the step by which its handler begins:
//!
//! - In a write that runs the handler inline: the message is put into the handler before the lock is released.
//! - When the handler has returned and begins again at once: the next message comes with that.
//! - When it begins later, by a lock of its own: with that.
//!
//! What else ends or delays a handler is as for a standing read, and leaves the messages where they are.

use std::any::Any;
use std::ops::ControlFlow;

use super::channel::{Channel, ChannelPair};
use super::ends::Wanted;
use super::error::Refused;
use super::message::Message;
use super::registration::{HAS_BEGUN, Place, Registered};
use super::slot::Term;
use super::standing_read::{Ends, accept_again};
use super::wait_op::Next;
use crate::runtime::DispatcherHandle;
use crate::runtime::again::Again;
use crate::runtime::callback_queue::{Callback, Outcome, Stay, Then};
use crate::site::Site;
use crate::status::Status;
use crate::sync::Arc;
use crate::sync::probe::{self, Point};

/// What is handed each message.
pub(super) trait Receive: Send + 'static {
    /// A message, or why no more will come. Whether it waits for more.
    fn receive(&mut self, outcome: Result<Message, Status>) -> ControlFlow<()>;

    /// It would have waited for more, and its dispatcher shuts down. It is dropped next, and nothing that it does here may
    /// panic.
    fn is_refused(&mut self) {}
}

impl<F: FnMut(Result<Message, Status>) -> ControlFlow<()> + Send + 'static> Receive for F {
    fn receive(&mut self, outcome: Result<Message, Status>) -> ControlFlow<()> {
        self(outcome)
    }
}

/// A handler as a callback that stays.
struct ReceivingFn<S> {
    pair: Arc<ChannelPair>,
    place: Place,
    /// What its next call is for, if that is known when it begins.
    handed: Option<Message>,
    handler: S,
}

impl<S: Receive> ReceivingFn<S> {
    /// The handler begins: its message. Somebody may wait for the room that it leaves.
    #[inline(always)]
    fn begin(&mut self, outcome: Outcome, room: &mut Next<Registered>) -> Option<Message> {
        let (pair, side) = (&self.pair, self.place.side());
        if outcome == HAS_BEGUN {
            return self.handed.take().or_else(|| pair.try_read(side, &mut true, room));
        }
        if outcome.into_result().is_err() {
            drop(pair.handler_begins(side, Wanted::Message, self.place.generation()));
            return None;
        }
        let (ended, message) = pair.taker_begins(side, self.place.generation(), room);
        drop(ended);
        message
    }
}

impl<S: Receive> Stay for ReceivingFn<S> {
    fn invoke(&mut self, outcome: Outcome) -> Then {
        let mut room = Next::Nothing;
        let message = self.begin(outcome, &mut room);
        let ends = Ends { pair: &self.pair, place: self.place };
        room.carry_out();
        probe::point(Point::Begin);
        let waits = match (outcome.into_result(), message) {
            (Ok(_), Some(message)) => self.handler.receive(Ok(message)).is_continue(),
            // Somebody else has read it, or the end has closed, of which it is told when it is registered anew.
            (Ok(_), None) => true,
            (Err(why), _) => {
                // It was its last call, whatever it says.
                let _ = self.handler.receive(Err(why));
                false
            }
        };
        if !waits {
            return Then::Ended;
        }
        // Its end is noted when it is registered anew.
        std::mem::forget(ends);
        Then::WaitsAgain
    }

    fn wait_again(&mut self, again: &mut Again<'_>) {
        let ReceivingFn { pair, place, handed, handler } = self;
        probe::point(Point::Read);
        let side = place.side();
        let mut is_refused = false;
        *handed = pair.register_to_take(side, place.generation(), |there, generation| {
            *place = Place::new(side, Wanted::Message, generation);
            let accepted = accept_again(again, there);
            is_refused = accepted.is_none();
            accepted
        });
        if is_refused {
            handler.is_refused();
        }
    }

    fn hand(&mut self, what: &mut dyn Any) {
        if let Some(message) = what.downcast_mut::<Option<Message>>() {
            self.handed = message.take();
        }
    }
}

impl Channel {
    /// Registers `handler`, which is called on `dispatcher` with each message, in order, one message a call. It is a
    /// [standing read](Channel::begin_standing_read) that takes the message by the lock that begins its handler instead of by
    /// one of its own, which is the cheapest way to read a channel.
    ///
    /// A call with an error is the last one, whatever it returns: [`Status::PeerClosed`] when nothing is queued and nothing
    /// will come, [`Status::Canceled`] when the dispatcher shuts down while it waits, or this end is closed; what is queued then
    /// stays queued. It also ends, without such a call, when it returns [`ControlFlow::Break`] or panics, when it is
    /// [canceled](Channel::cancel_read), and when the dispatcher has begun to shut down by the time that it returns. However it
    /// ends, the handler is dropped with the dispatcher current, unless it was taken back.
    ///
    /// Until it has ended no other read can be registered and the end cannot be sent. Whoever reads by
    /// [`try_read`](Channel::try_read) gets what waits for the handler's turn: the handler is not called for it.
    ///
    /// # Errors
    /// As for [`begin_read`](Channel::begin_read).
    ///
    /// # Thread requirements
    /// Any thread. The handler is never called inside of this call.
    ///
    /// # Examples
    /// ```
    /// # use std::sync::Arc;
    /// use std::ops::ControlFlow;
    ///
    /// use fuchsine_dispatcher::{Channel, DispatcherHandle, Status};
    ///
    /// /// Answers every message with itself.
    /// fn echo(channel: Arc<Channel>, dispatcher: &DispatcherHandle) -> Result<(), Status> {
    ///     let end = Arc::clone(&channel);
    ///     channel.begin_receiving(dispatcher, move |message| {
    ///         if let Ok(message) = message {
    ///             // A peer that has gone away needs no answer.
    ///             let _ = end.write(message);
    ///         }
    ///         ControlFlow::Continue(())
    ///     })?;
    ///     Ok(())
    /// }
    /// ```
    #[track_caller]
    pub fn begin_receiving<F>(&self, dispatcher: &DispatcherHandle, handler: F) -> Result<(), Refused<F>>
    where
        F: FnMut(Result<Message, Status>) -> ControlFlow<()> + Send + 'static,
    {
        self.begin_receiving_as(Site::caller(), dispatcher, handler)
    }

    /// Like [`begin_receiving`](Channel::begin_receiving), with what is listed as the caller.
    pub(super) fn begin_receiving_as<S: Receive>(
        &self,
        site: Site,
        dispatcher: &DispatcherHandle,
        handler: S,
    ) -> Result<(), Refused<S>> {
        let make = |pair, place, handler| Callback::staying(ReceivingFn { pair, place, handed: None, handler });
        self.begin_wait_as(Wanted::Message, dispatcher, site, handler, make, |pair, accept| {
            pair.register_as(self.side, Term::StaysAndTakes, accept)?;
            pair.readers.note(self.side, dispatcher.id().as_raw());
            Ok(())
        })
        .map_err(|(status, handler)| Refused::new("read", status, handler))
    }
}
