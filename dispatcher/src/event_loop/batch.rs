//! `Batch`: what came of a poll, on its way to those concerned.

use std::fmt;

use crate::event_loop::reactor::{EventTarget, Fired, Lead, Told};
use crate::sync::Arc;

/// One thing that has come to pass, and whom to tell.
pub(super) struct Due {
    pub(super) target: Arc<dyn EventTarget>,
    pub(super) key: u64,
    pub(super) fired: Fired,
}

/// What came of a poll. Everything in it is disarmed, and has to be delivered.
#[must_use = "what is in a batch is disarmed already; if it is not delivered, nobody is ever told"]
pub(crate) struct Batch {
    pub(super) due: Vec<Due>,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    /// Tells all concerned, in order: timers by deadline, then waits. Then gives the lead up, under which they were
    /// taken; what is to be run on this thread comes back.
    pub(crate) fn tell(mut self, lead: Lead<'_>) -> LeftToRun {
        let last = self.due.pop();
        for Due { target, key, fired } in self.due {
            // Only the last one may run anything here.
            let _ = target.fire(key, fired, false);
        }
        let left = last.and_then(|Due { target, key, fired }| {
            (Arc::clone(&target).fire(key, fired, true) == Told::RunHere).then_some(target)
        });
        drop(lead);
        LeftToRun(left)
    }
}

/// What is left to be run on the thread that led.
#[must_use = "what is to be run here is run by nobody else"]
pub(crate) struct LeftToRun(Option<Arc<dyn EventTarget>>);

impl LeftToRun {
    /// Runs it. The caller holds no lock.
    pub(crate) fn run(self) {
        if let Some(target) = self.0 {
            target.run_here();
        }
    }
}

impl fmt::Debug for LeftToRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LeftToRun").field(&self.0.is_some()).finish()
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({})", self.due.len())
    }
}
