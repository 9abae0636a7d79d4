//! Memory of large arenas that have gone, kept for those that come.
//!
//! Large blocks come straight from the system, by size classes: an allocator keeps what a burst of messages has left, more
//! or less of it by what lies in between, and a mapping goes back whole. But a new one is touched page by page, which costs
//! more than filling it, so a block that is freed waits for the next request of its class. All that waits is at most
//! [`MOST_BYTES`] in the process. What would be beyond makes half of them go back, the oldest of the class that has the most
//! first: to unmap is a call of the system that interrupts other processors, and blocks of a burst lie side by side, so many
//! of them are one call. Small blocks are the allocator's business.
//!
//! # Invariants
//! - What is listed in a class was mapped with the size of that class, and nobody else uses it: it is listed by
//!   [`give_back`], whose caller owns it, and unlisted by whoever takes it.
#![allow(unsafe_code, reason = "raw memory changes hands; the invariant above is kept by this file alone")]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use crate::status::Status;
use crate::sync::unmodelled::Mutex;
use crate::sys::pages;

/// So much at its beginning may have held the head of whoever had it: what is between the fields of that cannot be read, so it
/// is cleared. The locks of a model are larger.
pub(super) const HEAD: usize = if cfg!(any(loom, shuttle)) { 4_096 } else { 256 };
/// What is not larger is the allocator's.
const SMALLEST: usize = 32 * 1024;
/// What is larger is the allocator's too, which maps it.
const LARGEST: usize = 512 * 1024;
/// How much is kept in all.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// Classes to each power of two: a block is at most a quarter larger than what was asked for.
const STEPS: usize = 4;
const CLASSES: usize = STEPS * (LARGEST / SMALLEST).ilog2() as usize;

struct Kept {
    classes: [Vec<Memory>; CLASSES],
    bytes: usize,
}

struct Memory(NonNull<u8>);

// SAFETY: memory that nobody else uses (invariant) may go to any thread.
unsafe impl Send for Memory {}

static KEPT: Mutex<Kept> = Mutex::new(Kept { classes: [const { Vec::new() }; CLASSES], bytes: 0 });

/// A size of which blocks are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Class {
    index: usize,
    size: usize,
}

impl Class {
    fn at(index: usize) -> Class {
        let base = SMALLEST << (index / STEPS);
        Class { index, size: base + (index % STEPS + 1) * base / STEPS }
    }

    /// The class of a request, if it has one.
    fn of(request: Layout) -> Option<Class> {
        let size = request.size();
        if size <= SMALLEST || size > LARGEST {
            return None;
        }
        let octave = ((size - 1) / SMALLEST).ilog2();
        let base = SMALLEST << octave;
        Some(Class::at(octave as usize * STEPS + (size - base).div_ceil(base / STEPS) - 1))
    }
}

impl Kept {
    fn take(&mut self, class: Class) -> Option<NonNull<u8>> {
        let Memory(memory) = self.classes[class.index].pop()?;
        self.bytes -= class.size;
        Some(memory)
    }

    /// Keeps a block. When there is no room for it, what goes back comes out, so that half of the room is free.
    fn keep(&mut self, memory: NonNull<u8>, class: Class) -> Vec<Range> {
        self.classes[class.index].push(Memory(memory));
        self.bytes += class.size;
        if self.bytes <= MOST_BYTES { Vec::new() } else { self.make_room() }
    }

    #[cold]
    fn make_room(&mut self) -> Vec<Range> {
        let mut surplus = Vec::new();
        while self.bytes > MOST_BYTES / 2 {
            let most = (0..CLASSES).map(Class::at).max_by_key(|class| self.classes[class.index].len() * class.size);
            let Some(Class { index, size }) = most else { break };
            let too_many = (self.bytes - MOST_BYTES / 2).div_ceil(size).min(self.classes[index].len());
            self.bytes -= too_many * size;
            surplus.extend(self.classes[index].drain(..too_many).map(|Memory(start)| Range { start, len: size }));
        }
        surplus
    }
}

/// Memory that is listed nowhere any more.
struct Range {
    start: NonNull<u8>,
    len: usize,
}

impl Range {
    /// Gives ranges back, those that lie side by side at once.
    #[cold]
    fn unmap_all(mut ranges: Vec<Range>) {
        ranges.sort_unstable_by_key(|range| range.start);
        for side_by_side in ranges.chunk_by(|one, next| one.start.addr().get() + one.len == next.start.addr().get()) {
            let len = side_by_side.iter().map(|range| range.len).sum();
            // SAFETY: each was listed in its class (invariant) and is not any more, and together they are `len` bytes without
            // a gap.
            unsafe { pages::unmap(side_by_side[0].start, len) };
        }
    }
}

/// What is in memory that nobody has written to since it was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing that may be read.
    Nothing,
    Zeroes,
    /// What somebody has left: it was zeroes once, and all that was handed out of it since is bytes.
    Leavings,
}

