//! Dispatchers: `lib/fdf/dispatcher.h`.

use std::ffi::c_char;

use fuchsine_dispatcher::{DispatcherBuilder, Status, current_driver};

use super::env::{self, Environment};
use super::faces::{self, Face, Kind};
use super::text::text;
use super::{die, drivers};
use crate::status::{ZX_ERR_BAD_STATE, ZX_ERR_INVALID_ARGS, ZX_ERR_NOT_SUPPORTED, ZX_OK, code};
use crate::types::{
    FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS, FDF_DISPATCHER_OPTION_NO_THREAD_MIGRATION,
    FDF_DISPATCHER_OPTION_UNSYNCHRONIZED, async_dispatcher_t, fdf_dispatcher_shutdown_observer_t, fdf_dispatcher_t,
    zx_status_t,
};

const ALL_OPTIONS: u32 = FDF_DISPATCHER_OPTION_UNSYNCHRONIZED
    | FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS
    | FDF_DISPATCHER_OPTION_NO_THREAD_MIGRATION;

/// A dispatcher as C wants it.
pub(crate) struct Plan {
    pub(crate) options: u32,
    pub(crate) builder: DispatcherBuilder,
}

impl Plan {
    /// # Errors
    /// `ZX_ERR_INVALID_ARGS` for options that do not exist and for names that cannot be read; `ZX_ERR_NOT_SUPPORTED` for
    /// a dispatcher without thread migration of a role that may make sync calls, as everywhere in fdf.
    ///
    /// # Safety
    /// The names are null, or can be read as far as their lengths say.
    pub(crate) unsafe fn new(
        options: u32,
        name: (*const c_char, usize),
        scheduler_role: (*const c_char, usize),
    ) -> Result<Plan, zx_status_t> {
        if options & !ALL_OPTIONS != 0 {
            return Err(ZX_ERR_INVALID_ARGS);
        }
        // SAFETY: as this function.
        let name = unsafe { text(name.0, name.1) }?;
        // SAFETY: as this function.
        let role = unsafe { text(scheduler_role.0, scheduler_role.1) }?;
        let mut builder = DispatcherBuilder::new().name(name);
        if options & FDF_DISPATCHER_OPTION_UNSYNCHRONIZED != 0 {
            builder = builder.unsynchronized();
        }
        if options & FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS != 0 {
            builder = builder.allow_sync_calls();
        }
        if options & FDF_DISPATCHER_OPTION_NO_THREAD_MIGRATION != 0 {
            if !env::runtime().is_some_and(|runtime| runtime.role(&*role).no_sync_calls()) {
                return Err(ZX_ERR_NOT_SUPPORTED);
            }
            builder = builder.no_thread_migration();
        }
        Ok(Plan { options, builder: builder.scheduler_role(role) })
    }
}

/// # Safety
/// The names can be read as far as their lengths say; `observer` is kept until its handler has run; `out_dispatcher` is
/// null or can be written.
pub(crate) unsafe fn fdf_dispatcher_create(
    options: u32,
    name: *const c_char,
    name_len: usize,
    scheduler_role: *const c_char,
    scheduler_role_len: usize,
    observer: *mut fdf_dispatcher_shutdown_observer_t,
    out_dispatcher: *mut *mut fdf_dispatcher_t,
) -> zx_status_t {
    // SAFETY: not null, so alive, by the contract of this function.
    let has_observer = !observer.is_null() && unsafe { (*observer).handler.is_some() };
    let Some(current) = current_driver().filter(|_| has_observer && !out_dispatcher.is_null()) else {
        return ZX_ERR_INVALID_ARGS;
    };
    // SAFETY: readable, by the contract of this function.
    let plan = match unsafe { Plan::new(options, (name, name_len), (scheduler_role, scheduler_role_len)) } {
        Ok(plan) => plan,
        Err(status) => return status,
    };
    let begun = env::with(|environment| {
        let Environment { runtime, drivers, .. } = environment;
        match drivers.key_of(&current) {
            Some(key) => drivers.begin_dispatcher(key, runtime).map(|driver| (driver, Some(key))),
            // A driver of the host, which counts its dispatchers itself.
            None => Ok((current.clone(), None)),
        }
    });
    let (driver, owner) = match begun {
        Some(Ok(begun)) => begun,
        Some(Err(drivers::Refused::ShuttingDown | drivers::Refused::Unknown)) | None => return ZX_ERR_BAD_STATE,
    };
    // SAFETY: as this function.
    match unsafe { env::make(&driver, owner, Kind::Managed, plan, observer) } {
        Ok(face) => {
            // SAFETY: not null, by the look above.
            unsafe { *out_dispatcher = face.as_fdf() };
            ZX_OK
        }
        Err(status) => status,
    }
}

/// # Safety
/// `dispatcher` is one that C was given.
pub(crate) unsafe fn fdf_dispatcher_get_async_dispatcher(dispatcher: *mut fdf_dispatcher_t) -> *mut async_dispatcher_t {
    // SAFETY: as this function.
    unsafe { Face::of("fdf_dispatcher_get_async_dispatcher", dispatcher) }.as_async()
}

/// # Safety
/// `async_dispatcher` is null or an async dispatcher of anybody.
pub(crate) unsafe fn fdf_dispatcher_downcast_async_dispatcher(
    async_dispatcher: *mut async_dispatcher_t,
) -> *mut fdf_dispatcher_t {
    const NAME: &str = "fdf_dispatcher_downcast_async_dispatcher";
    // SAFETY: a foreign one is told by its table of functions, before anything behind that is read.
    unsafe { Face::of_async(NAME, async_dispatcher) }.as_fdf()
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_dispatcher_get_current_dispatcher() -> *mut fdf_dispatcher_t {
    faces::current_face().map_or(std::ptr::null_mut(), Face::as_fdf)
}

/// # Safety
/// `dispatcher` is one that C was given.
pub(crate) unsafe fn fdf_dispatcher_get_options(dispatcher: *const fdf_dispatcher_t) -> u32 {
    // SAFETY: as this function.
    unsafe { Face::of("fdf_dispatcher_get_options", dispatcher) }.record().options
}

/// # Safety
/// `dispatcher` is one that C was given.
pub(crate) unsafe fn fdf_dispatcher_shutdown_async(dispatcher: *mut fdf_dispatcher_t) {
    // SAFETY: as this function.
    unsafe { Face::of("fdf_dispatcher_shutdown_async", dispatcher) }.handle().shutdown_async();
}

/// # Safety
/// `dispatcher` is one that C was given, and is not used afterwards.
pub(crate) unsafe fn fdf_dispatcher_destroy(dispatcher: *mut fdf_dispatcher_t) {
    const NAME: &str = "fdf_dispatcher_destroy";
    // SAFETY: as this function.
    let record = unsafe { Face::of(NAME, dispatcher) }.record();
    if !record.is_owned() {
        die(NAME, "the dispatcher belongs to the host");
    }
    if !record.has_shut_down() {
        die(NAME, "the dispatcher has not shut down: its shutdown observer has to be called before");
    }
    // SAFETY: as this function; it has shut down.
    unsafe { env::destroy(record) };
}

/// # Safety
/// `dispatcher` is one that C was given.
pub(crate) unsafe fn fdf_dispatcher_seal(dispatcher: *mut fdf_dispatcher_t, option: u32) -> zx_status_t {
    // SAFETY: as this function.
    let face = unsafe { Face::of("fdf_dispatcher_seal", dispatcher) };
    if option != FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS {
        return Status::InvalidArgs.as_raw();
    }
    code(face.handle().seal_allow_sync_calls())
}
