//! Goal: an arena hands out memory that is one's own, aligned and initialised, and takes all of it back.
//! Method: each rule by itself, then random allocations beside a plain model. No claim here is about time.
//!
//! Invariant of the unsafe code here: what is put together from raw parts is what was taken apart a moment before.
#![allow(unsafe_code, reason = "raw parts are part of what is tested")]

use proptest::prelude::*;

use super::arena::{Arena, Buffer};
use super::message::Message;
use crate::status::Status;
use crate::sync::{Arc, thread};

fn address(buffer: &Buffer) -> usize {
    buffer.as_ptr().addr()
}

/// AR-01.
///
/// Shows AT-1.
#[test]
fn two_allocations_are_two_places() {
    let arena = Arena::new();
    let (first, second) = (arena.allocate(64), arena.allocate(64));
    assert!(address(&first) + 64 <= address(&second) || address(&second) + 64 <= address(&first));
}

/// AR-03.
///
/// Shows CH-R80, AT-3.
#[test]
fn requests_larger_than_any_block_get_one_of_their_own() {
    let arena = Arena::new();
    let before = arena.allocate(16);
    let (mut first, mut second) = (arena.allocate(1 << 20), arena.allocate(6 << 20));
    first.fill(1);
    second.fill(2);
    let after = arena.allocate(16);
    assert!(first.iter().all(|&byte| byte == 1) && second.iter().all(|&byte| byte == 2));
    assert!(address(&after) - address(&before) < 4096, "the current block stays the current one");
}

/// AR-04.
///
/// Shows CH-R82, AT-4, RA-7.
#[test]
fn a_range_is_contained_when_all_of_it_was_handed_out_in_one_block() {
    let arena = Arena::new();
    let all = [arena.allocate(0x1000), arena.allocate(0x10000), arena.allocate(0x500)];
    for range in &all {
        let start = range.as_ptr();
        assert!(arena.contains(range));
        assert!(
            arena.contains(&range[1..]) && arena.contains(&range[..1]) && arena.contains(&range[7..range.len() - 7])
        );
        assert!(!arena.contains_raw(start.wrapping_sub(0x100_0000), 0x200_0000), "it spans more than a block");
        assert!(arena.contains_raw(start.wrapping_add(range.len()), 0), "an empty range is contained");
    }
    let (large, last) = (&all[1], &all[2]);
    assert!(!arena.contains_raw(large.as_ptr(), large.len() + 16), "beyond a block of its own");
    assert!(!arena.contains_raw(last.as_ptr(), last.len() + 1), "beyond what was handed out");
    assert!(!arena.contains_raw(last.as_ptr().wrapping_add(last.len()), 1));
    assert!(!arena.contains_raw(std::ptr::null(), 1) && arena.contains_raw(std::ptr::null(), 0));
    let other = Arena::new();
    assert!(all.iter().all(|range| !other.contains(range)), "another arena");
}

/// AR-06.
///
/// Shows CH-R80, AT-6.
#[test]
fn contents_stay_apart_across_blocks() {
    let arena = Arena::new();
    let mut all: Vec<Buffer> = [4000, 8000, 20000].map(|len| arena.allocate(len)).into();
    all.iter_mut().zip(1u8..).for_each(|(buffer, byte)| buffer.fill(byte));
    for (buffer, byte) in all.iter().zip(1u8..) {
        assert!(buffer.iter().all(|&found| found == byte));
    }
}

/// AR-07.
///
/// Shows AT-7.
#[test]
fn a_thousand_allocations_are_a_thousand_places() {
    let arena = Arena::new();
    let all: Vec<Buffer> = (0..1000).map(|_| arena.allocate(1000)).collect();
    let mut starts: Vec<usize> = all.iter().map(address).collect();
    starts.sort_unstable();
    assert!(starts.windows(2).all(|pair| pair[0] + 1000 <= pair[1]));
}

