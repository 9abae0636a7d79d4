//! The callbacks that a dispatcher has accepted and not yet ended, in one table.
//!
//! Each accepted callback is one *operation*: an entry of the table from the moment it is accepted until its one end.
//! An operation ends by leaving the table, which happens under the dispatcher's lock; whoever takes it out owns the
//! callback and is the only one who may call it or hand it back. That is how *exactly once* is kept.
//!
//! An entry stands in exactly one list, its [`Stage`]: the FIFO of what is ready, or the list of what is still armed by
//! kind. Lists are linked through the entries, so every move and every cancel is O(1), and all of it can be listed.
//!
//! Tasks that nobody has a handle to, and wakes, do not enter the table: they are ready from the beginning and stand in
//! the [`Row`] until they leave. What is ready is the row and the ready list together, in one order: an entry of the list
//! knows behind how many of the row it stands.
//!
//! # Invariants
//! - Every occupied slot is linked in the list of its stage, and `filled` is the number of occupied slots.
//! - Along the ready list `behind` never falls, and it is at most the number of those that have entered the row.
//! - The generation of a slot changes whenever an entry leaves it, so an [`OpId`] names at most one operation ever.

mod callback;
mod kind;
mod row;

#[cfg(test)]
pub(crate) use callback::WithOutcome;
pub(crate) use callback::{Callback, Invoke, Outcome, TypeNameOf};
pub use kind::Kind;
pub(crate) use kind::Stage;
use row::Row;
pub(crate) use row::{KEPT, Posted};

use std::collections::VecDeque;
use std::panic::Location;

use super::flavour::Flavour;
use crate::event_loop::{TimerId, WaitId};
use crate::time::Instant;

/// How many bits of an [`OpId`] are the index of its slot; the rest is the slot's generation.
const INDEX_BITS: u32 = 28;
const GENERATION_MASK: u64 = (u64::MAX >> 1) >> INDEX_BITS;
/// Set in what names an operation of the row.
const OF_ROW: u64 = 1 << 63;

/// The name of one operation, valid for one dispatcher. One of the row can be told from others by it, and not be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct OpId(u64);

impl OpId {
    fn new(index: u32, generation: u64) -> Self {
        OpId((generation & GENERATION_MASK) << INDEX_BITS | u64::from(index))
    }

    /// The one that entered the row after so many others.
    fn of_row(number: u64) -> Self {
        OpId(OF_ROW | number)
    }

    fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }

    fn generation(self) -> u64 {
        self.0 >> INDEX_BITS
    }

    /// The id as the key that a timer or a wait carries.
    pub(crate) fn as_key(self) -> u64 {
        self.0
    }

    /// The id that a timer or a wait carried.
    pub(crate) fn from_key(key: u64) -> Self {
        OpId(key)
    }
}

const STAGES: usize = Stage::ALL.len();

/// What has to be taken back outside of the table when an operation ends early.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EventSource {
    /// Nothing: the table is all there is.
    None,
    /// An armed timer.
    Timer(TimerId),
    /// An armed wait.
    Wait(WaitId),
}

/// Who posted an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Poster {
    /// The driver on top of the poster's call stack, 0 for none.
    pub(crate) driver: u64,
    /// The dispatcher that was current, 0 for none.
    pub(crate) dispatcher: u64,
}

impl Poster {
    /// A thread that is inside of nothing.
    pub(crate) const NOBODY: Poster = Poster { driver: 0, dispatcher: 0 };
}

/// One operation: the part that leaves the table when it ends. Kept small, because it is moved.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) callback: Callback,
    pub(crate) kind: Kind,
    pub(crate) flavour: Flavour,
    pub(crate) outcome: Outcome,
}

/// What is known of an operation besides: it is written in place, and only looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Details {
    pub(crate) deadline: Instant,
    pub(crate) source: EventSource,
    pub(crate) poster: Poster,
    pub(crate) location: &'static Location<'static>,
    pub(crate) accepted_at: Instant,
}

/// What is known of something that has been taken out, to be called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) id: OpId,
    pub(crate) kind: Kind,
    pub(crate) flavour: Flavour,
    pub(crate) location: &'static Location<'static>,
    pub(crate) outcome: Outcome,
}

