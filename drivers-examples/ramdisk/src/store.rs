//! [`Store`]: the bytes of the device, kept in pages that exist only once something was written to them.
//!
//! The store knows bytes and offsets, no blocks and no protocol. A page that was never written, or was discarded,
//! costs no memory and reads as zeroes. Each page has a lock of its own, so that requests which run at the same time
//! on several threads meet only when they touch the same 64 KiB; a lock is held for one copy of at most a page, never
//! across user code. Two requests that overlap are each atomic per page and in no promised order, as on a disk.
//!
//! The table of pages has two levels, and its lower level is made on the first write too: a device of a tebibyte
//! starts at 512 KiB.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

/// Bytes in a page, the unit in which memory is taken and given back.
pub(crate) const PAGE: usize = 64 << 10;

/// Pages in a group, the unit in which the table of pages grows.
const GROUP: usize = 1024;

/// The biggest device: what keeps the upper table within a few megabytes.
pub(crate) const MAX_SIZE: u64 = 16 << 40;

type Page = RwLock<Option<Box<[u8; PAGE]>>>;

/// The memory for a page could not be had; the device stays as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

/// A sparse array of bytes of a fixed size, shared by all who serve the device.
pub(crate) struct Store {
    size: u64,
    groups: Box<[OnceLock<Box<[Page]>>]>,
    /// Pages that hold memory. Written under the lock of the page that comes or goes; read by anyone, as a figure.
    allocated: AtomicUsize,
}

/// The part of a request that falls into one page.
struct Span {
    page: usize,
    /// Where in the page.
    start: usize,
    len: usize,
}

impl Store {
    /// An all-zero store of `size` bytes.
    ///
    /// # Panics
    /// When `size` is over [`MAX_SIZE`]; the configuration is checked before.
    pub(crate) fn new(size: u64) -> Self {
        assert!(size <= MAX_SIZE, "a store of {size} bytes is over the limit of {MAX_SIZE}");
        let groups = size.div_ceil((PAGE * GROUP) as u64);
        Self { size, groups: (0..groups).map(|_| OnceLock::new()).collect(), allocated: AtomicUsize::new(0) }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of memory that the device's contents occupy now.
    pub(crate) fn allocated_bytes(&self) -> u64 {
        (self.allocated.load(Ordering::Relaxed) * PAGE) as u64
    }

    /// Fills `out` with the bytes at `offset`.
    ///
    /// # Panics
    /// When the range lies outside the device, here and in all that follow: requests are checked before.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) {
        let mut done = 0;
        for span in self.spans(offset, out.len() as u64) {
            let part = &mut out[done..done + span.len];
            done += span.len;
            match self.existing(span.page).map(|page| page.read()) {
                Some(page) if page.is_some() => {
                    let bytes = page.as_ref().expect("looked at in the line above, under the same guard");
                    part.copy_from_slice(&bytes[span.start..span.start + span.len]);
                }
                _ => part.fill(0),
            }
        }
    }

