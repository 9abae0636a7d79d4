//! What C sends: the parts of a message in an arena of C's, and its handles on their way out of the table.
//!
//! # Invariants
//! - A handle that was taken out is given up with the message or put back where it was, once.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use fuchsine_dispatcher::{Arena, Buffer, Handle, Message, Status};

use super::arena;
use super::end::End;
use super::handles::{self, Entry};
use super::objects::Object;
use crate::status::{ZX_ERR_INVALID_ARGS, ZX_ERR_NOT_SUPPORTED};
use crate::types::{fdf_arena_t, fdf_handle_t, zx_handle_t, zx_status_t};

/// An object in a message: it stays what it is.
struct InMessage(Arc<Object>);

/// What C wants to send.
pub(crate) struct Outgoing {
    pub(crate) arena: *mut fdf_arena_t,
    pub(crate) data: *mut c_void,
    pub(crate) num_bytes: u32,
    pub(crate) handles: *mut zx_handle_t,
    pub(crate) num_handles: u32,
}

/// Handles that were taken out of the table for a message.
pub(crate) struct Taken(Vec<zx_handle_t>);

impl Taken {
    /// The message has gone with them.
    pub(crate) fn give_up(self) {
        self.0.into_iter().for_each(handles::give_up);
    }

    fn put_back(self, entries: Vec<Entry>) {
        self.0.into_iter().zip(entries).for_each(|(handle, entry)| handles::put_back(handle, entry));
    }
}

impl Outgoing {
    /// # Errors
    /// `ZX_ERR_INVALID_ARGS` for what does not lie in the arena, `ZX_ERR_NOT_SUPPORTED` for the channel's own handle.
    ///
    /// # Safety
    /// C holds a reference to the arena, if there is one.
    pub(crate) unsafe fn check(&self, channel: fdf_handle_t) -> Result<(), zx_status_t> {
        if self.num_bytes == 0 && self.num_handles == 0 {
            return Ok(());
        }
        let is_missing = self.arena.is_null()
            || self.data.is_null() && self.num_bytes > 0
            || self.handles.is_null() && self.num_handles > 0;
        if is_missing {
            return Err(ZX_ERR_INVALID_ARGS);
        }
        // SAFETY: as this function.
        let arena = unsafe { arena::of("fdf_channel_write", self.arena) };
        let handle_bytes = self.num_handles as usize * size_of::<zx_handle_t>();
        let is_inside = arena.contains_raw(self.data.cast(), self.num_bytes as usize)
            && arena.contains_raw(self.handles.cast(), handle_bytes);
        if !is_inside || !self.handles.is_aligned() {
            return Err(ZX_ERR_INVALID_ARGS);
        }
        // SAFETY: the array lies in the arena.
        let handles = unsafe { self.handles() };
        if handles.contains(&channel) {
            return Err(ZX_ERR_NOT_SUPPORTED);
        }
        let is_usable = |handle: &zx_handle_t| match handles::entry(*handle) {
            Ok(Entry::Channel(end)) => end.waiting.lock().is_none(),
            Ok(Entry::Object(_)) => true,
            Err(_) => false,
        };
        if handles.iter().all(is_usable) { Ok(()) } else { Err(ZX_ERR_INVALID_ARGS) }
    }

    /// # Safety
    /// The array lies in the arena, if there is one.
    unsafe fn handles(&self) -> &[zx_handle_t] {
        match self.num_handles {
            0 => &[],
            // SAFETY: as this function.
            count => unsafe { std::slice::from_raw_parts(self.handles, count as usize) },
        }
    }

    /// The message, with its handles out of the table.
    ///
    /// # Safety
    /// As [`check`](Outgoing::check), which has succeeded; C does not touch the bytes any more.
    pub(crate) unsafe fn into_message(self) -> Result<(Message, Taken), zx_status_t> {
        let (mut taken, mut entries) = (Taken(Vec::new()), Vec::new());
        // SAFETY: it has been checked.
        for &handle in unsafe { self.handles() } {
            let Ok(entry) = handles::take(handle) else {
                // Twice in the array, or somebody else has used it meanwhile.
                taken.put_back(entries);
                return Err(ZX_ERR_INVALID_ARGS);
            };
            taken.0.push(handle);
            entries.push(entry);
        }
        // Nobody else may be using an end that is given away.
        let is_shared = |entry: &Entry| matches!(entry, Entry::Channel(end) if Arc::strong_count(end) > 1);
        if entries.iter().any(is_shared) {
            taken.put_back(entries);
            return Err(ZX_ERR_INVALID_ARGS);
        }
        let handles: Vec<Handle> = entries.into_iter().map(to_handle).collect();
        if self.arena.is_null() {
            return Ok((Message::new(), taken));
        }
        // SAFETY: C holds a reference; the message gets one of its own.
        let arena = unsafe { arena::of("fdf_channel_write", self.arena) };
        let arena = Arena::clone(&arena);
        let start = NonNull::new(self.data.cast::<u8>()).unwrap_or(NonNull::dangling());
        // SAFETY: the range lies in the arena, and C does not touch it any more.
        let buffer = unsafe { Buffer::from_raw_parts(arena, start, self.num_bytes as usize) };
        Ok((Message::from_parts(Some(buffer), handles), taken))
    }
}

fn to_handle(entry: Entry) -> Handle {
    match entry {
        // A reader in Rust gets the channel itself.
        Entry::Channel(end) => match Arc::try_unwrap(end) {
            Ok(end) => Handle::Channel(end.channel),
            Err(shared) => Handle::value(shared),
        },
        Entry::Object(object) => Handle::value(InMessage(object)),
    }
}

pub(crate) fn to_entry(handle: Handle) -> Option<Entry> {
    match handle {
        Handle::Channel(channel) => Some(Entry::Channel(End::new(channel))),
        Handle::Fd(fd) => Some(Entry::Object(Object::descriptor(fd))),
        other => match other.into_value::<InMessage>() {
            Ok(InMessage(object)) => Some(Entry::Object(object)),
            // A value of Rust's, which C can do nothing with.
            Err(other) => other.into_value::<Arc<End>>().ok().map(Entry::Channel),
        },
    }
}

/// Ends a write that was refused: what an argument is to blame for leaves the handles C's.
pub(crate) fn refused(status: Status, message: Message, taken: Taken) -> zx_status_t {
    if matches!(status, Status::InvalidArgs | Status::NotSupported) {
        let (_, handles) = message.into_parts();
        let entries: Vec<Entry> = handles.into_iter().filter_map(to_entry).collect();
        taken.put_back(entries);
    } else {
        taken.give_up();
    }
    status.as_raw()
}
