//! Suspend and resume of drivers, and what wakes a suspended one.

use std::ffi::c_void;

use fuchsine_dispatcher::{Interest, Status};

use super::drivers::DriverKey;
use super::env::{self, Environment};
use super::faces::Face;
use super::{Foreign, handles};
use crate::status::{ZX_ERR_BAD_STATE, ZX_OK};
use crate::types::{
    ZX_SIGNAL_NONE, fdf_dispatcher_t, fdf_env_resume_requester_t, fdf_env_suspend_completer_t, zx_handle_t,
    zx_signals_t, zx_status_t,
};

/// # Safety
/// `dispatcher` is one that C was given.
pub(crate) unsafe fn fdf_dispatcher_get_always_on_dispatcher(
    dispatcher: *mut fdf_dispatcher_t,
) -> *mut fdf_dispatcher_t {
    // SAFETY: as this function.
    unsafe { Face::of("fdf_dispatcher_get_always_on_dispatcher", dispatcher) }.record().always_on().as_fdf()
}

/// # Safety
/// `dispatcher` is one that C was given.
pub(crate) unsafe fn fdf_dispatcher_register_wake_vector(
    dispatcher: *mut fdf_dispatcher_t,
    handle: zx_handle_t,
    signals: zx_signals_t,
) -> zx_status_t {
    // SAFETY: as this function.
    let face = unsafe { Face::of("fdf_dispatcher_register_wake_vector", dispatcher) };
    let driver = face.handle().owner();
    if driver.is_suspended() {
        return ZX_ERR_BAD_STATE;
    }
    let sources = match handles::observe(handle).and_then(|object| object.sources(signals)) {
        Ok(sources) => sources,
        Err(status) => return status,
    };
    let mut registered = Vec::new();
    for (source, interest) in sources {
        match driver.register_wake_vector(&source, interest) {
            Ok(vector) => registered.push(vector),
            // Those before are taken back.
            Err(error) => return error.status().as_raw(),
        }
    }
    registered.into_iter().for_each(|vector| vector.keep());
    ZX_OK
}

/// # Safety
/// `dispatcher` is one that C was given.
pub(crate) unsafe fn fdf_dispatcher_unregister_wake_vector(
    dispatcher: *mut fdf_dispatcher_t,
    handle: zx_handle_t,
    signals: zx_signals_t,
) -> zx_status_t {
    // SAFETY: as this function.
    let face = unsafe { Face::of("fdf_dispatcher_unregister_wake_vector", dispatcher) };
    let driver = face.handle().owner();
    let every = signals == ZX_SIGNAL_NONE;
    let wanted = if every { !ZX_SIGNAL_NONE } else { signals };
    let sources = match handles::observe(handle).and_then(|object| object.sources(wanted)) {
        Ok(sources) => sources,
        Err(status) => return status,
    };
    let mut found = false;
    for (source, interest) in sources {
        let interest = if every { Interest::READABLE | Interest::WRITABLE } else { interest };
        found |= driver.unregister_wake_vector(&source, interest).is_ok();
    }
    if found { ZX_OK } else { Status::NotFound.as_raw() }
}

/// # Safety
/// `requester` is null, or is kept for as long as it is registered.
pub(crate) unsafe fn fdf_env_register_resume_requester(
    driver: *const c_void,
    requester: *mut fdf_env_resume_requester_t,
) {
    let Some(key) = DriverKey::new(driver) else { return };
    let found = env::with(|environment| {
        let Environment { runtime, drivers, .. } = environment;
        drivers.get_or_new(key, runtime)
    });
    let Some(driver) = found else { return };
    if requester.is_null() {
        driver.clear_resume_requester();
        return;
    }
    let requester = Foreign::new(requester);
    driver.set_resume_requester(move |_| {
        // SAFETY: C keeps it for as long as it is registered.
        let Some(handler) = (unsafe { (*requester.get()).handler }) else { return };
        // SAFETY: called as the header says.
        let status = unsafe { handler(requester.get()) };
        if status != ZX_OK {
            tracing::warn!(status, "the resume requester could not ask for a resume");
        }
    });
}

/// # Safety
/// `completer` is null, or is kept until its handler has run.
pub(crate) unsafe fn fdf_env_driver_suspend(driver: *const c_void, completer: *mut fdf_env_suspend_completer_t) {
    let completer = Foreign::new(completer);
    let complete = move |_: Result<(), _>| {
        if completer.get().is_null() {
            return;
        }
        // SAFETY: C keeps it until its handler has run.
        if let Some(handler) = unsafe { (*completer.get()).handler } {
            // SAFETY: called as the header says; nothing on this side is used afterwards.
            unsafe { handler(completer.get()) };
        }
    };
    let known = DriverKey::new(driver).and_then(|key| env::with(|environment| environment.drivers.get(key)).flatten());
    match known {
        // A driver without dispatchers stands still already.
        None => complete(Ok(())),
        Some(driver) => {
            if let Err(refused) = driver.suspend(complete) {
                tracing::debug!(status = %refused.status(), "there is nothing to suspend");
                (refused.into_completer())(Ok(()));
            }
        }
    }
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_env_driver_resume(driver: *const c_void) {
    let known = DriverKey::new(driver).and_then(|key| env::with(|environment| environment.drivers.get(key)).flatten());
    if let Some(driver) = known {
        driver.resume();
    }
}
