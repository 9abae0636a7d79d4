//! Table functions: tokens.
//!
//! # Invariants
//! - See `load`. A `RawToken` is a box of `Token`. A token or channel end that is used up is moved out of its box, whose
//!   memory is freed; one that is refused is put back, so that its address stays what it was.

use std::mem::forget;
use std::ptr;

use fuchsine_dispatcher::{Channel, Status, Token};
use fuchsine_driver::abi::host::HostConnectCallback;
use fuchsine_driver::abi::{CallSite, ConnectCallback, NO_CHANNEL, OK, RawChannel, RawDispatcher, RawTask, RawToken};

use super::dispatchers::hand_out_task;
use super::{contain_here, dispatcher, own, site};
use crate::host::driver_status;

pub(super) unsafe extern "C" fn create(
    made_at: *const CallSite,
    out_a: *mut *mut RawToken,
    out_b: *mut *mut RawToken,
) -> i32 {
    // SAFETY: a call site lives as long as the process.
    let (a, b) = Token::pair_from(unsafe { site(made_at) });
    // SAFETY: the out parameters are valid for the call.
    unsafe { *out_a = own(a) };
    // SAFETY: as above.
    unsafe { *out_b = own(b) };
    OK
}

/// A value that was moved out of the box of a caller, who gets it back unless it is used up.
struct Lent<T>(*mut T);

impl<T> Lent<T> {
    /// # Safety
    /// `pointer` came from `own::<T, R>`, and its holder gives it up until [`put_back`](Lent::put_back).
    unsafe fn take<R>(pointer: *mut R) -> (T, Lent<T>) {
        let place = pointer.cast::<T>();
        // SAFETY: the caller vouches for the pointer; what it leads to is written again or forgotten.
        (unsafe { ptr::read(place) }, Lent(place))
    }

    fn put_back(self, value: T) {
        // SAFETY: the box is still there, and its content was moved out.
        unsafe { ptr::write(self.0, value) };
    }

    fn use_up(self) {
        // SAFETY: as above; `ManuallyDrop` has the layout of what is in it, and drops nothing.
        drop(unsafe { Box::from_raw(self.0.cast::<std::mem::ManuallyDrop<T>>()) });
    }
}

pub(super) unsafe extern "C" fn register(
    pointer: *mut RawToken,
    dispatcher_pointer: *const RawDispatcher,
    callback: *mut ConnectCallback,
    out: *mut *mut RawTask,
) -> i32 {
    // SAFETY: the caller holds the handle.
    let handle = unsafe { dispatcher(dispatcher_pointer) };
    // SAFETY: the caller owns the token.
    let (token, place) = unsafe { Lent::<Token>::take(pointer) };
    // SAFETY: the caller owns the callback; on a refusal it is forgotten below.
    let callback = unsafe { HostConnectCallback::take(callback) };
    // SAFETY: a call site lives as long as the process.
    let site = unsafe { site(callback.site()) };
    let told = move |channel: Result<Channel, Status>| {
        let end = channel.map(own::<Channel, RawChannel>).map_err(driver_status);
        // SAFETY: the end is owned here, and given up.
        unsafe { callback.call(end) };
    };
    match token.register_from(site, &handle, told) {
        Ok(task) => {
            place.use_up();
            // SAFETY: the out parameter is null, or valid for the call.
            unsafe { hand_out_task(out, &handle, task) }
        }
        Err(refused) => {
            let status = refused.status();
            let (token, told) = refused.into_inner();
            place.put_back(token);
            // It holds nothing but the driver's callback, which stays the driver's.
            forget(told);
            status.as_raw()
        }
    }
}

pub(super) unsafe extern "C" fn transfer(pointer: *mut RawToken, channel: *mut RawChannel) -> i32 {
    // SAFETY: the caller owns the token.
    let (token, token_place) = unsafe { Lent::<Token>::take(pointer) };
    // SAFETY: the caller owns the channel.
    let (channel, channel_place) = unsafe { Lent::<Channel>::take(channel) };
    match token.transfer(channel) {
        Ok(()) => {
            token_place.use_up();
            channel_place.use_up();
            OK
        }
        Err(refused) => {
            let status = refused.status();
            let (token, channel) = refused.into_inner();
            token_place.put_back(token);
            channel_place.put_back(channel);
            status.as_raw()
        }
    }
}

pub(super) unsafe extern "C" fn receive(pointer: *mut RawToken, out: *mut *mut RawChannel) -> i32 {
    // SAFETY: the out parameter is valid for the call.
    unsafe { *out = NO_CHANNEL };
    // SAFETY: the caller owns the token.
    let (token, place) = unsafe { Lent::<Token>::take(pointer) };
    match token.receive() {
        Ok(channel) => {
            place.use_up();
            // SAFETY: the out parameter is valid for the call.
            unsafe { *out = own(channel) };
            OK
        }
        Err(refused) => {
            let status = refused.status();
            place.put_back(refused.into_inner());
            status.as_raw()
        }
    }
}

pub(super) unsafe extern "C" fn release(pointer: *mut RawToken) {
    if !pointer.is_null() {
        // SAFETY: the caller gives the box up.
        let token = unsafe { Box::from_raw(pointer.cast::<Token>()) };
        // A channel that was transferred may hold values of drivers in unread messages.
        contain_here(|| drop(token));
    }
}
