//! Arenas: memory for messages, handed out by moving a mark, freed all at once.
//!
//! Blocks are in `block`, what is handed out in `buffer`, and where the memory of large ones waits for the next in `kept`.
//!
//! An arena is a header with a first block right behind it, in one allocation, and further blocks of 16 KiB that are
//! added on demand; what does not fit into such a block gets one of its own. A range is handed out by one
//! compare-exchange on the mark of the current block, on any thread; only growing takes a lock. Nothing is freed one by
//! one. When the last reference goes, everything goes; a sole owner can instead start anew in the same memory, which is
//! how an exchange of requests and replies works without allocating.
//!
//! # Invariants
//! - `Header::references` counts the [`Arena`] values that name the header, those inside of [`Buffer`]s included. Header
//!   and blocks stay allocated while it is not 0, and whoever brings it to 0 frees them.
//! - Blocks are reset only by [`Arena::try_reset`], whose caller holds the only reference there is, so that no buffer exists;
//!   what a block hands out once, and initialised, is the business of `block`.
//! - `Header::current` and the entries of `Growth::blocks` point to blocks that are freed only by the two functions above.
#![allow(unsafe_code, reason = "memory that is handed out in pieces; the invariants above are kept by this file alone")]

mod block;
mod buffer;
mod kept;

use std::alloc::Layout;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};

use block::{ALIGN, Block, CLEARED_BY_ALLOCATOR, behind};
pub use buffer::Buffer;
use kept::Content;

use crate::site::Site;
use crate::status::Status;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};
use crate::sync::probe::{self, Note};

/// The largest alignment that can be asked for.
const MAX_ALIGN: usize = 4096;
/// What a default arena takes from the allocator, header included.
const FIRST_ALLOCATION: usize = 4096;

/// What fits into it.
const FIRST_CAPACITY: usize = FIRST_ALLOCATION - size_of::<Header>();
/// What a further block takes from the allocator, its own header included.
const FURTHER_ALLOCATION: usize = 16 * 1024;
/// A further block that is larger is given back by [`Arena::try_reset`].
const LARGEST_KEPT: usize = 1024 * 1024;

/// What an arena has beyond its first block.
struct Growth {
    /// The further blocks by address.
    blocks: Vec<NonNull<Block>>,
}

struct Header {
    references: AtomicUsize,
    tag: [u8; 4],
    /// The block from which ranges are claimed.
    current: AtomicPtr<Block>,
    /// Whether `growth` may hold anything. Written under its lock, and by a sole owner.
    has_grown: AtomicBool,
    growth: Mutex<Growth>,
    /// The block right behind this header.
    first: Block,
}

impl Header {
    fn layout(capacity: usize) -> Result<(Layout, usize), Status> {
        behind(Layout::new::<Header>(), capacity)
    }
}

/// Memory for messages. A clone is a further reference to the same memory, which goes back to the allocator when the
/// last reference and the last message in it are gone, on whatever thread that is.
///
/// # Thread requirements
/// Any thread; several may allocate at once.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::Arena;
///
/// let arena = Arena::new();
/// let mut request = arena.message(5);
/// request.bytes_mut().copy_from_slice(b"hello");
/// assert!(arena.contains(request.bytes()));
/// ```
pub struct Arena {
    header: NonNull<Header>,
}

// SAFETY: the reference count is atomic, claiming is atomic, growth is locked; ranges belong to their buffers.
unsafe impl Send for Arena {}
// SAFETY: as above; nothing behind a shared reference is changed without an atomic operation or the lock.
unsafe impl Sync for Arena {}

const _: () =
    assert!(size_of::<Header>() <= kept::HEAD && size_of::<Block>() <= kept::HEAD, "a head is cleared as a whole");

impl Arena {
    /// An arena whose first block makes the whole a page.
    ///
    /// # Panics
    /// When memory is exhausted.
    #[track_caller]
    pub fn new() -> Self {
        Self::with_tag([0; 4])
    }

