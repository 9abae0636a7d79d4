//! Model of leading and waking: two threads with a reason each, one leader that sleeps when it sees none.
//!
//! Run as the models of `sync`. Explored with a preemption bound of 3: 5,474 schedules.
//!
//! The kernel's event descriptor is stood in for by a counter under a lock with a condition variable: like the
//! kernel's, it keeps a signal that comes before the sleep. Not covered: the poll itself, timers, and more than one
//! leader at a time (which the lock around the poll excludes).

use crate::event_loop::wake_word::{Sleep, Wake, WakeWord};
use crate::sync::{Arc, Condvar, Inbox, Mutex, thread};

struct Poll {
    word: WakeWord,
    signals: Mutex<u32>,
    signaled: Condvar,
    reasons: Inbox<u32>,
}

impl Poll {
    fn post(&self, reason: u32) {
        let _ = self.reasons.push(reason).expect("the queue is open");
        if self.word.wake() == Wake::Signal {
            let mut signals = self.signals.lock();
            *signals += 1;
            assert_eq!(*signals, 1, "one sleep is signaled once");
            drop(signals);
            self.signaled.notify_one();
        }
    }

    fn block(&self) {
        if self.word.fall_asleep() == Sleep::Stay {
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
}

/// Shows A6, A7, E28.
#[test]
fn loom_no_wake_up_is_lost_and_each_sleep_is_signaled_at_most_once() {
    loom::model(|| {
        let poll = Arc::new(Poll {
            word: WakeWord::new(),
            signals: Mutex::new(0),
            signaled: Condvar::new(),
            reasons: Inbox::new(),
        });
        let posters: Vec<_> = (0..2)
            .map(|reason| {
                let poll = poll.clone();
                thread::spawn("poster", move || poll.post(reason)).unwrap()
            })
            .collect();
        let mut seen = 0;
        while seen < 2 {
            seen += poll.reasons.take_all().count();
            if seen < 2 {
                // A lost wake-up shows as a deadlock here.
                poll.block();
            }
        }
        posters.into_iter().for_each(|poster| poster.join().unwrap());
    });
}
