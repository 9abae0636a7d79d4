//! Owners of the host's objects: safe methods over the table, one Rust value for each owned pointer.
//!
//! # Invariants
//! - A value holds a non-null pointer that the table gave out, and one reference (or the only one) to its object; `Drop`
//!   gives it back, and nothing else does, except `into_raw`, which passes it on.
//! - All objects may be used from every thread, as the table promises; hence `Send` and `Sync`.
//! - A pointer exists only after the table was attached.

use std::ffi::c_void;
use std::mem;
use std::ptr;

use super::attach::{table, try_table};
use super::calls::OffloadJob;
use super::closure::{FromRaw, give_callback, give_connect};
use super::parts::DispatcherOptions;
use super::site::CallSite;
use super::text::{collect_properties, collect_text};
use super::types::{Property, RawContext, RawDispatcher, RawJoin, RawOffload, RawStopToken, RawTask, RawWait, Str};
use crate::Status;

macro_rules! object {
    ($(#[$doc:meta])* $name:ident: $raw:ty as $pointer:ty, $release:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name(std::ptr::NonNull<$raw>);

        // SAFETY: the table allows every object to be used from any thread.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl $name {
            /// Takes over one reference.
            ///
            /// # Safety
            /// `pointer` came from the table, not null, and its reference is the caller's to give.
            #[allow(dead_code, reason = "not every object is made in every file")]
            pub(super) unsafe fn from_owned(pointer: $pointer) -> Self {
                $name(std::ptr::NonNull::new(pointer.cast_mut()).expect("the host gives out no null objects"))
            }

            /// Borrows the pointer.
            #[allow(dead_code, reason = "not every object is passed back")]
            pub(crate) fn raw(&self) -> $pointer {
                self.0.as_ptr()
            }

            /// The pointer, whose reference is the caller's from then on.
            #[allow(dead_code, reason = "not every object is given back")]
            pub(super) fn into_raw(self) -> $pointer {
                std::mem::ManuallyDrop::new(self).0.as_ptr()
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: the value holds one reference and gives it back once.
                unsafe { (table().$release)(self.0.as_ptr()) };
            }
        }
    };
}
pub(super) use object;

/// The owned pointer types of the table, so that the macro can treat `*const` and `*mut` alike.
pub(super) trait CastMut {
    type Target;
    fn cast_mut(self) -> *mut Self::Target;
}

impl<T> CastMut for *mut T {
    type Target = T;
    fn cast_mut(self) -> *mut T {
        self
    }
}

object! {
    /// A dispatcher handle.
    DispatcherObject: RawDispatcher as *const RawDispatcher, dispatcher_release
}
object! {
    /// A driver instance, as the host knows it.
    ContextObject: RawContext as *const RawContext, context_release
}
object! {
    /// The right to cancel a task.
    TaskObject: RawTask as *mut RawTask, task_release
}
object! {
    /// The right to cancel a future.
    JoinObject: RawJoin as *mut RawJoin, join_release
}
object! {
    /// The right to cancel work.
    OffloadObject: RawOffload as *mut RawOffload, offload_release
}
object! {
    /// The right to cancel a wait.
    WaitObject: RawWait as *mut RawWait, wait_release
}
pub(crate) use super::channel::ChannelObject;

impl Clone for DispatcherObject {
    fn clone(&self) -> Self {
        // SAFETY: the value holds a reference, so the object is alive.
        unsafe { (table().dispatcher_retain)(self.raw()) };
        DispatcherObject(self.0)
    }
}

impl Clone for ContextObject {
    fn clone(&self) -> Self {
        // SAFETY: the value holds a reference, so the object is alive.
        unsafe { (table().context_retain)(self.raw()) };
        ContextObject(self.0)
    }
}

