//! Model of posting to a loop: the inbox, the wake-up that only the first of a burst sends, the loop's sleep, and the exact
//! close at its end, all together.
//!
//! Run as the models of `sync`. Explored with a preemption bound of 3: 13,975 schedules.
//!
//! The kernel's event descriptor is stood in for as in `loom_wake_word`. Not covered: more than two posters, timers, and
//! budgets (a loop that leaves something over does not sleep).

use crate::event_loop::wake_word::{Sleep, Wake, WakeWord};
use crate::sync::{Arc, Condvar, Inbox, Mutex, Pushed, thread};

const STOP: u32 = 0;

struct Loop {
    inbox: Inbox<u32>,
    word: WakeWord,
    signals: Mutex<u32>,
    signaled: Condvar,
}

impl Loop {
    /// What `LoopHandle::async_run` does. Answers whether the post was accepted.
    fn post(&self, value: u32) -> bool {
        let pushed = self.inbox.push(value);
        if pushed == Ok(Pushed::ToEmpty) && self.word.wake() == Wake::Signal {
            *self.signals.lock() += 1;
            self.signaled.notify_one();
        }
        pushed.is_ok()
    }

    fn sleep(&self) {
        if !self.inbox.is_empty() || self.word.fall_asleep() == Sleep::Stay {
            return;
        }
        let mut signals = self.signals.lock();
        while *signals == 0 {
            self.signaled.wait(&mut signals);
        }
        *signals = 0;
        drop(signals);
        self.word.awake();
    }

    /// Runs until it is told to stop, then closes. Answers how many it has run.
    fn run(&self) -> usize {
        let mut ran = 0;
        loop {
            let mut stopped = false;
            for value in self.inbox.take_all() {
                stopped |= value == STOP;
                ran += 1;
            }
            if stopped {
                return ran + self.inbox.close().count();
            }
            // A lost wake-up shows as a deadlock here.
            self.sleep();
        }
    }
}

/// Shows A5, A6, A7, A9, E5, E6, E28.
#[test]
fn loom_a_loop_sleeps_through_no_post_and_what_it_accepts_until_its_close_is_run() {
    loom::model(|| {
        let of_loop = Arc::new(Loop {
            inbox: Inbox::new(),
            word: WakeWord::new(),
            signals: Mutex::new(0),
            signaled: Condvar::new(),
        });
        let (one, other) = (of_loop.clone(), of_loop.clone());
        let poster = thread::spawn("poster", move || usize::from(one.post(1)) + usize::from(one.post(2))).unwrap();
        let stopper = thread::spawn("stopper", move || usize::from(other.post(STOP))).unwrap();
        let ran = of_loop.run();
        let accepted = poster.join().unwrap() + stopper.join().unwrap();
        assert_eq!(ran, accepted);
        assert!(!of_loop.post(3), "it is closed");
    });
}