/// What is known of something that is pending, for those who look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    pub(crate) kind: Kind,
    pub(crate) type_name: TypeNameOf,
    pub(crate) location: &'static Location<'static>,
    pub(crate) poster: Poster,
    pub(crate) accepted_at: Instant,
}

#[derive(Debug)]
struct Slot {
    generation: u64,
    /// Of one that is ready: how many of the row come before it, counted from the first that ever was.
    behind: u64,
    /// What tests are told of it as: its own id, or what it had in the row.
    noted_as: OpId,
    stage: Stage,
    previous: u32,
    next: u32,
    entry: Option<Entry>,
    details: Details,
}

const NONE: u32 = u32::MAX;

/// How many slots stay when the table has run empty.
const KEPT_SLOTS: usize = 1024;

#[derive(Debug, Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl List {
    const EMPTY: List = List { head: NONE, tail: NONE, len: 0 };
}

/// All operations of a dispatcher.
#[derive(Debug)]
pub(crate) struct CallbackQueue {
    slots: Vec<Slot>,
    free: u32,
    filled: usize,
    /// The generation of a slot that is made anew: above all that were ever used.
    first_generation: u64,
    lists: [List; STAGES],
    row: Row,
    /// What those of the row are told.
    row_outcome: Outcome,
    /// How often an operation of the table has become ready.
    readied: u64,
    /// The most that were ever ready at once.
    longest: usize,
}

impl CallbackQueue {
    pub(crate) const fn new() -> Self {
        CallbackQueue {
            slots: Vec::new(),
            free: NONE,
            filled: 0,
            first_generation: 1,
            lists: [List::EMPTY; STAGES],
            row: Row::new(),
            row_outcome: Outcome::Done(0),
            readied: 0,
            longest: 0,
        }
    }

    /// Puts an operation at the end of the list of `stage`.
    ///
    /// Part of its caller, so that an operation is made where it is going to lie.
    #[inline(always)]
    pub(crate) fn insert(&mut self, entry: Entry, details: Details, stage: Stage) -> OpId {
        if self.free == NONE {
            self.add_slot(&details);
        }
        let index = self.free;
        let slot = &mut self.slots[index as usize];
        self.free = slot.next;
        slot.entry = Some(entry);
        slot.details = details;
        let id = OpId::new(index, slot.generation);
        slot.noted_as = id;
        self.filled += 1;
        self.link(index, stage);
        id
    }

    /// Makes a slot that is free.
    #[cold]
    fn add_slot(&mut self, details: &Details) {
        assert!(self.slots.len() < 1 << INDEX_BITS, "a dispatcher holds fewer than 2^28 pending callbacks");
        let index = self.slots.len() as u32;
        if self.slots.is_empty() {
            // Of many dispatchers most never hold more than a wait.
            self.slots.reserve_exact(1);
        }
        self.slots.push(Slot {
            generation: self.first_generation,
            behind: 0,
            noted_as: OpId::new(index, self.first_generation),
            stage: Stage::Ready,
            previous: NONE,
            next: self.free,
            entry: None,
            details: *details,
        });
        self.free = index;
    }

    /// Puts something that is ready at the end of the row. The answer is only to be told of.
    #[inline(always)]
    pub(crate) fn push(&mut self, posted: Posted) -> OpId {
        let id = OpId::of_row(self.row.entered());
        self.row.push(posted);
        self.note_length();
        id
    }

    /// What entered the row last, and what it is told.
    pub(crate) fn newest_of_row(&self) -> Option<(&Posted, Outcome)> {
        self.row.newest().map(|posted| (posted, self.row_outcome))
    }

    /// Puts all of these at the end of the row.
    pub(crate) fn append(&mut self, posted: &mut VecDeque<Posted>) {
        self.row.append(posted);
        self.note_length();
    }

    /// Puts something that was posted into the table instead of the row.
    pub(crate) fn insert_posted(&mut self, posted: Posted, stage: Stage) -> OpId {
        let Posted { callback, location, poster, accepted_at, flavour, kind } = posted;
        let entry = Entry { callback, kind, flavour, outcome: self.row_outcome };
        let (deadline, source) = (Instant::INFINITE, EventSource::None);
        self.insert(entry, Details { deadline, source, poster, location, accepted_at }, stage)
    }

