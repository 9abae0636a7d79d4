//! The table of functions that a host gives to every driver.
//!
//! Terms used below, the same for each function:
//! - *owned*: the pointer carries one reference (or the only one), which its holder gives back by the function named
//!   for it. *Borrowed*: valid for the duration of the call.
//! - Functions return 0 or a negative status. On failure nothing that was passed in has been touched: callbacks,
//!   futures, messages and handles are still the caller's, and out parameters are unwritten unless told otherwise.
//! - Pointers are never null unless the text says so.
//! - `site` is null, or a [`CallSite`] that lives as long as the process: where the caller calls from.
//! - All functions may be called from any thread and inside any callback, never unwind, and never run a callback of
//!   the caller before they return, with the exceptions that are named.

use std::ffi::c_void;

use super::calls::{
    Callback, ConnectCallback, FutureObject, IrqHandler, MessageCallback, OffloadJob, ReadyCallback, ResumeRequester,
};
use super::parts::{ChildOptions, DispatcherOptions, HandleParts, MessageParts, TxidParts};
use super::site::CallSite;
use super::types::{
    Header, Property, PropertySink, RawArena, RawChannel, RawChild, RawContext, RawDispatcher, RawIrq, RawIrqBinding,
    RawIrqTrigger, RawJoin, RawOffload, RawSocket, RawStopToken, RawTask, RawToken, RawWait, RawWakeVector, Slice, Str,
    TextSink,
};

/// Every function that a driver can call. One host has one table for all its drivers; it lives as long as the process.
///
/// New functions are added at the end, with a new [`ABI_REVISION`](super::ABI_REVISION).
#[repr(C)]
#[derive(Debug)]
pub struct Table {
    /// Version and size; checked before any other field is read.
    pub header: Header,

    // ---- Dispatchers -------------------------------------------------------------------------------------------
    /// The dispatcher whose callback runs on this thread, owned by the caller; null outside of any.
    pub dispatcher_current: unsafe extern "C" fn() -> *const RawDispatcher,
    /// Adds a reference.
    pub dispatcher_retain: unsafe extern "C" fn(dispatcher: *const RawDispatcher),
    /// Gives a reference back. Null is allowed. It does not shut the dispatcher down.
    pub dispatcher_release: unsafe extern "C" fn(dispatcher: *const RawDispatcher),
    /// Creates a dispatcher that belongs to the driver of `context`. It is shut down with the driver at the latest
    /// (between `prepare_stop` and `stop`). `out` receives an owned handle. `NotSupported`: a combination of flags that
    /// does not exist. `BadState`: the driver's dispatchers are shutting down. `NoResources`: no thread can be added.
    pub dispatcher_create: unsafe extern "C" fn(
        context: *const RawContext,
        options: *const DispatcherOptions,
        out: *mut *const RawDispatcher,
    ) -> i32,
    /// Begins to shut the dispatcher down: later posts are refused, what is pending is told `Canceled`, the observer
    /// runs last. Asynchronous; a second call does nothing.
    pub dispatcher_shutdown: unsafe extern "C" fn(dispatcher: *const RawDispatcher),
    /// Posts `task` (a pointer to the caller's copy, which is moved out on success), to run on the dispatcher with
    /// status 0, or `Canceled` at its shutdown. `deadline` is 0 (as soon as its turn comes) or a time of `clock_now`;
    /// `u64::MAX` is refused (`InvalidArgs`). `out` is null, or receives the owned right to cancel it. `BadState`: the
    /// dispatcher is shut down.
    pub dispatcher_post: unsafe extern "C" fn(
        dispatcher: *const RawDispatcher,
        task: *mut Callback,
        deadline: u64,
        out: *mut *mut RawTask,
    ) -> i32,
    /// Takes a posted task back. 0: it will not run, and its `drop` was called on this thread before the return.
    /// `NotFound`: it runs, has run, or was canceled. Does not give `task` back.
    pub task_cancel: unsafe extern "C" fn(task: *mut RawTask) -> i32,
    /// Gives up the right to cancel; the task stays posted.
    pub task_release: unsafe extern "C" fn(task: *mut RawTask),
    /// Delivers the name.
    pub dispatcher_name: unsafe extern "C" fn(dispatcher: *const RawDispatcher, sink: TextSink),
    /// 1 once the shutdown has begun, else 0.
    pub dispatcher_is_stopping: unsafe extern "C" fn(dispatcher: *const RawDispatcher) -> u32,
    /// 1 if the dispatcher's callback is what runs on this thread (innermost), else 0.
    pub dispatcher_is_current: unsafe extern "C" fn(dispatcher: *const RawDispatcher) -> u32,
    /// The flags it was created with, such as `ALLOW_SYNC_CALLS`.
    pub dispatcher_flags: unsafe extern "C" fn(dispatcher: *const RawDispatcher) -> u32,

