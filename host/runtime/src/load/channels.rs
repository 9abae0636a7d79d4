//! Table functions: channels, messages and arenas.
//!
//! # Invariants
//! - See `load`. A `RawChannel` is a box of `Channel`; a `RawArena` is what `Arena::into_raw` gives.
//! - A message that is written is put together from the caller's parts by copying their bits. On success the caller's
//!   copies are dead; on a refusal the message is taken apart without dropping any of it ([`undo`]), and the caller's
//!   copies are the only ones again. A channel end keeps its box meanwhile, so that its address stays what it was.
//! - An array of handles that a read returned is a boxed slice, given back by `handles_free` after its elements were
//!   moved out; its elements have no destructor.

use std::ffi::c_void;
use std::mem::{ManuallyDrop, forget};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;

use fuchsine_dispatcher::{Arena, Buffer, Channel, Handle, Limits, Message, Site, Status, Token, Txid, Value};
use fuchsine_driver::abi::host::{HostCallback, channel_into_raw};
use fuchsine_driver::abi::{
    CallSite, Callback, HANDLE_CHANNEL, HANDLE_FD, HANDLE_TOKEN, HANDLE_VALUE, HandleParts, MessageParts, OK, Panic,
    RawArena, RawChannel, RawDispatcher, TxidParts,
};

use super::{contain_here, dispatcher, lend, own, raise, raw, site};
use crate::host::driver_status;

/// Names this image to drivers that get a value which a part of the host has sent.
static IMAGE: u8 = 0;

/// A channel end as a driver holds it.
#[derive(Debug)]
pub(super) struct ChannelEnd(Channel);

impl ChannelEnd {
    pub(super) fn into_inner(self) -> Channel {
        self.0
    }

    pub(super) fn of(end: Channel) -> ChannelEnd {
        ChannelEnd(end)
    }

    pub(super) fn into_raw(self) -> *mut RawChannel {
        own(self.0)
    }
}

/// The end that a driver of this image holds.
pub(crate) fn taken_from(end: fuchsine_driver::Channel) -> Channel {
    let raw = channel_into_raw(end).cast::<Channel>();
    // SAFETY: every `RawChannel` is a box of `Channel`, and the driver has given this one up.
    *unsafe { Box::from_raw(raw) }
}

/// Two connected ends.
pub(super) fn channel_pair(site: Site) -> (ChannelEnd, ChannelEnd) {
    let (near, far) = Channel::pair_from(site, Limits::default());
    (ChannelEnd(near), ChannelEnd(far))
}

/// # Safety
/// The caller of the table function holds `pointer` for `'a`.
pub(super) unsafe fn channel<'a>(pointer: *const RawChannel) -> &'a Channel {
    // SAFETY: every `RawChannel` is a box of `Channel`; the caller vouches for the rest.
    unsafe { lend(pointer) }
}

pub(super) unsafe extern "C" fn create(
    limit: usize,
    made_at: *const CallSite,
    out_a: *mut *mut RawChannel,
    out_b: *mut *mut RawChannel,
) -> i32 {
    let limits = if limit == 0 { Limits::default() } else { Limits::default().messages(limit) };
    // SAFETY: a call site lives as long as the process.
    let (a, b) = Channel::pair_from(unsafe { site(made_at) }, limits);
    // SAFETY: the out parameters are valid for the call.
    unsafe { *out_a = own(a) };
    // SAFETY: as above.
    unsafe { *out_b = own(b) };
    OK
}

pub(super) unsafe extern "C" fn write(pointer: *mut RawChannel, message: *const MessageParts) -> i32 {
    // SAFETY: the caller keeps to the contract of this function, which is that of the other one.
    unsafe { write_reply(pointer, message, ptr::null()) }
}

pub(super) unsafe extern "C" fn write_reply(
    pointer: *mut RawChannel,
    message: *const MessageParts,
    txid: *const TxidParts,
) -> i32 {
    // SAFETY: the caller holds the channel, and the parts are valid for the call.
    let (channel, parts) = unsafe { (channel(pointer), &*message) };
    // SAFETY: it is null or valid for the call.
    let txid = unsafe { txid.as_ref() }.and_then(|txid| Txid::from_raw_parts(txid.channel, txid.number));
    let send = |message: Message| match channel.write(message.in_reply_to(txid)) {
        Ok(()) => Sent::Yes(()),
        Err(refused) => {
            let status = refused.status();
            Sent::No(refused.into_message(), status)
        }
    };
    // SAFETY: the caller owns what the parts name.
    unsafe { send_parts(parts, send) }.map_or_else(Status::as_raw, |()| OK)
}

