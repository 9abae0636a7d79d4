//! For hosts: owners for the structs that drivers hand over.
//!
//! Each owner ends what it holds exactly once: by its method, or by `Drop`. A panic that the driver's side caught and
//! reported is raised again here, with the message as a `String` payload and without a second run of the panic hook,
//! so that the host's runtime sees it where it sees every other panic.
//!
//! # Invariants
//! - An owner is made only from a struct that its maker owns (the `unsafe` constructors ask for that promise), and
//!   leaves its struct only through the one call that ends it.
//! - `HostFuture` is polled through `&mut` only, so never on two threads at once.

use std::ffi::c_void;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::calls::{
    Callback, Completion, ConnectCallback, Connector, FutureObject, HookResult, IrqHandler, MessageCallback,
    OffloadJob, POLL_PENDING, POLL_READY, ReadyCallback, ResumeRequester, WakerObject, WakerOps,
};
use super::entry::DriverEntry;
use super::parts::MessageParts;
use super::site::CallSite;
use super::table::Table;
use super::types::{OK, Panic, PropertySink, RawChannel, RawContext, RawDispatcher, RawStopToken, Str, TextSink};
use crate::{Channel, DriverContext, Status};

/// Raises a reported panic on this side; null is no panic. A thread that is panicking already only frees the report.
pub(super) fn raise(panic: *mut Panic) {
    if panic.is_null() {
        return;
    }
    // SAFETY: a non-null report is owned by its receiver and valid until `free`.
    let message = unsafe { (*panic).message.to_text() };
    // SAFETY: freed once, here; the message was copied.
    unsafe { ((*panic).free)(panic) };
    if !std::thread::panicking() {
        resume_unwind(Box::new(message));
    }
}

macro_rules! owner {
    ($(#[$doc:meta])* $name:ident owns $raw:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(ManuallyDrop<$raw>);

        impl $name {
            /// Takes ownership of what a driver passed to a table function, by moving it out of the driver's copy.
            ///
            /// # Safety
            /// `raw` points to a valid struct that the caller of the table function owns; the table function must
            /// return success, and nobody else may move the struct out.
            pub unsafe fn take(raw: *mut $raw) -> Self {
                // SAFETY: the caller vouches for the pointer and for being the only one who moves it out.
                Self(ManuallyDrop::new(unsafe { ptr::read(raw) }))
            }

            /// Where the driver says that it comes from; null if it does not.
            pub fn site(&self) -> *const CallSite {
                self.0.site
            }

            /// Gives the struct back without ending it, for a table function that fails after all: the caller of the
            /// function still has its copy. (An owner inside a closure that was refused goes the same way with
            /// [`std::mem::forget`] of the closure, which must then hold nothing else.)
            pub fn give_back(self) {
                std::mem::forget(self);
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                // SAFETY: the methods that end the struct forget `self`, so it has not ended yet.
                raise(unsafe { (self.0.drop)(self.0.data) });
            }
        }
    };
}

owner! {
    /// A task, a read callback or an observer.
    HostCallback owns Callback
}
owner! {
    /// A callback that waits for readiness.
    HostReadyCallback owns ReadyCallback
}
owner! {
    /// A callback that waits for a connection to a service.
    HostConnectCallback owns ConnectCallback
}
owner! {
    /// A callback that waits for the reply to a call.
    HostMessageCallback owns MessageCallback
}
owner! {
    /// A handler of an irq. Called through `&mut`, so never on two threads at once; dropped once.
    HostIrqHandler owns IrqHandler
}
owner! {
    /// Who asks for a resume. Shared by reference; dropped once.
    HostResumeRequester owns ResumeRequester
}
owner! {
    /// A connector of a service. Shared by reference; dropped once.
    HostConnector owns Connector
}
owner! {
    /// Work for a lane. `work` first (or not at all), then `done`.
    HostOffload owns OffloadJob
}
owner! {
    /// A future of a driver. Dropping it drops the driver's future: do that on its dispatcher.
    HostFuture owns FutureObject
}

impl HostCallback {
    /// Runs it.
    ///
    /// # Panics
    /// If the driver's closure did.
    pub fn call(self, status: Result<(), Status>) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so this is the one end of the struct.
        raise(unsafe { (this.0.call)(this.0.data, raw_status(status)) });
    }
}

