//! `SimWaits`: who waits on which simulated object.
//!
//! An object says only "look at me again"; what it is ready for is asked of it when the reactor polls. Objects are
//! looked at in the order in which they asked for it, so a run that is otherwise deterministic stays so.

use std::collections::{HashMap, VecDeque};

use crate::event_loop::wait_list::{Wait, WaitList};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex};
use crate::sys::Readiness;
use crate::sys::sim::Object;

/// The waits on all simulated objects of one reactor.
#[derive(Default)]
pub(crate) struct SimWaits {
    table: Mutex<Table>,
    /// How many objects are to be looked at. Written under the table's lock; read without it, as a reactor over the
    /// operating system asks in every poll, and never has any.
    to_look_at: AtomicUsize,
}

/// A wait that is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadyWait {
    pub(crate) object: u64,
    pub(crate) serial: u64,
    pub(crate) readiness: Readiness,
}

#[derive(Default)]
struct Table {
    objects: HashMap<u64, Entry>,
    /// Objects to look at, oldest request first; each at most once.
    to_look_at: VecDeque<u64>,
}

struct Entry {
    object: Arc<Object>,
    waits: WaitList,
    is_queued: bool,
}

impl Table {
    fn look_again(&mut self, id: u64) -> bool {
        let Some(entry) = self.objects.get_mut(&id) else { return false };
        if !std::mem::replace(&mut entry.is_queued, true) {
            self.to_look_at.push_back(id);
        }
        true
    }
}

impl SimWaits {
    /// Arms a wait. The object is looked at in the next poll.
    pub(crate) fn begin(&self, object: Arc<Object>, wait: Wait) {
        let id = object.id();
        let mut table = self.table.lock();
        let entry = table.objects.entry(id);
        entry.or_insert_with(|| Entry { object, waits: WaitList::default(), is_queued: false }).waits.add(wait);
        table.look_again(id);
        self.publish(&table);
    }

    fn publish(&self, table: &Table) {
        self.to_look_at.store(table.to_look_at.len(), Ordering::Relaxed);
    }

    /// Disarms a wait, if it is still armed. An object that nobody waits on is kept no longer.
    pub(crate) fn cancel(&self, object: u64, serial: u64) -> Option<Wait> {
        let (wait, unused) = {
            let mut table = self.table.lock();
            let entry = table.objects.get_mut(&object)?;
            let wait = entry.waits.remove(serial);
            let unused = entry.waits.is_empty().then(|| table.objects.remove(&object));
            (wait, unused)
        };
        drop(unused);
        wait
    }

    /// An object has changed. Answers whether anybody waits on it.
    pub(crate) fn changed(&self, object: u64) -> bool {
        let mut table = self.table.lock();
        let watched = table.look_again(object);
        self.publish(&table);
        watched
    }

    /// Whether there is something to look at.
    pub(crate) fn is_pending(&self) -> bool {
        // Relaxed: whoever adds one wakes the reactor besides.
        self.to_look_at.load(Ordering::Relaxed) > 0
    }

    /// Takes one wait that is over. Its object is looked at again, as others may wait on it.
    pub(crate) fn take(&self, ready: ReadyWait) -> Option<Wait> {
        self.cancel(ready.object, ready.serial)
    }

    /// Looks at all objects that asked for it and gives each wait that is over to `each`, which only puts it aside.
    pub(crate) fn poll(&self, mut each: impl FnMut(Wait, Readiness)) {
        // Only what has asked up to now: an object that changes meanwhile is looked at in the next poll.
        let queued = self.table.lock().to_look_at.len();
        for _ in 0..queued {
            let Some(object) = self.next() else { return };
            // The object takes its own lock to answer, so ours must be free.
            let ready = object.readiness();
            let unused = {
                let mut table = self.table.lock();
                let Some(entry) = table.objects.get_mut(&object.id()) else { continue };
                entry.waits.take_concerned(ready).for_each(|wait| each(wait, ready));
                let unused = entry.waits.is_empty() && !entry.is_queued;
                unused.then(|| table.objects.remove(&object.id()))
            };
            drop(unused);
        }
    }

    /// The waits that are over, as [`poll`](SimWaits::poll) would find them; they stay armed. What nobody waits for is not
    /// looked at again before it changes.
    pub(crate) fn ready(&self) -> Vec<ReadyWait> {
        let mut ready = Vec::new();
        let queued = self.table.lock().to_look_at.len();
        for _ in 0..queued {
            let Some(object) = self.next() else { break };
            // The object takes its own lock to answer, so ours must be free.
            let readiness = object.readiness();
            let unused = {
                let mut table = self.table.lock();
                let Some(entry) = table.objects.get(&object.id()) else { continue };
                let found = ready.len();
                let concerned = entry.waits.concerned(readiness);
                ready.extend(concerned.map(|wait| ReadyWait { object: object.id(), serial: wait.serial, readiness }));
                let unused = entry.waits.is_empty() && !entry.is_queued;
                if ready.len() > found {
                    table.look_again(object.id());
                    self.publish(&table);
                }
                unused.then(|| table.objects.remove(&object.id()))
            };
            drop(unused);
        }
        ready
    }

    fn next(&self) -> Option<Arc<Object>> {
        let mut table = self.table.lock();
        let found = loop {
            let Some(id) = table.to_look_at.pop_front() else { break None };
            // Some are not kept any more.
            if let Some(entry) = table.objects.get_mut(&id) {
                entry.is_queued = false;
                break Some(entry.object.clone());
            }
        };
        self.publish(&table);
        found
    }
}