    // ---- Futures, blocking, offloaded work ---------------------------------------------------------------------
    /// Polls `future` (moved out on success) on the dispatcher until it is complete; the first poll is not inside this
    /// call. At the shutdown of the dispatcher, or when it is canceled, it is dropped instead, on the dispatcher. `out`
    /// is null, or receives the owned right to cancel. `BadState`: the dispatcher is shut down.
    pub spawn: unsafe extern "C" fn(
        dispatcher: *const RawDispatcher,
        future: *mut FutureObject,
        out: *mut *mut RawJoin,
    ) -> i32,
    /// Asks that the future be dropped; that happens on its dispatcher, soon. No effect on a complete one.
    pub join_cancel: unsafe extern "C" fn(join: *mut RawJoin),
    /// Gives up the right to cancel; the future goes on.
    pub join_release: unsafe extern "C" fn(join: *mut RawJoin),
    /// Runs `call(data)` on this thread before it returns (the one exception to the rule above), marked as a stretch
    /// that may block. `BadState`, and not run: a dispatcher that does not allow sync calls is current. `call` must not
    /// unwind.
    pub blocking: unsafe extern "C" fn(call: unsafe extern "C" fn(data: *mut c_void), data: *mut c_void) -> i32,
    /// Runs `job` (moved out on success) on a thread of `lane`, then its `done` on the dispatcher. `out` is null, or
    /// receives the owned right to cancel. `BadState`: the dispatcher is shut down. `InvalidArgs`: no such lane.
    pub offload: unsafe extern "C" fn(
        dispatcher: *const RawDispatcher,
        lane: u32,
        job: *mut OffloadJob,
        out: *mut *mut RawOffload,
    ) -> i32,
    /// 0: `work` will not run; `done` still runs, with `Canceled`. `NotFound`: too late; work that runs now sees its
    /// stop token.
    pub offload_cancel: unsafe extern "C" fn(offload: *mut RawOffload) -> i32,
    /// Gives up the right to cancel; the work goes on.
    pub offload_release: unsafe extern "C" fn(offload: *mut RawOffload),
    /// 1 once the work should come to an end (its dispatcher shuts down, or it was canceled), else 0.
    pub stop_token_is_stopping: unsafe extern "C" fn(token: *const RawStopToken) -> u32,
    /// Blocks until the work should end (1) or `timeout_ns` has passed (0).
    pub stop_token_wait: unsafe extern "C" fn(token: *const RawStopToken, timeout_ns: u64) -> u32,

