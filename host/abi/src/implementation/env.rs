//! The environment: the runtime of this process, and who may do what with it.
//!
//! A program without a host starts it and resets it. Under a host it is the host's runtime from the beginning, and neither
//! is for the modules to call: a process never has two pools.

use std::ffi::{c_char, c_void};

use fuchsine_dispatcher::{Driver, Runtime, RuntimeBuilder, Status, current_driver};
use parking_lot::Mutex;

use super::drivers::{DriverKey, Drivers, Refused};
use super::faces::{Draft, Face, Kind, Record};
use super::{Foreign, PATIENCE, die, dispatcher, faces};
use crate::status::{ZX_ERR_BAD_STATE, ZX_ERR_INVALID_ARGS, ZX_ERR_NOT_FOUND, ZX_OK};
use crate::types::{
    FDF_ENV_DYNAMIC_THREAD_SPAWNING, FDF_ENV_ENFORCE_ALLOWED_SCHEDULER_ROLES, fdf_dispatcher_shutdown_observer_t,
    fdf_dispatcher_t, fdf_env_driver_shutdown_observer_t, fdf_env_stall_scanner_t, zx_duration_mono_t, zx_koid_t,
    zx_status_t,
};

pub(crate) struct Environment {
    pub(crate) runtime: Runtime,
    is_hosted: bool,
    pub(crate) drivers: Drivers,
}

static ENVIRONMENT: Mutex<Option<Environment>> = Mutex::new(None);
/// Held while the environment starts or ends, so that one that ends is over before the next begins.
static CHANGING: Mutex<()> = Mutex::new(());

/// The environment, for a moment: nothing that calls code of others is done inside.
pub(crate) fn with<R>(look: impl FnOnce(&mut Environment) -> R) -> Option<R> {
    ENVIRONMENT.lock().as_mut().map(look)
}

/// Whether the runtime is that of a host.
pub(crate) fn is_hosted() -> bool {
    with(|environment| environment.is_hosted).unwrap_or(false)
}

/// The runtime, if there is one.
pub(crate) fn runtime() -> Option<Runtime> {
    with(|environment| environment.runtime.clone())
}