/// What runs last on a dispatcher, and where it was given.
pub(crate) type Observer = (&'static CallSite, Box<dyn FnOnce() + Send>);

impl DispatcherObject {
    /// The dispatcher whose callback runs on this thread.
    pub(crate) fn current() -> Option<Self> {
        // SAFETY: no arguments; the table is attached.
        let pointer = unsafe { (try_table()?.dispatcher_current)() };
        // SAFETY: a pointer that is not null carries one reference for us.
        (!pointer.is_null()).then(|| unsafe { Self::from_owned(pointer) })
    }

    /// Adds a reference to what the host lent.
    ///
    /// # Safety
    /// `pointer` is not null, valid, and from the attached table.
    pub(super) unsafe fn from_borrowed(pointer: *const RawDispatcher) -> Self {
        // SAFETY: the caller vouches for the pointer.
        unsafe { (table().dispatcher_retain)(pointer) };
        // SAFETY: the reference was added just now.
        unsafe { Self::from_owned(pointer) }
    }

    /// Posts a closure, without the right to take it back.
    pub(crate) fn post<A: FromRaw, F: FnOnce(A) + Send + 'static>(
        &self,
        site: &'static CallSite,
        f: F,
    ) -> Result<(), (F, Status)> {
        // SAFETY: all pointers are valid for the call; the callback is moved out only on success.
        give_callback(site, f, |callback| unsafe {
            (table().dispatcher_post)(self.raw(), callback, 0, ptr::null_mut())
        })
    }

    /// Posts a closure for a deadline (0 for none), with the right to take it back.
    pub(crate) fn post_at<A: FromRaw, F: FnOnce(A) + Send + 'static>(
        &self,
        site: &'static CallSite,
        deadline: u64,
        f: F,
    ) -> Result<TaskObject, (F, Status)> {
        let mut task = ptr::null_mut();
        // SAFETY: all pointers are valid for the call; the callback is moved out only on success.
        give_callback(site, f, |callback| unsafe {
            (table().dispatcher_post)(self.raw(), callback, deadline, &raw mut task)
        })?;
        // SAFETY: on success the host has stored an owned pointer.
        Ok(unsafe { TaskObject::from_owned(task) })
    }

    pub(crate) fn shutdown(&self) {
        // SAFETY: the object is alive.
        unsafe { (table().dispatcher_shutdown)(self.raw()) };
    }

    pub(crate) fn name(&self) -> String {
        // SAFETY: the object is alive and the sink valid for the call.
        collect_text(|sink| unsafe { (table().dispatcher_name)(self.raw(), sink) })
    }

    pub(crate) fn is_stopping(&self) -> bool {
        // SAFETY: the object is alive.
        unsafe { (table().dispatcher_is_stopping)(self.raw()) != 0 }
    }

    pub(crate) fn is_current(&self) -> bool {
        // SAFETY: the object is alive.
        unsafe { (table().dispatcher_is_current)(self.raw()) != 0 }
    }

    pub(crate) fn flags(&self) -> u32 {
        // SAFETY: the object is alive.
        unsafe { (table().dispatcher_flags)(self.raw()) }
    }

    pub(crate) fn seal(&self, flag: u32) -> Result<(), Status> {
        // SAFETY: the object is alive.
        Status::result_of(unsafe { (table().dispatcher_seal)(self.raw(), flag) })
    }

    pub(crate) fn now(&self) -> u64 {
        // SAFETY: the object is alive.
        unsafe { (table().clock_now)(self.raw()) }
    }

    /// Spawns a packed future.
    pub(super) fn spawn(&self, future: *mut super::FutureObject, out: &mut *mut RawJoin) -> i32 {
        // SAFETY: the pointers are valid for the call; the future is moved out only on success.
        unsafe { (table().spawn)(self.raw(), future, out) }
    }

    /// Offloads a packed job.
    pub(super) fn offload(&self, lane: u32, job: *mut OffloadJob, out: &mut *mut RawOffload) -> i32 {
        // SAFETY: the pointers are valid for the call; the job is moved out only on success.
        unsafe { (table().offload)(self.raw(), lane, job, out) }
    }
}

/// The time of the current dispatcher's runtime, or of the machine. Zero before any host has attached its table.
pub(crate) fn current_time() -> u64 {
    // SAFETY: null asks for the current dispatcher.
    try_table().map_or(0, |table| unsafe { (table.clock_now)(ptr::null()) })
}

