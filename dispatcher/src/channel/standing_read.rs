//! Standing reads: a handler that a dispatcher calls each time there is something to read.
//!
//! Each call is a callback of its own, and what a handler would do that registers itself anew at its very end is done
//! for it, in one step with that end (`runtime/again.rs`). Meanwhile its place at the end of the channel is kept
//! ([`Slot`](super::slot::Slot): `Inside`).

use std::ops::ControlFlow;

use super::channel::{Channel, ChannelPair};
use super::ends::Wanted;
use super::error::Refused;
use super::registration::{HAS_BEGUN, IS_READY, Place, Registered};
use super::slot::Term;
use super::wait_op::{Anew, Completion};
use crate::runtime::DispatcherHandle;
use crate::runtime::again::{Accepted, Again};
use crate::runtime::callback_queue::{Callback, Outcome, Stay, Then};
use crate::site::Site;
use crate::status::Status;
use crate::sync::Arc;
use crate::sync::probe::{self, Point};

/// A handler as a callback that stays.
struct StandingFn<F> {
    pair: Arc<ChannelPair>,
    place: Place,
    handler: F,
}

/// Notes the end of a handler and gives its place up, also if it panics.
pub(super) struct Ends<'a> {
    pub(super) pair: &'a ChannelPair,
    pub(super) place: Place,
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.pair.handler_ends(self.place.side());
        self.pair.end_reading(self.place.side(), self.place.generation());
    }
}

impl<F: FnMut(Result<(), Status>) -> ControlFlow<()> + Send + 'static> Stay for StandingFn<F> {
    fn invoke(&mut self, outcome: Outcome) -> Then {
        let StandingFn { pair, place, handler } = self;
        if outcome != HAS_BEGUN {
            drop(pair.handler_begins(place.side(), place.wanted(), place.generation()));
        }
        let ends = Ends { pair, place: *place };
        probe::point(Point::Begin);
        let told = outcome.into_result().map(drop);
        if handler(told).is_break() || told.is_err() {
            return Then::Ended;
        }
        // Its end is noted when it is registered anew.
        std::mem::forget(ends);
        Then::WaitsAgain
    }

    fn wait_again(&mut self, again: &mut Again<'_>) {
        let StandingFn { pair, place, .. } = self;
        probe::point(Point::Read);
        let side = place.side();
        pair.register_again(side, place.generation(), |there, generation| {
            *place = Place::new(side, Wanted::Message, generation);
            accept_again(again, there)
        });
    }
}

/// Has a handler that has returned accepted anew, with what there is to be told already.
#[inline(always)]
pub(super) fn accept_again(again: &mut Again<'_>, there: Option<Completion>) -> Option<Anew<Registered>> {
    let accepted = again.accept(there.map(|there| match there {
        Completion::Ready => IS_READY,
        Completion::PeerClosed => Outcome::Failed(Status::PeerClosed),
        Completion::Canceled => Outcome::Canceled,
    }))?;
    Some(match accepted {
        Accepted::HasBegun => Anew::HasBegun,
        Accepted::Waits(id) => Anew::Waits(Registered { dispatcher: Arc::clone(again.dispatcher()), id }),
    })
}

impl Channel {
    /// Registers `handler`, which is called on `dispatcher` each time that there is something to read, like the handler of
    /// a [`begin_read`](Channel::begin_read) that registers itself anew at its very end. What it captures stays where it is,
    /// and there is one lock less to take each time.
    ///
    /// The handler is called with `Ok` when at least one message is queued, again and again as long as it returns
    /// [`ControlFlow::Continue`] and leaves messages or new ones come. A call with an error is the last one, whatever it
    /// returns: [`Status::PeerClosed`] when nothing is queued and nothing will come, [`Status::Canceled`] when the dispatcher
    /// shuts down while it waits, or this end is closed. It ends without such a call when it returns
    /// [`ControlFlow::Break`] or panics, when it is [canceled](Channel::cancel_read), and when the dispatcher has begun to shut
    /// down by the time that it returns. However it ends, the handler is dropped with the dispatcher current, unless it was
    /// taken back.
    ///
    /// Until it has ended the end counts as one with a registered read, also while the handler runs: no other read can be
    /// registered, and the end cannot be sent. A [`cancel_read`](Channel::cancel_read) that comes while the handler runs
    /// fails as with any read, but the handler is not called again.
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
    ///     channel.begin_standing_read(dispatcher, move |_| {
    ///         while let Ok(message) = end.try_read() {
    ///             // A peer that has gone away needs no answer.
    ///             let _ = end.write(message);
    ///         }
    ///         ControlFlow::Continue(())
    ///     })?;
    ///     Ok(())
    /// }
    /// ```
    #[track_caller]
    pub fn begin_standing_read<F>(&self, dispatcher: &DispatcherHandle, handler: F) -> Result<(), Refused<F>>
    where
        F: FnMut(Result<(), Status>) -> ControlFlow<()> + Send + 'static,
    {
        let make = |pair, place, handler| Callback::staying(StandingFn { pair, place, handler });
        self.begin_wait_as(Wanted::Message, dispatcher, Site::caller(), handler, make, |pair, accept| {
            pair.register_as(self.side, Term::Stays, accept)?;
            pair.readers.note(self.side, dispatcher.id().as_raw());
            Ok(())
        })
        .map_err(|(status, handler)| Refused::new("read", status, handler))
    }
}