    /// What tests are told of an operation as.
    pub(crate) fn noted_as(&self, id: OpId) -> OpId {
        self.occupied(id).map_or(id, |index| self.slots[index as usize].noted_as)
    }

    /// All that stands in the row, and what enters it from now on, is told `Canceled`.
    pub(crate) fn cancel_row(&mut self) {
        self.row_outcome = Outcome::Canceled;
    }

    /// Moves what stands in the row into the table, in the order that it has among what is ready there, so that each can be
    /// moved by its id.
    pub(crate) fn empty_row(&mut self) {
        if self.row.is_empty() {
            return;
        }
        let (readied, longest) = (self.readied, self.longest);
        let ready: Vec<_> = self.indexes(Stage::Ready).collect();
        let mut ready = ready.into_iter().peekable();
        self.lists[Stage::Ready as usize] = List::EMPTY;
        loop {
            while let Some(index) = ready.next_if(|&index| self.slots[index as usize].behind <= self.row.left()) {
                self.link(index, Stage::Ready);
            }
            let noted_as = OpId::of_row(self.row.left());
            let Some(posted) = self.row.pop() else { break };
            let id = self.insert_posted(posted, Stage::Ready);
            self.slots[id.index()].noted_as = noted_as;
        }
        // None of them became ready by this.
        (self.readied, self.longest) = (readied, longest);
    }

    /// The stage of an operation, `None` when it has ended.
    pub(crate) fn stage(&self, id: OpId) -> Option<Stage> {
        self.occupied(id).map(|index| self.slots[index as usize].stage)
    }

    /// The entry of an operation that has not ended.
    pub(crate) fn entry_mut(&mut self, id: OpId) -> Option<&mut Entry> {
        let index = self.occupied(id)?;
        self.slots[index as usize].entry.as_mut()
    }

    /// An operation that has not ended, to be looked at.
    pub(crate) fn look(&self, id: OpId) -> Option<(&Entry, &Details)> {
        let slot = &self.slots[self.occupied(id)? as usize];
        slot.entry.as_ref().map(|entry| (entry, &slot.details))
    }

    /// The type and the line of an operation that has not ended.
    pub(crate) fn origin(&self, id: OpId) -> Option<(TypeNameOf, &'static Location<'static>)> {
        let slot = &self.slots[self.occupied(id)? as usize];
        slot.entry.as_ref().map(|entry| (entry.callback.type_name_of(), slot.details.location))
    }

    /// The details of an operation that has not ended.
    pub(crate) fn details_mut(&mut self, id: OpId) -> Option<&mut Details> {
        let index = self.occupied(id)?;
        Some(&mut self.slots[index as usize].details)
    }

    /// Notes the outcome of an operation that has not ended. What it waited for is over, so the source of its event
    /// comes back, to be disarmed if that has not happened.
    pub(crate) fn decide(&mut self, id: OpId, outcome: Outcome) -> EventSource {
        let Some(index) = self.occupied(id) else { return EventSource::None };
        let slot = &mut self.slots[index as usize];
        if let Some(entry) = &mut slot.entry {
            entry.outcome = outcome;
        }
        std::mem::replace(&mut slot.details.source, EventSource::None)
    }

    /// Moves an operation to the end of the list of `stage`; false when it has ended.
    pub(crate) fn move_to(&mut self, id: OpId, stage: Stage) -> bool {
        let Some(index) = self.occupied(id) else { return false };
        self.unlink(index);
        self.link(index, stage);
        true
    }

    /// Moves all operations of one stage to the front of the list of another, in their order.
    pub(crate) fn move_all_to_front(&mut self, from: Stage, to: Stage) {
        let moved = std::mem::replace(&mut self.lists[from as usize], List::EMPTY);
        if moved.head == NONE {
            return;
        }
        let mut index = moved.head;
        while index != NONE {
            let slot = &mut self.slots[index as usize];
            slot.stage = to;
            slot.behind = 0;
            index = slot.next;
        }
        self.lists[to as usize].len += moved.len;
        if to == Stage::Ready {
            self.readied += u64::from(moved.len);
            self.note_length();
        }
        let old_head = std::mem::replace(&mut self.lists[to as usize].head, moved.head);
        self.slots[moved.tail as usize].next = old_head;
        match old_head {
            NONE => self.lists[to as usize].tail = moved.tail,
            old_head => self.slots[old_head as usize].previous = moved.tail,
        }
    }

