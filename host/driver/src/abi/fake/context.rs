//! Driver instances, nodes and children of the fake host.

use std::sync::{Arc, Mutex, MutexGuard};

use super::channel::{FakeChannel, give, new_pair};
use super::world::{FIRED, FakeDispatcher, Op, World};
use super::{lend, share};
use crate::Status;
use crate::abi::host::{HostCallback, HostConnectCallback, HostConnector};
use crate::abi::{
    Callback, ChildOptions, ConnectCallback, DispatcherOptions, OK, Property, PropertySink, RawChild, RawContext,
    RawDispatcher, Str, TextSink,
};

pub(crate) struct FakeContext {
    pub(super) world: Arc<World>,
    pub(super) dispatcher: Arc<FakeDispatcher>,
    name: String,
    config: String,
    parent: Option<Arc<FakeChild>>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    pub(super) children: Vec<Arc<FakeChild>>,
    dispatchers: Vec<Arc<FakeDispatcher>>,
    addresses: Vec<String>,
    /// What the driver said first of its end.
    end: Option<Result<(), (Status, String)>>,
    lines: Vec<String>,
    stopping: bool,
}

pub(crate) struct FakeChild {
    pub(super) name: String,
    properties: Vec<(String, String)>,
    services: Mutex<Vec<(String, Arc<FakeService>)>>,
    dispatcher: Arc<FakeDispatcher>,
}

pub(crate) struct FakeService(HostConnector);

impl FakeService {
    pub(super) fn accept(&self, end: Arc<FakeChannel>) {
        // SAFETY: `give` makes an owned end of it.
        unsafe { self.0.accept(give(end)) };
    }
}

impl FakeChild {
    fn is_gone(&self) -> bool {
        self.services.lock().expect("the fake host does not panic").is_empty()
    }

    /// Drops the connectors, on their dispatcher.
    pub(super) fn remove(&self) {
        let services = std::mem::take(&mut *self.services.lock().expect("the fake host does not panic"));
        self.dispatcher.within(|| drop(services));
    }
}

impl FakeContext {
    pub(super) fn new(world: &Arc<World>, name: &str, config: &str, parent: Option<Arc<FakeChild>>) -> Arc<Self> {
        Arc::new(FakeContext {
            world: Arc::clone(world),
            dispatcher: FakeDispatcher::new(world, name, 0, None),
            name: name.to_owned(),
            config: config.to_owned(),
            parent,
            inner: Mutex::default(),
        })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("the fake host does not panic")
    }

    pub(super) fn children(&self) -> Vec<Arc<FakeChild>> {
        self.inner().children.clone()
    }

    pub(super) fn addresses(&self) -> Vec<String> {
        self.inner().addresses.clone()
    }

    pub(super) fn end(&self) -> Option<Result<(), (Status, String)>> {
        self.inner().end.clone()
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.inner().lines.clone()
    }

    /// Shuts all dispatchers of the driver down, newest first.
    pub(super) fn shutdown(&self) {
        let dispatchers = {
            let mut inner = self.inner();
            inner.stopping = true;
            inner.dispatchers.clone()
        };
        dispatchers.iter().rev().for_each(FakeDispatcher::shutdown);
        self.dispatcher.shutdown();
    }

    pub(super) fn is_shut_down(&self) -> bool {
        let dispatchers = self.inner().dispatchers.clone();
        self.dispatcher.is_empty() && dispatchers.iter().all(|dispatcher| dispatcher.is_empty())
    }

    /// Removes the children, newest first.
    pub(super) fn remove_children(&self) {
        let children = std::mem::take(&mut self.inner().children);
        children.iter().rev().for_each(|child| child.remove());
    }
}

pub(super) unsafe extern "C" fn context_retain(context: *const RawContext) {
    // SAFETY: the caller passes a valid context.
    unsafe { Arc::increment_strong_count(context.cast::<FakeContext>()) };
}

pub(super) unsafe extern "C" fn context_release(context: *const RawContext) {
    // SAFETY: the caller gives a reference up.
    drop(unsafe { Arc::from_raw(context.cast::<FakeContext>()) });
}

pub(super) unsafe extern "C" fn context_dispatcher(context: *const RawContext) -> *const RawDispatcher {
    // SAFETY: the caller passes a valid context.
    let context: &FakeContext = unsafe { lend(context) };
    Arc::into_raw(Arc::clone(&context.dispatcher)).cast()
}

