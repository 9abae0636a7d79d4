//! Sockets of the fake host: streams in memory with a small buffer, listeners by name.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::world::{FakeDispatcher, Op, Outcome};
use super::{lend, share};
use crate::Status;
use crate::abi::host::{HostReadyCallback, raw_status};
use crate::abi::{
    CallSite, HANGUP, OK, READABLE, RawDispatcher, RawSocket, RawWait, ReadyCallback, SHUTDOWN_READ, SHUTDOWN_WRITE,
    Slice, Str, TextSink, WRITABLE,
};

/// How many bytes a stream holds in each direction; small, so that writers meet its end.
pub(crate) const CAPACITY: usize = 64;

/// All sockets of a world are under one lock.
type Net = Mutex<Listeners>;
pub(crate) type Listeners = BTreeMap<String, Arc<Listener>>;

#[derive(Default)]
pub(crate) struct Listener {
    backlog: Mutex<VecDeque<(Arc<Pipe>, String)>>,
    waits: Waits,
    /// What the next accepts answer instead.
    refusals: Mutex<VecDeque<Status>>,
}

#[derive(Default)]
pub(crate) struct Pipe {
    /// By the side that reads.
    bytes: Mutex<[VecDeque<u8>; 2]>,
    /// By the side that has ended its writing.
    ended: Mutex<[bool; 2]>,
    closed: Mutex<[bool; 2]>,
    waits: [Waits; 2],
}

#[derive(Default)]
struct Waits(Mutex<Vec<(Arc<FakeDispatcher>, u64, u32)>>);

impl Waits {
    /// Fires those that are ready now.
    fn check(&self, ready: u32) {
        let mut waits = lock(&self.0);
        waits.retain(|(dispatcher, op, interest)| {
            let hit = ready & (interest | HANGUP);
            if hit != 0 {
                dispatcher.fire(*op, Outcome { status: Ok(()), ready: hit });
            }
            hit == 0
        });
    }

