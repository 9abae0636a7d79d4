//! `Arming`: what one timer is doing, and how that changes.
//!
//! | state | means | left by |
//! |---|---|---|
//! | `Idle` | nothing is going to happen | arming |
//! | `Armed` | the wheel has the deadline | firing, stopping from any thread, arming anew |
//! | `Firing` | the callback runs | its return: to `Armed` if it ticks, else to `Idle`; stopping or arming anew before that |
//! | `Destroyed` | the callback is gone or about to go; it is never called again | |
//!
//! A timer that nobody but its loop can reach needs no lock. When a handle for other threads is made for the first time,
//! the state moves under one, for good. From then on all changes happen under that lock, and so do the calls to the wheel
//! that belong to them; whoever takes the timer out of `Armed` has decided what becomes of it. A deadline that was taken out
//! of the wheel already, or stays there for a while, and that somebody stops before the loop comes to it, finds the state
//! changed and is told to nobody.
//!
//! Where the deadlines are kept is a parameter here: the loop itself has them in a wheel of its own, others can only ask
//! it to take one out, and a model stands in for both.

use std::cell::{OnceCell, RefCell};
use std::time::Duration;

use crate::sync::{Arc, Mutex};
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

/// How a timer repeats. (All of it is there in either case, so that it can be passed on in registers.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Repeat {
    /// Nanoseconds between two ticks; zero for a timer that fires once.
    period: u64,
    missed: MissedTicks,
}

impl Repeat {
    /// Not at all.
    pub(crate) const ONCE: Repeat = Repeat { period: 0, missed: MissedTicks::Skip };

    /// Every `period`, which is not zero. One that is too long to be expressed is longer than any clock runs.
    pub(crate) fn every(period: Duration, missed: MissedTicks) -> Self {
        Repeat { period: period.as_nanos().try_into().unwrap_or(u64::MAX), missed }
    }

    fn is_once(self) -> bool {
        self.period == 0
    }
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

/// The state of one timer, as its loop reaches it. The methods are given the wheel in which it is armed, as the caller
/// reaches that.
pub(crate) struct Arming<I> {
    /// The state, until it is shared.
    alone: RefCell<Inner<I>>,
    shared: OnceCell<Arc<SharedArming<I>>>,
}

/// The state of one timer, as any thread reaches it.
pub(crate) struct SharedArming<I> {
    inner: Mutex<Inner<I>>,
}

#[derive(Clone, Copy)]
struct Inner<I> {
    state: State<I>,
    /// Nobody has a handle that could arm it.
    detached: bool,
}

impl<I: Copy> Arming<I> {
    pub(crate) fn new() -> Self {
        let alone = RefCell::new(Inner { state: State::Idle, detached: false });
        Arming { alone, shared: OnceCell::new() }
    }

    /// The state for other threads. From the first call on it costs its loop a lock, too.
    pub(crate) fn share(&self) -> Arc<SharedArming<I>> {
        let shared = || Arc::new(SharedArming { inner: Mutex::new(*self.alone.borrow()) });
        self.shared.get_or_init(shared).clone()
    }

    fn with<R>(&self, body: impl FnOnce(&mut Inner<I>) -> R) -> R {
        match self.shared.get() {
            None => body(&mut self.alone.borrow_mut()),
            Some(shared) => body(&mut shared.inner.lock()),
        }
    }

    /// Arms the timer, in place of what it was armed for. `false`: it was destroyed.
    #[inline]
    pub(crate) fn arm(&self, wheel: &impl Wheel<Id = I>, deadline: Instant, plan: Plan) -> bool {
        match self.shared.get() {
            None => self.alone.borrow_mut().arm(wheel, deadline, plan),
            Some(shared) => shared.arm(wheel, deadline, plan),
        }
    }

    #[inline]
    pub(crate) fn stop(&self, wheel: &impl Wheel<Id = I>) -> Stopped {
        match self.shared.get() {
            None => self.alone.borrow_mut().stop(wheel),
            Some(shared) => shared.stop(wheel),
        }
    }

    /// Stops the timer for good. Answers whether this call did it.
    pub(crate) fn destroy(&self, wheel: &impl Wheel<Id = I>) -> bool {
        self.with(|inner| inner.destroy(wheel))
    }

    /// Nobody is going to arm it any more. Answers whether it has nothing more to do.
    pub(crate) fn detach(&self) -> bool {
        self.with(Inner::detach)
    }

    /// Whether it neither has anything to do nor can be given anything.
    pub(crate) fn is_over(&self) -> bool {
        self.with(|inner| inner.is_over())
    }

    pub(crate) fn state(&self) -> TimerState {
        self.with(|inner| inner.state())
    }

    /// Whether the timer keeps its loop from ending.
    pub(crate) fn holds(&self) -> bool {
        self.with(|inner| matches!(inner.state, State::Armed { plan: Plan { since_shutdown: true, .. }, .. }))
    }

