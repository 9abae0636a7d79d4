//! The oracle: checks the promises of the runtime against what a run was told, step by step.
//!
//! It keeps books of its own ([`Ledger`]) and takes nothing from the runtime but the notes of what happened, so that it
//! can contradict it. The first broken promise is what it reports; what follows from a broken promise says little.

use std::fmt;

use super::ledger::{DispatcherBook, DriverBook, Ledger, Life, Progress, Stage};
use crate::sync::probe::{Fate, Note, Ticket, Told};
use crate::sync::thread::{self, ThreadId};

/// A promise of the runtime that a run has broken, with the place.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokenPromise {
    /// Its number, 1 to 11, as in the page of the promises.
    pub promise: u8,
    /// The step at which it was seen.
    pub step: u64,
    /// The driver concerned, as it is called in the report.
    pub driver: String,
    /// The dispatcher concerned; empty if it is about the driver itself.
    pub dispatcher: String,
    /// The callback concerned: its kind, the type of its closure, and where it was posted; empty if there is none.
    pub callback: String,
    /// What was seen.
    pub what: String,
}

impl BrokenPromise {
    /// The promise in a few words.
    fn title(&self) -> &'static str {
        match self.promise {
            1 => "exactly once",
            2 => "synchronized",
            3 => "first in, first out",
            4 => "unsynchronized",
            5 => "no re-entrancy",
            6 => "inline when allowed",
            7 => "fair",
            8 => "shutdown",
            9 => "nothing is lost by a panic",
            10 => "drop is in context",
            _ => "destroy is safe",
        }
    }
}

impl fmt::Display for BrokenPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "promise {} ({}) is broken at step {}: ", self.promise, self.title(), self.step)?;
        let subject = if self.callback.is_empty() { "it" } else { &self.callback };
        write!(f, "{subject} {}", self.what)?;
        match (self.dispatcher.is_empty(), self.driver.is_empty()) {
            (false, _) => write!(f, "; dispatcher {} of driver {}", self.dispatcher, self.driver),
            (true, false) => write!(f, "; driver {}", self.driver),
            (true, true) => Ok(()),
        }
    }
}

/// What a note is about, for the report.
#[derive(Clone, Copy)]
enum About {
    Callback(Ticket),
    Dispatcher(u64),
    Driver(u64),
}

/// Checks the promises.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    ledger: Ledger,
    broken: Option<BrokenPromise>,
    step: u64,
}

impl Oracle {
    /// The first broken promise.
    pub(super) fn first_broken(&self) -> Option<&BrokenPromise> {
        self.broken.as_ref()
    }

    /// The books.
    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The callback that the calling thread runs, innermost.
    pub(super) fn running_here(&self) -> Option<Ticket> {
        self.running_on(thread::current_id())
    }

    /// The callback that a thread runs, innermost.
    pub(super) fn running_on(&self, thread: ThreadId) -> Option<Ticket> {
        let (_, dispatcher) = self.ledger.top(thread);
        self.ledger.dispatchers.get(&dispatcher)?.running.last().copied()
    }

    /// The same in words: what it is, and of whom.
    pub(super) fn describe(&self, ticket: Ticket) -> String {
        let callback = self.ledger.lives.get(&ticket).map_or_else(|| "a callback".to_owned(), Life::describe);
        let (driver, dispatcher) = self.names(ticket.dispatcher);
        format!("{callback}, dispatcher {dispatcher} of driver {driver}")
    }

    fn names(&self, dispatcher: u64) -> (String, String) {
        let book = self.ledger.dispatchers.get(&dispatcher);
        let driver = book.and_then(|book| self.ledger.drivers.get(&book.driver));
        let unknown = || "that is not known".to_owned();
        (driver.map_or_else(unknown, |driver| driver.name.clone()), book.map_or_else(unknown, |book| book.name.clone()))
    }

    fn break_promise(&mut self, promise: u8, about: About, what: impl Into<String>) {
        if self.broken.is_some() {
            return;
        }
        let (driver, dispatcher, callback) = match about {
            About::Callback(ticket) => {
                let (driver, dispatcher) = self.names(ticket.dispatcher);
                let callback = self.ledger.lives.get(&ticket).map_or_else(|| "a callback".to_owned(), Life::describe);
                (driver, dispatcher, callback)
            }
            About::Dispatcher(dispatcher) => {
                let (driver, dispatcher) = self.names(dispatcher);
                (driver, dispatcher, String::new())
            }
            About::Driver(driver) => {
                let name = self.ledger.drivers.get(&driver).map_or(String::new(), |driver| driver.name.clone());
                (name, String::new(), String::new())
            }
        };
        self.broken = Some(BrokenPromise { promise, step: self.step, driver, dispatcher, callback, what: what.into() });
    }

