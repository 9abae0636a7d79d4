//! Channel ends, arenas, messages and handles over the table.
//!
//! # Invariants
//! - A [`Buffer`] holds one reference to its arena, and its range is an allocation of that arena (or part of one) which
//!   no other value refers to: the arena never hands a range out twice, a write moves the buffer away, and a read
//!   brings it as the only owner. So `&[u8]` and `&mut [u8]` of it follow the borrow of the buffer. The memory is
//!   initialised, as `arena_alloc` promises.
//! - A [`Handle`] owns what it names and is laid out as [`HandleParts`], so that a slice of handles is an array of parts.

use std::any::Any;
use std::ffi::c_void;
use std::mem::{self, ManuallyDrop};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;

use super::attach::table;
use super::closure::{Content, FromRaw, caught, give_callback};
use super::objects::{CastMut, DispatcherObject, object};
use super::parts::{HANDLE_CHANNEL, HANDLE_FD, HANDLE_TOKEN, HANDLE_VALUE, HandleParts, MessageParts, TxidParts};
use super::site::CallSite;
use super::token::TokenObject;
use super::types::{Panic, RawArena, RawChannel};
use crate::Status;

object! {
    /// One end of a channel.
    ChannelObject: RawChannel as *mut RawChannel, channel_close
}
object! {
    /// Memory for messages.
    ArenaObject: RawArena as *const RawArena, arena_release
}

impl ChannelObject {
    /// A new pair.
    pub(crate) fn pair(site: &'static CallSite, limit: usize) -> Result<(Self, Self), Status> {
        let (mut a, mut b) = (ptr::null_mut(), ptr::null_mut());
        let table = super::attach::try_table().ok_or(Status::BadState)?;
        // SAFETY: the out pointers are valid for the call.
        Status::result_of(unsafe { (table.channel_create)(limit, site, &raw mut a, &raw mut b) })?;
        // SAFETY: on success the host has stored two owned pointers.
        Ok(unsafe { (Self::from_owned(a), Self::from_owned(b)) })
    }

    /// Sends bytes and handles, as the reply to a call if `txid` says so; gives them back when they could not be sent.
    pub(crate) fn write(&self, content: Content, txid: TxidParts) -> Result<(), (Content, Status)> {
        lend_message(content, |parts| {
            Status::result_of(match txid.number {
                // SAFETY: the parts describe a message that stays valid for the call.
                0 => unsafe { (table().channel_write)(self.raw(), parts) },
                // SAFETY: as above, and so does the transaction id.
                _ => unsafe { (table().channel_write_reply)(self.raw(), parts, &raw const txid) },
            })
        })
    }

    /// Takes the oldest message, with the call that it is the request of.
    pub(crate) fn read(&self) -> Result<(Content, TxidParts), Status> {
        let (mut parts, mut txid) = (MessageParts::EMPTY, TxidParts::NONE);
        // SAFETY: the end is alive and the out pointers valid for the call.
        let read = unsafe { (table().channel_read_request)(self.raw(), &raw mut parts, &raw mut txid) };
        Status::result_of(read)?;
        // SAFETY: on success the host has stored the parts of a message, which are ours now.
        Ok((unsafe { message_of_parts(&parts) }, txid))
    }

    /// Registers `f` to be called once something is there.
    pub(crate) fn begin_read<A: FromRaw, F: FnOnce(A) + Send + 'static>(
        &self,
        site: &'static CallSite,
        dispatcher: &DispatcherObject,
        f: F,
    ) -> Result<(), (F, Status)> {
        // SAFETY: all pointers are valid for the call; the callback is moved out only on success.
        give_callback(site, f, |callback| unsafe {
            (table().channel_begin_read)(self.raw(), dispatcher.raw(), callback)
        })
    }

    /// Takes the registration back.
    pub(crate) fn cancel_read(&self) -> Result<(), Status> {
        // SAFETY: the end is alive.
        Status::result_of(unsafe { (table().channel_cancel_read)(self.raw()) })
    }
}

