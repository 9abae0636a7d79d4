//! Calls into drivers: the hooks of an entry.
//!
//! # Invariants
//! - An entry is called only after its header was checked, which the registry does.
//! - A [`Value`] came from the `start` of the entry of its instance, and is consumed by `stop` or `destroy` of the same
//!   entry, once; `prepare_stop` borrows it and has ended, or been dropped with its dispatcher, before that.

use std::ptr;
use std::sync::Arc;

use fuchsine_dispatcher::DispatcherHandle;
use fuchsine_driver::abi::RawContext;
use fuchsine_driver::abi::host::{HookFailure, Instance as DriverInstance};

use super::table::TABLE;
use super::{contain, own_dispatcher};
use crate::host::Instance;

/// What `start` made, on the driver's side.
#[derive(Debug)]
pub(crate) struct Value(DriverInstance);

/// A dispatcher as a borrowed pointer, for the duration of one call.
fn lent(dispatcher: &DispatcherHandle, call: impl FnOnce(*const fuchsine_driver::abi::RawDispatcher)) {
    let pointer = own_dispatcher(dispatcher.clone());
    call(pointer);
    // SAFETY: made above, and given up here.
    unsafe { super::dispatchers::release(pointer) };
}

/// Calls `start` on the default dispatcher of the instance; `ended` learns what it came to.
pub(crate) fn start(
    instance: &Arc<Instance>,
    dispatcher: &DispatcherHandle,
    ended: impl FnOnce(Result<Value, HookFailure>) + Send + 'static,
) {
    let done = Box::new(move |result: Result<DriverInstance, HookFailure>| ended(result.map(Value)));
    let context: *const RawContext = Arc::as_ptr(instance).cast();
    // SAFETY: the table is a static, the context and the dispatcher are borrowed for the call, the entry was checked.
    lent(dispatcher, |dispatcher| unsafe { instance.entry.start(ptr::from_ref(&TABLE), context, dispatcher, done) });
}

/// Calls `prepare_stop` on the default dispatcher. A driver that has suspended itself is resumed first, or its hook would be
/// parked.
pub(crate) fn prepare_stop(
    instance: &Instance,
    value: &Value,
    dispatcher: &DispatcherHandle,
    ended: impl FnOnce(Result<(), HookFailure>) + Send + 'static,
) {
    instance.driver.resume();
    // SAFETY: the value came from this entry; the dispatcher is borrowed for the call.
    lent(dispatcher, |dispatcher| unsafe { instance.entry.prepare_stop(&value.0, dispatcher, Box::new(ended)) });
}

/// Calls `stop` on a dispatcher of the host.
pub(crate) fn stop(
    instance: &Instance,
    value: Value,
    dispatcher: &DispatcherHandle,
    ended: impl FnOnce(Result<(), HookFailure>) + Send + 'static,
) {
    // SAFETY: the value came from this entry, and its `prepare_stop` has ended; the dispatcher is borrowed for the call.
    lent(dispatcher, |dispatcher| unsafe { instance.entry.stop(value.0, dispatcher, Box::new(ended)) });
}

/// Drops a driver without its `stop`, on a dispatcher of the host.
pub(crate) fn destroy(instance: &Instance, value: Value, dispatcher: &DispatcherHandle) {
    let entry = instance.entry;
    // SAFETY: the value came from this entry, and all dispatchers of the driver are shut down.
    let posted = dispatcher.post_task(move |_| unsafe { entry.destroy(value.0) });
    if let Err(refused) = posted {
        let destroy = refused.into_inner();
        contain(dispatcher, || destroy(Ok(())));
    }
}
