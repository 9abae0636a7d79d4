//! The callbacks that a dispatcher has accepted and not yet ended, in one table.
//!
//! Each accepted callback is one *operation*: an entry of the table from the moment it is accepted until its one end.
//! An operation ends by leaving the table, which happens under the dispatcher's lock; whoever takes it out owns the
//! callback and is the only one who may call it or hand it back. That is how *exactly once* is kept.
//!
//! An entry stands in exactly one list, its [`Stage`]: the FIFO of what is ready, or the list of what is still armed by
//! kind. Lists are linked through the entries, so every move and every cancel is O(1), and all of it can be listed.
//!
//! # Invariants
//! - Every occupied slot is linked in the list of its stage, and `len` is the number of occupied slots.
//! - The generation of a slot changes whenever an entry leaves it, so an [`OpId`] names at most one operation ever.

mod callback;

#[cfg(test)]
pub(crate) use callback::WithOutcome;
pub(crate) use callback::{Callback, Invoke, Outcome, TypeNameOf};

use std::panic::Location;

use super::flavour::Flavour;
use crate::event_loop::{TimerId, WaitId};
use crate::time::Instant;

/// What sort of callback an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A posted task.
    Task,
    /// A task with a deadline.
    Delayed,
    /// A wait for the readiness of a file descriptor or a simulated object.
    Wait,
    /// A registered channel read.
    Read,
    /// A registered wait for room in the queue of a channel.
    Writable,
    /// A call on a channel that waits for its reply.
    Call,
    /// A registered token that waits for its channel.
    Token,
    /// Work on a lane whose result comes back here.
    Offload,
    /// A future that was woken. It is not counted among callbacks: its future is.
    Wake,
    /// A bound irq, from its binding to its one end.
    Irq,
    /// One delivery of an irq. It is not counted among callbacks: its irq is.
    Trigger,
}

impl Kind {
    /// Whether it is counted: a wake is not, its future is; a trigger is not, its irq is.
    pub(crate) const fn is_callback(self) -> bool {
        !matches!(self, Kind::Wake | Kind::Trigger)
    }

    /// Whether what came about is kept when a shutdown begins before the callback runs: it is nowhere else.
    pub(crate) const fn keeps_result(self) -> bool {
        matches!(self, Kind::Offload | Kind::Call | Kind::Token)
    }

    /// The kind's name in dumps and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Task => "task",
            Kind::Delayed => "delayed task",
            Kind::Wait => "wait",
            Kind::Read => "channel read",
            Kind::Writable => "channel room",
            Kind::Call => "channel call",
            Kind::Token => "token",
            Kind::Offload => "offload",
            Kind::Wake => "future",
            Kind::Irq => "irq",
            Kind::Trigger => "irq trigger",
        }
    }
}

/// How many bits of an [`OpId`] are the index of its slot; the rest is the slot's generation.
const INDEX_BITS: u32 = 28;
const GENERATION_MASK: u64 = u64::MAX >> INDEX_BITS;

/// The name of one operation, valid for one dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct OpId(u64);

impl OpId {
    fn new(index: u32, generation: u64) -> Self {
        OpId((generation & GENERATION_MASK) << INDEX_BITS | u64::from(index))
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

/// Where an operation stands. Each stage is a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// In the FIFO, to be invoked next.
    Ready,
    /// What a channel has not told yet: a read without a message, a wait for room, a call without a reply.
    Reading,
    /// A wait without an event.
    Waiting,
    /// A task before its deadline.
    Delayed,
    /// Work that no worker has started.
    Offloaded,
    /// Work that a worker is running.
    OffloadRunning,
    /// A bound irq; where it stands between two deliveries says its own state.
    Bound,
    /// A registered token without a channel; the last to be canceled.
    Token,
    /// Ready, but its driver is suspended.
    Parked,
    /// Parked, and told by a wake vector: it is first on resume.
    ParkedWake,
}

impl Stage {
    /// All stages, in the order of their numbers.
    pub(crate) const ALL: [Stage; 10] = [
        Stage::Ready,
        Stage::Reading,
        Stage::Waiting,
        Stage::Delayed,
        Stage::Offloaded,
        Stage::OffloadRunning,
        Stage::Bound,
        Stage::Token,
        Stage::Parked,
        Stage::ParkedWake,
    ];

    /// Whether it is still waited for what the operation is about.
    pub(crate) const fn is_armed(self) -> bool {
        !matches!(self, Stage::Ready | Stage::Parked | Stage::ParkedWake)
    }

    /// What a dump calls the queue.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Stage::Ready => "ready",
            Stage::Reading => "reads",
            Stage::Waiting => "waits",
            Stage::Delayed => "delayed",
            Stage::Offloaded => "offloads",
            Stage::OffloadRunning => "offloads running",
            Stage::Bound => "irqs",
            Stage::Token => "tokens",
            Stage::Parked => "parked",
            Stage::ParkedWake => "parked to wake",
        }
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

#[derive(Debug)]
struct Slot {
    generation: u64,
    stage: Stage,
    previous: u32,
    next: u32,
    entry: Option<Entry>,
    details: Details,
}

const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
    len: u32,
}