    /// Takes a note into the books, and checks it. `here` is the thread that it is about.
    pub(super) fn hear(&mut self, step: u64, here: ThreadId, note: &Note) {
        self.step = step;
        // A dispatcher that the run did not make is none of its business, nor one that others use unseen.
        if note.ticket().is_some_and(|ticket| !self.ledger.is_watched(ticket.dispatcher)) {
            return;
        }
        match *note {
            Note::DriverMade { driver, name, runtime } => {
                self.ledger.runtimes.insert(runtime);
                let name = self.ledger.unique("driver", name);
                self.ledger.drivers.insert(driver, DriverBook { name, ..DriverBook::default() });
            }
            Note::DispatcherMade { dispatcher, driver, name, synchronized } => {
                self.dispatcher_made(dispatcher, driver, name, synchronized);
            }
            Note::Accepted { ticket, kind, type_name, location, deadline, always_on } => {
                let (stage, order) = (Stage::Armed, self.ledger.next_order());
                let life = Life {
                    kind,
                    type_name,
                    location,
                    deadline,
                    always_on,
                    stage,
                    told: None,
                    cancel_asked: false,
                    begun_at: None,
                    order,
                };
                self.accepted(ticket, life);
            }
            Note::Ready { ticket, told } => self.ready(ticket, told),
            Note::Parked { ticket, told, comes_first } => self.parked(ticket, told, comes_first),
            Note::Unparked { dispatcher } => self.unparked(dispatcher),
            Note::WorkBegun { ticket } => {
                if let Some(life) = self.ledger.lives.get_mut(&ticket) {
                    (life.stage, life.begun_at) = (Stage::Working, Some(step));
                }
            }
            Note::CancelAsked { ticket } => {
                if let Some(life) = self.ledger.lives.get_mut(&ticket) {
                    life.cancel_asked = true;
                    life.told = Some(Told::Canceled);
                }
            }
            Note::Begun { ticket, told, .. } => self.begun(ticket, told, here),
            Note::Ended { ticket } => self.ended(ticket),
            Note::TakenBack { ticket } => self.taken_back(ticket),
            Note::RefusedAfterAll { ticket } => {
                self.ledger.end(ticket, None);
            }
            Note::FutureDropped { ticket } => {
                if self.ledger.top(here).1 != ticket.dispatcher {
                    self.break_promise(10, About::Callback(ticket), "is dropped while its dispatcher is not current");
                }
            }
            Note::FutureEnded { ticket, fate } => self.future_ended(ticket, fate),
            Note::Entered { driver, dispatcher } => self.entered(driver, dispatcher, here),
            Note::Left => {
                self.ledger.stacks.entry(here).or_default().pop();
            }
            Note::ShutdownBegan { dispatcher } => self.shutdown_began(dispatcher, here),
            Note::ObserverBegun { dispatcher } => self.observer_begun(dispatcher, here),
            Note::ObserverEnded { dispatcher } => {
                if let Some(book) = self.ledger.dispatchers.get_mut(&dispatcher) {
                    book.observer = Progress::Over;
                }
            }
            Note::DriverShutdownBegan { driver } => self.driver_shutdown_began(driver, here),
            Note::DriverObserverBegun { driver } => self.driver_observer_begun(driver),
            Note::DriverObserverEnded { driver } => {
                if let Some(book) = self.ledger.drivers.get_mut(&driver) {
                    book.observer = Progress::Over;
                }
            }
            Note::Panicked { .. } | Note::Refused { .. } | Note::Made { .. } | Note::Gone { .. } => {}
        }
    }

    /// Nothing is left to come: whatever has not ended never will.
    pub(super) fn is_over(&mut self, step: u64) {
        self.step = step;
        if self.ledger.partial().is_some() {
            return;
        }
        let untold = self.ledger.lives.keys().next().copied();
        if let Some(ticket) = untold {
            let left = self.ledger.lives.len() - 1;
            let others = if left > 0 { format!(" (and {left} others)") } else { String::new() };
            self.break_promise(1, About::Callback(ticket), format!("was accepted and never told how it ended{others}"));
        }
        let unfinished = |progress: Progress| progress != Progress::Over;
        let dispatcher = self.ledger.dispatchers.iter().find(|(_, book)| unfinished(book.observer)).map(|(id, _)| *id);
        if let Some(dispatcher) = dispatcher {
            self.break_promise(8, About::Dispatcher(dispatcher), "has not shut down");
        }
        let driver = self.ledger.drivers.iter().find(|(_, book)| book.shuts_down && unfinished(book.observer));
        if let Some(driver) = driver.map(|(id, _)| *id) {
            self.break_promise(8, About::Driver(driver), "has not shut down");
        }
    }

