//! What a run leaves behind to be told: [`RunSummary`], [`LoopSummary`], [`Holder`].

use std::fmt;
use std::panic::Location;

/// What kept a loop from ending.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// What kind of thing it is.
    pub kind: HolderKind,
    /// Where in the program it was made.
    pub created: &'static Location<'static>,
}

/// The kinds of [`Holder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HolderKind {
    /// A timer that was armed since the shutdown began.
    Timer,
    /// A wait that was armed since the shutdown began.
    Wait,
    /// A signal handler that was made since the shutdown began.
    Signal,
    /// A socket that still has something to send.
    Socket,
    /// Work that has not come to its end. Never dropped: it is always waited for.
    Work,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            HolderKind::Timer => "timer",
            HolderKind::Wait => "wait",
            HolderKind::Signal => "signal handler",
            HolderKind::Socket => "socket",
            HolderKind::Work => "work",
        };
        write!(f, "{kind} made at {}", self.created)
    }
}

/// What one loop did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LoopSummary {
    /// Callbacks that were called, of all kinds but hooks.
    pub callbacks: u64,
    /// How many panicked, hooks and drops of callbacks among them.
    pub panics: u64,
    /// Work that had not come to its end when the shutdown began, and was run to its end.
    pub work_finished_at_shutdown: u64,
    /// Work that was canceled by the shutdown.
    pub work_canceled_at_shutdown: u64,
    /// What was armed since the shutdown began, was still armed when the time to linger had passed, and was dropped.
    pub dropped: Vec<Holder>,
}

/// What the loops of a manager did, in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RunSummary {
    /// One summary a loop.
    pub loops: Vec<LoopSummary>,
}

impl RunSummary {
    /// Callbacks that were called, on all loops.
    pub fn callbacks(&self) -> u64 {
        self.loops.iter().map(|one| one.callbacks).sum()
    }

    /// Callbacks that panicked, on all loops.
    pub fn panics(&self) -> u64 {
        self.loops.iter().map(|one| one.panics).sum()
    }
}
