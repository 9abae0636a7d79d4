//! Channels: `lib/fdf/channel.h` and `channel_read.h`.
//!
//! Bytes and handle arrays of C lie in arenas, and so they stay: what one side writes is what the other side reads. Handles of
//! a message leave the table when it is written, and enter it under other numbers when it is read. If a write is refused
//! because of an argument, they are put back; in all other cases they go with the message.
//!
//! A call is one of the dispatchers' own. Its id is written into the first four bytes as well; who reads the request on an end
//! of C's owes a reply, and a message that begins with the same four bytes is that.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fuchsine_dispatcher::{Arena, Buffer, Canceled, Channel, Instant, Message, Status};

use super::end::{End, Waiting};
use super::faces::{self, Face};
use super::handles::{self, Entry};
use super::keys::State;
use super::outgoing::{Outgoing, refused, to_entry};
use super::{Foreign, arena, die, task};
use crate::status::{ZX_ERR_BAD_HANDLE, ZX_ERR_BAD_STATE, ZX_ERR_INVALID_ARGS, ZX_ERR_NOT_FOUND, ZX_OK};
use crate::types::{
    FDF_CHANNEL_WAIT_OPTION_FORCE_ASYNC_CANCEL, FDF_HANDLE_INVALID, ZX_TIME_INFINITE, fdf_arena_t,
    fdf_channel_call_args_t, fdf_channel_read_t, fdf_dispatcher_t, fdf_handle_t, zx_handle_t, zx_status_t, zx_time_t,
};

/// # Safety
/// Both out pointers are null or can be written.
pub(crate) unsafe fn fdf_channel_create(options: u32, out0: *mut fdf_handle_t, out1: *mut fdf_handle_t) -> zx_status_t {
    if options != 0 || out0.is_null() || out1.is_null() {
        return ZX_ERR_INVALID_ARGS;
    }
    let (one, other) = Channel::pair();
    let one = match handles::insert(Entry::Channel(End::new(one))) {
        Ok(handle) => handle,
        Err(status) => return status,
    };
    let other = match handles::insert(Entry::Channel(End::new(other))) {
        Ok(handle) => handle,
        Err(status) => {
            let _ = handles::remove(one);
            return status;
        }
    };
    // SAFETY: not null.
    unsafe { *out0 = one };
    // SAFETY: not null.
    unsafe { *out1 = other };
    ZX_OK
}

/// # Safety
/// C holds a reference to the arena, if there is one, and does not touch the bytes any more if the write succeeds.
pub(crate) unsafe fn fdf_channel_write(
    channel: fdf_handle_t,
    options: u32,
    arena: *mut fdf_arena_t,
    data: *mut c_void,
    num_bytes: u32,
    handles: *mut zx_handle_t,
    num_handles: u32,
) -> zx_status_t {
    let end = match handles::end(channel) {
        Ok(end) => end,
        Err(status) => return status,
    };
    if options != 0 {
        return ZX_ERR_INVALID_ARGS;
    }
    let outgoing = Outgoing { arena, data, num_bytes, handles, num_handles };
    // SAFETY: as this function.
    if let Err(status) = unsafe { outgoing.check(channel) } {
        return status;
    }
    // SAFETY: as this function; it has been checked.
    let (message, taken) = match unsafe { outgoing.into_message() } {
        Ok(made) => made,
        Err(status) => return status,
    };
    let txid = end.repays(message.bytes());
    match end.channel.write(message.in_reply_to(txid)) {
        Ok(()) => {
            taken.give_up();
            ZX_OK
        }
        Err(error) => refused(error.status(), error.into_message(), taken),
    }
}

/// Where C wants the parts of a message; null for what it does not want.
struct Places {
    arena: *mut *mut fdf_arena_t,
    data: *mut *mut c_void,
    num_bytes: *mut u32,
    handles: *mut *mut zx_handle_t,
    num_handles: *mut u32,
}

/// # Safety
/// `place` is null or can be written.
unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: not null.
        unsafe { *place = value };
    }
}

impl Places {
    /// Whether what is wanted can be kept alive.
    fn are_usable(&self) -> bool {
        !self.arena.is_null() || self.data.is_null() && self.handles.is_null()
    }

