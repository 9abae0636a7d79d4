//! Buffers: bytes in an arena, owned by one holder.
//!
//! # Invariants
//! - A [`Buffer`] is the only value through which its range is reached. It is not cloned, and taking it apart needs the
//!   promise (`from_raw_parts`) that this stays so.
//! - Its range is initialised, and stays allocated while the buffer holds its reference to the arena.
#![allow(unsafe_code, reason = "bytes behind a pointer; the invariants above are kept by this file and the arena")]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use super::Arena;

/// Bytes in an arena, owned by one holder. They move with it and are never copied.
pub struct Buffer {
    arena: Arena,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a buffer is the only way to its range (invariant), as a `Box<[u8]>` is.
unsafe impl Send for Buffer {}
// SAFETY: as above; a shared buffer is only read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A range that was claimed for this buffer alone.
    pub(super) fn new(arena: Arena, start: NonNull<u8>, len: usize) -> Self {
        Buffer { arena, start, len }
    }

    /// The arena that the bytes are in.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Gives the bytes up and keeps the arena.
    pub fn into_arena(self) -> Arena {
        self.arena
    }

    /// Keeps the first `len` bytes. The rest stays in the arena unused; a larger `len` changes nothing.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The reference to the arena, the first byte and the length, for the other side of a C boundary.
    pub fn into_raw_parts(self) -> (Arena, NonNull<u8>, usize) {
        (self.arena, self.start, self.len)
    }

    /// The opposite of [`into_raw_parts`](Buffer::into_raw_parts).
    ///
    /// # Safety
    /// The range lies in one that the arena has handed out, and for as long as the buffer lives nothing else reads or
    /// writes it.
    pub unsafe fn from_raw_parts(arena: Arena, start: NonNull<u8>, len: usize) -> Self {
        Buffer { arena, start, len }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is initialised, alive with the arena, and reached through this buffer only (invariants).
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and the buffer is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).field("arena", &self.arena).finish()
    }
}