/// Lends a message to `give`, which succeeds if the host has taken it; if not it comes back.
pub(super) fn lend_message<T, E>(
    (buffer, mut handles): Content,
    give: impl FnOnce(*const MessageParts) -> Result<T, E>,
) -> Result<T, (Content, E)> {
    let mut parts = MessageParts::EMPTY;
    if let Some(buffer) = &buffer {
        (parts.arena, parts.bytes, parts.len) = (buffer.arena.raw(), buffer.start.as_ptr(), buffer.len);
    }
    if !handles.is_empty() {
        (parts.handles, parts.handle_count) = (handles.as_mut_ptr().cast(), handles.len());
    }
    match give(&raw const parts) {
        Err(error) => Err(((buffer, handles), error)),
        Ok(value) => {
            // The arena reference and the handles have moved to the host; only the array is still ours.
            mem::forget(buffer);
            // SAFETY: a shorter length is always allowed.
            unsafe { handles.set_len(0) };
            Ok(value)
        }
    }
}

/// The message that the host hands over.
///
/// # Safety
/// The parts are those of a message that is the caller's, which are used once.
pub(super) unsafe fn message_of_parts(parts: &MessageParts) -> Content {
    let handles = if parts.handles.is_null() {
        Vec::new()
    } else {
        // SAFETY: the host has stored an array of that many handles, which are ours now.
        let handles =
            unsafe { slice::from_raw_parts(parts.handles.cast::<ManuallyDrop<Handle>>(), parts.handle_count) };
        // SAFETY: each handle is moved out once; the array is given back below without them.
        let handles = handles.iter().map(|handle| unsafe { ptr::read(&raw const **handle) }).collect();
        // SAFETY: the array came from the host with this message, and its handles were moved out.
        unsafe { (table().handles_free)(parts.handles, parts.handle_count) };
        handles
    };
    if parts.arena.is_null() {
        return (None, handles);
    }
    // SAFETY: the host passes one reference to the arena on.
    let arena = unsafe { ArenaObject::from_owned(parts.arena) };
    let start = NonNull::new(parts.bytes).unwrap_or(NonNull::dangling());
    (Some(Buffer { arena, start, len: parts.len }), handles)
}

impl Clone for ArenaObject {
    fn clone(&self) -> Self {
        // SAFETY: the value holds a reference, so the arena is alive.
        unsafe { (table().arena_retain)(self.raw()) };
        // SAFETY: the reference was added just now.
        unsafe { Self::from_owned(self.raw()) }
    }
}

impl ArenaObject {
    pub(crate) fn new(site: &'static CallSite, size_hint: usize) -> Result<Self, Status> {
        let table = super::attach::try_table().ok_or(Status::BadState)?;
        // SAFETY: no pointers are passed.
        let arena = unsafe { (table.arena_create)(size_hint, site) };
        if arena.is_null() {
            return Err(Status::NoMemory);
        }
        // SAFETY: the host hands one reference over.
        Ok(unsafe { Self::from_owned(arena) })
    }

    /// A fresh range, whose contents are unspecified.
    pub(crate) fn alloc(&self, len: usize, align: usize) -> Result<Buffer, Status> {
        if len == 0 {
            return Ok(Buffer { arena: self.clone(), start: NonNull::dangling(), len: 0 });
        }
        if !align.is_power_of_two() || align > 4096 {
            return Err(Status::InvalidArgs);
        }
        // SAFETY: the arena is alive and the arguments are in range.
        let start = unsafe { (table().arena_alloc)(self.raw(), len, align) };
        let start = NonNull::new(start).ok_or(Status::NoMemory)?;
        Ok(Buffer { arena: self.clone(), start, len })
    }
}

/// A range of bytes in an arena, owned.
#[derive(Debug)]
pub(crate) struct Buffer {
    arena: ArenaObject,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the buffer owns its range (see the invariants), and the arena may be used from any thread.
unsafe impl Send for Buffer {}
// SAFETY: a shared buffer can only be read.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(crate) fn arena(&self) -> &ArenaObject {
        &self.arena
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: the range is ours, initialised, and borrowed with `self` (see the invariants).
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as `bytes`, and the borrow is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Keeps the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

/// A handle in a message: a channel end, a token, a descriptor, or a value. Dropping it closes or drops what it names.
#[repr(transparent)]
pub struct Handle(HandleParts);

/// What a [`Handle`] names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandleKind {
    /// A channel end.
    Channel,
    /// A file descriptor.
    Fd,
    /// A Rust value.
    Value,
    /// One end of a token.
    Token,
    /// Something that a newer host or driver knows.
    Unknown,
}

/// Its address tells this image from all others.
static IMAGE: u8 = 0;

