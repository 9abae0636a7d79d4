//! Unmanaged dispatchers: `lib/fdf/testing.h`. No thread runs them but the test's own, in `fdf_testing_run`.
//!
//! They live in a foreground runtime beside the environment's, which waits on real descriptors and whose clock is set to
//! the real time at every look. It has no threads, so the process still has one pool. A driver may have dispatchers in both.

use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fuchsine_dispatcher::testing::{ForegroundRuntime, set_default_dispatcher};
use fuchsine_dispatcher::{Driver, Instant, RuntimeBuilder, Status};
use parking_lot::Mutex;

use super::dispatcher::Plan;
use super::drivers::DriverKey;
use super::env::{self, Environment};
use super::faces::{self, Face, Kind};
use super::task::{to_instant, to_time};
use crate::status::{ZX_ERR_BAD_STATE, ZX_ERR_CANCELED, ZX_ERR_INVALID_ARGS, ZX_ERR_TIMED_OUT, ZX_OK, code};
use crate::types::{fdf_dispatcher_shutdown_observer_t, fdf_dispatcher_t, zx_status_t, zx_time_t};

/// How long a run sleeps that has nothing to do before it looks again.
const NAP: Duration = Duration::from_micros(300);

static FOREGROUND: Mutex<Option<Arc<ForegroundRuntime>>> = Mutex::new(None);
/// Held while somebody runs unmanaged work.
static CRANK: Mutex<()> = Mutex::new(());
/// A quit from before there was anything to quit.
static HAS_QUIT: AtomicBool = AtomicBool::new(false);

fn real_now() -> Instant {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::from_nanos(now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned())
}

fn foreground() -> Option<Arc<ForegroundRuntime>> {
    FOREGROUND.lock().clone()
}

fn foreground_or_new() -> Result<Arc<ForegroundRuntime>, Status> {
    let mut foreground = FOREGROUND.lock();
    if let Some(there) = &*foreground {
        return Ok(Arc::clone(there));
    }
    let made = Arc::new(ForegroundRuntime::with_real_descriptors(RuntimeBuilder::new().name("unmanaged"))?);
    made.run_until(real_now());
    if HAS_QUIT.load(Ordering::Relaxed) {
        made.quit();
    }
    *foreground = Some(Arc::clone(&made));
    Ok(made)
}

/// The environment ends.
pub(super) fn reset() {
    if let Some(foreground) = FOREGROUND.lock().take()
        && foreground.shutdown().is_err()
    {
        super::die("fdf_env_reset", "unmanaged work blocks and does not come to its end");
    }
    HAS_QUIT.store(false, Ordering::Relaxed);
}

pub(super) fn driver_on(thread: u32) -> Option<Driver> {
    foreground()?.driver_on_os_thread(thread)
}

/// # Safety
/// The name can be read as far as its length says; `observer` is null, or is kept until its handler has run;
/// `out_dispatcher` is null or can be written.
pub(crate) unsafe fn fdf_testing_create_unmanaged_dispatcher(
    driver: *const c_void,
    options: u32,
    name: *const c_char,
    name_len: usize,
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
    let plan = match unsafe { Plan::new(options, (name, name_len), (std::ptr::null(), 0)) } {
        Ok(plan) => plan,
        Err(status) => return status,
    };
    if env::runtime().is_none() {
        return ZX_ERR_BAD_STATE;
    }
    let foreground = match foreground_or_new() {
        Ok(foreground) => foreground,
        Err(status) => return status.as_raw(),
    };
    let begun = env::with(|environment| {
        let Environment { runtime, drivers, .. } = environment;
        drivers.begin_unmanaged(key, runtime, &foreground)
    });
    let Some(Ok(driver)) = begun else { return ZX_ERR_BAD_STATE };
    // SAFETY: as this function.
    match unsafe { env::make(&driver, Some(key), Kind::Unmanaged, plan, observer) } {
        Ok(face) => {
            // SAFETY: not null, by the look above.
            unsafe { *out_dispatcher = face.as_fdf() };
            ZX_OK
        }
        Err(status) => status,
    }
}

/// # Safety
/// `dispatcher` is null or one that C was given.
pub(crate) unsafe fn fdf_testing_set_default_dispatcher(dispatcher: *mut fdf_dispatcher_t) -> zx_status_t {
    if dispatcher.is_null() {
        return code(set_default_dispatcher(None));
    }
    // SAFETY: as this function.
    let face = unsafe { Face::of("fdf_testing_set_default_dispatcher", dispatcher) };
    code(set_default_dispatcher(Some(&face.handle())))
}

/// Whether an unmanaged dispatcher is left that has not shut down.
fn is_anything_left() -> bool {
    faces::owned().iter().any(|record| {
        // SAFETY: C destroys none while another thread runs its work.
        let record = unsafe { &*record.get() };
        record.is_unmanaged() && !record.has_shut_down()
    })
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_testing_run(deadline: zx_time_t, once: bool) -> zx_status_t {
    let Some(foreground) = foreground() else { return ZX_ERR_BAD_STATE };
    // Taken when a callback of the run, or another thread, comes here.
    let Some(_crank) = CRANK.try_lock() else { return ZX_ERR_BAD_STATE };
    let deadline = to_instant(deadline);
    loop {
        if !is_anything_left() {
            return ZX_ERR_BAD_STATE;
        }
        let now = real_now();
        let ran = if once { foreground.run_one_until(now) } else { foreground.run(now) };
        match ran {
            Ok(()) if once => return ZX_OK,
            Err(Status::Canceled) => return ZX_ERR_CANCELED,
            Err(Status::BadState) => return ZX_ERR_BAD_STATE,
            Ok(()) | Err(_) => {}
        }
        if to_time(now) >= to_time(deadline) {
            return ZX_ERR_TIMED_OUT;
        }
        std::thread::sleep(NAP.min(deadline.duration_since(now)));
    }
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_testing_run_until_idle() -> zx_status_t {
    let Some(foreground) = foreground() else { return ZX_ERR_BAD_STATE };
    let Some(_crank) = CRANK.try_lock() else { return ZX_ERR_BAD_STATE };
    if !is_anything_left() {
        return ZX_ERR_BAD_STATE;
    }
    match foreground.run(real_now()) {
        Err(Status::Canceled) => ZX_ERR_CANCELED,
        Err(Status::BadState) => ZX_ERR_BAD_STATE,
        Ok(()) | Err(_) => ZX_OK,
    }
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_testing_quit() {
    HAS_QUIT.store(true, Ordering::Relaxed);
    if let Some(foreground) = foreground() {
        foreground.quit();
    }
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_testing_reset_quit() -> zx_status_t {
    let Some(_crank) = CRANK.try_lock() else { return ZX_ERR_BAD_STATE };
    HAS_QUIT.store(false, Ordering::Relaxed);
    foreground().map_or(ZX_OK, |foreground| code(foreground.reset_quit()))
}
