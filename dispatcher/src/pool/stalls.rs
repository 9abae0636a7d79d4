//! How long each thread of a pool has been inside of one stretch of work, as far as its pulse tells.
//!
//! Nothing is stamped by the threads themselves: whoever looks now and then notes since when a pulse stands still. So a
//! stretch is seen to be as long as the time between the first and the last look that fell into it.

use std::time::Duration;

use super::idle::ThreadIndex;
use crate::time::Instant;

/// What was seen at the last look.
#[derive(Debug, Default)]
pub(super) struct Stalls {
    /// For each thread: its beats, since when they are these, and whether they were these at the look before.
    seen: Vec<Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    beats: u32,
    since: Instant,
    stands_still: bool,
}

impl Stalls {
    /// Forgets everything: nobody has looked for a while.
    pub(super) fn forget(&mut self) {
        self.seen.clear();
    }

    /// Takes a look.
    pub(super) fn look(&mut self, beats: &[u32], now: Instant) {
        for (thread, &beats) in beats.iter().enumerate() {
            match self.seen.get_mut(thread) {
                Some(seen) if seen.beats == beats => seen.stands_still = true,
                Some(seen) => *seen = Seen { beats, since: now, stands_still: false },
                None => self.seen.push(Seen { beats, since: now, stands_still: false }),
            }
        }
    }

    /// The threads whose pulse did not move between the last two looks.
    pub(super) fn standing_still(&self) -> impl Iterator<Item = ThreadIndex> + '_ {
        self.seen.iter().enumerate().filter(|(_, seen)| seen.stands_still).map(|(thread, _)| thread)
    }

    /// Whether there are threads, and every one has stood still for `limit` or longer. Numbers without a thread stand
    /// still for ever.
    pub(super) fn all_for(&self, limit: Duration, now: Instant) -> bool {
        !self.seen.is_empty() && self.seen.iter().all(|seen| now.duration_since(seen.since) >= limit)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(350);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_pulse_that_moves_between_looks_is_no_stall() {
        let mut stalls = Stalls::default();
        assert!(!stalls.all_for(LIMIT, at(0)), "there is no thread");
        stalls.look(&[1, 1], at(0));
        assert_eq!(stalls.standing_still().count(), 0, "one look tells nothing");
        stalls.look(&[1, 2], at(200));
        assert_eq!(stalls.standing_still().collect::<Vec<_>>(), [0]);
        stalls.look(&[1, 2], at(400));
        assert_eq!(stalls.standing_still().collect::<Vec<_>>(), [0, 1]);
        assert!(!stalls.all_for(LIMIT, at(400)), "the second has stood for 200 ms");
        assert!(stalls.all_for(LIMIT, at(550)));
        stalls.look(&[2, 2], at(600));
        assert!(!stalls.all_for(LIMIT, at(600)), "the first has moved");
    }

    #[test]
    fn a_thread_that_comes_later_counts_from_then_on() {
        let mut stalls = Stalls::default();
        stalls.look(&[1], at(0));
        stalls.look(&[1, 0], at(400));
        assert!(!stalls.all_for(LIMIT, at(400)));
        stalls.look(&[1, 0], at(750));
        assert!(stalls.all_for(LIMIT, at(750)));
        stalls.forget();
        stalls.look(&[1, 0], at(800));
        assert!(!stalls.all_for(LIMIT, at(800)), "what was seen before counts no more");
    }
}