    fn dispatcher_made(&mut self, id: u64, driver: u64, name: &str, synchronized: bool) {
        let name = self.ledger.unique("dispatcher", name);
        let book = DispatcherBook { name, driver, synchronized, ..DispatcherBook::default() };
        self.ledger.dispatchers.insert(id, book);
        let Some(owner) = self.ledger.drivers.get_mut(&driver) else { return };
        owner.dispatchers.push(id);
        if owner.shuts_down {
            self.break_promise(8, About::Dispatcher(id), "was made although the shutdown of its driver had begun");
        }
    }

    fn accepted(&mut self, ticket: Ticket, life: Life) {
        let Some(book) = self.ledger.dispatchers.get(&ticket.dispatcher) else { return };
        let (shuts_down, observer) = (book.shuts_down, book.observer);
        let is_delivery = life.is_delivery(ticket);
        let before = self.ledger.take(ticket, life);
        if before.is_some() {
            self.break_promise(1, About::Callback(ticket), "has the number of another one that has not ended");
        } else if observer != Progress::NotYet {
            self.break_promise(8, About::Callback(ticket), "was accepted after the shutdown observer had begun");
        } else if shuts_down && !is_delivery {
            self.break_promise(8, About::Callback(ticket), "was accepted after the shutdown had begun");
        }
    }

    fn ready(&mut self, ticket: Ticket, told: Told) {
        let Some(life) = self.ledger.lives.get_mut(&ticket) else {
            return self.break_promise(1, About::Callback(ticket), "became ready although it had ended");
        };
        let Some(book) = self.ledger.dispatchers.get_mut(&ticket.dispatcher) else { return };
        let was = life.stage;
        if matches!(was, Stage::Ready | Stage::Running) {
            return self.break_promise(1, About::Callback(ticket), "became ready twice");
        }
        let is_kept = told == Told::Failure || life.keeps_result();
        life.stage = Stage::Ready;
        life.told = Some(if book.shuts_down && !is_kept { Told::Canceled } else { told });
        let unasked = told == Told::Canceled && !life.cancel_asked && !book.shuts_down;
        book.unqueue(ticket);
        book.ready.push_back(ticket);
        if unasked {
            self.break_promise(1, About::Callback(ticket), "is canceled although nothing shuts down");
        }
        if told == Told::Outcome {
            self.check_deadlines(ticket);
        }
    }

    /// Timers of a dispatcher become ready by deadline, equal ones in the order of their arming.
    fn check_deadlines(&mut self, ticket: Ticket) {
        let Some(life) = self.ledger.lives.get(&ticket) else { return };
        if life.kind != "delayed task" {
            return;
        }
        let (mine, always_on) = ((life.deadline, life.order), life.always_on);
        let earlier = self.ledger.lives_of(ticket.dispatcher).find(|(_, other)| {
            other.kind == "delayed task"
                && other.stage == Stage::Armed
                && other.always_on == always_on
                && (other.deadline, other.order) < mine
        });
        if let Some((_, other)) = earlier {
            let what = format!("became ready before {}, which was due before", other.describe());
            self.break_promise(3, About::Callback(ticket), what);
        }
    }

    fn parked(&mut self, ticket: Ticket, told: Told, comes_first: bool) {
        let Some(life) = self.ledger.lives.get_mut(&ticket) else { return };
        let Some(book) = self.ledger.dispatchers.get_mut(&ticket.dispatcher) else { return };
        life.stage = Stage::Parked;
        life.told = Some(told);
        book.unqueue(ticket);
        if comes_first { &mut book.parked_first } else { &mut book.parked }.push_back(ticket);
    }

    fn unparked(&mut self, dispatcher: u64) {
        let Some(book) = self.ledger.dispatchers.get_mut(&dispatcher) else { return };
        let mut order = std::mem::take(&mut book.parked_first);
        order.append(&mut book.ready);
        order.append(&mut book.parked);
        for ticket in &order {
            if let Some(life) = self.ledger.lives.get_mut(ticket) {
                life.stage = Stage::Ready;
            }
        }
        book.ready = order;
    }