    fn cancel_all(&self) {
        for (dispatcher, op, _) in lock(&self.0).drain(..) {
            dispatcher.fire(op, Outcome { status: Err(Status::Canceled), ready: 0 });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) enum FakeSocket {
    Listener(Arc<Listener>, String, Arc<Net>),
    Stream { pipe: Arc<Pipe>, side: usize, local: String, peer: String },
}

pub(super) struct FakeWait {
    dispatcher: Arc<FakeDispatcher>,
    op: u64,
}

impl Pipe {
    fn ready(&self, side: usize) -> u32 {
        let peer = 1 - side;
        let (bytes, ended, closed) = (lock(&self.bytes), lock(&self.ended), lock(&self.closed));
        let mut ready = 0;
        if !bytes[side].is_empty() || ended[peer] || closed[peer] {
            ready |= READABLE;
        }
        if bytes[peer].len() < CAPACITY || closed[peer] {
            ready |= WRITABLE;
        }
        if closed[peer] {
            ready |= HANGUP;
        }
        ready
    }

    fn changed(&self) {
        for side in 0..2 {
            self.waits[side].check(self.ready(side));
        }
    }

    fn read(&self, side: usize, into: &mut [u8]) -> Result<usize, Status> {
        let count = {
            let mut bytes = lock(&self.bytes);
            let count = bytes[side].len().min(into.len());
            into.iter_mut().zip(bytes[side].drain(..count)).for_each(|(to, from)| *to = from);
            count
        };
        let over = lock(&self.ended)[1 - side] || lock(&self.closed)[1 - side];
        if count == 0 && !over && !into.is_empty() {
            return Err(Status::ShouldWait);
        }
        self.changed();
        Ok(count)
    }

    fn write(&self, side: usize, from: &[u8]) -> Result<usize, Status> {
        if lock(&self.closed)[1 - side] || lock(&self.ended)[side] {
            return Err(Status::PeerClosed);
        }
        let count = {
            let mut bytes = lock(&self.bytes);
            let count = from.len().min(CAPACITY - bytes[1 - side].len());
            bytes[1 - side].extend(&from[..count]);
            count
        };
        if count == 0 && !from.is_empty() {
            return Err(Status::ShouldWait);
        }
        self.changed();
        Ok(count)
    }
}

impl Drop for FakeSocket {
    fn drop(&mut self) {
        match self {
            FakeSocket::Listener(listener, address, net) => {
                lock(net).remove(address);
                listener.waits.cancel_all();
            }
            FakeSocket::Stream { pipe, side, .. } => {
                lock(&pipe.closed)[*side] = true;
                pipe.waits[*side].cancel_all();
                pipe.changed();
            }
        }
    }
}

impl Listener {
    /// Makes the next accept fail.
    pub(super) fn refuse_next(&self, status: Status) {
        lock(&self.refusals).push_back(status);
        self.waits.check(READABLE);
    }
}

fn give(socket: FakeSocket) -> *mut RawSocket {
    let socket = Arc::new(socket);
    super::watch(&socket);
    Arc::into_raw(socket).cast_mut().cast()
}

pub(super) unsafe extern "C" fn socket_listen(
    dispatcher: *const RawDispatcher,
    address: Str,
    _site: *const CallSite,
    out: *mut *mut RawSocket,
    local: TextSink,
    error: TextSink,
) -> i32 {
    // SAFETY: the caller passes valid arguments.
    let (dispatcher, address) = unsafe { (lend::<FakeDispatcher, _>(dispatcher), address.to_text()) };
    let net = Arc::clone(&dispatcher.world.net);
    let mut listeners = lock(&net);
    let address = match address.strip_suffix(":0") {
        Some(host) => format!("{host}:{}", 40000 + listeners.len()),
        None => address,
    };
    if listeners.contains_key(&address) {
        // SAFETY: the caller passes a valid sink.
        unsafe { error.deliver(&format!("{address} is in use")) };
        return Status::AddressInUse.as_raw();
    }
    let listener = Arc::new(Listener::default());
    listeners.insert(address.clone(), Arc::clone(&listener));
    drop(listeners);
    // SAFETY: the caller passes a valid sink.
    unsafe { local.deliver(&address) };
    // SAFETY: the caller passes a valid out pointer.
    unsafe { *out = give(FakeSocket::Listener(listener, address, net)) };
    OK
}

pub(super) unsafe extern "C" fn socket_accept(socket: *mut RawSocket, out: *mut *mut RawSocket, peer: TextSink) -> i32 {
    // SAFETY: the caller passes a valid socket.
    let FakeSocket::Listener(listener, address, _) = (unsafe { lend::<FakeSocket, _>(socket) }) else {
        return Status::WrongType.as_raw();
    };
    let refusal = lock(&listener.refusals).pop_front();
    if let Some(status) = refusal {
        return status.as_raw();
    }
    let next = lock(&listener.backlog).pop_front();
    let Some((pipe, from)) = next else { return Status::ShouldWait.as_raw() };
    // SAFETY: the caller passes a valid sink.
    unsafe { peer.deliver(&from) };
    let stream = FakeSocket::Stream { pipe, side: 1, local: address.clone(), peer: from };
    // SAFETY: the caller passes a valid out pointer.
    unsafe { *out = give(stream) };
    OK
}

pub(super) unsafe extern "C" fn socket_connect(
    dispatcher: *const RawDispatcher,
    address: Str,
    _site: *const CallSite,
    out: *mut *mut RawSocket,
    error: TextSink,
) -> i32 {
    // SAFETY: the caller passes valid arguments.
    let (dispatcher, address) = unsafe { (lend::<FakeDispatcher, _>(dispatcher), address.to_text()) };
    let listener = lock(&dispatcher.world.net).get(&address).cloned();
    let Some(listener) = listener else {
        // SAFETY: the caller passes a valid sink.
        unsafe { error.deliver(&format!("nobody listens on {address}")) };
        return Status::ConnectionRefused.as_raw();
    };
    let pipe = Arc::new(Pipe::default());
    lock(&listener.backlog).push_back((Arc::clone(&pipe), String::from("unix:")));
    listener.waits.check(READABLE);
    // SAFETY: the caller passes a valid out pointer.
    unsafe { *out = give(FakeSocket::Stream { pipe, side: 0, local: String::from("unix:"), peer: address }) };
    OK
}

pub(super) unsafe extern "C" fn socket_take_error(_socket: *mut RawSocket) -> i32 {
    OK
}

pub(super) unsafe extern "C" fn socket_read(socket: *mut RawSocket, into: *mut u8, len: usize, out: *mut usize) -> i32 {
    // SAFETY: the caller passes a valid socket.
    let FakeSocket::Stream { pipe, side, .. } = (unsafe { lend::<FakeSocket, _>(socket) }) else {
        return Status::WrongType.as_raw();
    };
    // SAFETY: the caller passes a valid buffer.
    let into = unsafe { std::slice::from_raw_parts_mut(into, len) };
    // SAFETY: the caller passes a valid out pointer.
    raw_status(pipe.read(*side, into).map(|count| unsafe { *out = count }))
}

pub(super) unsafe extern "C" fn socket_write(
    socket: *mut RawSocket,
    slices: *const Slice,
    count: usize,
    out: *mut usize,
) -> i32 {
    // SAFETY: the caller passes a valid socket.
    let FakeSocket::Stream { pipe, side, .. } = (unsafe { lend::<FakeSocket, _>(socket) }) else {
        return Status::WrongType.as_raw();
    };
    let mut bytes = Vec::new();
    for index in 0..count {
        // SAFETY: the array has that many slices.
        let slice = unsafe { *slices.add(index) };
        if slice.len > 0 {
            // SAFETY: the caller passes valid slices.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(slice.ptr, slice.len) });
        }
    }
    // SAFETY: the caller passes a valid out pointer.
    raw_status(pipe.write(*side, &bytes).map(|count| unsafe { *out = count }))
}

pub(super) unsafe extern "C" fn socket_shutdown(socket: *mut RawSocket, how: u32) -> i32 {
    // SAFETY: the caller passes a valid socket.
    let FakeSocket::Stream { pipe, side, .. } = (unsafe { lend::<FakeSocket, _>(socket) }) else {
        return Status::WrongType.as_raw();
    };
    if how & SHUTDOWN_WRITE != 0 {
        lock(&pipe.ended)[*side] = true;
    }
    if how & SHUTDOWN_READ != 0 {
        lock(&pipe.ended)[1 - *side] = true;
    }
    pipe.changed();
    OK
}

pub(super) unsafe extern "C" fn socket_local_address(socket: *mut RawSocket, sink: TextSink) -> i32 {
    // SAFETY: the caller passes a valid socket.
    let address = match unsafe { lend::<FakeSocket, _>(socket) } {
        FakeSocket::Listener(_, address, _) => address,
        FakeSocket::Stream { local, .. } => local,
    };
    // SAFETY: the caller passes a valid sink.
    unsafe { sink.deliver(address) };
    OK
}

pub(super) unsafe extern "C" fn socket_peer_address(socket: *mut RawSocket, sink: TextSink) -> i32 {
    // SAFETY: the caller passes a valid socket.
    let FakeSocket::Stream { peer, .. } = (unsafe { lend::<FakeSocket, _>(socket) }) else {
        return Status::NotConnected.as_raw();
    };
    // SAFETY: the caller passes a valid sink.
    unsafe { sink.deliver(peer) };
    OK
}

pub(super) unsafe extern "C" fn socket_begin_wait(
    socket: *mut RawSocket,
    dispatcher: *const RawDispatcher,
    interest: u32,
    callback: *mut ReadyCallback,
    out: *mut *mut RawWait,
) -> i32 {
    // SAFETY: the caller passes a valid socket.
    let socket: &FakeSocket = unsafe { lend(socket) };
    // SAFETY: the caller passes a valid dispatcher.
    let dispatcher = unsafe { share::<FakeDispatcher, _>(dispatcher) };
    // SAFETY: the callback is moved out of the caller's copy; a refusal gives it back.
    let callback = unsafe { HostReadyCallback::take(callback) };
    let op = match dispatcher.accept(Op::Wait(callback)) {
        Ok(op) => op,
        Err(Op::Wait(callback)) => {
            callback.give_back();
            return Status::BadState.as_raw();
        }
        Err(_) => unreachable!("the operation comes back as it was"),
    };
    let (waits, ready) = match socket {
        FakeSocket::Stream { pipe, side, .. } => (&pipe.waits[*side], pipe.ready(*side)),
        FakeSocket::Listener(listener, ..) => {
            let waiting = !lock(&listener.backlog).is_empty() || !lock(&listener.refusals).is_empty();
            (&listener.waits, if waiting { READABLE } else { 0 })
        }
    };
    lock(&waits.0).push((Arc::clone(&dispatcher), op, interest));
    waits.check(ready);
    if !out.is_null() {
        // SAFETY: the caller passes null or a valid out pointer.
        unsafe { *out = Box::into_raw(Box::new(FakeWait { dispatcher, op })).cast() };
    }
    OK
}

pub(super) unsafe extern "C" fn fd_begin_wait(
    _fd: i32,
    _dispatcher: *const RawDispatcher,
    _interest: u32,
    _callback: *mut ReadyCallback,
    _out: *mut *mut RawWait,
) -> i32 {
    // There are no descriptors in this world.
    Status::NotSupported.as_raw()
}

pub(super) unsafe extern "C" fn wait_cancel(wait: *mut RawWait) -> i32 {
    // SAFETY: the caller passes a valid wait.
    let wait: &FakeWait = unsafe { lend(wait) };
    raw_status(wait.dispatcher.take_back(wait.op).map(drop).ok_or(Status::NotFound))
}

pub(super) unsafe extern "C" fn wait_release(wait: *mut RawWait) {
    // SAFETY: the caller gives the wait up.
    drop(unsafe { Box::from_raw(wait.cast::<FakeWait>()) });
}

pub(super) unsafe extern "C" fn socket_close(socket: *mut RawSocket) {
    if !socket.is_null() {
        // SAFETY: the caller gives the socket up.
        drop(unsafe { Arc::from_raw(socket.cast::<FakeSocket>()) });
    }
}
