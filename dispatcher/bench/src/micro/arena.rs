//! Arenas: allocate and free, one large and many small, whose is an address.

use std::hint::black_box;

use fuchsine_dispatcher::{Arena, Buffer};

use super::{LONG, SHORT, ours, repeat};
use crate::sample::Sample;
use crate::workload::Workload;

/// Of larger ones fewer are made: the arena grows with each.
const SMALL: usize = 1_024;

fn allocate_and_free(size: usize) -> Sample {
    let arena = Arena::new();
    repeat(if size <= SMALL { SHORT } else { LONG }, || black_box(arena.allocate(size)).len() == size)
}

fn one_large_then_small(size: usize) -> Sample {
    let arena = Arena::new();
    repeat(LONG, || {
        let large = arena.allocate(size);
        let small: [Buffer; 50] = std::array::from_fn(|_| arena.allocate(32));
        black_box(&small);
        large.len() == size
    })
}

fn contains(blocks: usize) -> Sample {
    let arena = Arena::new();
    let held: Vec<Buffer> = (0..blocks).map(|_| arena.allocate(4_096)).collect();
    let mut around = held.iter().cycle();
    repeat(SHORT, || around.next().is_some_and(|buffer| arena.contains(black_box(buffer))))
}

pub(super) fn workloads() -> Vec<Workload> {
    let mut all = Vec::new();
    for size in [32, 64, 1_024, 8_192, 65_536] {
        let name = format!("Arena/AllocFree/{size}bytes");
        all.push(ours(name, format!("allocate {size} bytes of an arena and give them back"), move || {
            allocate_and_free(size)
        }));
    }
    for size in [4_096, 8_192, 16_384, 32_768, 65_536] {
        let name = format!("Arena/AllocLargeThenSmall/{size}bytes");
        let what = format!("allocate {size} bytes of an arena, then fifty times 32");
        all.push(ours(name, what, move || one_large_then_small(size)));
    }
    for blocks in [1, 4, 16, 32, 1_024] {
        let name = format!("Arena/Contains/{blocks}blocks");
        let what = format!("ask an arena of which {blocks} times 4 KiB are in use whether an address is of it");
        all.push(ours(name, what, move || contains(blocks)));
    }
    all
}
