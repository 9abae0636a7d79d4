//! [`Store`]: the bytes of the device, in its file; calls block unless they say otherwise.
//!
//! The store knows bytes and offsets, no blocks and no protocol. Calls from several threads run side by side; two that
//! overlap are in no promised order, as on a disk.
//!
//! # Flushes
//! A flush forces the file to its medium. Flushes that wait for one that is under way are all done by the next one, which
//! begins after they were asked for. When the system says that one failed, it has forgotten what it could not write, and
//! the next one would succeed without it: so nothing is flushed or changed after that.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::fs::FallocateFlags;
use rustix::io::{Errno, ReadWriteFlags};

/// How much is written at once where a range has to be filled with zeroes by hand.
const PIECE: usize = 256 << 10;

static ZEROES: [u8; PIECE] = [0; PIECE];

/// A file of fixed size, shared by all who serve the device.
#[derive(Debug)]
pub(crate) struct Store {
    file: File,
    size: u64,
    /// How the file is forced to its medium; tests put something else here.
    force: fn(&File) -> io::Result<()>,
    /// How many flushes have been asked for. Counted before `flushed` is locked.
    asked: AtomicU64,
    flushed: Mutex<Flushed>,
    /// The copy of `Flushed::is_lost` that changes look at. Written under the lock of `flushed`.
    is_lost: AtomicBool,
    /// Whether the file system is known not to make holes, or not to zero ranges. Written and read by anyone, as a hint.
    no_holes: AtomicBool,
    no_zeroing: AtomicBool,
    /// Whether it is known not to read, or not to write, without waiting; hints as well.
    waits_to_read: AtomicBool,
    waits_to_write: AtomicBool,
}

#[derive(Debug, Default)]
struct Flushed {
    /// The flushes up to this number are done.
    up_to: u64,
    is_lost: bool,
}

impl Store {
    pub(crate) fn new(file: File, size: u64) -> Self {
        Self {
            file,
            size,
            force: File::sync_data,
            asked: AtomicU64::new(0),
            flushed: Mutex::default(),
            is_lost: AtomicBool::new(false),
            no_holes: AtomicBool::new(false),
            no_zeroing: AtomicBool::new(false),
            waits_to_read: AtomicBool::new(false),
            waits_to_write: AtomicBool::new(false),
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Fills `into` from `offset` on.
    ///
    /// # Errors
    /// What the system says; `UnexpectedEof` when somebody has cut the file off.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, offset)
    }

    /// Puts `bytes` at `offset`.
    ///
    /// # Errors
    /// What the system says; a part may have been written.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.check_that_changes_are_kept()?;
        self.file.write_all_at(bytes, offset)
    }

    /// Fills the front of `into` from `offset` on, as far as that is in memory, and returns how much that was. Never blocks.
    ///
    /// What fails is left to [`read`](Self::read), which says so.
    pub(crate) fn read_at_once(&self, offset: u64, into: &mut [u8]) -> usize {
        let read = || rustix::io::preadv2(&self.file, &mut [IoSliceMut::new(into)], offset, ReadWriteFlags::NOWAIT);
        at_once(&self.waits_to_read, read)
    }

    /// Puts the front of `bytes` at `offset`, as far as nothing has to be waited for, and returns how much that was. Never
    /// blocks.
    ///
    /// # Errors
    /// Nothing may be changed any more. What the system fails is left to [`write`](Self::write), which says so.
    pub(crate) fn write_at_once(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.check_that_changes_are_kept()?;
        let write = || rustix::io::pwritev2(&self.file, &[IoSlice::new(bytes)], offset, ReadWriteFlags::NOWAIT);
        Ok(at_once(&self.waits_to_write, write))
    }

