//! What crosses the boundary to be called later: callbacks, futures with their wakers, offloaded work.
//!
//! One rule holds for all of them. A struct is handed over by value; when the function it was given to returns
//! success, the callee owns it and ends it exactly once, by one of the functions that are marked *ends it*. When the
//! function returns an error, nothing was touched and the caller still owns it.
//!
//! All of them may be moved to and ended on any thread; *where* each is called is told by the table function.

use std::ffi::c_void;

use super::parts::MessageParts;
use super::site::CallSite;
use super::types::{Data, Panic, RawChannel, RawStopToken, Str};

/// Called once with a status: 0, or why it did not come to pass (`Canceled` at shutdown, `PeerClosed`, ...).
#[repr(C)]
#[derive(Debug)]
pub struct Callback {
    /// Passed to `call` or `drop`.
    pub data: Data,
    /// Runs it; *ends it*.
    pub call: unsafe extern "C" fn(data: Data, status: i32) -> *mut Panic,
    /// Drops it without running; *ends it*.
    pub drop: unsafe extern "C" fn(data: Data) -> *mut Panic,
    /// Null, or where in the driver's sources it comes from; it lives as long as the process.
    pub site: *const CallSite,
}

// SAFETY: the rule above: a callback may be moved to any thread, and only its owner uses it.
unsafe impl Send for Callback {}

/// Called once with a status and what the object is ready for (bits of [`READABLE`] ... [`HANGUP`], 0 on failure).
#[repr(C)]
#[derive(Debug)]
pub struct ReadyCallback {
    /// Passed to `call` or `drop`.
    pub data: Data,
    /// Runs it; *ends it*.
    pub call: unsafe extern "C" fn(data: Data, status: i32, ready: u32) -> *mut Panic,
    /// Drops it without running; *ends it*.
    pub drop: unsafe extern "C" fn(data: Data) -> *mut Panic,
    /// Null, or where in the driver's sources it comes from; it lives as long as the process.
    pub site: *const CallSite,
}

// SAFETY: as `Callback`.
unsafe impl Send for ReadyCallback {}

/// Reading will not block (data, end of stream, or a connection to accept).
pub const READABLE: u32 = 1;
/// Writing will not block (or a connection attempt has ended).
pub const WRITABLE: u32 = 2;
/// An error is pending. Reported whether asked for or not.
pub const ERROR: u32 = 4;
/// The other side has hung up. Reported whether asked for or not.
pub const HANGUP: u32 = 8;

/// Called once with a status and, on success, an owned channel end.
#[repr(C)]
#[derive(Debug)]
pub struct ConnectCallback {
    /// Passed to `call` or `drop`.
    pub data: Data,
    /// Runs it; *ends it*. `channel` is null unless `status` is 0.
    pub call: unsafe extern "C" fn(data: Data, status: i32, channel: *mut RawChannel) -> *mut Panic,
    /// Drops it without running; *ends it*.
    pub drop: unsafe extern "C" fn(data: Data) -> *mut Panic,
    /// Null, or where in the driver's sources it comes from; it lives as long as the process.
    pub site: *const CallSite,
}

// SAFETY: as `Callback`.
unsafe impl Send for ConnectCallback {}

/// Called once with a status and, on success, a message: the reply to a call.
#[repr(C)]
#[derive(Debug)]
pub struct MessageCallback {
    /// Passed to `call` or `drop`.
    pub data: Data,
    /// Runs it; *ends it*. `message` is null unless `status` is 0. Its parts are the callee's then, as those of a read;
    /// the struct itself is valid for the call.
    pub call: unsafe extern "C" fn(data: Data, status: i32, message: *mut MessageParts) -> *mut Panic,
    /// Drops it without running; *ends it*.
    pub drop: unsafe extern "C" fn(data: Data) -> *mut Panic,
    /// Null, or where in the driver's sources it comes from; it lives as long as the process.
    pub site: *const CallSite,
}

// SAFETY: as `Callback`.
unsafe impl Send for MessageCallback {}

