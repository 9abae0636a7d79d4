//! `WakeWord`: how the one thread that sleeps in the poll and all those who may want to wake it keep clear of each
//! other.
//!
//! | state | means |
//! |---|---|
//! | `AWAKE` | nobody sleeps in the poll |
//! | `ASLEEP` | the leader sleeps, or is about to; whoever wants it awake sends the signal |
//! | `NOTIFIED` | somebody asked for a wake-up and the leader has not seen it yet |
//!
//! Every step is a read-modify-write of this one word, so the steps of all threads have one order, and each sees all
//! that the ones before it published. Why no wake-up is lost: take a thread that publishes its reason and then calls
//! `wake`, and a leader that calls `fall_asleep` and then looks at the reasons or sleeps. If `wake` comes first,
//! `fall_asleep` meets `NOTIFIED` and does not sleep. If `fall_asleep` comes first, `wake` meets `ASLEEP` and sends
//! the signal, which the kernel keeps until the poll takes it. There is no third order.
//!
//! Why no wake-up is sent twice: only the first `wake` after `fall_asleep` meets `ASLEEP`.

use crate::sync::atomic::{AtomicU32, Ordering};

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const NOTIFIED: u32 = 2;

/// The word between one sleeper and many wakers.
#[derive(Debug)]
pub(crate) struct WakeWord(AtomicU32);

/// What the leader does next.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// Nobody asked for a wake-up: sleep, then say [`WakeWord::awake`].
    Go,
    /// Somebody did, which is herewith taken notice of: do not sleep.
    Stay,
}

/// What a waker does next.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The leader sleeps, and this caller is the one to send the signal.
    Signal,
    /// The leader will take notice by itself, or another caller sends the signal.
    Nothing,
}

impl WakeWord {
    pub(crate) fn new() -> Self {
        WakeWord(AtomicU32::new(AWAKE))
    }

    /// The leader is about to sleep. Only one thread at a time may be between this and [`WakeWord::awake`].
    pub(crate) fn fall_asleep(&self) -> Sleep {
        // ORDERING: Acquire, pairs with the Release of `wake`: what was published before a wake-up that this call takes
        // notice of is visible to the leader. The success is only for the waker's eyes and publishes nothing.
        match self.0.compare_exchange(AWAKE, ASLEEP, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Sleep::Go,
            Err(_) => {
                self.awake();
                Sleep::Stay
            }
        }
    }

    /// The leader has woken. Takes notice of all wake-ups so far.
    pub(crate) fn awake(&self) {
        // ORDERING: Acquire, pairs with the Release of `wake`, as above.
        self.0.swap(AWAKE, Ordering::Acquire);
    }

    /// Makes the sleep of the leader end, or the next one not begin.
    pub(crate) fn wake(&self) -> Wake {
        // ORDERING: Release, pairs with the Acquire in `awake`; publishes the caller's reason. That a later wake-up
        // replaces the word does not hide an earlier one: an exchange continues the release sequence.
        match self.0.swap(NOTIFIED, Ordering::Release) {
            ASLEEP => Wake::Signal,
            _ => Wake::Nothing,
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_wake_of_a_sleep_signals() {
        let word = WakeWord::new();
        assert_eq!(word.fall_asleep(), Sleep::Go);
        assert_eq!((word.wake(), word.wake()), (Wake::Signal, Wake::Nothing));
        word.awake();
        assert_eq!(word.fall_asleep(), Sleep::Go);
    }

    #[test]
    fn a_wake_while_nobody_sleeps_keeps_the_next_sleep_from_beginning_once() {
        let word = WakeWord::new();
        assert_eq!(word.wake(), Wake::Nothing);
        assert_eq!(word.fall_asleep(), Sleep::Stay);
        assert_eq!(word.fall_asleep(), Sleep::Go);
    }
}