/// All operations of a dispatcher.
#[derive(Debug)]
pub(crate) struct CallbackQueue {
    slots: Vec<Slot>,
    free: u32,
    len: usize,
    /// The generation of a slot that is made anew: above all that were ever used.
    first_generation: u64,
    lists: [List; STAGES],
    /// How often an operation has become ready.
    readied: u64,
    /// The most that were ever ready at once.
    longest: u32,
}

impl CallbackQueue {
    pub(crate) const fn new() -> Self {
        CallbackQueue {
            slots: Vec::new(),
            free: NONE,
            len: 0,
            first_generation: 1,
            lists: [List { head: NONE, tail: NONE, len: 0 }; STAGES],
            readied: 0,
            longest: 0,
        }
    }

    /// Puts an operation at the end of the list of `stage`.
    pub(crate) fn insert(&mut self, entry: Entry, details: Details, stage: Stage) -> OpId {
        self.len += 1;
        let index = if self.free == NONE {
            assert!(self.slots.len() < 1 << INDEX_BITS, "a dispatcher holds fewer than 2^28 pending callbacks");
            let generation = self.first_generation;
            let entry = Some(entry);
            self.slots.push(Slot { generation, stage, previous: NONE, next: NONE, entry, details });
            (self.slots.len() - 1) as u32
        } else {
            let index = self.free;
            let slot = &mut self.slots[index as usize];
            self.free = slot.next;
            slot.entry = Some(entry);
            slot.details = details;
            index
        };
        self.link(index, stage);
        OpId::new(index, self.slots[index as usize].generation)
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
        let moved = std::mem::replace(&mut self.lists[from as usize], List { head: NONE, tail: NONE, len: 0 });
        if moved.head == NONE {
            return;
        }
        let mut index = moved.head;
        while index != NONE {
            let slot = &mut self.slots[index as usize];
            slot.stage = to;
            index = slot.next;
        }
        self.lists[to as usize].len += moved.len;
        if to == Stage::Ready {
            self.readied += u64::from(moved.len);
            self.longest = self.longest.max(self.lists[to as usize].len);
        }
        let old_head = std::mem::replace(&mut self.lists[to as usize].head, moved.head);
        self.slots[moved.tail as usize].next = old_head;
        match old_head {
            NONE => self.lists[to as usize].tail = moved.tail,
            old_head => self.slots[old_head as usize].previous = moved.tail,
        }
    }

    /// Takes an operation out, which ends it; `None` when it has ended already.
    pub(crate) fn remove(&mut self, id: OpId) -> Option<(Entry, Details)> {
        let index = self.occupied(id)?;
        let details = self.slots[index as usize].details;
        self.take(index).map(|entry| (entry, details))
    }

    /// Takes the operation out that has been ready for longest, and says which it was and where it was posted.
    pub(crate) fn pop_ready(&mut self) -> Option<(OpId, Entry, &'static Location<'static>)> {
        match self.lists[Stage::Ready as usize].head {
            NONE => None,
            index => {
                let slot = &self.slots[index as usize];
                let (id, location) = (OpId::new(index, slot.generation), slot.details.location);
                self.take(index).map(|entry| (id, entry, location))
            }
        }
    }

    /// Like [`pop_ready`](CallbackQueue::pop_ready), for one that `nth` others have been ready for longer than.
    #[cfg(feature = "testing")]
    pub(crate) fn pop_nth_ready(&mut self, nth: usize) -> Option<(OpId, Entry, &'static Location<'static>)> {
        let index = self.indexes(Stage::Ready).nth(nth)?;
        let slot = &self.slots[index as usize];
        let (id, location) = (OpId::new(index, slot.generation), slot.details.location);
        self.take(index).map(|entry| (id, entry, location))
    }

    /// Whether nothing is ready.
    pub(crate) fn is_ready_empty(&self) -> bool {
        self.lists[Stage::Ready as usize].head == NONE
    }

