//! What the headers declare, as Rust sees it. `tests/headers.rs` compares every size, offset and value with what a C
//! compiler makes of the headers.
//!
//! # Invariants
//! - Every type has the layout of its twin in the headers, and owns nothing.
#![allow(non_camel_case_types, reason = "the names are those of the headers")]
#![allow(missing_docs, reason = "the fields are those of the headers, which say what they are for")]

use std::ffi::c_void;

pub type zx_status_t = i32;
pub type zx_handle_t = u32;
pub type fdf_handle_t = zx_handle_t;
pub type zx_signals_t = u32;
pub type zx_rights_t = u32;
pub type zx_txid_t = u32;
pub type fdf_txid_t = u32;
pub type zx_time_t = i64;
pub type zx_duration_t = i64;
pub type zx_instant_mono_t = i64;
pub type zx_duration_mono_t = i64;
pub type zx_instant_boot_t = i64;
pub type zx_clock_t = u32;
pub type zx_koid_t = u64;
pub type zx_vaddr_t = usize;
pub type zx_gpaddr_t = usize;
pub type fdf_arena_tag_t = u32;
pub type async_ops_version_t = u32;

pub const ZX_HANDLE_INVALID: zx_handle_t = 0;
pub const ZX_HANDLE_FIXED_BITS_MASK: zx_handle_t = 3;
pub const FDF_HANDLE_INVALID: fdf_handle_t = ZX_HANDLE_INVALID;
pub const FDF_HANDLE_FIXED_BITS_MASK: fdf_handle_t = ZX_HANDLE_FIXED_BITS_MASK;

pub const FDF_DISPATCHER_OPTION_SYNCHRONIZED: u32 = 0;
pub const FDF_DISPATCHER_OPTION_UNSYNCHRONIZED: u32 = 1;
pub const FDF_DISPATCHER_OPTION_ALLOW_SYNC_CALLS: u32 = 2;
pub const FDF_DISPATCHER_OPTION_NO_THREAD_MIGRATION: u32 = 4;
pub const FDF_DISPATCHER_OPTION_SYNCHRONIZATION_MASK: u32 = 1;
pub const FDF_SCHEDULER_ROLE_OPTION_NO_SYNC_CALLS: u32 = 1;
pub const FDF_CHANNEL_WAIT_OPTION_FORCE_ASYNC_CANCEL: u32 = 1;
pub const FDF_CHANNEL_WAIT_OPTION_ALWAYS_ON: u32 = 2;
pub const FDF_ENV_ENFORCE_ALLOWED_SCHEDULER_ROLES: u32 = 1;
pub const FDF_ENV_DYNAMIC_THREAD_SPAWNING: u32 = 2;

pub const ASYNC_OPS_V1: async_ops_version_t = 1;
pub const ASYNC_OPS_V2: async_ops_version_t = 2;
pub const ASYNC_OPS_V3: async_ops_version_t = 3;
pub const ASYNC_OPS_V4: async_ops_version_t = 4;

pub const ZX_TIME_INFINITE: zx_time_t = i64::MAX;
pub const ZX_TIME_INFINITE_PAST: zx_time_t = i64::MIN;
pub const ZX_CLOCK_MONOTONIC: zx_clock_t = 0;
pub const ZX_CLOCK_BOOT: zx_clock_t = 1;
pub const ZX_MAX_NAME_LEN: usize = 32;

pub const ZX_WAIT_ASYNC_ONCE: u32 = 0;
pub const ZX_WAIT_ASYNC_TIMESTAMP: u32 = 1;
pub const ZX_WAIT_ASYNC_EDGE: u32 = 2;
pub const ZX_WAIT_ASYNC_BOOT_TIMESTAMP: u32 = 4;