/// AR-09.
///
/// Shows CH-R81, AT-9.
#[test]
fn what_is_dropped_is_free_again() {
    // 20 GB in all: not to be had unless each arena gives its own back.
    for _ in 0..20_000 {
        let arena = Arena::new();
        let mut large = arena.allocate(1_000_000);
        large[0] = 1;
    }
}

/// Shows CH-R6, CH-R15, RA-12.
#[test]
fn memory_outlives_the_arena_value_while_a_buffer_is_left() {
    let mut buffer = Arena::new().allocate(100);
    buffer.fill(7);
    let last = buffer.arena().clone();
    assert!(last.contains(&buffer));
    drop(last);
    assert!(buffer.iter().all(|&byte| byte == 7));
}

#[test]
fn a_fresh_arena_hands_out_zeroes_unless_its_memory_was_kept() {
    for len in [1, 100, 5000, 20_000, 2_000_000] {
        assert!(Arena::new().allocate(len).iter().all(|&byte| byte == 0));
        assert!(Arena::with_capacity(len).allocate(len).iter().all(|&byte| byte == 0));
    }
}

/// What is kept of large arenas goes on as it is, whoever gets it: in front of it stands a head, which may be a longer or a
/// shorter one than before. Under Miri each byte is read, and has to be one.
#[test]
fn large_memory_that_is_used_again_can_be_read_and_a_message_of_zeroes_has_no_other() {
    const LEN: usize = 100_000;
    for _ in 0..20 {
        let mut first = Arena::with_capacity(LEN).allocate(LEN);
        first.fill(0xff);
        drop(first);
        let arena = Arena::new();
        let mut further = arena.allocate(LEN);
        assert!(further.iter().all(|&byte| byte == 0 || byte == 0xff));
        further.fill(0xff);
        drop((further, arena));
        let message = Message::with_len(LEN);
        assert!(message.bytes().iter().all(|&byte| byte == 0));
    }
}

#[test]
fn only_a_sole_reference_starts_anew() {
    let mut arena = Arena::new();
    let buffer = arena.allocate(10);
    assert!(!arena.try_reset(), "a buffer is left");
    let place = address(&buffer);
    drop(buffer);
    let other = arena.clone();
    assert!(!arena.try_reset(), "a reference is left");
    drop(other);
    assert!(arena.try_reset());
    assert_eq!(address(&arena.allocate(10)), place, "the same memory");
}

#[test]
fn an_arena_that_starts_anew_keeps_its_largest_block_within_reason() {
    let mut arena = Arena::new();
    let large = arena.allocate(500_000);
    let place = address(&large);
    drop(large);
    drop((arena.allocate(20_000), arena.allocate(2_000_000)));
    assert!(arena.try_reset());
    assert_eq!(address(&arena.allocate(400_000)), place, "the block of 500,000 was kept, that of 2,000,000 was not");
    assert!(arena.try_reset());
    let again = arena.allocate(500_000);
    assert_eq!(address(&again), place);
    assert!(arena.contains(&again));
}

/// Shows CH-R81.
#[test]
fn alignment_is_what_was_asked_for_or_refused() {
    let arena = Arena::new();
    for align in [1, 2, 8, 64, 512, 4096] {
        let start = arena.allocate_raw(3, align).expect("there is memory");
        assert_eq!(start.addr().get() % align, 0);
        assert!(arena.contains_raw(start.as_ptr(), 3));
        assert_eq!(arena.allocate_raw(0, align).expect("nothing needs no memory").addr().get() % align, 0);
    }
    for align in [0, 3, 8192] {
        assert_eq!(arena.allocate_raw(3, align).expect_err("no such alignment"), Status::InvalidArgs);
    }
}

#[test]
fn impossible_sizes_are_refused_and_cost_nothing() {
    for size in [usize::MAX, usize::MAX - 4096, isize::MAX as usize] {
        assert_eq!(Arena::try_with_capacity(size).expect_err("too much"), Status::NoMemory);
        assert_eq!(Arena::new().try_allocate(size).expect_err("too much"), Status::NoMemory);
        assert_eq!(Arena::new().allocate_raw(size, 4096).expect_err("too much"), Status::NoMemory);
    }
}

