//! `zircon/syscalls.h`, the part that drivers need, and `fuchsine/handle.h`.

use std::ffi::c_char;

use crate::exports::functions;
use crate::types::{zx_handle_t, zx_rights_t, zx_signals_t, zx_status_t, zx_time_t};

functions! {
    /// The functions of `zircon/syscalls.h`, and those for descriptors.
    ZxFunctions in zx, zx {
        /// Ends a handle.
        fn zx_handle_close(handle: zx_handle_t) -> zx_status_t;
        /// A further handle to the same object.
        fn zx_handle_duplicate(handle: zx_handle_t, rights: zx_rights_t, out: *mut zx_handle_t) -> zx_status_t;
        /// Makes an event.
        fn zx_event_create(options: u32, out: *mut zx_handle_t) -> zx_status_t;
        /// Makes two events that see each other end.
        fn zx_eventpair_create(options: u32, out0: *mut zx_handle_t, out1: *mut zx_handle_t) -> zx_status_t;
        /// Clears and sets signals.
        fn zx_object_signal(handle: zx_handle_t, clear_mask: u32, set_mask: u32) -> zx_status_t;
        /// Waits on this thread for a signal.
        fn zx_object_wait_one(
            handle: zx_handle_t,
            signals: zx_signals_t,
            deadline: zx_time_t,
            observed: *mut zx_signals_t,
        ) -> zx_status_t;
        /// The time of the monotonic clock.
        fn zx_clock_get_monotonic() -> zx_time_t;
        /// The time of the clock that goes on while the machine sleeps.
        fn zx_clock_get_boot() -> zx_time_t;
        /// The name of a status.
        fn zx_status_get_string(status: zx_status_t) -> *const c_char;
        /// Makes a channel that could lead to another process.
        fn zx_channel_create(options: u32, out0: *mut zx_handle_t, out1: *mut zx_handle_t) -> zx_status_t;
        /// Writes a message.
        fn zx_channel_write(
            handle: zx_handle_t,
            options: u32,
            bytes: *const u8,
            num_bytes: u32,
            handles: *const zx_handle_t,
            num_handles: u32,
        ) -> zx_status_t;
        /// Reads a message.
        fn zx_channel_read(
            handle: zx_handle_t,
            options: u32,
            bytes: *mut u8,
            handles: *mut zx_handle_t,
            num_bytes: u32,
            num_handles: u32,
            actual_bytes: *mut u32,
            actual_handles: *mut u32,
        ) -> zx_status_t;
        /// A handle to a descriptor, which it owns from then on.
        fn fuchsine_handle_from_fd(fd: i32, out: *mut zx_handle_t) -> zx_status_t;
        /// A copy of the descriptor behind a handle, or -1.
        fn fuchsine_handle_dup_fd(handle: zx_handle_t) -> i32;
    }
}
