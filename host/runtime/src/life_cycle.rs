//! The life of one driver instance, as a state machine.
//!
//! ```text
//!            started             stop             prepared                dispatchers_down          stopped
//! Starting ──────────▶ Running ───────▶ PreparingStop ───────▶ ShuttingDown ─────────────▶ Stopping ───────▶ Destroying
//!    │                   │ end,             ▲   │ panicked        ▲     │                                     ▲    │
//!    │ start_failed,     │ panicked         │   └────────────────▶│     │ dispatchers_down                    │    │ destroyed
//!    │ panicked          ▼                  │                     │     └─────────────────────────────────────┘    ▼
//!    └─────────▶ RemovingChildren ──────────┘                     │       of a broken driver                      Gone
//!                        │ children_gone                          │
//!                        └──────── children_gone of a broken one ─┘
//! ```
//!
//! A transition returns what the caller does next, and refuses what cannot happen. Nothing here calls user code.
//!
//! *Broken* is a driver whose start failed or which panicked: its state is not to be trusted, so no hook is called any
//! more and it is only dropped. One that asked to end (because its device has gone, say) is not broken.
//!
//! Invariants:
//! - `prepare_stop` and `stop` are called only on a driver that is not broken.
//! - The dispatchers are shut down once, after the children are gone, and `stop` is called after that.
//! - The driver is destroyed exactly once, last.

/// One run of a driver on a node. Ids are never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct InstanceId(pub(crate) u64);

/// Where an instance stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// `start` has been called and has not ended.
    Starting,
    /// `start` succeeded.
    Running,
    /// The driver ends by itself; its child nodes are being removed.
    RemovingChildren,
    /// `prepare_stop` has been called and has not ended.
    PreparingStop,
    /// Its dispatchers are shutting down.
    ShuttingDown,
    /// `stop` has been called and has not ended.
    Stopping,
    /// The driver is being dropped.
    Destroying,
    /// Nothing of it is left.
    Gone,
}

impl Phase {
    /// The phase as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Starting => "starting",
            Phase::Running => "running",
            Phase::RemovingChildren => "removing-children",
            Phase::PreparingStop => "preparing-stop",
            Phase::ShuttingDown => "shutting-down",
            Phase::Stopping => "stopping",
            Phase::Destroying => "destroying",
            Phase::Gone => "gone",
        }
    }

    /// What the host waits for in this phase, for messages about a stop that hangs.
    pub fn waits_for(self) -> &'static str {
        match self {
            Phase::Starting => "its start to end",
            Phase::Running => "its turn to stop",
            Phase::RemovingChildren => "its child nodes to be removed",
            Phase::PreparingStop => "its prepare_stop to end",
            Phase::ShuttingDown => "its dispatchers to shut down",
            Phase::Stopping => "its stop to end",
            Phase::Destroying => "its destruction to end",
            Phase::Gone => "nothing",
        }
    }
}

/// What the caller does after a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Next {
    /// Nothing.
    Nothing,
    /// The driver runs: offer its child nodes to others.
    OfferChildren,
    /// Remove its child nodes, then say `children_gone`.
    RemoveChildren,
    /// Call `prepare_stop`, then say `prepared`.
    PrepareStop,
    /// Shut down all its dispatchers, then say `dispatchers_down`.
    ShutDown,
    /// Call `stop`, then say `stopped`.
    Stop,
    /// Have the `stop` that runs dropped, then say `stopped`.
    CutStop,
    /// Drop the driver, then say `destroyed`.
    Destroy,
    /// The instance is gone: check its node.
    Release,
}

/// A transition that cannot happen in this phase; a mistake of the host itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`{event}` does not happen to a driver that is {phase:?}")]
pub(crate) struct Refused {
    event: &'static str,
    phase: Phase,
}

/// The machine.
#[derive(Debug)]
pub(crate) struct LifeCycle {
    phase: Phase,
    /// No hook is called any more.
    broken: bool,
    /// The driver asked to end while it was starting.
    ending: bool,
}

