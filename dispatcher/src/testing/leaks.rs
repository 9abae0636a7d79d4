//! What a run has made and not ended: arenas, ends of channels, irqs, tokens, simulated descriptors, and where each was made.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::runtime::Runtime;
use crate::site::Site;
use crate::sync::probe::Note;
use crate::time::Instant;

/// How many are listed in a report.
const MOST_LISTED: usize = 8;

/// What exists.
#[derive(Debug, Default)]
pub(super) struct Leaks {
    /// By kind and number, with the order in which it was made.
    alive: BTreeMap<(&'static str, u64), (u64, Site)>,
    made: u64,
    /// What was accepted with a deadline, in that order.
    timed: Vec<(u64, &'static str, Site)>,
}

impl Leaks {
    pub(super) fn hear(&mut self, note: &Note) {
        match *note {
            Note::Made { what, id, location } => {
                self.made += 1;
                self.alive.insert((what, id), (self.made, location));
            }
            Note::Accepted { kind, deadline, location, .. } if deadline != u64::MAX => {
                self.timed.push((deadline, kind, location));
            }
            Note::Gone { what, id } => {
                self.alive.remove(&(what, id));
            }
            _ => {}
        }
    }

    /// A timer that is armed although everything has shut down, and what was accepted for that time.
    pub(super) fn armed_timer(&self, runtime: &Runtime) -> Option<String> {
        let next = runtime.inner().pools().iter().map(|pool| pool.next_deadline()).min()?;
        (!next.is_infinite()).then(|| self.timer_text(next))
    }

    fn timer_text(&self, armed: Instant) -> String {
        let mut text = format!("a timer is left armed at the end of the run, for {armed:?}");
        let its = self.timed.iter().filter(|(deadline, ..)| *deadline == armed.as_nanos());
        for (_, kind, location) in its.take(MOST_LISTED) {
            // Writing to a string does not fail.
            let _ = write!(text, "\n  {kind} made at {location}");
        }
        text
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::probe::Ticket;

    #[test]
    fn a_timer_that_is_left_is_told_of_with_what_was_accepted_for_its_time() {
        let mut leaks = Leaks::default();
        let location = Site::caller();
        for (operation, deadline) in [5, 7, u64::MAX].into_iter().enumerate() {
            let ticket = Ticket { dispatcher: 1, operation: operation as u64, is_future: false };
            let (kind, type_name, always_on) = ("delayed task", "a closure", false);
            leaks.hear(&Note::Accepted { ticket, kind, type_name, location, deadline, always_on });
        }
        let report = leaks.timer_text(Instant::from_nanos(7));
        assert!(report.starts_with("a timer is left armed at the end of the run, for "), "{report}");
        assert_eq!(report.lines().skip(1).collect::<Vec<_>>(), [format!("  delayed task made at {location}")]);
    }

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
