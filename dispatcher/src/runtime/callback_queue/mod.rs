//! The callbacks that a dispatcher has accepted and not yet ended, in one table.
//!
//! Each accepted callback is one *operation*: an entry of the [`Table`] from the moment it is accepted until its one end.
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
//! Those of the table stand in `table.rs`. Besides:
//! - Along the ready list `behind` never falls, and it is at most the number of those that have entered the row.

mod blocks;
mod callback;
mod kind;
mod own_tray;
mod row;
mod table;

pub(crate) use blocks::{Blocks, new_block};
#[cfg(test)]
pub(crate) use callback::WithOutcome;
pub(crate) use callback::{Callback, Invoke, Outcome, Stay, Then, TypeNameOf};
pub use kind::Kind;
pub(crate) use kind::Stage;
use own_tray::Out;
pub(crate) use own_tray::{AtWork, LOOKS_FIRST, Label, OwnTray, Progress, STANDS_BEHIND, with_free, with_lent};
#[cfg(all(test, not(any(loom, shuttle))))]
use row::KEPT;
use row::Row;
pub(crate) use row::{Manner, Posted};
use table::{Slot, Table};

use super::flavour::Flavour;
use crate::event_loop::{TimerId, WaitId};
use crate::site::Site;
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
    pub(crate) location: Site,
    pub(crate) accepted_at: Instant,
}

/// What is known of something that has been taken out, to be called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) id: OpId,
    pub(crate) kind: Kind,
    pub(crate) flavour: Flavour,
    pub(crate) location: Site,
    pub(crate) outcome: Outcome,
}

/// What is known of something that is pending, for those who look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    pub(crate) kind: Kind,
    pub(crate) type_name: TypeNameOf,
    pub(crate) location: Site,
    pub(crate) poster: Poster,
    pub(crate) accepted_at: Instant,
}

/// All operations of a dispatcher.
#[derive(Debug)]
pub(crate) struct CallbackQueue {
    /// Made with the first operation that does not stand in the row: of many dispatchers most never have one.
    table: Option<Box<Table>>,
    row: Row,
    /// What comes before all that, if a thread has taken it out to call it.
    out: Option<Out>,
    /// The most that were ever ready at once, as far as that can be told by this number.
    longest: u32,
    /// Whether those of the row are told `Canceled`.
    row_is_canceled: bool,
}

impl CallbackQueue {
    pub(crate) const fn new() -> Self {
        CallbackQueue { table: None, row: Row::new(), out: None, longest: 0, row_is_canceled: false }
    }

    /// Puts an operation at the end of the list of `stage`.
    ///
    /// Part of its caller, so that an operation is made where it is going to lie.
    #[inline(always)]
    pub(crate) fn insert(&mut self, entry: Entry, details: Details, stage: Stage) -> OpId {
        let table = match &mut self.table {
            Some(table) => table,
            none => Table::make(none),
        };
        let id = table.insert(entry, details, stage, self.row.entered());
        if stage == Stage::Ready {
            self.note_length();
        }
        id
    }

    /// Puts something that is ready at the end of the row. The answer is only to be told of.
    #[inline(always)]
    pub(crate) fn push(&mut self, posted: Posted) -> OpId {
        let left = self.row.left();
        let count = self.row.push(posted);
        self.note_length_with(count);
        OpId::of_row(left + count as u64 - 1)
    }

    /// Something enters the row and leaves it in one step, while nothing else is ready. The answer is only to be told of.
    #[inline(always)]
    pub(crate) fn pass_through(&mut self) -> OpId {
        let id = OpId::of_row(self.row.entered());
        self.row.skip(1);
        self.longest = self.longest.max(1);
        id
    }

    /// What entered the row last.
    #[inline(always)]
    pub(crate) fn newest_mut(&mut self) -> Option<&mut Posted> {
        self.row.newest_mut()
    }

    /// The name of what entered the row last.
    pub(crate) fn newest_id(&self) -> OpId {
        OpId::of_row(self.row.entered() - 1)
    }

    /// What entered the row last, and what it is told.
    pub(crate) fn newest_of_row(&self) -> Option<(&Posted, Outcome)> {
        self.row.newest().map(|posted| (posted, self.row_outcome()))
    }