impl HostReadyCallback {
    /// Runs it with the bits that are ready.
    ///
    /// # Panics
    /// If the driver's closure did.
    pub fn call(self, ready: Result<u32, Status>) {
        let this = ManuallyDrop::new(self);
        let (status, bits) = match ready {
            Ok(bits) => (OK, bits),
            Err(status) => (status.as_raw(), 0),
        };
        // SAFETY: `this` is never dropped, so this is the one end of the struct.
        raise(unsafe { (this.0.call)(this.0.data, status, bits) });
    }
}

impl HostConnectCallback {
    /// Runs it with an owned channel end, which passes to the driver.
    ///
    /// # Panics
    /// If the driver's closure did.
    ///
    /// # Safety
    /// The channel is owned by the caller, who gives it up.
    pub unsafe fn call(self, channel: Result<*mut RawChannel, Status>) {
        let this = ManuallyDrop::new(self);
        let (status, end) = match channel {
            Ok(end) => (OK, end),
            Err(status) => (status.as_raw(), ptr::null_mut()),
        };
        // SAFETY: `this` is never dropped, so this is the one end of the struct.
        raise(unsafe { (this.0.call)(this.0.data, status, end) });
    }
}

impl HostMessageCallback {
    /// Runs it with the parts of a message, which pass to the driver.
    ///
    /// # Panics
    /// If the driver's closure did.
    ///
    /// # Safety
    /// The parts are those of a message that is owned by the caller, who gives it up.
    pub unsafe fn call(self, message: Result<MessageParts, Status>) {
        let this = ManuallyDrop::new(self);
        let (status, mut parts) = match message {
            Ok(parts) => (OK, Some(parts)),
            Err(status) => (status.as_raw(), None),
        };
        let parts = parts.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: `this` is never dropped, so this is the one end of the struct.
        raise(unsafe { (this.0.call)(this.0.data, status, parts) });
    }
}

impl HostIrqHandler {
    /// Runs it for a trigger, of so many and with these bits; `acknowledge` is called if it has acknowledged, also if it
    /// panicked after that.
    ///
    /// # Panics
    /// If the driver's closure did.
    pub fn trigger(&mut self, count: u64, ready: u32, acknowledge: impl FnOnce()) {
        let mut acknowledged = 0;
        // SAFETY: the struct has not ended: only `Drop` ends it. The out pointer is valid for the call.
        let panic = unsafe { (self.0.call)(self.0.data, OK, count, ready, &raw mut acknowledged) };
        if acknowledged != 0 {
            acknowledge();
        }
        raise(panic);
    }

    /// Tells it that the binding has ended by itself.
    ///
    /// # Panics
    /// If the driver's closure did.
    pub fn end(&mut self, status: Status) {
        // SAFETY: as in `trigger`.
        raise(unsafe { (self.0.call)(self.0.data, status.as_raw(), 0, 0, ptr::null_mut()) });
    }
}

impl HostResumeRequester {
    /// Runs it.
    ///
    /// # Panics
    /// If the driver's closure did.
    pub fn call(&self) {
        // SAFETY: the struct has not ended: only `Drop` ends it.
        raise(unsafe { (self.0.call)(self.0.data) });
    }
}

impl HostConnector {
    /// Hands an owned channel end to the driver.
    ///
    /// # Panics
    /// If the driver's closure did.
    ///
    /// # Safety
    /// `channel` is owned by the caller, who gives it up.
    pub unsafe fn accept(&self, channel: *mut RawChannel) {
        // SAFETY: the struct has not ended: only `Drop` ends it. The caller vouches for the channel.
        raise(unsafe { (self.0.accept)(self.0.data, channel) });
    }
}

impl HostOffload {
    /// Runs the work, on the lane. At most once: a second call does nothing on the driver's side.
    ///
    /// # Safety
    /// `stop` stays valid for the call.
    pub unsafe fn work(&mut self, stop: *const RawStopToken) {
        // SAFETY: the struct has not ended: `done` and `Drop` consume `self`. The caller vouches for the token.
        unsafe { (self.0.work)(self.0.data, stop) };
    }