/// What became of a message that was to be sent.
pub(super) enum Sent<T> {
    Yes(T),
    No(Message, Status),
}

/// Has `send` send the message that the parts of a caller are put together to; what it does not send is the caller's again.
///
/// # Safety
/// The parts and their array are valid for the call, and the caller of the table function owns what they name.
pub(super) unsafe fn send_parts<T>(parts: &MessageParts, send: impl FnOnce(Message) -> Sent<T>) -> Result<T, Status> {
    // SAFETY: the array of handles is valid for the call.
    let handles = unsafe { handles_of(parts) };
    // SAFETY: the caller owns the arena reference and the handles; if the message is not sent, `undo` leaves them to it.
    match send(unsafe { assemble(parts, handles) }?) {
        Sent::Yes(value) => {
            for handle in handles {
                // What was in the boxes has moved; what is left is their memory.
                match handle.kind {
                    // SAFETY: it was boxed by `own`, and its content was moved into the message.
                    HANDLE_CHANNEL => drop(unsafe { Box::from_raw(handle.object.cast::<ManuallyDrop<Channel>>()) }),
                    // SAFETY: as above.
                    HANDLE_TOKEN => drop(unsafe { Box::from_raw(handle.object.cast::<ManuallyDrop<Token>>()) }),
                    _ => {}
                }
            }
            Ok(value)
        }
        Sent::No(message, status) => {
            undo(message);
            Err(status)
        }
    }
}

/// # Safety
/// The array that the parts name is valid for `'a`.
unsafe fn handles_of<'a>(parts: &MessageParts) -> &'a [HandleParts] {
    match parts.handle_count {
        0 => &[],
        // SAFETY: the caller vouches for the array.
        count => unsafe { slice::from_raw_parts(parts.handles, count) },
    }
}

/// A message of the caller's parts. On an error nothing was taken.
///
/// # Safety
/// The parts are valid and owned by the caller of the table function, who gives them up unless [`undo`] is called.
unsafe fn assemble(parts: &MessageParts, handles: &[HandleParts]) -> Result<Message, Status> {
    let known = |kind| matches!(kind, HANDLE_CHANNEL | HANDLE_FD | HANDLE_VALUE | HANDLE_TOKEN);
    if handles.iter().any(|handle| !known(handle.kind)) || (parts.arena.is_null() && parts.len > 0) {
        return Err(Status::InvalidArgs);
    }
    let buffer = match NonNull::new(parts.arena.cast_mut()) {
        None => None,
        Some(raw) => {
            // SAFETY: every `RawArena` came from `Arena::into_raw`, and the caller owns this reference.
            let arena = unsafe { Arena::from_raw(raw.cast()) };
            let start = NonNull::new(parts.bytes).unwrap_or(NonNull::dangling());
            if !arena.contains_raw(parts.bytes, parts.len) {
                let _still_the_callers = arena.into_raw();
                return Err(Status::InvalidArgs);
            }
            // SAFETY: the range is in the arena, as was checked; that nobody else uses it is the caller's promise.
            Some(unsafe { Buffer::from_raw_parts(arena, start, parts.len) })
        }
    };
    // SAFETY: the caller owns the handles.
    let handles = handles.iter().map(|handle| unsafe { handle_of(handle) }).collect();
    Ok(Message::from_parts(buffer, handles))
}

/// # Safety
/// The handle is owned by the caller, who uses its own copy again only if the message is undone. Its kind is known.
unsafe fn handle_of(parts: &HandleParts) -> Handle {
    match parts.kind {
        // SAFETY: the box holds a `Channel`; its bits are moved out here and, if need be, forgotten by `undo`.
        HANDLE_CHANNEL => Handle::Channel(unsafe { ptr::read(parts.object.cast::<Channel>()) }),
        // SAFETY: the caller owns the descriptor.
        HANDLE_FD => Handle::Fd(unsafe { OwnedFd::from_raw_fd(parts.fd) }),
        // SAFETY: as for a channel, with a `Token`.
        HANDLE_TOKEN => Handle::value(unsafe { ptr::read(parts.object.cast::<Token>()) }),
        _ => Handle::value(DriverValue { object: parts.object, image: parts.image, drop: parts.drop }),
    }
}

