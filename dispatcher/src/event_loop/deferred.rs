//! `Deferred`: what a loop has put off until its next iteration, on its own thread.
//!
//! The network uses it to tell outcomes that are known at once: no callback runs inside the call that led to it. As
//! with jobs, what is put off while the list is being served waits for the next time.

use std::collections::VecDeque;

use crate::event_loop::budget::Budget;
use crate::event_loop::event_loop::EventLoop;

type Callback = Box<dyn FnOnce(&EventLoop)>;

/// Callbacks in their order, each with the kind that a report of its panic names.
#[derive(Default)]
pub(crate) struct Deferred {
    callbacks: VecDeque<(&'static str, Callback)>,
}

impl Deferred {
    pub(crate) fn is_empty(&self) -> bool {
        self.callbacks.is_empty()
    }

    /// Takes everything out, to be dropped by the caller.
    pub(crate) fn take_all(&mut self) -> impl Sized + use<> {
        std::mem::take(&mut self.callbacks)
    }
}

impl EventLoop {
    /// Runs `callback` in a later iteration of this loop, also while the loop closes.
    pub(crate) fn defer(&self, kind: &'static str, callback: impl FnOnce(&EventLoop) + 'static) {
        self.local().deferred.borrow_mut().callbacks.push_back((kind, Box::new(callback)));
    }

    /// Runs what had been put off before this call, as far as the budget goes.
    pub(crate) fn run_deferred(&self, budget: &mut Budget<'_>) {
        let there = self.local().deferred.borrow().callbacks.len();
        for _ in 0..there {
            if !budget.spend() {
                return;
            }
            let next = self.local().deferred.borrow_mut().callbacks.pop_front();
            let Some((kind, callback)) = next else { return };
            self.call(kind, || callback(self));
        }
    }
}