impl TaskObject {
    pub(crate) fn cancel(&self) -> Result<(), Status> {
        // SAFETY: the object is alive.
        Status::result_of(unsafe { (table().task_cancel)(self.raw()) })
    }
}

impl JoinObject {
    pub(crate) fn cancel(&self) {
        // SAFETY: the object is alive.
        unsafe { (table().join_cancel)(self.raw()) };
    }
}

impl OffloadObject {
    pub(crate) fn cancel(&self) -> Result<(), Status> {
        // SAFETY: the object is alive.
        Status::result_of(unsafe { (table().offload_cancel)(self.raw()) })
    }
}

impl WaitObject {
    pub(crate) fn cancel(&self) -> Result<(), Status> {
        // SAFETY: the object is alive.
        Status::result_of(unsafe { (table().wait_cancel)(self.raw()) })
    }
}

/// Tells work when it should come to an end.
#[derive(Debug)]
pub struct StopToken(*const RawStopToken);

impl StopToken {
    /// Wraps what a lane passes to work.
    ///
    /// # Safety
    /// `pointer` stays valid for as long as the value lives.
    pub(super) unsafe fn new(pointer: *const RawStopToken) -> Self {
        StopToken(pointer)
    }

    /// Whether the work should come to an end: its dispatcher shuts down, or it was canceled.
    pub fn is_stopping(&self) -> bool {
        // SAFETY: the token is valid while the work runs, which holds the only reference to `self`.
        unsafe { (table().stop_token_is_stopping)(self.0) != 0 }
    }

    /// Sleeps until the work should end (`true`) or `timeout` has passed (`false`).
    pub fn wait_timeout(&self, timeout: std::time::Duration) -> bool {
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: as `is_stopping`.
        unsafe { (table().stop_token_wait)(self.0, timeout_ns) != 0 }
    }
}

impl ContextObject {
    /// Adds a reference to what the host lent.
    ///
    /// # Safety
    /// `pointer` is not null, valid, and from the attached table.
    pub(super) unsafe fn from_borrowed(pointer: *const RawContext) -> Self {
        // SAFETY: the caller vouches for the pointer.
        unsafe { (table().context_retain)(pointer) };
        // SAFETY: the reference was added just now.
        unsafe { Self::from_owned(pointer) }
    }

    pub(crate) fn dispatcher(&self) -> DispatcherObject {
        // SAFETY: the object is alive; the result carries a reference for us.
        unsafe { DispatcherObject::from_owned((table().context_dispatcher)(self.raw())) }
    }

    /// Creates a dispatcher that belongs to the driver.
    pub(crate) fn new_dispatcher(
        &self,
        site: &'static CallSite,
        name: &str,
        scheduler_role: &str,
        flags: u32,
        observer: Option<Observer>,
    ) -> Result<DispatcherObject, Status> {
        let mut out = ptr::null();
        let mut options = DispatcherOptions {
            name: Str::new(name),
            scheduler_role: Str::new(scheduler_role),
            flags,
            reserved: 0,
            observer: ptr::null_mut(),
            site,
        };
        let create = |options: &DispatcherOptions, out: *mut *const RawDispatcher| {
            // SAFETY: all pointers are valid for the call; the observer is moved out only on success.
            unsafe { (table().dispatcher_create)(self.raw(), options, out) }
        };
        let created = match observer {
            None => Status::result_of(create(&options, &raw mut out)),
            Some((site, observer)) => give_callback(
                site,
                move |_: Result<(), Status>| observer(),
                |callback| {
                    options.observer = callback;
                    create(&options, &raw mut out)
                },
            )
            .map_err(|(_, status)| status),
        };
        created?;
        // SAFETY: on success the host has stored an owned pointer.
        Ok(unsafe { DispatcherObject::from_owned(out) })
    }

    pub(crate) fn name(&self) -> String {
        // SAFETY: the object is alive and the sink valid for the call.
        collect_text(|sink| unsafe { (table().context_name)(self.raw(), sink) })
    }

    pub(crate) fn config(&self) -> String {
        // SAFETY: as `name`.
        collect_text(|sink| unsafe { (table().context_config)(self.raw(), sink) })
    }

