//! Table functions: sockets and waits for readiness.
//!
//! # Invariants
//! - See `load`. A `RawSocket` is a box of `Socket`, a `RawWait` one of [`Wait`].
//! - Buffers and slices are lent for the call.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::slice;

use fuchsine_dispatcher::{DispatcherHandle, Interest, Status, WaitHandle};
use fuchsine_driver::abi::host::HostReadyCallback;
use fuchsine_driver::abi::{
    CallSite, OK, READABLE, RawDispatcher, RawSocket, RawWait, ReadyCallback, SHUTDOWN_READ, SHUTDOWN_WRITE, Slice,
    Str, TextSink, WRITABLE,
};

use super::{contain, disown, dispatcher, lend, own, site};
use crate::host::driver_status;
use crate::net::{Direction, Socket, SocketWait, bits};

/// How many slices one write takes; the caller sees that the rest was not written.
const MAX_SLICES: usize = 64;

/// The status of an error, or what follows a success.
fn answer<T>(result: io::Result<T>, then: impl FnOnce(T)) -> i32 {
    match result {
        Ok(value) => {
            then(value);
            OK
        }
        Err(error) => Status::from(&error).as_raw(),
    }
}

/// # Safety
/// The caller of the table function holds `pointer` for `'a`.
unsafe fn socket<'a>(pointer: *const RawSocket) -> &'a Socket {
    // SAFETY: every `RawSocket` is a box of `Socket`; the caller vouches for the rest.
    unsafe { lend(pointer) }
}

pub(super) unsafe extern "C" fn listen(
    pointer: *const RawDispatcher,
    address: Str,
    made_at: *const CallSite,
    out: *mut *mut RawSocket,
    local: TextSink,
    error: TextSink,
) -> i32 {
    // SAFETY: the caller holds the handle, and lends the address for the call.
    let (handle, address) = unsafe { (dispatcher(pointer), address.to_text()) };
    // SAFETY: a call site lives as long as the process.
    match Socket::listen(unsafe { site(made_at) }, &handle, &address) {
        Ok((socket, address)) => {
            // SAFETY: the sink is delivered to once.
            unsafe { local.deliver(&address) };
            // SAFETY: the out parameter is valid for the call.
            unsafe { *out = own(socket) };
            OK
        }
        Err((status, sentence)) => {
            // SAFETY: the sink is delivered to once.
            unsafe { error.deliver(&sentence) };
            status.as_raw()
        }
    }
}

pub(super) unsafe extern "C" fn accept(pointer: *mut RawSocket, out: *mut *mut RawSocket, peer: TextSink) -> i32 {
    // SAFETY: the caller holds the socket.
    let accepted = unsafe { socket(pointer) }.accept();
    answer(accepted, |(stream, address)| {
        // SAFETY: the sink is delivered to once.
        unsafe { peer.deliver(&address) };
        // SAFETY: the out parameter is valid for the call.
        unsafe { *out = own(stream) };
    })
}

pub(super) unsafe extern "C" fn connect(
    pointer: *const RawDispatcher,
    address: Str,
    made_at: *const CallSite,
    out: *mut *mut RawSocket,
    error: TextSink,
) -> i32 {
    // SAFETY: the caller holds the handle, and lends the address for the call.
    let (handle, address) = unsafe { (dispatcher(pointer), address.to_text()) };
    // SAFETY: a call site lives as long as the process.
    match Socket::connect(unsafe { site(made_at) }, &handle, &address) {
        Ok(stream) => {
            // SAFETY: the out parameter is valid for the call.
            unsafe { *out = own(stream) };
            OK
        }
        Err((status, sentence)) => {
            // SAFETY: the sink is delivered to once.
            unsafe { error.deliver(&sentence) };
            status.as_raw()
        }
    }
}

pub(super) unsafe extern "C" fn take_error(pointer: *mut RawSocket) -> i32 {
    // SAFETY: the caller holds the socket.
    match unsafe { socket(pointer) }.take_error() {
        Ok(None) => OK,
        Ok(Some(error)) | Err(error) => Status::from(&error).as_raw(),
    }
}

pub(super) unsafe extern "C" fn read(pointer: *mut RawSocket, into: *mut u8, len: usize, out: *mut usize) -> i32 {
    let buffer = match len {
        0 => &mut [][..],
        // SAFETY: the caller lends initialised memory of this length for the call.
        _ => unsafe { slice::from_raw_parts_mut(into, len) },
    };
    // SAFETY: the caller holds the socket.
    let count = unsafe { socket(pointer) }.read(buffer);
    // SAFETY: the out parameter is valid for the call.
    answer(count, |count| unsafe { *out = count })
}

pub(super) unsafe extern "C" fn write(
    pointer: *mut RawSocket,
    slices: *const Slice,
    count: usize,
    out: *mut usize,
) -> i32 {
    let parts = match count {
        0 => &[][..],
        // SAFETY: the caller lends an array of this length for the call.
        _ => unsafe { slice::from_raw_parts(slices, count.min(MAX_SLICES)) },
    };
    let mut buffers = [IoSlice::new(&[]); MAX_SLICES];
    for (buffer, part) in buffers.iter_mut().zip(parts).filter(|(_, part)| part.len > 0) {
        // SAFETY: the caller lends the memory of each part for the call.
        *buffer = IoSlice::new(unsafe { slice::from_raw_parts(part.ptr, part.len) });
    }
    // SAFETY: the caller holds the socket.
    let written = unsafe { socket(pointer) }.write(&buffers[..parts.len()]);
    // SAFETY: the out parameter is valid for the call.
    answer(written, |written| unsafe { *out = written })
}

