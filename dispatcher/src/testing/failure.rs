//! What an exploration found: a schedule that fails, and everything that helps to see why.

use std::fmt;

use super::schedule::Schedule;
use super::trace::Trace;

/// A schedule that failed. Its text is the whole report.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The schedule that was found to fail.
    pub schedule: Schedule,
    /// How many had passed before it.
    pub passed: u64,
    /// The step at which it failed, of the schedule that the trace is of.
    pub step: u64,
    /// What is wrong.
    pub message: String,
    /// The shortest schedule that was found to fail in the same way; its run is what the trace is of.
    pub shrunk: Schedule,
    /// What happened.
    pub trace: Trace,
    /// What was pending when it failed, as a dump.
    pub pending: String,
    /// The moment at which something was injected, if something was: its number among those of the run.
    pub moment: Option<u64>,
    /// What was injected, and where that was.
    pub injected: Option<String>,
    /// Whether it is about a run, and not about there being none.
    pub(super) is_of_a_run: bool,
}

impl Failure {
    /// Nothing was run that could have shown anything.
    pub(super) fn without_runs(message: String) -> Self {
        let schedule = Schedule::of_picks(Vec::new());
        let (shrunk, trace) = (schedule.clone(), Trace::default());
        let (passed, step, pending, moment, injected) = (0, 0, String::new(), None, None);
        Failure { schedule, passed, step, message, shrunk, trace, pending, moment, injected, is_of_a_run: false }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { schedule, passed, step, message, shrunk, trace, pending, moment, injected, is_of_a_run } = self;
        if !is_of_a_run {
            return f.write_str(message);
        }
        let moment = moment.map_or_else(String::new, |moment| format!("@{moment}"));
        writeln!(f, "{message}")?;
        if let Some(injected) = injected {
            writeln!(f, "after {injected}")?;
        }
        writeln!(
            f,
            "in schedule {schedule}, after {passed} that passed; run it again with FUCHSINE_SEED={schedule}{moment}"
        )?;
        if shrunk != schedule {
            writeln!(f, "the shortest schedule found that fails so: FUCHSINE_SEED={shrunk}{moment}")?;
        }
        writeln!(f, "it failed at step {step} of:\n{trace}")?;
        write!(f, "left at that moment:\n{pending}")
    }
}

/// As the text, so that `unwrap` shows the report.
impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}