    /// Runs what follows, on the dispatcher.
    ///
    /// # Panics
    /// If the driver's closure did.
    pub fn done(self, status: Result<(), Status>) {
        let this = ManuallyDrop::new(self);
        // SAFETY: `this` is never dropped, so this is the one end of the struct.
        raise(unsafe { (this.0.done)(this.0.data, raw_status(status)) });
    }
}

/// Polls the driver's future. The waker it sees is a reference-counted object that is made at the first poll and kept
/// for as long as the host polls with the same waker.
#[derive(Debug)]
pub struct HostTask {
    waker: Option<Arc<HostWaker>>,
    future: HostFuture,
}

impl HostFuture {
    /// The future as one that Rust executors poll.
    pub fn into_task(self) -> HostTask {
        HostTask { waker: None, future: self }
    }
}

impl Future for HostTask {
    type Output = ();

    /// # Panics
    /// If the driver's future did; it must not be polled again.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = match self.waker.take() {
            Some(waker) if waker.waker.will_wake(cx.waker()) => waker,
            _ => Arc::new(HostWaker { head: WakerObject { ops: &WAKER_OPS }, waker: cx.waker().clone() }),
        };
        let object = Arc::as_ptr(&waker).cast::<WakerObject>();
        // SAFETY: the future has not ended: only `Drop` ends it. `object` stays valid for the call: `waker` holds it.
        let polled = unsafe { (self.future.0.poll)(self.future.0.data, object) };
        self.waker = Some(waker);
        raise(polled.panic);
        match polled.state {
            POLL_PENDING => Poll::Pending,
            POLL_READY => Poll::Ready(()),
            _ => resume_unwind(Box::new(String::from("a future panicked"))),
        }
    }
}

/// A waker of the host as drivers see it.
#[repr(C)]
#[derive(Debug)]
struct HostWaker {
    head: WakerObject,
    waker: Waker,
}

static WAKER_OPS: WakerOps =
    WakerOps { clone: waker_clone, wake: waker_wake, wake_by_ref: waker_wake_by_ref, drop: waker_drop };

unsafe extern "C" fn waker_clone(object: *const WakerObject) -> *const WakerObject {
    // SAFETY: `object` came from `Arc::as_ptr` or from here, and the caller holds or borrows a reference.
    unsafe { Arc::increment_strong_count(object.cast::<HostWaker>()) };
    object
}

unsafe extern "C" fn waker_wake(object: *const WakerObject) {
    // SAFETY: the caller gives its reference up.
    let waker = unsafe { Arc::from_raw(object.cast::<HostWaker>()) };
    waker.waker.wake_by_ref();
}

unsafe extern "C" fn waker_wake_by_ref(object: *const WakerObject) {
    // SAFETY: the caller holds or borrows a reference for the duration of the call.
    unsafe { &*object.cast::<HostWaker>() }.waker.wake_by_ref();
}

unsafe extern "C" fn waker_drop(object: *const WakerObject) {
    // SAFETY: the caller gives its reference up.
    drop(unsafe { Arc::from_raw(object.cast::<HostWaker>()) });
}

impl TextSink {
    /// Delivers `text` to whoever asked for it.
    ///
    /// # Safety
    /// The sink was passed to the table function that is running, and nothing was delivered to it yet.
    pub unsafe fn deliver(&self, text: &str) {
        if let Some(put) = self.put {
            // SAFETY: the sink is valid for the call of the table function, and the text for this call.
            unsafe { put(self.data, Str::new(text)) };
        }
    }
}

impl PropertySink {
    /// Delivers one pair.
    ///
    /// # Safety
    /// The sink was passed to the table function that is running.
    pub unsafe fn deliver(&self, key: &str, value: &str) {
        // SAFETY: the sink is valid for the call of the table function, and the strings for this call.
        unsafe { (self.put)(self.data, Str::new(key), Str::new(value)) };
    }
}

/// A driver value that `start` made, until [`DriverEntry::stop`] or [`DriverEntry::destroy`] consumes it. It has no
/// destructor of its own: one that is lost is leaked.
#[derive(Debug)]
#[must_use = "an instance that is lost is leaked"]
pub struct Instance(*mut c_void);

// SAFETY: a driver is `Send + Sync`, and the C contract asks the same of drivers in other languages.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

/// Why a hook failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookFailure {
    /// The status that the hook gave; `Internal` for a panic.
    pub status: Status,
    /// The reason in a sentence.
    pub message: String,
    /// Whether the hook panicked.
    pub panicked: bool,
}

