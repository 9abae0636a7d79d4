//! The committed counts, and what a change of them means.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// How much more than noted, in percent, is growth.
const TOLERANCE: f64 = 5.0;

/// What stands above the counts in the file.
const HEADER: &str = "\
# Instructions an operation of the hot paths takes, counted by valgrind: `.ci/instructions` fails when one has grown by
# more than 5 %. After a change that is meant, `.ci/instructions --write` notes the new counts. A count that is more than
# 5 % above the least that it ever was (`least`) needs a `note` that says what is had for it; `--write` keeps the notes.

";

/// What is noted of one path.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    /// The count when it was last noted.
    pub(crate) instructions: f64,
    /// The least that was ever noted.
    pub(crate) least: f64,
    /// Why it is more than that.
    #[serde(default)]
    pub(crate) note: String,
}

/// All paths by their names.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Baseline(BTreeMap<String, Entry>);

/// What became of a count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict {
    /// It is what it was, or near.
    Same,
    /// It is smaller by more than the tolerance, so the file is out of date; that is no failure.
    Shrunk,
    /// It has grown by more than the tolerance.
    Grown,
    /// What is noted is above the least that ever was, without a note.
    Unexplained,
    /// Nothing is noted.
    Unknown,
}

impl Verdict {
    pub(crate) fn is_failure(self) -> bool {
        matches!(self, Verdict::Grown | Verdict::Unexplained | Verdict::Unknown)
    }

    /// What the table says of it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Verdict::Same => "",
            Verdict::Shrunk => "shrunk: `--write` notes it",
            Verdict::Grown => "GROWN",
            Verdict::Unexplained => "UNEXPLAINED: above the least that it ever was; give a reason as its note",
            Verdict::Unknown => "UNKNOWN: `--write` notes it",
        }
    }
}

/// How much more `now` is than `before`, in percent.
pub(crate) fn growth(before: f64, now: f64) -> f64 {
    (now / before - 1.0) * 100.0
}

impl Baseline {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map(Baseline).map_err(|error| error.to_string())
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&Entry> {
        self.0.get(name)
    }

    pub(crate) fn judge(&self, name: &str, now: f64) -> Verdict {
        let Some(entry) = self.entry(name) else { return Verdict::Unknown };
        let change = growth(entry.instructions, now);
        if change > TOLERANCE {
            Verdict::Grown
        } else if growth(entry.least, entry.instructions) > TOLERANCE && entry.note.trim().is_empty() {
            Verdict::Unexplained
        } else if change < -TOLERANCE {
            Verdict::Shrunk
        } else {
            Verdict::Same
        }
    }

    /// Notes a count. A note stays, until the count is near the least again.
    pub(crate) fn note(&mut self, name: &str, now: f64) {
        let now = (now * 10.0).round() / 10.0;
        let entry =
            self.0.entry(name.to_owned()).or_insert(Entry { instructions: now, least: now, note: String::new() });
        entry.instructions = now;
        entry.least = entry.least.min(now);
        if growth(entry.least, now) <= TOLERANCE {
            entry.note.clear();
        }
    }

    /// Forgets paths that are no more.
    pub(crate) fn keep_only(&mut self, is_there: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_there(name));
    }

    /// The text of the file.
    pub(crate) fn to_text(&self) -> String {
        let mut text = HEADER.to_owned();
        for (name, Entry { instructions, least, note }) in &self.0 {
            let note = toml::Value::String(note.clone());
            writeln!(text, "{name} = {{ instructions = {instructions:.1}, least = {least:.1}, note = {note} }}")
                .expect("a string takes everything");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(instructions: f64, least: f64, note: &str) -> Baseline {
        Baseline([("path".to_owned(), Entry { instructions, least, note: note.to_owned() })].into())
    }

    #[test]
    fn more_than_five_percent_is_growth_and_less_is_not() {
        let baseline = of(100.0, 100.0, "");
        assert_eq!(baseline.judge("path", 104.9), Verdict::Same);
        assert_eq!(baseline.judge("path", 105.1), Verdict::Grown);
        assert_eq!(baseline.judge("path", 94.9), Verdict::Shrunk);
        assert_eq!(baseline.judge("another", 1.0), Verdict::Unknown);
    }

    #[test]
    fn growth_that_was_noted_needs_a_reason() {
        let mut baseline = of(100.0, 100.0, "");
        baseline.note("path", 120.0);
        assert_eq!(baseline.judge("path", 120.0), Verdict::Unexplained);
        assert_eq!(of(120.0, 100.0, "it can be listed now").judge("path", 120.0), Verdict::Same);
    }

    /// Steps that are too small to count add up against the least that ever was.
    #[test]
    fn small_steps_do_not_hide_growth() {
        let mut baseline = of(100.0, 100.0, "");
        for now in [104.0, 108.0] {
            assert_eq!(baseline.judge("path", now), Verdict::Same);
            baseline.note("path", now);
        }
        assert_eq!(baseline.judge("path", 108.0), Verdict::Unexplained);
    }

    #[test]
    fn a_reason_goes_when_the_count_is_back() {
        let mut baseline = of(120.0, 100.0, "a reason");
        baseline.note("path", 118.0);
        assert_eq!(baseline, of(118.0, 100.0, "a reason"));
        baseline.note("path", 99.0);
        assert_eq!(baseline, of(99.0, 99.0, ""));
    }

    #[test]
    fn what_is_written_can_be_read() {
        let baseline = of(120.0, 100.0, "says \"why\"");
        assert_eq!(Baseline::parse(&baseline.to_text()), Ok(baseline));
    }
}
