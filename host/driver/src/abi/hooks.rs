//! The hooks of a driver type as C functions, and the entry that names them.
//!
//! # Invariants
//! - An instance is an `Arc<D>` as a raw pointer. The host owns that one reference from the completion of `start` until
//!   it calls `stop` or `destroy`. `prepare_stop` adds one of its own, which is gone before its completion is called.
//! - A completion is called exactly once: by `HookEnd`, in its method or in its `Drop`.

use std::ffi::c_void;
use std::future::{Future, poll_fn};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::pin;
use std::ptr;
use std::sync::Arc;
use std::task::Poll;

use super::attach::attach;
use super::calls::{Completion, HookResult};
use super::closure::{caught, message_of, quietly};
use super::entry::DriverEntry;
use super::objects::{ContextObject, DispatcherObject};
use super::site::{self, CallSite};
use super::table::Table;
use super::types::{Header, OK, Panic, RawContext, RawDispatcher, Str};
use crate::driver::{Driver, Failure};
use crate::slot::Slot;
use crate::{DriverContext, Status};

impl DriverEntry {
    /// The entry of driver `D`, for the constant that every driver crate exposes.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_driver::{Driver, DriverContext, DriverEntry, StartError};
    ///
    /// pub struct Lamp;
    /// impl Driver for Lamp {
    ///     const NAME: &'static str = "lamp";
    ///     async fn start(_cx: DriverContext) -> Result<Self, StartError> {
    ///         Ok(Lamp)
    ///     }
    /// }
    ///
    /// pub const DRIVER: DriverEntry = DriverEntry::of::<Lamp>();
    /// assert_eq!(DRIVER.name(), "lamp");
    /// ```
    #[track_caller]
    pub const fn of<D: Driver>() -> DriverEntry {
        DriverEntry {
            header: Header::of::<DriverEntry>(),
            name: Str::new(D::NAME),
            version: Str::new(D::VERSION),
            doc: Str::new(D::DOC),
            config: D::CONFIG.as_ptr(),
            config_count: D::CONFIG.len(),
            bind: D::BIND.as_ptr().cast(),
            bind_count: D::BIND.len(),
            made_at: ptr::from_ref(Location::caller()).cast(),
            start: start::<D>,
            prepare_stop: prepare_stop::<D>,
            stop: stop::<D>,
            destroy: destroy::<D>,
        }
    }
}

/// Owns a completion and tells it the end of the hook.
struct HookEnd(Completion);

impl HookEnd {
    fn succeed(self, instance: *mut c_void) {
        ManuallyDrop::new(self).tell(OK, false, "", instance);
    }

    fn fail(self, failure: &Failure) {
        ManuallyDrop::new(self).tell(failure.status.as_raw(), failure.panicked, &failure.message, ptr::null_mut());
    }

    fn tell(&self, status: i32, panicked: bool, message: &str, instance: *mut c_void) {
        let result = HookResult { status, panicked: u32::from(panicked), message: Str::new(message), instance };
        // SAFETY: every path to here gives `self` up, so the completion is called once.
        unsafe { (self.0.done)(self.0.data, &raw const result) };
    }
}

impl Drop for HookEnd {
    fn drop(&mut self) {
        self.tell(Status::Canceled.as_raw(), false, "the hook was dropped before its end", ptr::null_mut());
    }
}

unsafe extern "C" fn start<D: Driver>(
    entry: *const DriverEntry,
    table: *const Table,
    context: *const RawContext,
    dispatcher: *const RawDispatcher,
    completion: Completion,
) {
    let end = HookEnd(completion);
    // SAFETY: the host keeps its table for ever.
    if let Err(message) = unsafe { attach(table) } {
        return end.fail(&Failure { status: Status::NotSupported, message, panicked: false });
    }
    // SAFETY: the host lends both for the call, and they belong to the table that is attached now.
    let (context, dispatcher) =
        unsafe { (ContextObject::from_borrowed(context), DispatcherObject::from_borrowed(dispatcher)) };
    // SAFETY: the host lends the entry for the call.
    let site = unsafe { site_of(entry, name_of(&D::start)) };
    run_hook(site, &dispatcher, async move {
        match caught_hook(async move { D::start(DriverContext::new(context)).await.map_err(Failure::from) }).await {
            Ok(driver) => end.succeed(Arc::into_raw(Arc::new(driver)).cast_mut().cast()),
            Err(failure) => end.fail(&failure),
        }
    });
}

