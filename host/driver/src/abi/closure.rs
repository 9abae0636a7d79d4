//! Rust closures as C callbacks: packing, the trampolines that catch panics, and the reports of panics.
//!
//! # Invariants
//! - `pack::<F>` and `unpack::<F>` are used in pairs with the same `F`; each struct made here carries trampolines of
//!   the `F` that its data was packed from.
//! - Data is unpacked once: by the trampoline that ends the struct, or by the code here when the struct was refused.

use std::any::Any;
use std::ffi::c_void;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use super::calls::{Callback, ConnectCallback, Connector, MessageCallback, ReadyCallback};
use super::channel::{Buffer, Handle, message_of_parts};
use super::objects::ChannelObject;
use super::parts::MessageParts;
use super::site::CallSite;
use super::types::{Data, OK, Panic, RawChannel, Str};
use crate::{Canceled, Channel, Message, Status};

#[cfg(not(panic = "unwind"))]
compile_error!(
    "drivers are built with panic = \"unwind\": a panic is caught at the boundary and stops one driver, not the process"
);

/// What a message holds.
pub(crate) type Content = (Option<Buffer>, Vec<Handle>);

/// Whether a closure is carried in the pointer itself.
const fn fits<F>() -> bool {
    size_of::<F>() <= size_of::<Data>() && align_of::<F>() <= align_of::<Data>()
}

/// Turns a closure into what is carried across: itself if it fits into a pointer, else a box.
fn pack<F: Send + 'static>(closure: F) -> Data {
    if !fits::<F>() {
        return Data::new(Box::into_raw(Box::new(closure)).cast());
    }
    let mut data = Data::new(ptr::null_mut());
    // SAFETY: `fits` has compared size and alignment.
    unsafe { data.as_mut_ptr().cast::<F>().write(closure) };
    data
}

/// The closure again.
///
/// # Safety
/// `data` came from `pack::<F>` and was not unpacked before.
unsafe fn unpack<F>(data: Data) -> F {
    if fits::<F>() {
        // SAFETY: `pack` has written an `F` there, and it is read out once.
        return unsafe { data.as_ptr().cast::<F>().read() };
    }
    // SAFETY: `pack` has stored the address of a box.
    let address = unsafe { data.assume_init() };
    // SAFETY: the box is taken back once.
    *unsafe { Box::from_raw(address.cast::<F>()) }
}

/// What a callback is told, made from a raw status.
pub(crate) trait FromRaw {
    /// Converts.
    fn from_raw(status: i32) -> Self;
}

impl FromRaw for Result<(), Canceled> {
    fn from_raw(status: i32) -> Self {
        if status >= OK { Ok(()) } else { Err(Canceled) }
    }
}

impl FromRaw for Result<(), Status> {
    fn from_raw(status: i32) -> Self {
        Status::result_of(status)
    }
}

/// What a callback is told that waits for readiness.
pub(crate) trait FromReady {
    /// Converts the bits.
    fn from_ready(ready: Result<u32, Status>) -> Self;
}

/// What a callback is told that gets a channel end.
pub(crate) trait FromChannel {
    /// Converts.
    fn from_channel(channel: ChannelObject) -> Self;
}

impl FromChannel for ChannelObject {
    fn from_channel(channel: ChannelObject) -> Self {
        channel
    }
}

impl FromChannel for Channel {
    fn from_channel(channel: ChannelObject) -> Self {
        Channel::from_object(channel)
    }
}

/// Packs `closure`, which comes from `site`, lets `give` pass the struct on, and unpacks it again if it was refused.
pub(crate) fn give_callback<A: FromRaw, F: FnOnce(A) + Send + 'static>(
    site: &'static CallSite,
    closure: F,
    give: impl FnOnce(*mut Callback) -> i32,
) -> Result<(), (F, Status)> {
    let mut callback = Callback { data: pack(closure), site, call: call_status::<A, F>, drop: drop_packed::<F> };
    refused_or(give(&raw mut callback), callback.data)
}

/// As [`give_callback`], for a callback that learns what is ready.
pub(crate) fn give_ready<A: FromReady, F: FnOnce(A) + Send + 'static>(
    site: &'static CallSite,
    closure: F,
    give: impl FnOnce(*mut ReadyCallback) -> i32,
) -> Result<(), (F, Status)> {
    let mut callback = ReadyCallback { data: pack(closure), site, call: call_ready::<A, F>, drop: drop_packed::<F> };
    refused_or(give(&raw mut callback), callback.data)
}

/// As [`give_callback`], for a callback that gets a channel.
pub(crate) fn give_connect<E: FromChannel, F: FnOnce(Result<E, Status>) + Send + 'static>(
    site: &'static CallSite,
    closure: F,
    give: impl FnOnce(*mut ConnectCallback) -> i32,
) -> Result<(), (F, Status)> {
    let mut callback =
        ConnectCallback { data: pack(closure), site, call: call_connect::<E, F>, drop: drop_packed::<F> };
    refused_or(give(&raw mut callback), callback.data)
}

