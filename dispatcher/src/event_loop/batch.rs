//! What came of a poll, and whom to tell of it: [`Batch`] and [`EventTarget`]. The reactor that models stand in for the
//! real one has the same.

use std::fmt;

use crate::sync::Arc;
use crate::sys::Readiness;
use crate::time::Instant;

/// Whom to tell of an event.
pub(crate) trait EventTarget: Send + Sync + 'static {
    /// Something that was armed under `key` has come to pass. Called on the thread that leads, while it leads: it runs
    /// no user code. `last`: nothing else waits for this thread, so what follows may be run on it, by answering
    /// [`Told::RunHere`].
    fn fire(self: Arc<Self>, key: u64, fired: Fired, last: bool) -> Told;

    /// Runs what [`fire`](EventTarget::fire) left to be run on this thread, which does not lead any more.
    fn run_here(self: Arc<Self>) {}
}

/// What is left to do once a target has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "what is to be run here is run by nobody else"]
pub(crate) enum Told {
    /// Nothing.
    All,
    /// To call [`EventTarget::run_here`], without the lead.
    RunHere,
}

/// What has come to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fired {
    /// A timer's deadline has come.
    Timer { deadline: Instant },
    /// A source is ready; the wait is disarmed.
    Ready(Readiness),
}

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

    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    /// Tells all concerned, in order: timers by deadline, then waits. Then gives up `lead`, the right to poll, under
    /// which they were taken; what is to be run on this thread comes back.
    pub(crate) fn tell<L>(mut self, lead: L) -> LeftToRun {
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
