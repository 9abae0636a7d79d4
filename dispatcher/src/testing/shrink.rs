//! Shrinking: from a schedule that fails to the shortest one that fails in the same way.
//!
//! A schedule is a list of picks, of which 0 is the usual way to go on. Whatever is left out or made 0 makes another
//! schedule that is legal too, so each attempt is a run. In steps:
//!
//! 1. The end is cut off: by half, by a quarter, and so on.
//! 2. Pieces are left out, from the last to the first, then pieces half as long; then pieces are made 0 in the same way.
//! 3. Single picks are made smaller. As long as anything of that helps, all of it is tried again.

/// The most runs for it, however short they are.
const MOST_RUNS: u64 = 2000;

/// What makes one schedule shorter than another: fewer that are out of the ordinary, then fewer at all, then smaller ones.
fn size(picks: &[usize]) -> (usize, usize, usize) {
    let odd = picks.iter().filter(|&&pick| pick != 0).count();
    let len = picks.iter().rposition(|&pick| pick != 0).map_or(0, |last| last + 1);
    (odd, len, picks.iter().sum())
}

/// Without the zeros at its end: what is not said is usual.
fn trimmed(mut picks: Vec<usize>) -> Vec<usize> {
    picks.truncate(size(&picks).1);
    picks
}

/// Makes `picks` shorter; `fails` runs some, and answers with those that were made in that run if it fails in the same way.
/// It makes no more than `most_runs`.
pub(super) fn shrink(
    picks: Vec<usize>,
    most_runs: u64,
    fails: impl FnMut(Vec<usize>) -> Option<Vec<usize>>,
) -> Vec<usize> {
    let mut shrinking = Shrinking { best: trimmed(picks), left: most_runs.min(MOST_RUNS), fails };
    loop {
        let before = size(&shrinking.best);
        shrinking.cut_the_end();
        shrinking.each_piece(|picks, from, to| drop(picks.drain(from..to)));
        shrinking.each_piece(|picks, from, to| picks[from..to].fill(0));
        shrinking.lower_each();
        if shrinking.left == 0 || size(&shrinking.best) >= before {
            return shrinking.best;
        }
    }
}

struct Shrinking<F> {
    best: Vec<usize>,
    /// How many runs may still be made.
    left: u64,
    fails: F,
}

impl<F: FnMut(Vec<usize>) -> Option<Vec<usize>>> Shrinking<F> {
    /// Keeps an attempt if it is shorter and fails; says so.
    fn attempt(&mut self, picks: Vec<usize>) -> bool {
        if size(&picks) >= size(&self.best) || self.left == 0 {
            return false;
        }
        self.left -= 1;
        let Some(made) = (self.fails)(picks) else { return false };
        // What was asked for may not have been on offer.
        let is_shorter = size(&made) < size(&self.best);
        if is_shorter {
            self.best = trimmed(made);
        }
        is_shorter
    }

    fn cut_the_end(&mut self) {
        let mut cut = self.best.len();
        while cut > 0 && self.left > 0 {
            let keep = self.best.len().saturating_sub(cut);
            if !self.attempt(self.best[..keep].to_vec()) {
                cut /= 2;
            }
        }
    }

    /// Changes pieces, the last ones first, and ever shorter ones.
    fn each_piece(&mut self, change: impl Fn(&mut Vec<usize>, usize, usize)) {
        let mut length = self.best.len().div_ceil(2);
        while length > 0 && self.left > 0 {
            let mut end = self.best.len();
            while end > 0 && self.left > 0 {
                let from = end.saturating_sub(length);
                let mut picks = self.best.clone();
                change(&mut picks, from, end);
                self.attempt(picks);
                end = from.min(self.best.len());
            }
            length = if length == 1 { 0 } else { length.div_ceil(2) };
        }
    }

    fn lower_each(&mut self) {
        let mut at = 0;
        while at < self.best.len() && self.left > 0 {
            let mut picks = self.best.clone();
            picks[at] /= 2;
            if !self.attempt(picks) {
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_does_not_matter_is_left_out() {
        // It fails whenever a 3 comes somewhere before a 2.
        let fails = |picks: Vec<usize>| {
            let three = picks.iter().position(|&pick| pick == 3)?;
            picks[three..].contains(&2).then_some(picks)
        };
        assert_eq!(shrink(vec![1, 0, 2, 3, 1, 1, 0, 3, 0, 0, 2, 5, 1], 2000, fails), [3, 2]);
    }

    #[test]
    fn a_long_schedule_takes_no_more_runs_than_it_may_and_what_is_usual_at_its_end_takes_none() {
        let runs_of = |picks: Vec<usize>| {
            let mut runs = 0;
            shrink(picks, 7, |picks| {
                runs += 1;
                (picks.len() > 50_000).then_some(picks)
            });
            runs
        };
        assert_eq!(runs_of(vec![1; 100_000]), 7);
        assert_eq!(runs_of(vec![0; 100_000]), 0);
    }

    proptest! {
        #[test]
        fn it_ends_and_what_is_left_fails(picks in prop::collection::vec(0..6_usize, 0..60), wanted in 0..200_usize) {
            let fails = |picks: &[usize]| picks.iter().sum::<usize>() >= wanted;
            prop_assume!(fails(&picks));
            let shrunk = shrink(picks, 2000, |attempt| fails(&attempt).then_some(attempt));
            prop_assert!(fails(&shrunk));
            prop_assert!(wanted > 0 || shrunk.is_empty() || size(&shrunk) == (0, 0, 0));
        }
    }
}
