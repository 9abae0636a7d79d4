//! `lib/fdf/env.h`: what a driver host calls.

use std::ffi::{c_char, c_void};

use crate::exports::functions;
use crate::types::{
    fdf_dispatcher_shutdown_observer_t, fdf_dispatcher_t, fdf_env_driver_shutdown_observer_t,
    fdf_env_resume_requester_t, fdf_env_stall_scanner_t, fdf_env_suspend_completer_t, zx_duration_mono_t, zx_koid_t,
    zx_status_t,
};

functions! {
    /// The functions of `lib/fdf/env.h`.
    EnvFunctions in env, env {
        /// Starts the runtime and its default pool.
        fn fdf_env_start(options: u32) -> zx_status_t;
        /// Ends the runtime and joins all its threads.
        fn fdf_env_reset();
        /// Makes a dispatcher owned by this driver.
        fn fdf_env_dispatcher_create_with_owner(
            driver: *const c_void,
            options: u32,
            name: *const c_char,
            name_len: usize,
            scheduler_role: *const c_char,
            scheduler_role_len: usize,
            observer: *mut fdf_dispatcher_shutdown_observer_t,
            out_dispatcher: *mut *mut fdf_dispatcher_t,
        ) -> zx_status_t;
        /// Logs the state of a dispatcher.
        fn fdf_env_dispatcher_dump(dispatcher: *mut fdf_dispatcher_t);
        /// The state of a dispatcher as text, which the caller frees.
        fn fdf_env_dispatcher_get_dump_deprecated(dispatcher: *mut fdf_dispatcher_t, out_dump: *mut *mut c_char);
        /// Begins the shutdown of all dispatchers of a driver.
        fn fdf_env_shutdown_dispatchers_async(
            driver: *const c_void,
            observer: *mut fdf_env_driver_shutdown_observer_t,
        ) -> zx_status_t;
        /// Destroys all dispatchers, which have shut down.
        fn fdf_env_destroy_all_dispatchers();
        /// Enters a driver on this thread.
        fn fdf_env_register_driver_entry(driver: *const c_void);
        /// Leaves it again.
        fn fdf_env_register_driver_exit();
        /// The driver that this thread is inside of, or null.
        fn fdf_env_get_current_driver() -> *const c_void;
        /// Whether a task is due.
        fn fdf_env_dispatcher_has_queued_tasks(dispatcher: *mut fdf_dispatcher_t) -> bool;
        /// The driver that a thread is inside of.
        fn fdf_env_get_driver_on_tid(tid: zx_koid_t, out_driver: *mut *const c_void) -> zx_status_t;
        /// Nothing: the runtime watches its threads by itself.
        fn fdf_env_scan_threads_for_stalls();
        /// As above; no scan needs to follow.
        fn fdf_env_scan_threads_for_stalls2() -> zx_duration_mono_t;
        /// As above; no scan is asked for.
        fn fdf_env_register_stall_scanner(scanner: *mut fdf_env_stall_scanner_t);
        /// Waits until nothing runs and nothing is ready to.
        fn fdf_internal_wait_until_all_dispatchers_idle();
        /// Waits until no dispatcher is left running.
        fn fdf_internal_wait_until_all_dispatchers_destroyed();
    }
}

/// Roles.
pub mod roles {
    use super::*;

    functions! {
        /// The functions of `lib/fdf/env.h` about scheduler roles.
        RoleFunctions in roles, roles {
            /// The most threads of a role.
            fn fdf_env_get_thread_limit(scheduler_role: *const c_char, scheduler_role_len: usize) -> u32;
            /// Sets the most threads of a role.
            fn fdf_env_set_thread_limit(
                scheduler_role: *const c_char,
                scheduler_role_len: usize,
                max_threads: u32,
            ) -> zx_status_t;
            /// The options of a role.
            fn fdf_env_get_scheduler_role_opts(scheduler_role: *const c_char, scheduler_role_len: usize) -> u32;
            /// Sets the options of a role.
            fn fdf_env_set_scheduler_role_opts(
                scheduler_role: *const c_char,
                scheduler_role_len: usize,
                options: u32,
            ) -> zx_status_t;
            /// Lets a driver use a role.
            fn fdf_env_add_allowed_scheduler_role_for_driver(
                driver: *const c_void,
                role: *const c_char,
                role_length: usize,
            );
        }
    }
}

/// Suspend and resume.
pub mod power {
    use super::*;

    functions! {
        /// The functions of `lib/fdf/env.h` about suspended drivers.
        EnvPowerFunctions in env_power, power {
            /// Sets whom a wake vector asks for a resume of this driver.
            fn fdf_env_register_resume_requester(
                driver: *const c_void,
                requester: *mut fdf_env_resume_requester_t,
            );
            /// Suspends a driver.
            fn fdf_env_driver_suspend(driver: *const c_void, completer: *mut fdf_env_suspend_completer_t);
            /// Resumes it.
            fn fdf_env_driver_resume(driver: *const c_void);
        }
    }
}
