//! A host in one thread for the tests of this crate: run queue, timers, channels, arenas and sockets in memory, virtual
//! time. It keeps to the contract of the table and is written against nothing else, so what works here works with every
//! host that keeps to it.
//!
//! # Invariants
//! - Dispatchers, channels, arenas, sockets, contexts and children are `Arc`s as raw pointers; tickets and waits are
//!   boxes. Each pointer given out is one reference, and the function that is named for it takes it back.

mod channel;
mod context;
mod dispatcher;
mod refusals;
mod socket;
mod world;

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

pub(crate) use self::context::FakeChild;
use self::context::FakeContext;
use self::world::{FakeDispatcher, World};
use super::host::{HookFailure, Instance};
use super::objects::DispatcherObject;
use super::table::Table;
use super::types::{Header, RawContext, RawDispatcher};
use super::{DriverEntry, attach};
use crate::{Dispatcher, Status};
pub(crate) use socket::CAPACITY;

static TABLE: Table = Table {
    header: Header::of::<Table>(),
    dispatcher_current: dispatcher::dispatcher_current,
    dispatcher_retain: dispatcher::dispatcher_retain,
    dispatcher_release: dispatcher::dispatcher_release,
    dispatcher_create: context::dispatcher_create,
    dispatcher_shutdown: dispatcher::dispatcher_shutdown,
    dispatcher_post: dispatcher::dispatcher_post,
    task_cancel: dispatcher::task_cancel,
    task_release: dispatcher::task_release,
    dispatcher_name: dispatcher::dispatcher_name,
    dispatcher_is_stopping: dispatcher::dispatcher_is_stopping,
    dispatcher_is_current: dispatcher::dispatcher_is_current,
    dispatcher_flags: dispatcher::dispatcher_flags,
    spawn: dispatcher::spawn,
    join_cancel: dispatcher::join_cancel,
    join_release: dispatcher::join_release,
    blocking: dispatcher::blocking,
    offload: dispatcher::offload,
    offload_cancel: dispatcher::offload_cancel,
    offload_release: dispatcher::offload_release,
    stop_token_is_stopping: dispatcher::stop_token_is_stopping,
    stop_token_wait: dispatcher::stop_token_wait,
    channel_create: channel::channel_create,
    channel_write: channel::channel_write,
    channel_read: channel::channel_read,
    handles_free: channel::handles_free,
    channel_begin_read: channel::channel_begin_read,
    channel_cancel_read: channel::channel_cancel_read,
    channel_close: channel::channel_close,
    arena_create: channel::arena_create,
    arena_alloc: channel::arena_alloc,
    arena_retain: channel::arena_retain,
    arena_release: channel::arena_release,
    socket_listen: socket::socket_listen,
    socket_accept: socket::socket_accept,
    socket_connect: socket::socket_connect,
    socket_take_error: socket::socket_take_error,
    socket_read: socket::socket_read,
    socket_write: socket::socket_write,
    socket_shutdown: socket::socket_shutdown,
    socket_local_address: socket::socket_local_address,
    socket_peer_address: socket::socket_peer_address,
    socket_begin_wait: socket::socket_begin_wait,
    fd_begin_wait: socket::fd_begin_wait,
    wait_cancel: socket::wait_cancel,
    wait_release: socket::wait_release,
    socket_close: socket::socket_close,
    clock_now: dispatcher::clock_now,
    context_retain: context::context_retain,
    context_release: context::context_release,
    context_dispatcher: context::context_dispatcher,
    context_name: context::context_name,
    context_config: context::context_config,
    context_fail: context::context_fail,
    context_publish_address: context::context_publish_address,
    log: context::log,
    log_enabled: context::log_enabled,
    node_name: context::node_name,
    node_properties: context::node_properties,
    node_connect: context::node_connect,
    child_add: context::child_add,
    child_remove: context::child_remove,
    child_release: context::child_release,
    dispatcher_seal: dispatcher::dispatcher_seal,
    channel_write_reply: refusals::channel_write_reply,
    channel_read_request: refusals::channel_read_request,
    channel_call: refusals::channel_call,
    channel_begin_call: refusals::channel_begin_call,
    token_create: refusals::token_create,
    token_register: refusals::token_register,
    token_transfer: refusals::token_transfer,
    token_receive: refusals::token_receive,
    token_release: refusals::token_release,
    irq_create: refusals::irq_create,
    irq_over_fd: refusals::irq_over_fd,
    irq_bind: refusals::irq_bind,
    irq_release: refusals::irq_release,
    irq_trigger: refusals::irq_trigger,
    irq_trigger_release: refusals::irq_trigger_release,
    irq_ack: refusals::irq_ack,
    irq_unbind: refusals::irq_unbind,
    irq_binding_release: refusals::irq_binding_release,
    dispatcher_always_on: refusals::dispatcher_always_on,
    context_suspend: refusals::context_suspend,
    context_resume: refusals::context_resume,
    context_is_suspended: refusals::context_is_suspended,
    context_set_resume_requester: refusals::context_set_resume_requester,
    context_add_wake_vector: refusals::context_add_wake_vector,
    wake_vector_release: refusals::wake_vector_release,
    context_add_socket_wake_vector: refusals::context_add_socket_wake_vector,
};

