//! `lib/fdf/channel.h`, `channel_read.h` and `handle.h`.

use std::ffi::c_void;

use crate::exports::functions;
use crate::types::{
    fdf_arena_t, fdf_channel_call_args_t, fdf_channel_read_t, fdf_dispatcher_t, fdf_handle_t, zx_handle_t, zx_status_t,
    zx_time_t,
};

functions! {
    /// The functions of `lib/fdf/channel.h` and `handle.h`.
    ChannelFunctions in channel, channel {
        /// Makes a pair of ends.
        fn fdf_channel_create(options: u32, out0: *mut fdf_handle_t, out1: *mut fdf_handle_t) -> zx_status_t;
        /// Writes a message, which is not copied.
        fn fdf_channel_write(
            channel: fdf_handle_t,
            options: u32,
            arena: *mut fdf_arena_t,
            data: *mut c_void,
            num_bytes: u32,
            handles: *mut zx_handle_t,
            num_handles: u32,
        ) -> zx_status_t;
        /// Takes the oldest message.
        fn fdf_channel_read(
            channel: fdf_handle_t,
            options: u32,
            out_arena: *mut *mut fdf_arena_t,
            out_data: *mut *mut c_void,
            out_num_bytes: *mut u32,
            out_handles: *mut *mut zx_handle_t,
            out_num_handles: *mut u32,
        ) -> zx_status_t;
        /// Has a handler called once when there is something to read, or nothing will be.
        fn fdf_channel_wait_async(
            dispatcher: *mut fdf_dispatcher_t,
            channel_read: *mut fdf_channel_read_t,
            options: u32,
        ) -> zx_status_t;
        /// Takes that back.
        fn fdf_channel_cancel_wait(handle: fdf_handle_t) -> zx_status_t;
        /// Writes a request and waits for its reply.
        fn fdf_channel_call(
            handle: fdf_handle_t,
            options: u32,
            deadline: zx_time_t,
            args: *const fdf_channel_call_args_t,
        ) -> zx_status_t;
        /// Ends a handle of either kind.
        fn fdf_handle_close(handle: fdf_handle_t);
    }
}
