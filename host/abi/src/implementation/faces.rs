//! Faces: what a `fdf_dispatcher_t` and an `async_dispatcher_t` are.
//!
//! Each dispatcher that C knows has a *record*, with two *faces*: the dispatcher itself and its always-on view. A pointer
//! of either C type points to a face, which begins with the `async_dispatcher_t`, so going from one type to the other is no
//! work. A record stays where it is until C destroys the dispatcher.
//!
//! Under a host, C may also meet a dispatcher that it has not made. It gets a record when C asks for it, which is swept up
//! after the dispatcher has gone.
//!
//! # Invariants
//! - A face is part of a record, and `Face::record` points to it.
//! - A record that is in the registry is not freed; it leaves the registry before it is.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fuchsine_dispatcher::{DispatcherHandle, DispatcherState, current};
use parking_lot::{Mutex, RwLock};

use super::drivers::DriverKey;
use super::{Foreign, die, ops};
use crate::types::{async_dispatcher_t, fdf_dispatcher_shutdown_observer_t, fdf_dispatcher_t};

const ALIVE: u64 = u64::from_ne_bytes(*b"fuchsine");

/// What C has a pointer to.
#[repr(C)]
pub(crate) struct Face {
    async_dispatcher: async_dispatcher_t,
    /// [`ALIVE`] as long as the record is.
    mark: AtomicU64,
    record: *const Record,
    handle: OnceLock<DispatcherHandle>,
}

/// Whose a dispatcher is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// C has made it and destroys it.
    Managed,
    /// As above, and it has no threads.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "there is none without the kit"))]
    Unmanaged,
    /// The host has made it.
    Hosted,
}

/// A dispatcher that C knows.
pub(crate) struct Record {
    regular: Face,
    always_on: Face,
    /// As it was made.
    pub(crate) options: u32,
    /// `None` for one that C did not make.
    pub(crate) owner: Option<DriverKey>,
    kind: Kind,
    /// Set before the observer is called.
    has_shut_down: AtomicBool,
}

static REGISTRY: RwLock<Option<HashMap<u64, Foreign<Record>>>> = RwLock::new(None);
/// Held while a dispatcher that C has not made gets its record.
static ADOPTING: Mutex<()> = Mutex::new(());
/// How many records were ever freed: what a thread remembers of earlier ones is void.
static FREED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The dispatcher that was current when this thread asked last: its number, its record, and the count of the freed.
    static LAST: Cell<(u64, Foreign<Record>, u64)> =
        const { Cell::new((0, Foreign(std::ptr::null_mut()), 0)) };
}

impl Face {
    fn blank(record: *const Record) -> Face {
        Face {
            async_dispatcher: async_dispatcher_t { ops: &raw const ops::OPS },
            mark: AtomicU64::new(ALIVE),
            record,
            handle: OnceLock::new(),
        }
    }

    /// The face behind a pointer of C's. Ends the process if it points to none: there is no other answer.
    ///
    /// # Safety
    /// The pointer is one that C was given, and can be read.
    pub(crate) unsafe fn of<'a>(function: &str, dispatcher: *const fdf_dispatcher_t) -> &'a Face {
        if dispatcher.is_null() {
            die(function, "the dispatcher is NULL");
        }
        // SAFETY: every dispatcher of either type begins with this structure, whoever has made it.
        let ops = unsafe { (*dispatcher.cast::<async_dispatcher_t>()).ops };
        if !std::ptr::eq(ops, &raw const ops::OPS) {
            die(function, "this is no dispatcher of this runtime");
        }
        // SAFETY: it has our functions, so it is a face.
        let face = unsafe { &*dispatcher.cast::<Face>() };
        // ORDERING: Relaxed, it guards nothing: it is there to find mistakes.
        if face.mark.load(Ordering::Relaxed) != ALIVE {
            die(function, "the dispatcher was destroyed");
        }
        face
    }