    /// Like [`new`](Arena::new), with a tag of four characters that says in a debugger or a dump what it is for.
    ///
    /// # Panics
    /// When memory is exhausted.
    #[track_caller]
    pub fn with_tag(tag: [u8; 4]) -> Self {
        expect_memory(Self::try_new(Site::caller(), FIRST_CAPACITY, tag))
    }

    /// An arena with room for `bytes` before it has to grow.
    ///
    /// # Panics
    /// When memory is exhausted. [`try_with_capacity`](Arena::try_with_capacity) answers instead.
    #[track_caller]
    pub fn with_capacity(bytes: usize) -> Self {
        expect_memory(Self::try_with_capacity(bytes))
    }

    /// Like [`with_capacity`](Arena::with_capacity).
    ///
    /// # Errors
    /// [`Status::NoMemory`].
    #[track_caller]
    pub fn try_with_capacity(bytes: usize) -> Result<Self, Status> {
        Self::try_new(Site::caller(), bytes, [0; 4])
    }

    /// As [`try_with_capacity`](Arena::try_with_capacity), for code of others: the arena is listed as made at `site`. For
    /// 0 `bytes` it has the room of a [`new`](Arena::new) one.
    ///
    /// # Errors
    /// [`Status::NoMemory`].
    pub fn try_with_capacity_from(site: Site, bytes: usize) -> Result<Self, Status> {
        Self::try_new(site, if bytes == 0 { FIRST_CAPACITY } else { bytes }, [0; 4])
    }

    /// `len` zeroes in an arena of their own, in which there is room for `bytes`.
    ///
    /// # Panics
    /// When memory is exhausted.
    #[track_caller]
    pub(super) fn zeroes(bytes: usize, len: usize) -> Buffer {
        let (arena, content) = expect_memory(Self::try_new_with(Site::caller(), bytes, [0; 4]));
        let mut buffer = arena.into_buffer(len);
        // What nobody has written to before is cleared when it is handed out.
        if content == Content::Leavings {
            buffer.fill(0);
        }
        buffer
    }

    fn try_new(site: Site, capacity: usize, tag: [u8; 4]) -> Result<Self, Status> {
        Self::try_new_with(site, capacity, tag).map(|(arena, _)| arena)
    }

    /// With what is in its memory.
    fn try_new_with(site: Site, capacity: usize, tag: [u8; 4]) -> Result<(Self, Content), Status> {
        let (layout, offset) = Header::layout(capacity)?;
        let cleared = capacity >= CLEARED_BY_ALLOCATOR;
        let (memory, content) = kept::take(layout, cleared)?;
        // SAFETY: `offset` is within the allocation, by the layout.
        let start = unsafe { memory.add(offset) };
        let header = memory.cast::<Header>();
        // SAFETY: the allocation begins with room for a `Header`, aligned for it.
        unsafe {
            header.write(Header {
                references: AtomicUsize::new(1),
                tag,
                current: AtomicPtr::new(ptr::null_mut()),
                has_grown: AtomicBool::new(false),
                growth: Mutex::new(Growth { blocks: Vec::new() }),
                first: Block::new(start, capacity, content),
            });
        }
        let arena = Arena { header };
        probe::note(|| Note::Made { what: "arena", id: header.addr().get() as u64, location: site });
        arena.header().current.store(arena.first(), Ordering::Relaxed);
        Ok((arena, content))
    }

    /// The tag that it was made with.
    pub fn tag(&self) -> [u8; 4] {
        self.header().tag
    }

    /// A message of `len` bytes in this arena. They are initialised, but with whatever the memory held: write them
    /// before you send them.
    ///
    /// # Panics
    /// When memory is exhausted.
    pub fn message(&self, len: usize) -> super::Message {
        super::Message::from(self.allocate(len))
    }

    /// `len` bytes, aligned to 16, initialised with whatever the memory held.
    ///
    /// # Panics
    /// When memory is exhausted.
    pub fn allocate(&self, len: usize) -> Buffer {
        expect_memory(self.try_allocate(len))
    }

    /// Like [`allocate`](Arena::allocate).
    ///
    /// # Errors
    /// [`Status::NoMemory`].
    pub fn try_allocate(&self, len: usize) -> Result<Buffer, Status> {
        let start = self.allocate_raw(len, ALIGN)?;
        Ok(Buffer::new(self.clone(), start, len))
    }