type AnyValue = Box<dyn Any + Send>;

impl Handle {
    pub(crate) fn from_channel(channel: ChannelObject) -> Self {
        let channel = ManuallyDrop::new(channel);
        Handle(HandleParts { kind: HANDLE_CHANNEL, object: channel.raw().cast(), ..NONE })
    }

    pub(crate) fn from_fd(fd: OwnedFd) -> Self {
        Handle(HandleParts { kind: HANDLE_FD, fd: fd.into_raw_fd(), ..NONE })
    }

    pub(crate) fn from_value(value: AnyValue) -> Self {
        let object = Box::into_raw(Box::new(value)).cast();
        Handle(HandleParts {
            kind: HANDLE_VALUE,
            object,
            image: &raw const IMAGE as *const c_void,
            drop: Some(drop_value),
            ..NONE
        })
    }

    /// What it names.
    pub fn kind(&self) -> HandleKind {
        match self.0.kind {
            HANDLE_CHANNEL => HandleKind::Channel,
            HANDLE_FD => HandleKind::Fd,
            HANDLE_VALUE => HandleKind::Value,
            HANDLE_TOKEN => HandleKind::Token,
            _ => HandleKind::Unknown,
        }
    }

    pub(crate) fn from_token(token: TokenObject) -> Self {
        let token = ManuallyDrop::new(token);
        Handle(HandleParts { kind: HANDLE_TOKEN, object: token.raw().cast(), ..NONE })
    }

    pub(crate) fn into_token(self) -> Result<TokenObject, Handle> {
        if self.0.kind != HANDLE_TOKEN {
            return Err(self);
        }
        // SAFETY: the handle owns the end and passes it on; it is forgotten.
        Ok(unsafe { TokenObject::from_owned(ManuallyDrop::new(self).0.object.cast()) })
    }

    pub(crate) fn into_channel(self) -> Result<ChannelObject, Handle> {
        if self.0.kind != HANDLE_CHANNEL {
            return Err(self);
        }
        // SAFETY: the handle owns the end and passes it on; it is forgotten.
        Ok(unsafe { ChannelObject::from_owned(ManuallyDrop::new(self).0.object.cast()) })
    }

    pub(crate) fn into_fd(self) -> Result<OwnedFd, Handle> {
        if self.0.kind != HANDLE_FD {
            return Err(self);
        }
        // SAFETY: the handle owns the descriptor and passes it on; it is forgotten.
        Ok(unsafe { OwnedFd::from_raw_fd(ManuallyDrop::new(self).0.fd) })
    }

    /// The value, if it was made by this image.
    pub(crate) fn into_value(self) -> Result<AnyValue, Handle> {
        if self.0.kind != HANDLE_VALUE || !ptr::eq(self.0.image, (&raw const IMAGE).cast()) {
            return Err(self);
        }
        // SAFETY: this image has made the value as a box of an `AnyValue`; the handle is forgotten.
        Ok(*unsafe { Box::from_raw(ManuallyDrop::new(self).0.object.cast::<AnyValue>()) })
    }
}

const NONE: HandleParts = HandleParts { kind: 0, fd: 0, object: ptr::null_mut(), image: ptr::null(), drop: None };

impl Drop for Handle {
    fn drop(&mut self) {
        match self.0.kind {
            // SAFETY: the handle owns the end.
            HANDLE_CHANNEL => drop(unsafe { ChannelObject::from_owned(self.0.object.cast()) }),
            // SAFETY: the handle owns the descriptor.
            HANDLE_FD => drop(unsafe { OwnedFd::from_raw_fd(self.0.fd) }),
            // SAFETY: the handle owns the end.
            HANDLE_TOKEN => drop(unsafe { TokenObject::from_owned(self.0.object.cast()) }),
            _ => {
                let Some(end) = self.0.drop else { return };
                // SAFETY: the handle owns the value and ends it once.
                let panic = unsafe { end(self.0.object) };
                super::host::raise(panic);
            }
        }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Handle").field(&self.kind()).finish()
    }
}

unsafe extern "C" fn drop_value(object: *mut c_void) -> *mut Panic {
    // SAFETY: `from_value` has made the box, and the handle that owns it ends it once.
    let value = unsafe { Box::from_raw(object.cast::<AnyValue>()) };
    caught(|| drop(value))
}