    fn begun(&mut self, ticket: Ticket, told: Told, here: ThreadId) {
        let about = About::Callback(ticket);
        let Some(life) = self.ledger.lives.get(&ticket).cloned() else {
            if self.ledger.has_ended(ticket) {
                return self.break_promise(1, about, "begins once more");
            }
            // It was posted by a thread that is not part of the run.
            return self.ledger.unwatch(ticket.dispatcher, "posts to");
        };
        let top = self.ledger.top(here).1;
        let Some(book) = self.ledger.dispatchers.get(&ticket.dispatcher) else { return };
        let shuts_down = book.shuts_down;
        let beside = book.running.last().and_then(|running| self.ledger.lives.get(running)).map(Life::describe);
        let must_be_alone = book.synchronized || shuts_down;
        let (first, is_ordered) = (book.ready.front().copied(), book.synchronized || shuts_down);
        let ahead = first.filter(|first| *first != ticket).and_then(|first| self.ledger.lives.get(&first));
        let ahead = ahead.map(Life::describe);
        if life.stage == Stage::Running {
            self.break_promise(1, about, "begins a second time");
        } else if let (true, Some(other)) = (must_be_alone, beside) {
            let promise = if shuts_down { 8 } else { 2 };
            self.break_promise(promise, about, format!("begins beside {other}, which has not returned"));
        } else if life.stage != Stage::Ready {
            self.break_promise(1, about, "begins although what it waits for has not come about");
        } else if let (true, Some(other)) = (is_ordered, ahead) {
            let promise = if shuts_down { 8 } else { 3 };
            self.break_promise(promise, about, format!("begins before {other}, which is to come first"));
        } else if life.told.is_some_and(|expected| expected != told) {
            self.told_wrongly(ticket, &life, told, shuts_down);
        } else if top != ticket.dispatcher {
            self.break_promise(10, about, "begins while its dispatcher is not current");
        }
        if let Some(life) = self.ledger.lives.get_mut(&ticket) {
            (life.stage, life.told, life.begun_at) = (Stage::Running, Some(told), Some(self.step));
        }
        if let Some(book) = self.ledger.dispatchers.get_mut(&ticket.dispatcher) {
            book.unqueue(ticket);
            book.running.push(ticket);
        }
    }

    fn told_wrongly(&mut self, ticket: Ticket, life: &Life, told: Told, shuts_down: bool) {
        let about = About::Callback(ticket);
        match (life.told, told) {
            (Some(Told::Canceled), _) if shuts_down => {
                self.break_promise(8, about, "is not told that it is canceled, although the shutdown had begun before");
            }
            (_, Told::Canceled) => {
                self.break_promise(1, about, "is told that it is canceled, although its outcome had been decided");
            }
            _ => self.break_promise(1, about, "is not told what it became ready with"),
        }
    }

    fn ended(&mut self, ticket: Ticket) {
        let life = self.ledger.lives.get(&ticket);
        let fate = match life.and_then(|life| life.told) {
            Some(Told::Canceled) => Fate::Canceled,
            _ => Fate::Ran,
        };
        if life.is_none_or(|life| life.stage != Stage::Running) {
            self.break_promise(1, About::Callback(ticket), "ends and had not begun");
        }
        self.ledger.end(ticket, Some(fate));
    }

    fn taken_back(&mut self, ticket: Ticket) {
        let stage = self.ledger.lives.get(&ticket).map(|life| life.stage);
        match stage {
            None => self.break_promise(1, About::Callback(ticket), "is taken back although it had ended"),
            Some(Stage::Running | Stage::Working) => {
                self.break_promise(1, About::Callback(ticket), "is taken back although it had begun");
            }
            Some(_) => {}
        }
        self.ledger.end(ticket, Some(Fate::TakenBack));
    }

    fn future_ended(&mut self, ticket: Ticket, fate: Fate) {
        let Some(book) = self.ledger.dispatchers.get(&ticket.dispatcher) else { return };
        let shuts_down = book.shuts_down;
        if !self.ledger.lives.contains_key(&ticket) {
            self.break_promise(1, About::Callback(ticket), "ends once more");
        } else if (fate == Fate::Canceled) != shuts_down && fate != Fate::Ran {
            self.break_promise(1, About::Callback(ticket), "is counted as what it did not end as");
        }
        self.ledger.end(ticket, Some(fate));
    }