pub(super) unsafe extern "C" fn shutdown(pointer: *mut RawSocket, how: u32) -> i32 {
    let direction = match (how & SHUTDOWN_READ != 0, how & SHUTDOWN_WRITE != 0) {
        (true, true) => Direction::Both,
        (true, false) => Direction::Read,
        (false, true) => Direction::Write,
        (false, false) => return Status::InvalidArgs.as_raw(),
    };
    // SAFETY: the caller holds the socket.
    answer(unsafe { socket(pointer) }.shutdown(direction), |()| ())
}

pub(super) unsafe extern "C" fn local_address(pointer: *mut RawSocket, sink: TextSink) -> i32 {
    // SAFETY: the caller holds the socket; the sink is delivered to once.
    answer(unsafe { socket(pointer) }.local_address(), |address| unsafe { sink.deliver(&address) })
}

pub(super) unsafe extern "C" fn peer_address(pointer: *mut RawSocket, sink: TextSink) -> i32 {
    // SAFETY: the caller holds the socket; the sink is delivered to once.
    answer(unsafe { socket(pointer) }.peer_address(), |address| unsafe { sink.deliver(&address) })
}

/// The right to take a wait back.
struct Wait {
    dispatcher: DispatcherHandle,
    on: WaitOn,
}

enum WaitOn {
    Socket(SocketWait),
    Fd(WaitHandle),
}

/// What bits of the interface stand for.
pub(super) fn interest(bits: u32) -> Result<Interest, Status> {
    match (bits & READABLE != 0, bits & WRITABLE != 0) {
        (true, true) => Ok(Interest::READABLE | Interest::WRITABLE),
        (true, false) => Ok(Interest::READABLE),
        (false, true) => Ok(Interest::WRITABLE),
        (false, false) => Err(Status::InvalidArgs),
    }
}

/// Gives the caller the right to take the wait back, if it wants it.
///
/// # Safety
/// `out` is null or valid for the call.
unsafe fn hand_out(out: *mut *mut RawWait, dispatcher: &DispatcherHandle, on: WaitOn) -> i32 {
    if !out.is_null() {
        // SAFETY: the caller vouches for the pointer.
        unsafe { *out = own(Wait { dispatcher: dispatcher.clone(), on }) };
    }
    OK
}

pub(super) unsafe extern "C" fn begin_wait(
    pointer: *mut RawSocket,
    dispatcher_pointer: *const RawDispatcher,
    interest_bits: u32,
    callback: *mut ReadyCallback,
    out: *mut *mut RawWait,
) -> i32 {
    let interest = match interest(interest_bits) {
        Ok(interest) => interest,
        Err(status) => return status.as_raw(),
    };
    // SAFETY: the caller holds both.
    let (socket, handle) = unsafe { (socket(pointer), dispatcher(dispatcher_pointer)) };
    // SAFETY: the caller owns the callback; on a refusal it is given back below.
    let callback = unsafe { HostReadyCallback::take(callback) };
    // SAFETY: a call site lives as long as the process.
    let site = unsafe { site(callback.site()) };
    match socket.begin_wait(site, &handle, interest, callback) {
        // SAFETY: the out parameter is valid for the call, or null.
        Ok(wait) => unsafe { hand_out(out, &handle, WaitOn::Socket(wait)) },
        Err((status, callback)) => {
            callback.give_back();
            status.as_raw()
        }
    }
}

pub(super) unsafe extern "C" fn begin_wait_fd(
    fd: i32,
    pointer: *const RawDispatcher,
    interest_bits: u32,
    callback: *mut ReadyCallback,
    out: *mut *mut RawWait,
) -> i32 {
    let interest = match interest(interest_bits) {
        Ok(_) if fd < 0 => return Status::BadHandle.as_raw(),
        Ok(interest) => interest,
        Err(status) => return status.as_raw(),
    };
    // SAFETY: the caller holds the handle.
    let handle = unsafe { dispatcher(pointer) };
    // SAFETY: the caller promises that the descriptor stays open until the wait has ended.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    // SAFETY: the caller owns the callback; on a refusal it is forgotten below.
    let callback = unsafe { HostReadyCallback::take(callback) };
    // SAFETY: a call site lives as long as the process.
    let site = unsafe { site(callback.site()) };
    let waited =
        handle.begin_wait_from(site, &fd, interest, move |ready| callback.call(ready.map(bits).map_err(driver_status)));
    match waited {
        // SAFETY: the out parameter is valid for the call, or null.
        Ok(wait) => unsafe { hand_out(out, &handle, WaitOn::Fd(wait)) },
        Err(refused) => {
            let status = refused.status();
            // The closure holds nothing but the driver's callback, which stays the driver's.
            std::mem::forget(refused.into_inner());
            status.as_raw()
        }
    }
}

pub(super) unsafe extern "C" fn wait_cancel(wait: *mut RawWait) -> i32 {
    // SAFETY: the caller holds the wait.
    let Wait { dispatcher, on } = unsafe { lend::<Wait, _>(wait) };
    let taken_back = match on {
        WaitOn::Socket(wait) => wait.cancel().map(|callback| contain(dispatcher, || drop(callback))),
        WaitOn::Fd(wait) => wait.cancel().ok().map(|callback| contain(dispatcher, || drop(callback))),
    };
    taken_back.map_or(Status::NotFound.as_raw(), |()| OK)
}

pub(super) unsafe extern "C" fn wait_release(wait: *mut RawWait) {
    // SAFETY: the caller gives the box up.
    unsafe { disown::<Wait, _>(wait) };
}

pub(super) unsafe extern "C" fn close(pointer: *mut RawSocket) {
    // SAFETY: the caller gives the box up. Closing contains the panics of the callbacks that it drops.
    unsafe { disown::<Socket, _>(pointer) };
}