    /// Takes an operation out, which ends it; `None` when it has ended already.
    #[inline]
    pub(crate) fn remove(&mut self, id: OpId) -> Option<(Entry, Details)> {
        let index = self.occupied(id)?;
        let details = self.slots[index as usize].details;
        self.take(index).map(|entry| (entry, details))
    }

    /// Takes out an operation that is about to be called. Not all of it moves, so it is asked for its details before.
    #[inline(always)]
    pub(crate) fn take_to_call(&mut self, id: OpId) -> Option<Entry> {
        let index = self.occupied(id)?;
        self.take(index)
    }

    /// Takes the operation out that has been ready for longest, and says which it was and where it was posted.
    pub(crate) fn pop_ready(&mut self) -> Option<(OpId, Entry, &'static Location<'static>)> {
        if let Some((id, Posted { callback, location, flavour, kind, .. })) = self.pop_posted() {
            return Some((id, Entry { callback, kind, flavour, outcome: self.row_outcome }, location));
        }
        match self.lists[Stage::Ready as usize].head {
            NONE => None,
            index => self.take_noted(index),
        }
    }

    fn take_noted(&mut self, index: u32) -> Option<(OpId, Entry, &'static Location<'static>)> {
        let slot = &self.slots[index as usize];
        let (id, location) = (slot.noted_as, slot.details.location);
        self.take(index).map(|entry| (id, entry, location))
    }

    /// Like [`pop_ready`](CallbackQueue::pop_ready), if that one stands in the row. It is told
    /// [`row_outcome`](CallbackQueue::row_outcome).
    #[inline(always)]
    pub(crate) fn pop_posted(&mut self) -> Option<(OpId, Posted)> {
        let head = self.lists[Stage::Ready as usize].head;
        if head != NONE && self.slots[head as usize].behind <= self.row.left() {
            return None;
        }
        let id = OpId::of_row(self.row.left());
        self.row.pop().map(|posted| (id, posted))
    }

    /// What those of the row are told.
    pub(crate) fn row_outcome(&self) -> Outcome {
        self.row_outcome
    }

    /// Like [`pop_ready`](CallbackQueue::pop_ready), for one that `nth` others have been ready for longer than.
    pub(crate) fn pop_nth_ready(&mut self, nth: usize) -> Option<(OpId, Entry, &'static Location<'static>)> {
        if nth == 0 {
            return self.pop_ready();
        }
        self.empty_row();
        let index = self.indexes(Stage::Ready).nth(nth)?;
        self.take_noted(index)
    }

    /// Whether nothing is ready.
    pub(crate) fn is_ready_empty(&self) -> bool {
        self.row.is_empty() && self.lists[Stage::Ready as usize].head == NONE
    }

