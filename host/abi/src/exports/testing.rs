//! `lib/fdf/testing.h`: dispatchers that a test runs by itself.

use std::ffi::{c_char, c_void};

use crate::exports::functions;
use crate::types::{fdf_dispatcher_shutdown_observer_t, fdf_dispatcher_t, zx_status_t, zx_time_t};

functions! {
    /// The functions of `lib/fdf/testing.h`.
    TestingFunctions in testing, testing {
        /// Makes a dispatcher without threads.
        fn fdf_testing_create_unmanaged_dispatcher(
            driver: *const c_void,
            options: u32,
            name: *const c_char,
            name_len: usize,
            observer: *mut fdf_dispatcher_shutdown_observer_t,
            out_dispatcher: *mut *mut fdf_dispatcher_t,
        ) -> zx_status_t;
        /// Makes a dispatcher the current one of this thread while it is inside of nothing.
        fn fdf_testing_set_default_dispatcher(dispatcher: *mut fdf_dispatcher_t) -> zx_status_t;
        /// Runs unmanaged work on this thread.
        fn fdf_testing_run(deadline: zx_time_t, once: bool) -> zx_status_t;
        /// Runs unmanaged work on this thread until nothing is ready.
        fn fdf_testing_run_until_idle() -> zx_status_t;
        /// Ends runs.
        fn fdf_testing_quit();
        /// Lets runs begin again.
        fn fdf_testing_reset_quit() -> zx_status_t;
    }
}
