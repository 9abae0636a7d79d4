//! Channels and arenas of the fake host.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::lend;
use super::world::{FIRED, FakeDispatcher, Op, Outcome};
use crate::Status;
use crate::abi::host::{HostCallback, raw_status};
use crate::abi::{
    CallSite, Callback, HANDLE_CHANNEL, HandleParts, MessageParts, OK, RawArena, RawChannel, RawDispatcher,
};

/// One end.
pub(crate) struct FakeChannel {
    side: usize,
    pair: Arc<Mutex<Pair>>,
}

#[derive(Default)]
struct Pair {
    /// What waits to be read, by the end that reads it.
    queues: [VecDeque<Message>; 2],
    reads: [Option<(Arc<FakeDispatcher>, u64)>; 2],
    closed: [bool; 2],
    limit: usize,
}

struct Message {
    arena: Option<Arc<FakeArena>>,
    bytes: usize,
    len: usize,
    handles: Vec<crate::Handle>,
}

impl FakeChannel {
    fn pair(&self) -> MutexGuard<'_, Pair> {
        self.pair.lock().expect("the fake host does not panic")
    }

    /// The registration has ended: its callback is about to run.
    pub(super) fn forget_read(&self) {
        self.pair().reads[self.side] = None;
    }

    pub(super) fn has_read(&self) -> bool {
        self.pair().reads[self.side].is_some()
    }
}

impl Drop for FakeChannel {
    fn drop(&mut self) {
        let peer = 1 - self.side;
        let (unread, own, other) = {
            let mut pair = self.pair();
            pair.closed[self.side] = true;
            let unread = std::mem::take(&mut pair.queues[self.side]);
            let told = pair.queues[peer].is_empty().then(|| pair.reads[peer].clone()).flatten();
            (unread, pair.reads[self.side].take(), told)
        };
        if let Some((dispatcher, op)) = own {
            dispatcher.fire(op, Outcome { status: Err(Status::Canceled), ready: 0 });
        }
        if let Some((dispatcher, op)) = other {
            dispatcher.fire(op, Outcome { status: Err(Status::PeerClosed), ready: 0 });
        }
        drop(unread);
    }
}

/// An owned end as a pointer.
pub(super) fn give(end: Arc<FakeChannel>) -> *mut RawChannel {
    Arc::into_raw(end).cast_mut().cast()
}

pub(super) fn new_pair(limit: usize) -> (Arc<FakeChannel>, Arc<FakeChannel>) {
    let pair = Arc::new(Mutex::new(Pair { limit, ..Pair::default() }));
    let [a, b] = [0, 1].map(|side| Arc::new(FakeChannel { side, pair: Arc::clone(&pair) }));
    super::watch(&a);
    super::watch(&b);
    (a, b)
}

pub(super) unsafe extern "C" fn channel_create(
    limit: usize,
    _site: *const CallSite,
    a: *mut *mut RawChannel,
    b: *mut *mut RawChannel,
) -> i32 {
    let (first, second) = new_pair(limit);
    // SAFETY: the caller passes valid out pointers.
    unsafe { (*a, *b) = (give(first), give(second)) };
    OK
}

pub(super) unsafe extern "C" fn channel_close(channel: *mut RawChannel) {
    if !channel.is_null() {
        // SAFETY: the caller gives its end up.
        drop(unsafe { Arc::from_raw(channel.cast::<FakeChannel>()) });
    }
}

