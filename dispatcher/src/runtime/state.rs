//! The life of a dispatcher as a state machine: four states, one way.
//!
//! ```text
//! Running ──begin_shutdown──▶ ShuttingDown ──last callback ended──▶ Shutdown ──observer returned──▶ Destroyed
//! ```
//!
//! It calls no user code and does no I/O; each transition returns what its caller does next.

use std::fmt;

/// Where a dispatcher stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DispatcherState {
    /// It accepts and runs callbacks.
    Running,
    /// It refuses posts; running callbacks finish, then all that is pending is invoked with `Canceled`.
    ShuttingDown,
    /// Nothing is pending any more; the shutdown observer runs or is about to.
    Shutdown,
    /// The observer has returned. Handles answer `BadState`.
    Destroyed,
}

impl DispatcherState {
    /// The state's name in dumps.
    pub const fn as_str(self) -> &'static str {
        match self {
            DispatcherState::Running => "running",
            DispatcherState::ShuttingDown => "shutting down",
            DispatcherState::Shutdown => "shut down",
            DispatcherState::Destroyed => "destroyed",
        }
    }

    /// Whether posts are accepted.
    pub const fn accepts(self) -> bool {
        matches!(self, DispatcherState::Running)
    }

    /// Begins the shutdown; the answer tells whether this call is the one that began it.
    pub(crate) fn begin_shutdown(&mut self) -> BeginShutdown {
        match self {
            DispatcherState::Running => {
                *self = DispatcherState::ShuttingDown;
                BeginShutdown::Began
            }
            _ => BeginShutdown::BegunBefore,
        }
    }

    /// What a turn of the pool does with a dispatcher in this state, given what still runs inside of it.
    pub(crate) fn next_turn(self, inside: Inside) -> NextTurn {
        match self {
            DispatcherState::Running => NextTurn::RunCallbacks,
            DispatcherState::ShuttingDown if inside.callbacks == 0 && inside.offloads == 0 => NextTurn::CancelPending,
            // Whoever leaves last makes the next turn.
            DispatcherState::ShuttingDown => NextTurn::Nothing,
            DispatcherState::Shutdown | DispatcherState::Destroyed => NextTurn::Nothing,
        }
    }

    /// The last pending callback has ended.
    pub(crate) fn pending_is_over(&mut self) {
        debug_assert_eq!(*self, DispatcherState::ShuttingDown, "only a shutdown ends with nothing pending");
        *self = DispatcherState::Shutdown;
    }

    /// The shutdown observer has returned.
    pub(crate) fn observer_returned(&mut self) {
        debug_assert_eq!(*self, DispatcherState::Shutdown, "the observer runs last");
        *self = DispatcherState::Destroyed;
    }
}

impl fmt::Display for DispatcherState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is running inside of a dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Inside {
    /// Threads that are in a turn or an inline call of it.
    pub(crate) callbacks: u32,
    /// Its work items that a worker is running.
    pub(crate) offloads: u32,
}

/// Whether a request to shut down was the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the first one has to see to it that a turn follows"]
pub(crate) enum BeginShutdown {
    /// It was: the caller cancels what is armed and sees to it that a turn follows.
    Began,
    /// It was not, and there is nothing to do.
    BegunBefore,
}

/// What a turn does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a turn that is not made is lost"]
pub(crate) enum NextTurn {
    /// Invoke what is ready.
    RunCallbacks,
    /// Invoke all that is pending with `Canceled`, then the observer.
    CancelPending,
    /// Nothing now.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::DispatcherState::*;
    use super::*;

    const IDLE: Inside = Inside { callbacks: 0, offloads: 0 };

    #[test]
    fn shutdown_begins_once_and_only_from_running() {
        let mut state = Running;
        assert_eq!(state.begin_shutdown(), BeginShutdown::Began);
        assert_eq!(state, ShuttingDown);
        for mut later in [ShuttingDown, Shutdown, Destroyed] {
            let before = later;
            assert_eq!(later.begin_shutdown(), BeginShutdown::BegunBefore);
            assert_eq!(later, before);
        }
    }

    #[test]
    fn posts_are_accepted_only_while_running() {
        assert!(Running.accepts());
        assert!(![ShuttingDown, Shutdown, Destroyed].into_iter().any(DispatcherState::accepts));
    }

    #[test]
    fn nothing_is_canceled_while_a_callback_or_a_work_item_runs() {
        assert_eq!(Running.next_turn(IDLE), NextTurn::RunCallbacks);
        assert_eq!(ShuttingDown.next_turn(IDLE), NextTurn::CancelPending);
        assert_eq!(ShuttingDown.next_turn(Inside { callbacks: 1, ..IDLE }), NextTurn::Nothing);
        assert_eq!(ShuttingDown.next_turn(Inside { offloads: 1, ..IDLE }), NextTurn::Nothing);
        assert_eq!(Shutdown.next_turn(IDLE), NextTurn::Nothing);
        assert_eq!(Destroyed.next_turn(IDLE), NextTurn::Nothing);
    }

    #[test]
    fn the_end_comes_in_two_steps() {
        let mut state = ShuttingDown;
        state.pending_is_over();
        assert_eq!(state, Shutdown);
        state.observer_returned();
        assert_eq!(state, Destroyed);
    }
}