/// Takes a refused message apart without dropping anything of it: its parts are the caller's.
fn undo(message: Message) {
    let (buffer, handles) = message.into_parts();
    if let Some(buffer) = buffer {
        let (arena, ..) = buffer.into_raw_parts();
        let _still_the_callers = arena.into_raw();
    }
    for handle in handles {
        match handle {
            Handle::Channel(channel) => forget(channel),
            Handle::Fd(fd) => {
                let _still_the_callers = fd.into_raw_fd();
            }
            other => match other.into_value::<DriverValue>() {
                Ok(value) => forget(value),
                Err(other) => {
                    if let Ok(token) = other.into_value::<Token>() {
                        forget(token);
                    }
                }
            },
        }
    }
}

/// A value that a driver has put into a message. Only the image that made it may look inside.
struct DriverValue {
    object: *mut c_void,
    image: *const c_void,
    drop: Option<unsafe extern "C" fn(*mut c_void) -> *mut Panic>,
}

// SAFETY: values are made of `Send` types only, which is part of the contract of a handle.
unsafe impl Send for DriverValue {}

impl Drop for DriverValue {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            // SAFETY: the value was not taken out: whoever takes it out forgets this. So it ends here, once.
            let panic = unsafe { drop(self.object) };
            // SAFETY: the report is owned by its receiver.
            unsafe { raise(panic) };
        }
    }
}

pub(super) unsafe extern "C" fn read(pointer: *mut RawChannel, out: *mut MessageParts) -> i32 {
    // SAFETY: the caller holds the channel.
    match unsafe { channel(pointer) }.try_read() {
        Ok(message) => {
            // SAFETY: the out parameter is valid for the call.
            unsafe { *out = take_apart(message) };
            OK
        }
        Err(error) => error.status().as_raw(),
    }
}

pub(super) unsafe extern "C" fn read_request(
    pointer: *mut RawChannel,
    out: *mut MessageParts,
    out_txid: *mut TxidParts,
) -> i32 {
    // SAFETY: the caller holds the channel.
    match unsafe { channel(pointer) }.try_read() {
        Ok(message) => {
            let txid = message.txid().map_or(TxidParts::NONE, |txid| {
                let (channel, number) = txid.into_raw_parts();
                TxidParts { channel, number, ..TxidParts::NONE }
            });
            // SAFETY: the out parameter is valid for the call.
            unsafe { *out = take_apart(message) };
            // SAFETY: as above.
            unsafe { *out_txid = txid };
            OK
        }
        Err(error) => error.status().as_raw(),
    }
}

/// The parts of a message, owned by whoever gets them.
pub(super) fn take_apart(message: Message) -> MessageParts {
    let (buffer, handles) = message.into_parts();
    let mut parts = MessageParts::EMPTY;
    if let Some(buffer) = buffer {
        let (arena, start, len) = buffer.into_raw_parts();
        parts.arena = arena.into_raw().as_ptr().cast_const().cast();
        parts.bytes = start.as_ptr();
        parts.len = len;
    }
    if !handles.is_empty() {
        let handles: Box<[HandleParts]> = handles.into_iter().map(parts_of).collect();
        parts.handle_count = handles.len();
        parts.handles = Box::into_raw(handles).cast();
    }
    parts
}

fn parts_of(handle: Handle) -> HandleParts {
    let nothing = HandleParts { kind: 0, fd: 0, object: ptr::null_mut(), image: ptr::null(), drop: None };
    let value = match handle {
        Handle::Channel(channel) => {
            return HandleParts { kind: HANDLE_CHANNEL, object: own(channel), ..nothing };
        }
        Handle::Fd(fd) => return HandleParts { kind: HANDLE_FD, fd: fd.into_raw_fd(), ..nothing },
        other => other,
    };
    let value = match value.into_value::<DriverValue>() {
        Ok(value) => {
            let value = ManuallyDrop::new(value);
            let (object, image, drop) = (value.object, value.image, value.drop);
            return HandleParts { kind: HANDLE_VALUE, object, image, drop, ..nothing };
        }
        Err(other) => other,
    };
    match value.into_value::<Token>() {
        Ok(token) => HandleParts { kind: HANDLE_TOKEN, object: own(token), drop: Some(drop_token), ..nothing },
        // A value of the host's own image; a driver can carry it on, and look at its kind.
        Err(Handle::Value(value)) => {
            let image = ptr::from_ref(&IMAGE).cast();
            HandleParts { kind: HANDLE_VALUE, object: own(value), image, drop: Some(drop_value), ..nothing }
        }
        Err(_) => nothing,
    }
}

