//! [`Object`]: the part of every simulated thing that can be waited on.

use std::fmt;

use crate::site::Site;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::probe::{self, Note};
use crate::sync::{Arc, Mutex, Weak};
use crate::sys::Readiness;

/// Wants to hear when an object may have become ready.
pub(crate) trait Watcher: Send + Sync {
    /// The object with this number has changed; ask it what it is ready for. Called with no lock held.
    fn changed(&self, object: u64);
}

/// A simulated thing that can become ready. What it is ready for is computed when asked, never stored: two changes at
/// the same time cannot leave the older answer behind.
pub struct Object {
    id: u64,
    readiness: Box<dyn Fn() -> Readiness + Send + Sync>,
    watchers: Mutex<Vec<Weak<dyn Watcher>>>,
}

/// Numbers objects through the whole process, as a reactor may see those of several networks.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// What people call it.
const WHAT: &str = "simulated descriptor";

impl Object {
    /// An object that was made at `location`, as far as a test is told.
    pub(crate) fn new(location: Site, readiness: impl Fn() -> Readiness + Send + Sync + 'static) -> Arc<Object> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        probe::note(|| Note::Made { what: WHAT, id, location });
        Arc::new(Object { id, readiness: Box::new(readiness), watchers: Mutex::new(Vec::new()) })
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// What the object is ready for at this moment.
    pub fn readiness(&self) -> Readiness {
        (self.readiness)()
    }

    /// Tells `watcher` of every change from now on, as long as it lives.
    pub(crate) fn watch(&self, watcher: Arc<dyn Watcher>) {
        let watcher = Arc::downgrade(&watcher);
        let mut watchers = self.watchers.lock();
        watchers.retain(|known| known.strong_count() > 0);
        if !watchers.iter().any(|known| known.ptr_eq(&watcher)) {
            watchers.push(watcher);
        }
    }

    /// Tells all watchers that the object has changed. Called with no lock held.
    pub(crate) fn changed(&self) {
        let watchers: Vec<_> = self.watchers.lock().iter().filter_map(Weak::upgrade).collect();
        watchers.into_iter().for_each(|watcher| watcher.changed(self.id));
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        probe::note(|| Note::Gone { what: WHAT, id: self.id });
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({}, {:?})", self.id, self.readiness())
    }
}