    /// From armed to firing, if it is this deadline that it is armed for. Else it was stopped or armed anew meanwhile.
    pub(crate) fn begin_firing(&self, wheel: &impl Wheel<Id = I>, fired: Instant, now: Instant) -> Option<Tick> {
        self.with(|inner| inner.begin_firing(wheel, fired, now))
    }

    /// From firing to armed for the next tick, or to idle, unless the callback or somebody else has decided otherwise.
    pub(crate) fn end_firing(&self, wheel: &impl Wheel<Id = I>, may_tick: bool) {
        self.with(|inner| inner.end_firing(wheel, may_tick));
    }
}

impl<I: Copy> SharedArming<I> {
    /// [`Arming::arm`].
    #[inline(never)]
    fn arm(&self, wheel: &impl Wheel<Id = I>, deadline: Instant, plan: Plan) -> bool {
        self.inner.lock().arm(wheel, deadline, plan)
    }

    /// [`Arming::stop`].
    #[inline(never)]
    pub(crate) fn stop(&self, wheel: &impl Wheel<Id = I>) -> Stopped {
        self.inner.lock().stop(wheel)
    }

    /// [`Arming::destroy`].
    pub(crate) fn destroy(&self, wheel: &impl Wheel<Id = I>) -> bool {
        self.inner.lock().destroy(wheel)
    }

    pub(crate) fn state(&self) -> TimerState {
        self.inner.lock().state()
    }
}

impl<I: Copy> Inner<I> {
    #[inline]
    fn arm(&mut self, wheel: &impl Wheel<Id = I>, deadline: Instant, plan: Plan) -> bool {
        if let State::Destroyed = self.state {
            return false;
        }
        if let State::Armed { id, .. } = self.state {
            wheel.cancel(id);
        }
        self.state = State::Armed { deadline, plan, id: wheel.arm(deadline) };
        true
    }

    #[inline]
    fn stop(&mut self, wheel: &impl Wheel<Id = I>) -> Stopped {
        let prevented = if let State::Armed { id, .. } = self.state {
            wheel.cancel(id);
            true
        } else if let State::Firing { plan, .. } = self.state {
            !plan.repeat.is_once()
        } else {
            return Stopped { prevented: false, is_over: false };
        };
        self.state = State::Idle;
        Stopped { prevented, is_over: self.detached }
    }

    fn destroy(&mut self, wheel: &impl Wheel<Id = I>) -> bool {
        match std::mem::replace(&mut self.state, State::Destroyed) {
            State::Destroyed => return false,
            State::Armed { id, .. } => wheel.cancel(id),
            State::Idle | State::Firing { .. } => {}
        }
        true
    }

    fn detach(&mut self) -> bool {
        self.detached = true;
        matches!(self.state, State::Idle | State::Destroyed)
    }

    fn is_over(&self) -> bool {
        matches!(self.state, State::Destroyed) || (self.detached && matches!(self.state, State::Idle))
    }

    fn state(&self) -> TimerState {
        match self.state {
            State::Idle | State::Destroyed => TimerState::Idle,
            State::Armed { deadline, .. } => TimerState::Armed(deadline),
            State::Firing { .. } => TimerState::Firing,
        }
    }

    fn begin_firing(&mut self, wheel: &impl Wheel<Id = I>, fired: Instant, now: Instant) -> Option<Tick> {
        let State::Armed { deadline, plan, id } = self.state else { return None };
        if deadline != fired {
            return None;
        }
        // Armed anew for the same deadline, with the older event still under way: this call is for the newer arming.
        wheel.cancel(id);
        let (next, missed) = plan.repeat.after(deadline, now);
        self.state = State::Firing { next, plan };
        Some(Tick { deadline, missed })
    }

    fn end_firing(&mut self, wheel: &impl Wheel<Id = I>, may_tick: bool) {
        let State::Firing { next, plan } = self.state else { return };
        self.state = match !plan.repeat.is_once() && may_tick && !next.is_infinite() {
            true => State::Armed { deadline: next, plan, id: wheel.arm(next) },
            false => State::Idle,
        };
    }
}

impl Repeat {
    /// The deadline after one that is told at `now`, and how many between them are not told.
    fn after(self, deadline: Instant, now: Instant) -> (Instant, u64) {
        if self.is_once() {
            return (Instant::INFINITE, 0);
        }
        let missed = now.as_nanos().saturating_sub(deadline.as_nanos()) / self.period;
        let (from, periods, missed) = match self.missed {
            MissedTicks::Skip => (deadline, missed.saturating_add(1), missed),
            MissedTicks::Burst => (deadline, 1, 0),
            MissedTicks::Delay => (now, 1, missed),
        };
        (Instant::from_nanos(from.as_nanos().saturating_add(self.period.saturating_mul(periods))), missed)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn after(policy: MissedTicks, deadline: u64, now: u64) -> (u64, u64) {
        let every = Repeat::every(Duration::from_nanos(10), policy);
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