    /// Like [`allocate`](Arena::allocate), and the buffer keeps this reference.
    ///
    /// # Panics
    /// When memory is exhausted.
    pub fn into_buffer(self, len: usize) -> Buffer {
        let start = expect_memory(self.allocate_raw(len, ALIGN));
        Buffer::new(self, start, len)
    }

    /// `len` bytes as a plain address, for code on the other side of a C boundary. The memory is initialised; nothing
    /// else will ever be handed out of it while the caller holds a reference to the arena.
    ///
    /// # Errors
    /// [`Status::InvalidArgs`] when `align` is no power of two or above 4096; [`Status::NoMemory`].
    pub fn allocate_raw(&self, len: usize, align: usize) -> Result<NonNull<u8>, Status> {
        if !align.is_power_of_two() || align > MAX_ALIGN {
            return Err(Status::InvalidArgs);
        }
        if len == 0 {
            return NonNull::new(ptr::without_provenance_mut(align)).ok_or(Status::InvalidArgs);
        }
        // ORDERING: Acquire, pairs with the Release in `grow`; publishes the block.
        let current = self.header().current.load(Ordering::Acquire);
        // SAFETY: `current` points to a block that lives as long as the arena (invariant).
        match unsafe { &*current }.claim(len, align) {
            Some(range) => Ok(range),
            None => self.grow(len, align),
        }
    }

    /// Whether the bytes lie wholly in one block of this arena, in the part that has been handed out.
    pub fn contains(&self, bytes: &[u8]) -> bool {
        self.contains_raw(bytes.as_ptr(), bytes.len())
    }

    /// [`contains`](Arena::contains) for a plain address. An empty range is contained wherever it is.
    pub fn contains_raw(&self, start: *const u8, len: usize) -> bool {
        let address = start.addr();
        if len == 0 || self.header().first.contains(address, len) {
            return true;
        }
        let growth = self.header().growth.lock();
        let at = growth.blocks.partition_point(|block| {
            // SAFETY: the blocks of the list live as long as the arena (invariant).
            unsafe { block.as_ref() }.start.addr().get() <= address
        });
        at.checked_sub(1).is_some_and(|at| {
            // SAFETY: as above.
            unsafe { growth.blocks[at].as_ref() }.contains(address, len)
        })
    }

    /// Starts anew in the same memory if this is the only reference, so that no message of this arena is left anywhere.
    /// The first block and the largest further one up to 1 MiB are kept. False: something else refers to it, and
    /// nothing has changed.
    pub fn try_reset(&mut self) -> bool {
        // ORDERING: Acquire, pairs with the Release in `drop`; whoever gave its reference back is done with its range.
        if self.header().references.load(Ordering::Acquire) != 1 {
            return false;
        }
        self.header().first.reset();
        if self.header().has_grown.load(Ordering::Relaxed) {
            self.shrink();
        }
        true
    }

    /// Gives up this value and keeps its reference, as an address for the other side of a C boundary.
    pub fn into_raw(self) -> NonNull<()> {
        ManuallyDrop::new(self).header.cast()
    }

