//! The table: a slot for each operation that can be named, linked into the list of its stage.
//!
//! # Invariants
//! - Every occupied slot is linked in the list of its stage, and `filled` is the number of occupied slots.
//! - The generation of a slot changes whenever an entry leaves it, so an [`OpId`] names at most one operation ever.

use std::mem;

use super::{Callback, Details, Entry, GENERATION_MASK, INDEX_BITS, OpId, Stage};

const STAGES: usize = Stage::ALL.len();

const NONE: u32 = u32::MAX;

/// How many slots stay when the table has run empty.
const KEPT_SLOTS: usize = 1024;

/// The place of an operation.
#[derive(Debug)]
pub(super) struct Slot {
    generation: u64,
    /// Of one that is ready: how many of the row come before it, counted from the first that ever was.
    pub(super) behind: u64,
    /// What tests are told of it as: its own id, or what it had in the row.
    pub(super) noted_as: OpId,
    pub(super) stage: Stage,
    previous: u32,
    next: u32,
    pub(super) entry: Option<Entry>,
    pub(super) details: Details,
}

#[derive(Debug, Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl List {
    const EMPTY: List = List { head: NONE, tail: NONE, len: 0 };
}

/// All operations of a dispatcher that do not stand in the row.
#[derive(Debug)]
pub(super) struct Table {
    slots: Vec<Slot>,
    free: u32,
    filled: usize,
    /// The generation of a slot that is made anew: above all that were ever used.
    first_generation: u64,
    lists: [List; STAGES],
    /// How often an operation has become ready.
    readied: u64,
}

impl Table {
    /// Makes the table of a dispatcher that has none.
    #[cold]
    pub(super) fn make(place: &mut Option<Box<Table>>) -> &mut Table {
        place.insert(Box::new(Table {
            slots: Vec::new(),
            free: NONE,
            filled: 0,
            first_generation: 1,
            lists: [List::EMPTY; STAGES],
            readied: 0,
        }))
    }

    /// Puts an operation at the end of the list of `stage`. It comes behind so many of the row.
    #[inline(always)]
    pub(super) fn insert(&mut self, entry: Entry, details: Details, stage: Stage, behind: u64) -> OpId {
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
        self.link(index, stage, behind);
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

    /// The slot of an operation that has not ended.
    #[inline]
    pub(super) fn slot(&self, id: OpId) -> Option<&Slot> {
        self.slots.get(id.index()).filter(|slot| slot.holds(id))
    }

    /// The slot of an operation that has not ended.
    #[inline]
    pub(super) fn slot_mut(&mut self, id: OpId) -> Option<&mut Slot> {
        self.slots.get_mut(id.index()).filter(|slot| slot.holds(id))
    }

    /// The slot of what [`take_list`](Table::take_list) has unlinked.
    pub(super) fn slot_at(&self, index: u32) -> &Slot {
        &self.slots[index as usize]
    }

    /// Moves an operation to the end of the list of `stage`; false when it has ended.
    pub(super) fn move_to(&mut self, id: OpId, stage: Stage, behind: u64) -> bool {
        if self.slot(id).is_none() {
            return false;
        }
        let index = id.index() as u32;
        self.unlink(index);
        self.link(index, stage, behind);
        true
    }

    /// Moves all operations of one stage to the front of the list of another, in their order.
    pub(super) fn move_all_to_front(&mut self, from: Stage, to: Stage) {
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
        }
        let old_head = std::mem::replace(&mut self.lists[to as usize].head, moved.head);
        self.slots[moved.tail as usize].next = old_head;
        match old_head {
            NONE => self.lists[to as usize].tail = moved.tail,
            old_head => self.slots[old_head as usize].previous = moved.tail,
        }
    }

    /// Takes an operation out, which ends it; `None` when it has ended already.
    #[inline(always)]
    pub(super) fn take(&mut self, id: OpId) -> Option<Entry> {
        self.slot(id)?;
        self.take_by(id, Option::take)
    }

    /// Takes the callback of an operation out, which ends it. Nothing else is moved, and it is moved once: the rest of an entry
    /// is small pieces, and a copy of what was written in pieces waits until all of them have been.
    #[inline(always)]
    pub(super) fn take_callback(&mut self, id: OpId) -> Option<Callback> {
        self.slot(id)?;
        self.take_by(id, |place| {
            let callback = mem::replace(&mut place.as_mut()?.callback, Callback::spent());
            // Nothing is left of it that would have to be dropped.
            mem::forget(place.take());
            Some(callback)
        })
    }