    // ---- Channels ----------------------------------------------------------------------------------------------
    /// Creates a pair of ends, both owned by the caller. `limit` is how many messages may wait in each direction; 0 for
    /// no limit.
    pub channel_create: unsafe extern "C" fn(
        limit: usize,
        site: *const CallSite,
        out_a: *mut *mut RawChannel,
        out_b: *mut *mut RawChannel,
    ) -> i32,
    /// Sends a message: its arena reference and its handles are moved on success. The peer's read callback may run
    /// before the return (an inline call). `PeerClosed`, `ShouldWait` (limit reached), `InvalidArgs` (bytes outside the
    /// arena, or a channel handle with a registered read), `NotSupported` (the end itself as a handle, or its peer, which
    /// nobody could ever read again).
    pub channel_write: unsafe extern "C" fn(channel: *mut RawChannel, message: *const MessageParts) -> i32,
    /// Takes the oldest message. `ShouldWait`: none is there. `PeerClosed`: none is there and none will come.
    pub channel_read: unsafe extern "C" fn(channel: *mut RawChannel, out: *mut MessageParts) -> i32,
    /// Frees an array of handles that a read returned, after the handles were moved out of it.
    pub handles_free: unsafe extern "C" fn(handles: *mut HandleParts, count: usize),
    /// Registers `callback` (moved out on success), to be called once on the dispatcher when a message is there (0),
    /// the peer is closed and nothing is left to read (`PeerClosed`), or the dispatcher shuts down (`Canceled`). The
    /// registration ends just before the call. `BadState`: there is a registration. `PeerClosed`: at once, the same
    /// condition. `Unavailable`: the dispatcher is shutting down.
    pub channel_begin_read: unsafe extern "C" fn(
        channel: *mut RawChannel,
        dispatcher: *const RawDispatcher,
        callback: *mut Callback,
    ) -> i32,
    /// Takes the registered callback back. 0: it will not run, and its `drop` was called on this thread before the
    /// return. `NotFound`: none was registered, or it is being called now. Either way the end has no registration
    /// afterwards. No message is lost.
    pub channel_cancel_read: unsafe extern "C" fn(channel: *mut RawChannel) -> i32,
    /// Closes the end; null is allowed. A registered callback is called with `Canceled` on its dispatcher. Handles in
    /// unread messages are closed. The peer reads what was sent, then sees `PeerClosed`.
    pub channel_close: unsafe extern "C" fn(channel: *mut RawChannel),

    // ---- Arenas ------------------------------------------------------------------------------------------------
    /// Creates an arena with room for about `size_hint` bytes before it has to grow. Null: out of memory.
    pub arena_create: unsafe extern "C" fn(size_hint: usize, site: *const CallSite) -> *const RawArena,
    /// Memory of at least `len` bytes, aligned to `align` (a power of two, at most 4096), initialised to unspecified
    /// values, valid until the last reference is given back. Never shared with another allocation. Null: out of memory.
    pub arena_alloc: unsafe extern "C" fn(arena: *const RawArena, len: usize, align: usize) -> *mut u8,
    /// Adds a reference.
    pub arena_retain: unsafe extern "C" fn(arena: *const RawArena),
    /// Gives a reference back. Null is allowed.
    pub arena_release: unsafe extern "C" fn(arena: *const RawArena),