/// Called for each trigger of an irq, and once when the binding ends by itself.
///
/// `call` is called any number of times, never on two threads at once, and never again after it was told a status other
/// than 0. `drop` is called once, last, when no `call` is running.
#[repr(C)]
#[derive(Debug)]
pub struct IrqHandler {
    /// Passed to both.
    pub data: *mut c_void,
    /// Takes a trigger: how often the irq was triggered since the last call (at least 1), and what its source is ready for
    /// (bits of [`READABLE`] ... [`HANGUP`]); `acknowledged` is valid for the call and 0: a handler that sets it to 1 has
    /// acknowledged. With a status other than 0 the binding has ended, and the other arguments are 0 and null.
    pub call: unsafe extern "C" fn(
        data: *mut c_void,
        status: i32,
        count: u64,
        ready: u32,
        acknowledged: *mut u32,
    ) -> *mut Panic,
    /// Frees it; *ends it*.
    pub drop: unsafe extern "C" fn(data: *mut c_void) -> *mut Panic,
    /// Null, or where in the driver's sources it comes from; it lives as long as the process.
    pub site: *const CallSite,
}

// SAFETY: as `Callback`: `call` is not called on two threads at once.
unsafe impl Send for IrqHandler {}

/// Called any number of times, whenever a wake vector is ready while its driver is suspended.
#[repr(C)]
#[derive(Debug)]
pub struct ResumeRequester {
    /// Passed to both.
    pub data: *mut c_void,
    /// Asks for the resume. May be called from any thread of the host, and while another call is running.
    pub call: unsafe extern "C" fn(data: *mut c_void) -> *mut Panic,
    /// Called once, when no `call` is running and none will follow; *ends it*.
    pub drop: unsafe extern "C" fn(data: *mut c_void) -> *mut Panic,
    /// Null, or where in the driver's sources it comes from; it lives as long as the process.
    pub site: *const CallSite,
}

// SAFETY: `call` and `drop` may be called from any thread, as the fields say.
unsafe impl Send for ResumeRequester {}
// SAFETY: `call` may be called from several threads at once, as its field says.
unsafe impl Sync for ResumeRequester {}

/// Accepts connections to a service of a child node, any number of times.
#[repr(C)]
#[derive(Debug)]
pub struct Connector {
    /// Passed to `accept` and `drop`.
    pub data: *mut c_void,
    /// Takes the server end of a new channel. May be called on several threads at once when its dispatcher is
    /// unsynchronized.
    pub accept: unsafe extern "C" fn(data: *mut c_void, channel: *mut RawChannel) -> *mut Panic,
    /// Called once, when no `accept` is running and none will follow; *ends it*.
    pub drop: unsafe extern "C" fn(data: *mut c_void) -> *mut Panic,
    /// Null, or where in the driver's sources it comes from; it lives as long as the process.
    pub site: *const CallSite,
}

// SAFETY: `accept` and `drop` may be called from any thread, as the fields say.
unsafe impl Send for Connector {}
// SAFETY: `accept` may be called from several threads at once, as its field says.
unsafe impl Sync for Connector {}

/// A piece of work for a lane, with what follows on the dispatcher.
///
/// `work` is called at most once, on a thread of the lane. Then `done` is called exactly once on the dispatcher: with
/// 0 after `work` returned, with `Canceled` if it never began. What `work` found out stays in `data`; the end of
/// `work` happens before the start of `done`.
#[repr(C)]
#[derive(Debug)]
pub struct OffloadJob {
    /// Passed to all three.
    pub data: *mut c_void,
    /// Runs on the lane. It never reports a panic: the result (a panic is one) is for `done`.
    pub work: unsafe extern "C" fn(data: *mut c_void, stop: *const RawStopToken),
    /// Runs on the dispatcher; *ends it*.
    pub done: unsafe extern "C" fn(data: *mut c_void, status: i32) -> *mut Panic,
    /// Instead of `done`, only when the host cannot call it any more; *ends it*.
    pub drop: unsafe extern "C" fn(data: *mut c_void) -> *mut Panic,
    /// Null, or where in the driver's sources it comes from; it lives as long as the process.
    pub site: *const CallSite,
}