pub(super) unsafe extern "C" fn context_name(context: *const RawContext, sink: TextSink) {
    // SAFETY: the caller passes a valid context and sink.
    unsafe { sink.deliver(&lend::<FakeContext, _>(context).name) };
}

pub(super) unsafe extern "C" fn context_config(context: *const RawContext, sink: TextSink) {
    // SAFETY: the caller passes a valid context and sink.
    unsafe { sink.deliver(&lend::<FakeContext, _>(context).config) };
}

pub(super) unsafe extern "C" fn context_fail(context: *const RawContext, status: i32, message: Str) {
    // SAFETY: the caller passes a valid context and text.
    let (context, message) = unsafe { (lend::<FakeContext, _>(context), message.to_text()) };
    context.inner().end.get_or_insert(Status::result_of(status).map_err(|status| (status, message)));
}

pub(super) unsafe extern "C" fn context_publish_address(context: *const RawContext, address: Str) -> i32 {
    // SAFETY: the caller passes a valid context and text.
    let (context, address) = unsafe { (lend::<FakeContext, _>(context), address.to_text()) };
    let mut inner = context.inner();
    if inner.stopping {
        return Status::BadState.as_raw();
    }
    inner.addresses.push(address);
    OK
}

pub(super) unsafe extern "C" fn log_enabled(_context: *const RawContext, level: u32, _target: Str) -> u32 {
    u32::from(level <= 3)
}

pub(super) unsafe extern "C" fn log(
    context: *const RawContext,
    level: u32,
    target: Str,
    message: Str,
    fields: *const Property,
    count: usize,
) {
    // SAFETY: the caller passes valid arguments.
    let (context, target, message) = unsafe { (lend::<FakeContext, _>(context), target.to_text(), message.to_text()) };
    let mut line = format!("{level} {target}: {message}");
    for index in 0..count {
        // SAFETY: the array has that many fields.
        let (key, value) = unsafe { ((*fields.add(index)).key.to_text(), (*fields.add(index)).value.to_text()) };
        line.push_str(&format!(" {key}={value}"));
    }
    context.inner().lines.push(line);
}

pub(super) unsafe extern "C" fn node_name(context: *const RawContext, sink: TextSink) {
    // SAFETY: the caller passes a valid context and sink.
    let context: &FakeContext = unsafe { lend(context) };
    let name = context.parent.as_ref().map_or("root", |child| &child.name);
    // SAFETY: as above.
    unsafe { sink.deliver(name) };
}

pub(super) unsafe extern "C" fn node_properties(context: *const RawContext, sink: PropertySink) {
    // SAFETY: the caller passes a valid context.
    let context: &FakeContext = unsafe { lend(context) };
    for (key, value) in context.parent.iter().flat_map(|child| &child.properties) {
        // SAFETY: the caller passes a valid sink.
        unsafe { sink.deliver(key, value) };
    }
}

pub(super) unsafe extern "C" fn node_connect(
    context: *const RawContext,
    service: Str,
    dispatcher: *const RawDispatcher,
    callback: *mut ConnectCallback,
) -> i32 {
    // SAFETY: the caller passes valid arguments.
    let (context, service) = unsafe { (lend::<FakeContext, _>(context), service.to_text()) };
    // SAFETY: as above.
    let dispatcher = unsafe { share::<FakeDispatcher, _>(dispatcher) };
    let found = context.parent.as_ref().and_then(|child| {
        let services = child.services.lock().expect("the fake host does not panic");
        let found = services.iter().find(|(name, _)| *name == service).map(|(_, service)| Arc::clone(service));
        found.map(|service| (Arc::clone(&child.dispatcher), service))
    });
    let client = found.and_then(|(server_dispatcher, service)| {
        let (client, server) = new_pair(0);
        let op = server_dispatcher.accept(Op::Accept(service, server)).ok()?;
        server_dispatcher.fire(op, FIRED);
        Some(client)
    });
    // SAFETY: the callback is moved out of the caller's copy; a refusal gives it back.
    let callback = unsafe { HostConnectCallback::take(callback) };
    match dispatcher.accept(Op::Connect(callback, client)) {
        Ok(op) => {
            dispatcher.fire(op, FIRED);
            OK
        }
        Err(Op::Connect(callback, _)) => {
            callback.give_back();
            Status::BadState.as_raw()
        }
        Err(_) => unreachable!("the operation comes back as it was"),
    }
}

