//! Wakers of others where a panic of theirs would end the process.
//!
//! A task of `async-task` aborts when the waker of whoever joins it panics, at a wake and at a drop. A waker is user code
//! like any other, so the task is given one that catches.

use std::task::{Wake, Waker};

use crate::sync::guard_waker;

/// Only its drop finds it empty.
struct Caught(Option<Waker>);

impl Wake for Caught {
    fn wake(self: std::sync::Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &std::sync::Arc<Self>) {
        guard_waker(|| self.0.iter().for_each(Waker::wake_by_ref));
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        let waker = self.0.take();
        guard_waker(|| drop(waker));
    }
}

/// A waker that wakes `waker`, and goes on where that panics.
pub(super) fn caught(waker: &Waker) -> Waker {
    Waker::from(std::sync::Arc::new(Caught(Some(waker.clone()))))
}