// SAFETY: as `Callback`.
unsafe impl Send for OffloadJob {}

/// The lane for work that takes milliseconds.
pub const LANE_FAST: u32 = 0;
/// The lane for work that may take long: `fsync`, name lookups, compression.
pub const LANE_SLOW: u32 = 1;

/// A future without output, polled by the host on one dispatcher.
///
/// `poll` is called again and again until it says that it is not pending; then, or instead, `drop` is called once, on
/// the dispatcher too (with it as the current one).
#[repr(C)]
#[derive(Debug)]
pub struct FutureObject {
    /// Passed to both.
    pub data: *mut c_void,
    /// Polls once. `waker` is borrowed for the call; the future clones it to keep it.
    pub poll: unsafe extern "C" fn(data: *mut c_void, waker: *const WakerObject) -> Polled,
    /// Frees the future in whatever state it is; *ends it*.
    pub drop: unsafe extern "C" fn(data: *mut c_void) -> *mut Panic,
    /// Null, or where in the driver's sources it comes from; it lives as long as the process.
    pub site: *const CallSite,
}

// SAFETY: as `Callback`.
unsafe impl Send for FutureObject {}

/// What one poll found.
#[repr(C)]
#[derive(Debug)]
pub struct Polled {
    /// One of [`POLL_PENDING`], [`POLL_READY`], [`POLL_PANICKED`].
    pub state: u32,
    /// Null unless the poll panicked.
    pub panic: *mut Panic,
}

/// The future waits; its waker will be woken.
pub const POLL_PENDING: u32 = 0;
/// The future is complete; the host calls `drop` and never polls it again.
pub const POLL_READY: u32 = 1;
/// The future panicked; the host calls `drop`, never polls it again and applies its panic policy.
pub const POLL_PANICKED: u32 = 2;

/// A waker: an object of the host that starts with a pointer to its functions. Handled by pointer only; usable from
/// any thread; a wake never fails and never runs driver code before it returns.
#[repr(C)]
#[derive(Debug)]
pub struct WakerObject {
    /// The functions.
    pub ops: &'static WakerOps,
}

/// The functions of a [`WakerObject`].
#[repr(C)]
#[derive(Debug)]
pub struct WakerOps {
    /// A further reference, usually the same pointer.
    pub clone: unsafe extern "C" fn(*const WakerObject) -> *const WakerObject,
    /// Wakes, and gives one reference back.
    pub wake: unsafe extern "C" fn(*const WakerObject),
    /// Wakes.
    pub wake_by_ref: unsafe extern "C" fn(*const WakerObject),
    /// Gives one reference back.
    pub drop: unsafe extern "C" fn(*const WakerObject),
}

/// How a driver hook tells its end. `done` is called exactly once, on any thread, also when the future of the hook was
/// dropped half way (then with `Canceled`).
#[repr(C)]
#[derive(Debug)]
pub struct Completion {
    /// Passed to `done`.
    pub data: *mut c_void,
    /// Takes the result, which is borrowed for the call; *ends it*.
    pub done: unsafe extern "C" fn(data: *mut c_void, result: *const HookResult),
}

// SAFETY: as `Callback`: `done` may be called on any thread.
unsafe impl Send for Completion {}

/// What a driver hook came to.
#[repr(C)]
#[derive(Debug)]
pub struct HookResult {
    /// 0 or why it failed.
    pub status: i32,
    /// 1 if the hook panicked (`message` is what the panic said, `status` is `Internal`), else 0.
    pub panicked: u32,
    /// The reason in a sentence; empty on success.
    pub message: Str,
    /// The instance that `start` made, owned by the host from now on and given back to the driver by `stop`. Null
    /// unless this is a `start` that succeeded.
    pub instance: *mut c_void,
}