    /// Puts all of these at the end of the row.
    pub(crate) fn append(&mut self, posted: &mut Blocks) {
        self.row.append(posted);
        self.note_length();
    }

    /// Puts something that was posted into the table instead of the row.
    pub(crate) fn insert_posted(&mut self, posted: Posted, stage: Stage) -> OpId {
        let Posted { callback, location, poster, accepted_at, manner } = posted;
        let (kind, flavour) = (manner.kind(), manner.flavour());
        let entry = Entry { callback, kind, flavour, outcome: self.row_outcome() };
        let (deadline, source) = (Instant::INFINITE, EventSource::None);
        self.insert(entry, Details { deadline, source, poster, location, accepted_at }, stage)
    }

    /// What tests are told of an operation as.
    pub(crate) fn noted_as(&self, id: OpId) -> OpId {
        self.slot(id).map_or(id, |slot| slot.noted_as)
    }

    /// Whether nothing ever stood anywhere but in the row.
    pub(crate) fn has_only_row(&self) -> bool {
        self.table.is_none()
    }

    /// All that stands in the row, and what enters it from now on, is told `Canceled`.
    pub(crate) fn cancel_row(&mut self) {
        self.row_is_canceled = true;
    }

    /// Moves what stands in the row into the table, in the order that it has among what is ready there, so that each can be
    /// moved by its id.
    pub(crate) fn empty_row(&mut self) {
        if self.row.is_empty() {
            return;
        }
        let longest = self.longest;
        let table = match &mut self.table {
            Some(table) => table,
            none => Table::make(none),
        };
        let readied = table.readied();
        let mut ready = table.take_list(Stage::Ready).into_iter();
        let mut next = ready.next();
        loop {
            let (left, entered) = (self.row.left(), self.row.entered());
            while let (Some(index), Some(table)) = (next, &mut self.table)
                && table.slot_at(index).behind <= left
            {
                table.link(index, Stage::Ready, entered);
                next = ready.next();
            }
            let Some(posted) = self.row.pop() else { break };
            let id = self.insert_posted(posted, Stage::Ready);
            if let Some(slot) = self.slot_mut(id) {
                slot.noted_as = OpId::of_row(left);
            }
        }
        // None of them became ready by this.
        self.longest = longest;
        if let Some(table) = &mut self.table {
            table.set_readied(readied);
        }
    }

    /// The stage of an operation, `None` when it has ended.
    pub(crate) fn stage(&self, id: OpId) -> Option<Stage> {
        self.slot(id).map(|slot| slot.stage)
    }

    /// Puts a callback, of which nothing is left then, into an operation that was accepted a moment ago.
    #[inline]
    pub(crate) fn put_callback(&mut self, id: OpId, callback: &mut Callback) {
        if let Some(entry) = self.entry_mut(id) {
            entry.callback = std::mem::replace(callback, Callback::spent());
        }
    }

    /// The entry of an operation that has not ended.
    pub(crate) fn entry_mut(&mut self, id: OpId) -> Option<&mut Entry> {
        self.slot_mut(id)?.entry.as_mut()
    }

    /// An operation that has not ended, to be looked at.
    pub(crate) fn look(&self, id: OpId) -> Option<(&Entry, &Details)> {
        let slot = self.slot(id)?;
        slot.entry.as_ref().map(|entry| (entry, &slot.details))
    }

    /// The type and the line of an operation that has not ended.
    pub(crate) fn origin(&self, id: OpId) -> Option<(TypeNameOf, Site)> {
        self.look(id).map(|(entry, details)| (entry.callback.type_name_of(), details.location))
    }

    /// The details of an operation that has not ended.
    pub(crate) fn details_mut(&mut self, id: OpId) -> Option<&mut Details> {
        self.slot_mut(id).map(|slot| &mut slot.details)
    }

    /// Notes the outcome of an operation that has not ended. What it waited for is over, so the source of its event
    /// comes back, to be disarmed if that has not happened.
    pub(crate) fn decide(&mut self, id: OpId, outcome: Outcome) -> EventSource {
        let Some(slot) = self.slot_mut(id) else { return EventSource::None };
        if let Some(entry) = &mut slot.entry {
            entry.outcome = outcome;
        }
        std::mem::replace(&mut slot.details.source, EventSource::None)
    }

