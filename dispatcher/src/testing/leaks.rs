//! What a run has made and not ended: arenas, ends of channels, irqs, tokens, simulated descriptors, and where each was made.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::runtime::Runtime;
use crate::site::Site;
use crate::sync::probe::Note;

/// How many are listed in a report.
const MOST_LISTED: usize = 8;

/// What exists.
#[derive(Debug, Default)]
pub(super) struct Leaks {
    /// By kind and number, with the order in which it was made.
    alive: BTreeMap<(&'static str, u64), (u64, Site)>,
    made: u64,
}

impl Leaks {
    pub(super) fn hear(&mut self, note: &Note) {
        match *note {
            Note::Made { what, id, location } => {
                self.made += 1;
                self.alive.insert((what, id), (self.made, location));
            }
            Note::Gone { what, id } => {
                self.alive.remove(&(what, id));
            }
            _ => {}
        }
    }

    /// What is left, oldest first; `None` if nothing is.
    pub(super) fn report(&self) -> Option<String> {
        if self.alive.is_empty() {
            return None;
        }
        let mut left: Vec<_> =
            self.alive.iter().map(|((what, _), (order, location))| (order, what, location)).collect();
        left.sort_unstable();
        let mut text = format!("{} left at the end of the run:", count(left.len()));
        for (_, what, location) in left.iter().take(MOST_LISTED) {
            // Writing to a string does not fail.
            let _ = write!(text, "\n  {what} made at {location}");
        }
        if left.len() > MOST_LISTED {
            let _ = write!(text, "\n  and {} more", left.len() - MOST_LISTED);
        }
        Some(text)
    }
}

fn count(things: usize) -> String {
    if things == 1 { "1 thing is".to_owned() } else { format!("{things} things are") }
}

/// A timer that is armed although everything has shut down.
pub(super) fn armed_timer(runtime: &Runtime) -> Option<String> {
    let next = runtime.inner().pools().iter().map(|pool| pool.next_deadline()).min()?;
    (!next.is_infinite()).then(|| format!("a timer is left armed at the end of the run, for {next:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_listed_by_where_it_was_made_and_the_rest_counted() {
        let mut leaks = Leaks::default();
        assert_eq!(leaks.report(), None);
        let location = Site::caller();
        for id in 0..10 {
            leaks.hear(&Note::Made { what: "arena", id, location });
        }
        leaks.hear(&Note::Gone { what: "arena", id: 3 });
        let report = leaks.report().expect("nine are left");
        assert!(report.starts_with("9 things are left at the end of the run:\n  arena made at "), "{report}");
        assert!(report.ends_with("\n  and 1 more"), "{report}");
        (0..10).for_each(|id| leaks.hear(&Note::Gone { what: "arena", id }));
        assert_eq!(leaks.report(), None);
    }
}