    /// The opposite of [`into_raw`](Arena::into_raw).
    ///
    /// # Safety
    /// `raw` came from `into_raw`, and the reference that it stands for is not used again.
    pub unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Arena { header: raw.cast() }
    }

    fn header(&self) -> &Header {
        // SAFETY: this value counts as a reference, so the header is alive; it is never borrowed mutably.
        unsafe { self.header.as_ref() }
    }

    fn first(&self) -> *mut Block {
        // SAFETY: the header is alive; this makes a pointer and no reference.
        unsafe { &raw mut (*self.header.as_ptr()).first }
    }

    /// Adds a block for a request that the current one cannot take.
    #[cold]
    fn grow(&self, len: usize, align: usize) -> Result<NonNull<u8>, Status> {
        let header = self.header();
        let mut growth = header.growth.lock();
        let current = header.current.load(Ordering::Relaxed);
        // Somebody else may have added one meanwhile.
        // SAFETY: `current` points to a block that lives as long as the arena (invariant).
        if let Some(range) = unsafe { &*current }.claim(len, align) {
            return Ok(range);
        }
        let standard = FURTHER_ALLOCATION - size_of::<Block>();
        let worst = len.checked_add(align - 1).ok_or(Status::NoMemory)?;
        let is_standard = worst <= standard;
        growth.blocks.try_reserve(1).map_err(|_| Status::NoMemory)?;
        let block = Block::allocate(if is_standard { standard } else { worst })?;
        // SAFETY: the block was made a moment ago.
        let range = unsafe { block.as_ref() }.claim(len, align);
        let address = block.addr();
        let at = growth.blocks.partition_point(|other| other.addr() < address);
        growth.blocks.insert(at, block);
        header.has_grown.store(true, Ordering::Relaxed);
        if is_standard {
            // ORDERING: Release, pairs with the Acquire in `allocate_raw`; publishes the block.
            header.current.store(block.as_ptr(), Ordering::Release);
        }
        range.ok_or(Status::NoMemory)
    }

    /// Gives all further blocks back but the largest that may be kept. There is no other reference to the arena.
    #[cold]
    fn shrink(&mut self) {
        let header = self.header();
        let mut growth = header.growth.lock();
        // SAFETY: the blocks of the list live as long as the arena (invariant).
        let capacity = |block: &NonNull<Block>| unsafe { block.as_ref() }.capacity;
        let kept = growth
            .blocks
            .iter()
            .copied()
            .filter(|block| (header.first.capacity + 1..=LARGEST_KEPT).contains(&capacity(block)))
            .max_by_key(capacity);
        let current = kept.map_or(self.first(), NonNull::as_ptr);
        header.current.store(current, Ordering::Relaxed);
        // SAFETY: `current` is one of the blocks, all of which are alive.
        unsafe { &*current }.reset();
        growth.blocks.retain(|&block| {
            let keep = Some(block) == kept;
            if !keep {
                // SAFETY: the block leaves the list here and is not `current`; there is no other reference to the
                // arena, hence no buffer.
                unsafe { Block::free(block) };
            }
            keep
        });
        header.has_grown.store(kept.is_some(), Ordering::Relaxed);
    }

    /// Frees everything.
    ///
    /// # Safety
    /// The count has come to 0, and this is called once.
    #[cold]
    unsafe fn free(header: NonNull<Header>) {
        probe::note(|| Note::Gone { what: "arena", id: header.addr().get() as u64 });
        // SAFETY: nobody else refers to the header any more.
        let Header { first, growth, .. } = unsafe { header.read() };
        for block in growth.into_inner().blocks {
            // SAFETY: there are no references to the arena left, so no ranges; the list is gone with this loop.
            unsafe { Block::free(block) };
        }
        if let Ok((layout, _)) = Header::layout(first.capacity) {
            // SAFETY: this is the layout that the header was allocated with, and it was moved out above.
            unsafe { kept::give_back(header.cast(), layout) };
        }
    }
}

#[track_caller]
fn expect_memory<T>(result: Result<T, Status>) -> T {
    match result {
        Ok(value) => value,
        Err(status) => panic!("no memory for a message ({status}); the forms that begin with `try_` answer instead"),
    }
}

impl Default for Arena {
    #[track_caller]
    fn default() -> Self {
        Arena::new()
    }
}

impl Clone for Arena {
    fn clone(&self) -> Self {
        // ORDERING: Relaxed is enough: a reference is made from one that exists.
        let before = self.header().references.fetch_add(1, Ordering::Relaxed);
        assert!(before <= isize::MAX as usize, "an arena has fewer references than addresses exist");
        Arena { header: self.header }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // ORDERING: Release, pairs with the Acquire fence below and the load in `try_reset`; what was done with ranges
        // is over before anybody frees them or hands them out again.
        if self.header().references.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: this was the last reference.
            unsafe { Arena::free(self.header) };
        }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let further = self.header().growth.lock().blocks.len();
        f.debug_struct("Arena")
            .field("tag", &self.tag().escape_ascii().to_string())
            .field("blocks", &(1 + further))
            .finish_non_exhaustive()
    }
}
