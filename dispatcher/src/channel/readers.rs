//! Who reads the ends of a channel: what a dump says of a callback that waits for a reply.

use super::ends::Side;
use crate::sync::unmodelled::{AtomicU64, Ordering};

/// The dispatcher that each end was read on last, or is going to be. Nothing depends on it.
#[derive(Debug, Default)]
pub(super) struct Readers([AtomicU64; 2]);

impl Readers {
    /// An end is read on this dispatcher, 0 for none.
    #[inline]
    pub(super) fn note(&self, side: Side, dispatcher: u64) {
        self.0[side as usize].store(dispatcher, Ordering::Relaxed);
    }

    /// The number of the dispatcher that an end was read on last, 0 for none.
    pub(super) fn last(&self, side: Side) -> u64 {
        self.0[side as usize].load(Ordering::Relaxed)
    }
}
