//! [`Ranges`]: who may write where at the same time.

use std::ops::Range;

/// Ranges that are being written. No two of them overlap.
#[derive(Debug, Default)]
pub(crate) struct Ranges(Vec<Range<u64>>);

impl Ranges {
    /// Takes a range; false when it overlaps with one that is taken.
    pub(crate) fn take(&mut self, range: &Range<u64>) -> bool {
        let free = !self.0.iter().any(|taken| taken.start < range.end && range.start < taken.end);
        if free {
            self.0.push(range.clone());
        }
        free
    }

    /// Gives a range back that was taken.
    pub(crate) fn give_back(&mut self, range: &Range<u64>) {
        if let Some(at) = self.0.iter().position(|taken| taken == range) {
            self.0.swap_remove(at);
        }
    }

    /// Whether nothing is being written.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_touches_a_range_is_kept_out_until_it_is_given_back_and_what_is_beside_it_is_not() {
        let mut ranges = Ranges::default();
        assert!(ranges.take(&(10..20)));
        for inside in [10..20, 0..11, 19..30, 0..100, 12..13] {
            assert!(!ranges.take(&inside), "{inside:?}");
        }
        assert!(ranges.take(&(0..10)) && ranges.take(&(20..30)));
        ranges.give_back(&(10..20));
        assert!(ranges.take(&(10..20)) && !ranges.is_empty());
        for range in [0..10, 10..20, 20..30] {
            ranges.give_back(&range);
        }
        assert!(ranges.is_empty());
    }
}
