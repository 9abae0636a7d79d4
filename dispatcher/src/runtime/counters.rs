//! Counters that always add up: accepted = ran + canceled + taken back + pending.
//!
//! A dispatcher counts under its own lock, so its numbers are exact at every moment; *pending* is not counted along but
//! found by enumerating what is there, which makes the equation a check of the other four. A driver adds up its
//! dispatchers, a runtime its drivers, those that are gone included.

use std::ops::{Add, AddAssign};

/// What became of the callbacks of a dispatcher, a driver or a runtime.
///
/// # Examples
/// ```
/// # use fuchsine_dispatcher::Counters;
/// let counters = Counters { accepted: 5, ran: 3, canceled: 1, pending: 1, ..Counters::default() };
/// assert!(counters.add_up());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Accepted callbacks. A future counts once, when it is spawned.
    pub accepted: u64,
    /// Those that were invoked with their own outcome; the ones that panicked are among them.
    pub ran: u64,
    /// Those that were invoked with `Canceled`, and futures dropped by shutdown.
    pub canceled: u64,
    /// Those that a successful cancel gave back.
    pub taken_back: u64,
    /// Those that have not ended: counted by enumerating them.
    pub pending: u64,
    /// Callbacks that were never accepted. They are not part of the sum.
    pub refused: u64,
}

/// What a dispatcher counts along: all of its [`Counters`] but `pending`, which is enumerated.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) accepted: u64,
    pub(crate) ran: u64,
    pub(crate) canceled: u64,
    pub(crate) taken_back: u64,
    pub(crate) refused: u64,
}

impl Counts {
    /// With so many that are pending.
    pub(crate) fn with_pending(&self, pending: u64) -> Counters {
        let Counts { accepted, ran, canceled, taken_back, refused } = *self;
        Counters { accepted, ran, canceled, taken_back, pending, refused }
    }
}

impl Counters {
    /// Whether every accepted callback is accounted for.
    pub fn add_up(&self) -> bool {
        self.accepted == self.ran + self.canceled + self.taken_back + self.pending
    }
}

impl Add for Counters {
    type Output = Counters;

    fn add(self, other: Counters) -> Counters {
        Counters {
            accepted: self.accepted + other.accepted,
            ran: self.ran + other.ran,
            canceled: self.canceled + other.canceled,
            taken_back: self.taken_back + other.taken_back,
            pending: self.pending + other.pending,
            refused: self.refused + other.refused,
        }
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Counters {
    fn sum<I: Iterator<Item = Counters>>(all: I) -> Counters {
        all.fold(Counters::default(), Add::add)
    }
}