/// The object behind a borrowed pointer.
///
/// # Safety
/// The pointer was given out for a `T` and its object is alive for as long as the result is used.
unsafe fn lend<'a, T, R>(pointer: impl Into<Pointer<R>>) -> &'a T {
    // SAFETY: the caller vouches for the pointer.
    unsafe { &*pointer.into().0.cast::<T>() }
}

/// A further reference to the `Arc` behind a borrowed pointer.
///
/// # Safety
/// As [`lend`], and the object is in an `Arc`.
unsafe fn share<T, R>(pointer: *const R) -> Arc<T> {
    // SAFETY: the caller vouches for the pointer.
    unsafe { Arc::increment_strong_count(pointer.cast::<T>()) };
    // SAFETY: the reference was added just now.
    unsafe { Arc::from_raw(pointer.cast::<T>()) }
}

/// Lets `lend` take both kinds of pointer.
struct Pointer<R>(*const R);

impl<R> From<*const R> for Pointer<R> {
    fn from(pointer: *const R) -> Self {
        Pointer(pointer)
    }
}

impl<R> From<*mut R> for Pointer<R> {
    fn from(pointer: *mut R) -> Self {
        Pointer(pointer)
    }
}

thread_local! {
    /// Objects that were made on this thread, to find those that are left at the end of a test.
    static WATCHED: RefCell<Vec<Weak<dyn Any + Send + Sync>>> = const { RefCell::new(Vec::new()) };
}

fn watch<T: Any + Send + Sync>(object: &Arc<T>) {
    let weak: Weak<T> = Arc::downgrade(object);
    WATCHED.with_borrow_mut(|list| list.push(weak));
}

/// The host of one test.
pub(crate) struct FakeHost {
    world: Arc<World>,
    /// The dispatcher on which `stop` hooks run.
    own: Arc<FakeDispatcher>,
}

impl FakeHost {
    pub(crate) fn new() -> FakeHost {
        // SAFETY: the table is a static.
        unsafe { attach(&TABLE) }.expect("all tests use the same table");
        let world = Arc::new(World::default());
        let own = FakeDispatcher::new(&world, "host", 0, None);
        FakeHost { world, own }
    }

    /// A dispatcher outside of any driver.
    pub(crate) fn dispatcher(&self, name: &str) -> Dispatcher {
        self.dispatcher_with(name, 0)
    }

    pub(crate) fn dispatcher_with(&self, name: &str, flags: u32) -> Dispatcher {
        let dispatcher = FakeDispatcher::new(&self.world, name, flags, None);
        // SAFETY: the pointer carries the one reference.
        Dispatcher::from_object(unsafe { DispatcherObject::from_owned(Arc::into_raw(dispatcher).cast()) })
    }

    /// Turns the crank until nothing is left to do now.
    pub(crate) fn run(&self) {
        while self.world.step() {}
    }

    /// Turns the crank once.
    pub(crate) fn step(&self) -> bool {
        self.world.step()
    }