pub(super) unsafe extern "C" fn child_add(
    context: *const RawContext,
    options: *mut ChildOptions,
    out: *mut *mut RawChild,
    error: TextSink,
) -> i32 {
    // SAFETY: the caller passes valid arguments.
    let (context, options) = unsafe { (lend::<FakeContext, _>(context), &mut *options) };
    // SAFETY: as above.
    let (name, dispatcher) = unsafe { (options.name.to_text(), share::<FakeDispatcher, _>(options.dispatcher)) };
    let mut inner = context.inner();
    if inner.stopping {
        return Status::BadState.as_raw();
    }
    if inner.children.iter().any(|child| child.name == name && !child.is_gone()) {
        // SAFETY: the caller passes a valid sink.
        unsafe { error.deliver(&format!("there is a child {name:?} already")) };
        return Status::AlreadyExists.as_raw();
    }
    let mut properties = Vec::new();
    for index in 0..options.property_count {
        // SAFETY: the array has that many properties.
        let property = unsafe { *options.properties.add(index) };
        // SAFETY: the caller passes valid texts.
        properties.push(unsafe { (property.key.to_text(), property.value.to_text()) });
    }
    let mut services = Vec::new();
    for index in 0..options.service_count {
        // SAFETY: the array has that many services.
        let service = unsafe { &mut *options.services.add(index) };
        // SAFETY: the connector is moved out of the caller's copy, and nothing fails from here on.
        let connector = unsafe { HostConnector::take(&raw mut service.connector) };
        // SAFETY: the caller passes a valid text.
        services.push((unsafe { service.name.to_text() }, Arc::new(FakeService(connector))));
    }
    let child = Arc::new(FakeChild { name, properties, services: Mutex::new(services), dispatcher });
    inner.children.push(Arc::clone(&child));
    // SAFETY: the caller passes a valid out pointer.
    unsafe { *out = Arc::into_raw(child).cast_mut().cast() };
    OK
}

pub(super) unsafe extern "C" fn child_remove(
    child: *mut RawChild,
    dispatcher: *const RawDispatcher,
    callback: *mut Callback,
) -> i32 {
    // SAFETY: the caller passes a valid child.
    let child: &FakeChild = unsafe { lend(child) };
    if callback.is_null() {
        child.remove();
        return OK;
    }
    // SAFETY: with a callback the caller passes a valid dispatcher.
    let dispatcher = unsafe { share::<FakeDispatcher, _>(dispatcher) };
    // SAFETY: the callback is moved out of the caller's copy; a refusal gives it back.
    let callback = unsafe { HostCallback::take(callback) };
    match dispatcher.accept(Op::Task(callback)) {
        Ok(op) => {
            child.remove();
            dispatcher.fire(op, FIRED);
            OK
        }
        Err(Op::Task(callback)) => {
            callback.give_back();
            Status::BadState.as_raw()
        }
        Err(_) => unreachable!("the operation comes back as it was"),
    }
}

pub(super) unsafe extern "C" fn child_release(child: *mut RawChild) {
    // SAFETY: the caller gives its reference up.
    drop(unsafe { Arc::from_raw(child.cast::<FakeChild>()) });
}

pub(super) unsafe extern "C" fn dispatcher_create(
    context: *const RawContext,
    options: *const DispatcherOptions,
    out: *mut *const RawDispatcher,
) -> i32 {
    // SAFETY: the caller passes valid arguments.
    let (context, options) = unsafe { (lend::<FakeContext, _>(context), &*options) };
    let mut inner = context.inner();
    if inner.stopping {
        return Status::BadState.as_raw();
    }
    if options.flags & 3 == 3 {
        return Status::NotSupported.as_raw();
    }
    // SAFETY: the observer is moved out of the caller's copy, and nothing fails from here on.
    let observer = (!options.observer.is_null()).then(|| unsafe { HostCallback::take(options.observer) });
    // SAFETY: the caller passes a valid text.
    let name = unsafe { options.name.to_text() };
    let dispatcher = FakeDispatcher::new(&context.world, &name, options.flags, observer);
    inner.dispatchers.push(Arc::clone(&dispatcher));
    // SAFETY: the caller passes a valid out pointer.
    unsafe { *out = Arc::into_raw(dispatcher).cast() };
    OK
}