    /// Empties the slot of an operation that is there.
    #[inline(always)]
    fn take_by<T>(&mut self, id: OpId, take: impl FnOnce(&mut Option<Entry>) -> T) -> T {
        let index = id.index() as u32;
        self.unlink(index);
        let free = self.free;
        let slot = &mut self.slots[index as usize];
        let entry = take(&mut slot.entry);
        slot.generation = slot.generation.wrapping_add(1) & GENERATION_MASK;
        slot.next = free;
        self.free = index;
        self.filled -= 1;
        self.shrink_when_empty();
        entry
    }

    /// Whether the first that is ready was put in front of all that had entered the row, of which so many have left.
    pub(super) fn is_in_front(&self, left: u64) -> bool {
        let head = self.lists[Stage::Ready as usize].head;
        head != NONE && self.slots[head as usize].behind < left
    }

    /// Whether the first that is ready comes before the next of the row, which so many have left.
    #[inline]
    pub(super) fn is_next(&self, left: u64) -> bool {
        let head = self.lists[Stage::Ready as usize].head;
        head != NONE && self.slots[head as usize].behind <= left
    }

    /// The operation that has been ready for longest.
    #[inline]
    pub(super) fn first_ready(&self) -> Option<OpId> {
        match self.lists[Stage::Ready as usize].head {
            NONE => None,
            index => Some(OpId::new(index, self.slots[index as usize].generation)),
        }
    }

    /// Whether nothing stands in a stage.
    #[inline]
    pub(super) fn is_empty_of(&self, stage: Stage) -> bool {
        self.lists[stage as usize].head == NONE
    }

    /// How many operations stand in a stage.
    #[inline]
    pub(super) fn len_of(&self, stage: Stage) -> usize {
        self.lists[stage as usize].len as usize
    }

    /// How often an operation has become ready.
    pub(super) fn readied(&self) -> u64 {
        self.readied
    }

    /// Takes back what was counted as becoming ready since [`readied`](Table::readied) answered this.
    pub(super) fn set_readied(&mut self, readied: u64) {
        self.readied = readied;
    }

    /// How many operations there are.
    pub(super) fn len(&self) -> usize {
        self.filled
    }

    /// The operations of a stage, first to last.
    pub(super) fn ids(&self, stage: Stage) -> impl Iterator<Item = OpId> + '_ {
        self.indexes(stage).map(|index| OpId::new(index, self.slots[index as usize].generation))
    }

    /// The slots of a stage, first to last.
    pub(super) fn slots(&self, stage: Stage) -> impl Iterator<Item = &Slot> + '_ {
        self.indexes(stage).map(|index| &self.slots[index as usize])
    }

    /// How many callbacks there are, counted by walking every list. Wakes of futures are not callbacks.
    pub(super) fn count_callbacks(&self) -> usize {
        let count_of = |stage| {
            let kinds = self.slots(stage).filter_map(|slot| slot.entry.as_ref()).map(|entry| entry.kind);
            kinds.filter(|kind| kind.is_callback()).count()
        };
        Stage::ALL.into_iter().map(count_of).sum()
    }

    /// Unlinks all of a stage. Whoever gets the places links them anew.
    pub(super) fn take_list(&mut self, stage: Stage) -> Vec<u32> {
        let indexes = self.indexes(stage).collect();
        self.lists[stage as usize] = List::EMPTY;
        indexes
    }

    fn indexes(&self, stage: Stage) -> impl Iterator<Item = u32> + '_ {
        let first = self.lists[stage as usize].head;
        std::iter::successors((first != NONE).then_some(first), |&index| {
            let next = self.slots[index as usize].next;
            (next != NONE).then_some(next)
        })
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

    /// Links a slot into the list of `stage`. It comes behind so many of the row.
    #[inline]
    pub(super) fn link(&mut self, index: u32, stage: Stage, behind: u64) {
        let tail = self.lists[stage as usize].tail;
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
        self.readied += u64::from(stage == Stage::Ready);
    }

    #[inline]
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

impl Slot {
    #[inline]
    fn holds(&self, id: OpId) -> bool {
        self.generation == id.generation() && self.entry.is_some()
    }
}
