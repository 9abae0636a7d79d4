//! Table functions: connecting to services, adding and removing children.
//!
//! # Invariants
//! - See `load`. A `RawChild` is a box of [`Child`].
//! - A connector is dropped by the last of its `Arc`s, so after the last `accept` has returned.

use std::slice;
use std::sync::{Arc, Weak};

use fuchsine_dispatcher::{Channel, DispatcherHandle, Site, Status};
use fuchsine_driver::Channel as DriverChannel;
use fuchsine_driver::abi::host::{HostCallback, HostConnectCallback, HostConnector};
use fuchsine_driver::abi::{
    Callback, ChildOptions, ConnectCallback, OK, RawChild, RawContext, RawDispatcher, Str, TextSink,
};

use super::channels::{ChannelEnd, channel_pair, taken_from};
use super::futures::promise;
use super::{contain, disown, dispatcher, lend, own, site};
use crate::host::{FarEvent, Instance, Service, Shared, driver_status};
use crate::node::{AddError, NodeId, Properties};

/// Takes connections to one service.
#[derive(Debug)]
pub(crate) struct Acceptor(HostConnector);

impl Acceptor {
    /// Where the driver has offered the service.
    pub(crate) fn site(&self) -> Site {
        // SAFETY: a call site lives as long as the process.
        unsafe { site(self.0.site()) }
    }

    fn accept(&self, end: ChannelEnd) {
        // SAFETY: the end is owned here and given up.
        unsafe { self.0.accept(end.into_raw()) };
    }
}

pub(super) unsafe extern "C" fn connect(
    pointer: *const RawContext,
    service: Str,
    dispatcher_pointer: *const RawDispatcher,
    callback: *mut ConnectCallback,
) -> i32 {
    // SAFETY: the caller holds the context.
    let instance = unsafe { lend::<Instance, _>(pointer) };
    // SAFETY: the caller holds the handle, and lends the name for the call.
    let (handle, name) = unsafe { (dispatcher(dispatcher_pointer), service.to_text()) };
    let Some(host) = instance.host.upgrade() else { return Status::BadState.as_raw() };
    // SAFETY: the caller owns the callback; on a refusal it is given back below.
    let callback = unsafe { HostConnectCallback::take(callback) };
    // SAFETY: a call site lives as long as the process.
    let site = unsafe { site(callback.site()) };
    let outcome = begin_connect(&host, instance.node, &name, site);
    if host.is_far() && outcome.as_ref().is_err_and(|status| *status == Status::NotFound) {
        connect_far(&host, &name, (*handle).clone(), site, callback);
        return OK;
    }
    // The end is in a box of its own, so that of a refused closure the callback alone can be given back.
    let cell = Arc::new(parking_lot::Mutex::new(Some((callback, outcome))));
    let posted = Arc::clone(&cell);
    let told = handle.post_task_from(site, move |ran| {
        let taken = posted.lock().take();
        if let Some((callback, outcome)) = taken {
            let outcome = ran.map_err(|_| Status::Canceled).and(outcome);
            let outcome = outcome.map(ChannelEnd::into_raw).map_err(driver_status);
            // SAFETY: the end is owned here and given up.
            unsafe { callback.call(outcome) };
        }
    });
    match told {
        Ok(()) => OK,
        Err(refused) => {
            let taken = cell.lock().take();
            if let Some((callback, _)) = taken {
                callback.give_back();
            }
            refused.status().as_raw()
        }
    }
}

/// Makes a channel and has the driver above accept the other end of it. The near end can be used at once: what is
/// written waits until the other side reads.
fn begin_connect(host: &Shared, node: NodeId, name: &str, from: Site) -> Result<ChannelEnd, Status> {
    let service = host.service(node, name).ok_or(Status::NotFound)?;
    let (near, far) = channel_pair(from);
    accept(service, far)?;
    Ok(near)
}

/// Connects to a service of the process that this one is a child of. What comes of it is told on `handle`.
fn connect_far(host: &Shared, name: &str, handle: DispatcherHandle, site: Site, callback: HostConnectCallback) {
    let (near, far) = channel_pair(site);
    let told = move |connected: Result<(), Status>| {
        let home = handle.clone();
        let posted = handle.post_task_from(site, move |ran| {
            let outcome = ran.map_err(|_| Status::Canceled).and(connected);
            let outcome = outcome.map(|()| near.into_raw()).map_err(driver_status);
            // SAFETY: the end is owned here and given up.
            unsafe { callback.call(outcome) };
        });
        if let Err(refused) = posted {
            // It shuts down, with whoever waits for this.
            contain(&home, || drop(refused.into_inner()));
        }
    };
    host.tell_far(FarEvent::Connect(name, far.into_inner(), Box::new(told)));
}

/// Has the driver above a node accept an end, which a driver in another process has sent.
pub(crate) fn connect_end(host: &Shared, node: NodeId, name: &str, end: DriverChannel) -> Result<(), Status> {
    let service = host.service(node, name).ok_or(Status::NotFound)?;
    accept(service, ChannelEnd::of(taken_from(end)))
}

