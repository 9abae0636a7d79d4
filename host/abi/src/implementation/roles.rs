//! Scheduler roles: their limits, their options, and who may use them.

use std::ffi::{c_char, c_void};

use fuchsine_dispatcher::Role;

use super::drivers::DriverKey;
use super::env::{self, Environment};
use super::text::text;
use crate::status::{ZX_ERR_BAD_STATE, ZX_ERR_INVALID_ARGS, code};
use crate::types::{FDF_SCHEDULER_ROLE_OPTION_NO_SYNC_CALLS, zx_status_t};

/// # Safety
/// As [`text`].
unsafe fn role(name: *const c_char, len: usize) -> Result<Role, zx_status_t> {
    // SAFETY: as this function.
    let name = unsafe { text(name, len) }?;
    env::runtime().map(|runtime| runtime.role(name)).ok_or(ZX_ERR_BAD_STATE)
}

/// # Safety
/// The name can be read as far as its length says.
pub(crate) unsafe fn fdf_env_get_thread_limit(scheduler_role: *const c_char, scheduler_role_len: usize) -> u32 {
    // SAFETY: as this function.
    let role = unsafe { role(scheduler_role, scheduler_role_len) };
    role.map_or(0, |role| u32::try_from(role.thread_limit()).unwrap_or(u32::MAX))
}

/// # Safety
/// The name can be read as far as its length says.
pub(crate) unsafe fn fdf_env_set_thread_limit(
    scheduler_role: *const c_char,
    scheduler_role_len: usize,
    max_threads: u32,
) -> zx_status_t {
    // SAFETY: as this function.
    match unsafe { role(scheduler_role, scheduler_role_len) } {
        Ok(role) => code(role.set_thread_limit(max_threads as usize)),
        Err(status) => status,
    }
}

/// # Safety
/// The name can be read as far as its length says.
pub(crate) unsafe fn fdf_env_get_scheduler_role_opts(scheduler_role: *const c_char, scheduler_role_len: usize) -> u32 {
    // SAFETY: as this function.
    let role = unsafe { role(scheduler_role, scheduler_role_len) };
    if role.is_ok_and(|role| role.no_sync_calls()) { FDF_SCHEDULER_ROLE_OPTION_NO_SYNC_CALLS } else { 0 }
}

/// # Safety
/// The name can be read as far as its length says.
pub(crate) unsafe fn fdf_env_set_scheduler_role_opts(
    scheduler_role: *const c_char,
    scheduler_role_len: usize,
    options: u32,
) -> zx_status_t {
    if options & !FDF_SCHEDULER_ROLE_OPTION_NO_SYNC_CALLS != 0 {
        return ZX_ERR_INVALID_ARGS;
    }
    // SAFETY: as this function.
    match unsafe { role(scheduler_role, scheduler_role_len) } {
        Ok(role) => code(role.set_no_sync_calls(options & FDF_SCHEDULER_ROLE_OPTION_NO_SYNC_CALLS != 0)),
        Err(status) => status,
    }
}

/// # Safety
/// The name can be read as far as its length says.
pub(crate) unsafe fn fdf_env_add_allowed_scheduler_role_for_driver(
    driver: *const c_void,
    role: *const c_char,
    role_length: usize,
) {
    // SAFETY: as this function.
    let (Some(key), Ok(role)) = (DriverKey::new(driver), unsafe { text(role, role_length) }) else { return };
    let driver = env::with(|environment| {
        let Environment { runtime, drivers, .. } = environment;
        drivers.get_or_new(key, runtime)
    });
    if let Some(driver) = driver {
        driver.allow_scheduler_role(role);
    }
}
