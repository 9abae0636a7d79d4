//! `Patience`: whether it pays to wait awake for what is expected at once, instead of to sleep and be woken.
//!
//! A sleep and the wake-up after it cost two threads some microseconds of a processor, and more until it goes on. Who waits
//! awake for about as long, and in vain, pays twice at most; who does so only where it was not in vain of late saves far
//! more than that. So a thread tries it once in a while, goes on for as long as it succeeds, and the more often it fails the
//! rarer it tries, at last once in `1 << RAREST` sleeps, beside which a wait is nothing.

use std::time::Duration;

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::hint;
use crate::time::Clock;

/// How long a wait takes at most: about what it costs to be woken.
const MOST: Duration = Duration::from_micros(50);
/// Who comes back to the processor so late had to let another thread run, which was kept waiting.
const TOO_LATE: Duration = Duration::from_micros(200);
/// How many sleeps come before the first wait, as a power of two.
const FIRST: u32 = if IS_MODEL { 0 } else { 4 };
/// The most sleeps between two waits, as a power of two.
const RAREST: u32 = if IS_MODEL { 0 } else { 10 };
/// How many looks are taken between two readings of the clock.
const LOOKS: u32 = if IS_MODEL { 1 } else { 4 };
/// In a model time stands still: each wait is an awake one, and one look is all of it.
const IS_MODEL: bool = cfg!(shuttle);

/// What a look shows to whoever waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    There,
    NotYet,
    /// It is not going to come.
    Never,
}

/// What one thread has learned. Nobody else writes it.
#[derive(Debug)]
pub(super) struct Patience {
    /// How many sleeps are to come before the next wait.
    sleeps: AtomicU32,
    /// How rarely it waits after failures: so many sleeps come between, as a power of two. Each success makes it smaller.
    rarity: AtomicU32,
}

impl Default for Patience {
    fn default() -> Self {
        Patience { sleeps: AtomicU32::new(sleeps(FIRST)), rarity: AtomicU32::new(FIRST) }
    }
}

impl Patience {
    /// Whether to wait awake this time; to be asked once before each sleep.
    pub(super) fn is_ready(&self) -> bool {
        let sleeps = self.sleeps.load(Ordering::Relaxed);
        self.sleeps.store(sleeps.saturating_sub(1), Ordering::Relaxed);
        sleeps == 0
    }

    /// Waits awake, and learns from how it went. True: it is there.
    pub(super) fn wait(&self, look: impl FnMut() -> Look) -> bool {
        let seen = watch(look);
        self.learn(seen);
        seen
    }

    fn learn(&self, was_worth_it: bool) {
        let rarity = self.rarity.load(Ordering::Relaxed);
        let (rarity, sleeps) = match was_worth_it {
            true => (rarity.saturating_sub(1), 0),
            // Two successes make good for one failure, which costs about as much as each of them saves.
            false => ((rarity + 2).min(RAREST), sleeps((rarity + 2).min(RAREST))),
        };
        self.rarity.store(rarity, Ordering::Relaxed);
        self.sleeps.store(sleeps, Ordering::Relaxed);
    }
}

fn sleeps(rarity: u32) -> u32 {
    if rarity == 0 { 0 } else { 1 << rarity }
}

/// Looks until it is there, or is not going to come, or the time is over. True: it is there, and the processor was this thread's.
fn watch(mut look: impl FnMut() -> Look) -> bool {
    let clock = Clock::real();
    let since = clock.exact();
    loop {
        for _ in 0..LOOKS {
            match look() {
                Look::There => return clock.exact().duration_since(since) < TOO_LATE,
                Look::Never => return false,
                Look::NotYet => hint::spin_loop(),
            }
        }
        if IS_MODEL || clock.exact().duration_since(since) >= MOST {
            return false;
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// How many of so many sleeps it waits awake for instead, if all of these end like this.
    fn waits(patience: &Patience, sleeps: u32, was_worth_it: bool) -> u32 {
        (0..sleeps).filter(|_| patience.is_ready()).map(|_| patience.learn(was_worth_it)).count() as u32
    }

    #[test]
    fn nobody_waits_awake_who_has_not_slept_before() {
        let patience = Patience::default();
        assert_eq!(waits(&patience, 1 << FIRST, true), 0);
        assert_eq!(waits(&patience, 100, true), 100, "it succeeds each time");
    }

    #[test]
    fn who_waits_in_vain_does_so_ever_more_rarely() {
        let patience = Patience::default();
        let many = 10_000 << RAREST;
        waits(&patience, 1 << 14, false);
        assert!(waits(&patience, many, false) <= 10_000);
        assert!(waits(&patience, 1 << (RAREST + 1), true) > 0, "but it tries again");
        assert_eq!(waits(&patience, 100, true), 100);
    }

    #[test]
    fn one_failure_among_many_successes_costs_a_few_sleeps() {
        let patience = Patience::default();
        waits(&patience, 1_000, true);
        patience.learn(false);
        assert_eq!(waits(&patience, 104, true), 100);
    }

    #[test]
    fn a_wait_ends_with_what_it_waits_for_or_by_itself() {
        let mut looks = 0;
        let third = |looks: &mut u32| {
            *looks += 1;
            if *looks == 3 { Look::There } else { Look::NotYet }
        };
        // A machine under load may keep the thread from its processor, which counts as a failure.
        let _ = watch(|| third(&mut looks));
        assert!(looks <= 3);
        assert!(!watch(|| Look::NotYet));
        assert!(!watch(|| Look::Never));
    }
}
