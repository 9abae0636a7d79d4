//! `lib/fdf/testing.h` in a library that was built without it: a host, whose dispatchers are never run by hand.

use std::ffi::{c_char, c_void};

use fuchsine_dispatcher::Driver;

use crate::status::ZX_ERR_NOT_SUPPORTED;
use crate::types::{fdf_dispatcher_shutdown_observer_t, fdf_dispatcher_t, zx_status_t, zx_time_t};

pub(super) fn reset() {}

pub(super) fn driver_on(_thread: u32) -> Option<Driver> {
    None
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_testing_create_unmanaged_dispatcher(
    _driver: *const c_void,
    _options: u32,
    _name: *const c_char,
    _name_len: usize,
    _observer: *mut fdf_dispatcher_shutdown_observer_t,
    _out_dispatcher: *mut *mut fdf_dispatcher_t,
) -> zx_status_t {
    ZX_ERR_NOT_SUPPORTED
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_testing_set_default_dispatcher(_dispatcher: *mut fdf_dispatcher_t) -> zx_status_t {
    ZX_ERR_NOT_SUPPORTED
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_testing_run(_deadline: zx_time_t, _once: bool) -> zx_status_t {
    ZX_ERR_NOT_SUPPORTED
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_testing_run_until_idle() -> zx_status_t {
    ZX_ERR_NOT_SUPPORTED
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_testing_quit() {}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_testing_reset_quit() -> zx_status_t {
    ZX_ERR_NOT_SUPPORTED
}
