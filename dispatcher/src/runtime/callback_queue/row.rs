//! The row: what was posted and can be named by nobody, one behind the other in the order of the posts.
//!
//! Most callbacks are tasks whose poster keeps no handle. Such a task needs no place in the table, which is there so that
//! an operation can be found, moved and taken out by its id: it stands in the row until its turn comes. It is listed like
//! everything else.
//!
//! What stands in the row is told `Ok` while the dispatcher runs and `Canceled` once it shuts down; it has no outcome of its own.

use std::collections::VecDeque;
use std::panic::Location;

use super::{Callback, Flavour, Kind, Poster};
use crate::site::Site;
use crate::time::Instant;

/// How much room a row keeps when it has become short.
pub(crate) const KEPT: usize = 256;

/// The number of the first that ever entered: what goes back to the front must not need a number below 0.
const NUMBERED_FROM: u64 = 64;

/// Something that was posted.
///
/// All of it is whole words, and none of them has more values to spare than a pointer has: it is written and moved in words, and
/// no `Option` of it has its mark in the midst of one. A processor has to wait where it reads in one piece what has just been
/// written in several, which costs as much as fifty instructions.
#[derive(Debug)]
pub(crate) struct Posted {
    pub(crate) callback: Callback,
    pub(crate) location: Site,
    pub(crate) poster: Poster,
    pub(crate) accepted_at: Instant,
    pub(crate) manner: Manner,
}

impl Posted {
    /// What is put there first where a task is to be made in its place.
    pub(crate) const BLANK: Posted = Posted {
        callback: Callback::spent(),
        location: Site::at(Location::caller()),
        poster: Poster::NOBODY,
        accepted_at: Instant::from_nanos(0),
        manner: Manner::PLAIN,
    };

    /// Says from where, by whom and when it was posted, and what it is.
    #[inline(always)]
    pub(crate) fn sign(&mut self, location: Site, poster: Poster, accepted_at: Instant, manner: Manner) {
        self.location = location;
        self.poster = poster;
        self.accepted_at = accepted_at;
        self.manner = manner;
    }
}

/// What something in the row is, and how it behaves while the driver is suspended, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Manner(u64);

impl Manner {
    /// A task that a suspend parks, like nearly all.
    pub(crate) const PLAIN: Manner = Manner::task(Flavour::REGULAR);
    const WAKE: u64 = 1 << 32;

    /// A task.
    pub(crate) const fn task(flavour: Flavour) -> Manner {
        Manner(flavour.to_bits() as u64)
    }

    /// The wake of a future.
    pub(crate) const fn wake(flavour: Flavour) -> Manner {
        Manner(flavour.to_bits() as u64 | Manner::WAKE)
    }

    pub(crate) fn kind(self) -> Kind {
        if self.0 & Manner::WAKE == 0 { Kind::Task } else { Kind::Wake }
    }

    pub(crate) fn flavour(self) -> Flavour {
        Flavour::of_bits(self.0 as u32)
    }
}

/// What was posted, oldest first.
#[derive(Debug)]
pub(crate) struct Row {
    posted: VecDeque<Posted>,
    /// The number of the one that leaves it next; that many have left it, or stood on trays only.
    left: u64,
}

impl Row {
    pub(super) const fn new() -> Self {
        Row { posted: VecDeque::new(), left: NUMBERED_FROM }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, posted: Posted) {
        self.posted.push_back(posted);
    }

    /// Puts all of `posted` at the end. What is left there is room, for those that come next.
    pub(super) fn append(&mut self, posted: &mut VecDeque<Posted>) {
        // Room alone is not exchanged: whoever has just given its own back would get that of the other.
        if posted.is_empty() {
            return;
        }
        match self.posted.is_empty() {
            true => std::mem::swap(&mut self.posted, posted),
            false => self.posted.append(posted),
        }
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<Posted> {
        // What is alone is taken from the end, as that does not move the front: the next one is put where this one lay, which is in
        // a cache. The memory of a row has room for four at least, and a row that moved on would use all of it.
        let posted = if self.posted.len() == 1 { self.posted.pop_back() } else { self.posted.pop_front() };
        let posted = posted?;
        self.left += 1;
        Some(posted)
    }

    /// Puts something back that has left it.
    pub(super) fn push_front(&mut self, posted: Posted) {
        self.posted.push_front(posted);
        self.left -= 1;
    }

    /// Counts some as having entered and left.
    pub(super) fn skip(&mut self, count: u64) {
        self.left += count;
    }

    pub(super) fn oldest(&self) -> Option<&Posted> {
        self.posted.front()
    }

    pub(super) fn newest(&self) -> Option<&Posted> {
        self.posted.back()
    }

    #[inline(always)]
    pub(super) fn newest_mut(&mut self) -> Option<&mut Posted> {
        self.posted.back_mut()
    }

    /// How many have left the row since it was made.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// How many have entered it since it was made.
    pub(super) fn entered(&self) -> u64 {
        self.left + self.posted.len() as u64
    }

    pub(super) fn len(&self) -> usize {
        self.posted.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.posted.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Posted> + '_ {
        self.posted.iter()
    }

    /// How many it has room for.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.posted.capacity()
    }

    /// Gives the memory of a burst back once most of it is gone.
    pub(super) fn trim(&mut self) {
        if self.posted.capacity() > KEPT && self.posted.len() < self.posted.capacity() / 4 {
            self.posted.shrink_to((self.posted.len() * 2).max(KEPT));
        }
    }
}
