//! Irqs over the table, and their handlers as C callbacks.
//!
//! # Invariants
//! - As in `objects`. The data of a handler is the box of its closure: used by one call at a time, and given back once, by
//!   `drop` or when the binding was refused.

use std::cell::Cell;
use std::ffi::c_void;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::ptr;

use super::attach::{table, try_table};
use super::calls::IrqHandler;
use super::closure::caught;
use super::objects::{CastMut, DispatcherObject, object};
use super::site::CallSite;
use super::types::{Panic, RawIrq, RawIrqBinding, RawIrqTrigger};
use crate::Status;
use crate::irq::IrqEvent;

object! {
    /// A source that triggers again and again.
    IrqObject: RawIrq as *mut RawIrq, irq_release
}
object! {
    /// What triggers an irq.
    TriggerObject: RawIrqTrigger as *mut RawIrqTrigger, irq_trigger_release
}
object! {
    /// The right to acknowledge and to unbind.
    BindingObject: RawIrqBinding as *mut RawIrqBinding, irq_binding_release
}

impl IrqObject {
    /// An irq that the dispatcher can wait for, and what triggers it.
    pub(crate) fn new(site: &'static CallSite, dispatcher: &DispatcherObject) -> Result<(Self, TriggerObject), Status> {
        let (mut irq, mut trigger) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: all pointers are valid for the call.
        let made = unsafe { (table().irq_create)(dispatcher.raw(), site, &raw mut irq, &raw mut trigger) };
        Status::result_of(made)?;
        // SAFETY: on success the host has stored two owned pointers.
        Ok(unsafe { (Self::from_owned(irq), TriggerObject::from_owned(trigger)) })
    }

    /// An irq over a descriptor, which comes back if there can be none.
    pub(crate) fn over(site: &'static CallSite, fd: OwnedFd) -> Result<Self, (OwnedFd, Status)> {
        let Some(table) = try_table() else { return Err((fd, Status::BadState)) };
        let (fd, mut irq) = (fd.into_raw_fd(), ptr::null_mut());
        // SAFETY: the out pointer is valid for the call; the descriptor is moved on success only.
        match Status::result_of(unsafe { (table.irq_over_fd)(fd, site, &raw mut irq) }) {
            // SAFETY: on success the host has stored an owned pointer.
            Ok(()) => Ok(unsafe { Self::from_owned(irq) }),
            // SAFETY: it was refused, so it is still ours.
            Err(status) => Err((unsafe { OwnedFd::from_raw_fd(fd) }, status)),
        }
    }

    /// Binds a closure.
    pub(crate) fn bind<F>(
        &self,
        site: &'static CallSite,
        dispatcher: &DispatcherObject,
        f: F,
    ) -> Result<BindingObject, (F, Status)>
    where
        F: FnMut(Result<IrqEvent<'_>, Status>) + Send + 'static,
    {
        let data = Box::into_raw(Box::new(f));
        let mut handler = IrqHandler { data: data.cast(), site, call: call::<F>, drop: drop_handler::<F> };
        let mut binding = ptr::null_mut();
        // SAFETY: all pointers are valid for the call; the handler is moved out only on success.
        let bound = unsafe { (table().irq_bind)(self.raw(), dispatcher.raw(), &raw mut handler, &raw mut binding) };
        match Status::result_of(bound) {
            // SAFETY: on success the host has stored an owned pointer.
            Ok(()) => Ok(unsafe { BindingObject::from_owned(binding) }),
            // SAFETY: it was refused, so the box is still ours.
            Err(status) => Err((*unsafe { Box::from_raw(data) }, status)),
        }
    }
}

impl TriggerObject {
    pub(crate) fn trigger(&self) {
        // SAFETY: the object is alive.
        unsafe { (table().irq_trigger)(self.raw()) };
    }
}

impl BindingObject {
    pub(crate) fn ack(&self) -> Result<(), Status> {
        // SAFETY: the object is alive.
        Status::result_of(unsafe { (table().irq_ack)(self.raw()) })
    }

    /// Ends the binding; whether its handler is running.
    pub(crate) fn unbind(&self) -> Result<bool, Status> {
        let mut running = 0;
        // SAFETY: the object is alive and the out pointer valid for the call.
        Status::result_of(unsafe { (table().irq_unbind)(self.raw(), &raw mut running) })?;
        Ok(running != 0)
    }
}

unsafe extern "C" fn call<F: FnMut(Result<IrqEvent<'_>, Status>)>(
    data: *mut c_void,
    status: i32,
    count: u64,
    ready: u32,
    acknowledged: *mut u32,
) -> *mut Panic {
    // SAFETY: `bind::<F>` has made the box; the host calls on one thread at a time, and before `drop`.
    let f = unsafe { &mut *data.cast::<F>() };
    let is_acknowledged = Cell::new(false);
    let panic = caught(|| {
        f(Status::result_of(status).map(|()| IrqEvent::new(count, ready, &is_acknowledged)));
    });
    if is_acknowledged.get() {
        // SAFETY: only a trigger can be acknowledged, and for one the host passes a valid pointer.
        unsafe { *acknowledged = 1 };
    }
    panic
}

unsafe extern "C" fn drop_handler<F>(data: *mut c_void) -> *mut Panic {
    // SAFETY: `bind::<F>` has made the box, and `drop` is called once, last.
    let f = unsafe { Box::from_raw(data.cast::<F>()) };
    caught(|| drop(f))
}
