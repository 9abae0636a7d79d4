//! The row: what was posted and can be named by nobody, one behind the other in the order of the posts.
//!
//! Most callbacks are tasks whose poster keeps no handle. Such a task needs no place in the table, which is there so that
//! an operation can be found, moved and taken out by its id: it stands in the row until its turn comes. It is listed like
//! everything else.
//!
//! What stands in the row is told `Ok` while the dispatcher runs and `Canceled` once it shuts down; it has no outcome of its own.
//!
//! A few stand in one ring. From [`KEPT`] on they stand in [`Blocks`], and so does what an inbox hands over.

use std::collections::VecDeque;
use std::mem;

use super::blocks::Blocks;
use super::{Callback, Flavour, Kind, Poster};
use crate::site::Site;
use crate::time::Instant;

/// How much room a row keeps when it has become short. In tests a few are many.
pub(crate) const KEPT: usize = if cfg!(any(test, loom, shuttle)) { 8 } else { 256 };

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
    /// What is put there where a task is to be made in its place: all but its callback.
    #[inline(always)]
    pub(crate) const fn signed(location: Site, poster: Poster, accepted_at: Instant, manner: Manner) -> Posted {
        Posted { callback: Callback::spent(), location, poster, accepted_at, manner }
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
    posted: Standing,
    /// The number of the one that leaves it next; that many have left it, or stood on trays only.
    left: u64,
}

/// Where they stand.
#[derive(Debug)]
enum Standing {
    Few(VecDeque<Posted>),
    Many(Box<Many>),
}

/// More than a few, or such as an inbox has handed over.
#[derive(Debug)]
struct Many {
    /// Those that come first; it is empty only if the rest is.
    front: VecDeque<Posted>,
    rest: Blocks,
}

impl Many {
    fn is_empty(&self) -> bool {
        self.front.is_empty()
    }

    /// Nothing is left in front: the next block comes there.
    fn advance(&mut self) {
        if let Some(block) = self.rest.take_first() {
            self.rest.reuse(mem::replace(&mut self.front, block));
        }
    }
}

impl Row {
    pub(super) const fn new() -> Self {
        Row { posted: Standing::Few(VecDeque::new()), left: NUMBERED_FROM }
    }

    /// Puts it at the end. The answer: how many stand there now.
    #[inline(always)]
    pub(super) fn push(&mut self, posted: Posted) -> usize {
        match &mut self.posted {
            Standing::Few(few) if few.len() < KEPT => {
                few.push_back(posted);
                few.len()
            }
            _ => {
                let (place, count) = self.end_of_many();
                place.push_back(posted);
                count
            }
        }
    }

    /// Where the next one stands behind many others, and how many there are then.
    fn end_of_many(&mut self) -> (&mut VecDeque<Posted>, usize) {
        let many = self.many();
        let count = many.front.len() + many.rest.len() + 1;
        match many.rest.is_empty() && many.front.len() < many.front.capacity() {
            true => (&mut many.front, count),
            false => (many.rest.end(), count),
        }
    }

    /// Puts all of `posted` at the end. What is left there is room, for those that come next.
    pub(super) fn append(&mut self, posted: &mut Blocks) {
        // Room alone is not exchanged: whoever has just given its own back would get that of the other.
        if posted.is_empty() {
            return;
        }
        let many = self.many();
        many.rest.append(posted);
        if many.front.is_empty() {
            many.advance();
        }
    }

