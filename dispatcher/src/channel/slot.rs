//! What an end waits for: one thing at a time, by a registered callback or by a future.
//!
//! # States
//! ```text
//!          register, not there      it comes about
//!   Idle ────────────────────▶ Armed ──────────────▶ Notified
//!    ▲ │                         │ cancel, close         │
//!    │ └──register, there────────│─────────────────────▶ │
//!    │                           ▼    the handler begins, │
//!    └───────────────────────────┴─── cancel, close ──────┘
//!
//!   Idle ──a future waits──▶ Awaited ──it comes about, the future is dropped──▶ Idle
//! ```
//! One that *stays* leaves the slot `Inside` instead of `Idle` when its handler begins. From there it is registered anew
//! when the handler has returned, unless it was told to end or canceled meanwhile, which leads to `Idle`. If what it waits for
//! is there again and its handler begins at once, it stays `Inside`, under its next number.
//!
//! A handler that begins on the thread that brought what it waits for leaves `Notified` out. A registration carries its
//! number, its *generation*. A handler that begins later clears the registration of its own number only. An end has two slots: one for the next message, one for room in the queue that it writes to.

use std::task::Waker;

use super::wait_op::{Anew, Completion, Next, Schedule, WaitOp};
use crate::status::Status;

#[derive(Debug)]
enum Waiting<R> {
    Idle,
    Armed(R),
    Notified(R),
    Awaited(Waker),
    /// The handler of a registration that stays is running.
    Inside,
}

/// One thing that an end can wait for.
#[derive(Debug)]
pub(super) struct Slot<R> {
    waiting: Waiting<R>,
    /// The number of the newest registration or awaiting future.
    generation: u64,
    /// What becomes of that registration.
    term: Term,
}

/// What becomes of a registration when its handler begins, and what the handler gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Term {
    /// It ends.
    Once,
    /// It stays.
    Stays,
    /// It stays, and its handler is handed the message.
    StaysAndTakes,
}

/// What a future that polls finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seat {
    /// It is the one that waits here.
    Own,
    /// Nobody waits.
    Free,
    /// Somebody else does.
    Taken,
}

impl<R> Slot<R> {
    pub(super) const fn new() -> Self {
        Slot { waiting: Waiting::Idle, generation: 0, term: Term::Once }
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.waiting, Waiting::Idle)
    }

    /// Registers what `accept` has accepted under the next number; `None` when it was refused.
    ///
    /// # Errors
    /// [`Status::BadState`] when something is registered, [`Status::Unavailable`] when `accept` refuses.
    #[inline]
    pub(super) fn register(
        &mut self,
        is_there: bool,
        term: Term,
        accept: impl FnOnce(bool, u64) -> Option<R>,
    ) -> Result<(), Status> {
        if !self.is_idle() {
            return Err(Status::BadState);
        }
        self.generation += 1;
        let op = accept(is_there, self.generation).ok_or(Status::Unavailable)?;
        self.waiting = if is_there { Waiting::Notified(op) } else { Waiting::Armed(op) };
        self.term = term;
        Ok(())
    }

    /// The handler of this registration, which stays, has returned: it is registered anew with what `accept` has
    /// accepted under the next number. Nothing happens if it has ended meanwhile. Whether its handler has begun again.
    #[inline]
    pub(super) fn register_again(
        &mut self,
        generation: u64,
        is_there: bool,
        accept: impl FnOnce(u64) -> Option<Anew<R>>,
    ) -> bool {
        if !self.is_inside(generation) {
            return false;
        }
        self.generation += 1;
        self.waiting = match accept(self.generation) {
            Some(Anew::HasBegun) => return true,
            Some(Anew::Waits(op)) if is_there => Waiting::Notified(op),
            Some(Anew::Waits(op)) => Waiting::Armed(op),
            None => Waiting::Idle,
        };
        false
    }

    /// The handler of this registration, which stayed, has returned for the last time.
    pub(super) fn end(&mut self, generation: u64) {
        if self.is_inside(generation) {
            self.waiting = Waiting::Idle;
        }
    }

    fn is_inside(&self, generation: u64) -> bool {
        matches!(self.waiting, Waiting::Inside) && self.generation == generation
    }

    /// Ends the registration, if there is one. One that stays and whose handler is running is not registered anew.
    pub(super) fn unregister(&mut self) -> Option<R> {
        match std::mem::replace(&mut self.waiting, Waiting::Idle) {
            Waiting::Armed(op) | Waiting::Notified(op) => Some(op),
            Waiting::Inside | Waiting::Idle => None,
            other @ Waiting::Awaited(_) => {
                self.waiting = other;
                None
            }
        }
    }

    /// It is canceled: what was registered ends, and is not registered anew if its handler begins all the same.
    pub(super) fn cancel(&mut self) -> Option<R> {
        let op = self.unregister();
        if op.is_some() {
            self.generation += 1;
        }
        op
    }

    /// The handler of a registration begins. A close may have taken the registration out a moment ago, of which one that
    /// stays is told when it is registered anew.
    pub(super) fn handler_begins(&mut self, generation: u64, is_open: bool) -> Option<R> {
        if self.generation != generation {
            return None;
        }
        let op = self.unregister();
        if self.term != Term::Once && (op.is_some() || !is_open) {
            self.waiting = Waiting::Inside;
        }
        op
    }

    /// Whether what is registered waits for a message that it takes.
    pub(super) fn takes_the_next(&self) -> bool {
        self.term == Term::StaysAndTakes && matches!(self.waiting, Waiting::Armed(_))
    }

    /// Who is on the seat, for the future of this mark.
    pub(super) fn seat(&self, awaiting: Option<u64>) -> Seat {
        match &self.waiting {
            Waiting::Idle => Seat::Free,
            Waiting::Awaited(_) if awaiting == Some(self.generation) => Seat::Own,
            Waiting::Armed(_) | Waiting::Notified(_) | Waiting::Awaited(_) | Waiting::Inside => Seat::Taken,
        }
    }

    /// Whether the future that sits here is woken by this waker already.
    pub(super) fn will_wake(&self, waker: &Waker) -> bool {
        matches!(&self.waiting, Waiting::Awaited(known) if known.will_wake(waker))
    }

    /// The future takes the seat, or stays on it, with this waker, which was cloned for it with no lock held: it is user
    /// code. One that is replaced comes back, to be dropped when the lock is released.
    pub(super) fn sit(&mut self, awaiting: &mut Option<u64>, waker: Waker) -> Option<Waker> {
        match &mut self.waiting {
            Waiting::Awaited(known) => Some(std::mem::replace(known, waker)),
            _ => {
                self.generation += 1;
                *awaiting = Some(self.generation);
                self.waiting = Waiting::Awaited(waker);
                None
            }
        }
    }

    /// The future of this mark leaves; its waker is dropped by the caller, with no lock held.
    pub(super) fn stand_up(&mut self, awaiting: u64) -> Option<Waker> {
        if self.generation != awaiting {
            return None;
        }
        match std::mem::replace(&mut self.waiting, Waiting::Idle) {
            Waiting::Awaited(waker) => Some(waker),
            registered => {
                self.waiting = registered;
                None
            }
        }
    }
}