    // ---- Sockets and descriptors -------------------------------------------------------------------------------
    /// Listens on `HOST:PORT` (0: any free port) or `unix:/path`. The host decides whether the socket is real or
    /// simulated, by the runtime that `dispatcher` belongs to. `local` receives the real address in the same form. On
    /// failure `error` receives a sentence. A Unix path on which somebody listens is `AddressInUse`; one that a dead
    /// process has left behind is replaced. Closing a Unix listener removes its path.
    pub socket_listen: unsafe extern "C" fn(
        dispatcher: *const RawDispatcher,
        address: Str,
        site: *const CallSite,
        out: *mut *mut RawSocket,
        local: TextSink,
        error: TextSink,
    ) -> i32,
    /// Takes a connection that waits; `out` receives the owned stream and `peer` its address. `ShouldWait`: none waits.
    /// `NoResources`: no descriptor is left; the connection still waits. The stream is non-blocking.
    pub socket_accept: unsafe extern "C" fn(socket: *mut RawSocket, out: *mut *mut RawSocket, peer: TextSink) -> i32,
    /// Begins to connect a stream to an address as in `socket_listen`. It becomes writable when the attempt has ended;
    /// `socket_take_error` tells how.
    pub socket_connect: unsafe extern "C" fn(
        dispatcher: *const RawDispatcher,
        address: Str,
        site: *const CallSite,
        out: *mut *mut RawSocket,
        error: TextSink,
    ) -> i32,
    /// The pending error as a status, which is cleared; 0 if there is none.
    pub socket_take_error: unsafe extern "C" fn(socket: *mut RawSocket) -> i32,
    /// Reads what is there, at most `len` bytes, never blocking. `out_read` of 0 with status 0: the other side has
    /// ended the stream. `ShouldWait`: nothing is there. `len` 0 gives 0.
    pub socket_read:
        unsafe extern "C" fn(socket: *mut RawSocket, into: *mut u8, len: usize, out_read: *mut usize) -> i32,
    /// Writes as much of the slices, in their order, as there is room for, never blocking. `ShouldWait`: no room.
    /// `PeerClosed`: the other side does not read any more (there is no signal).
    pub socket_write: unsafe extern "C" fn(
        socket: *mut RawSocket,
        slices: *const Slice,
        count: usize,
        out_written: *mut usize,
    ) -> i32,
    /// Ends one or both directions: bits of `SHUTDOWN_READ`, `SHUTDOWN_WRITE`.
    pub socket_shutdown: unsafe extern "C" fn(socket: *mut RawSocket, how: u32) -> i32,
    /// Delivers the local address, in the form of `socket_listen`.
    pub socket_local_address: unsafe extern "C" fn(socket: *mut RawSocket, sink: TextSink) -> i32,
    /// Delivers the address of the other side; a nameless Unix peer is `unix:`.
    pub socket_peer_address: unsafe extern "C" fn(socket: *mut RawSocket, sink: TextSink) -> i32,
    /// Waits once for readiness (bits of `READABLE`, `WRITABLE`); the level is checked when the wait is armed.
    /// `callback` (moved out on success) is called on the dispatcher, at its shutdown with `Canceled`. `out` is null, or
    /// receives the owned right to cancel. Any number of waits on one socket may be pending.
    pub socket_begin_wait: unsafe extern "C" fn(
        socket: *mut RawSocket,
        dispatcher: *const RawDispatcher,
        interest: u32,
        callback: *mut ReadyCallback,
        out: *mut *mut RawWait,
    ) -> i32,
    /// As `socket_begin_wait` for a descriptor, which must stay open until the wait has ended. `NotSupported`: it cannot
    /// be polled (a regular file): use `offload`.
    pub fd_begin_wait: unsafe extern "C" fn(
        fd: i32,
        dispatcher: *const RawDispatcher,
        interest: u32,
        callback: *mut ReadyCallback,
        out: *mut *mut RawWait,
    ) -> i32,
    /// Takes a wait back. 0: its callback will not run, and its `drop` was called on this thread before the return.
    /// `NotFound`: it runs, has run, or was canceled. Does not give `wait` back.
    pub wait_cancel: unsafe extern "C" fn(wait: *mut RawWait) -> i32,
    /// Gives up the right to cancel; the wait stays.
    pub wait_release: unsafe extern "C" fn(wait: *mut RawWait),
    /// Closes the socket; null is allowed. Pending waits on it are called with `Canceled`.
    pub socket_close: unsafe extern "C" fn(socket: *mut RawSocket),

    // ---- Clock -------------------------------------------------------------------------------------------------
    /// Nanoseconds on the monotonic clock of the runtime that `dispatcher` belongs to, which may be a virtual one; of
    /// the current dispatcher when it is null; of the machine when there is none.
    pub clock_now: unsafe extern "C" fn(dispatcher: *const RawDispatcher) -> u64,

    // ---- The driver instance -----------------------------------------------------------------------------------
    /// Adds a reference.
    pub context_retain: unsafe extern "C" fn(context: *const RawContext),
    /// Gives a reference back.
    pub context_release: unsafe extern "C" fn(context: *const RawContext),
    /// The default dispatcher of the driver, owned by the caller; after the end of the driver one that answers `BadState`.
    pub context_dispatcher: unsafe extern "C" fn(context: *const RawContext) -> *const RawDispatcher,
    /// Delivers the name of the instance.
    pub context_name: unsafe extern "C" fn(context: *const RawContext, sink: TextSink),
    /// Delivers the configuration as the text of one JSON object: the keys of the driver's entry, defaults filled in.
    pub context_config: unsafe extern "C" fn(context: *const RawContext, sink: TextSink),
    /// Tells the host that the driver cannot go on: it is stopped as if the user had asked, and counts as failed for
    /// this reason. With status 0 it has done its work: it is stopped likewise, and counts as not failed. Asynchronous; the
    /// first call counts.
    pub context_fail: unsafe extern "C" fn(context: *const RawContext, status: i32, message: Str),
    /// Publishes an address at which clients of the outside world reach the driver (a URL). Before the end of `start`
    /// it becomes part of the host's ready line. `BadState`: the driver is stopping.
    pub context_publish_address: unsafe extern "C" fn(context: *const RawContext, address: Str) -> i32,
    /// Writes a line to the host's log, with the name of the driver added.
    pub log: unsafe extern "C" fn(
        context: *const RawContext,
        level: u32,
        target: Str,
        message: Str,
        fields: *const Property,
        count: usize,
    ),
    /// 1 if a line of this level and target would be written, else 0.
    pub log_enabled: unsafe extern "C" fn(context: *const RawContext, level: u32, target: Str) -> u32,

