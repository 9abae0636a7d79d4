//! `LoopTimers`: the deadlines of one loop's own timers, in a wheel that only the loop's thread touches.
//!
//! Arming and canceling are a few instructions then, without a lock. The reactor, which may be shared, has one timer for
//! all of them, at the earliest deadline, and it is set only when the loop is about to sleep:
//!
//! 1. In each iteration the loop takes out of the wheel what is due, and calls it as it calls other events.
//! 2. Before it sleeps it looks once more whether something is due. If not, it makes sure that the reactor's timer is
//!    set no later than the earliest deadline. One that is set earlier, as its reason was canceled meanwhile, only wakes
//!    the loop for nothing, once.
//!
//! Nothing can be armed while the loop sleeps: its own thread alone does that.

use std::cell::{Cell, RefCell};

use crate::event_loop::event_loop::{EventLoop, NOBODY, TIMER_KEY};
use crate::event_loop::handle::LoopEvent;
use crate::event_loop::reactor::Fired;
use crate::event_loop::slots::Key;
use crate::event_loop::timer_wheel::{TimerKey, TimerWheel};
use crate::event_loop::timers::TimerId;
use crate::time::Instant;

pub(crate) struct LoopTimers {
    wheel: RefCell<TimerWheel<Key>>,
    /// The reactor's timer that stands for all of them, and when it rings.
    alarm: Cell<Option<(Instant, TimerId)>>,
    /// Where due ones are sorted; kept for its memory.
    due: RefCell<Vec<(Instant, Key)>>,
}

impl LoopTimers {
    pub(crate) fn new(now: Instant) -> Self {
        LoopTimers { wheel: RefCell::new(TimerWheel::new(now)), alarm: Cell::new(None), due: RefCell::new(Vec::new()) }
    }

    #[inline]
    pub(crate) fn arm(&self, deadline: Instant, key: Key) -> TimerKey {
        self.wheel.borrow_mut().arm(deadline, key)
    }

    /// How many deadlines are in the wheel.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.wheel.borrow().len()
    }

    #[inline]
    pub(crate) fn cancel(&self, id: TimerKey) {
        self.wheel.borrow_mut().cancel(id);
    }
}

impl EventLoop {
    /// Puts the timers that are due among the events: by deadline, and in the order of arming for equal ones. After a
    /// sleep they come first, before the readiness that has ended it; else what was left over does.
    pub(super) fn take_due_timers(&self, has_slept: bool) {
        let local = &**self.local();
        let timers = &local.loop_timers;
        let mut wheel = timers.wheel.borrow_mut();
        if wheel.len() == 0 {
            return;
        }
        let now = local.reactor.clock().exact();
        if wheel.next_deadline() > now {
            return;
        }
        let mut due = timers.due.borrow_mut();
        wheel.advance(now, |deadline, key| due.push((deadline, key)));
        // Stable, so equal deadlines keep their order.
        due.sort_by_key(|(deadline, _)| *deadline);
        let fired =
            |(deadline, key): (Instant, Key)| LoopEvent::Fired(TIMER_KEY | key.to_bits(), Fired::Timer { deadline });
        let mut events = local.events.borrow_mut();
        let count = due.len();
        events.extend(due.drain(..).map(fired));
        if has_slept {
            events.rotate_right(count);
        }
    }

    /// The loop is about to sleep. `false`: a timer is due, so it must not.
    pub(super) fn set_alarm(&self) -> bool {
        let local = &**self.local();
        let timers = &local.loop_timers;
        let next = timers.wheel.borrow().next_deadline();
        let alarm = timers.alarm.get();
        if next.is_infinite() && alarm.is_none() {
            return true;
        }
        let now = local.reactor.clock().exact();
        if next <= now {
            return false;
        }
        if alarm.is_some_and(|(at, _)| now < at && at <= next) {
            return true;
        }
        self.clear_alarm();
        if !next.is_infinite() {
            let id = local.reactor.arm_timer(next, local.shared.clone(), NOBODY);
            timers.alarm.set(Some((next, id)));
        }
        true
    }

    pub(super) fn clear_alarm(&self) {
        if let Some((_, id)) = self.local().loop_timers.alarm.take() {
            self.local().reactor.cancel_timer(id);
        }
    }
}
