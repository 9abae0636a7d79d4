//! One driver instance: what its context pointer leads to.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use fuchsine_dispatcher::{Counters, DispatcherHandle, Driver, Instant};
use fuchsine_driver::DriverEntry;
use parking_lot::Mutex;

use super::shared::Shared;
use crate::apart::Apart;
use crate::life_cycle::InstanceId;
use crate::load::Value;
use crate::node::{NodeId, Properties};

/// A run of a driver on a node. It outlives the driver for as long as somebody holds its context; what is asked of it
/// then is refused by the supervisor, which does not know it any more.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) id: InstanceId,
    /// The host; the host holds its instances.
    pub(crate) host: Weak<Shared>,
    /// The name in the manifest.
    pub(crate) name: String,
    pub(crate) entry: &'static DriverEntry,
    /// The text of one JSON object.
    pub(crate) config: String,
    pub(crate) node: NodeId,
    pub(crate) node_name: String,
    pub(crate) node_path: String,
    pub(crate) properties: Properties,
    /// Where it really runs, if that is another process.
    pub(crate) apart: Option<Arc<Apart>>,
    /// The number of that process, once it is there.
    pub(crate) process: AtomicU32,
    /// The owner of all its dispatchers.
    pub(crate) driver: Driver,
    /// Set before `start` is called; not at all if the runtime refused to make one.
    pub(crate) default: OnceLock<DispatcherHandle>,
    pub(crate) state: Mutex<InstanceState>,
    /// What is called when all its dispatchers have shut down.
    pub(crate) at_end: AtEnd,
}

/// What parts of the host have to do at the end of an instance, before anything of it is dropped; each once.
#[derive(Default)]
pub(crate) struct AtEnd(Mutex<Vec<Box<dyn FnOnce() + Send>>>);

impl AtEnd {
    /// Has it called.
    pub(crate) fn push(&self, what: impl FnOnce() + Send + 'static) {
        self.0.lock().push(Box::new(what));
    }

    pub(super) fn run(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        all.into_iter().for_each(|what| what());
    }
}

impl fmt::Debug for AtEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AtEnd").field(&self.0.lock().len()).finish()
    }
}

/// What changes. Locked by whoever carries out actions of the supervisor, one at a time, and by dumps.
#[derive(Debug, Default)]
pub(crate) struct InstanceState {
    /// What `start` made, until `stop` or its destruction consumes it.
    pub(crate) value: Option<Value>,
    /// Where `stop` and the destruction run, while they do.
    pub(crate) last: Option<LastDispatcher>,
    /// When it was first told to go.
    pub(crate) going_since: Option<Instant>,
    /// Why it failed, if it did.
    pub(crate) failure: Option<String>,
    /// Whether it is started again after that.
    pub(crate) is_restarted: bool,
}

/// The dispatcher on which a driver ends. It is the host's, with an owner of its own for each instance, so that a
/// driver whose `stop` panics or never returns is alone with that.
#[derive(Debug, Clone)]
pub(crate) struct LastDispatcher {
    pub(crate) owner: Driver,
    pub(crate) dispatcher: DispatcherHandle,
}

impl Instance {
    /// Says in which process it really runs.
    pub(crate) fn runs_in(&self, process: u32) {
        // ORDERING: Relaxed; a number for those who look.
        self.process.store(process, Ordering::Relaxed);
    }

    /// The number of the process that it really runs in, if that is another one and there.
    pub(crate) fn process_id(&self) -> Option<u32> {
        // ORDERING: Relaxed; as above.
        Some(self.process.load(Ordering::Relaxed)).filter(|&id| id != 0)
    }

    /// What became of its callbacks, those of its end included.
    pub(crate) fn counters(&self) -> Counters {
        let last = self.state.lock().last.as_ref().map(|last| last.owner.counters()).unwrap_or_default();
        self.driver.counters() + last
    }
}
