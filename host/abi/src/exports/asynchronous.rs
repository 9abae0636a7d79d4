//! `lib/async/*.h`: thin functions that call what a dispatcher brings along. They work with any dispatcher that has a table
//! of these functions, also one that this library has not made, and need no table of a host.

use std::cell::Cell;
use std::ffi::c_char;
use std::ptr;

use crate::exports::dispatcher::{fdf_dispatcher_get_async_dispatcher, fdf_dispatcher_get_current_dispatcher};
use crate::status::ZX_ERR_NOT_SUPPORTED;
use crate::types::{
    ASYNC_OPS_V2, ASYNC_OPS_V3, ASYNC_OPS_V4, async_dispatcher_t, async_guest_bell_trap_t, async_irq_t,
    async_paged_vmo_t, async_receiver_t, async_sequence_id_t, async_task_t, async_wait_t, zx_handle_t,
    zx_packet_user_t, zx_status_t, zx_time_t, zx_vaddr_t,
};

/// Functions that a dispatcher has from a version of its table on.
macro_rules! forwarded {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) = $version:expr, $group:ident.$slot:ident;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// `dispatcher` is a dispatcher; the rest is as the header says.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(dispatcher: *mut async_dispatcher_t $(, $arg: $ty)*) -> zx_status_t {
                // SAFETY: a dispatcher has a table as long as it lives.
                let ops = unsafe { (*dispatcher).ops };
                // SAFETY: as above; the version is part of every table.
                if unsafe { (*ops).version } < $version {
                    return ZX_ERR_NOT_SUPPORTED;
                }
                // SAFETY: the table has this group, by its version.
                let function = unsafe { (*ops).$group.$slot };
                // SAFETY: the caller keeps the promises of the header.
                unsafe { function(dispatcher $(, $arg)*) }
            }
        )*
    };
}

forwarded! {
    /// Posts a task.
    fn async_post_task(task: *mut async_task_t) = 1, v1.post_task;
    /// Takes a task back.
    fn async_cancel_task(task: *mut async_task_t) = 1, v1.cancel_task;
    /// Begins a wait.
    fn async_begin_wait(wait: *mut async_wait_t) = 1, v1.begin_wait;
    /// Takes a wait back.
    fn async_cancel_wait(wait: *mut async_wait_t) = 1, v1.cancel_wait;
    /// Queues a packet for a receiver.
    fn async_queue_packet(receiver: *mut async_receiver_t, data: *const zx_packet_user_t) = 1, v1.queue_packet;
    /// Not supported.
    fn async_set_guest_bell_trap(
        trap: *mut async_guest_bell_trap_t,
        guest: zx_handle_t,
        addr: zx_vaddr_t,
        length: usize
    ) = 1, v1.set_guest_bell_trap;
    /// Binds an interrupt.
    fn async_bind_irq(irq: *mut async_irq_t) = ASYNC_OPS_V2, v2.bind_irq;
    /// Unbinds an interrupt.
    fn async_unbind_irq(irq: *mut async_irq_t) = ASYNC_OPS_V2, v2.unbind_irq;
    /// Not supported.
    fn async_create_paged_vmo(
        paged_vmo: *mut async_paged_vmo_t,
        options: u32,
        pager: zx_handle_t,
        vmo_size: u64,
        vmo_out: *mut zx_handle_t
    ) = ASYNC_OPS_V2, v2.create_paged_vmo;
    /// Not supported.
    fn async_detach_paged_vmo(paged_vmo: *mut async_paged_vmo_t) = ASYNC_OPS_V2, v2.detach_paged_vmo;
    /// The id of the dispatcher's sequence.
    fn async_get_sequence_id(out_sequence_id: *mut async_sequence_id_t, out_error: *mut *const c_char)
        = ASYNC_OPS_V3, v3.get_sequence_id;
    /// Checks that this is the sequence of an id.
    fn async_check_sequence_id(sequence_id: async_sequence_id_t, out_error: *mut *const c_char)
        = ASYNC_OPS_V3, v3.check_sequence_id;
    /// Not supported by the dispatchers of this library.
    fn async_acquire_shared_ref() = ASYNC_OPS_V4, v4.acquire_shared_ref;
    /// Not supported by the dispatchers of this library.
    fn async_release_shared_ref() = ASYNC_OPS_V4, v4.release_shared_ref;
}

/// The time by the dispatcher's clock.
///
/// # Safety
/// `dispatcher` is a dispatcher.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn async_now(dispatcher: *mut async_dispatcher_t) -> zx_time_t {
    // SAFETY: a dispatcher has a table as long as it lives.
    let ops = unsafe { (*dispatcher).ops };
    // SAFETY: every table has the first group.
    unsafe { ((*ops).v1.now)(dispatcher) }
}

thread_local! {
    static DEFAULT: Cell<*mut async_dispatcher_t> = const { Cell::new(ptr::null_mut()) };
}

/// The default dispatcher of this thread: what was set, else that of the callback that runs, else null.
///
/// # Safety
/// None needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn async_get_default_dispatcher() -> *mut async_dispatcher_t {
    let set = DEFAULT.get();
    if !set.is_null() {
        return set;
    }
    // SAFETY: no argument.
    let current = unsafe { fdf_dispatcher_get_current_dispatcher() };
    if current.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: it is current, so it is alive.
    unsafe { fdf_dispatcher_get_async_dispatcher(current) }
}

/// Sets the default dispatcher of this thread; null takes it away.
///
/// # Safety
/// `dispatcher` outlives its use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn async_set_default_dispatcher(dispatcher: *mut async_dispatcher_t) {
    DEFAULT.set(dispatcher);
}