    /// The operations of a stage, first to last.
    pub(crate) fn ids(&self, stage: Stage) -> impl Iterator<Item = OpId> + '_ {
        self.indexes(stage).map(|index| OpId::new(index, self.slots[index as usize].generation))
    }

    /// The entries of a stage, first to last.
    pub(crate) fn entries(&self, stage: Stage) -> impl Iterator<Item = (&Entry, &Details)> + '_ {
        self.indexes(stage).filter_map(|index| {
            let slot = &self.slots[index as usize];
            slot.entry.as_ref().map(|entry| (entry, &slot.details))
        })
    }

    /// How many callbacks are pending, counted by walking every list. Wakes of futures are not callbacks.
    pub(crate) fn enumerate_pending(&self) -> u64 {
        let all = Stage::ALL.into_iter().flat_map(|stage| self.entries(stage));
        all.filter(|(entry, _)| entry.kind.is_callback()).count() as u64
    }

    /// How many operations stand in a stage.
    pub(crate) fn len_of(&self, stage: Stage) -> usize {
        self.lists[stage as usize].len as usize
    }

    /// The most operations that were ever ready at once.
    pub(crate) fn longest(&self) -> usize {
        self.longest as usize
    }

    /// How often an operation has become ready: a number that stands still only while nothing does.
    pub(crate) fn readied(&self) -> u64 {
        self.readied
    }

    /// How many operations of all kinds there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn indexes(&self, stage: Stage) -> impl Iterator<Item = u32> + '_ {
        let first = self.lists[stage as usize].head;
        std::iter::successors((first != NONE).then_some(first), |&index| {
            let next = self.slots[index as usize].next;
            (next != NONE).then_some(next)
        })
    }

    fn occupied(&self, id: OpId) -> Option<u32> {
        let slot = self.slots.get(id.index())?;
        (slot.generation == id.generation() && slot.entry.is_some()).then_some(id.index() as u32)
    }

    fn take(&mut self, index: u32) -> Option<Entry> {
        self.unlink(index);
        let free = self.free;
        let slot = &mut self.slots[index as usize];
        let entry = slot.entry.take();
        slot.generation = slot.generation.wrapping_add(1) & GENERATION_MASK;
        slot.next = free;
        self.free = index;
        self.len -= 1;
        self.shrink_when_empty();
        entry
    }

    /// Gives the memory of a burst back once the table has run empty.
    fn shrink_when_empty(&mut self) {
        const KEPT_SLOTS: usize = 1024;
        if self.len > 0 || self.slots.len() <= KEPT_SLOTS {
            return;
        }
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
        let slot = &mut self.slots[index as usize];
        slot.stage = stage;
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
            self.longest = self.longest.max(list.len);
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn entry(kind: Kind) -> Entry {
        Entry {
            callback: Callback::new(WithOutcome(|_| {})),
            kind,
            flavour: Flavour::REGULAR,
            outcome: Outcome::Done(0),
        }
    }

    fn details() -> Details {
        Details {
            deadline: Instant::INFINITE,
            source: EventSource::None,
            poster: Poster::default(),
            location: Location::caller(),
            accepted_at: Instant::from_nanos(0),
        }
    }

    /// Shows D10.
    #[test]
    fn an_id_never_names_a_second_operation_even_after_the_table_gave_memory_back() {
        let mut queue = CallbackQueue::new();
        let ids: Vec<_> = (0..5000).map(|_| queue.insert(entry(Kind::Task), details(), Stage::Ready)).collect();
        while queue.pop_ready().is_some() {}
        let again: Vec<_> = (0..5000).map(|_| queue.insert(entry(Kind::Task), details(), Stage::Ready)).collect();
        assert!(ids.iter().all(|id| queue.stage(*id).is_none()));
        assert!(again.iter().all(|id| queue.stage(*id) == Some(Stage::Ready)));
        assert_eq!(queue.enumerate_pending(), 5000);
    }

    proptest! {
        /// Random operations beside a plain model: order, membership and counts agree at each step.
        #[test]
        fn lists_behave_like_plain_queues(steps in proptest::collection::vec((0u8..6, 0usize..64), 1..400)) {
            let mut queue = CallbackQueue::new();
            let mut ready: VecDeque<OpId> = VecDeque::new();
            let mut armed: VecDeque<OpId> = VecDeque::new();
            let mut longest = 0;
            for (step, pick) in steps {
                match step {
                    0 => ready.push_back(queue.insert(entry(Kind::Task), details(), Stage::Ready)),
                    1 => armed.push_back(queue.insert(entry(Kind::Read), details(), Stage::Reading)),
                    2 if !armed.is_empty() => {
                        let id = armed.remove(pick % armed.len()).expect("in range");
                        prop_assert!(queue.move_to(id, Stage::Ready));
                        ready.push_back(id);
                    }
                    3 if !ready.is_empty() => {
                        let id = ready.remove(pick % ready.len()).expect("in range");
                        prop_assert!(queue.remove(id).is_some());
                        prop_assert!(queue.remove(id).is_none());
                    }
                    4 => prop_assert_eq!(queue.pop_ready().is_some(), ready.pop_front().is_some()),
                    5 => {
                        queue.move_all_to_front(Stage::Reading, Stage::Ready);
                        armed.append(&mut ready);
                        std::mem::swap(&mut armed, &mut ready);
                    }
                    _ => {}
                }
                prop_assert_eq!(queue.ids(Stage::Ready).collect::<Vec<_>>(), ready.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(queue.ids(Stage::Reading).collect::<Vec<_>>(), armed.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(queue.len(), ready.len() + armed.len());
                prop_assert_eq!((queue.len_of(Stage::Ready), queue.len_of(Stage::Reading)), (ready.len(), armed.len()));
                longest = longest.max(ready.len());
                prop_assert_eq!(queue.longest(), longest);
                prop_assert_eq!(queue.enumerate_pending() as usize, queue.len());
            }
        }
    }
}
