//! All schedules of a small scenario, one after the other: a search that goes deep first.
//!
//! Each run follows a path of picks as far as it goes, and takes the first way from there on. The next path is that of the
//! last run up to its last decision which had another way left, and there it takes the next one. When no decision has
//! one, all were taken.

use super::director::Decision;
use super::strategy::Picker;
use crate::sync::probe::Choice;

/// Follows a path.
pub(super) struct Along {
    path: std::vec::IntoIter<usize>,
}

impl Along {
    pub(super) fn new(path: Vec<usize>) -> Self {
        Along { path: path.into_iter() }
    }
}

impl Picker for Along {
    fn pick(&mut self, choice: Choice, _of: usize) -> usize {
        let pick = self.path.next().unwrap_or(0);
        // Where a callback can let others go first, each of its points is decided; so this is none to branch at.
        if choice == Choice::Apart { 1 } else { pick }
    }
}

/// The path of the next run after one that made these decisions; `None` when all were taken.
pub(super) fn next_path(decisions: &[Decision]) -> Option<Vec<usize>> {
    let has_more = |decision: &Decision| decision.choice != Choice::Apart && decision.picked + 1 < decision.of;
    let last = decisions.iter().rposition(has_more)?;
    let mut path: Vec<usize> = decisions[..=last].iter().map(|decision| decision.picked).collect();
    path[last] += 1;
    Some(path)
}

/// Whether a run has gone along its path, which was made of `before`.
pub(super) fn is_along(before: &[Decision], path: &[usize], now: &[Decision]) -> bool {
    let pairs = before.iter().zip(now).take(path.len());
    let same = pairs.filter(|(one, other)| (one.step, one.choice, one.of) == (other.step, other.choice, other.of));
    same.count() == path.len()
}
