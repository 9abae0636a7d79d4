//! Table functions: suspend and resume.
//!
//! # Invariants
//! - See `load`. A `RawWakeVector` is a box of `WakeVector`.

use std::sync::Arc;

use fuchsine_dispatcher::{Canceled, Interest, Irq, WakeVector, WakeVectorError};
use fuchsine_driver::abi::host::{HostCallback, HostResumeRequester};
use fuchsine_driver::abi::{Callback, OK, RawContext, RawIrq, RawSocket, RawWakeVector, ResumeRequester};
use parking_lot::Mutex;

use super::sockets::interest;
use super::{contain_here, disown, lend, own};
use crate::host::Instance;
use crate::net::Socket;

/// # Safety
/// The caller of the table function holds `pointer` for `'a`.
unsafe fn instance<'a>(pointer: *const RawContext) -> &'a Instance {
    // SAFETY: every `RawContext` is an `Arc` of `Instance`; the caller vouches for the rest.
    unsafe { lend(pointer) }
}

pub(super) unsafe extern "C" fn suspend(context: *const RawContext, callback: *mut Callback) -> i32 {
    // SAFETY: the caller holds the context.
    let instance = unsafe { instance(context) };
    // SAFETY: the caller owns the callback; on a refusal it is given back below.
    let callback = unsafe { HostCallback::take(callback) };
    // In a cell, so that it can be given back untouched if the driver cannot be suspended.
    let cell = Arc::new(Mutex::new(Some(callback)));
    let told = Arc::clone(&cell);
    let suspended = instance.driver.suspend(move |outcome: Result<(), Canceled>| {
        let callback = told.lock().take();
        if let Some(callback) = callback {
            callback.call(outcome.map_err(|_| fuchsine_driver::Status::Canceled));
        }
    });
    match suspended {
        Ok(()) => OK,
        Err(refused) => {
            let callback = cell.lock().take();
            callback.into_iter().for_each(HostCallback::give_back);
            refused.status().as_raw()
        }
    }
}

pub(super) unsafe extern "C" fn resume(context: *const RawContext) -> u32 {
    // SAFETY: the caller holds the context.
    u32::from(unsafe { instance(context) }.driver.resume())
}

pub(super) unsafe extern "C" fn is_suspended(context: *const RawContext) -> u32 {
    // SAFETY: the caller holds the context.
    u32::from(unsafe { instance(context) }.driver.is_suspended())
}

pub(super) unsafe extern "C" fn set_resume_requester(
    context: *const RawContext,
    requester: *mut ResumeRequester,
) -> i32 {
    // SAFETY: the caller holds the context.
    let driver = &unsafe { instance(context) }.driver;
    if requester.is_null() {
        // The one before is dropped, which is code of the driver.
        contain_here(|| driver.clear_resume_requester());
        return OK;
    }
    // SAFETY: the caller owns the requester, and nothing below fails.
    let requester = unsafe { HostResumeRequester::take(requester) };
    contain_here(|| driver.set_resume_requester(move |_| requester.call()));
    OK
}

pub(super) unsafe extern "C" fn add_wake_vector(
    context: *const RawContext,
    irq: *mut RawIrq,
    out: *mut *mut RawWakeVector,
) -> i32 {
    // SAFETY: the caller holds both.
    let (instance, irq) = unsafe { (instance(context), lend::<Irq, _>(irq)) };
    // SAFETY: the out parameter is valid for the call.
    unsafe { hand_out(instance.driver.register_wake_vector(irq, Interest::READABLE), out) }
}

pub(super) unsafe extern "C" fn add_socket_wake_vector(
    context: *const RawContext,
    socket: *mut RawSocket,
    interest_bits: u32,
    out: *mut *mut RawWakeVector,
) -> i32 {
    let interest = match interest(interest_bits) {
        Ok(interest) => interest,
        Err(status) => return status.as_raw(),
    };
    // SAFETY: the caller holds both.
    let (instance, socket) = unsafe { (instance(context), lend::<Socket, _>(socket)) };
    // SAFETY: the out parameter is valid for the call.
    unsafe { hand_out(socket.register_wake_vector(&instance.driver, interest), out) }
}

/// Gives the caller the registration, if there is one.
///
/// # Safety
/// `out` is valid for the call.
unsafe fn hand_out(added: Result<WakeVector, WakeVectorError>, out: *mut *mut RawWakeVector) -> i32 {
    match added {
        Ok(vector) => {
            // SAFETY: the caller vouches for the pointer.
            unsafe { *out = own(vector) };
            OK
        }
        Err(error) => error.status().as_raw(),
    }
}

pub(super) unsafe extern "C" fn wake_vector_release(pointer: *mut RawWakeVector) {
    // SAFETY: the caller gives the box up.
    unsafe { disown::<WakeVector, _>(pointer) };
}
