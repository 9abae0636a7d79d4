//! `Arming`: what one timer is doing, and how that changes.
//!
//! | state | means | left by |
//! |---|---|---|
//! | `Idle` | nothing is going to happen | arming |
//! | `Armed` | the wheel has the deadline | firing, stopping from any thread, arming anew |
//! | `Firing` | the callback runs | its return: to `Armed` if it ticks, else to `Idle`; stopping or arming anew before that |
//! | `Destroyed` | the callback is gone or about to go; it is never called again | |
//!
//! All changes happen under one lock, and so do the calls to the wheel that belong to them; whoever takes the timer out
//! of `Armed` has decided what becomes of it. A deadline that was taken out of the wheel already, or stays there for a
//! while, and that somebody stops before the loop comes to it, finds the state changed and is told to nobody.
//!
//! Where the deadlines are kept is a parameter here: the loop itself has them in a wheel of its own, others can only ask
//! it to take one out, and a model stands in for both.

use std::time::Duration;

use crate::sync::Mutex;
use crate::time::Instant;

/// What a ticker does about ticks that were due while its loop was busy.
///
/// | policy | calls | next deadline |
/// |---|---|---|
/// | `Skip` | one for all of them | a whole number of periods after the first: it keeps its grid |
/// | `Burst` | one each, one an iteration, until it has caught up | one period after the last: it keeps its grid and its count |
/// | `Delay` | one for all of them | one period after the call: no two calls are closer than a period |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MissedTicks {
    /// One call stands for all of them; the ticker keeps its grid.
    #[default]
    Skip,
    /// Each is made up for, one an iteration; the ticker keeps its grid.
    Burst,
    /// One call stands for all of them, and the next comes a whole period after it.
    Delay,
}

/// What a timer's callback is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// The deadline that has come; the callback runs at this time or later.
    pub deadline: Instant,
    /// How many further ticks were due before the loop got to this one, for all of which this call stands. Always zero
    /// for a timer that fires once, and for one that makes up for each.
    pub missed: u64,
}

/// What a timer is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerState {
    /// Nothing: it was never armed, or has fired, or was stopped.
    Idle,
    /// It waits for this deadline.
    Armed(Instant),
    /// Its callback runs at this moment.
    Firing,
}

/// How a timer repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    Once,
    Every(Duration, MissedTicks),
}

/// What a timer is armed for, apart from its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) repeat: Repeat,
    /// It was armed by a callback of the shutdown, and holds the loop; a tick does not change that.
    pub(crate) since_shutdown: bool,
}

#[derive(Clone, Copy)]
enum State<I> {
    Idle,
    Armed { deadline: Instant, plan: Plan, id: I },
    Firing { next: Instant, plan: Plan },
    Destroyed,
}

/// Where a timer's deadlines are kept.
pub(crate) trait Wheel {
    type Id: Copy;

    /// Makes the timer's loop be told when `deadline` has come. Called on that loop only.
    fn arm(&self, deadline: Instant) -> Self::Id;

    /// Takes a deadline out, or sees to it that it is.
    fn cancel(&self, id: Self::Id);
}

/// What a stop has done.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stopped {
    /// A call was going to come that does not come now.
    pub(crate) prevented: bool,
    /// Nobody is left who could arm the timer again: its loop may forget it.
    pub(crate) is_over: bool,
}

/// The state of one timer. Its methods are given the wheel in which it is armed, as the caller reaches it.
pub(crate) struct Arming<I> {
    inner: Mutex<Inner<I>>,
}

struct Inner<I> {
    state: State<I>,
    /// Nobody has a handle that could arm it.
    detached: bool,
}

impl<I: Copy> Arming<I> {
    pub(crate) fn new() -> Self {
        Arming { inner: Mutex::new(Inner { state: State::Idle, detached: false }) }
    }

    /// Arms the timer, in place of what it was armed for. `false`: it was destroyed.
    pub(crate) fn arm(&self, wheel: &impl Wheel<Id = I>, deadline: Instant, plan: Plan) -> bool {
        let mut inner = self.inner.lock();
        match inner.state {
            State::Destroyed => return false,
            State::Armed { id, .. } => wheel.cancel(id),
            State::Idle | State::Firing { .. } => {}
        }
        inner.state = State::Armed { deadline, plan, id: wheel.arm(deadline) };
        true
    }

    pub(crate) fn stop(&self, wheel: &impl Wheel<Id = I>) -> Stopped {
        let mut inner = self.inner.lock();
        let prevented = match inner.state {
            State::Idle | State::Destroyed => return Stopped { prevented: false, is_over: false },
            State::Armed { id, .. } => {
                wheel.cancel(id);
                true
            }
            State::Firing { plan, .. } => plan.repeat != Repeat::Once,
        };
        inner.state = State::Idle;
        Stopped { prevented, is_over: inner.detached }
    }