pub const ZX_SIGNAL_NONE: zx_signals_t = 0;
pub const ZX_OBJECT_READABLE: zx_signals_t = 1 << 0;
pub const ZX_OBJECT_WRITABLE: zx_signals_t = 1 << 1;
pub const ZX_OBJECT_PEER_CLOSED: zx_signals_t = 1 << 2;
pub const ZX_OBJECT_SIGNALED: zx_signals_t = 1 << 3;
pub const ZX_OBJECT_SIGNAL_4: zx_signals_t = 1 << 4;
pub const ZX_OBJECT_SIGNAL_5: zx_signals_t = 1 << 5;
pub const ZX_SIGNAL_HANDLE_CLOSED: zx_signals_t = 1 << 23;
/// The eight signals that mean what their users agree on.
pub const ZX_USER_SIGNAL_ALL: zx_signals_t = 0xff00_0000;

pub const DRIVER_REGISTRATION_VERSION_1: u64 = 1;

/// An opaque dispatcher: what C has a pointer to is an `implementation::dispatcher::Face`.
#[repr(C)]
#[derive(Debug)]
pub struct fdf_dispatcher {
    _opaque: [u8; 0],
}
pub type fdf_dispatcher_t = fdf_dispatcher;

/// An opaque arena.
#[repr(C)]
#[derive(Debug)]
pub struct fdf_arena {
    _opaque: [u8; 0],
}
pub type fdf_arena_t = fdf_arena;

/// What the library keeps inside of a structure of C's while an operation is pending: a key in the first word.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct async_state_t {
    pub reserved: [usize; 2],
}

#[repr(C)]
#[derive(Debug)]
pub struct async_dispatcher_t {
    pub ops: *const async_ops_t,
}

pub type async_task_handler_t =
    unsafe extern "C" fn(dispatcher: *mut async_dispatcher_t, task: *mut async_task_t, status: zx_status_t);
pub type async_wait_handler_t = unsafe extern "C" fn(
    dispatcher: *mut async_dispatcher_t,
    wait: *mut async_wait_t,
    status: zx_status_t,
    signal: *const zx_packet_signal_t,
);
pub type async_irq_handler_t = unsafe extern "C" fn(
    dispatcher: *mut async_dispatcher_t,
    irq: *mut async_irq_t,
    status: zx_status_t,
    signal: *const zx_packet_interrupt_t,
);
pub type async_receiver_handler_t = unsafe extern "C" fn(
    dispatcher: *mut async_dispatcher_t,
    receiver: *mut async_receiver_t,
    status: zx_status_t,
    data: *const zx_packet_user_t,
);
pub type async_guest_bell_trap_handler_t = unsafe extern "C" fn(
    dispatcher: *mut async_dispatcher_t,
    trap: *mut async_guest_bell_trap_t,
    status: zx_status_t,
    bell: *const zx_packet_guest_bell_t,
);
pub type async_paged_vmo_handler_t = unsafe extern "C" fn(
    dispatcher: *mut async_dispatcher_t,
    paged_vmo: *mut async_paged_vmo_t,
    status: zx_status_t,
    request: *const zx_packet_page_request_t,
);

#[repr(C)]
#[derive(Debug)]
pub struct async_task_t {
    pub state: async_state_t,
    pub handler: Option<async_task_handler_t>,
    pub deadline: zx_time_t,
}

#[repr(C)]
#[derive(Debug)]
pub struct async_wait_t {
    pub state: async_state_t,
    pub handler: Option<async_wait_handler_t>,
    pub object: zx_handle_t,
    pub trigger: zx_signals_t,
    pub options: u32,
}

#[repr(C)]
#[derive(Debug)]
pub struct async_irq_t {
    pub state: async_state_t,
    pub handler: Option<async_irq_handler_t>,
    pub object: zx_handle_t,
}

#[repr(C)]
#[derive(Debug)]
pub struct async_receiver_t {
    pub state: async_state_t,
    pub handler: Option<async_receiver_handler_t>,
}

#[repr(C)]
#[derive(Debug)]
pub struct async_guest_bell_trap_t {
    pub state: async_state_t,
    pub handler: Option<async_guest_bell_trap_handler_t>,
}