    // ---- Nodes -------------------------------------------------------------------------------------------------
    /// Delivers the name of the node that the driver is bound to.
    pub node_name: unsafe extern "C" fn(context: *const RawContext, sink: TextSink),
    /// Delivers the properties of that node.
    pub node_properties: unsafe extern "C" fn(context: *const RawContext, sink: PropertySink),
    /// Connects to a service that the parent offers at this node. `callback` (moved out on success) gets the client end
    /// on the dispatcher, or `NotFound` (no such service), `Canceled` (the dispatcher shuts down), `Unavailable` (the
    /// parent is stopping).
    pub node_connect: unsafe extern "C" fn(
        context: *const RawContext,
        service: Str,
        dispatcher: *const RawDispatcher,
        callback: *mut ConnectCallback,
    ) -> i32,
    /// Adds a child of that node. Drivers are matched against it once `start` of this driver has succeeded. `out`
    /// receives the owned child. `AlreadyExists`: a sibling has the name. `BadState`: the driver is stopping. On
    /// failure `error` receives a sentence.
    pub child_add: unsafe extern "C" fn(
        context: *const RawContext,
        options: *mut ChildOptions,
        out: *mut *mut RawChild,
        error: TextSink,
    ) -> i32,
    /// Begins to remove the child: the drivers bound below it are stopped first. `callback` is null, or is moved out
    /// and called with 0 on `dispatcher` when it is gone (which may be at once for one that is gone already).
    pub child_remove:
        unsafe extern "C" fn(child: *mut RawChild, dispatcher: *const RawDispatcher, callback: *mut Callback) -> i32,
    /// Gives the child handle back; the child stays until the driver stops or it was removed.
    pub child_release: unsafe extern "C" fn(child: *mut RawChild),

    // ---- Added later -------------------------------------------------------------------------------------------
    /// Gives up, for good, what a dispatcher was created with: `flag` is `ALLOW_SYNC_CALLS`, of the dispatcher whose
    /// callback runs. `BadState`: it is not current, or shuts down. `AlreadyExists`: it was sealed before, or never allowed
    /// them. `InvalidArgs`: another flag.
    pub dispatcher_seal: unsafe extern "C" fn(dispatcher: *const RawDispatcher, flag: u32) -> i32,

    // ---- Revision 2: calls -------------------------------------------------------------------------------------
    /// As `channel_write`, for a message that answers a call: `txid` is null, or that of the request.
    pub channel_write_reply:
        unsafe extern "C" fn(channel: *mut RawChannel, message: *const MessageParts, txid: *const TxidParts) -> i32,
    /// As `channel_read`; `out_txid` receives the call that the message is the request of, `NONE` if it is of no call.
    pub channel_read_request:
        unsafe extern "C" fn(channel: *mut RawChannel, out: *mut MessageParts, out_txid: *mut TxidParts) -> i32,
    /// Sends `request` and blocks until the reply is there, which `out` receives as that of a read. `deadline` is a time
    /// of `clock_now`, or `u64::MAX` for none; one that has passed sends the request all the same. `out_sent` receives
    /// 1 if the request was sent: then its arena reference and its handles are gone, also if this fails. What
    /// `channel_write` refuses; `BadState`: this thread may not block (see `blocking`); before or after it was sent,
    /// `Canceled`: the dispatcher that this thread runs for shuts down; after it was sent, `PeerClosed` and `TimedOut`.
    pub channel_call: unsafe extern "C" fn(
        channel: *mut RawChannel,
        request: *const MessageParts,
        deadline: u64,
        out: *mut MessageParts,
        out_sent: *mut u32,
    ) -> i32,
    /// Sends `request` (moved on success, as in a write), and has `callback` (moved out on success) called once on the
    /// dispatcher with the reply, or `TimedOut` at `deadline` (as in `channel_call`, by the clock of the dispatcher),
    /// `PeerClosed`, or `Canceled` (the dispatcher shuts down, or this end is closed). `out` is null, or receives the
    /// owned right to take it back by `task_cancel`; a reply that comes later is dropped. The peer's read callback may
    /// run before the return. What `channel_write` refuses; `Unavailable`: the dispatcher is shut down.
    pub channel_begin_call: unsafe extern "C" fn(
        channel: *mut RawChannel,
        dispatcher: *const RawDispatcher,
        request: *const MessageParts,
        deadline: u64,
        callback: *mut MessageCallback,
        out: *mut *mut RawTask,
    ) -> i32,

