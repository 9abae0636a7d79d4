//! Blocks: pieces of memory out of which ranges are handed by moving a mark.
//!
//! # Invariants
//! - A block hands out each byte once: ranges are claimed by moving `used` forward, and `used` is set back only by
//!   [`Block::reset`], whose caller holds the only reference to the arena there is, so that no range is in use.
//! - Bytes that were handed out are initialised: those below `initialised` have been before, the rest is cleared when it is
//!   claimed. `initialised` changes only while there is one reference.
//! - A further block stays allocated until [`Block::free`].
#![allow(unsafe_code, reason = "memory that is handed out in pieces; the invariants above are kept by this file alone")]

use std::alloc::Layout;
use std::ptr::NonNull;

use super::kept::{self, Content};
use crate::status::Status;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// How the bytes of a block, and the ranges of [`Arena::allocate`](super::Arena::allocate), are aligned.
pub(super) const ALIGN: usize = 16;
/// From here on the allocator has pages that are clear already, and clearing by hand would touch them for nothing.
pub(super) const CLEARED_BY_ALLOCATOR: usize = 128 * 1024;

pub(super) struct Block {
    /// The first byte.
    pub(super) start: NonNull<u8>,
    pub(super) capacity: usize,
    /// How much is handed out, padding included. Moved forward by compare-exchange.
    used: AtomicUsize,
    /// How much of the beginning is known to be initialised.
    initialised: AtomicUsize,
}

impl Block {
    pub(super) fn new(start: NonNull<u8>, capacity: usize, content: Content) -> Self {
        let initialised = if content == Content::Nothing { 0 } else { capacity };
        Block { start, capacity, used: AtomicUsize::new(0), initialised: AtomicUsize::new(initialised) }
    }

    /// Claims a range; `None` when the rest is too short. `align` is a power of two.
    pub(super) fn claim(&self, len: usize, align: usize) -> Option<NonNull<u8>> {
        let start = self.start.addr().get();
        // ORDERING: claiming needs atomicity only; what a range holds is nobody else's, and blocks are published by
        // `Header::current`.
        let mut used = self.used.load(Ordering::Relaxed);
        let offset = loop {
            let offset = ((start + used).checked_add(align - 1)? & !(align - 1)) - start;
            let end = offset.checked_add(len)?;
            if end > self.capacity {
                return None;
            }
            match self.used.compare_exchange_weak(used, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => break offset,
                Err(now) => used = now,
            }
        };
        let known = self.initialised.load(Ordering::Relaxed);
        // SAFETY: `offset + len` is within the block's allocation, as just checked.
        let range = unsafe { self.start.add(offset) };
        let known_of_range = known.saturating_sub(offset).min(len);
        if known_of_range < len {
            // SAFETY: the range is within the allocation, and claimed by this call alone.
            unsafe { range.add(known_of_range).write_bytes(0, len - known_of_range) };
        }
        Some(range)
    }

    /// Whether the range lies wholly in what has been handed out.
    pub(super) fn contains(&self, address: usize, len: usize) -> bool {
        let start = self.start.addr().get();
        let used = self.used.load(Ordering::Relaxed);
        address >= start && address - start <= used && len <= used - (address - start)
    }

    /// Starts anew. The caller holds the only reference to the arena.
    pub(super) fn reset(&self) {
        // ORDERING: Relaxed, and no read-modify-write: there is no other thread.
        let used = self.used.load(Ordering::Relaxed);
        if used > self.initialised.load(Ordering::Relaxed) {
            self.initialised.store(used, Ordering::Relaxed);
        }
        self.used.store(0, Ordering::Relaxed);
    }

    /// The layout of a further block, and where its bytes begin.
    fn layout(capacity: usize) -> Result<(Layout, usize), Status> {
        behind(Layout::new::<Block>(), capacity)
    }

    /// A further block.
    pub(super) fn allocate(capacity: usize) -> Result<NonNull<Block>, Status> {
        let (layout, offset) = Self::layout(capacity)?;
        let cleared = capacity >= CLEARED_BY_ALLOCATOR;
        let (memory, content) = kept::take(layout, cleared)?;
        // SAFETY: `offset` is within the allocation, by the layout.
        let start = unsafe { memory.add(offset) };
        let block = memory.cast::<Block>();
        // SAFETY: the allocation begins with room for a `Block`, aligned for it.
        unsafe { block.write(Block::new(start, capacity, content)) };
        Ok(block)
    }

    /// Gives a further block back.
    ///
    /// # Safety
    /// The block came from `allocate`, and nobody uses it or a range of it any more.
    pub(super) unsafe fn free(block: NonNull<Block>) {
        // SAFETY: the block is alive until the end of this function.
        let capacity = unsafe { block.as_ref() }.capacity;
        if let Ok((layout, _)) = Self::layout(capacity) {
            // SAFETY: this is the layout that the block was allocated with; a `Block` has nothing to drop.
            unsafe { kept::give_back(block.cast(), layout) };
        }
    }
}

/// The layout of a head with bytes behind it, and where they begin.
pub(super) fn behind(head: Layout, capacity: usize) -> Result<(Layout, usize), Status> {
    let bytes = Layout::from_size_align(capacity, ALIGN).map_err(|_| Status::NoMemory)?;
    head.extend(bytes).map_err(|_| Status::NoMemory)
}