    /// # Safety
    /// Each place is null or can be written.
    unsafe fn fill(self, message: Message) -> zx_status_t {
        let (buffer, handles) = message.into_parts();
        let num_handles = handles.len();
        let is_wanted = !self.handles.is_null();
        let (arena, data, num_bytes) = match buffer.map(Buffer::into_raw_parts) {
            Some((arena, start, len)) => (Some(arena), start.as_ptr().cast::<c_void>(), len),
            None => (None, ptr::null_mut(), 0),
        };
        // What nobody asked for is closed.
        let arena = if arena.is_none() && is_wanted && num_handles > 0 { Some(Arena::new()) } else { arena };
        let mut array = ptr::null_mut();
        if is_wanted && num_handles > 0 {
            let room =
                arena.as_ref().and_then(|arena| arena.allocate_raw(num_handles * size_of::<zx_handle_t>(), 8).ok());
            let Some(room) = room else { return Status::NoMemory.as_raw() };
            array = room.as_ptr().cast::<zx_handle_t>();
            for (nth, handle) in handles.into_iter().enumerate() {
                // 0 for a value of another language, and when there is no handle left: the object is closed.
                let number = to_entry(handle).and_then(|entry| handles::insert(entry).ok()).unwrap_or(0);
                // SAFETY: there is room for so many.
                unsafe { array.add(nth).write(number) };
            }
        }
        let data = if num_bytes == 0 { ptr::null_mut() } else { data };
        // SAFETY: as this function, for all five.
        unsafe {
            put(self.data, data);
            put(self.num_bytes, num_bytes as u32);
            put(self.handles, array);
            put(self.num_handles, num_handles as u32);
            if !self.arena.is_null() {
                *self.arena = arena.map_or(ptr::null_mut(), arena::to_c);
            }
        }
        ZX_OK
    }
}

/// # Safety
/// Each out pointer is null or can be written.
pub(crate) unsafe fn fdf_channel_read(
    channel: fdf_handle_t,
    options: u32,
    out_arena: *mut *mut fdf_arena_t,
    out_data: *mut *mut c_void,
    out_num_bytes: *mut u32,
    out_handles: *mut *mut zx_handle_t,
    out_num_handles: *mut u32,
) -> zx_status_t {
    let end = match handles::end(channel) {
        Ok(end) => end,
        Err(status) => return status,
    };
    let places = Places {
        arena: out_arena,
        data: out_data,
        num_bytes: out_num_bytes,
        handles: out_handles,
        num_handles: out_num_handles,
    };
    if options != 0 || !places.are_usable() {
        return ZX_ERR_INVALID_ARGS;
    }
    match end.channel.try_read() {
        Ok(message) => {
            if let Some(txid) = message.txid() {
                end.owe(message.bytes(), txid);
            }
            // SAFETY: as this function.
            unsafe { places.fill(message) }
        }
        Err(error) => error.status().as_raw(),
    }
}

/// # Safety
/// `dispatcher` is one that C was given; `channel_read` is null, or stays where it is, unchanged by C, until its handler has
/// started or a cancel has succeeded.
pub(crate) unsafe fn fdf_channel_wait_async(
    dispatcher: *mut fdf_dispatcher_t,
    channel_read: *mut fdf_channel_read_t,
    options: u32,
) -> zx_status_t {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    // SAFETY: as this function.
    let face = unsafe { Face::of("fdf_channel_wait_async", dispatcher) };
    // SAFETY: null, or valid, by the contract of this function.
    let read = unsafe { channel_read.as_ref() }.map(|read| (read.handler, read.channel));
    let Some((Some(handler), channel)) = read.filter(|_| options & !FDF_CHANNEL_WAIT_OPTION_FORCE_ASYNC_CANCEL == 0)
    else {
        return ZX_ERR_INVALID_ARGS;
    };
    let end = match handles::end(channel) {
        Ok(end) => end,
        Err(status) => return status,
    };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    {
        let mut waiting = end.waiting.lock();
        if waiting.is_some() {
            return ZX_ERR_BAD_STATE;
        }
        *waiting = Some(Waiting {
            read: Foreign::new(channel_read),
            handler,
            face,
            cancels_later: options & FDF_CHANNEL_WAIT_OPTION_FORCE_ASYNC_CANCEL != 0
                || !face.handle().is_synchronized(),
            is_canceled: false,
            number,
        });
    }
    // SAFETY: valid, as above.
    let state = unsafe { State::of(&raw mut (*channel_read).state) };
    state.set(number as usize);
    let told = Arc::downgrade(&end);
    let begun = end.channel.begin_read(&face.handle(), move |outcome: Result<(), Status>| {
        let Some(end) = told.upgrade() else { return };
        tell(end, number, outcome);
    });
    match begun {
        Ok(()) => ZX_OK,
        Err(error) => {
            end.waiting.lock().take_if(|waiting| waiting.number == number);
            state.clear();
            error.status().as_raw()
        }
    }
}

/// Ends a wait and calls its handler.
fn tell(end: Arc<End>, number: u64, outcome: Result<(), Status>) {
    let Some(waiting) = end.waiting.lock().take_if(|waiting| waiting.number == number) else { return };
    // The handler may close the end, or give it away.
    drop(end);
    // SAFETY: C keeps it until its handler has started.
    unsafe { State::of(&raw mut (*waiting.read.get()).state) }.clear();
    let status = outcome.map_or_else(Status::as_raw, |()| ZX_OK);
    // SAFETY: called as the header says; nothing of C's is used afterwards.
    unsafe { (waiting.handler)(waiting.face.as_fdf(), waiting.read.get(), status) };
}

