//! `Budget`: how much of one kind of callback a loop serves before it looks at the other kinds.

use std::time::Duration;

use crate::time::{Clock, Instant};

/// Callbacks of one kind in one iteration, at most.
pub(crate) const CALLBACKS: u32 = 256;
/// Time for one kind in one iteration, at most; a callback that is running is not interrupted.
pub(crate) const TIME: Duration = Duration::from_millis(2);
/// The clock is read before the second callback, then after 1, 2, 4 ... callbacks more, and once in so many from then on:
/// a reading costs more than a short callback, and a long callback should be noticed before there are many of them.
const PER_READING: u32 = 32;

/// What is left for one kind of callback in one iteration.
pub(crate) struct Budget<'a> {
    clock: &'a Clock,
    left: u32,
    /// How many callbacks may run before the next reading.
    until_reading: u32,
    /// How many are to run between the next reading and the one after.
    step: u32,
    /// Set at the first reading: a run of one callback never reads the clock.
    until: Option<Instant>,
}

impl<'a> Budget<'a> {
    pub(crate) fn new(clock: &'a Clock) -> Self {
        Budget { clock, left: CALLBACKS, until_reading: 1, step: 1, until: None }
    }

    /// Whether one more callback may run, which is herewith paid for.
    pub(crate) fn spend(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        if self.until_reading == 0 {
            let now = self.clock.now();
            if now >= *self.until.get_or_insert(now + TIME) {
                self.left = 0;
                return false;
            }
            self.until_reading = self.step;
            self.step = (self.step * 2).min(PER_READING);
        }
        self.until_reading -= 1;
        self.left -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_by_count_while_time_stands_still() {
        let clock = Clock::virtual_at(Instant::ZERO);
        let mut budget = Budget::new(&clock);
        assert_eq!((0..1_000).filter(|_| budget.spend()).count(), CALLBACKS as usize);
    }

    #[test]
    fn a_budget_ends_by_time_when_callbacks_are_long() {
        let clock = Clock::virtual_at(Instant::ZERO);
        let mut budget = Budget::new(&clock);
        let mut ran = 0;
        while budget.spend() {
            ran += 1;
            clock.advance_to(clock.now() + Duration::from_millis(1));
        }
        assert_eq!(ran, 4, "few, although their length was not known: readings come after 1, 2 and 4 of them");
        assert!(!budget.spend(), "what is used up stays used up");
    }
}
