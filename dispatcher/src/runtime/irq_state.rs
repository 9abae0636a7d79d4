//! The life of a bound irq between its deliveries, as a state machine.
//!
//! ```text
//! Arming ──▶ Armed ──trigger──▶ Queued ──▶ Running ──returned, acknowledged──▶ Arming
//!                                             └──returned──▶ Unacknowledged ──ack──▶ Arming
//! any ──unbound, or its dispatcher shuts down──▶ Closed
//! ```
//!
//! A trigger may come while its wait is still being armed. Each arming has a number, so that whoever armed late cannot
//! take the wait of a later arming for its own.
//!
//! It calls no user code and does no I/O; it stands under the dispatcher's lock. A handler runs once at a time, on
//! unsynchronized dispatchers too, because the next delivery follows only from an arming, and that from the end of the
//! last delivery.

use super::callback_queue::OpId;
use crate::event_loop::WaitId;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Its wait is being armed.
    Arming,
    /// Its wait is armed.
    Armed(WaitId),
    /// It was triggered; this operation delivers it.
    Queued(OpId),
    /// Its handler runs.
    Running {
        /// Whether somebody has acknowledged it by its handle meanwhile.
        acknowledged: bool,
    },
    /// Its handler has returned, and nobody has acknowledged the trigger.
    Unacknowledged,
    /// No delivery follows, but the handler still runs.
    ClosedRunning,
    /// No delivery follows.
    Closed,
}

/// Where a bound irq stands.
#[derive(Debug)]
pub(crate) struct IrqState {
    phase: Phase,
    arms: u32,
}

/// One arming of an irq's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an arming that is not carried out leaves the irq deaf"]
pub(crate) struct Arming(u32);

/// What an acknowledgement leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ack {
    /// The wait is to be armed now.
    Arm(Arming),
    /// It is armed when the handler returns.
    WhenReturned,
    /// There is nothing to acknowledge.
    Nothing,
}

/// What an irq leaves behind that is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "what is left behind has to be taken down"]
pub(crate) struct Leftover {
    /// A wait that is armed.
    pub(crate) wait: Option<WaitId>,
    /// A delivery that is queued.
    pub(crate) trigger: Option<OpId>,
    /// Whether the handler runs at this moment.
    pub(crate) is_running: bool,
}

impl IrqState {
    /// A new irq, whose wait its maker arms.
    pub(crate) fn new() -> (Self, Arming) {
        (IrqState { phase: Phase::Arming, arms: 1 }, Arming(1))
    }

    fn arm(&mut self) -> Arming {
        self.arms = self.arms.wrapping_add(1);
        self.phase = Phase::Arming;
        Arming(self.arms)
    }

    /// Its wait has been armed; the wait comes back if it is not wanted any more.
    pub(crate) fn armed(&mut self, arming: Arming, wait: WaitId) -> Result<(), WaitId> {
        if self.phase != Phase::Arming || self.arms != arming.0 {
            return Err(wait);
        }
        self.phase = Phase::Armed(wait);
        Ok(())
    }

    /// Whether a trigger of this moment is to be delivered.
    pub(crate) fn listens(&self) -> bool {
        matches!(self.phase, Phase::Arming | Phase::Armed(_))
    }

    /// It was triggered, and `by` delivers it.
    pub(crate) fn triggered(&mut self, by: OpId) {
        debug_assert!(self.listens(), "one trigger is delivered at a time");
        self.phase = Phase::Queued(by);
    }

    /// The delivery begins; false if it was closed first.
    pub(crate) fn run(&mut self) -> bool {
        let is_due = matches!(self.phase, Phase::Queued(_));
        if is_due {
            self.phase = Phase::Running { acknowledged: false };
        }
        is_due
    }

    /// The handler has returned. The answer is the next arming, if the trigger is acknowledged.
    pub(crate) fn returned(&mut self, acknowledged: bool) -> Option<Arming> {
        let Phase::Running { acknowledged: by_handle } = self.phase else {
            self.phase = Phase::Closed;
            return None;
        };
        if acknowledged || by_handle {
            return Some(self.arm());
        }
        self.phase = Phase::Unacknowledged;
        None
    }