    /// Stores `data` at `offset`.
    ///
    /// # Errors
    /// [`OutOfMemory`] when a page could not be allocated; pages before it have been written.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<(), OutOfMemory> {
        let mut rest = data;
        for span in self.spans(offset, data.len() as u64) {
            let (part, after) = rest.split_at(span.len);
            rest = after;
            let mut page = self.page(span.page).write();
            match page.as_mut() {
                Some(bytes) => bytes[span.start..span.start + span.len].copy_from_slice(part),
                None => {
                    *page = Some(new_page(span.start, part)?);
                    self.allocated.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Makes the range read as zeroes and gives back the memory of the pages that lie wholly inside it.
    pub(crate) fn discard(&self, offset: u64, len: u64) {
        for span in self.spans(offset, len) {
            let Some(page) = self.existing(span.page) else { continue };
            let mut page = page.write();
            if span.len == self.page_len(span.page) {
                // Freed after the guard is gone: the allocator's work is nobody else's wait.
                let gone = page.take();
                drop(page);
                if gone.is_some() {
                    self.allocated.fetch_sub(1, Ordering::Relaxed);
                }
            } else if let Some(bytes) = page.as_mut() {
                bytes[span.start..span.start + span.len].fill(0);
            }
        }
    }

    /// Makes the range read as zeroes and keeps (or takes) the memory for it, so that a later write there cannot fail.
    ///
    /// # Errors
    /// [`OutOfMemory`] as for [`write`](Self::write).
    pub(crate) fn zero_in_place(&self, offset: u64, len: u64) -> Result<(), OutOfMemory> {
        for span in self.spans(offset, len) {
            let mut page = self.page(span.page).write();
            match page.as_mut() {
                Some(bytes) => bytes[span.start..span.start + span.len].fill(0),
                None => {
                    *page = Some(new_page(0, &[])?);
                    self.allocated.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Shows `visit` each page that holds memory, in the order of offsets, cut at the device's end; stops at the first
    /// error. The page is locked for reading meanwhile, so nothing that serves requests may run beside it.
    ///
    /// # Errors
    /// The first error of `visit`.
    pub(crate) fn try_for_each_page<E>(&self, mut visit: impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
        for (number, group) in self.groups.iter().enumerate() {
            let Some(group) = group.get() else { continue };
            for (index, page) in group.iter().enumerate() {
                let page_number = number * GROUP + index;
                let guard = page.read();
                if let Some(bytes) = guard.as_ref() {
                    visit((page_number * PAGE) as u64, &bytes[..self.page_len(page_number)])?;
                }
            }
        }
        Ok(())
    }

    /// Cuts a range at the borders of pages.
    fn spans(&self, offset: u64, len: u64) -> impl Iterator<Item = Span> + use<> {
        let end = offset.checked_add(len).filter(|end| *end <= self.size);
        let end = end.unwrap_or_else(|| panic!("{len} bytes at {offset} lie outside of {} bytes", self.size));
        let mut at = offset;
        std::iter::from_fn(move || {
            if at == end {
                return None;
            }
            let start = (at % PAGE as u64) as usize;
            let len = (end - at).min((PAGE - start) as u64) as usize;
            let page = (at / PAGE as u64) as usize;
            at += len as u64;
            Some(Span { page, start, len })
        })
    }

    /// Bytes of the device in this page: all of it but for the last.
    fn page_len(&self, page: usize) -> usize {
        (self.size - (page * PAGE) as u64).min(PAGE as u64) as usize
    }

    fn page(&self, page: usize) -> &Page {
        let group = self.groups[page / GROUP].get_or_init(|| (0..GROUP).map(|_| RwLock::new(None)).collect());
        &group[page % GROUP]
    }

    fn existing(&self, page: usize) -> Option<&Page> {
        self.groups[page / GROUP].get().map(|group| &group[page % GROUP])
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("size", &self.size).field("allocated_bytes", &self.allocated_bytes()).finish()
    }
}

/// A page with `data` at `start` and zeroes around it; each byte is written once.
fn new_page(start: usize, data: &[u8]) -> Result<Box<[u8; PAGE]>, OutOfMemory> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(PAGE).map_err(|_| OutOfMemory)?;
    bytes.resize(start, 0);
    bytes.extend_from_slice(data);
    bytes.resize(PAGE, 0);
    Ok(bytes.into_boxed_slice().try_into().expect("resized to the length of a page above"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_untouched_store_reads_as_zeroes_and_holds_no_memory() {
        let store = Store::new(64 << 20);
        let mut out = vec![0xff; 3 * PAGE];
        store.read(PAGE as u64 / 2, &mut out);
        assert!(out.iter().all(|byte| *byte == 0));
        assert_eq!(store.allocated_bytes(), 0);
    }

    #[test]
    fn discarding_a_whole_page_gives_its_memory_back_and_a_part_of_one_does_not() {
        let store = Store::new(4 * PAGE as u64);
        store.write(0, &vec![1; 4 * PAGE]).unwrap();
        assert_eq!(store.allocated_bytes(), 4 * PAGE as u64);
        store.discard(PAGE as u64 / 2, 2 * PAGE as u64);
        assert_eq!(store.allocated_bytes(), 3 * PAGE as u64);
        store.discard(0, 4 * PAGE as u64);
        assert_eq!(store.allocated_bytes(), 0);
    }

    #[test]
    fn the_short_last_page_is_given_back_too() {
        let store = Store::new(PAGE as u64 + 512);
        store.write(PAGE as u64, &[7; 512]).unwrap();
        store.discard(PAGE as u64, 512);
        assert_eq!(store.allocated_bytes(), 0);
    }

    #[test]
    fn zeroing_in_place_takes_memory_and_keeps_it() {
        let store = Store::new(2 * PAGE as u64);
        store.write(0, &[9; 100]).unwrap();
        store.zero_in_place(0, 2 * PAGE as u64).unwrap();
        assert_eq!(store.allocated_bytes(), 2 * PAGE as u64);
        let mut out = [1; 100];
        store.read(0, &mut out);
        assert_eq!(out, [0; 100]);
    }

    #[test]
    fn the_biggest_device_costs_little_until_written() {
        let store = Store::new(MAX_SIZE);
        store.write(MAX_SIZE - 3, b"end").unwrap();
        let mut out = [0; 4];
        store.read(MAX_SIZE - 4, &mut out);
        assert_eq!(&out, b"\0end");
        assert_eq!(store.allocated_bytes(), PAGE as u64);
    }

    #[test]
    #[should_panic(expected = "lie outside of 512 bytes")]
    fn a_range_past_the_end_is_the_callers_mistake() {
        Store::new(512).read(1, &mut [0; 512]);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Write { offset: u64, byte: u8, len: u64 },
        Discard { offset: u64, len: u64 },
        Zero { offset: u64, len: u64 },
    }

    const MODEL: u64 = 3 * PAGE as u64 + 4096;

    fn range() -> impl Strategy<Value = (u64, u64)> {
        // Lengths near a page matter as much as short ones: the interesting borders are those of pages.
        (0..=MODEL, prop_oneof![0..600u64, PAGE as u64 - 2..PAGE as u64 + 3, 0..=MODEL])
            .prop_map(|(offset, len)| (offset, len.min(MODEL - offset)))
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (range(), 1..=255u8).prop_map(|((offset, len), byte)| Step::Write { offset, byte, len }),
            range().prop_map(|(offset, len)| Step::Discard { offset, len }),
            range().prop_map(|(offset, len)| Step::Zero { offset, len }),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_store_behaves_like_a_plain_array(steps in prop::collection::vec(step(), 1..20), (at, len) in range()) {
            let store = Store::new(MODEL);
            let mut model = vec![0u8; MODEL as usize];
            for step in steps {
                match step {
                    Step::Write { offset, byte, len } => {
                        // Bytes that differ along the range, so that a shifted copy shows.
                        let data: Vec<u8> = (0..len).map(|i| byte.wrapping_add(i as u8)).collect();
                        store.write(offset, &data).unwrap();
                        model[offset as usize..][..len as usize].copy_from_slice(&data);
                    }
                    Step::Discard { offset, len } => {
                        store.discard(offset, len);
                        model[offset as usize..][..len as usize].fill(0);
                    }
                    Step::Zero { offset, len } => {
                        store.zero_in_place(offset, len).unwrap();
                        model[offset as usize..][..len as usize].fill(0);
                    }
                }
                let mut out = vec![0xaa; len as usize];
                store.read(at, &mut out);
                prop_assert!(out == model[at as usize..][..len as usize], "a part differs from the model");
            }
            let mut all = vec![0xaa; MODEL as usize];
            store.read(0, &mut all);
            prop_assert!(all == model, "the whole differs from the model");
            let mut pages = 0;
            let walked: Result<(), u64> = store.try_for_each_page(|offset, bytes| {
                pages += 1;
                if bytes == &model[offset as usize..][..bytes.len()] { Ok(()) } else { Err(offset) }
            });
            prop_assert_eq!(walked, Ok(()));
            prop_assert_eq!(pages * PAGE as u64, store.allocated_bytes());
        }
    }

    #[test]
    fn writers_on_several_threads_lose_nothing() {
        let store = Store::new(8 * PAGE as u64);
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let store = &store;
                scope.spawn(move || {
                    // Every thread owns each fourth block of 512 bytes of every page.
                    for block in (thread as u64..8 * PAGE as u64 / 512).step_by(4) {
                        store.write(block * 512, &[thread + 1; 512]).unwrap();
                    }
                });
            }
        });
        let mut all = vec![0; 8 * PAGE];
        store.read(0, &mut all);
        for (block, bytes) in all.chunks(512).enumerate() {
            assert!(
                bytes.iter().all(|byte| *byte == (block % 4) as u8 + 1),
                "block {block} holds another thread's bytes"
            );
        }
        assert_eq!(store.allocated_bytes(), 8 * PAGE as u64);
    }
}
