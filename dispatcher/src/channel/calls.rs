//! The calls of one end that wait for their replies.
//!
//! A call has a number from the moment its request is queued until its caller has taken the outcome. What becomes of it is
//! recorded here, under the lock of the pair; its caller is told afterwards and looks here. So a reply that was recorded
//! while the deadline passed still counts, and one that finds no waiting call is late.
//!
//! # States
//! ```text
//!   Waiting ──reply──▶ Answered ──the caller takes it──▶ (gone)
//!      │ └──the peer, or the end itself, closes──▶ Closed ──▶ (gone)
//!      └──the caller gives up──▶ (gone); a reply is late from here on
//! ```
//!
//! # Numbers
//! The upper half of 32 bits is for calls, as in Fuchsia (CH-R47). The next bit tells the two ends apart, so that numbers of
//! calls in both directions differ; the rest counts, wraps, and skips what is in use.

use std::collections::BTreeMap;
use std::task::{Poll, Waker};

use super::ends::Side;
use super::wait_op::{Completion, Next, Schedule, WaitOp};
use crate::status::Status;

const CALL: u32 = 1 << 31;
const SIDE: u32 = 1 << 30;

/// Whether a call of this number is one of the end `side`.
#[cfg(not(loom))]
pub(super) fn is_of(number: u32, side: Side) -> bool {
    number & CALL != 0 && (number & SIDE != 0) == (side == Side::B)
}

/// Who waits for a reply.
#[derive(Debug)]
pub(crate) enum Caller<R> {
    /// A callback of a dispatcher.
    Callback(R),
    /// A future or a thread.
    Task(Waker),
}

impl<R: WaitOp> Caller<R> {
    fn told(self, how: Completion) -> Next<R> {
        match self {
            Caller::Callback(op) => Next::Complete(op, how),
            Caller::Task(waker) => Next::Wake(waker),
        }
    }

    /// The reply is there.
    fn ready(self, next: &mut Next<R>) {
        match self {
            Caller::Callback(op) => match op.ready(next) {
                None => {}
                Some((op, Schedule::Yes)) => *next = Next::Schedule(op),
                Some((op, Schedule::No)) => *next = Next::Drop(op),
            },
            Caller::Task(waker) => *next = Next::Wake(waker),
        }
    }
}

#[derive(Debug)]
enum Call<M, R> {
    Waiting(Caller<R>),
    Answered(M),
    Closed,
}

/// The calls of one end.
#[derive(Debug)]
pub(super) struct Calls<M, R> {
    waiting: BTreeMap<u32, Call<M, R>>,
    side: Side,
    last: u32,
}

/// What a caller that gives up leaves; it is dropped with no lock held.
#[derive(Debug)]
pub(crate) enum Left<M, R> {
    /// The reply is there.
    Reply(M),
    /// Nobody has replied.
    Unanswered(Option<Caller<R>>),
}

impl<M, R: WaitOp> Calls<M, R> {
    pub(super) fn new(side: Side) -> Self {
        Calls { waiting: BTreeMap::new(), side, last: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A number that no call of this end has.
    pub(super) fn fresh_number(&mut self) -> u32 {
        let side = if self.side == Side::A { 0 } else { SIDE };
        loop {
            self.last = (self.last + 1) & (SIDE - 1);
            let number = CALL | side | self.last;
            if !self.waiting.contains_key(&number) {
                return number;
            }
        }
    }

    /// A call waits from here on.
    pub(super) fn insert(&mut self, number: u32, caller: Caller<R>) {
        self.waiting.insert(number, Call::Waiting(caller));
    }

    /// Records a reply; one for which no call waits comes back.
    pub(super) fn answer(&mut self, number: u32, reply: M, next: &mut Next<R>) -> Result<(), M> {
        match self.waiting.get_mut(&number) {
            Some(call @ Call::Waiting(_)) => match std::mem::replace(call, Call::Answered(reply)) {
                Call::Waiting(caller) => {
                    caller.ready(next);
                    Ok(())
                }
                Call::Answered(_) | Call::Closed => unreachable!("it was waiting a moment ago"),
            },
            Some(Call::Answered(_) | Call::Closed) | None => Err(reply),
        }
    }

    /// One of the ends closes: who waits is told.
    pub(super) fn close(&mut self, how: Completion, to_tell: &mut Vec<Next<R>>) {
        for call in self.waiting.values_mut().filter(|call| matches!(call, Call::Waiting(_))) {
            if let Call::Waiting(caller) = std::mem::replace(call, Call::Closed) {
                to_tell.push(caller.told(how));
            }
        }
    }

    /// The caller is done with a call.
    pub(super) fn end(&mut self, number: u32) -> Left<M, R> {
        match self.waiting.remove(&number) {
            Some(Call::Answered(reply)) => Left::Reply(reply),
            Some(Call::Waiting(caller)) => Left::Unanswered(Some(caller)),
            Some(Call::Closed) | None => Left::Unanswered(None),
        }
    }

    /// For a caller that is no callback: the outcome, which ends the call, or it waits on with this waker, of which `own` is
    /// a clone; `None` if one is needed for that and not there. A waker that is replaced is left in `own`: it is user code, so
    /// it is cloned and dropped with no lock held.
    pub(super) fn poll(
        &mut self,
        number: u32,
        waker: &Waker,
        own: &mut Option<Waker>,
    ) -> Option<Poll<Result<M, Status>>> {
        match self.waiting.get_mut(&number) {
            Some(Call::Waiting(Caller::Task(known))) if known.will_wake(waker) => Some(Poll::Pending),
            Some(Call::Waiting(Caller::Task(known))) => {
                std::mem::swap(known, own.as_mut()?);
                Some(Poll::Pending)
            }
            _ => match self.waiting.remove(&number) {
                Some(Call::Answered(reply)) => Some(Poll::Ready(Ok(reply))),
                _ => Some(Poll::Ready(Err(Status::PeerClosed))),
            },
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::super::registration::Registered;
    use super::*;

    /// What a channel meets after about a billion calls.
    #[test]
    fn a_number_that_is_in_use_is_not_given_again_when_numbers_wrap() {
        for (side, other) in [(Side::A, Side::B), (Side::B, Side::A)] {
            let mut calls = Calls::<(), Registered>::new(side);
            let begin = |calls: &mut Calls<(), Registered>| {
                let number = calls.fresh_number();
                assert!(is_of(number, side) && !is_of(number, other), "{number:#x}");
                calls.insert(number, Caller::Task(Waker::noop().clone()));
                number
            };
            let long = [begin(&mut calls), begin(&mut calls)];
            calls.last = SIDE - 3;
            let later: Vec<_> = (0..4).map(|_| begin(&mut calls)).collect();
            let in_use: std::collections::BTreeSet<_> = long.iter().chain(&later).collect();
            assert_eq!(in_use.len(), 6, "each call has a number of its own: {long:x?} {later:x?}");
            assert!(calls.last < 10, "it has wrapped");
            drop(calls.end(long[1]));
            calls.last = 0;
            assert_eq!(begin(&mut calls), long[1], "it is free again");
        }
    }
}