impl<R: WaitOp> Slot<R> {
    /// The end closes.
    pub(super) fn close(&mut self) -> Next<R> {
        match std::mem::replace(&mut self.waiting, Waiting::Idle) {
            Waiting::Idle => Next::Nothing,
            Waiting::Armed(op) | Waiting::Notified(op) => Next::Complete(op, Completion::Canceled),
            // Its future was leaked; it finds the end closed.
            Waiting::Awaited(waker) => Next::Wake(waker),
            // It finds the end closed when it is registered anew.
            Waiting::Inside => {
                self.waiting = Waiting::Inside;
                Next::Nothing
            }
        }
    }

    /// What is waited for is there: whoever waits is told, a registered callback once. Whether its handler has begun.
    #[inline]
    pub(super) fn ready(&mut self, next: &mut Next<R>) -> bool {
        match std::mem::replace(&mut self.waiting, Waiting::Idle) {
            Waiting::Idle => {}
            Waiting::Awaited(waker) => *next = Next::Wake(waker),
            Waiting::Armed(op) => match op.ready(next) {
                None => {
                    if self.term != Term::Once {
                        self.waiting = Waiting::Inside;
                    }
                    return true;
                }
                Some((op, schedule)) => {
                    if schedule == Schedule::Yes {
                        *next = Next::Schedule(op.clone());
                    }
                    self.waiting = Waiting::Notified(op);
                }
            },
            knows @ (Waiting::Notified(_) | Waiting::Inside) => self.waiting = knows,
        }
        false
    }

    /// The peer closes: whoever waits is told, a registered callback once.
    pub(super) fn peer_closes(&mut self) -> Next<R> {
        match std::mem::replace(&mut self.waiting, Waiting::Idle) {
            Waiting::Idle => Next::Nothing,
            Waiting::Awaited(waker) => Next::Wake(waker),
            Waiting::Armed(op) => {
                self.waiting = Waiting::Notified(op.clone());
                Next::Complete(op, Completion::PeerClosed)
            }
            knows @ (Waiting::Notified(_) | Waiting::Inside) => {
                self.waiting = knows;
                Next::Nothing
            }
        }
    }
}