    /// [`of`](Face::of), for the other type.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn of_async<'a>(function: &str, dispatcher: *const async_dispatcher_t) -> &'a Face {
        // SAFETY: as there; a face begins with the structure.
        unsafe { Face::of(function, dispatcher.cast()) }
    }

    /// The dispatcher, in this view. It comes with a reference of its own: what is done by it may lead to the shutdown
    /// observer, which frees the record on another thread before this one has come back.
    pub(crate) fn handle(&self) -> DispatcherHandle {
        // Whoever is given a pointer early, which is the shutdown observer alone, waits for whoever makes the dispatcher.
        self.handle.wait().clone()
    }

    pub(crate) fn record(&self) -> &Record {
        // SAFETY: a face is part of its record (invariant).
        unsafe { &*self.record }
    }

    pub(crate) fn as_fdf(&self) -> *mut fdf_dispatcher_t {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    pub(crate) fn as_async(&self) -> *mut async_dispatcher_t {
        std::ptr::from_ref(self).cast_mut().cast()
    }
}

// SAFETY: all but `record` is `Sync`, and that never changes.
unsafe impl Sync for Face {}
// SAFETY: as above.
unsafe impl Send for Face {}

/// A record that is not known to anybody yet.
pub(crate) struct Draft(Foreign<Record>);

impl Draft {
    pub(crate) fn new(options: u32, owner: Option<DriverKey>, kind: Kind) -> Draft {
        let record = Box::into_raw(Box::<Record>::new_uninit()).cast::<Record>();
        // SAFETY: the memory was allocated for a record a moment ago.
        unsafe {
            record.write(Record {
                regular: Face::blank(record),
                always_on: Face::blank(record),
                options,
                owner,
                kind,
                has_shut_down: AtomicBool::new(false),
            });
        }
        Draft(Foreign::new(record))
    }

    /// What the dispatcher calls last.
    pub(crate) fn observer(&self, observer: *mut fdf_dispatcher_shutdown_observer_t) -> impl FnOnce() + Send + use<> {
        let (record, observer) = (self.0, Foreign::new(observer));
        move || {
            // SAFETY: a record is freed only after this store.
            let record = unsafe { &*record.get() };
            let face = record.regular.as_fdf();
            // The one who made the dispatcher still holds the draft.
            let _ = record.regular.handle();
            // ORDERING: Release, pairs with the Acquire in `has_shut_down`: all callbacks are over.
            record.has_shut_down.store(true, Ordering::Release);
            if observer.get().is_null() {
                return;
            }
            // SAFETY: C keeps the observer until its handler has run, and its handler was looked at when it was handed in.
            if let Some(handler) = unsafe { (*observer.get()).handler } {
                // SAFETY: called as the header says; nothing on this side is used afterwards.
                unsafe { handler(face, observer.get()) };
            }
        }
    }

    /// The dispatcher has been made.
    pub(crate) fn finish(self, handle: DispatcherHandle) -> &'static Face {
        // SAFETY: nobody frees it before it is in the registry.
        let record: &'static Record = unsafe { &*self.0.get() };
        let id = handle.id().as_raw();
        REGISTRY.write().get_or_insert_default().insert(id, self.0);
        let _ = record.always_on.handle.set(handle.always_on());
        let _ = record.regular.handle.set(handle);
        &record.regular
    }

    /// It has not.
    pub(crate) fn discard(self) {
        // SAFETY: made by `new` and known to nobody: the observer was dropped with the builder.
        drop(unsafe { Box::from_raw(self.0.get()) });
    }
}

impl Record {
    /// Whether C has made it, so that C destroys it.
    pub(crate) fn is_owned(&self) -> bool {
        self.kind != Kind::Hosted
    }

    /// Whether it runs only when a test runs it.
    #[cfg(feature = "testing")]
    pub(crate) fn is_unmanaged(&self) -> bool {
        self.kind == Kind::Unmanaged
    }

    pub(crate) fn always_on(&self) -> &Face {
        &self.always_on
    }

    pub(crate) fn has_shut_down(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release in `observer`.
        self.has_shut_down.load(Ordering::Acquire)
    }

