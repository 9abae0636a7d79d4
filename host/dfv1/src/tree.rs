//! The devices of one driver, and their removal.
//!
//! ```text
//!       add             init replies Ok             begin_removal, children gone       unbind replies
//! ────────▶ Initializing ──────────▶ Visible ─────────────────▶ Unbinding ───────────────────▶ released, or kept
//!                │ init replies Err, or it is removed meanwhile     ▲
//!                └──────────────────────────────────────────────────┘
//! ```
//!
//! 1. A device that is added gets its `init` in a future of its own, so never inside of `add`.
//! 2. A removal marks the device and all below it, so that nothing is added there any more. It waits for the reply to
//!    `init`, takes the node down (the drivers bound to it stop first), removes the children, the newest first, then unbinds.
//! 3. An unbound device is released and forgotten. The last one on the parent itself is kept and released in `stop`.
//!
//! Invariants:
//! - Each hook of a device is called at most once, `release` last, and after the release of all its children.
//! - No lock is held while a hook runs: the operations are taken out for the call and put back.
//!
//! On a panic of a hook the host drops the driver; the devices are dropped with it, without their `release`.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};

use fuchsine_driver::{Child, DriverContext, Status};
use parking_lot::Mutex;

use crate::device::{AddError, Device, DeviceArgs, DeviceOps};
use crate::signal::Signal;
use crate::txn::{InitTxn, UnbindTxn};

/// Of one driver. Ids are never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeviceId(u64);

/// The devices of one driver.
pub(crate) struct Tree {
    me: Weak<Tree>,
    cx: DriverContext,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    devices: BTreeMap<DeviceId, Entry>,
    next: u64,
    /// `bind` has ended well, so the last device takes the driver along.
    bound: bool,
    /// The driver stops, and nothing is added any more.
    closed: bool,
    /// Those that are released at the very end.
    kept: Vec<Box<dyn DeviceOps>>,
    /// Why the last device went, if it failed.
    failure: Option<(String, Status)>,
}

struct Entry {
    parent: Option<DeviceId>,
    name: String,
    /// Taken out while a hook runs.
    ops: Option<Box<dyn DeviceOps>>,
    /// How `init` ended.
    initialized: Arc<Signal<Result<(), Status>>>,
    /// The node, once the device is visible.
    node: Option<Child>,
    /// Nothing is added to it any more.
    leaving: bool,
    /// Its removal has begun.
    removing: bool,
    /// Why its `init` failed, if it did.
    failure: Option<(String, Status)>,
    gone: Arc<Signal<()>>,
}

/// A removal, as somebody who asks for it finds it.
struct Removal {
    /// It begins with this.
    first: bool,
    initialized: Arc<Signal<Result<(), Status>>>,
    gone: Arc<Signal<()>>,
}

impl Tree {
    pub(crate) fn new(cx: DriverContext) -> Arc<Tree> {
        Arc::new_cyclic(|me| Tree { me: me.clone(), cx, state: Mutex::default() })
    }

    fn arc(&self) -> Option<Arc<Tree>> {
        self.me.upgrade()
    }

    /// Whether a device was ever added.
    pub(crate) fn has_added(&self) -> bool {
        self.state.lock().next > 0
    }

    /// `bind` has ended well.
    pub(crate) fn bound(&self) {
        self.state.lock().bound = true;
        self.end_if_empty();
    }

    /// The name of the node of a device: its own, with those of the devices above it in front.
    fn node_name(state: &State, parent: Option<DeviceId>, name: &str) -> String {
        match parent.and_then(|parent| state.devices.get(&parent)) {
            Some(parent) => Self::node_name(state, parent.parent, &format!("{}.{name}", parent.name)),
            None => name.to_owned(),
        }
    }

    pub(crate) fn add(
        &self,
        parent: Option<DeviceId>,
        args: DeviceArgs,
        ops: Box<dyn DeviceOps>,
    ) -> Result<Device, AddError> {
        let refuse = |status| AddError { name: args.name.clone(), status };
        let tree = self.arc().ok_or_else(|| refuse(Status::BadState))?;
        let mut state = self.state.lock();
        let may_add = match parent {
            Some(parent) => state.devices.get(&parent).is_some_and(|parent| !parent.leaving),
            None => !state.closed,
        };
        if !may_add {
            return Err(refuse(Status::BadState));
        }
        if args.name.is_empty() || args.name.contains(['/', '.']) {
            return Err(refuse(Status::InvalidArgs));
        }
        if state.devices.values().any(|other| other.parent == parent && other.name == args.name) {
            return Err(refuse(Status::AlreadyExists));
        }
        let id = DeviceId(state.next);
        state.next += 1;
        let entry = Entry {
            parent,
            name: args.name.clone(),
            ops: Some(ops),
            initialized: Arc::default(),
            node: None,
            leaving: false,
            removing: false,
            failure: None,
            gone: Arc::default(),
        };
        state.devices.insert(id, entry);
        drop(state);
        let name = args.name.clone();
        let begin = Arc::clone(&tree);
        if let Err(refused) = self.cx.dispatcher().spawn(async move { begin.initialize(id, args).await }) {
            let status = refused.status();
            drop(refused);
            let entry = self.state.lock().devices.remove(&id);
            drop(entry);
            return Err(AddError { name, status });
        }
        Ok(Device { tree, id, name })
    }

