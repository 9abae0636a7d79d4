//! Table functions: calls over channels.
//!
//! # Invariants
//! - As in `channels`: a request that was sent is gone, and one that was not is the caller's, with nothing of it dropped.

use std::mem::forget;

use fuchsine_dispatcher::{Instant, Message, Status};
use fuchsine_driver::abi::host::HostMessageCallback;
use fuchsine_driver::abi::{MessageCallback, MessageParts, OK, RawChannel, RawDispatcher, RawTask};

use super::channels::{Sent, channel, send_parts, take_apart};
use super::dispatchers::hand_out_task;
use super::{dispatcher, site};
use crate::host::driver_status;

pub(super) unsafe extern "C" fn call(
    pointer: *mut RawChannel,
    request: *const MessageParts,
    deadline: u64,
    out: *mut MessageParts,
    out_sent: *mut u32,
) -> i32 {
    // SAFETY: the caller holds the channel, and the parts are valid for the call.
    let (channel, parts) = unsafe { (channel(pointer), &*request) };
    let send = |request: Message| match channel.call(request, Instant::from_nanos(deadline)) {
        Ok(reply) => Sent::Yes(Ok(reply)),
        Err(error) => {
            let status = error.status();
            match error.into_request() {
                Some(request) => Sent::No(request, status),
                None => Sent::Yes(Err(status)),
            }
        }
    };
    // SAFETY: the caller owns what the parts name.
    let called = unsafe { send_parts(parts, send) };
    // SAFETY: the out parameter is valid for the call.
    unsafe { *out_sent = u32::from(called.is_ok()) };
    match called.flatten() {
        Ok(reply) => {
            // SAFETY: the out parameter is valid for the call.
            unsafe { *out = take_apart(reply) };
            OK
        }
        Err(status) => status.as_raw(),
    }
}

pub(super) unsafe extern "C" fn begin_call(
    pointer: *mut RawChannel,
    dispatcher_pointer: *const RawDispatcher,
    request: *const MessageParts,
    deadline: u64,
    callback: *mut MessageCallback,
    out: *mut *mut RawTask,
) -> i32 {
    // SAFETY: the caller holds both, and the parts are valid for the call.
    let (channel, handle, parts) = unsafe { (channel(pointer), dispatcher(dispatcher_pointer), &*request) };
    let send = |request: Message| {
        // SAFETY: the caller owns the callback; on a refusal it is forgotten below.
        let callback = unsafe { HostMessageCallback::take(callback) };
        // SAFETY: a call site lives as long as the process.
        let site = unsafe { site(callback.site()) };
        let told = move |reply: Result<Message, Status>| {
            // SAFETY: the parts are made here, and given up.
            unsafe { callback.call(reply.map(take_apart).map_err(driver_status)) };
        };
        match channel.begin_call_from(site, &handle, request, Instant::from_nanos(deadline), told) {
            Ok(task) => Sent::Yes(task),
            Err(refused) => {
                let status = refused.status();
                let (request, told) = refused.into_inner();
                // It holds nothing but the driver's callback, which stays the driver's.
                forget(told);
                Sent::No(request, status)
            }
        }
    };
    // SAFETY: the caller owns what the parts name.
    match unsafe { send_parts(parts, send) } {
        // SAFETY: the out parameter is null, or valid for the call.
        Ok(task) => unsafe { hand_out_task(out, &handle, task) },
        Err(status) => status.as_raw(),
    }
}
