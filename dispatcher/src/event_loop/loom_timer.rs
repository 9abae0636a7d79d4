//! Models of one timer: firing on its loop, stopped and destroyed by other threads, armed anew by its own callback.
//!
//! Run as the models of `sync`. Explored with a preemption bound of 3: 15 schedules (a stop against a firing), 500 (a
//! stop and a destruction against a ticker), 57 (a stop against a callback that arms its timer anew).
//!
//! The wheel is stood in for by a list of deadlines under a lock, from which the loop takes what is due before it looks
//! at the timer, as it does in fact. Not covered: the timer wheel (`timer_wheel.rs` has tests of its own) and the alarm.

use std::cell::Cell;
use std::time::Duration;

use crate::event_loop::timer_state::{Arming, MissedTicks, Plan, Repeat, SharedArming, Stopped, TimerState, Wheel};
use crate::sync::{Arc, Mutex, thread};
use crate::time::Instant;

/// The deadlines that are armed, by number.
#[derive(Default)]
struct Deadlines(Mutex<(u32, Vec<(u32, Instant)>)>);

impl Wheel for Arc<Deadlines> {
    type Id = u32;

    fn arm(&self, deadline: Instant) -> u32 {
        let mut inner = self.0.lock();
        inner.0 += 1;
        let id = inner.0;
        inner.1.push((id, deadline));
        id
    }

    fn cancel(&self, id: u32) {
        self.0.lock().1.retain(|(armed, _)| *armed != id);
    }
}

/// As its loop reaches it.
struct Timer {
    arming: Arming<u32>,
    deadlines: Arc<Deadlines>,
    calls: Cell<u32>,
}

/// As other threads reach it.
struct Stopper {
    arming: Arc<SharedArming<u32>>,
    deadlines: Arc<Deadlines>,
}

const DUE: Instant = Instant::from_nanos(10);
const ONCE: Plan = Plan { repeat: Repeat::ONCE, since_shutdown: false };

fn ticker() -> Plan {
    Plan { repeat: Repeat::every(Duration::from_nanos(10), MissedTicks::Skip), since_shutdown: false }
}

impl Timer {
    /// Armed before anybody else could reach it.
    fn armed(plan: Plan) -> Timer {
        let timer = Timer { arming: Arming::new(), deadlines: Arc::default(), calls: Cell::new(0) };
        assert!(timer.arming.arm(&timer.deadlines, DUE, plan));
        timer
    }

    fn stopper(&self) -> Stopper {
        Stopper { arming: self.arming.share(), deadlines: self.deadlines.clone() }
    }

    /// The loop takes what is due, and comes to each a moment later.
    fn fire(&self, callback: impl Fn(u32)) {
        let due: Vec<_> = std::mem::take(&mut self.deadlines.0.lock().1);
        for (_, deadline) in due {
            if self.arming.begin_firing(&self.deadlines, deadline, deadline).is_some() {
                callback(self.calls.replace(self.calls.get() + 1));
                self.arming.end_firing(&self.deadlines, true);
            }
        }
    }

    fn armed_deadlines(&self) -> usize {
        self.deadlines.0.lock().1.len()
    }
}

impl Stopper {
    fn stop(&self) -> Stopped {
        self.arming.stop(&self.deadlines)
    }

    fn destroy(&self) -> bool {
        self.arming.destroy(&self.deadlines)
    }
}

/// Shows T8.
#[test]
fn loom_a_timer_is_either_stopped_or_called_and_never_both() {
    loom::model(|| {
        let timer = Timer::armed(ONCE);
        let stopper = timer.stopper();
        let stopper = thread::spawn("stopper", move || stopper.stop().prevented).unwrap();
        timer.fire(|_| {});
        let prevented = stopper.join().unwrap();
        assert_eq!(timer.calls.get(), u32::from(!prevented), "`true` means that no call comes, `false` that it came");
        assert_eq!(timer.arming.state(), TimerState::Idle);
        assert_eq!(timer.armed_deadlines(), 0, "nothing is left behind in the reactor");
    });
}

/// Shows T8, T10.
#[test]
fn loom_a_ticker_that_was_stopped_and_destroyed_never_ticks_again() {
    loom::model(|| {
        let timer = Timer::armed(ticker());
        let (stopper, destroyer) = (timer.stopper(), timer.stopper());
        let stopper = thread::spawn("stopper", move || stopper.stop().prevented).unwrap();
        let destroyer = thread::spawn("destroyer", move || destroyer.destroy()).unwrap();
        timer.fire(|_| {});
        let _ = stopper.join().unwrap();
        assert!(destroyer.join().unwrap(), "only one destroyed it");
        let calls = timer.calls.get();
        assert_eq!(timer.armed_deadlines(), 0, "a tick that was under way did not arm it again");
        timer.fire(|_| {});
        assert!(!timer.arming.arm(&timer.deadlines, DUE, ONCE), "it cannot be armed any more");
        assert_eq!(timer.calls.get(), calls);
    });
}

#[test]
fn loom_a_timer_that_arms_itself_anew_is_stopped_for_the_old_arming_or_for_the_new_one() {
    loom::model(|| {
        let timer = Timer::armed(ONCE);
        let stopper = timer.stopper();
        let stopper = thread::spawn("stopper", move || stopper.stop().prevented).unwrap();
        // Anew for the same deadline, so that an old event could be taken for a new one.
        timer.fire(|nth| assert!(nth > 0 || timer.arming.arm(&timer.deadlines, DUE, ONCE)));
        timer.fire(|_| {});
        let prevented = stopper.join().unwrap();
        let calls = timer.calls.get();
        let still_armed = timer.arming.state() != TimerState::Idle;
        assert!(!still_armed, "whatever was armed has fired or was stopped");
        assert_eq!(timer.armed_deadlines(), 0);
        if prevented {
            assert!(calls <= 1, "a call was prevented: the only one, or the second");
        } else {
            assert_eq!(calls, 2, "the stop met an idle timer or a firing one, and prevented nothing");
        }
    });
}