impl LifeCycle {
    /// An instance whose `start` is about to be called.
    pub(crate) fn starting() -> LifeCycle {
        LifeCycle { phase: Phase::Starting, broken: false, ending: false }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether the start failed or the driver panicked.
    #[cfg(test)]
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// `start` returned a driver. One that panicked elsewhere meanwhile is being unwound and stays so.
    pub(crate) fn started(&mut self) -> Result<Next, Refused> {
        match self.phase {
            Phase::Starting if self.ending => Ok(self.go(Phase::RemovingChildren, Next::RemoveChildren)),
            Phase::Starting => Ok(self.go(Phase::Running, Next::OfferChildren)),
            Phase::RemovingChildren | Phase::ShuttingDown if self.broken => Ok(Next::Nothing),
            _ => self.refuse("started"),
        }
    }

    /// `start` returned an error, panicked, or was canceled.
    pub(crate) fn start_failed(&mut self) -> Result<Next, Refused> {
        match self.phase {
            Phase::Starting => Ok(self.breaks(Phase::RemovingChildren, Next::RemoveChildren)),
            Phase::RemovingChildren | Phase::ShuttingDown if self.broken => Ok(Next::Nothing),
            _ => self.refuse("start_failed"),
        }
    }

    /// The driver is to stop; its children are gone. One that is going already goes on as it does.
    pub(crate) fn stop(&mut self) -> Result<Next, Refused> {
        match self.phase {
            Phase::Running => Ok(self.go(Phase::PreparingStop, Next::PrepareStop)),
            Phase::Starting => self.refuse("stop"),
            _ => Ok(Next::Nothing),
        }
    }

    /// The driver asks to end, children first. One that is going already goes on as it does.
    pub(crate) fn end(&mut self) -> Next {
        match self.phase {
            Phase::Running => self.go(Phase::RemovingChildren, Next::RemoveChildren),
            Phase::Starting => {
                self.ending = true;
                Next::Nothing
            }
            _ => Next::Nothing,
        }
    }

    /// A callback or hook of the driver panicked.
    pub(crate) fn panicked(&mut self) -> Next {
        match self.phase {
            Phase::Starting | Phase::Running => self.breaks(Phase::RemovingChildren, Next::RemoveChildren),
            // Its children are gone already. The answer of the hook that runs may still come, and changes nothing.
            Phase::PreparingStop => self.breaks(Phase::ShuttingDown, Next::ShutDown),
            // Children that are being removed, dispatchers that shut down, a `stop` that runs: those end first.
            phase => self.breaks(phase, Next::Nothing),
        }
    }

    /// Its time is up: what its hooks wait for is dropped. Dispatchers that shut down and a destruction end as they do.
    pub(crate) fn hurry(&mut self) -> Next {
        match self.phase {
            Phase::Starting => self.breaks(Phase::RemovingChildren, Next::RemoveChildren),
            Phase::PreparingStop => self.breaks(Phase::ShuttingDown, Next::ShutDown),
            Phase::Stopping => Next::CutStop,
            _ => Next::Nothing,
        }
    }

    /// The children of a driver that ends by itself are gone.
    pub(crate) fn children_gone(&mut self) -> Next {
        match self.phase {
            Phase::RemovingChildren if !self.broken => self.go(Phase::PreparingStop, Next::PrepareStop),
            Phase::RemovingChildren => self.go(Phase::ShuttingDown, Next::ShutDown),
            _ => Next::Nothing,
        }
    }

    /// `prepare_stop` ended, well or not.
    pub(crate) fn prepared(&mut self) -> Result<Next, Refused> {
        match self.phase {
            Phase::PreparingStop => Ok(self.go(Phase::ShuttingDown, Next::ShutDown)),
            Phase::ShuttingDown | Phase::Destroying if self.broken => Ok(Next::Nothing),
            _ => self.refuse("prepared"),
        }
    }

    /// All dispatchers of the driver have shut down.
    pub(crate) fn dispatchers_down(&mut self) -> Result<Next, Refused> {
        match self.phase {
            Phase::ShuttingDown if self.broken => Ok(self.go(Phase::Destroying, Next::Destroy)),
            Phase::ShuttingDown => Ok(self.go(Phase::Stopping, Next::Stop)),
            _ => self.refuse("dispatchers_down"),
        }
    }

    /// `stop` ended, well or not.
    pub(crate) fn stopped(&mut self) -> Result<Next, Refused> {
        match self.phase {
            Phase::Stopping => Ok(self.go(Phase::Destroying, Next::Destroy)),
            _ => self.refuse("stopped"),
        }
    }

    /// Nothing of the driver is left.
    pub(crate) fn destroyed(&mut self) -> Result<Next, Refused> {
        match self.phase {
            Phase::Destroying => Ok(self.go(Phase::Gone, Next::Release)),
            _ => self.refuse("destroyed"),
        }
    }

    fn go(&mut self, phase: Phase, next: Next) -> Next {
        self.phase = phase;
        next
    }

    fn breaks(&mut self, phase: Phase, next: Next) -> Next {
        self.broken = true;
        self.go(phase, next)
    }

    fn refuse<T>(&self, event: &'static str) -> Result<T, Refused> {
        Err(Refused { event, phase: self.phase })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Phase::{Destroying, Gone, PreparingStop, RemovingChildren, Running, ShuttingDown, Starting, Stopping};

    const SOUND: [Phase; 8] =
        [Starting, Running, RemovingChildren, PreparingStop, ShuttingDown, Stopping, Destroying, Gone];
    const BROKEN: [Phase; 4] = [RemovingChildren, ShuttingDown, Destroying, Gone];

    /// Every state that a life can be in, with the life brought there by real transitions.
    fn everywhere() -> Vec<(Phase, bool, LifeCycle)> {
        SOUND.map(|phase| (phase, false)).into_iter().chain(BROKEN.map(|phase| (phase, true))).map(reach).collect()
    }

    fn reach((phase, broken): (Phase, bool)) -> (Phase, bool, LifeCycle) {
        let mut life = LifeCycle::starting();
        for _ in 0..SOUND.len() {
            if (life.phase(), life.is_broken()) == (phase, broken) {
                return (phase, broken, life);
            }
            let _ = match life.phase() {
                Starting if broken => life.start_failed(),
                Starting => life.started(),
                Running if phase == RemovingChildren => Ok(life.end()),
                Running => life.stop(),
                RemovingChildren => Ok(life.children_gone()),
                PreparingStop => life.prepared(),
                ShuttingDown => life.dispatchers_down(),
                Stopping => life.stopped(),
                Destroying => life.destroyed(),
                Gone => break,
            };
        }
        panic!("no way leads to {phase:?}, broken: {broken}");
    }

    /// Tries one event in every state. `allowed` lists the states that take it, with the phase and duty that follow;
    /// every other state must refuse it and stay as it is.
    #[track_caller]
    fn only(event: fn(&mut LifeCycle) -> Result<Next, Refused>, allowed: &[(Phase, bool, Phase, Next)]) {
        for (phase, broken, mut life) in everywhere() {
            let got = event(&mut life);
            match allowed.iter().find(|&&(from, with, ..)| (from, with) == (phase, broken)) {
                Some(&(_, _, to, next)) => {
                    assert_eq!((got, life.phase()), (Ok(next), to), "in {phase:?}, broken: {broken}");
                }
                None => {
                    assert!(got.is_err(), "in {phase:?}, broken: {broken}: {got:?}");
                    assert_eq!((life.phase(), life.is_broken()), (phase, broken));
                }
            }
        }
    }

    #[test]
    fn a_start_succeeds_once_and_changes_nothing_for_a_driver_that_broke_meanwhile() {
        only(
            LifeCycle::started,
            &[
                (Starting, false, Running, Next::OfferChildren),
                (RemovingChildren, true, RemovingChildren, Next::Nothing),
                (ShuttingDown, true, ShuttingDown, Next::Nothing),
            ],
        );
    }

    #[test]
    fn a_failed_start_is_unwound_from_its_children_on() {
        only(
            LifeCycle::start_failed,
            &[
                (Starting, false, RemovingChildren, Next::RemoveChildren),
                (RemovingChildren, true, RemovingChildren, Next::Nothing),
                (ShuttingDown, true, ShuttingDown, Next::Nothing),
            ],
        );
    }

    #[test]
    fn a_stop_prepares_a_running_driver_and_is_refused_only_during_the_start() {
        let allowed = everywhere().into_iter().filter(|&(phase, ..)| phase != Starting).map(|(phase, broken, _)| {
            let next = if phase == Running { Next::PrepareStop } else { Next::Nothing };
            (phase, broken, if phase == Running { PreparingStop } else { phase }, next)
        });
        only(LifeCycle::stop, &allowed.collect::<Vec<_>>());
    }

    #[test]
    fn a_running_driver_that_ends_by_itself_removes_its_children_and_then_stops_in_order() {
        for (phase, broken, mut life) in everywhere() {
            let next = life.end();
            let expected = if phase == Running { Next::RemoveChildren } else { Next::Nothing };
            assert_eq!(next, expected, "in {phase:?}, broken: {broken}");
            assert_eq!(life.is_broken(), broken);
        }
        let (.., mut life) = reach((RemovingChildren, false));
        assert_eq!((life.children_gone(), life.phase()), (Next::PrepareStop, PreparingStop));
    }

    #[test]
    fn a_driver_that_asks_to_end_while_it_starts_ends_when_it_has_started() {
        let mut life = LifeCycle::starting();
        assert_eq!(life.end(), Next::Nothing);
        assert_eq!(life.started(), Ok(Next::RemoveChildren));
        assert_eq!((life.phase(), life.is_broken()), (RemovingChildren, false));
    }

    #[test]
    fn dispatchers_shut_down_after_prepare_stop() {
        only(
            LifeCycle::prepared,
            &[
                (PreparingStop, false, ShuttingDown, Next::ShutDown),
                (ShuttingDown, true, ShuttingDown, Next::Nothing),
                (Destroying, true, Destroying, Next::Nothing),
            ],
        );
    }

    #[test]
    fn stop_is_called_after_the_dispatchers_and_never_on_a_broken_driver() {
        only(
            LifeCycle::dispatchers_down,
            &[(ShuttingDown, false, Stopping, Next::Stop), (ShuttingDown, true, Destroying, Next::Destroy)],
        );
    }

    #[test]
    fn a_driver_is_destroyed_after_stop_and_once() {
        only(LifeCycle::stopped, &[(Stopping, false, Destroying, Next::Destroy)]);
        only(
            LifeCycle::destroyed,
            &[(Destroying, false, Gone, Next::Release), (Destroying, true, Gone, Next::Release)],
        );
    }

    #[test]
    fn children_matter_only_to_a_driver_that_waits_for_them() {
        for (phase, broken, mut life) in everywhere() {
            let expected = match (phase, broken) {
                (RemovingChildren, false) => Next::PrepareStop,
                (RemovingChildren, true) => Next::ShutDown,
                _ => Next::Nothing,
            };
            assert_eq!(life.children_gone(), expected, "in {phase:?}, broken: {broken}");
        }
    }

    #[test]
    fn a_panic_breaks_a_driver_in_every_phase_and_skips_the_hooks_that_are_left() {
        for (phase, broken, mut life) in everywhere() {
            let (to, next) = match phase {
                Starting | Running => (RemovingChildren, Next::RemoveChildren),
                PreparingStop => (ShuttingDown, Next::ShutDown),
                other => (other, Next::Nothing),
            };
            assert_eq!((life.panicked(), life.phase()), (next, to), "in {phase:?}, broken: {broken}");
            assert!(life.is_broken());
        }
        let (.., mut life) = reach((ShuttingDown, false));
        assert_eq!(life.panicked(), Next::Nothing);
        assert_eq!(life.dispatchers_down(), Ok(Next::Destroy));
        let (.., mut life) = reach((RemovingChildren, false));
        assert_eq!(life.panicked(), Next::Nothing);
        assert_eq!(life.children_gone(), Next::ShutDown);
    }

    #[test]
    fn a_panic_during_stop_does_not_keep_the_driver_from_being_destroyed() {
        let (.., mut life) = reach((Stopping, false));
        assert_eq!(life.panicked(), Next::Nothing);
        assert_eq!(life.stopped(), Ok(Next::Destroy));
    }

    #[test]
    fn a_refusal_names_the_event_and_the_phase() {
        let (.., mut life) = reach((Running, false));
        let refused = life.destroyed().unwrap_err();
        assert_eq!(refused.to_string(), "`destroyed` does not happen to a driver that is Running");
    }
}