    /// Frees it; C does not use its pointer any more.
    ///
    /// # Safety
    /// The record is one of `finish`, and this is the only call of it.
    pub(crate) unsafe fn free(record: *const Record) {
        // SAFETY: alive until the end of this function.
        let (regular, always_on) = unsafe { (&(*record).regular, &(*record).always_on) };
        let id = regular.handle().id().as_raw();
        let mut registry = REGISTRY.write();
        registry.get_or_insert_default().remove(&id);
        // ORDERING: Relaxed, under the lock; who looks without it is the thread that this call comes from, or one that
        // cannot be inside of the dispatcher any more.
        FREED.fetch_add(1, Ordering::Relaxed);
        drop(registry);
        regular.mark.store(0, Ordering::Relaxed);
        always_on.mark.store(0, Ordering::Relaxed);
        // SAFETY: made by `Draft::new` from a box, and this is the only call.
        drop(unsafe { Box::from_raw(record.cast_mut()) });
    }
}

/// All records of dispatchers that C has made.
pub(crate) fn owned() -> Vec<Foreign<Record>> {
    let registry = REGISTRY.read();
    let records = registry.iter().flat_map(HashMap::values).copied();
    // SAFETY: records in the registry are not freed.
    records.filter(|record| unsafe { &*record.get() }.is_owned()).collect()
}

/// The face of a dispatcher, if C knows it.
pub(crate) fn face_of(handle: &DispatcherHandle) -> Option<&'static Face> {
    let id = handle.id().as_raw();
    let record = REGISTRY.read().as_ref().and_then(|registry| registry.get(&id).copied())?;
    // SAFETY: records in the registry are not freed; C frees it only when nothing of the dispatcher runs any more.
    Some(unsafe { &(*record.get()).regular })
}

/// The face of the dispatcher that is current on this thread.
pub(crate) fn current_face() -> Option<&'static Face> {
    let handle = current()?;
    let (id, freed) = (handle.id().as_raw(), FREED.load(Ordering::Relaxed));
    let (last, record, then) = LAST.get();
    if last == id && then == freed {
        // SAFETY: no record was freed since it was found.
        return Some(unsafe { &(*record.get()).regular });
    }
    let face = match face_of(&handle) {
        Some(face) => face,
        None => adopt(&handle)?,
    };
    LAST.set((id, Foreign::new(face.record.cast_mut()), freed));
    Some(face)
}

/// A face for a dispatcher that C has not made; `None` for one that C has destroyed.
pub(crate) fn adopt(handle: &DispatcherHandle) -> Option<&'static Face> {
    if !super::env::is_hosted() || !matches!(handle.state(), DispatcherState::Running | DispatcherState::ShuttingDown) {
        return None;
    }
    let _one_at_a_time = ADOPTING.lock();
    if let Some(face) = face_of(handle) {
        return Some(face);
    }
    sweep();
    let option = |is_set: bool, option: u32| if is_set { option } else { 0 };
    let options = option(!handle.is_synchronized(), crate::types::FDF_DISPATCHER_OPTION_UNSYNCHRONIZED)
        | option(handle.allows_sync_calls(), crate::types::FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS)
        | option(!handle.allows_thread_migration(), crate::types::FDF_DISPATCHER_OPTION_NO_THREAD_MIGRATION);
    Some(Draft::new(options, None, Kind::Hosted).finish(handle.clone()))
}

/// Frees the records of dispatchers that C has not made and that are gone.
fn sweep() {
    let gone: Vec<Foreign<Record>> = {
        let registry = REGISTRY.read();
        let records = registry.iter().flat_map(HashMap::values).copied();
        let is_gone = |record: &Foreign<Record>| {
            // SAFETY: records in the registry are not freed.
            let record = unsafe { &*record.get() };
            !record.is_owned() && record.regular.handle().state() == DispatcherState::Destroyed
        };
        records.filter(is_gone).collect()
    };
    for record in gone {
        // SAFETY: nothing of the dispatcher runs any more, and pointers that nobody owns die with it. One at a time sweeps.
        unsafe { Record::free(record.get()) };
    }
}
