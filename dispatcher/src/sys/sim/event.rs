//! [`Event`]: a counter that is readable while it is not zero, as an eventfd is.

use std::io;

use crate::site::Site;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sys::Readiness;
use crate::sys::sim::{Object, would_block};

/// A simulated eventfd. Clones are handles to the same counter.
#[derive(Debug, Clone)]
pub struct Event {
    count: Arc<AtomicU64>,
    object: Arc<Object>,
}

impl Event {
    /// A counter at zero.
    #[track_caller]
    pub fn new() -> Self {
        let count = Arc::new(AtomicU64::new(0));
        let read = count.clone();
        let object = Object::new(Site::caller(), move || match read.load(Ordering::Relaxed) {
            0 => Readiness::WRITABLE,
            _ => Readiness::READABLE | Readiness::WRITABLE,
        });
        Event { count, object }
    }

    /// Adds one.
    pub fn signal(&self) {
        // ORDERING: Release, pairs with the Acquire in `take`; publishes what the signal is about.
        self.count.fetch_add(1, Ordering::Release);
        self.object.changed();
    }

    /// Takes the whole count and leaves zero.
    ///
    /// # Errors
    /// `WouldBlock` when it is zero.
    pub fn take(&self) -> io::Result<u64> {
        // ORDERING: Acquire, pairs with the Release in `signal`.
        match self.count.swap(0, Ordering::Acquire) {
            0 => Err(would_block("the event has not been signaled")),
            count => Ok(count),
        }
    }

    /// What to wait on.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }
}

impl Default for Event {
    #[track_caller]
    fn default() -> Self {
        Event::new()
    }
}