    /// Somebody acknowledges the trigger by the irq's handle.
    pub(crate) fn acknowledge(&mut self) -> Ack {
        match &mut self.phase {
            Phase::Unacknowledged => Ack::Arm(self.arm()),
            Phase::Running { acknowledged } => {
                *acknowledged = true;
                Ack::WhenReturned
            }
            Phase::Arming | Phase::Armed(_) | Phase::Queued(_) | Phase::ClosedRunning | Phase::Closed => Ack::Nothing,
        }
    }

    /// No delivery follows. May be called again: a shutdown closes, and whoever unbinds meanwhile asks once more.
    pub(crate) fn close(&mut self) -> Leftover {
        match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Armed(wait) => Leftover { wait: Some(wait), ..Leftover::default() },
            Phase::Queued(trigger) => Leftover { trigger: Some(trigger), ..Leftover::default() },
            Phase::Running { .. } | Phase::ClosedRunning => {
                self.phase = Phase::ClosedRunning;
                Leftover { is_running: true, ..Leftover::default() }
            }
            Phase::Arming | Phase::Unacknowledged | Phase::Closed => Leftover::default(),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::event_loop::source::SourceId;
    use crate::event_loop::{EventTarget, Fired, Reactor, Told};
    use crate::sync::Arc;
    use crate::sys::Interest;
    use crate::sys::sim::Event;
    use crate::time::{Clock, Instant};

    fn some_wait() -> WaitId {
        let reactor = Reactor::simulated(Clock::virtual_at(Instant::ZERO));
        let target = Arc::new(Nobody);
        let source = SourceId::Sim(Arc::clone(Event::new().object()));
        reactor.begin_wait_on(source, Interest::READABLE, target, 0).expect("simulated objects can be waited on")
    }

    struct Nobody;

    impl EventTarget for Nobody {
        fn fire(self: Arc<Self>, _key: u64, _fired: Fired, _last: bool) -> Told {
            Told::All
        }
    }

    fn delivered() -> IrqState {
        let (mut state, _) = IrqState::new();
        state.triggered(OpId::from_key(7));
        assert!(state.run());
        state
    }

    #[test]
    fn a_trigger_is_delivered_once_and_the_next_one_only_after_its_acknowledgement() {
        let mut state = delivered();
        assert!(!state.listens() && !state.run());
        assert_eq!(state.returned(false), None);
        assert!(!state.listens(), "nobody has acknowledged it");
        assert!(matches!(state.acknowledge(), Ack::Arm(_)));
        assert!(state.listens());
        assert_eq!(state.acknowledge(), Ack::Nothing, "once is enough");
    }

    #[test]
    fn an_acknowledgement_while_the_handler_runs_counts_when_it_returns() {
        let mut state = delivered();
        assert_eq!(state.acknowledge(), Ack::WhenReturned);
        assert!(!state.listens(), "the handler still runs");
        assert!(state.returned(false).is_some());
        let mut state = delivered();
        assert!(state.returned(true).is_some());
    }

    #[test]
    fn a_trigger_may_come_before_its_wait_was_noted_and_the_late_wait_is_not_kept() {
        let (mut state, first) = IrqState::new();
        let wait = some_wait();
        state.triggered(OpId::from_key(7));
        assert_eq!(state.armed(first, wait), Err(wait));
        assert!(state.run());
        let second = state.returned(true).expect("it was acknowledged");
        assert_eq!(state.armed(first, wait), Err(wait), "the first arming is over");
        assert_eq!(state.armed(second, wait), Ok(()));
        assert_eq!(state.close(), Leftover { wait: Some(wait), ..Leftover::default() });
    }

    #[test]
    fn what_is_closed_delivers_nothing_whatever_it_did() {
        let (mut state, arming) = IrqState::new();
        state.triggered(OpId::from_key(7));
        assert_eq!(state.close().trigger, Some(OpId::from_key(7)));
        assert!(!state.run());
        assert!(state.armed(arming, some_wait()).is_err());
        let mut state = delivered();
        assert!(state.close().is_running);
        assert!(state.close().is_running, "whoever asks again is told so too");
        assert_eq!(state.returned(true), None);
        assert_eq!(state.acknowledge(), Ack::Nothing);
        assert_eq!(state.close(), Leftover::default());
    }
}