    /// Moves an operation to the end of the list of `stage`; false when it has ended.
    pub(crate) fn move_to(&mut self, id: OpId, stage: Stage) -> bool {
        let behind = self.row.entered();
        if !self.table.as_mut().is_some_and(|table| table.move_to(id, stage, behind)) {
            return false;
        }
        if stage == Stage::Ready {
            self.note_length();
        }
        true
    }

    /// Moves all operations of one stage to the front of the list of another, in their order.
    pub(crate) fn move_all_to_front(&mut self, from: Stage, to: Stage) {
        if let Some(table) = &mut self.table {
            table.move_all_to_front(from, to);
            self.note_length();
        }
    }

    /// Takes an operation out, which ends it; `None` when it has ended already. The source of its event comes with it, to be
    /// disarmed.
    #[inline]
    pub(crate) fn remove(&mut self, id: OpId) -> Option<(Entry, EventSource)> {
        let source = self.slot(id)?.details.source;
        self.table.as_mut()?.take(id).map(|entry| (entry, source))
    }

    /// What is looked at of an operation that is about to be called: itself, where it was registered, and what its event
    /// would have come from. It is taken out by [`take_callback`](CallbackQueue::take_callback).
    #[inline(always)]
    pub(crate) fn to_be_called(&self, id: OpId) -> Option<(&Entry, Site, EventSource)> {
        let slot = self.slot(id)?;
        let Details { location, source, .. } = slot.details;
        Some((slot.entry.as_ref()?, location, source))
    }

    /// Takes an operation out that is about to be called. Not more of it moves than its callback.
    #[inline(always)]
    pub(crate) fn take_callback(&mut self, id: OpId) -> Option<Callback> {
        self.table.as_mut()?.take_callback(id)
    }

    /// An operation that has not ended has its outcome, and moves to the end of the list of `stage`. What it waited for is
    /// over, so the source of its event comes back, to be disarmed if that has not happened.
    #[inline]
    pub(crate) fn decide_and_move(&mut self, id: OpId, outcome: Outcome, stage: Stage) -> EventSource {
        let source = self.decide(id, outcome);
        self.move_to(id, stage);
        source
    }

    /// Takes the operation out that has been ready for longest, and says which it was and where it was posted.
    pub(crate) fn pop_ready(&mut self) -> Option<(OpId, Entry, Site)> {
        if let Some((id, Posted { callback, location, manner, .. })) = self.pop_posted() {
            let (kind, flavour) = (manner.kind(), manner.flavour());
            return Some((id, Entry { callback, kind, flavour, outcome: self.row_outcome() }, location));
        }
        let first = self.table.as_ref()?.first_ready()?;
        self.take_noted(first)
    }

    fn take_noted(&mut self, id: OpId) -> Option<(OpId, Entry, Site)> {
        let slot = self.slot(id)?;
        let (noted_as, location) = (slot.noted_as, slot.details.location);
        self.table.as_mut()?.take(id).map(|entry| (noted_as, entry, location))
    }

    /// Like [`pop_ready`](CallbackQueue::pop_ready), if that one stands in the row. It is told
    /// [`row_outcome`](CallbackQueue::row_outcome).
    #[inline(always)]
    pub(crate) fn pop_posted(&mut self) -> Option<(OpId, Posted)> {
        if self.table.as_ref().is_some_and(|table| table.is_next(self.row.left())) {
            return None;
        }
        let id = OpId::of_row(self.row.left());
        self.row.pop().map(|posted| (id, posted))
    }

    /// Takes out what is ready if that is one alone, which stands in the row, and the dispatcher does not shut down. Its name is
    /// [`first_of_row`](CallbackQueue::first_of_row) before.
    #[inline(always)]
    pub(crate) fn pop_alone(&mut self) -> Option<Posted> {
        let nothing_else = self.table.as_ref().is_none_or(|table| table.is_empty_of(Stage::Ready));
        if nothing_else { self.row.pop_alone() } else { None }
    }

    /// The name of what leaves the row next, if there is something in it.
    #[inline(always)]
    pub(crate) fn first_of_row(&self) -> OpId {
        OpId::of_row(self.row.left())
    }

    /// What those of the row are told.
    #[inline]
    pub(crate) fn row_outcome(&self) -> Outcome {
        if self.row_is_canceled { Outcome::Canceled } else { Outcome::Done(0) }
    }

