//! The power of a driver: running or suspended, who wants to know, and which sources are reasons to resume.
//!
//! ```text
//! Running ──suspend──▶ Suspending ──nothing regular executes any more──▶ Suspended ──resume──▶ Running
//!                          └────────────────────resume──────────────────────────────────────────▲
//! ```
//!
//! It stands under a lock of its own, which is taken last: below that of the driver, and below that of a dispatcher,
//! whose events ask it. It calls nobody; what is to be called is a [`Job`], for which the caller schedules a turn.

use std::collections::VecDeque;

use super::driver::Driver;
use super::flavour::SourceIdentity;
use super::wake_vector::WakeVectors;
use crate::status::Canceled;
use crate::sync::Arc;
use crate::sys::{Interest, Readiness};

/// Told once how a suspend ended.
pub(crate) type Completer = Box<dyn FnOnce(Result<(), Canceled>) + Send>;

/// Called when a wake vector has something to tell a driver that is suspended.
pub(crate) type Requester = Arc<dyn Fn(&Driver) + Send + Sync>;

enum Phase {
    Running,
    Suspending {
        /// Dispatchers on which something regular executes; and the call that suspends, until it has seen all.
        waiting: usize,
        completer: Completer,
    },
    Suspended,
}

enum Job {
    Complete(Completer, Result<(), Canceled>),
    Request,
}

/// A call of user code that is due.
pub(crate) enum DueCall {
    Complete(Completer, Result<(), Canceled>),
    Request(Requester),
    /// It is not wanted any more.
    Nothing,
}

/// Whether a turn is to be scheduled, which makes one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a call that gets no turn is never made"]
pub(crate) enum CallDue {
    Yes,
    No,
}

/// The power of one driver.
pub(crate) struct Power {
    phase: Phase,
    requester: Option<Requester>,
    vectors: WakeVectors,
    /// Whether a wake vector has had something to tell since the suspend.
    wake_is_pending: bool,
    jobs: VecDeque<Job>,
    /// Calls that are being made.
    running: usize,
    /// Whether the driver has shut down: nobody is called any more.
    is_closed: bool,
}

impl Power {
    pub(crate) fn new() -> Self {
        Power {
            phase: Phase::Running,
            requester: None,
            vectors: WakeVectors::new(),
            wake_is_pending: false,
            jobs: VecDeque::new(),
            running: 0,
            is_closed: false,
        }
    }

    /// Whether regular callbacks are parked.
    pub(crate) fn is_suspended(&self) -> bool {
        !matches!(self.phase, Phase::Running)
    }

    /// Whether nobody is being called, nor going to be. The driver's observer waits for it.
    pub(crate) fn is_quiet(&self) -> bool {
        self.jobs.is_empty() && self.running == 0 && !matches!(self.phase, Phase::Suspending { .. })
    }

    /// Begins a suspend, which the caller counts as one that it waits for. The completer comes back if it has begun.
    pub(crate) fn begin_suspend(&mut self, completer: Completer) -> Result<(), Completer> {
        if self.is_suspended() {
            return Err(completer);
        }
        self.phase = Phase::Suspending { waiting: 1, completer };
        self.wake_is_pending = false;
        Ok(())
    }

    /// One more dispatcher is waited for.
    pub(crate) fn wait_for_one_more(&mut self) {
        if let Phase::Suspending { waiting, .. } = &mut self.phase {
            *waiting += 1;
        }
    }

    /// One that was waited for is not any more.
    pub(crate) fn one_is_quiet(&mut self) -> CallDue {
        let Phase::Suspending { waiting, .. } = &mut self.phase else { return CallDue::No };
        *waiting -= 1;
        if *waiting > 0 {
            return CallDue::No;
        }
        match std::mem::replace(&mut self.phase, Phase::Suspended) {
            Phase::Suspending { completer, .. } => self.push(Job::Complete(completer, Ok(()))),
            Phase::Running | Phase::Suspended => CallDue::No,
        }
    }

    /// Ends a suspend; `None` if there is none.
    pub(crate) fn resume(&mut self) -> Option<CallDue> {
        self.wake_is_pending = false;
        match std::mem::replace(&mut self.phase, Phase::Running) {
            Phase::Running => None,
            Phase::Suspended => Some(CallDue::No),
            Phase::Suspending { completer, .. } => Some(self.push(Job::Complete(completer, Err(Canceled)))),
        }
    }

    /// A source with an identity has become ready on a dispatcher that is suspended. Whether it is a wake vector.
    pub(crate) fn is_wake(&self, source: SourceIdentity, readiness: Readiness) -> bool {
        self.vectors.matches(source, readiness)
    }

    /// Whether a source is a wake vector, for whatever it is ready.
    pub(crate) fn is_wake_source(&self, source: SourceIdentity) -> bool {
        self.vectors.contains(source)
    }

    /// A wake vector has something to tell.
    pub(crate) fn wake(&mut self) -> CallDue {
        self.wake_is_pending = true;
        self.request()
    }

    fn request(&mut self) -> CallDue {
        let is_requested = self.jobs.iter().any(|job| matches!(job, Job::Request));
        if is_requested || self.requester.is_none() { CallDue::No } else { self.push(Job::Request) }
    }

