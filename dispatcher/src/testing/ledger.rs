//! The ledger: what a run has made and not ended, kept from what it was told alone.
//!
//! It shares nothing with the runtime that it keeps the books of, neither counters nor queues: what the two say can be
//! compared.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use crate::runtime::{Counters, users_type};
use crate::site::Site;
use crate::sync::probe::{Fate, Ticket, Told};
use crate::sync::thread::ThreadId;

/// Where a callback stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It waits for something.
    Armed,
    /// It is queued.
    Ready,
    /// It is queued, but its driver is suspended.
    Parked,
    /// A worker does what it waits for.
    Working,
    /// It has begun and not ended.
    Running,
}

/// One callback that was accepted and has not ended.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) kind: &'static str,
    pub(super) type_name: &'static str,
    pub(super) location: Site,
    pub(super) deadline: u64,
    pub(super) always_on: bool,
    pub(super) stage: Stage,
    /// What it is to be told.
    pub(super) told: Option<Told>,
    /// Whether somebody asked for its cancellation.
    pub(super) cancel_asked: bool,
    /// The step at which it began, or a worker began what it waits for.
    pub(super) begun_at: Option<u64>,
    /// The how manieth it was that the run accepted.
    pub(super) order: u64,
}

impl Life {
    /// Whether its result is kept when a shutdown begins before it is told: it is nowhere else.
    pub(super) fn keeps_result(&self) -> bool {
        matches!(self.kind, "offload" | "channel call" | "token")
    }

    /// Whether it is a delivery to another callback, and so may be accepted while its dispatcher shuts down.
    pub(super) fn is_delivery(&self, ticket: Ticket) -> bool {
        !ticket.is_future && matches!(self.kind, "future" | "irq trigger")
    }

    /// How it is called in reports.
    pub(super) fn describe(&self) -> String {
        format!("{} of {} ({})", self.kind, users_type(self.type_name), self.location)
    }

    /// Its place among what is canceled, if it is armed: rank, deadline, order.
    fn place(&self) -> (u8, u64, u64) {
        match self.kind {
            "channel read" | "channel room" | "channel call" => (1, 0, self.order),
            "wait" => (2, 0, self.order),
            "delayed task" if !self.always_on => (3, self.deadline, self.order),
            // What is parked stands in between.
            "delayed task" => (5, self.deadline, self.order),
            "offload" => (6, 0, self.order),
            "irq" => (7, 0, self.order),
            "token" => (8, 0, self.order),
            _ => (9, 0, self.order),
        }
    }
}

/// Whether something has come, is under way, or is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Progress {
    #[default]
    NotYet,
    Begun,
    Over,
}

/// A dispatcher.
#[derive(Debug, Default)]
pub(super) struct DispatcherBook {
    pub(super) name: String,
    pub(super) driver: u64,
    pub(super) synchronized: bool,
    pub(super) shuts_down: bool,
    /// Whether threads use it that are not part of the run, so that nothing can be said about it.
    pub(super) is_unwatched: bool,
    pub(super) observer: Progress,
    /// Those that have begun and not ended, oldest first.
    pub(super) running: Vec<Ticket>,
    /// In the order in which they have to begin.
    pub(super) ready: VecDeque<Ticket>,
    pub(super) parked: VecDeque<Ticket>,
    pub(super) parked_first: VecDeque<Ticket>,
}

impl DispatcherBook {
    /// Takes a callback out of whatever queue it stands in.
    pub(super) fn unqueue(&mut self, ticket: Ticket) {
        for queue in [&mut self.ready, &mut self.parked, &mut self.parked_first] {
            queue.retain(|queued| *queued != ticket);
        }
    }
}

/// A driver.
#[derive(Debug, Default)]
pub(super) struct DriverBook {
    pub(super) name: String,
    pub(super) shuts_down: bool,
    pub(super) observer: Progress,
    /// Its dispatchers, oldest first.
    pub(super) dispatchers: Vec<u64>,
    /// Those that its shutdown has yet to close, in that order, and the thread that closes them.
    pub(super) to_close: VecDeque<u64>,
    pub(super) closer: Option<ThreadId>,
}

/// What a thread is inside of: driver and dispatcher, 0 for none.
pub(super) type Frame = (u64, u64);

/// All of it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) lives: BTreeMap<Ticket, Life>,
    ended: HashSet<Ticket>,
    pub(super) dispatchers: BTreeMap<u64, DispatcherBook>,
    pub(super) drivers: BTreeMap<u64, DriverBook>,
    /// The addresses of the runtimes that drivers were made in.
    pub(super) runtimes: HashSet<usize>,
    pub(super) stacks: HashMap<ThreadId, Vec<Frame>>,
    /// What was done first that the run was not told of.
    partial: Option<String>,
    names: HashMap<String, u32>,
    taken: u64,
    tally: Counters,
}

impl Ledger {
    /// A name for reports: a further driver or dispatcher of the same name has a number.
    pub(super) fn unique(&mut self, what: &str, name: &str) -> String {
        let count = self.names.entry(format!("{what} {name}")).or_insert(0);
        *count += 1;
        if *count == 1 { format!("{name:?}") } else { format!("{name:?} (no. {count})") }
    }