    /// Like [`pop_ready`](CallbackQueue::pop_ready), for one that `nth` others have been ready for longer than.
    pub(crate) fn pop_nth_ready(&mut self, nth: usize) -> Option<(OpId, Entry, Site)> {
        if nth == 0 {
            return self.pop_ready();
        }
        self.empty_row();
        let id = self.ids(Stage::Ready).nth(nth)?;
        self.take_noted(id)
    }

    /// Whether nothing is ready.
    pub(crate) fn is_ready_empty(&self) -> bool {
        self.is_behind_empty() && self.len_of_tray() == 0
    }

    /// The operations of a stage that are in the table, first to last.
    pub(crate) fn ids(&self, stage: Stage) -> impl Iterator<Item = OpId> + '_ {
        self.table.iter().flat_map(move |table| table.ids(stage))
    }

    /// What is pending in a stage, first to last.
    pub(crate) fn pending(&self, stage: Stage) -> impl Iterator<Item = Pending> + '_ {
        let mut table = self.table.iter().flat_map(move |table| table.slots(stage)).peekable();
        let mut row = self.row.iter().take(if stage == Stage::Ready { usize::MAX } else { 0 });
        let mut left = self.row.left();
        let on_tray = (stage == Stage::Ready).then(|| self.pending_on_tray()).into_iter().flatten();
        let others = std::iter::from_fn(move || {
            if table.peek().is_none_or(|slot| slot.behind > left)
                && let Some(Posted { callback, location, poster, accepted_at, manner }) = row.next()
            {
                left += 1;
                let (type_name, location, poster) = (callback.type_name_of(), *location, *poster);
                return Some(Pending { kind: manner.kind(), type_name, location, poster, accepted_at: *accepted_at });
            }
            let slot = table.next()?;
            let entry = slot.entry.as_ref()?;
            let (kind, type_name) = (entry.kind, entry.callback.type_name_of());
            let Details { poster, location, accepted_at, .. } = slot.details;
            Some(Pending { kind, type_name, location, poster, accepted_at })
        });
        on_tray.chain(others)
    }

    /// How many callbacks are pending, counted by walking every list. Wakes of futures are not callbacks.
    pub(crate) fn enumerate_pending(&self) -> u64 {
        let of_row = self.row.iter().filter(|posted| posted.manner.kind().is_callback()).count();
        let of_table = self.table.as_ref().map_or(0, |table| table.count_callbacks());
        // On a tray there are tasks only.
        (of_row + of_table + self.len_of_tray()) as u64
    }

    /// How many operations stand in a stage.
    pub(crate) fn len_of(&self, stage: Stage) -> usize {
        let row = if stage == Stage::Ready { self.row.len() + self.len_of_tray() } else { 0 };
        self.table.as_ref().map_or(0, |table| table.len_of(stage)) + row
    }

    /// The most operations that were ever ready at once.
    pub(crate) fn longest(&self) -> usize {
        self.longest as usize
    }

    /// How often an operation has become ready: a number that stands still only while nothing does.
    pub(crate) fn readied(&self) -> u64 {
        self.table.as_ref().map_or(0, |table| table.readied()) + self.row.entered()
    }

    /// How many operations of all kinds there are.
    pub(crate) fn len(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.len()) + self.row.len() + self.len_of_tray()
    }

    /// Gives memory back that a burst of posts has left.
    #[inline]
    pub(crate) fn trim(&mut self, is_inbox_open: bool) {
        self.row.trim(is_inbox_open);
    }

    #[inline]
    fn note_length(&mut self) {
        self.note_length_with(self.row.len());
    }

    /// To be called when something has become ready, with how many stand in the row.
    #[inline(always)]
    fn note_length_with(&mut self, in_row: usize) {
        let of_table = self.table.as_ref().map_or(0, |table| table.len_of(Stage::Ready));
        let len = in_row + self.len_of_tray() + of_table;
        if len > self.longest as usize {
            self.longest = u32::try_from(len).unwrap_or(u32::MAX);
        }
    }

    #[inline]
    fn slot(&self, id: OpId) -> Option<&Slot> {
        self.table.as_ref()?.slot(id)
    }

    #[inline]
    fn slot_mut(&mut self, id: OpId) -> Option<&mut Slot> {
        self.table.as_mut()?.slot_mut(id)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
