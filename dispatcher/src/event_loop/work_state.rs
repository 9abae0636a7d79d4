//! `WorkState`: what becomes of one item of work.
//!
//! | state | left by | to |
//! |---|---|---|
//! | `QUEUED` | the worker, which starts it | `TAKEN` |
//! | `QUEUED` | whoever cancels it first | `CANCELED` |
//!
//! Both are one compare-exchange on one word, so exactly one of them happens, and its winner is the one that reports
//! the end. A canceled item stays in the worker's queue as a tombstone, which the worker throws away when it comes to
//! it.

use crate::sync::atomic::{AtomicU8, Ordering};

const QUEUED: u8 = 0;
const TAKEN: u8 = 1;
const CANCELED: u8 = 2;

#[derive(Debug)]
pub(crate) struct WorkState(AtomicU8);

impl WorkState {
    pub(crate) fn new() -> Self {
        WorkState(AtomicU8::new(QUEUED))
    }

    /// The worker has come to the item. `false`: it was canceled.
    pub(crate) fn start(&self) -> bool {
        self.leave(TAKEN)
    }

    /// `true` for the one who canceled it; it reports the end.
    pub(crate) fn cancel(&self) -> bool {
        self.leave(CANCELED)
    }

    fn leave(&self, to: u8) -> bool {
        // Relaxed: the item itself passes from thread to thread through the worker's queue, which orders everything.
        // This word only decides.
        self.0.compare_exchange(QUEUED, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}