    /// Whether a dispatcher is one of those that are looked at.
    pub(super) fn is_watched(&self, dispatcher: u64) -> bool {
        self.dispatchers.get(&dispatcher).is_some_and(|book| !book.is_unwatched)
    }

    /// Something was done that the run was not told of.
    pub(super) fn see_in_part(&mut self, what: String) {
        self.partial.get_or_insert(what);
    }

    /// What it was, first of all.
    pub(super) fn partial(&self) -> Option<&str> {
        self.partial.as_deref()
    }

    /// Looks away from a dispatcher that is used by threads which are not part of the run.
    pub(super) fn unwatch(&mut self, dispatcher: u64, how: &str) {
        let book = self.dispatchers.get(&dispatcher);
        let driver = book.and_then(|book| self.drivers.get(&book.driver)).map_or("", |driver| &driver.name);
        let name = book.map_or("", |book| &book.name);
        self.see_in_part(format!("a thread that is no part of it {how} dispatcher {name} of driver {driver}"));
        self.lives.retain(|ticket, _| ticket.dispatcher != dispatcher);
        if let Some(book) = self.dispatchers.get_mut(&dispatcher) {
            book.is_unwatched = true;
            book.running.clear();
            book.ready.clear();
        }
    }

    /// The number of the next callback.
    pub(super) fn next_order(&mut self) -> u64 {
        self.taken += 1;
        self.taken
    }

    /// Takes a callback in; one of the same number that has not ended comes back.
    pub(super) fn take(&mut self, ticket: Ticket, life: Life) -> Option<Life> {
        self.tally.accepted += u64::from(!life.is_delivery(ticket));
        self.lives.insert(ticket, life)
    }

    /// What became of all callbacks; deliveries are none. What was refused is not in these books.
    pub(super) fn tally(&self) -> Counters {
        let pending = self.lives.iter().filter(|(ticket, life)| !life.is_delivery(**ticket)).count() as u64;
        Counters { pending, ..self.tally }
    }

    /// Whether this one has ended before.
    pub(super) fn has_ended(&self, ticket: Ticket) -> bool {
        self.ended.contains(&ticket)
    }

    /// Ends a callback; `None` if it was refused after all.
    pub(super) fn end(&mut self, ticket: Ticket, fate: Option<Fate>) {
        self.ended.insert(ticket);
        if let Some(dispatcher) = self.dispatchers.get_mut(&ticket.dispatcher) {
            dispatcher.unqueue(ticket);
            dispatcher.running.retain(|running| *running != ticket);
        }
        let is_counted = self.lives.remove(&ticket).is_some_and(|life| !life.is_delivery(ticket));
        if is_counted {
            match fate {
                Some(Fate::Ran) => self.tally.ran += 1,
                Some(Fate::Canceled) => self.tally.canceled += 1,
                Some(Fate::TakenBack) => self.tally.taken_back += 1,
                None => self.tally.accepted -= 1,
            }
        }
    }

    /// Those of a dispatcher that have not ended.
    pub(super) fn lives_of(&self, dispatcher: u64) -> impl Iterator<Item = (Ticket, &Life)> {
        self.lives
            .iter()
            .filter(move |(ticket, _)| ticket.dispatcher == dispatcher)
            .map(|(ticket, life)| (*ticket, life))
    }

    /// What a thread is inside of.
    pub(super) fn top(&self, thread: ThreadId) -> Frame {
        self.stacks.get(&thread).and_then(|stack| stack.last()).copied().unwrap_or_default()
    }

    /// A shutdown of the dispatcher has begun: puts all that is pending into the order in which it has to be canceled,
    /// and says what each has to be told.
    pub(super) fn cancel_all(&mut self, id: u64) {
        let mut armed: Vec<_> = self
            .lives_of(id)
            .filter(|(ticket, life)| life.stage == Stage::Armed && !ticket.is_future)
            .map(|(ticket, life)| (life.place(), ticket))
            .collect();
        armed.sort_unstable();
        let Some(dispatcher) = self.dispatchers.get_mut(&id) else { return };
        let mut order = std::mem::take(&mut dispatcher.ready);
        let (before, after): (Vec<_>, Vec<_>) = armed.into_iter().partition(|((rank, ..), _)| *rank < 4);
        order.extend(before.into_iter().map(|(_, ticket)| ticket));
        order.append(&mut dispatcher.parked);
        order.append(&mut dispatcher.parked_first);
        order.extend(after.into_iter().map(|(_, ticket)| ticket));
        for ticket in &order {
            let Some(life) = self.lives.get_mut(ticket) else { continue };
            life.stage = Stage::Ready;
            life.told = Some(match life.told {
                Some(Told::Failure) => Told::Failure,
                Some(Told::Outcome) if life.keeps_result() => Told::Outcome,
                _ => Told::Canceled,
            });
        }
        dispatcher.ready = order;
    }
}
