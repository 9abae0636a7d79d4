//! Which loop runs on this thread.

use std::cell::RefCell;

use crate::event_loop::event_loop::EventLoop;
use crate::event_loop::handle::{LoopEvent, LoopShared};
use crate::sync::Arc;

thread_local! {
    /// Set while a loop runs on this thread.
    static CURRENT: RefCell<Option<EventLoop>> = const { RefCell::new(None) };
}

/// The loop that runs on this thread, if any: `None` on workers and on foreign threads.
pub(crate) fn current() -> Option<EventLoop> {
    CURRENT.with_borrow(Clone::clone)
}

pub(crate) fn is_current(shared: &Arc<LoopShared>) -> bool {
    CURRENT
        .try_with(|current| current.borrow().as_ref().is_some_and(|own| Arc::ptr_eq(own.shared(), shared)))
        // A thread that is going away runs no loop any more.
        .unwrap_or(false)
}

/// Hands an event to the loop of this thread without a detour, if it is the one that is meant; else gives it back.
pub(crate) fn give_to_current(shared: &Arc<LoopShared>, event: LoopEvent) -> Option<LoopEvent> {
    let mut event = Some(event);
    let _ = CURRENT.try_with(|current| {
        if let Some(own) = current.borrow().as_ref().filter(|own| Arc::ptr_eq(own.shared(), shared)) {
            own.take_event(&mut event);
        }
    });
    event
}

/// Makes a loop the current one until dropped, then the one before.
pub(crate) struct Entered {
    previous: Option<EventLoop>,
}

pub(crate) fn enter(event_loop: &EventLoop) -> Entered {
    Entered { previous: CURRENT.replace(Some(event_loop.clone())) }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let own = CURRENT.replace(self.previous.take());
        // Dropped only now: the last handle to a loop drops what its users left in it, which may ask for the current
        // loop.
        drop(own);
    }
}

/// The number of the loop that runs on this thread, within its manager. `None` on workers, on foreign threads, and
/// for loops without a number.
///
/// # Examples
/// ```
/// assert_eq!(fuchsine_dispatcher::event_loop::tid(), None, "no loop runs on this thread");
/// ```
pub fn tid() -> Option<u32> {
    CURRENT.with_borrow(|current| current.as_ref().and_then(|own| own.shared().tid))
}
