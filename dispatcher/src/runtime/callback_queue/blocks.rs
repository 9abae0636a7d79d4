//! `Blocks`: much that was posted, oldest first, in blocks of a fixed size which are used again.
//!
//! One ring for all would be grown by copying it, and each time that it grew would lie in memory that the system has to make
//! first; that takes longer than all else that is done with what lies there. Here nothing moves that has been put in, what was
//! taken out of a block leaves it to be used again, and to hand all of it over is to hand over the list of the blocks.
//!
//! What goes deep stands in *deep* blocks from there on. They are so large that the allocator maps each by itself, so that its memory goes
//! back to the system with it. Memory of small ones goes back only if nothing lies above them that is still in use, which is luck.
//!
//! # Invariants
//! - No block among `filled` is empty.
//! - A block has room for [`PLACES`] or [`DEEP_PLACES`] and never grows.

use std::collections::VecDeque;
use std::mem;

use super::{Manner, Posted, Poster};
use crate::site::Site;
use crate::time::Instant;

/// How many stand in a block. In tests a few are many.
const PLACES: usize = if cfg!(any(test, loom, shuttle)) { 4 } else { 64 };
/// How many stand in small blocks.
pub(super) const DEEP: usize = 64 * PLACES;
/// How many stand in a deep block: more than the 32 MiB up to which an allocator may take memory that it has at hand.
const DEEP_PLACES: usize = if cfg!(any(test, loom, shuttle)) { 32 } else { 34 * 1024 * 1024 / size_of::<Posted>() };
/// How many empty deep blocks are kept at most, while one flood after the other is deep.
const DEEP_KEPT: usize = 2;
/// How many empty small blocks are kept as long as there is something.
const FEW: usize = 4;
/// How many empty blocks that are too many are given back at a time.
const AT_A_TIME: usize = 16;

/// What the system makes memory in, or less.
const PAGE: usize = 4096;

/// An empty block whose memory the system has made.
///
/// A page that was never written before is made when it is, which takes longer than many posts. So this is done without a
/// lock that others wait for.
pub(crate) fn new_block() -> VecDeque<Posted> {
    let mut block = Vec::with_capacity(PLACES);
    block.spare_capacity_mut().iter_mut().step_by(PAGE / size_of::<Posted>()).for_each(|place| {
        place.write(Posted::signed(Site::caller(), Poster::NOBODY, Instant::from_nanos(0), Manner::PLAIN));
    });
    VecDeque::from(block)
}

/// Much that was posted.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    filled: VecDeque<VecDeque<Posted>>,
    len: usize,
    /// Blocks that are empty.
    spare: Vec<VecDeque<Posted>>,
    /// Deep ones that are empty.
    deep_spare: Vec<VecDeque<Posted>>,
    /// How many blocks were handed over of late: so many small ones are worth keeping.
    keeps: usize,
}

impl Blocks {
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Puts it at the end.
    #[inline(always)]
    pub(crate) fn push(&mut self, posted: Posted) {
        self.end().push_back(posted);
    }

    /// Where the next one is to be put, which is counted already.
    #[inline(always)]
    pub(super) fn end(&mut self) -> &mut VecDeque<Posted> {
        self.len += 1;
        if self.filled.back().is_none_or(|block| block.len() == block.capacity()) {
            self.begin_block();
        }
        self.filled.back_mut().expect("a block has been begun")
    }

    #[inline(never)]
    fn begin_block(&mut self) {
        let (spare, places) =
            if self.len > DEEP { (&mut self.deep_spare, DEEP_PLACES) } else { (&mut self.spare, PLACES) };
        let block = spare.pop().unwrap_or_else(|| VecDeque::with_capacity(places));
        self.filled.push_back(block);
    }

    /// Whether a block has been begun for which there was no spare one, and much is here already, so that the next one is
    /// soon missed as well.
    #[inline(always)]
    pub(crate) fn is_short(&self) -> bool {
        self.spare.is_empty()
            && (FEW * PLACES..DEEP).contains(&self.len)
            && self.filled.back().is_some_and(|last| last.len() == 1)
    }

    /// Takes a block from [`new_block`] for later.
    pub(crate) fn give(&mut self, block: VecDeque<Posted>) {
        self.spare.push(block);
    }

    /// Takes the first block out.
    pub(crate) fn take_first(&mut self) -> Option<VecDeque<Posted>> {
        let block = self.filled.pop_front()?;
        self.len -= block.len();
        Some(block)
    }

    /// Keeps an empty block, if it is one and another is worth keeping.
    pub(crate) fn reuse(&mut self, block: VecDeque<Posted>) {
        match block.capacity() {
            PLACES if self.spare.len() < self.keeps.max(FEW) => self.spare.push(block),
            DEEP_PLACES if self.is_deep_of_late() && self.deep_spare.len() < DEEP_KEPT => self.deep_spare.push(block),
            _ => {}
        }
    }

    /// Whether as much was handed over of late as needs deep blocks.
    fn is_deep_of_late(&self) -> bool {
        self.keeps > DEEP / PLACES
    }

    /// Puts all of `newer` at the end. What has become empty here is left there: as much is going to be needed again.
    pub(crate) fn append(&mut self, newer: &mut Blocks) {
        self.keeps = newer.filled.len().max(self.keeps / 2);
        self.len += mem::take(&mut newer.len);
        match self.filled.back_mut() {
            None => mem::swap(&mut self.filled, &mut newer.filled),
            Some(last) => {
                // Many blocks with little in each would be more room than what is there needs.
                while let Some(mut next) = newer.filled.pop_front_if(|next| last.len() + next.len() <= PLACES) {
                    last.append(&mut next);
                    if next.capacity() == PLACES {
                        newer.spare.push(next);
                    }
                }
                self.filled.append(&mut newer.filled);
            }
        }
        newer.deep_spare.append(&mut self.deep_spare);
        newer.deep_spare.truncate(if self.is_deep_of_late() { DEEP_KEPT } else { 0 });
        newer.spare.append(&mut self.spare);
        let too_many = newer.spare.len().saturating_sub(self.keeps.max(FEW));
        newer.spare.truncate(newer.spare.len() - too_many.min(AT_A_TIME));
    }

    /// Gives back what is not needed while there is nothing here.
    pub(crate) fn trim(&mut self) {
        self.spare = Vec::new();
        self.deep_spare = Vec::new();
        self.filled = VecDeque::new();
    }

    pub(crate) fn newest(&self) -> Option<&Posted> {
        self.filled.back()?.back()
    }

    #[inline(always)]
    pub(crate) fn newest_mut(&mut self) -> Option<&mut Posted> {
        self.filled.back_mut()?.back_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Posted> + '_ {
        self.filled.iter().flatten()
    }

    /// How many there is room for.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.filled.iter().chain(&self.spare).chain(&self.deep_spare).map(VecDeque::capacity).sum()
    }
}
