//! `Budget`: how much of one kind of callback a loop serves before it looks at the other kinds.

use std::time::Duration;

use crate::time::{Clock, Instant};

/// Callbacks of one kind in one iteration, at most.
pub(crate) const CALLBACKS: u32 = 1_024;
/// Time for one kind in one iteration, at most; a callback that is running is not interrupted.
pub(crate) const TIME: Duration = Duration::from_millis(2);
/// The clock is read before the second callback, then after 1, 2, 4 ... callbacks more, and once in so many from then on:
/// a reading costs more than a short callback, and a long callback should be noticed before there are many of them.
const PER_READING: u32 = 128;

/// What is left for one kind of callback in one iteration.
pub(crate) struct Budget<'a> {
    clock: &'a Clock,
    /// How many callbacks may run before the next reading.
    until_reading: u32,
    /// How many may run after it, at most.
    left: u32,
    /// How many of them are to run before the reading after that.
    step: u32,
    /// Set at the first reading: a run of one callback never reads the clock.
    until: Option<Instant>,
}

impl<'a> Budget<'a> {
    pub(crate) fn new(clock: &'a Clock) -> Self {
        Budget { clock, until_reading: 1, left: CALLBACKS - 1, step: 1, until: None }
    }

    /// Whether one more callback may run, which is herewith paid for.
    #[inline]
    pub(crate) fn spend(&mut self) -> bool {
        if self.until_reading == 0 && !self.look_at_the_clock() {
            return false;
        }
        self.until_reading -= 1;
        true
    }

    /// Whether any more may run, and how many before the next reading.
    #[cold]
    fn look_at_the_clock(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        let now = self.clock.exact();
        if now >= *self.until.get_or_insert(now + TIME) {
            self.left = 0;
            return false;
        }
        self.until_reading = self.step.min(self.left);
        self.left -= self.until_reading;
        self.step = (self.step * 2).min(PER_READING);
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
        assert_eq!((0..2 * CALLBACKS).filter(|_| budget.spend()).count(), CALLBACKS as usize);
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