    pub(crate) fn node_name(&self) -> String {
        // SAFETY: as `name`.
        collect_text(|sink| unsafe { (table().node_name)(self.raw(), sink) })
    }

    pub(crate) fn node_properties(&self) -> Vec<(String, String)> {
        // SAFETY: as `name`.
        collect_properties(|sink| unsafe { (table().node_properties)(self.raw(), sink) })
    }

    pub(crate) fn fail(&self, status: Status, message: &str) {
        // SAFETY: the object is alive and the text valid for the call.
        unsafe { (table().context_fail)(self.raw(), status.as_raw(), Str::new(message)) };
    }

    pub(crate) fn finish(&self) {
        // SAFETY: the object is alive and the text valid for the call.
        unsafe { (table().context_fail)(self.raw(), super::types::OK, Str::EMPTY) };
    }

    pub(crate) fn publish_address(&self, address: &str) -> Result<(), Status> {
        // SAFETY: the object is alive and the text valid for the call.
        Status::result_of(unsafe { (table().context_publish_address)(self.raw(), Str::new(address)) })
    }

    pub(crate) fn log_enabled(&self, level: u32, target: &str) -> bool {
        // SAFETY: the object is alive and the text valid for the call.
        unsafe { (table().log_enabled)(self.raw(), level, Str::new(target)) != 0 }
    }

    pub(crate) fn log(&self, level: u32, target: &str, message: &str, fields: &[(&str, &str)]) {
        let fields: Vec<Property> =
            fields.iter().map(|(key, value)| Property { key: Str::new(key), value: Str::new(value) }).collect();
        let (target, message) = (Str::new(target), Str::new(message));
        // SAFETY: the object is alive; the texts and the array are valid for the call.
        unsafe { (table().log)(self.raw(), level, target, message, fields.as_ptr(), fields.len()) };
    }

    /// Asks for a connection to a service; `f` gets it on `dispatcher`.
    pub(crate) fn connect<F>(
        &self,
        site: &'static CallSite,
        service: &str,
        dispatcher: &DispatcherObject,
        f: F,
    ) -> Result<(), (F, Status)>
    where
        F: FnOnce(Result<ChannelObject, Status>) + Send + 'static,
    {
        let service = Str::new(service);
        // SAFETY: all pointers are valid for the call; the callback is moved out only on success.
        give_connect(site, f, |callback| unsafe {
            (table().node_connect)(self.raw(), service, dispatcher.raw(), callback)
        })
    }
}

/// Runs `f` on this thread, marked as a stretch that may block.
///
/// # Errors
/// Gives `f` back if a dispatcher is current that does not allow sync calls (`BadState`).
pub(crate) fn blocking<R, F: FnOnce() -> R>(f: F) -> Result<R, (F, Status)> {
    struct Cell<F, R> {
        f: Option<F>,
        outcome: Option<std::thread::Result<R>>,
    }
    unsafe extern "C" fn call<R, F: FnOnce() -> R>(data: *mut c_void) {
        // SAFETY: `data` is the cell below, which the caller of the table function keeps alive.
        let cell = unsafe { &mut *data.cast::<Cell<F, R>>() };
        let f = cell.f.take().expect("the host runs a blocking stretch once");
        cell.outcome = Some(std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)));
    }
    let Some(table) = try_table() else { return Ok(f()) };
    let mut cell = Cell { f: Some(f), outcome: None };
    // SAFETY: the cell outlives the call, and `call` matches its type.
    let status = unsafe { (table.blocking)(call::<R, F>, (&raw mut cell).cast()) };
    match (Status::result_of(status), mem::take(&mut cell.f), cell.outcome) {
        (Err(status), Some(f), None) => Err((f, status)),
        (_, _, Some(Ok(value))) => Ok(value),
        // The panic goes on where it came from, on this side of the boundary.
        (_, _, Some(Err(payload))) => std::panic::resume_unwind(payload),
        (_, _, None) => unreachable!("the host either runs a blocking stretch or refuses it"),
    }
}