/// What is called, once, at the end of a hook.
pub type HookDone<T> = Box<dyn FnOnce(Result<T, HookFailure>) + Send>;

impl DriverEntry {
    /// Calls the start hook; `done` learns its end, on any thread, once.
    ///
    /// # Safety
    /// `table` lives for ever; `context` and `dispatcher` are valid for the call; the entry's header was checked.
    pub unsafe fn start(
        &self,
        table: *const Table,
        context: *const RawContext,
        dispatcher: *const RawDispatcher,
        done: HookDone<Instance>,
    ) {
        let completion = Completion { data: Box::into_raw(Box::new(done)).cast(), done: start_done };
        // SAFETY: the caller vouches for the arguments; the completion is a boxed `HookDone<Instance>`.
        unsafe { (self.start)(self, table, context, dispatcher, completion) };
    }

    /// Calls the hook that precedes the shutdown of the driver's dispatchers.
    ///
    /// # Safety
    /// `instance` came from this entry; `dispatcher` is valid for the call.
    pub unsafe fn prepare_stop(&self, instance: &Instance, dispatcher: *const RawDispatcher, done: HookDone<()>) {
        let completion = Completion { data: Box::into_raw(Box::new(done)).cast(), done: stop_done };
        // SAFETY: the caller vouches for the arguments; the completion is a boxed `HookDone<()>`.
        unsafe { (self.prepare_stop)(self, instance.0, dispatcher, completion) };
    }

    /// Calls the last hook, which consumes the instance.
    ///
    /// # Safety
    /// `instance` came from this entry and its `prepare_stop` (if it was called) has ended or its future was dropped;
    /// `dispatcher` is valid for the call.
    pub unsafe fn stop(&self, instance: Instance, dispatcher: *const RawDispatcher, done: HookDone<()>) {
        let completion = Completion { data: Box::into_raw(Box::new(done)).cast(), done: stop_done };
        // SAFETY: the caller vouches for the arguments; the completion is a boxed `HookDone<()>`.
        unsafe { (self.stop)(self, instance.0, dispatcher, completion) };
    }

    /// Drops the instance without calling its stop hook.
    ///
    /// # Panics
    /// If the driver's destructor did.
    ///
    /// # Safety
    /// `instance` came from this entry, and its `prepare_stop` (if it was called) has ended or its future was dropped.
    pub unsafe fn destroy(&self, instance: Instance) {
        // SAFETY: the caller vouches for the instance, which is given up here.
        raise(unsafe { (self.destroy)(instance.0) });
    }
}

unsafe extern "C" fn start_done(data: *mut c_void, result: *const HookResult) {
    // SAFETY: `data` is the box that `start` made, and a completion is called once.
    let done = unsafe { Box::from_raw(data.cast::<HookDone<Instance>>()) };
    // SAFETY: the result is borrowed for the call.
    let result = unsafe { &*result };
    done(outcome(result).map(|()| Instance(result.instance)));
}

unsafe extern "C" fn stop_done(data: *mut c_void, result: *const HookResult) {
    // SAFETY: `data` is the box that `prepare_stop` or `stop` made, and a completion is called once.
    let done = unsafe { Box::from_raw(data.cast::<HookDone<()>>()) };
    // SAFETY: the result is borrowed for the call.
    done(outcome(unsafe { &*result }));
}

fn outcome(result: &HookResult) -> Result<(), HookFailure> {
    Status::result_of(result.status).map_err(|status| HookFailure {
        status,
        // SAFETY: the message is borrowed for the call of the completion, in which this runs.
        message: unsafe { result.message.to_text() },
        panicked: result.panicked != 0,
    })
}

/// An end of a channel as the pointer that its host knows it by; it is the caller's.
pub fn channel_into_raw(channel: Channel) -> *mut RawChannel {
    channel.into_object().into_raw()
}

/// The context of a driver as the pointer that its host knows it by; it stays the caller's.
pub fn context_as_raw(context: &DriverContext) -> *const RawContext {
    context.object().raw()
}

/// The number of an outcome.
pub fn raw_status(status: Result<(), Status>) -> i32 {
    match status {
        Ok(()) => OK,
        Err(status) => status.as_raw(),
    }
}
