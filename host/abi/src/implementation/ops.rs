//! The functions of a dispatcher that `async_*` calls.
//!
//! The table says version 3, as in fdf: what version 4 adds is not supported, nor are guest bell traps and paged memory,
//! which have no meaning here.

use std::ffi::c_char;

use super::{Face, irq, receiver, sequence, task, wait};
use crate::exports::guard;
use crate::status::ZX_ERR_NOT_SUPPORTED;
use crate::types::{
    ASYNC_OPS_V3, async_dispatcher_t, async_guest_bell_trap_t, async_irq_t, async_ops_t, async_ops_v1, async_ops_v2,
    async_ops_v3, async_ops_v4, async_paged_vmo_t, async_receiver_t, async_sequence_id_t, async_task_t, async_wait_t,
    zx_handle_t, zx_packet_user_t, zx_status_t, zx_time_t, zx_vaddr_t,
};

/// The one table of all dispatchers of this copy of the library; they are known by it.
pub(crate) static OPS: async_ops_t = async_ops_t {
    version: ASYNC_OPS_V3,
    reserved: 0,
    v1: async_ops_v1 { now, begin_wait, cancel_wait, post_task, cancel_task, queue_packet, set_guest_bell_trap },
    v2: async_ops_v2 { bind_irq, unbind_irq, create_paged_vmo, detach_paged_vmo },
    v3: async_ops_v3 { get_sequence_id, check_sequence_id },
    v4: async_ops_v4 { acquire_shared_ref, release_shared_ref },
};

/// Functions that find the face and go on.
macro_rules! ops {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $exported:literal, $call:path;)*) => {
        $(
            unsafe extern "C" fn $name(dispatcher: *mut async_dispatcher_t, $($arg: $ty),*) -> $ret {
                guard($exported, || {
                    // SAFETY: the caller keeps the promises of the header: the dispatcher is one that it was given.
                    let face = unsafe { Face::of_async($exported, dispatcher) };
                    // SAFETY: as above, for what is handed in.
                    unsafe { $call(face, $($arg),*) }
                })
            }
        )*
    };
}

ops! {
    fn begin_wait(wait: *mut async_wait_t) -> zx_status_t = "async_begin_wait", wait::begin;
    fn cancel_wait(wait: *mut async_wait_t) -> zx_status_t = "async_cancel_wait", wait::cancel;
    fn post_task(task: *mut async_task_t) -> zx_status_t = "async_post_task", task::post;
    fn cancel_task(task: *mut async_task_t) -> zx_status_t = "async_cancel_task", task::cancel;
    fn queue_packet(receiver: *mut async_receiver_t, data: *const zx_packet_user_t) -> zx_status_t =
        "async_queue_packet", receiver::queue;
    fn bind_irq(irq: *mut async_irq_t) -> zx_status_t = "async_bind_irq", irq::bind;
    fn unbind_irq(irq: *mut async_irq_t) -> zx_status_t = "async_unbind_irq", irq::unbind;
    fn get_sequence_id(out: *mut async_sequence_id_t, out_error: *mut *const c_char) -> zx_status_t =
        "async_get_sequence_id", sequence::get;
    fn check_sequence_id(id: async_sequence_id_t, out_error: *mut *const c_char) -> zx_status_t =
        "async_check_sequence_id", sequence::check;
    fn now() -> zx_time_t = "async_now", task::now;
}

/// Functions that this system has no meaning for.
macro_rules! unsupported {
    ($(fn $name:ident($($ty:ty),*);)*) => {
        $(
            unsafe extern "C" fn $name(_: *mut async_dispatcher_t, $(_: $ty),*) -> zx_status_t {
                ZX_ERR_NOT_SUPPORTED
            }
        )*
    };
}

unsupported! {
    fn set_guest_bell_trap(*mut async_guest_bell_trap_t, zx_handle_t, zx_vaddr_t, usize);
    fn create_paged_vmo(*mut async_paged_vmo_t, u32, zx_handle_t, u64, *mut zx_handle_t);
    fn detach_paged_vmo(*mut async_paged_vmo_t);
    fn acquire_shared_ref();
    fn release_shared_ref();
}