unsafe extern "C" fn drop_token(object: *mut c_void) -> *mut Panic {
    // SAFETY: `object` is a box made by `parts_of`, and this is called once.
    let token = unsafe { Box::from_raw(object.cast::<Token>()) };
    contain_here(|| drop(token));
    ptr::null_mut()
}

unsafe extern "C" fn drop_value(object: *mut c_void) -> *mut Panic {
    // SAFETY: `object` is a box made by `parts_of`, and this is called once.
    let value = unsafe { Box::from_raw(object.cast::<Value>()) };
    contain_here(|| drop(value));
    ptr::null_mut()
}

pub(super) unsafe extern "C" fn handles_free(handles: *mut HandleParts, count: usize) {
    if count > 0 {
        let handles = ptr::slice_from_raw_parts_mut(handles, count);
        // SAFETY: made by `take_apart` with this length, and given up here.
        drop(unsafe { Box::from_raw(handles) });
    }
}

pub(super) unsafe extern "C" fn begin_read(
    pointer: *mut RawChannel,
    dispatcher_pointer: *const RawDispatcher,
    callback: *mut Callback,
) -> i32 {
    // SAFETY: the caller holds both.
    let (channel, handle) = unsafe { (channel(pointer), dispatcher(dispatcher_pointer)) };
    // SAFETY: the caller owns the callback; on a refusal it is forgotten below.
    let callback = unsafe { HostCallback::take(callback) };
    // SAFETY: a call site lives as long as the process.
    let site = unsafe { site(callback.site()) };
    match channel.begin_read_from(site, &handle, move |outcome| callback.call(outcome.map_err(driver_status))) {
        Ok(()) => OK,
        Err(refused) => {
            let status = refused.status();
            // The closure holds nothing but the driver's callback, which stays the driver's.
            forget(refused.into_inner());
            status.as_raw()
        }
    }
}

pub(super) unsafe extern "C" fn cancel_read(pointer: *mut RawChannel) -> i32 {
    // SAFETY: the caller holds the channel.
    let canceled = unsafe { channel(pointer) }.cancel_read();
    raw(canceled.map(|taken_back| contain_here(|| drop(taken_back))).map_err(Status::from))
}

pub(super) unsafe extern "C" fn close(pointer: *mut RawChannel) {
    if !pointer.is_null() {
        // SAFETY: the caller gives the box up.
        let channel = unsafe { Box::from_raw(pointer.cast::<Channel>()) };
        // Unread messages may hold values of drivers.
        contain_here(|| drop(channel));
    }
}

pub(super) unsafe extern "C" fn arena_create(size_hint: usize, made_at: *const CallSite) -> *const RawArena {
    // SAFETY: a call site lives as long as the process.
    let arena = Arena::try_with_capacity_from(unsafe { site(made_at) }, size_hint);
    arena.map_or(ptr::null(), |arena| arena.into_raw().as_ptr().cast_const().cast())
}

/// Borrows an arena.
///
/// # Safety
/// The caller of the table function holds a reference.
unsafe fn arena(pointer: *const RawArena) -> ManuallyDrop<Arena> {
    // SAFETY: the caller vouches for the pointer, which is therefore not null; its reference is not given back here.
    ManuallyDrop::new(unsafe { Arena::from_raw(NonNull::new_unchecked(pointer.cast_mut()).cast()) })
}

pub(super) unsafe extern "C" fn arena_alloc(pointer: *const RawArena, len: usize, align: usize) -> *mut u8 {
    // SAFETY: the caller holds the arena.
    unsafe { arena(pointer) }.allocate_raw(len, align).map_or(ptr::null_mut(), NonNull::as_ptr)
}

pub(super) unsafe extern "C" fn arena_retain(pointer: *const RawArena) {
    // SAFETY: the caller holds the arena.
    let arena = unsafe { arena(pointer) };
    let _another_reference = (*arena).clone().into_raw();
}

pub(super) unsafe extern "C" fn arena_release(pointer: *const RawArena) {
    if !pointer.is_null() {
        // SAFETY: the caller gives its reference up.
        drop(ManuallyDrop::into_inner(unsafe { arena(pointer) }));
    }
}
