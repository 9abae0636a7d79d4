//! Threads, locks, atomics and raw memory as the rest of the crate sees them, and the small structures built
//! right on top of them.
//!
//! Everything that could let two threads meet comes from here, so that a model checker sees all of it:
//!
//! | build | locks | atomics, cells, threads |
//! |---|---|---|
//! | normal | `parking_lot` | `std` |
//! | `--cfg loom` | `loom`, exhaustive within a preemption bound | `loom` |
//! | `--cfg shuttle` | `shuttle`, random schedules | `shuttle` |
//!
//! The face is the same on all three: `lock()` gives the guard (a panicking holder does not poison), a condition
//! variable borrows the guard, threads are named when spawned, and raw shared memory is reached only through
//! [`UnsafeCell::with`] and [`UnsafeCell::with_mut`]. What the models do not cover: the fairness of `parking_lot`,
//! timeouts (a modelled wait with a deadline never times out), and `Weak` under loom, which has none.
//!
//! `clippy.toml` points from the standard names to these.

#[allow(dead_code, reason = "synchronous channel calls wait on it; a build of the loops alone has none")]
mod completion;
mod inbox;
#[allow(dead_code, reason = "the call stacks of dispatchers; a build of the loops alone has none")]
mod lent_stack;
mod node;
#[cfg(not(any(loom, shuttle)))]
mod own_threads;
mod payload;
#[allow(dead_code, unused_imports, reason = "asked from the layers above, with the testing kit or without")]
pub(crate) mod probe;
#[cfg(all(feature = "testing", not(any(loom, shuttle))))]
pub(crate) mod refused_threads;
mod small_fn;
#[allow(dead_code, reason = "the turns of dispatchers; a build of the loops alone has none")]
mod tray;

#[cfg(any(loom, shuttle))]
mod modelled;
#[cfg(not(any(loom, shuttle)))]
mod native;

#[cfg(all(test, loom))]
mod loom_completion;
#[cfg(all(test, loom))]
mod loom_inbox;
#[cfg(all(test, loom))]
mod loom_tray;

#[cfg(any(loom, shuttle))]
pub(crate) use modelled::*;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use native::*;

#[allow(unused_imports, reason = "synchronous channel calls wait on it; a build of the loops alone has none")]
pub(crate) use completion::Completion;
#[allow(unused_imports, reason = "loops take from it, and a model of the pool has none")]
pub(crate) use inbox::{Chain, Inbox, Pushed};
#[allow(unused_imports, reason = "the call stacks of dispatchers; a build of the loops alone has none")]
pub(crate) use lent_stack::LentStack;
#[cfg(not(any(loom, shuttle)))]
pub use own_threads::own_threads;
#[allow(unused_imports, reason = "a build of the primitives alone calls no user code")]
pub(crate) use payload::{FirstPanic, guard_waker, message_of};
pub(crate) use small_fn::SmallFn;
#[allow(unused_imports, reason = "the turns of dispatchers; a build of the loops alone has none")]
pub(crate) use tray::{Piece, Tray, View};

pub(crate) mod unmodelled {
    //! Atomics and locks that no model sees, for statics which order nothing and outlive a model's run: counters of ids,
    //! figures that are only looked at.
    #![allow(unused_imports, reason = "a build of the primitives alone looks at no figures")]
    pub(crate) use parking_lot::Mutex;
    pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
}

/// How a wait with a deadline ended.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wakeup {
    /// Somebody notified, or the wait ended for no reason; look at the condition again.
    Notified,
    /// The deadline passed.
    TimedOut,
}