    /// The row as one of many.
    #[inline(always)]
    fn many(&mut self) -> &mut Many {
        if let Standing::Few(_) = &self.posted {
            self.begin_many();
        }
        match &mut self.posted {
            Standing::Many(many) => many,
            Standing::Few(_) => unreachable!("it has just become one of many"),
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_many(&mut self) {
        let front = mem::take(self.front_mut());
        self.posted = Standing::Many(Box::new(Many { front, rest: Blocks::default() }));
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<Posted> {
        let posted = self.front_mut().pop_front()?;
        self.left += 1;
        self.advance();
        Some(posted)
    }

    #[inline(always)]
    fn advance(&mut self) {
        if let Standing::Many(many) = &mut self.posted
            && many.front.is_empty()
        {
            many.advance();
        }
    }

    /// Takes it out if it is one alone, from the end, as that does not move the front: the next one is put where this one lay, which
    /// is in a cache. The memory of a row has room for four at least, and a row that moved on would use all of it.
    #[inline(always)]
    pub(super) fn pop_alone(&mut self) -> Option<Posted> {
        let front = match &mut self.posted {
            Standing::Few(few) => few,
            Standing::Many(many) if many.rest.is_empty() => &mut many.front,
            Standing::Many(_) => return None,
        };
        if front.len() != 1 {
            return None;
        }
        self.left += 1;
        front.pop_back()
    }

    /// Puts something back that has left it.
    pub(super) fn push_front(&mut self, posted: Posted) {
        self.front_mut().push_front(posted);
        self.left -= 1;
    }

    #[inline(always)]
    fn front_mut(&mut self) -> &mut VecDeque<Posted> {
        match &mut self.posted {
            Standing::Few(few) => few,
            Standing::Many(many) => &mut many.front,
        }
    }

    #[inline(always)]
    fn front(&self) -> &VecDeque<Posted> {
        match &self.posted {
            Standing::Few(few) => few,
            Standing::Many(many) => &many.front,
        }
    }

    /// Those that stand behind the front.
    #[inline(always)]
    fn rest(&self) -> Option<&Blocks> {
        match &self.posted {
            Standing::Few(_) => None,
            Standing::Many(many) => Some(&many.rest),
        }
    }

    /// Counts some as having entered and left.
    pub(super) fn skip(&mut self, count: u64) {
        self.left += count;
    }

    #[inline(always)]
    pub(super) fn oldest(&self) -> Option<&Posted> {
        self.front().front()
    }

    pub(super) fn newest(&self) -> Option<&Posted> {
        self.rest().and_then(Blocks::newest).or_else(|| self.front().back())
    }

    #[inline(always)]
    pub(super) fn newest_mut(&mut self) -> Option<&mut Posted> {
        match &mut self.posted {
            Standing::Few(few) => few.back_mut(),
            Standing::Many(many) => match many.rest.is_empty() {
                true => many.front.back_mut(),
                false => many.rest.newest_mut(),
            },
        }
    }

    /// How many have left the row since it was made.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// How many have entered it since it was made.
    pub(super) fn entered(&self) -> u64 {
        self.left + self.len() as u64
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.front().len() + self.rest().map_or(0, Blocks::len)
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.front().is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Posted> + '_ {
        self.front().iter().chain(self.rest().into_iter().flat_map(Blocks::iter))
    }

    /// How many it has room for.
    #[cfg(test)]
    pub(super) fn room(&self) -> usize {
        self.front().capacity() + self.rest().map_or(0, Blocks::room)
    }

    /// Gives the memory of a burst back once it is gone. While an inbox is open, it may be needed again at any moment.
    #[inline(always)]
    pub(super) fn trim(&mut self, is_inbox_open: bool) {
        match &mut self.posted {
            Standing::Few(few) if few.capacity() <= KEPT => {}
            Standing::Many(_) if is_inbox_open => {}
            _ => self.trim_more(),
        }
    }

    #[inline(never)]
    fn trim_more(&mut self) {
        match &mut self.posted {
            Standing::Few(few) if few.len() < few.capacity() / 4 => few.shrink_to((few.len() * 2).max(KEPT)),
            // Not one of its blocks is kept: the allocator gives back what lies below a block only when that block is free.
            Standing::Many(many) if many.is_empty() => self.posted = Standing::Few(VecDeque::new()),
            _ => {}
        }
    }
}