    /// Lets time pass, timer by timer.
    pub(crate) fn advance(&self, duration: Duration) {
        let end = self.world.now() + u64::try_from(duration.as_nanos()).expect("a test is short");
        self.run();
        while self.world.skip_to_timer() && self.world.now() <= end {
            self.run();
        }
        self.world.advance_to(end);
        self.run();
    }

    /// Runs a future to its end on a dispatcher of its own, with time passing as needed.
    ///
    /// # Panics
    /// If it can get no further.
    #[track_caller]
    pub(crate) fn block_on<F>(&self, future: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let slot = Arc::new(Mutex::new(None));
        let filled = Arc::clone(&slot);
        let dispatcher = self.dispatcher("block_on");
        let handle = dispatcher.spawn(async move {
            let output = future.await;
            *filled.lock().expect("no panic under the lock") = Some(output);
        });
        drop(handle.expect("the dispatcher is new"));
        loop {
            self.run();
            let output = slot.lock().expect("no panic under the lock").take();
            if let Some(output) = output {
                return output;
            }
            if !self.world.skip_to_timer() {
                panic!("the future waits and nothing will wake it; panics: {:?}", self.panics());
            }
        }
    }

    /// The panics that driver code reported since the last look.
    pub(crate) fn panics(&self) -> Vec<String> {
        self.world.panics()
    }

    /// How many channels, arenas and sockets made on this thread are left.
    pub(crate) fn objects_left(&self) -> usize {
        WATCHED.with_borrow(|list| list.iter().filter(|weak| weak.strong_count() > 0).count())
    }

    /// How many timers are armed.
    pub(crate) fn timers_left(&self) -> usize {
        self.world.timers()
    }

    /// Makes the next accept on a listener fail.
    pub(crate) fn refuse_next_accept(&self, address: &str, status: Status) {
        let listener = self.world.net.lock().expect("no panic under the lock").get(address).cloned();
        listener.expect("somebody listens there").refuse_next(status);
    }

    /// Starts an instance of a driver on `parent` (or on the root) and turns the crank.
    pub(crate) fn start(&self, entry: &DriverEntry, config: &str, parent: Option<&Arc<FakeChild>>) -> FakeDriver<'_> {
        entry.check().expect("entry and host are of one build");
        let context = FakeContext::new(&self.world, entry.name(), config, parent.cloned());
        let started = Arc::new(Mutex::new(None));
        let told = Arc::clone(&started);
        let done = Box::new(move |result| *told.lock().expect("no panic under the lock") = Some(result));
        let raw_context: *const RawContext = Arc::as_ptr(&context).cast();
        let dispatcher: *const RawDispatcher = Arc::as_ptr(&context.dispatcher).cast();
        // SAFETY: the table is a static, the pointers live for the call, the entry was checked.
        unsafe { entry.start(&raw const TABLE, raw_context, dispatcher, done) };
        self.run();
        FakeDriver { host: self, entry: *entry, context, started, instance: None }
    }
}

impl Drop for FakeHost {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.world.end();
        }
    }
}

type Outcome<T> = Arc<Mutex<Option<Result<T, HookFailure>>>>;

/// An instance of a driver.
pub(crate) struct FakeDriver<'a> {
    host: &'a FakeHost,
    entry: DriverEntry,
    context: Arc<FakeContext>,
    started: Outcome<Instance>,
    instance: Option<Instance>,
}