    // ---- Revision 2: tokens ------------------------------------------------------------------------------------
    /// Creates a token, both ends owned by the caller.
    pub token_create:
        unsafe extern "C" fn(site: *const CallSite, out_a: *mut *mut RawToken, out_b: *mut *mut RawToken) -> i32,
    /// Has `callback` (moved out on success) called once on the dispatcher with the channel that the other end transfers,
    /// or has transferred; with `Canceled` when the other end is dropped first or the dispatcher shuts down. `token` is
    /// used up on success. `out` is null, or receives the owned right to take the registration back by `task_cancel`.
    /// `PeerClosed`: the other end was dropped. `BadState`: it is registered too. `Unavailable`: the dispatcher is shut
    /// down.
    pub token_register: unsafe extern "C" fn(
        token: *mut RawToken,
        dispatcher: *const RawDispatcher,
        callback: *mut ConnectCallback,
        out: *mut *mut RawTask,
    ) -> i32,
    /// Gives a channel end to whoever has the other end of the token. Both are used up on success; the callback that is
    /// registered there may run before the return. `InvalidArgs`: something is registered on the channel end, or a call is
    /// in flight. `PeerClosed`, `BadState`: as in `token_register`.
    pub token_transfer: unsafe extern "C" fn(token: *mut RawToken, channel: *mut RawChannel) -> i32,
    /// Takes the channel that the other end has transferred; `token` is used up on success. `NotFound`: nothing is
    /// transferred yet. `PeerClosed`: nothing will be. `BadState`: the other end waits for a channel too.
    pub token_receive: unsafe extern "C" fn(token: *mut RawToken, out: *mut *mut RawChannel) -> i32,
    /// Gives the end up; null is allowed. A callback that is registered at the other end is called with `Canceled`.
    pub token_release: unsafe extern "C" fn(token: *mut RawToken),

