//! Whether two runs of one schedule took the same course.

use super::director::{Broken, Decision};
use super::run::Ran;

/// That a scenario is not deterministic, and how that was seen.
pub(super) fn not_deterministic(step: u64, how: &str) -> Broken {
    let message = format!(
        "the scenario is not deterministic: at step {step} the same schedule takes another course ({how}); look for \
         the order of a hash map, a thread of its own, or the wall clock"
    );
    Broken { step, message }
}

/// Where a second run took another course than the first.
pub(super) fn difference(first: &Ran, again: &Ran) -> Option<Broken> {
    let (step, how) = match fork(&first.decisions, &again.decisions) {
        Some(fork) => fork,
        None if first.decisions.len() != again.decisions.len() || first.steps != again.steps => {
            (first.steps.min(again.steps), format!("{} steps before, {} now", first.steps, again.steps))
        }
        None if first.broken != again.broken => match first.broken.as_ref().or(again.broken.as_ref()) {
            Some(broken) => (broken.step, "it fails only sometimes".to_owned()),
            None => return None,
        },
        None => return None,
    };
    Some(not_deterministic(step, &how))
}

/// Where a run into which something was injected took another course than the one without, before that could matter. `due`
/// is the step of the moment; there is none if the run ended before it.
pub(super) fn difference_before(due: Option<u64>, without: &[Decision], with: &Ran) -> Option<Broken> {
    let Some(due) = due else {
        return Some(not_deterministic(with.steps, "it ends before a moment that it had without the injection"));
    };
    let upto = |decisions: &[Decision]| decisions.iter().take_while(|one| one.step < due).copied().collect::<Vec<_>>();
    let (before, now) = (upto(without), upto(&with.decisions));
    let (step, how) = match fork(&before, &now) {
        Some(fork) => fork,
        None if before.len() != now.len() => (due, format!("{} picks before, {} now", before.len(), now.len())),
        None => return None,
    };
    Some(not_deterministic(step, &how))
}

/// The first pick that is another one.
fn fork(before: &[Decision], now: &[Decision]) -> Option<(u64, String)> {
    let (one, other) = before.iter().zip(now).find(|(one, other)| one != other)?;
    Some((one.step, format!("{} before, {} now", pick_text(one), pick_text(other))))
}

fn pick_text(decision: &Decision) -> String {
    format!("{} of {} ({:?})", decision.picked + 1, decision.of, decision.choice)
}