/// As [`give_callback`], for a callback that gets a message.
pub(crate) fn give_message<F: FnOnce(Result<Message, Status>) + Send + 'static>(
    site: &'static CallSite,
    closure: F,
    give: impl FnOnce(*mut MessageCallback) -> i32,
) -> Result<(), (F, Status)> {
    let mut callback = MessageCallback { data: pack(closure), site, call: call_message::<F>, drop: drop_packed::<F> };
    refused_or(give(&raw mut callback), callback.data)
}

fn refused_or<F>(status: i32, data: Data) -> Result<(), (F, Status)> {
    // SAFETY: on refusal the callee has touched nothing, so the data packed from an `F` is still ours.
    Status::result_of(status).map_err(|status| (unsafe { unpack::<F>(data) }, status))
}

unsafe extern "C" fn call_status<A: FromRaw, F: FnOnce(A)>(data: Data, status: i32) -> *mut Panic {
    // SAFETY: the struct that names this trampoline carries an `F`, and it is called once.
    let closure = unsafe { unpack::<F>(data) };
    caught(|| closure(A::from_raw(status)))
}

unsafe extern "C" fn call_ready<A: FromReady, F: FnOnce(A)>(data: Data, status: i32, ready: u32) -> *mut Panic {
    // SAFETY: as `call_status`.
    let closure = unsafe { unpack::<F>(data) };
    caught(|| closure(A::from_ready(Status::result_of(status).map(|()| ready))))
}

unsafe extern "C" fn call_connect<E: FromChannel, F: FnOnce(Result<E, Status>)>(
    data: Data,
    status: i32,
    channel: *mut RawChannel,
) -> *mut Panic {
    // SAFETY: as `call_status`.
    let closure = unsafe { unpack::<F>(data) };
    // SAFETY: with status 0 the host hands an owned channel end over.
    let outcome = Status::result_of(status).map(|()| unsafe { ChannelObject::from_owned(channel) });
    caught(|| closure(outcome.map(E::from_channel)))
}

unsafe extern "C" fn call_message<F: FnOnce(Result<Message, Status>)>(
    data: Data,
    status: i32,
    message: *mut MessageParts,
) -> *mut Panic {
    // SAFETY: as `call_status`.
    let closure = unsafe { unpack::<F>(data) };
    // SAFETY: with status 0 the host hands the parts of a message over.
    let outcome = Status::result_of(status).map(|()| Message::from_parts(unsafe { message_of_parts(&*message) }, None));
    caught(|| closure(outcome))
}

unsafe extern "C" fn drop_packed<F>(data: Data) -> *mut Panic {
    // SAFETY: as `call_status`.
    let closure = unsafe { unpack::<F>(data) };
    caught(|| drop(closure))
}

/// A shared closure as the connector of a service.
pub(crate) fn connector(site: &'static CallSite, accept: Box<dyn Fn(ChannelObject) + Send + Sync>) -> Connector {
    Connector { data: Box::into_raw(Box::new(accept)).cast(), site, accept: accept_channel, drop: drop_connector }
}

/// Ends a connector that was not handed over.
pub(super) fn drop_unused_connector(connector: Connector) {
    // SAFETY: the connector was made by `connector` and the host has not taken it.
    drop(unsafe { Box::from_raw(connector.data.cast::<Box<dyn Fn(ChannelObject) + Send + Sync>>()) });
}

unsafe extern "C" fn accept_channel(data: *mut c_void, channel: *mut RawChannel) -> *mut Panic {
    // SAFETY: `connector` has made the data, and `drop` has not been called yet.
    let accept = unsafe { &*data.cast::<Box<dyn Fn(ChannelObject) + Send + Sync>>() };
    // SAFETY: the host hands an owned channel end over.
    let channel = unsafe { ChannelObject::from_owned(channel) };
    caught(|| accept(channel))
}

unsafe extern "C" fn drop_connector(data: *mut c_void) -> *mut Panic {
    // SAFETY: `connector` has made the data, and `drop` is called once.
    let accept = unsafe { Box::from_raw(data.cast::<Box<dyn Fn(ChannelObject) + Send + Sync>>()) };
    caught(|| drop(accept))
}

/// Runs `f` and turns a panic into a report for the host.
pub(super) fn caught(f: impl FnOnce()) -> *mut Panic {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(()) => ptr::null_mut(),
        Err(payload) => report(message_of(payload)),
    }
}

/// Runs `f`, and swallows a panic: for places where one was reported already.
pub(super) fn quietly(f: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(f)) {
        message_of(payload);
    }
}

#[repr(C)]
struct Report {
    head: Panic,
    text: String,
}

/// A report that the host frees.
pub(super) fn report(text: String) -> *mut Panic {
    let head = Panic { message: Str::new(&text), free: free_report };
    Box::into_raw(Box::new(Report { head, text })).cast()
}

unsafe extern "C" fn free_report(panic: *mut Panic) {
    // SAFETY: the pointer came from `report`, whose box starts with the `Panic`, and is freed once.
    let report = unsafe { Box::from_raw(panic.cast::<Report>()) };
    drop(report.text);
}

/// What a panic said. Never unwinds, whatever the payload's destructor does.
pub(crate) fn message_of(payload: Box<dyn Any + Send>) -> String {
    let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (None, Some(text)) => text.clone(),
        (None, None) => String::from("a panic whose payload is no text"),
    };
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        mem::forget(second);
    }
    text
}