unsafe extern "C" fn prepare_stop<D: Driver>(
    entry: *const DriverEntry,
    instance: *mut c_void,
    dispatcher: *const RawDispatcher,
    completion: Completion,
) {
    let end = HookEnd(completion);
    // SAFETY: the host lends the dispatcher for the call; the table is attached since `start`.
    let dispatcher = unsafe { DispatcherObject::from_borrowed(dispatcher) };
    // SAFETY: the host owns a reference, made by `start::<D>`.
    unsafe { Arc::increment_strong_count(instance.cast::<D>()) };
    // SAFETY: the reference was added just now.
    let driver = unsafe { Arc::from_raw(instance.cast::<D>()) };
    // SAFETY: the host lends the entry for the call.
    let site = unsafe { site_of(entry, name_of(&D::prepare_stop)) };
    run_hook(site, &dispatcher, async move {
        let hook = async move { driver.prepare_stop().await.map_err(Failure::from) };
        match caught_hook(hook).await {
            Ok(()) => end.succeed(ptr::null_mut()),
            Err(failure) => end.fail(&failure),
        }
    });
}

unsafe extern "C" fn stop<D: Driver>(
    entry: *const DriverEntry,
    instance: *mut c_void,
    dispatcher: *const RawDispatcher,
    completion: Completion,
) {
    let end = HookEnd(completion);
    // SAFETY: the host gives the reference of `start::<D>` back.
    let driver = unsafe { Arc::from_raw(instance.cast::<D>()) };
    // SAFETY: the host lends the dispatcher for the call; the table is attached since `start`.
    let dispatcher = unsafe { DispatcherObject::from_borrowed(dispatcher) };
    // SAFETY: the host lends the entry for the call.
    let site = unsafe { site_of(entry, name_of(&D::stop)) };
    run_hook(site, &dispatcher, async move {
        let hook = async move {
            let driver = Arc::into_inner(driver).ok_or_else(|| Failure {
                status: Status::BadState,
                message: String::from("stop was called while prepare_stop still runs"),
                panicked: false,
            })?;
            driver.stop().await.map_err(Failure::from)
        };
        match caught_hook(hook).await {
            Ok(()) => end.succeed(ptr::null_mut()),
            Err(failure) => end.fail(&failure),
        }
    });
}

unsafe extern "C" fn destroy<D: Driver>(instance: *mut c_void) -> *mut Panic {
    // SAFETY: the host gives the reference of `start::<D>` back.
    let driver = unsafe { Arc::from_raw(instance.cast::<D>()) };
    caught(move || drop(driver))
}

/// Spawns a hook. If the dispatcher refuses, the future is dropped, and with it the end of the hook is told.
fn run_hook(site: &'static CallSite, dispatcher: &DispatcherObject, hook: impl Future<Output = ()> + Send + 'static) {
    let refused = dispatcher.spawn_into(site, hook, Arc::new(Slot::new())).err();
    quietly(|| drop(refused));
}

/// The name of a function, as its type is called.
fn name_of<F>(_function: &F) -> &'static str {
    std::any::type_name::<F>()
}

/// Where a hook comes from: the line on which its entry was made.
///
/// # Safety
/// `entry` is valid for the call, and was made by [`DriverEntry::of`] in this image.
unsafe fn site_of(entry: *const DriverEntry, hook: &'static str) -> &'static CallSite {
    // SAFETY: the caller vouches for the pointer.
    let made_at = unsafe { (*entry).made_at };
    // SAFETY: `of` has put a location there that lives for ever, and this image has made it.
    site::at(unsafe { &*made_at.cast::<Location<'static>>() }, hook)
}

/// Polls `hook` with its panics caught. The future is gone when this returns.
async fn caught_hook<T>(hook: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let mut hook = pin!(hook);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| hook.as_mut().poll(cx))) {
        Ok(poll) => poll,
        Err(payload) => {
            Poll::Ready(Err(Failure { status: Status::Internal, message: message_of(payload), panicked: true }))
        }
    })
    .await
}