    /// Stops the timer for good. Answers whether this call did it.
    pub(crate) fn destroy(&self, wheel: &impl Wheel<Id = I>) -> bool {
        let mut inner = self.inner.lock();
        match std::mem::replace(&mut inner.state, State::Destroyed) {
            State::Destroyed => return false,
            State::Armed { id, .. } => wheel.cancel(id),
            State::Idle | State::Firing { .. } => {}
        }
        true
    }

    /// Nobody is going to arm it any more. Answers whether it has nothing more to do.
    pub(crate) fn detach(&self) -> bool {
        let mut inner = self.inner.lock();
        inner.detached = true;
        matches!(inner.state, State::Idle | State::Destroyed)
    }

    /// Whether it neither has anything to do nor can be given anything.
    pub(crate) fn is_over(&self) -> bool {
        let inner = self.inner.lock();
        matches!(inner.state, State::Destroyed) || (inner.detached && matches!(inner.state, State::Idle))
    }

    pub(crate) fn state(&self) -> TimerState {
        let state = self.inner.lock().state;
        match state {
            State::Idle | State::Destroyed => TimerState::Idle,
            State::Armed { deadline, .. } => TimerState::Armed(deadline),
            State::Firing { .. } => TimerState::Firing,
        }
    }

    /// Whether the timer keeps its loop from ending.
    pub(crate) fn holds(&self) -> bool {
        matches!(self.inner.lock().state, State::Armed { plan: Plan { since_shutdown: true, .. }, .. })
    }

    /// From armed to firing, if it is this deadline that it is armed for. Else it was stopped or armed anew meanwhile.
    pub(crate) fn begin_firing(&self, wheel: &impl Wheel<Id = I>, fired: Instant, now: Instant) -> Option<Tick> {
        let mut inner = self.inner.lock();
        let State::Armed { deadline, plan, id } = inner.state else { return None };
        if deadline != fired {
            return None;
        }
        // Armed anew for the same deadline, with the older event still under way: this call is for the newer arming.
        wheel.cancel(id);
        let (next, missed) = plan.repeat.after(deadline, now);
        inner.state = State::Firing { next, plan };
        Some(Tick { deadline, missed })
    }

    /// From firing to armed for the next tick, or to idle, unless the callback or somebody else has decided otherwise.
    pub(crate) fn end_firing(&self, wheel: &impl Wheel<Id = I>, may_tick: bool) {
        let mut inner = self.inner.lock();
        let State::Firing { next, plan } = inner.state else { return };
        inner.state = match plan.repeat {
            Repeat::Every(..) if may_tick && !next.is_infinite() => {
                State::Armed { deadline: next, plan, id: wheel.arm(next) }
            }
            _ => State::Idle,
        };
    }
}

impl Repeat {
    /// The deadline after one that is told at `now`, and how many between them are not told.
    fn after(self, deadline: Instant, now: Instant) -> (Instant, u64) {
        let Repeat::Every(period, policy) = self else { return (Instant::INFINITE, 0) };
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1);
        let missed = now.as_nanos().saturating_sub(deadline.as_nanos()) / period_ns;
        match policy {
            MissedTicks::Skip => {
                let last = deadline.as_nanos().saturating_add(period_ns.saturating_mul(missed));
                (Instant::from_nanos(last) + period, missed)
            }
            MissedTicks::Burst => (deadline + period, 0),
            MissedTicks::Delay => (now + period, missed),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn after(policy: MissedTicks, deadline: u64, now: u64) -> (u64, u64) {
        let every = Repeat::Every(Duration::from_nanos(10), policy);
        let (next, missed) = every.after(Instant::from_nanos(deadline), Instant::from_nanos(now));
        (next.as_nanos(), missed)
    }

    #[test]
    fn each_policy_says_what_becomes_of_ticks_that_were_missed() {
        for policy in [MissedTicks::Skip, MissedTicks::Burst] {
            assert_eq!(after(policy, 10, 10), (20, 0), "in time");
            assert_eq!(after(policy, 10, 19), (20, 0), "late, but none was missed");
        }
        assert_eq!(after(MissedTicks::Delay, 10, 19), (29, 0), "a whole period after the call");
        assert_eq!(after(MissedTicks::Skip, 10, 47), (50, 3), "20, 30 and 40 were missed; 50 is on the grid");
        assert_eq!(after(MissedTicks::Burst, 10, 47), (20, 0), "20 is due, and is told next");
        assert_eq!(after(MissedTicks::Delay, 10, 47), (57, 3));
    }

    #[test]
    fn a_next_deadline_that_cannot_be_expressed_never_comes() {
        let almost = u64::MAX - 5;
        for policy in [MissedTicks::Skip, MissedTicks::Burst, MissedTicks::Delay] {
            assert_eq!(after(policy, almost, almost), (u64::MAX, 0));
        }
    }
}