/// Makes the runtime of a host that of the environment; of several hosts, that of the latest.
pub(crate) fn host(runtime: &Runtime) -> Result<(), Status> {
    let _one_at_a_time = CHANGING.lock();
    let mut environment = ENVIRONMENT.lock();
    let before = match &mut *environment {
        Some(environment) if !environment.is_hosted => return Err(Status::BadState),
        Some(environment) => Some(std::mem::replace(&mut environment.runtime, runtime.clone())),
        none => {
            *none = Some(Environment { runtime: runtime.clone(), is_hosted: true, drivers: Drivers::default() });
            None
        }
    };
    drop(environment);
    drop(before);
    Ok(())
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_env_start(options: u32) -> zx_status_t {
    let _one_at_a_time = CHANGING.lock();
    if ENVIRONMENT.lock().is_some() {
        return ZX_ERR_BAD_STATE;
    }
    if options & !(FDF_ENV_ENFORCE_ALLOWED_SCHEDULER_ROLES | FDF_ENV_DYNAMIC_THREAD_SPAWNING) != 0 {
        return ZX_ERR_INVALID_ARGS;
    }
    let mut builder = RuntimeBuilder::new().name("fdf");
    if options & FDF_ENV_ENFORCE_ALLOWED_SCHEDULER_ROLES != 0 {
        builder = builder.enforce_allowed_roles();
    }
    if options & FDF_ENV_DYNAMIC_THREAD_SPAWNING != 0 {
        builder = builder.dynamic_threads();
    }
    match builder.build() {
        Ok(runtime) => {
            *ENVIRONMENT.lock() = Some(Environment { runtime, is_hosted: false, drivers: Drivers::default() });
            ZX_OK
        }
        Err(error) => {
            tracing::error!(%error, "the environment was not started");
            error.status().as_raw()
        }
    }
}

/// Refuses what only the host of this process may do, and nobody on a thread that is inside of a driver.
fn only_for_a_host(function: &str) -> bool {
    if is_hosted() {
        tracing::error!(function, "a module must not end the environment of its host; nothing was done");
        return false;
    }
    if current_driver().is_some() {
        die(function, "this thread is inside of a driver, which would wait for itself");
    }
    true
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_env_reset() {
    const NAME: &str = "fdf_env_reset";
    if !only_for_a_host(NAME) {
        return;
    }
    let _one_at_a_time = CHANGING.lock();
    if !faces::owned().is_empty() {
        die(NAME, "there are dispatchers left; shut them down, then call fdf_env_destroy_all_dispatchers");
    }
    super::testing::reset();
    let Some(environment) = ENVIRONMENT.lock().take() else { return };
    if let Err(error) = environment.runtime.shutdown(PATIENCE) {
        die(NAME, &error.to_string());
    }
}

/// Makes a dispatcher of a driver that is counted already.
///
/// # Safety
/// As [`fdf_env_dispatcher_create_with_owner`].
pub(crate) unsafe fn make(
    driver: &Driver,
    owner: Option<DriverKey>,
    kind: Kind,
    plan: dispatcher::Plan,
    observer: *mut fdf_dispatcher_shutdown_observer_t,
) -> Result<&'static Face, zx_status_t> {
    let draft = Draft::new(plan.options, owner, kind);
    let builder = plan.builder.shutdown_observer(draft.observer(observer));
    match driver.new_dispatcher(builder) {
        Ok(made) => Ok(draft.finish(made.release())),
        Err(error) => {
            tracing::debug!(%error);
            draft.discard();
            if let Some(key) = owner {
                with(|environment| environment.drivers.end_dispatcher(key));
            }
            Err(error.status().as_raw())
        }
    }
}

/// # Safety
/// The names can be read as far as their lengths say; `observer` is null, or is kept until its handler has run;
/// `out_dispatcher` is null or can be written.
#[allow(clippy::too_many_arguments, reason = "they are those of the header")]
pub(crate) unsafe fn fdf_env_dispatcher_create_with_owner(
    driver: *const c_void,
    options: u32,
    name: *const c_char,
    name_len: usize,
    scheduler_role: *const c_char,
    scheduler_role_len: usize,
    observer: *mut fdf_dispatcher_shutdown_observer_t,
    out_dispatcher: *mut *mut fdf_dispatcher_t,
) -> zx_status_t {
    let Some(key) = DriverKey::new(driver) else { return ZX_ERR_INVALID_ARGS };
    // SAFETY: null, or alive, by the contract of this function.
    let has_handler = observer.is_null() || unsafe { (*observer).handler.is_some() };
    if out_dispatcher.is_null() || !has_handler {
        return ZX_ERR_INVALID_ARGS;
    }
    // SAFETY: readable, by the contract of this function.
    let plan = unsafe { dispatcher::Plan::new(options, (name, name_len), (scheduler_role, scheduler_role_len)) };
    let plan = match plan {
        Ok(plan) => plan,
        Err(status) => return status,
    };
    let begun = with(|environment| {
        let Environment { runtime, drivers, .. } = environment;
        drivers.begin_dispatcher(key, runtime)
    });
    let Some(Ok(driver)) = begun else { return ZX_ERR_BAD_STATE };
    // SAFETY: as this function.
    match unsafe { make(&driver, Some(key), Kind::Managed, plan, observer) } {
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
pub(crate) unsafe fn fdf_env_dispatcher_dump(dispatcher: *mut fdf_dispatcher_t) {
    // SAFETY: as this function.
    let face = unsafe { Face::of("fdf_env_dispatcher_dump", dispatcher) };
    let text = face.handle().dump().to_string();
    if tracing::dispatcher::has_been_set() {
        tracing::info!("{text}");
    } else {
        eprintln!("{text}");
    }
}

/// # Safety
/// `dispatcher` is one that C was given; `out_dump` is null or can be written.
pub(crate) unsafe fn fdf_env_dispatcher_get_dump_deprecated(
    dispatcher: *mut fdf_dispatcher_t,
    out_dump: *mut *mut c_char,
) {
    // SAFETY: as this function.
    let face = unsafe { Face::of("fdf_env_dispatcher_get_dump_deprecated", dispatcher) };
    if out_dump.is_null() {
        return;
    }
    let text = face.handle().dump().to_string().replace('\0', " ");
    // SAFETY: a request for memory; C frees it.
    let copy = unsafe { libc::malloc(text.len() + 1) }.cast::<u8>();
    if !copy.is_null() {
        // SAFETY: there is room for the text and a zero.
        unsafe { copy.copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        // SAFETY: as above.
        unsafe { copy.add(text.len()).write(0) };
    }
    // SAFETY: not null, by the look above.
    unsafe { *out_dump = copy.cast() };
}

/// # Safety
/// `observer` is null, or is kept until its handler has run.
pub(crate) unsafe fn fdf_env_shutdown_dispatchers_async(
    driver: *const c_void,
    observer: *mut fdf_env_driver_shutdown_observer_t,
) -> zx_status_t {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let Some(key) = DriverKey::new(driver) else { return ZX_ERR_INVALID_ARGS };
    let drivers = match with(|environment| environment.drivers.begin_shutdown(key)) {
        Some(Ok(drivers)) => drivers,
        Some(Err(Refused::Unknown)) | None => return ZX_ERR_INVALID_ARGS,
        Some(Err(Refused::ShuttingDown)) => return ZX_ERR_BAD_STATE,
    };
    let observer = Foreign::new(observer);
    let remaining = Arc::new(AtomicUsize::new(drivers.len()));
    for driver in &drivers {
        let remaining = Arc::clone(&remaining);
        let end = move || {
            // ORDERING: AcqRel, each pairs with the others: the last one sees that all is over.
            if remaining.fetch_sub(1, Ordering::AcqRel) > 1 {
                return;
            }
            with(|environment| environment.drivers.end_shutdown(key));
            if observer.get().is_null() {
                return;
            }
            // SAFETY: C keeps the observer until its handler has run.
            if let Some(handler) = unsafe { (*observer.get()).handler } {
                // SAFETY: called as the header says; nothing on this side is used afterwards.
                unsafe { handler(key.as_pointer(), observer.get()) };
            }
        };
        if let Err(refused) = driver.shutdown(end) {
            // Only a panic on this side begins a shutdown that C has not asked for. Who joins it late is told all the same.
            if let Err(over) = driver.observe_shutdown(refused.into_observer()) {
                (over.into_observer())();
            }
        }
    }
    ZX_OK
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_env_destroy_all_dispatchers() {
    const NAME: &str = "fdf_env_destroy_all_dispatchers";
    if !only_for_a_host(NAME) {
        return;
    }
    let records = faces::owned();
    // SAFETY: C destroys nothing beside this call, so that those that were there still are.
    if records.iter().any(|record| !unsafe { &*record.get() }.has_shut_down()) {
        die(
            NAME,
            "a dispatcher has not been shut down; fdf_env_shutdown_dispatchers_async and its observer come before",
        );
    }
    // The observers of those have begun; they return.
    wait_until_destroyed(NAME);
    for record in records {
        // SAFETY: as above; nothing of the dispatcher runs any more.
        unsafe { destroy(record.get()) };
    }
}

/// Frees a dispatcher of C's and counts it out.
///
/// # Safety
/// The record is one of [`make`], has shut down, and is not used by C any more.
pub(crate) unsafe fn destroy(record: *const Record) {
    // SAFETY: as this function.
    let owner = unsafe { &*record }.owner;
    // SAFETY: as this function.
    unsafe { Record::free(record) };
    if let Some(key) = owner {
        with(|environment| environment.drivers.end_dispatcher(key));
    }
}

/// # Safety
/// `driver` is a name and never followed.
pub(crate) unsafe fn fdf_env_register_driver_entry(driver: *const c_void) {
    const NAME: &str = "fdf_env_register_driver_entry";
    let Some(key) = DriverKey::new(driver) else { die(NAME, "the driver is NULL") };
    let entered = with(|environment| {
        let Environment { runtime, drivers, .. } = environment;
        drivers.get_or_new(key, runtime)
    });
    match entered {
        Some(driver) => driver.register_entry(),
        None => die(NAME, "the environment has not been started"),
    }
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_env_register_driver_exit() {
    if Driver::register_exit().is_err() {
        die("fdf_env_register_driver_exit", "no entry of this thread was registered last; each exit follows its entry");
    }
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_env_get_current_driver() -> *const c_void {
    let key = current_driver().and_then(|driver| with(|environment| environment.drivers.key_of(&driver)).flatten());
    key.map_or(std::ptr::null(), DriverKey::as_pointer)
}

/// # Safety
/// `dispatcher` is one that C was given.
pub(crate) unsafe fn fdf_env_dispatcher_has_queued_tasks(dispatcher: *mut fdf_dispatcher_t) -> bool {
    // SAFETY: as this function.
    unsafe { Face::of("fdf_env_dispatcher_has_queued_tasks", dispatcher) }.handle().has_queued_tasks()
}

/// # Safety
/// `out_driver` is null or can be written.
pub(crate) unsafe fn fdf_env_get_driver_on_tid(tid: zx_koid_t, out_driver: *mut *const c_void) -> zx_status_t {
    if out_driver.is_null() {
        return ZX_ERR_INVALID_ARGS;
    }
    let (Ok(thread), Some(runtime)) = (u32::try_from(tid), runtime()) else { return ZX_ERR_NOT_FOUND };
    let driver = runtime.driver_on_os_thread(thread).or_else(|| super::testing::driver_on(thread));
    let key = driver.and_then(|driver| with(|environment| environment.drivers.key_of(&driver)).flatten());
    let Some(key) = key else { return ZX_ERR_NOT_FOUND };
    // SAFETY: not null, by the look above.
    unsafe { *out_driver = key.as_pointer() };
    ZX_OK
}

/// The runtime watches its threads by itself: there is nothing to scan for.
///
/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_env_scan_threads_for_stalls() {}

/// As above, and no scan needs to follow.
///
/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_env_scan_threads_for_stalls2() -> zx_duration_mono_t {
    0
}

/// As above: no scan is ever asked for.
///
/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_env_register_stall_scanner(_scanner: *mut fdf_env_stall_scanner_t) {}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_internal_wait_until_all_dispatchers_idle() {
    const NAME: &str = "fdf_internal_wait_until_all_dispatchers_idle";
    if let Some(runtime) = runtime()
        && let Err(error) = runtime.wait_until_idle(PATIENCE)
    {
        die(NAME, &error.to_string());
    }
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_internal_wait_until_all_dispatchers_destroyed() {
    wait_until_destroyed("fdf_internal_wait_until_all_dispatchers_destroyed");
}

fn wait_until_destroyed(function: &str) {
    if let Some(runtime) = runtime()
        && let Err(error) = runtime.wait_until_destroyed(PATIENCE)
    {
        die(function, &error.to_string());
    }
}
