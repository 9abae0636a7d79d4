//! Table functions: irqs.
//!
//! # Invariants
//! - See `load`. A `RawIrq` is a box of `Irq`, a `RawIrqTrigger` one of `IrqTrigger`, a `RawIrqBinding` one of [`Binding`].

use std::mem::forget;
use std::os::fd::{FromRawFd, OwnedFd};

use fuchsine_dispatcher::{DispatcherHandle, Irq, IrqEvent, IrqHandle, IrqTrigger, Status};
use fuchsine_driver::abi::host::HostIrqHandler;
use fuchsine_driver::abi::{CallSite, IrqHandler, OK, RawDispatcher, RawIrq, RawIrqBinding, RawIrqTrigger};

use super::{contain, disown, dispatcher, lend, own, raw, site};
use crate::host::driver_status;
use crate::net::bits;

pub(super) unsafe extern "C" fn create(
    pointer: *const RawDispatcher,
    made_at: *const CallSite,
    out: *mut *mut RawIrq,
    out_trigger: *mut *mut RawIrqTrigger,
) -> i32 {
    // SAFETY: the caller holds the handle.
    let handle = unsafe { dispatcher(pointer) };
    // SAFETY: a call site lives as long as the process.
    match handle.new_irq_from(unsafe { site(made_at) }) {
        Ok((irq, trigger)) => {
            // SAFETY: the out parameters are valid for the call.
            unsafe { *out = own(irq) };
            // SAFETY: as above.
            unsafe { *out_trigger = own(trigger) };
            OK
        }
        Err(error) => Status::from(&error).as_raw(),
    }
}

pub(super) unsafe extern "C" fn over_fd(fd: i32, made_at: *const CallSite, out: *mut *mut RawIrq) -> i32 {
    if fd < 0 {
        return Status::BadHandle.as_raw();
    }
    // SAFETY: the caller owns the descriptor, and gives it up, as nothing below fails.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: a call site lives as long as the process.
    let irq = Irq::over_from(unsafe { site(made_at) }, fd);
    // SAFETY: the out parameter is valid for the call.
    unsafe { *out = own(irq) };
    OK
}

/// A bound irq, with the dispatcher on whose behalf its handler is dropped.
struct Binding {
    dispatcher: DispatcherHandle,
    handle: IrqHandle,
}

pub(super) unsafe extern "C" fn bind(
    pointer: *mut RawIrq,
    dispatcher_pointer: *const RawDispatcher,
    handler: *mut IrqHandler,
    out: *mut *mut RawIrqBinding,
) -> i32 {
    // SAFETY: the caller holds both.
    let (irq, handle) = unsafe { (lend::<Irq, _>(pointer), dispatcher(dispatcher_pointer)) };
    // SAFETY: the caller owns the handler; on a refusal it is forgotten below.
    let mut handler = unsafe { HostIrqHandler::take(handler) };
    // SAFETY: a call site lives as long as the process.
    let site = unsafe { site(handler.site()) };
    let told = move |outcome: Result<IrqEvent<'_>, Status>| match outcome {
        Ok(event) => handler.trigger(event.count(), bits(event.readiness()), || event.ack()),
        Err(status) => handler.end(driver_status(status)),
    };
    match handle.bind_irq_from(site, irq, told) {
        Ok(bound) => {
            // SAFETY: the out parameter is valid for the call.
            unsafe { *out = own(Binding { dispatcher: handle.clone(), handle: bound }) };
            OK
        }
        Err(refused) => {
            let status = refused.status();
            // The closure holds nothing but the driver's handler, which stays the driver's.
            forget(refused.into_inner());
            status.as_raw()
        }
    }
}

pub(super) unsafe extern "C" fn release(pointer: *mut RawIrq) {
    // SAFETY: the caller gives the box up.
    unsafe { disown::<Irq, _>(pointer) };
}

pub(super) unsafe extern "C" fn trigger(pointer: *mut RawIrqTrigger) {
    // SAFETY: the caller holds the trigger.
    unsafe { lend::<IrqTrigger, _>(pointer) }.trigger();
}

pub(super) unsafe extern "C" fn trigger_release(pointer: *mut RawIrqTrigger) {
    // SAFETY: the caller gives the box up.
    unsafe { disown::<IrqTrigger, _>(pointer) };
}

pub(super) unsafe extern "C" fn ack(pointer: *mut RawIrqBinding) -> i32 {
    // SAFETY: the caller holds the binding.
    raw(unsafe { lend::<Binding, _>(pointer) }.handle.ack())
}

pub(super) unsafe extern "C" fn unbind(pointer: *mut RawIrqBinding, out_running: *mut u32) -> i32 {
    // SAFETY: the caller holds the binding.
    let Binding { dispatcher, handle } = unsafe { lend::<Binding, _>(pointer) };
    match handle.unbind() {
        Ok(unbound) => {
            // SAFETY: the out parameter is valid for the call.
            unsafe { *out_running = u32::from(unbound.is_running()) };
            contain(dispatcher, || drop(unbound));
            OK
        }
        Err(error) => error.status().as_raw(),
    }
}

pub(super) unsafe extern "C" fn binding_release(pointer: *mut RawIrqBinding) {
    // SAFETY: the caller gives the box up. The irq stays bound.
    unsafe { disown::<Binding, _>(pointer) };
}