#[repr(C)]
#[derive(Debug)]
pub struct async_paged_vmo_t {
    pub state: async_state_t,
    pub handler: Option<async_paged_vmo_handler_t>,
    pub pager: zx_handle_t,
    pub vmo: zx_handle_t,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct async_sequence_id_t {
    pub value: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct zx_packet_signal_t {
    pub trigger: zx_signals_t,
    pub observed: zx_signals_t,
    pub count: u64,
    pub timestamp: zx_time_t,
    pub reserved1: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union zx_packet_user_t {
    pub u64: [u64; 4],
    pub u32: [u32; 8],
    pub u16: [u16; 16],
    pub c8: [u8; 32],
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct zx_packet_interrupt_t {
    pub timestamp: zx_instant_boot_t,
    pub reserved0: u64,
    pub reserved1: u64,
    pub reserved2: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct zx_packet_guest_bell_t {
    pub addr: zx_gpaddr_t,
    pub reserved0: u64,
    pub reserved1: u64,
    pub reserved2: u64,
}

#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct zx_packet_page_request_t {
    pub command: u16,
    pub flags: u16,
    pub reserved0: u32,
    pub offset: u64,
    pub length: u64,
    pub reserved1: u64,
}

/// The functions of a dispatcher that the `async_*` functions call.
#[repr(C)]
#[derive(Debug)]
pub struct async_ops_t {
    pub version: async_ops_version_t,
    pub reserved: u32,
    pub v1: async_ops_v1,
    pub v2: async_ops_v2,
    pub v3: async_ops_v3,
    pub v4: async_ops_v4,
}

#[repr(C)]
#[derive(Debug)]
pub struct async_ops_v1 {
    pub now: unsafe extern "C" fn(*mut async_dispatcher_t) -> zx_time_t,
    pub begin_wait: unsafe extern "C" fn(*mut async_dispatcher_t, *mut async_wait_t) -> zx_status_t,
    pub cancel_wait: unsafe extern "C" fn(*mut async_dispatcher_t, *mut async_wait_t) -> zx_status_t,
    pub post_task: unsafe extern "C" fn(*mut async_dispatcher_t, *mut async_task_t) -> zx_status_t,
    pub cancel_task: unsafe extern "C" fn(*mut async_dispatcher_t, *mut async_task_t) -> zx_status_t,
    pub queue_packet:
        unsafe extern "C" fn(*mut async_dispatcher_t, *mut async_receiver_t, *const zx_packet_user_t) -> zx_status_t,
    pub set_guest_bell_trap: unsafe extern "C" fn(
        *mut async_dispatcher_t,
        *mut async_guest_bell_trap_t,
        zx_handle_t,
        zx_vaddr_t,
        usize,
    ) -> zx_status_t,
}

#[repr(C)]
#[derive(Debug)]
pub struct async_ops_v2 {
    pub bind_irq: unsafe extern "C" fn(*mut async_dispatcher_t, *mut async_irq_t) -> zx_status_t,
    pub unbind_irq: unsafe extern "C" fn(*mut async_dispatcher_t, *mut async_irq_t) -> zx_status_t,
    pub create_paged_vmo: unsafe extern "C" fn(
        *mut async_dispatcher_t,
        *mut async_paged_vmo_t,
        u32,
        zx_handle_t,
        u64,
        *mut zx_handle_t,
    ) -> zx_status_t,
    pub detach_paged_vmo: unsafe extern "C" fn(*mut async_dispatcher_t, *mut async_paged_vmo_t) -> zx_status_t,
}

#[repr(C)]
#[derive(Debug)]
pub struct async_ops_v3 {
    pub get_sequence_id: unsafe extern "C" fn(
        *mut async_dispatcher_t,
        *mut async_sequence_id_t,
        *mut *const std::ffi::c_char,
    ) -> zx_status_t,
    pub check_sequence_id:
        unsafe extern "C" fn(*mut async_dispatcher_t, async_sequence_id_t, *mut *const std::ffi::c_char) -> zx_status_t,
}

#[repr(C)]
#[derive(Debug)]
pub struct async_ops_v4 {
    pub acquire_shared_ref: unsafe extern "C" fn(*mut async_dispatcher_t) -> zx_status_t,
    pub release_shared_ref: unsafe extern "C" fn(*mut async_dispatcher_t) -> zx_status_t,
}

pub type fdf_dispatcher_shutdown_handler_t =
    unsafe extern "C" fn(dispatcher: *mut fdf_dispatcher_t, observer: *mut fdf_dispatcher_shutdown_observer_t);

#[repr(C)]
#[derive(Debug)]
pub struct fdf_dispatcher_shutdown_observer_t {
    pub handler: Option<fdf_dispatcher_shutdown_handler_t>,
}

pub type fdf_channel_read_handler_t =
    unsafe extern "C" fn(dispatcher: *mut fdf_dispatcher_t, read: *mut fdf_channel_read_t, status: zx_status_t);

#[repr(C)]
#[derive(Debug)]
pub struct fdf_channel_read_t {
    pub state: async_state_t,
    pub handler: Option<fdf_channel_read_handler_t>,
    pub channel: fdf_handle_t,
    pub options: u32,
}

#[repr(C)]
#[derive(Debug)]
pub struct fdf_channel_call_args_t {
    pub wr_arena: *mut fdf_arena_t,
    pub wr_data: *mut c_void,
    pub wr_num_bytes: u32,
    pub wr_handles: *mut zx_handle_t,
    pub wr_num_handles: u32,
    pub rd_arena: *mut *mut fdf_arena_t,
    pub rd_data: *mut *mut c_void,
    pub rd_num_bytes: *mut u32,
    pub rd_handles: *mut *mut zx_handle_t,
    pub rd_num_handles: *mut u32,
}

pub type fdf_token_transfer_handler_t = unsafe extern "C" fn(
    dispatcher: *mut fdf_dispatcher_t,
    token: *mut fdf_token_t,
    status: zx_status_t,
    handle: fdf_handle_t,
);

#[repr(C)]
#[derive(Debug)]
pub struct fdf_token_t {
    pub handler: Option<fdf_token_transfer_handler_t>,
}

pub type fdf_env_driver_shutdown_handler_t =
    unsafe extern "C" fn(driver: *const c_void, observer: *mut fdf_env_driver_shutdown_observer_t);

#[repr(C)]
#[derive(Debug)]
pub struct fdf_env_driver_shutdown_observer_t {
    pub handler: Option<fdf_env_driver_shutdown_handler_t>,
}

pub type fdf_env_stall_scan_begin =
    unsafe extern "C" fn(scanner: *mut fdf_env_stall_scanner_t, duration: zx_duration_mono_t);

#[repr(C)]
#[derive(Debug)]
pub struct fdf_env_stall_scanner_t {
    pub handler: Option<fdf_env_stall_scan_begin>,
}

pub type fdf_env_resume_request = unsafe extern "C" fn(requester: *mut fdf_env_resume_requester_t) -> zx_status_t;

#[repr(C)]
#[derive(Debug)]
pub struct fdf_env_resume_requester_t {
    pub handler: Option<fdf_env_resume_request>,
}

pub type fdf_env_suspend_complete = unsafe extern "C" fn(completer: *mut fdf_env_suspend_completer_t);

#[repr(C)]
#[derive(Debug)]
pub struct fdf_env_suspend_completer_t {
    pub handler: Option<fdf_env_suspend_complete>,
}

/// What a driver in C exports under the name `__fuchsia_driver_registration__`.
#[repr(C)]
#[derive(Debug)]
pub struct DriverRegistration {
    pub version: u64,
    pub v1: driver_registration_v1,
}

#[repr(C)]
#[derive(Debug)]
pub struct driver_registration_v1 {
    pub initialize: Option<unsafe extern "C" fn(server_handle: fdf_handle_t) -> *mut c_void>,
    pub destroy: Option<unsafe extern "C" fn(token: *mut c_void)>,
}

impl std::fmt::Debug for zx_packet_user_t {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: every bit pattern is a value of each of the four arrays.
        write!(f, "zx_packet_user_t({:x?})", unsafe { self.u64 })
    }
}