    // ---- Revision 2: irqs --------------------------------------------------------------------------------------
    /// Creates an irq of the sort that the dispatcher can wait for, real or simulated, and what triggers it; both are
    /// owned by the caller. `NoResources`: no descriptor is left.
    pub irq_create: unsafe extern "C" fn(
        dispatcher: *const RawDispatcher,
        site: *const CallSite,
        out: *mut *mut RawIrq,
        out_trigger: *mut *mut RawIrqTrigger,
    ) -> i32,
    /// Creates an irq over a descriptor, which is the irq's on success: it triggers while the descriptor is readable.
    /// `BadHandle`: it is none.
    pub irq_over_fd: unsafe extern "C" fn(fd: i32, site: *const CallSite, out: *mut *mut RawIrq) -> i32,
    /// Binds `handler` (moved out on success): it is called on the dispatcher for each trigger until it is unbound, and
    /// once with `Canceled` when the dispatcher shuts down first. `out` receives the owned binding, which may be released
    /// at once. `AlreadyExists`: the irq is bound. `BadState`: the dispatcher is shut down. `NotSupported`: its
    /// descriptor cannot be polled here.
    pub irq_bind: unsafe extern "C" fn(
        irq: *mut RawIrq,
        dispatcher: *const RawDispatcher,
        handler: *mut IrqHandler,
        out: *mut *mut RawIrqBinding,
    ) -> i32,
    /// Gives the irq up; null is allowed. A binding of it stays.
    pub irq_release: unsafe extern "C" fn(irq: *mut RawIrq),
    /// Triggers the irq; never calls its handler before the return.
    pub irq_trigger: unsafe extern "C" fn(trigger: *mut RawIrqTrigger),
    /// Gives the right to trigger up; null is allowed.
    pub irq_trigger_release: unsafe extern "C" fn(trigger: *mut RawIrqTrigger),
    /// Acknowledges the last trigger. `BadState`: there is nothing to acknowledge. `NotFound`: the irq is not bound any
    /// more.
    pub irq_ack: unsafe extern "C" fn(binding: *mut RawIrqBinding) -> i32,
    /// Ends the binding: no call of the handler begins any more. Its `drop` was called on this thread before the return,
    /// or will be when the call returns that is running; `out_running` receives 1 then, else 0. `NotFound`: it has ended.
    pub irq_unbind: unsafe extern "C" fn(binding: *mut RawIrqBinding, out_running: *mut u32) -> i32,
    /// Gives the binding handle up; the irq stays bound. Null is allowed.
    pub irq_binding_release: unsafe extern "C" fn(binding: *mut RawIrqBinding),

    // ---- Revision 2: suspend and resume ------------------------------------------------------------------------
    /// A handle to the same dispatcher, owned by the caller, by which callbacks run also while their driver is suspended.
    pub dispatcher_always_on: unsafe extern "C" fn(dispatcher: *const RawDispatcher) -> *const RawDispatcher,
    /// Suspends the driver: its callbacks are parked until it is resumed, but for those that were accepted by an
    /// always-on view. `callback` (moved out on success) is called once, with 0 when none executes any more, with
    /// `Canceled` when the driver was resumed first. A driver that is stopped is resumed first. `AlreadyExists`: it is
    /// suspended. `BadState`: it shuts down.
    pub context_suspend: unsafe extern "C" fn(context: *const RawContext, callback: *mut Callback) -> i32,
    /// Resumes the driver; 1 if it was suspended, else 0. What wake vectors told runs first, then what was parked.
    pub context_resume: unsafe extern "C" fn(context: *const RawContext) -> u32,
    /// 1 if the driver is suspended or about to be, else 0.
    pub context_is_suspended: unsafe extern "C" fn(context: *const RawContext) -> u32,
    /// Has `requester` (null, or moved out) called whenever a wake vector is ready while the driver is suspended, in place
    /// of the one before; at once, if that has happened already. It is kept until the driver has shut down.
    pub context_set_resume_requester:
        unsafe extern "C" fn(context: *const RawContext, requester: *mut ResumeRequester) -> i32,
    /// Makes an irq a wake vector of the driver: a trigger of it, while the driver is suspended, calls the requester, and
    /// its handler is the first to run after the resume. `out` receives the owned registration. `BadState`: the driver is
    /// suspended, or shuts down.
    pub context_add_wake_vector:
        unsafe extern "C" fn(context: *const RawContext, irq: *mut RawIrq, out: *mut *mut RawWakeVector) -> i32,
    /// Takes the registration back; null is allowed.
    pub wake_vector_release: unsafe extern "C" fn(vector: *mut RawWakeVector),

    // ---- Revision 3: wake vectors on sockets -------------------------------------------------------------------
    /// Makes a socket a wake vector of the driver, for bits of `READABLE`, `WRITABLE`: a wait on it that comes to pass while
    /// the driver is suspended calls the requester, and its callback is the first to run after the resume. That goes for
    /// waits that are pending already, too. `out` receives the owned registration, which does not keep the socket open.
    /// `InvalidArgs`: no bit. `BadState`: the driver is suspended, or shuts down.
    pub context_add_socket_wake_vector: unsafe extern "C" fn(
        context: *const RawContext,
        socket: *mut RawSocket,
        interest: u32,
        out: *mut *mut RawWakeVector,
    ) -> i32,
}
