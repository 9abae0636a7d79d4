//! What a host gives to a module besides the table: its log, for events and panics that come without a context.
//!
//! # Invariants
//! - The `data` of a [`ModuleHost`] is a [`Speaker`] that was leaked with it.

use std::collections::HashMap;
use std::ffi::c_void;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use fuchsine_dispatcher::DriverId;
use fuchsine_driver::abi::{Header, ModuleHost, Property, Str};
use parking_lot::RwLock;

use super::super::context;
use super::Module;
use super::scribe::{self, Speaks};
use super::threads::{Census, Stray};
use crate::host::Instance;
use crate::log::{self, Origin};

/// A module, as one that logs.
#[derive(Debug)]
struct Speaker {
    /// Its first driver: what lines are said to be of that come from none of its instances.
    driver: String,
    drivers: Vec<String>,
}

/// The part of the host for a new module with these drivers.
pub(super) fn host_for(drivers: Vec<String>) -> &'static ModuleHost {
    let driver = drivers.first().cloned().unwrap_or_default();
    let speaker: &'static Speaker = Box::leak(Box::new(Speaker { driver, drivers }));
    let data: *const c_void = std::ptr::from_ref(speaker).cast();
    Box::leak(Box::new(ModuleHost { header: Header::of::<ModuleHost>(), data, log, log_enabled }))
}

type Instances = RwLock<HashMap<DriverId, Running>>;

/// Whether somebody sees every line of one of them, whatever the level of the log.
static OBSERVED: AtomicBool = AtomicBool::new(false);

/// An instance of a module.
#[derive(Debug)]
struct Running {
    instance: Weak<Instance>,
    /// The threads that there were before it did anything.
    before: Census,
}

/// The running instances of modules, by the drivers of the runtime that they are.
fn instances() -> &'static Instances {
    static INSTANCES: OnceLock<Instances> = OnceLock::new();
    INSTANCES.get_or_init(Instances::default)
}

/// What `driver` runs is of this instance from now on. Of a driver that is linked in nobody needs to know.
pub(crate) fn runs_as(driver: DriverId, instance: &Arc<Instance>) {
    if let Some(module) = Module::of(instance.entry) {
        tracing::debug!(driver = instance.name, module = %module.path().display(), "runs code of a module");
        let running = Running { instance: Arc::downgrade(instance), before: Census::take() };
        let mut instances = instances().write();
        instances.insert(driver, running);
        note_observers(&instances);
    }
}

/// The instance of a module whose code runs on this thread.
pub(in super::super) fn instance_here() -> Option<Arc<Instance>> {
    let current = fuchsine_dispatcher::current_driver()?;
    instances().read().get(&current.id())?.instance.upgrade()
}

/// The instance is gone, and with it the driver that it ended as. Tells which threads it has left behind.
pub(crate) fn ran_as(instance: &Instance, last: Option<DriverId>) {
    if Module::of(instance.entry).is_none() {
        return;
    }
    let mut instances = instances().write();
    let ran = instances.remove(&instance.driver.id());
    last.map(|last| instances.remove(&last));
    note_observers(&instances);
    let is_alone = instances.is_empty();
    drop(instances);
    let strays = ran.map(|ran| ran.before.strays()).unwrap_or_default();
    for Stray { id, name } in strays {
        let (driver, tid) = (&instance.name, id);
        match is_alone {
            true => tracing::warn!(driver, thread = name, tid, "left a thread behind, which goes on running"),
            // Who started it, nobody can tell.
            false => tracing::warn!(
                driver,
                thread = name,
                tid,
                "while it ran, it or another module has started a thread, which goes on running"
            ),
        }
    }
}

fn note_observers(instances: &HashMap<DriverId, Running>) {
    let observed = |running: &Running| {
        let host = running.instance.upgrade().and_then(|instance| instance.host.upgrade());
        host.is_some_and(|host| host.log_observer().is_some())
    };
    // ORDERING: Relaxed; a line that is asked about at the same moment may be told or not.
    OBSERVED.store(instances.values().any(observed), Ordering::Relaxed);
}

impl Speaker {
    /// The instance whose code runs on this thread, or, on a thread that is nobody's, the only one there is.
    fn running(&self) -> Option<Arc<Instance>> {
        if fuchsine_dispatcher::current_driver().is_some() {
            return instance_here();
        }
        let instances = instances().read();
        let mut found: Option<Arc<Instance>> = None;
        for instance in instances.values().filter_map(|running| running.instance.upgrade()) {
            let is_ours = self.drivers.iter().any(|name| name == instance.entry.name());
            match &found {
                _ if !is_ours => {}
                Some(other) if other.id != instance.id => return None,
                _ => found = Some(instance),
            }
        }
        found
    }
}

unsafe extern "C" fn log(
    data: *const c_void,
    level: u32,
    target: Str,
    message: Str,
    fields: *const Property,
    count: usize,
) {
    // SAFETY: see the invariants.
    let speaker = unsafe { &*data.cast::<Speaker>() };
    let fields = match count {
        0 => &[][..],
        // SAFETY: the caller lends an array of this length for the call.
        _ => unsafe { slice::from_raw_parts(fields, count) },
    };
    // SAFETY: the caller lends the strings for the call.
    let line = unsafe { context::Line::read(level, target, message, fields) };
    match (speaker.running(), fuchsine_dispatcher::current_driver()) {
        (Some(instance), Some(_)) => line.write(&instance),
        (None, Some(_)) => line.write_as(&speaker.driver),
        // Nobody's thread, or one that ends.
        (Some(instance), None) => scribe::write(Speaks::Instance(instance), line),
        (None, None) => scribe::write(Speaks::Driver(speaker.driver.clone()), line),
    }
}

unsafe extern "C" fn log_enabled(data: *const c_void, level: u32, target: Str) -> u32 {
    // SAFETY: see the invariants.
    let speaker = unsafe { &*data.cast::<Speaker>() };
    let level = context::level(level);
    // ORDERING: Relaxed; as where it is stored.
    if OBSERVED.load(Ordering::Relaxed) {
        return 1;
    }
    // Most of what is asked is answered here.
    if level > tracing::level_filters::LevelFilter::current() {
        return 0;
    }
    // A thread that ends can ask no filter (see `scribe`), which is asked again when the line is written.
    if fuchsine_dispatcher::current_driver().is_none() {
        return 1;
    }
    // SAFETY: the caller lends the target for the call.
    let target = unsafe { target.to_text() };
    u32::from(log::is_enabled(Origin { driver: &speaker.driver, target: &target }, level))
}