impl FakeDriver<'_> {
    /// How `start` ended; `None` while it runs.
    pub(crate) fn started(&mut self) -> Option<Result<(), HookFailure>> {
        let result = self.started.lock().expect("no panic under the lock").take()?;
        Some(result.map(|instance| self.instance = Some(instance)))
    }

    pub(crate) fn prepare_stop(&mut self) -> Option<Result<(), HookFailure>> {
        self.started();
        let instance = self.instance.as_ref().expect("the driver has started");
        let (outcome, done) = outcome();
        let dispatcher: *const RawDispatcher = Arc::as_ptr(&self.context.dispatcher).cast();
        // SAFETY: the instance came from the entry; the dispatcher lives for the call.
        unsafe { self.entry.prepare_stop(instance, dispatcher, done) };
        self.host.run();
        outcome.lock().expect("no panic under the lock").take()
    }

    /// Shuts the dispatchers down and turns the crank.
    pub(crate) fn shutdown(&self) {
        self.context.shutdown();
        self.host.run();
        assert!(self.context.is_shut_down(), "nothing that was accepted is left after the shutdown");
    }

    pub(crate) fn stop(&mut self) -> Option<Result<(), HookFailure>> {
        let instance = self.instance.take().expect("the driver has started and not been stopped");
        let (outcome, done) = outcome();
        let dispatcher: *const RawDispatcher = Arc::as_ptr(&self.host.own).cast();
        // SAFETY: the instance came from the entry; the dispatcher lives for the call.
        unsafe { self.entry.stop(instance, dispatcher, done) };
        self.host.run();
        outcome.lock().expect("no panic under the lock").take()
    }

    /// Drops the instance without its hooks; a panic of its destructor is noted.
    pub(crate) fn destroy(&mut self) {
        let instance = self.instance.take().expect("the driver has started and not been stopped");
        // SAFETY: the instance came from the entry.
        self.host.own.within(|| unsafe { self.entry.destroy(instance) });
    }

    /// The whole way down, in the order of the contract.
    #[track_caller]
    pub(crate) fn stop_in_order(&mut self) {
        self.context.remove_children();
        assert_eq!(self.prepare_stop(), Some(Ok(())));
        self.shutdown();
        assert_eq!(self.stop(), Some(Ok(())));
    }

    pub(crate) fn child(&self, name: &str) -> Option<Arc<FakeChild>> {
        self.context.children().into_iter().find(|child| child.name == name)
    }

    pub(crate) fn addresses(&self) -> Vec<String> {
        self.context.addresses()
    }

    pub(crate) fn failure(&self) -> Option<(Status, String)> {
        self.context.end().and_then(Result::err)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.context.end() == Some(Ok(()))
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.context.lines()
    }

    pub(crate) fn dispatcher(&self) -> Dispatcher {
        let dispatcher = Arc::clone(&self.context.dispatcher);
        // SAFETY: the pointer carries the reference that was added just now.
        Dispatcher::from_object(unsafe { DispatcherObject::from_owned(Arc::into_raw(dispatcher).cast()) })
    }
}

type Done = Box<dyn FnOnce(Result<(), HookFailure>) + Send>;

fn outcome() -> (Outcome<()>, Done) {
    let outcome: Outcome<()> = Arc::default();
    let told = Arc::clone(&outcome);
    (outcome, Box::new(move |result| *told.lock().expect("no panic under the lock") = Some(result)))
}

#[test]
fn a_second_host_or_a_host_of_another_build_is_refused_by_start() {
    struct Idle;
    impl crate::Driver for Idle {
        const NAME: &'static str = "idle";
        async fn start(_cx: crate::DriverContext) -> Result<Self, crate::StartError> {
            Ok(Idle)
        }
    }
    let host = FakeHost::new();
    let entry = DriverEntry::of::<Idle>();
    let start_with = |change: fn(&mut Table)| {
        // SAFETY: a table is plain data.
        let mut table = Box::new(unsafe { std::ptr::read(&raw const TABLE) });
        change(&mut table);
        let context = FakeContext::new(&host.world, "idle", "{}", None);
        let told: Outcome<Instance> = Arc::default();
        let tells = Arc::clone(&told);
        let done = Box::new(move |result| *tells.lock().expect("no panic under the lock") = Some(result));
        let dispatcher: *const RawDispatcher = Arc::as_ptr(&context.dispatcher).cast();
        // SAFETY: a refused table is not kept; the other pointers live for the call.
        unsafe { entry.start(&raw const *table, Arc::as_ptr(&context).cast(), dispatcher, done) };
        let failure = told.lock().expect("no panic under the lock").take().expect("told at once");
        failure.map(|_| ()).expect_err("another table")
    };
    let second = start_with(|_| ());
    assert_eq!(second.status, Status::NotSupported);
    assert!(second.message.contains("another host already"), "{}", second.message);
    let newer = start_with(|table| table.header.version = 9);
    assert!(newer.message.starts_with("the host speaks version 9"), "{}", newer.message);
    let smaller = start_with(|table| table.header.size -= 8);
    assert!(smaller.message.contains("build the host with a newer"), "{}", smaller.message);
}
