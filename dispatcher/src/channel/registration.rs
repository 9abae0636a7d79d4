//! A registration: a handler that a dispatcher calls once, when an end has something to read or room to write.
//!
//! It is an operation of the dispatcher, which decides who ends it, once: the handler's call, the dispatcher's shutdown,
//! or a cancel. The pair knows its id. Just before the handler is called, the end is free again, so the handler may
//! register the next one, on this dispatcher or another, and may close the end.

use std::fmt;

use super::channel::{Channel, ChannelPair};
use super::ends::{Side, Wanted};
use super::message::Message;
use super::wait_op::{Completion, Next, Schedule, WaitOp};
use crate::runtime::DispatcherHandle;
use crate::runtime::again::BEGUN_AGAIN;
use crate::runtime::callback_queue::{Callback, Invoke, Kind, OpId, Outcome, Stage};
use crate::runtime::dispatcher::{Claimed, DispatcherInner};
use crate::runtime::inline::Origin;
use crate::site::Site;
use crate::status::Status;
use crate::sync::Arc;
use crate::sync::probe::{self, Point};
use crate::time::Instant;

/// An operation that a dispatcher has accepted.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(super) dispatcher: Arc<DispatcherInner>,
    pub(super) id: OpId,
}

/// What is told to a handler of which the pair knows already that it has begun.
pub(super) const HAS_BEGUN: Outcome = BEGUN_AGAIN;
/// What is told to one that begins later.
pub(super) const IS_READY: Outcome = Outcome::Done(0);

/// While this thread unwinds, nobody else's code is run on it.
fn origin() -> Origin {
    if std::thread::panicking() { Origin::Queued } else { Origin::Message }
}

impl WaitOp for Registered {
    type Handler = Callback;
    type Begun = Claimed;
    type Message = Message;

    #[inline]
    fn ready(self, next: &mut Next<Self>) -> Option<(Self, Schedule)> {
        let id = self.id;
        let (dispatcher, schedule) =
            self.dispatcher.claim(id, IS_READY, origin(), |claimed| *next = Next::Run(claimed))?;
        let schedule = if schedule { Schedule::Yes } else { Schedule::No };
        Some((Registered { dispatcher, id }, schedule))
    }

    #[inline]
    fn hand(begun: &mut Claimed, message: Message) {
        begun.hand(&mut Some(message));
    }

    #[inline]
    fn run(begun: Claimed) {
        begun.run(HAS_BEGUN);
    }

    fn schedule(self) {
        self.dispatcher.schedule();
    }

    fn complete(&self, how: Completion) {
        match how {
            Completion::Ready => self.dispatcher.complete(self.id, IS_READY, origin()),
            Completion::PeerClosed => self.dispatcher.complete(self.id, Outcome::Failed(Status::PeerClosed), origin()),
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
struct WaitFn<F> {
    pair: Arc<ChannelPair>,
    place: Place,
    handler: F,
}

/// The end, what it waits for, and the number of the registration in one word, which leaves the handler more room in its
/// callback.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place(u64);

impl Place {
    pub(super) fn new(side: Side, wanted: Wanted, generation: u64) -> Self {
        Place(generation << 2 | u64::from(wanted == Wanted::Room) << 1 | u64::from(side == Side::B))
    }

    pub(super) fn side(self) -> Side {
        if self.0 & 1 == 0 { Side::A } else { Side::B }
    }

    pub(super) fn wanted(self) -> Wanted {
        if self.0 & 2 == 0 { Wanted::Message } else { Wanted::Room }
    }

    pub(super) fn generation(self) -> u64 {
        self.0 >> 2
    }
}

/// Notes the end of a handler, also of one that panics.
pub(super) struct Running<'a> {
    pub(super) pair: &'a ChannelPair,
    pub(super) side: Side,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.pair.handler_ends(self.side);
    }
}

impl<F: FnOnce(Result<(), Status>) + Send + 'static> Invoke for WaitFn<F> {
    fn invoke(self, outcome: Outcome) {
        let WaitFn { pair, place, handler } = self;
        if outcome != HAS_BEGUN {
            drop(pair.handler_begins(place.side(), place.wanted(), place.generation()));
        }
        let _running = Running { pair: &pair, side: place.side() };
        probe::point(Point::Begin);
        handler(outcome.into_result().map(drop));
    }
}

impl Channel {
    /// Registers a handler with whatever `register` does to the pair; a refused handler comes back with its status.
    pub(super) fn begin_wait<F>(
        &self,
        wanted: Wanted,
        dispatcher: &DispatcherHandle,
        location: Site,
        handler: F,
        register: impl FnOnce(&ChannelPair, &mut dyn FnMut(bool, u64) -> Option<Registered>) -> Result<(), Status>,
    ) -> Result<(), (Status, F)>
    where
        F: FnOnce(Result<(), Status>) + Send + 'static,
    {
        let make = |pair, place, handler| Callback::new(WaitFn { pair, place, handler });
        self.begin_wait_as(wanted, dispatcher, location, handler, make, register)
    }

    /// Like [`begin_wait`](Channel::begin_wait), with what makes a callback of the handler.
    #[inline(always)]
    pub(super) fn begin_wait_as<F>(
        &self,
        wanted: Wanted,
        dispatcher: &DispatcherHandle,
        location: Site,
        handler: F,
        callback: impl Fn(Arc<ChannelPair>, Place, F) -> Callback,
        register: impl FnOnce(&ChannelPair, &mut dyn FnMut(bool, u64) -> Option<Registered>) -> Result<(), Status>,
    ) -> Result<(), (Status, F)> {
        let (inner, flavour) = (dispatcher.inner(), dispatcher.flavour());
        let kind = match wanted {
            Wanted::Message => Kind::Read,
            Wanted::Room => Kind::Writable,
        };
        let mut handler = Some(handler);
        let mut accept = |is_ready: bool, generation: u64| {
            let make = || {
                let handler = handler.take().expect("an accepted handler is made once");
                let place = Place::new(self.side, wanted, generation);
                callback(Arc::clone(&self.pair), place, handler)
            };
            let accepted = if is_ready {
                inner.accept_ready(kind, flavour, location, make)
            } else {
                inner.accept_armed(Stage::Reading, kind, flavour, Instant::INFINITE, location, make)
            };
            let id = accepted.ok()?;
            Some(Registered { dispatcher: Arc::clone(inner), id })
        };
        probe::point(Point::Read);
        let registered = register(&self.pair, &mut accept);
        registered.map_err(|status| {
            if status != Status::Unavailable {
                inner.count_refusal();
            }
            (status, handler.take().expect("a refused handler was not made"))
        })
    }
}
