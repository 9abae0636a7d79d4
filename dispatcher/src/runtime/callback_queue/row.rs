//! The row: what was posted and can be named by nobody, one behind the other in the order of the posts.
//!
//! Most callbacks are tasks whose poster keeps no handle. Such a task needs no place in the table, which is there so that
//! an operation can be found, moved and taken out by its id: it stands in the row until its turn comes. It is listed like
//! everything else.
//!
//! What stands in the row is told `Ok` while the dispatcher runs and `Canceled` once it shuts down; it has no outcome of its own.

use std::collections::VecDeque;

use super::{Callback, Flavour, Kind, Poster};
use crate::site::Site;
use crate::time::Instant;

/// How much room a row keeps when it has become short.
pub(crate) const KEPT: usize = 256;

/// The number of the first that ever entered: what goes back to the front must not need a number below 0.
const NUMBERED_FROM: u64 = 64;

/// Something that was posted.
#[derive(Debug)]
pub(crate) struct Posted {
    pub(crate) callback: Callback,
    pub(crate) location: Site,
    pub(crate) poster: Poster,
    pub(crate) accepted_at: Instant,
    pub(crate) flavour: Flavour,
    pub(crate) kind: Kind,
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
        let posted = self.posted.pop_front()?;
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
