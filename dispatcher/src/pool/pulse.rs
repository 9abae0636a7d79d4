//! What a pool keeps of each of its threads: whether it searches, and its *pulse*, a number that moves while the thread
//! does. A pulse that stands still while something waits tells of a long callback.
//!
//! The list grows with the highest number that a thread ever had. A thread that ends leaves its entry to the next one of
//! its number.

use std::time::Duration;

use super::idle::ThreadIndex;
use super::patience::Patience;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{Arc, RwLock};
use crate::time::Instant;

/// What is kept of one thread. Only the thread itself writes it, and whoever starts it before it runs.
/// It is written with each turn, so no two are in one cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Pulse {
    searching: AtomicBool,
    beats: AtomicU32,
    /// Which wish about its scheduling it has carried out; 0 for none.
    generation: AtomicU32,
    /// What it has learned about waiting for results.
    pub(super) patience: Patience,
    /// When it looked at the reactor last between two sleeps that it did not sleep.
    looked_at: AtomicU64,
}

impl Pulse {
    /// Whether more than `interval` has passed since the answer was yes the last time.
    pub(super) fn is_time_to_look(&self, now: Instant, interval: Duration) -> bool {
        let is_time = now.duration_since(Instant::from_nanos(self.looked_at.load(Ordering::Relaxed))) > interval;
        if is_time {
            self.looked_at.store(now.as_nanos(), Ordering::Relaxed);
        }
        is_time
    }

    /// Notes whether the thread searches; the answer is whether it did.
    pub(super) fn set_searching(&self, value: bool) -> bool {
        let before = self.searching.load(Ordering::Relaxed);
        if before != value {
            self.searching.store(value, Ordering::Relaxed);
        }
        before
    }

    /// The thread begins something: a turn, or another round of looking for one.
    pub(super) fn beat(&self) {
        self.beats.store(self.beats.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    pub(super) fn set_generation(&self, generation: u32) {
        self.generation.store(generation, Ordering::Relaxed);
    }

    pub(super) fn beats(&self) -> u32 {
        self.beats.load(Ordering::Relaxed)
    }
}

/// The pulses of all threads of a pool, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Pulses(RwLock<Vec<Arc<Pulse>>>);

impl Pulses {
    /// The entry of thread `index`, made if there is none.
    pub(super) fn of(&self, index: ThreadIndex) -> Arc<Pulse> {
        let mut pulses = self.0.write();
        while pulses.len() <= index {
            pulses.push(Arc::new(Pulse::default()));
        }
        Arc::clone(&pulses[index])
    }

    /// How often each thread has beaten.
    pub(super) fn beats(&self) -> Vec<u32> {
        self.0.read().iter().map(|pulse| pulse.beats()).collect()
    }

    /// Names each thread that has not beaten since the last call with this `seen`, which holds what was seen then.
    pub(super) fn standing_still(&self, seen: &mut Vec<u32>, mut each: impl FnMut(ThreadIndex)) {
        for (thread, pulse) in self.0.read().iter().enumerate() {
            let beats = pulse.beats();
            match seen.get_mut(thread) {
                Some(seen) if *seen == beats => each(thread),
                Some(seen) => *seen = beats,
                None => seen.push(beats),
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stands_still_that_has_not_beaten_between_two_looks() {
        let pulses = Pulses::default();
        let (still, beating) = (pulses.of(0), pulses.of(1));
        let mut seen = Vec::new();
        let look = |seen: &mut Vec<u32>| {
            let mut found = Vec::new();
            pulses.standing_still(seen, |thread| found.push(thread));
            found
        };
        still.beat();
        assert_eq!(look(&mut seen), [], "one look tells nothing");
        beating.beat();
        assert_eq!(look(&mut seen), [0]);
        assert_eq!(look(&mut seen), [0, 1]);
        still.beat();
        assert_eq!(look(&mut seen), [1]);
    }
}
