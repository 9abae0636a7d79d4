//! Messages and options as they cross the boundary.

use std::ffi::c_void;

use super::calls::{Callback, Connector};
use super::site::CallSite;
use super::types::{Property, RawArena, RawChannel, RawDispatcher, Str};

/// A message: bytes in an arena, and handles. Every part may be absent; a wholly empty message is legal.
#[repr(C)]
#[derive(Debug)]
pub struct MessageParts {
    /// One reference to the arena that holds the bytes; null when there are none.
    pub arena: *const RawArena,
    /// The first byte, inside memory that [`arena_alloc`](super::Table::arena_alloc) of that arena returned.
    pub bytes: *mut u8,
    /// How many bytes.
    pub len: usize,
    /// An array of handles. In a write it belongs to the caller, the handles in it to the callee on success. In a read
    /// it belongs to the host: the caller moves the handles out and gives the array back by
    /// [`handles_free`](super::Table::handles_free). Null when there are none.
    pub handles: *mut HandleParts,
    /// How many handles.
    pub handle_count: usize,
}

impl MessageParts {
    /// The message with nothing in it.
    pub const EMPTY: MessageParts = MessageParts {
        arena: std::ptr::null(),
        bytes: std::ptr::null_mut(),
        len: 0,
        handles: std::ptr::null_mut(),
        handle_count: 0,
    };
}

/// Which call a request belongs to, or a reply answers. It is beside the message, not in its bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TxidParts {
    /// The channel, as its host numbers it.
    pub channel: u64,
    /// The call, by which those of one channel differ; its highest bit is set. 0: the message belongs to no call.
    pub number: u32,
    /// 0.
    pub reserved: u32,
}

impl TxidParts {
    /// That of a message which belongs to no call.
    pub const NONE: TxidParts = TxidParts { channel: 0, number: 0, reserved: 0 };
}

/// One handle of a message. It is owned by whoever owns the message.
#[repr(C)]
#[derive(Debug)]
pub struct HandleParts {
    /// One of [`HANDLE_CHANNEL`], [`HANDLE_FD`], [`HANDLE_VALUE`], [`HANDLE_TOKEN`].
    pub kind: u32,
    /// The descriptor of an fd, else 0.
    pub fd: i32,
    /// A `*mut RawChannel` for a channel, a `*mut RawToken` for a token, the value for a value, null for an fd.
    pub object: *mut c_void,
    /// A value only: which image (program or module) made it. Only the same image may look inside.
    pub image: *const c_void,
    /// Of a value: drops it. Reports a panic of the value's own destructor. Of a token that a read returned: drops it, for
    /// those who do not know the kind; null in a token that is written.
    pub drop: Option<unsafe extern "C" fn(*mut c_void) -> *mut super::Panic>,
}

// SAFETY: a handle may be moved to any thread: channel ends and fds are usable from everywhere, and values are made
// from `Send` types only.
unsafe impl Send for HandleParts {}
// SAFETY: a shared handle offers nothing but its kind.
unsafe impl Sync for HandleParts {}

/// A channel end. Sending one that has a registered read is refused (`InvalidArgs`), as is sending one of the two ends
/// through the other (`NotSupported`).
pub const HANDLE_CHANNEL: u32 = 1;
/// A file descriptor.
pub const HANDLE_FD: u32 = 2;
/// A value of the sender's image.
pub const HANDLE_VALUE: u32 = 3;
/// One end of a token.
pub const HANDLE_TOKEN: u32 = 4;

/// How to create a dispatcher.
#[repr(C)]
#[derive(Debug)]
pub struct DispatcherOptions {
    /// Its name, for logs and dumps.
    pub name: Str,
    /// The scheduler role, empty for the default one.
    pub scheduler_role: Str,
    /// Bits of [`UNSYNCHRONIZED`], [`ALLOW_SYNC_CALLS`], [`NO_THREAD_MIGRATION`].
    pub flags: u32,
    /// 0.
    pub reserved: u32,
    /// Null, or a callback that runs last, when everything of the dispatcher has ended. Moved out on success.
    pub observer: *mut Callback,
    /// Null, or where it is created.
    pub site: *const CallSite,
}

/// Callbacks may run at the same time.
pub const UNSYNCHRONIZED: u32 = 1;
/// Callbacks may block.
pub const ALLOW_SYNC_CALLS: u32 = 2;
/// All callbacks run on one thread.
pub const NO_THREAD_MIGRATION: u32 = 4;
/// Only in what [`dispatcher_flags`](super::Table::dispatcher_flags) returns: the handle is the always-on view.
pub const ALWAYS_ON: u32 = 8;

/// A service that a child node offers.
#[repr(C)]
#[derive(Debug)]
pub struct Service {
    /// Its name, such as `block`.
    pub name: Str,
    /// Takes the connections. Moved out when the child was added.
    pub connector: Connector,
}

/// How to add a child node.
#[repr(C)]
#[derive(Debug)]
pub struct ChildOptions {
    /// Its name, unique among its siblings.
    pub name: Str,
    /// What drivers are matched against.
    pub properties: *const Property,
    /// How many properties.
    pub property_count: usize,
    /// What drivers bound to the child can connect to.
    pub services: *mut Service,
    /// How many services.
    pub service_count: usize,
    /// Where the connectors are called. Borrowed; the host takes a reference of its own.
    pub dispatcher: *const RawDispatcher,
    /// Null, or where it is added.
    pub site: *const CallSite,
}

/// How [`socket_shutdown`](super::Table::socket_shutdown) ends a stream: nothing more is read.
pub const SHUTDOWN_READ: u32 = 1;
/// Nothing more is written; the other side sees the end of the stream.
pub const SHUTDOWN_WRITE: u32 = 2;

/// The levels of [`log`](super::Table::log), as numbers: 1 error, 2 warning, 3 information, 4 debugging, 5 tracing.
pub const LEVELS: std::ops::RangeInclusive<u32> = 1..=5;

/// The marker for "no channel".
pub const NO_CHANNEL: *mut RawChannel = std::ptr::null_mut();