    fn entered(&mut self, driver: u64, dispatcher: u64, here: ThreadId) {
        let stack = self.ledger.stacks.entry(here).or_default();
        // What is below work on a lane is not there for it. The lowest frame may be the test's own.
        let above = stack.iter().rposition(|(driver, _)| *driver == 0).map_or(0, |at| at + 1);
        let callers =
            stack[above..].iter().enumerate().filter(|(depth, (_, inside))| *inside != 0 || above + depth > 0);
        let is_inside = dispatcher != 0 && callers.into_iter().any(|(_, (caller, _))| *caller == driver);
        stack.push((driver, dispatcher));
        if is_inside {
            self.break_promise(5, About::Dispatcher(dispatcher), "is called into by a call of its own driver");
        }
    }

    fn shutdown_began(&mut self, dispatcher: u64, here: ThreadId) {
        let Some(book) = self.ledger.dispatchers.get_mut(&dispatcher) else { return };
        let began_before = std::mem::replace(&mut book.shuts_down, true);
        let driver = book.driver;
        self.ledger.cancel_all(dispatcher);
        if began_before {
            return self.break_promise(8, About::Dispatcher(dispatcher), "begins to shut down a second time");
        }
        let Some(owner) = self.ledger.drivers.get_mut(&driver) else { return };
        let out_of_turn = owner.closer == Some(here)
            && owner.to_close.contains(&dispatcher)
            && owner.to_close.front() != Some(&dispatcher);
        owner.to_close.retain(|closing| *closing != dispatcher);
        if out_of_turn {
            self.break_promise(8, About::Dispatcher(dispatcher), "is closed before a newer one of its driver");
        }
    }

    fn observer_begun(&mut self, dispatcher: u64, here: ThreadId) {
        let Some(book) = self.ledger.dispatchers.get_mut(&dispatcher) else { return };
        let (shuts_down, before) = (book.shuts_down, std::mem::replace(&mut book.observer, Progress::Begun));
        if book.is_unwatched || !shuts_down && before == Progress::NotYet {
            // A thread that is not part of the run has shut it down.
            return self.ledger.unwatch(dispatcher, "shuts down");
        }
        // Nothing can begin or end after this that is not complained of here, or when it is accepted.
        let untold = self.ledger.lives_of(dispatcher).next().map(|(ticket, life)| (ticket, life.stage));
        let about = About::Dispatcher(dispatcher);
        if before != Progress::NotYet {
            self.break_promise(8, about, "calls its shutdown observer twice");
        } else if let Some((ticket, Stage::Running | Stage::Working)) = untold {
            self.break_promise(8, About::Callback(ticket), "still runs when the shutdown observer is called");
        } else if let Some((ticket, _)) = untold {
            let what = "was accepted and is not told how it ended: the shutdown observer is called";
            self.break_promise(1, About::Callback(ticket), what);
        } else if self.ledger.top(here).1 != dispatcher {
            self.break_promise(8, about, "calls its shutdown observer while it is not current");
        }
    }

    fn driver_shutdown_began(&mut self, driver: u64, here: ThreadId) {
        let Some(book) = self.ledger.drivers.get_mut(&driver) else { return };
        let is_open = |id: &u64| self.ledger.dispatchers.get(id).is_some_and(|book| !book.shuts_down);
        book.to_close = book.dispatchers.iter().rev().copied().filter(is_open).collect();
        book.closer = Some(here);
        if std::mem::replace(&mut book.shuts_down, true) {
            self.break_promise(8, About::Driver(driver), "begins to shut down a second time");
        }
    }

    fn driver_observer_begun(&mut self, driver: u64) {
        let Some(book) = self.ledger.drivers.get_mut(&driver) else { return };
        let before = std::mem::replace(&mut book.observer, Progress::Begun);
        if !book.shuts_down {
            // As above.
            let what = format!("a thread that is no part of it shuts down driver {}", book.name);
            return self.ledger.see_in_part(what);
        }
        let is_left = |id: &&u64| {
            let left = self.ledger.dispatchers.get(*id);
            left.is_some_and(|left| left.observer != Progress::Over)
        };
        let left = book.dispatchers.iter().find(is_left).copied();
        if before != Progress::NotYet {
            self.break_promise(8, About::Driver(driver), "calls its shutdown observers once too often");
        } else if let Some(left) = left {
            let what = "has not shut down when the observer of its driver is called";
            self.break_promise(8, About::Dispatcher(left), what);
        }
    }
}