/// Has whoever offers a service at the node of this path accept an end.
pub(crate) fn connect_below(host: &Shared, path: &str, name: &str, end: Channel) -> Result<(), Status> {
    let node = host.node_at(path).ok_or(Status::NotFound)?;
    accept(host.service(node, name).ok_or(Status::NotFound)?, ChannelEnd::of(end))
}

fn accept(Service { acceptor, dispatcher, .. }: Service, far: ChannelEnd) -> Result<(), Status> {
    let offered_at = acceptor.site();
    // A driver that shuts down closes the far end, which the near one is told as `PeerClosed`.
    let accept = move |ran: Result<(), fuchsine_dispatcher::Canceled>| {
        if ran.is_ok() {
            acceptor.accept(far);
        }
    };
    dispatcher.post_task_from(offered_at, accept).map_err(|_| Status::Unavailable)
}

/// A child node that a driver added.
struct Child {
    host: Weak<Shared>,
    node: NodeId,
}

pub(super) unsafe extern "C" fn add(
    pointer: *const RawContext,
    options: *mut ChildOptions,
    out: *mut *mut RawChild,
    error: TextSink,
) -> i32 {
    // SAFETY: the caller holds the context.
    let instance = unsafe { lend::<Instance, _>(pointer) };
    let refuse = |status: Status, sentence: &str| {
        // SAFETY: the sink is delivered to once: every way to here returns.
        unsafe { error.deliver(sentence) };
        status.as_raw()
    };
    let Some(host) = instance.host.upgrade() else { return refuse(Status::BadState, "the host is gone") };
    // SAFETY: the options are valid for the call, and owned by the caller.
    let options = unsafe { &mut *options };
    // SAFETY: so are their strings and arrays.
    let (name, properties) = unsafe { (options.name.to_text(), properties(options)) };
    // SAFETY: the caller holds the handle.
    let handle = unsafe { dispatcher(options.dispatcher) };
    let services = match options.service_count {
        0 => &mut [][..],
        // SAFETY: the array is valid for the call.
        count => unsafe { slice::from_raw_parts_mut(options.services, count) },
    };
    let services = services.iter_mut().map(|service| Service {
        // SAFETY: the name is lent for the call.
        name: unsafe { service.name.to_text() },
        // SAFETY: the caller owns the connector; on a refusal it is given back below.
        acceptor: Arc::new(Acceptor(unsafe { HostConnector::take(&raw mut service.connector) })),
        dispatcher: handle.clone(),
    });
    match host.add_child(instance.id, &name, properties, services.collect()) {
        Ok(node) => {
            // SAFETY: the out parameter is valid for the call.
            unsafe { *out = own(Child { host: instance.host.clone(), node }) };
            OK
        }
        Err((refused, services)) => {
            for service in services {
                // Nobody else has seen them, so each is the only reference.
                if let Ok(acceptor) = Arc::try_unwrap(service.acceptor) {
                    acceptor.0.give_back();
                }
            }
            // SAFETY: a call site lives as long as the process.
            let at = unsafe { site(options.site) };
            tracing::debug!(driver = instance.name, %refused, %at, "a child was refused");
            refuse(add_status(&refused), &refused.to_string())
        }
    }
}

/// # Safety
/// The properties and their strings are valid for the call.
unsafe fn properties(options: &ChildOptions) -> Properties {
    let list = match options.property_count {
        0 => &[][..],
        // SAFETY: the caller vouches for the array.
        count => unsafe { slice::from_raw_parts(options.properties, count) },
    };
    // SAFETY: the caller vouches for the strings.
    list.iter().map(|property| unsafe { (property.key.to_text(), property.value.to_text()) }).collect()
}

fn add_status(error: &AddError) -> Status {
    match error {
        AddError::BadName(_) => Status::InvalidArgs,
        AddError::Exists(_) => Status::AlreadyExists,
        AddError::Leaving(_) => Status::ShouldWait,
        AddError::ParentLeaving => Status::BadState,
    }
}

pub(super) unsafe extern "C" fn remove(
    pointer: *mut RawChild,
    dispatcher_pointer: *const RawDispatcher,
    callback: *mut Callback,
) -> i32 {
    // SAFETY: the caller holds the child.
    let Child { host, node } = unsafe { lend::<Child, _>(pointer) };
    if callback.is_null() {
        if let Some(host) = host.upgrade() {
            host.remove_child(*node, None);
        }
        return OK;
    }
    // SAFETY: the caller holds the handle.
    let handle = unsafe { dispatcher(dispatcher_pointer) };
    // SAFETY: the caller owns the callback; on a refusal it is given back below.
    let callback = unsafe { HostCallback::take(callback) };
    let kept = match promise(&handle, callback) {
        Ok(kept) => kept,
        Err((status, callback)) => {
            callback.give_back();
            return status.as_raw();
        }
    };
    match host.upgrade() {
        Some(host) => host.remove_child(*node, Some(Box::new(move || kept.keep()))),
        None => kept.keep(),
    }
    OK
}

pub(super) unsafe extern "C" fn release(pointer: *mut RawChild) {
    // SAFETY: the caller gives the box up.
    unsafe { disown::<Child, _>(pointer) };
}
