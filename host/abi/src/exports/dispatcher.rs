//! `lib/fdf/dispatcher.h`.

use std::ffi::c_char;

use crate::exports::functions;
use crate::types::{
    async_dispatcher_t, fdf_dispatcher_shutdown_observer_t, fdf_dispatcher_t, zx_handle_t, zx_signals_t, zx_status_t,
};

functions! {
    /// The functions of `lib/fdf/dispatcher.h`.
    DispatcherFunctions in dispatcher, dispatcher {
        /// Makes a dispatcher owned by the current driver.
        fn fdf_dispatcher_create(
            options: u32,
            name: *const c_char,
            name_len: usize,
            scheduler_role: *const c_char,
            scheduler_role_len: usize,
            observer: *mut fdf_dispatcher_shutdown_observer_t,
            out_dispatcher: *mut *mut fdf_dispatcher_t,
        ) -> zx_status_t;
        /// The async interface of a dispatcher.
        fn fdf_dispatcher_get_async_dispatcher(dispatcher: *mut fdf_dispatcher_t) -> *mut async_dispatcher_t;
        /// The dispatcher behind an async interface.
        fn fdf_dispatcher_downcast_async_dispatcher(
            async_dispatcher: *mut async_dispatcher_t,
        ) -> *mut fdf_dispatcher_t;
        /// The dispatcher whose callback runs on this thread, or null.
        fn fdf_dispatcher_get_current_dispatcher() -> *mut fdf_dispatcher_t;
        /// The options that it was made with.
        fn fdf_dispatcher_get_options(dispatcher: *const fdf_dispatcher_t) -> u32;
        /// Begins its shutdown.
        fn fdf_dispatcher_shutdown_async(dispatcher: *mut fdf_dispatcher_t);
        /// Frees it, once it has shut down.
        fn fdf_dispatcher_destroy(dispatcher: *mut fdf_dispatcher_t);
        /// Takes an option away for good.
        fn fdf_dispatcher_seal(dispatcher: *mut fdf_dispatcher_t, option: u32) -> zx_status_t;
    }
}

/// What came later, in a group of its own.
pub mod power {
    use super::*;

    functions! {
        /// The functions of `lib/fdf/dispatcher.h` about suspended drivers.
        DispatcherPowerFunctions in dispatcher_power, power {
            /// A view of the dispatcher that runs also while its driver is suspended.
            fn fdf_dispatcher_get_always_on_dispatcher(dispatcher: *mut fdf_dispatcher_t) -> *mut fdf_dispatcher_t;
            /// Makes signals of an object a reason to resume the driver.
            fn fdf_dispatcher_register_wake_vector(
                dispatcher: *mut fdf_dispatcher_t,
                handle: zx_handle_t,
                signals: zx_signals_t,
            ) -> zx_status_t;
            /// Makes them none any more.
            fn fdf_dispatcher_unregister_wake_vector(
                dispatcher: *mut fdf_dispatcher_t,
                handle: zx_handle_t,
                signals: zx_signals_t,
            ) -> zx_status_t;
        }
    }
}