pub(super) unsafe extern "C" fn channel_write(channel: *mut RawChannel, message: *const MessageParts) -> i32 {
    // SAFETY: the caller passes a valid end.
    let end: &FakeChannel = unsafe { lend(channel) };
    // SAFETY: the caller passes a valid message.
    let parts = unsafe { &*message };
    let handles: &[HandleParts] = if parts.handle_count == 0 {
        &[]
    } else {
        // SAFETY: the message says so.
        unsafe { std::slice::from_raw_parts(parts.handles, parts.handle_count) }
    };
    if !parts.arena.is_null() {
        // SAFETY: the message holds a reference.
        let arena: &FakeArena = unsafe { lend(parts.arena) };
        if parts.len > 0 && !arena.contains(parts.bytes as usize, parts.len) {
            return Status::InvalidArgs.as_raw();
        }
    } else if parts.len > 0 {
        return Status::InvalidArgs.as_raw();
    }
    for handle in handles.iter().filter(|handle| handle.kind == HANDLE_CHANNEL) {
        // SAFETY: a channel handle names a valid end.
        let sent: &FakeChannel = unsafe { lend(handle.object.cast::<RawChannel>()) };
        if Arc::ptr_eq(&sent.pair, &end.pair) {
            return Status::NotSupported.as_raw();
        }
        if sent.has_read() {
            return Status::InvalidArgs.as_raw();
        }
    }
    let peer = 1 - end.side;
    let reader = {
        let mut pair = end.pair();
        if pair.closed[peer] {
            return Status::PeerClosed.as_raw();
        }
        if pair.limit > 0 && pair.queues[peer].len() >= pair.limit {
            return Status::ShouldWait.as_raw();
        }
        let arena = (!parts.arena.is_null()).then(|| {
            // SAFETY: the reference moves from the writer into the queue.
            unsafe { Arc::from_raw(parts.arena.cast::<FakeArena>()) }
        });
        // SAFETY: each handle moves from the writer's array into the queue; `Handle` is laid out as its parts.
        let handles = handles.iter().map(|parts| unsafe { std::ptr::read(std::ptr::from_ref(parts).cast()) }).collect();
        pair.queues[peer].push_back(Message { arena, bytes: parts.bytes.expose_provenance(), len: parts.len, handles });
        if pair.queues[peer].len() == 1 { pair.reads[peer].clone() } else { None }
    };
    if let Some((dispatcher, op)) = reader {
        dispatcher.fire(op, FIRED);
    }
    OK
}

pub(super) unsafe extern "C" fn channel_read(channel: *mut RawChannel, out: *mut MessageParts) -> i32 {
    // SAFETY: the caller passes a valid end.
    let end: &FakeChannel = unsafe { lend(channel) };
    let mut pair = end.pair();
    let Some(message) = pair.queues[end.side].pop_front() else {
        let gone = pair.closed[1 - end.side];
        return if gone { Status::PeerClosed } else { Status::ShouldWait }.as_raw();
    };
    drop(pair);
    let handle_count = message.handles.len();
    let handles =
        if handle_count == 0 { std::ptr::null_mut() } else { Box::into_raw(message.handles.into_boxed_slice()).cast() };
    let parts = MessageParts {
        arena: message.arena.map_or(std::ptr::null(), |arena| Arc::into_raw(arena).cast()),
        bytes: std::ptr::with_exposed_provenance_mut(message.bytes),
        len: message.len,
        handles,
        handle_count,
    };
    // SAFETY: the caller passes a valid out pointer.
    unsafe { out.write(parts) };
    OK
}

pub(super) unsafe extern "C" fn handles_free(handles: *mut HandleParts, count: usize) {
    let slice = std::ptr::slice_from_raw_parts_mut(handles.cast::<std::mem::ManuallyDrop<crate::Handle>>(), count);
    // SAFETY: the array is the box of `channel_read`, whose handles have moved out.
    drop(unsafe { Box::from_raw(slice) });
}