/// Shows CH-R79.
#[test]
fn the_tag_is_kept_and_shown() {
    let arena = Arena::with_tag(*b"disk");
    assert_eq!(arena.tag(), *b"disk");
    assert!(format!("{arena:?}").contains("disk"));
}

/// Shows RA-12.
#[test]
fn raw_parts_come_back_as_the_buffer_they_were() {
    let mut buffer = Arena::new().allocate(8);
    buffer.copy_from_slice(b"over and");
    let (arena, start, len) = buffer.into_raw_parts();
    let raw = arena.into_raw();
    // SAFETY: the address is the one of the line above, used once.
    let arena = unsafe { Arena::from_raw(raw) };
    // SAFETY: the parts are those of a buffer that was taken apart above.
    let mut buffer = unsafe { Buffer::from_raw_parts(arena, start, len) };
    assert_eq!(&*buffer, b"over and");
    buffer.truncate(100);
    assert_eq!(buffer.len(), 8);
    buffer.truncate(4);
    assert_eq!(&*buffer, b"over");
    let mut arena = buffer.into_arena();
    assert!(arena.try_reset(), "no reference was lost on the way");
}

/// Shows CH-R79, CH-R83.
#[test]
fn threads_share_an_arena_and_never_a_byte() {
    let arena = Arc::new(Arena::new());
    let threads: Vec<_> = (1..=3u8)
        .map(|mark| {
            let arena = Arc::clone(&arena);
            let body = move || {
                let fill = |len: usize| {
                    let mut buffer = arena.allocate(len);
                    buffer.fill(mark);
                    buffer
                };
                (0..2000).map(|n| fill(1 + n * 7 % 300)).collect::<Vec<_>>()
            };
            thread::spawn("allocating", body).expect("the system has threads")
        })
        .collect();
    for (thread, mark) in threads.into_iter().zip(1u8..) {
        let buffers = thread.join().expect("it did not panic");
        assert!(buffers.iter().all(|buffer| buffer.iter().all(|&byte| byte == mark)));
    }
    assert!(Arc::into_inner(arena).expect("the threads have ended").try_reset());
}

proptest! {
    /// Random allocations, drops and new starts: live ranges never overlap, keep what was written, and are contained.
    #[test]
    fn live_ranges_are_disjoint_and_keep_their_contents(
        capacity in 0usize..10_000,
        steps in proptest::collection::vec((0u8..10, 0usize..40_000, 0u32..13), 1..120),
    ) {
        let mut arena = Arena::with_capacity(capacity);
        let mut live: Vec<(Buffer, u8)> = Vec::new();
        for (mark, (step, len, log_align)) in (0u8..).cycle().zip(steps) {
            match step {
                0 => prop_assert_eq!(arena.try_reset(), live.is_empty()),
                1 | 2 => drop(live.pop()),
                3 => live.clear(),
                4 => {
                    let start = arena.allocate_raw(len, 1 << log_align).expect("there is memory");
                    prop_assert!(start.addr().get().is_multiple_of(1 << log_align));
                    prop_assert!(arena.contains_raw(start.as_ptr(), len));
                    let range = start.addr().get()..start.addr().get() + len;
                    for (buffer, _) in live.iter().filter(|(buffer, _)| len > 0 && !buffer.is_empty()) {
                        let apart = range.end <= address(buffer) || address(buffer) + buffer.len() <= range.start;
                        prop_assert!(apart);
                    }
                }
                _ => {
                    // Small ones more often than large ones.
                    let len = if step < 9 { len % 700 } else { len };
                    let mut buffer = arena.allocate(len);
                    prop_assert_eq!(buffer.len(), len);
                    buffer.fill(mark);
                    live.push((buffer, mark));
                }
            }
            for (buffer, mark) in &live {
                prop_assert!(buffer.iter().all(|byte| byte == mark));
                prop_assert!(arena.contains(buffer));
            }
        }
    }
}