/// # Safety
/// Not while another thread registers or cancels on the same end.
pub(crate) unsafe fn fdf_channel_cancel_wait(channel: fdf_handle_t) -> zx_status_t {
    let end = match handles::end(channel) {
        Ok(end) => end,
        Err(status) => return status,
    };
    let Some(waiting) = *end.waiting.lock() else { return ZX_ERR_NOT_FOUND };
    if waiting.is_canceled {
        return ZX_ERR_NOT_FOUND;
    }
    if !waiting.cancels_later {
        let is_here = faces::current_face().is_some_and(|face| face.handle() == waiting.face.handle());
        if !is_here {
            return ZX_ERR_BAD_STATE;
        }
    }
    if end.channel.cancel_read().is_err() {
        return ZX_ERR_NOT_FOUND;
    }
    if !waiting.cancels_later {
        end.waiting.lock().take_if(|there| there.number == waiting.number);
        // SAFETY: C keeps it until this call has succeeded.
        unsafe { State::of(&raw mut (*waiting.read.get()).state) }.clear();
        return ZX_OK;
    }
    if let Some(there) = end.waiting.lock().as_mut() {
        there.is_canceled = true;
    }
    let told = Arc::clone(&end);
    // Whether the dispatcher still runs or not, that is what is told.
    let posted = waiting.face.handle().post_task(move |_: Result<(), Canceled>| {
        tell(told, waiting.number, Err(Status::Canceled));
    });
    match posted {
        Ok(()) => ZX_OK,
        Err(refused) => {
            // It shuts down at this moment, and everything is canceled here.
            (refused.into_inner())(Err(Canceled));
            ZX_OK
        }
    }
}

/// # Safety
/// C holds a reference to the arena of the request, and each place for the reply is null or can be written.
pub(crate) unsafe fn fdf_channel_call(
    channel: fdf_handle_t,
    options: u32,
    deadline: zx_time_t,
    args: *const fdf_channel_call_args_t,
) -> zx_status_t {
    let end = match handles::end(channel) {
        Ok(end) => end,
        Err(status) => return status,
    };
    // SAFETY: null, or valid.
    let Some(args) = (unsafe { args.as_ref() }).filter(|args| options == 0 && args.wr_num_bytes >= 4) else {
        return ZX_ERR_INVALID_ARGS;
    };
    let places = Places {
        arena: args.rd_arena,
        data: args.rd_data,
        num_bytes: args.rd_num_bytes,
        handles: args.rd_handles,
        num_handles: args.rd_num_handles,
    };
    let outgoing = Outgoing {
        arena: args.wr_arena,
        data: args.wr_data,
        num_bytes: args.wr_num_bytes,
        handles: args.wr_handles,
        num_handles: args.wr_num_handles,
    };
    if !places.are_usable() {
        return ZX_ERR_INVALID_ARGS;
    }
    // SAFETY: as this function.
    if let Err(status) = unsafe { outgoing.check(channel) } {
        return status;
    }
    // SAFETY: as this function; it has been checked.
    let (mut message, taken) = match unsafe { outgoing.into_message() } {
        Ok(made) => made,
        Err(status) => return status,
    };
    if let Some(first) = message.bytes_mut().first_chunk_mut::<4>() {
        *first = end.next_call().to_ne_bytes();
    }
    let deadline = if deadline == ZX_TIME_INFINITE { Instant::INFINITE } else { task::to_instant(deadline) };
    match end.channel.call(message, deadline) {
        Ok(reply) => {
            taken.give_up();
            // SAFETY: as this function.
            unsafe { places.fill(reply) }
        }
        Err(error) => {
            let status = error.status();
            match error.into_request() {
                Some(request) => refused(status, request, taken),
                None => {
                    taken.give_up();
                    status.as_raw()
                }
            }
        }
    }
}

/// # Safety
/// None needed.
pub(crate) unsafe fn fdf_handle_close(handle: fdf_handle_t) {
    const NAME: &str = "fdf_handle_close";
    if handle == FDF_HANDLE_INVALID {
        return;
    }
    match handles::entry(handle) {
        Ok(Entry::Channel(end)) if end.waiting.lock().is_some() => {
            die(NAME, "a wait is registered on the channel; cancel it before");
        }
        Ok(_) => drop(handles::remove(handle)),
        Err(_) => die(NAME, "the handle names nothing, or nothing any more"),
    }
}

/// The end behind a handle, taken out of the table to be given away.
///
/// # Errors
/// `ZX_ERR_BAD_HANDLE`: the value names no end of a channel, or one that is being waited on.
pub(crate) fn give_away(handle: fdf_handle_t) -> Result<Channel, zx_status_t> {
    let end = handles::end(handle)?;
    let is_free = end.waiting.lock().is_none();
    drop(end);
    let bad = ZX_ERR_BAD_HANDLE;
    match handles::take(handle)? {
        Entry::Channel(end) if is_free => {
            handles::give_up(handle);
            Arc::try_unwrap(end).map(|end| end.channel).map_err(|_| bad)
        }
        entry => {
            handles::put_back(handle, entry);
            Err(bad)
        }
    }
}

/// A handle to an end that was given to C.
pub(crate) fn receive(channel: Channel) -> Result<fdf_handle_t, zx_status_t> {
    handles::insert(Entry::Channel(End::new(channel)))
}