pub(super) unsafe extern "C" fn channel_begin_read(
    channel: *mut RawChannel,
    dispatcher: *const RawDispatcher,
    callback: *mut Callback,
) -> i32 {
    // SAFETY: the caller passes a valid end.
    let end: &FakeChannel = unsafe { lend(channel) };
    // SAFETY: the caller passes a valid dispatcher.
    let dispatcher = unsafe { super::share::<FakeDispatcher, _>(dispatcher) };
    let mut pair = end.pair();
    if pair.closed[1 - end.side] && pair.queues[end.side].is_empty() {
        return Status::PeerClosed.as_raw();
    }
    if pair.reads[end.side].is_some() {
        return Status::BadState.as_raw();
    }
    // SAFETY: the end lives in an `Arc`, of which the caller holds a reference.
    let shared = unsafe { super::share::<FakeChannel, _>(channel.cast_const()) };
    let weak: Weak<FakeChannel> = Arc::downgrade(&shared);
    // SAFETY: the callback is moved out of the caller's copy; a refusal gives it back.
    let callback = unsafe { HostCallback::take(callback) };
    let op = match dispatcher.accept(Op::Read(callback, weak)) {
        Ok(op) => op,
        Err(Op::Read(callback, _)) => {
            callback.give_back();
            drop(pair);
            return Status::Unavailable.as_raw();
        }
        Err(_) => unreachable!("the operation comes back as it was"),
    };
    pair.reads[end.side] = Some((Arc::clone(&dispatcher), op));
    let readable = !pair.queues[end.side].is_empty();
    drop(pair);
    drop(shared);
    if readable {
        dispatcher.fire(op, FIRED);
    }
    OK
}

pub(super) unsafe extern "C" fn channel_cancel_read(channel: *mut RawChannel) -> i32 {
    // SAFETY: the caller passes a valid end.
    let end: &FakeChannel = unsafe { lend(channel) };
    let registered = end.pair().reads[end.side].take();
    let taken = registered.and_then(|(dispatcher, op)| dispatcher.take_back(op));
    raw_status(taken.map(drop).ok_or(Status::NotFound))
}

/// Memory for messages: one block an allocation, freed with the arena.
#[derive(Default)]
pub(crate) struct FakeArena {
    blocks: Mutex<Vec<Block>>,
}

struct Block {
    start: usize,
    layout: std::alloc::Layout,
}

impl FakeArena {
    fn contains(&self, start: usize, len: usize) -> bool {
        let blocks = self.blocks.lock().expect("the fake host does not panic");
        blocks.iter().any(|block| start >= block.start && start + len <= block.start + block.layout.size())
    }
}

impl Drop for FakeArena {
    fn drop(&mut self) {
        for block in self.blocks.get_mut().expect("the fake host does not panic").drain(..) {
            // SAFETY: the block was allocated with this layout and is freed once.
            unsafe { std::alloc::dealloc(std::ptr::with_exposed_provenance_mut(block.start), block.layout) };
        }
    }
}

pub(super) unsafe extern "C" fn arena_create(_size_hint: usize, _site: *const CallSite) -> *const RawArena {
    let arena = Arc::new(FakeArena::default());
    super::watch(&arena);
    Arc::into_raw(arena).cast()
}

pub(super) unsafe extern "C" fn arena_alloc(arena: *const RawArena, len: usize, align: usize) -> *mut u8 {
    // SAFETY: the caller passes a valid arena.
    let arena: &FakeArena = unsafe { lend(arena) };
    let Ok(layout) = std::alloc::Layout::from_size_align(len.max(1), align) else { return std::ptr::null_mut() };
    // What is out of reach for a test is out of memory.
    if len > 1 << 30 {
        return std::ptr::null_mut();
    }
    // SAFETY: the size is not 0.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    let block = Block { start: start.expose_provenance(), layout };
    arena.blocks.lock().expect("the fake host does not panic").push(block);
    start
}

pub(super) unsafe extern "C" fn arena_retain(arena: *const RawArena) {
    // SAFETY: the caller passes a valid arena.
    unsafe { Arc::increment_strong_count(arena.cast::<FakeArena>()) };
}

pub(super) unsafe extern "C" fn arena_release(arena: *const RawArena) {
    if !arena.is_null() {
        // SAFETY: the caller gives a reference up.
        drop(unsafe { Arc::from_raw(arena.cast::<FakeArena>()) });
    }
}