    /// Replaces the requester; the old one comes back, to be dropped without the lock. The new one, if the driver has
    /// shut down.
    pub(crate) fn set_requester(&mut self, requester: Option<Requester>) -> (Option<Requester>, CallDue) {
        if self.is_closed {
            return (requester, CallDue::No);
        }
        let old = std::mem::replace(&mut self.requester, requester);
        let is_due = self.is_suspended() && self.wake_is_pending;
        (old, if is_due { self.request() } else { CallDue::No })
    }

    /// The driver has shut down. Its requester comes back, to be dropped without the lock.
    pub(crate) fn close(&mut self) -> Option<Requester> {
        self.is_closed = true;
        self.requester.take()
    }

    /// Adds a wake vector; false while the driver is suspended.
    pub(crate) fn add_vector(&mut self, source: SourceIdentity, interest: Interest) -> bool {
        let is_allowed = !self.is_suspended();
        if is_allowed {
            self.vectors.add(source, interest);
        }
        is_allowed
    }

    /// Removes a wake vector, or a part of it; false if there is none.
    pub(crate) fn remove_vector(&mut self, source: SourceIdentity, interest: Interest) -> bool {
        self.vectors.remove(source, interest)
    }

    fn push(&mut self, job: Job) -> CallDue {
        self.jobs.push_back(job);
        CallDue::Yes
    }

    /// The next call. Whoever makes it says so when it has returned.
    pub(crate) fn begin_call(&mut self) -> DueCall {
        self.running += 1;
        match self.jobs.pop_front() {
            Some(Job::Complete(completer, outcome)) => DueCall::Complete(completer, outcome),
            // One that was due before a resume is not one of the suspend after it.
            Some(Job::Request) if self.is_suspended() && self.wake_is_pending => {
                self.requester.clone().map_or(DueCall::Nothing, DueCall::Request)
            }
            Some(Job::Request) | None => DueCall::Nothing,
        }
    }

    /// A call has returned.
    pub(crate) fn end_call(&mut self) {
        self.running -= 1;
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn no_completer() -> Completer {
        Box::new(|_| ())
    }

    fn outcome_of(power: &mut Power) -> Option<Result<(), Canceled>> {
        let due = power.begin_call();
        power.end_call();
        match due {
            DueCall::Complete(_, outcome) => Some(outcome),
            DueCall::Request(_) | DueCall::Nothing => None,
        }
    }

    #[test]
    fn a_suspend_is_complete_when_all_that_it_waits_for_are_quiet() {
        let mut power = Power::new();
        assert!(power.begin_suspend(no_completer()).is_ok() && power.is_suspended());
        power.wait_for_one_more();
        assert_eq!(power.one_is_quiet(), CallDue::No);
        assert!(!power.is_quiet(), "somebody is going to be called");
        assert_eq!(power.one_is_quiet(), CallDue::Yes);
        assert_eq!(outcome_of(&mut power), Some(Ok(())));
        assert!(power.is_quiet() && power.is_suspended());
        assert!(power.begin_suspend(no_completer()).is_err(), "it is suspended");
        assert_eq!(power.resume(), Some(CallDue::No));
        assert_eq!(power.resume(), None);
    }

    #[test]
    fn a_resume_in_the_middle_cancels_the_suspend_and_late_reports_of_it_count_nothing() {
        let mut power = Power::new();
        assert!(power.begin_suspend(no_completer()).is_ok());
        assert_eq!(power.resume(), Some(CallDue::Yes));
        assert_eq!(outcome_of(&mut power), Some(Err(Canceled)));
        assert_eq!(power.one_is_quiet(), CallDue::No);
        assert!(power.is_quiet());
    }

    #[test]
    fn a_request_is_made_while_suspended_and_one_at_a_time() {
        let mut power = Power::new();
        assert!(power.begin_suspend(no_completer()).is_ok());
        assert_eq!(power.wake(), CallDue::No, "nobody wants to know");
        let (old, due) = power.set_requester(Some(Arc::new(|_| ())));
        assert!(old.is_none());
        assert_eq!(due, CallDue::Yes, "the wake is still pending");
        assert_eq!(power.wake(), CallDue::No, "one is on its way");
        assert!(matches!(power.begin_call(), DueCall::Request(_)));
        power.end_call();
        assert_eq!(power.wake(), CallDue::Yes);
        let _ = power.resume();
        assert!(matches!(power.begin_call(), DueCall::Complete(..) | DueCall::Nothing));
    }

    #[test]
    fn a_request_of_the_last_suspend_is_not_made_in_the_next_one() {
        let mut power = Power::new();
        let _ = power.set_requester(Some(Arc::new(|_| ())));
        assert!(power.begin_suspend(no_completer()).is_ok());
        assert_eq!(power.one_is_quiet(), CallDue::Yes);
        assert_eq!(outcome_of(&mut power), Some(Ok(())));
        assert_eq!(power.wake(), CallDue::Yes);
        assert_eq!(power.resume(), Some(CallDue::No));
        assert!(power.begin_suspend(no_completer()).is_ok());
        assert!(matches!(power.begin_call(), DueCall::Nothing), "what was told has run");
        power.end_call();
        assert_eq!(power.wake(), CallDue::Yes);
        assert!(matches!(power.begin_call(), DueCall::Request(_)));
        power.end_call();
    }
}