    /// Calls `init`, and makes the device visible or removes it.
    async fn initialize(self: Arc<Self>, id: DeviceId, args: DeviceArgs) {
        let Some((initialized, name)) = ({
            let state = self.state.lock();
            let found = state.devices.get(&id).map(|entry| (Arc::clone(&entry.initialized), entry.parent));
            found.map(|(initialized, parent)| (initialized, Self::node_name(&state, parent, &args.name)))
        }) else {
            return;
        };
        let replied = Arc::new(Signal::default());
        let txn = InitTxn::new(Arc::clone(&replied));
        self.call(id, |ops| ops.init(txn));
        let mut outcome = replied.told().await;
        let is_leaving = || self.state.lock().devices.get(&id).is_none_or(|entry| entry.leaving);
        if outcome.is_ok() && !args.is_invisible && !is_leaving() {
            match self.cx.add_child(args.into_node(&name)) {
                Ok(child) => {
                    if let Some(entry) = self.state.lock().devices.get_mut(&id) {
                        entry.node = Some(child);
                    }
                }
                Err(error) => outcome = Err(error.status()),
            }
        }
        if let Err(status) = outcome {
            let told = format!("device `{name}` is removed, as its init failed: {status}");
            self.cx.logger().warn(&told);
            if let Some(entry) = self.state.lock().devices.get_mut(&id) {
                entry.failure = Some((told, status));
            }
            initialized.tell(outcome);
            return self.begin_removal(id);
        }
        initialized.tell(outcome);
    }

    /// Calls a hook with no lock held.
    fn call(&self, id: DeviceId, hook: impl FnOnce(&dyn DeviceOps)) {
        let ops = self.state.lock().devices.get_mut(&id).and_then(|entry| entry.ops.take());
        if let Some(ops) = ops {
            hook(&*ops);
            if let Some(entry) = self.state.lock().devices.get_mut(&id) {
                entry.ops = Some(ops);
            }
        }
    }

    /// Lets nothing be added to a device and to all below it.
    fn mark(state: &mut State, id: DeviceId) {
        let Some(entry) = state.devices.get_mut(&id) else { return };
        entry.leaving = true;
        for child in Self::children(state, Some(id)) {
            Self::mark(state, child);
        }
    }

    /// Whether the removal of a device begins with this, and what it waits for.
    fn begin(&self, id: DeviceId) -> Option<Removal> {
        let mut state = self.state.lock();
        Self::mark(&mut state, id);
        let entry = state.devices.get_mut(&id)?;
        let first = !std::mem::replace(&mut entry.removing, true);
        Some(Removal { first, initialized: Arc::clone(&entry.initialized), gone: Arc::clone(&entry.gone) })
    }

    /// The newest first.
    fn children(state: &State, parent: Option<DeviceId>) -> Vec<DeviceId> {
        state.devices.iter().rev().filter(|(_, entry)| entry.parent == parent).map(|(&id, _)| id).collect()
    }

    /// Begins to remove a device, on the driver's dispatcher.
    pub(crate) fn begin_removal(&self, id: DeviceId) {
        let Some(tree) = self.arc() else { return };
        // Refused only when the driver is stopping, which removes all devices.
        drop(self.cx.dispatcher().spawn(async move { tree.remove(id).await }));
    }

    /// Removes a device and all below it; complete when it is gone.
    fn remove(self: Arc<Self>, id: DeviceId) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            let Some(Removal { first, initialized, gone }) = self.begin(id) else { return };
            if !first {
                return gone.told().await;
            }
            // What it replies does not matter any more.
            let _ = initialized.told().await;
            let node = self.state.lock().devices.get_mut(&id).and_then(|entry| entry.node.take());
            if let Some(node) = node {
                // Refused only when the driver is stopping, when the nodes are gone.
                let _ = node.remove().await;
            }
            let children = Self::children(&self.state.lock(), Some(id));
            for child in children {
                Arc::clone(&self).remove(child).await;
            }
            let unbound = Arc::new(Signal::default());
            let txn = UnbindTxn::new(Arc::clone(&unbound));
            self.call(id, |ops| ops.unbind(txn));
            unbound.told().await;
            self.release(id);
            gone.tell(());
            self.end_if_empty();
        })
    }

    /// Releases a device that was unbound, or keeps it for the end of the driver.
    fn release(&self, id: DeviceId) {
        let ops = {
            let mut state = self.state.lock();
            let Some(entry) = state.devices.remove(&id) else { return };
            state.failure = entry.failure;
            let is_last = entry.parent.is_none() && state.devices.is_empty();
            match entry.ops {
                Some(ops) if is_last => {
                    state.kept.push(ops);
                    None
                }
                ops => ops,
            }
        };
        if let Some(ops) = ops {
            ops.release();
        }
    }

    /// Without devices there is nothing left for the driver to do.
    fn end_if_empty(&self) {
        let failure = {
            let state = self.state.lock();
            if !state.bound || state.closed || !state.devices.is_empty() {
                return;
            }
            state.failure.clone()
        };
        match failure {
            Some((told, status)) => self.cx.fail(status, told),
            None => self.cx.finish(),
        }
    }

    /// Removes all devices, the newest first, and lets no more be added.
    pub(crate) async fn remove_all(self: &Arc<Self>) {
        let all = {
            let mut state = self.state.lock();
            state.closed = true;
            Self::children(&state, None)
        };
        for id in all {
            Arc::clone(self).remove(id).await;
        }
    }

    /// Releases what was kept for the end.
    pub(crate) fn release_kept(&self) {
        let kept = std::mem::take(&mut self.state.lock().kept);
        kept.into_iter().for_each(|ops| ops.release());
    }
}

impl std::fmt::Debug for Tree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state.lock();
        let names: Vec<&str> = state.devices.values().map(|entry| entry.name.as_str()).collect();
        f.debug_struct("Tree").field("devices", &names).finish_non_exhaustive()
    }
}