    /// Makes a hole of the range, where the file system can; it reads as zeroes then, and otherwise as it did before.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        self.check_that_changes_are_kept()?;
        self.punch(offset, length).map(drop)
    }

    /// Makes the range read as zeroes. With `keeps_space` it stays allocated. `given_up` is asked between pieces where the
    /// file system leaves it to us to write them.
    ///
    /// # Errors
    /// What the system says, or `Interrupted` when it was given up; a part may be zeroes then.
    pub(crate) fn zero(
        &self,
        offset: u64,
        length: u64,
        keeps_space: bool,
        given_up: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        self.check_that_changes_are_kept()?;
        if (!keeps_space && self.punch(offset, length)?) || self.zero_range(offset, length)? {
            return Ok(());
        }
        let end = offset + length;
        let mut at = offset;
        while at < end {
            if given_up() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let piece = (end - at).min(PIECE as u64);
            self.file.write_all_at(&ZEROES[..piece as usize], at)?;
            at += piece;
        }
        Ok(())
    }

    /// Forces everything that was changed before to the medium.
    ///
    /// # Errors
    /// What the system says; and from then on always that a flush has failed.
    pub(crate) fn flush(&self) -> io::Result<()> {
        // ORDERING: AcqRel, pairs with itself: whoever reads this number below also sees the changes that came before it;
        // they are in the system's hands, which needs no more than that the calls have returned.
        let own = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut flushed = self.flushed.lock();
        if flushed.is_lost {
            return Err(lost());
        }
        if flushed.up_to >= own {
            return Ok(());
        }
        // ORDERING: Acquire, pairs with the AcqRel above, in the threads that wait for the lock now.
        let up_to = self.asked.load(Ordering::Acquire);
        let outcome = (self.force)(&self.file);
        match outcome {
            Ok(()) => flushed.up_to = up_to,
            Err(_) => {
                flushed.is_lost = true;
                // ORDERING: Release, pairs with the Acquire in `check_that_changes_are_kept`.
                self.is_lost.store(true, Ordering::Release);
            }
        }
        outcome
    }

    /// Gives the lock of the file back. Nothing may be changed after that.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn release(&self) -> io::Result<()> {
        self.file.unlock()
    }

    fn check_that_changes_are_kept(&self) -> io::Result<()> {
        // ORDERING: Acquire, pairs with the Release in `flush`.
        if self.is_lost.load(Ordering::Acquire) { Err(lost()) } else { Ok(()) }
    }

    /// Whether it could make a hole of the range.
    fn punch(&self, offset: u64, length: u64) -> io::Result<bool> {
        self.fallocate(&self.no_holes, FallocateFlags::PUNCH_HOLE, offset, length)
    }

    /// Whether it could zero the range and keep its space.
    fn zero_range(&self, offset: u64, length: u64) -> io::Result<bool> {
        self.fallocate(&self.no_zeroing, FallocateFlags::ZERO_RANGE, offset, length)
    }

    fn fallocate(&self, cannot: &AtomicBool, how: FallocateFlags, offset: u64, length: u64) -> io::Result<bool> {
        if cannot.load(Ordering::Relaxed) {
            return Ok(false);
        }
        loop {
            match rustix::fs::fallocate(&self.file, how | FallocateFlags::KEEP_SIZE, offset, length) {
                Ok(()) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    cannot.store(true, Ordering::Relaxed);
                    return Ok(false);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// How much a call did that does not wait; `waits` notes that the file system has no such call.
fn at_once(waits: &AtomicBool, call: impl FnOnce() -> rustix::io::Result<usize>) -> usize {
    if waits.load(Ordering::Relaxed) {
        return 0;
    }
    match call() {
        Ok(count) => count,
        Err(error) => {
            if matches!(error, Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) {
                waits.store(true, Ordering::Relaxed);
            }
            0
        }
    }
}

fn lost() -> io::Error {
    io::Error::other("an earlier flush failed, and what it should have kept is lost: start the driver anew")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    use proptest::prelude::*;

    use super::*;

    const GO_ON: &dyn Fn() -> bool = &|| false;
    const SIZE: u64 = 1 << 20;

    fn store_in(folder: &Path) -> Store {
        let file = tempfile::tempfile_in(folder).expect("a file");
        file.set_len(SIZE).expect("it is long");
        Store::new(file, SIZE)
    }

    fn store() -> Store {
        store_in(&std::env::temp_dir())
    }

    fn read(store: &Store, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0xee; length];
        store.read(offset, &mut bytes).expect("it is read");
        bytes
    }

    #[derive(Debug, Clone)]
    enum Change {
        Write(u64, Vec<u8>),
        Zero(u64, u64, bool),
        Discard(u64, u64),
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let range = || (0..64u64, 1..64u64).prop_map(|(at, len)| (at * 512, len * 512));
        let one = prop_oneof![
            (range(), any::<u8>()).prop_map(|((at, len), byte)| Change::Write(at, vec![byte; len as usize])),
            (range(), any::<bool>()).prop_map(|((at, len), keeps)| Change::Zero(at, len, keeps)),
            range().prop_map(|(at, len)| Change::Discard(at, len)),
        ];
        prop::collection::vec(one, 1..30)
    }

    proptest! {
        #[test]
        fn a_store_reads_as_an_array_of_bytes_whatever_its_file_system_can(changes in changes(), by_hand: bool) {
            let store = store();
            store.no_holes.store(by_hand, Ordering::Relaxed);
            store.no_zeroing.store(by_hand, Ordering::Relaxed);
            let mut model = vec![0; 64 << 10];
            for change in changes {
                match change {
                    Change::Write(at, bytes) => {
                        store.write(at, &bytes).unwrap();
                        model[at as usize..][..bytes.len()].copy_from_slice(&bytes);
                    }
                    Change::Zero(at, len, keeps) => {
                        store.zero(at, len, keeps, GO_ON).unwrap();
                        model[at as usize..][..len as usize].fill(0);
                    }
                    Change::Discard(at, len) => {
                        store.discard(at, len).unwrap();
                        // Without holes a discard leaves the range as it was.
                        if !store.no_holes.load(Ordering::Relaxed) {
                            model[at as usize..][..len as usize].fill(0);
                        }
                    }
                }
            }
            prop_assert!(read(&store, 0, model.len()) == model);
            prop_assert_eq!(store.file.metadata().unwrap().len(), SIZE);
        }
    }

    #[test]
    fn what_is_in_memory_is_read_at_once_and_what_cannot_be_is_left_to_the_call_that_waits() {
        let store = store();
        store.write(0, &[7; 8192]).unwrap();
        let mut bytes = [0; 4096];
        let count = store.read_at_once(4096, &mut bytes);
        assert!(count == 4096 && bytes == [7; 4096] || store.waits_to_read.load(Ordering::Relaxed), "{count}");
        store.file.set_len(1024).unwrap();
        assert_eq!(store.read_at_once(1024, &mut bytes), 0, "behind the end");
        for missing in [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL] {
            let waits = AtomicBool::new(false);
            assert_eq!(at_once(&waits, || Err(Errno::AGAIN)), 0);
            assert_eq!(at_once(&waits, || Ok(5)), 5, "another time it may be there");
            assert_eq!(at_once(&waits, || Err(missing)), 0);
            assert_eq!(at_once(&waits, || panic!("it is not tried again")), 0);
        }
    }

    #[test]
    fn what_is_written_at_once_is_in_the_file() {
        let store = store();
        let count = store.write_at_once(4096, &[9; 4096]).unwrap();
        assert_eq!(read(&store, 4096, count), vec![9; count]);
    }

    #[test]
    fn a_hole_gives_space_back_and_zeroes_keep_it() {
        let store = store();
        store.write(0, &vec![7; 512 << 10]).unwrap();
        store.flush().unwrap();
        let blocks = || store.file.metadata().unwrap().blocks();
        let full = blocks();
        store.zero(0, 256 << 10, true, GO_ON).unwrap();
        assert_eq!(blocks(), full);
        store.discard(0, 256 << 10).unwrap();
        if store.no_holes.load(Ordering::Relaxed) {
            return;
        }
        assert!(blocks() <= full / 2 + 64, "{} of {full} blocks are left", blocks());
        assert_eq!(read(&store, 0, 1024), [0; 1024]);
        assert_eq!(read(&store, 256 << 10, 1024), [7; 1024]);
    }

    #[test]
    fn zeroing_by_hand_can_be_given_up_between_pieces() {
        let store = store();
        store.no_holes.store(true, Ordering::Relaxed);
        store.no_zeroing.store(true, Ordering::Relaxed);
        store.write(0, &vec![7; SIZE as usize]).unwrap();
        let asked = AtomicUsize::new(0);
        let error = store.zero(0, SIZE, false, &|| asked.fetch_add(1, Ordering::Relaxed) == 2).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        assert_eq!(read(&store, 2 * PIECE as u64 - 1, 2), [0, 7]);
    }

    #[test]
    fn a_file_that_was_cut_off_is_told_by_who_reads_behind_its_end() {
        let store = store();
        store.file.set_len(1024).unwrap();
        assert_eq!(read(&store, 512, 512), [0; 512]);
        let error = store.read(1024, &mut [0; 512]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn after_a_failed_flush_nothing_is_changed_or_flushed_and_reading_goes_on() {
        let mut store = store();
        store.write(0, &[7; 512]).unwrap();
        store.force = |_| Err(Errno::IO.into());
        assert_eq!(store.flush().unwrap_err().raw_os_error(), Some(5));
        // As the system does: what it could not write is forgotten, and the next time nothing is wrong.
        store.force = File::sync_data;
        for refused in [
            store.flush(),
            store.write(0, &[8; 512]),
            store.write_at_once(0, &[8; 512]).map(drop),
            store.discard(0, 512),
            store.zero(0, 512, true, GO_ON),
            store.zero(0, 512, false, GO_ON),
        ] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("an earlier flush failed"), "{error}");
        }
        assert_eq!(read(&store, 0, 512), [7; 512]);
    }

    static FORCED: AtomicUsize = AtomicUsize::new(0);
    static BEGUN: Barrier = Barrier::new(2);
    static END: Barrier = Barrier::new(2);

    fn slow_force(_: &File) -> io::Result<()> {
        if FORCED.fetch_add(1, Ordering::SeqCst) == 0 {
            BEGUN.wait();
            END.wait();
        }
        Ok(())
    }

    #[test]
    fn flushes_that_wait_share_one_which_begins_after_they_were_asked_for() {
        let mut store = store();
        store.force = slow_force;
        std::thread::scope(|scope| {
            scope.spawn(|| store.flush().unwrap());
            BEGUN.wait();
            // The first is under way, so it does not count for these.
            for _ in 0..5 {
                scope.spawn(|| store.flush().unwrap());
            }
            while store.asked.load(Ordering::SeqCst) < 6 {
                std::thread::yield_now();
            }
            END.wait();
        });
        assert_eq!(FORCED.load(Ordering::SeqCst), 2);
        store.flush().unwrap();
        assert_eq!(FORCED.load(Ordering::SeqCst), 3, "a flush that nobody else waits with is done by itself");
    }
}