/// Memory of a layout, which is not empty and aligned to no more than a page, and what is in it, whatever was asked for.
pub(super) fn take(layout: Layout, cleared: bool) -> Result<(NonNull<u8>, Content), Status> {
    if let Some(class) = Class::of(layout) {
        let kept = KEPT.lock().take(class);
        return match kept {
            Some(memory) => {
                // SAFETY: no class is as small as that, and this call has taken the memory for itself.
                unsafe { memory.write_bytes(0, HEAD) };
                Ok((memory, Content::Leavings))
            }
            None => pages::map(class.size).map(|memory| (memory, Content::Zeroes)).map_err(|_| Status::NoMemory),
        };
    }
    // SAFETY: every layout here has a head in it, so it is not empty.
    let memory = unsafe { if cleared { alloc_zeroed(layout) } else { alloc(layout) } };
    let content = if cleared { Content::Zeroes } else { Content::Nothing };
    Ok((NonNull::new(memory).ok_or(Status::NoMemory)?, content))
}

/// Takes memory back.
///
/// # Safety
/// It came from [`take`] with this layout, and nobody uses it any more.
pub(super) unsafe fn give_back(memory: NonNull<u8>, layout: Layout) {
    let Some(class) = Class::of(layout) else {
        // SAFETY: the caller says that it came from `take`, which allocated it with this layout.
        return unsafe { dealloc(memory.as_ptr(), layout) };
    };
    let surplus = KEPT.lock().keep(memory, class);
    if !surplus.is_empty() {
        Range::unmap_all(surplus);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn class_of(size: usize) -> Option<Class> {
        Class::of(Layout::from_size_align(size, 16).expect("a size"))
    }

    #[test]
    fn a_class_has_room_for_what_is_asked_and_not_much_more() {
        let mut last = Class { index: 0, size: 0 };
        for size in (SMALLEST + 1..=LARGEST).step_by(100).chain([LARGEST]) {
            let class = class_of(size).expect("it is within the bounds");
            assert!(class.size >= size && class.size - size <= size / STEPS, "{size}: {class:?}");
            assert!(class.index < CLASSES && class.size >= last.size && class.index >= last.index);
            assert_eq!(class.index == last.index, class.size == last.size || last.size == 0, "{class:?}, {last:?}");
            assert_eq!(class_of(class.size), Some(class), "a class is its own");
            last = class;
        }
        assert_eq!(last.index, CLASSES - 1);
        assert_eq!((class_of(SMALLEST), class_of(LARGEST + 1)), (None, None));
    }

    #[test]
    fn no_more_is_kept_than_is_said() {
        let layout = Layout::from_size_align(LARGEST, 16).expect("a size");
        let taken: Vec<_> = (0..20).map(|_| take(layout, false).expect("memory").0).collect();
        for memory in taken {
            // SAFETY: it was taken with this layout, and is used by nobody.
            unsafe { give_back(memory, layout) };
            assert!(KEPT.lock().bytes <= MOST_BYTES);
        }
    }

    /// What goes back goes in any order, side by side or not, and nothing between goes with it.
    #[test]
    fn what_lies_between_ranges_that_go_back_stays() {
        const PIECES: usize = 7;
        let start = pages::map(PIECES * SMALLEST).expect("memory");
        // SAFETY: each piece lies within the mapping.
        let piece = |nth: usize| Range { start: unsafe { start.add(nth * SMALLEST) }, len: SMALLEST };
        let stay = [2, 5];
        // SAFETY: the pieces are mapped, and nobody else's.
        stay.iter().for_each(|&nth| unsafe { piece(nth).start.write_bytes(nth as u8, SMALLEST) });
        Range::unmap_all([4, 0, 6, 1, 3].map(piece).into());
        for nth in stay {
            // SAFETY: these two are mapped still.
            let bytes = unsafe { std::slice::from_raw_parts(piece(nth).start.as_ptr(), SMALLEST) };
            assert!(bytes.iter().all(|&byte| byte == nth as u8));
        }
        Range::unmap_all(stay.map(piece).into());
    }

    #[test]
    fn half_of_the_room_is_free_after_it_was_full() {
        let size =
            Class::of(Layout::from_size_align(LARGEST, 16).expect("a size")).expect("it is within the bounds").size;
        let mut kept = Kept { classes: [const { Vec::new() }; CLASSES], bytes: 0 };
        let class = class_of(size).expect("a class");
        let mut gone = 0;
        for nth in 1..=4 * MOST_BYTES / size {
            // Nobody touches it.
            let memory = NonNull::new(std::ptr::without_provenance_mut(nth * size)).expect("not null");
            let surplus = kept.keep(memory, class);
            gone += surplus.len();
            assert!(kept.bytes <= MOST_BYTES && (surplus.is_empty() || kept.bytes <= MOST_BYTES / 2));
            assert_eq!((kept.bytes / size + gone, kept.bytes), (nth, kept.classes[class.index].len() * size));
        }
        assert!(gone > 0);
    }
}