    /// The operations of a stage that are in the table, first to last.
    pub(crate) fn ids(&self, stage: Stage) -> impl Iterator<Item = OpId> + '_ {
        self.indexes(stage).map(|index| OpId::new(index, self.slots[index as usize].generation))
    }

    /// What is pending in a stage, first to last.
    pub(crate) fn pending(&self, stage: Stage) -> impl Iterator<Item = Pending> + '_ {
        let mut table = self.indexes(stage).map(|index| &self.slots[index as usize]).peekable();
        let mut row = self.row.iter().take(if stage == Stage::Ready { usize::MAX } else { 0 });
        let mut left = self.row.left();
        std::iter::from_fn(move || {
            if table.peek().is_none_or(|slot| slot.behind > left)
                && let Some(Posted { callback, location, poster, accepted_at, kind, .. }) = row.next()
            {
                left += 1;
                let (type_name, location, poster) = (callback.type_name_of(), *location, *poster);
                return Some(Pending { kind: *kind, type_name, location, poster, accepted_at: *accepted_at });
            }
            let slot = table.next()?;
            let entry = slot.entry.as_ref()?;
            let (kind, type_name) = (entry.kind, entry.callback.type_name_of());
            let Details { poster, location, accepted_at, .. } = slot.details;
            Some(Pending { kind, type_name, location, poster, accepted_at })
        })
    }

    /// How many callbacks are pending, counted by walking every list. Wakes of futures are not callbacks.
    pub(crate) fn enumerate_pending(&self) -> u64 {
        let all = Stage::ALL.into_iter().flat_map(|stage| self.pending(stage));
        all.filter(|pending| pending.kind.is_callback()).count() as u64
    }

    /// How many operations stand in a stage.
    pub(crate) fn len_of(&self, stage: Stage) -> usize {
        let row = if stage == Stage::Ready { self.row.len() } else { 0 };
        self.lists[stage as usize].len as usize + row
    }

    /// The most operations that were ever ready at once.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// How often an operation has become ready: a number that stands still only while nothing does.
    pub(crate) fn readied(&self) -> u64 {
        self.readied + self.row.entered()
    }

    /// How many operations of all kinds there are.
    pub(crate) fn len(&self) -> usize {
        self.filled + self.row.len()
    }

    /// Gives memory back that a burst of posts has left.
    #[inline]
    pub(crate) fn trim(&mut self) {
        self.row.trim();
    }

    #[inline]
    fn note_length(&mut self) {
        self.longest = self.longest.max(self.len_of(Stage::Ready));
    }

    fn indexes(&self, stage: Stage) -> impl Iterator<Item = u32> + '_ {
        let first = self.lists[stage as usize].head;
        std::iter::successors((first != NONE).then_some(first), |&index| {
            let next = self.slots[index as usize].next;
            (next != NONE).then_some(next)
        })
    }

    #[inline]
    fn occupied(&self, id: OpId) -> Option<u32> {
        let slot = self.slots.get(id.index())?;
        (slot.generation == id.generation() && slot.entry.is_some()).then_some(id.index() as u32)
    }

    #[inline(always)]
    fn take(&mut self, index: u32) -> Option<Entry> {
        self.unlink(index);
        let free = self.free;
        let slot = &mut self.slots[index as usize];
        let entry = slot.entry.take();
        slot.generation = slot.generation.wrapping_add(1) & GENERATION_MASK;
        slot.next = free;
        self.free = index;
        self.filled -= 1;
        self.shrink_when_empty();
        entry
    }

    /// Gives the memory of a burst back once the table has run empty.
    #[inline]
    fn shrink_when_empty(&mut self) {
        if self.filled == 0 && self.slots.len() > KEPT_SLOTS {
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        // Ids must never repeat: a slot that is made anew later starts above every generation that was ever used.
        self.first_generation = self.slots.iter().map(|slot| slot.generation).max().unwrap_or(0) + 1;
        self.slots.truncate(KEPT_SLOTS);
        self.slots.shrink_to_fit();
        self.free = NONE;
        for index in (0..self.slots.len()).rev() {
            self.slots[index].next = self.free;
            self.free = index as u32;
        }
    }

    fn link(&mut self, index: u32, stage: Stage) {
        let tail = self.lists[stage as usize].tail;
        let behind = self.row.entered();
        let slot = &mut self.slots[index as usize];
        slot.stage = stage;
        slot.behind = behind;
        slot.previous = tail;
        slot.next = NONE;
        match tail {
            NONE => self.lists[stage as usize].head = index,
            tail => self.slots[tail as usize].next = index,
        }
        let list = &mut self.lists[stage as usize];
        list.tail = index;
        list.len += 1;
        if stage == Stage::Ready {
            self.readied += 1;
            self.note_length();
        }
    }

    fn unlink(&mut self, index: u32) {
        let Slot { stage, previous, next, .. } = self.slots[index as usize];
        match previous {
            NONE => self.lists[stage as usize].head = next,
            previous => self.slots[previous as usize].next = next,
        }
        match next {
            NONE => self.lists[stage as usize].tail = previous,
            next => self.slots[next as usize].previous = previous,
        }
        self.lists[stage as usize].len -= 1;
    }
}

#[cfg(test)]
mod tests;
