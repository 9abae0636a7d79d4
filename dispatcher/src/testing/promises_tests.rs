//! Goal: the oracle notices each promise that is broken, names it, and is content with whatever keeps them.
//! Method: notes written by hand, each list of which breaks one promise once; and runs of the real runtime.

use std::panic::Location;

use super::ForegroundRuntime;
use super::busy::busy_and_suspended;
use super::promises::Oracle;
use crate::runtime::{Counters, DispatcherBuilder};
use crate::site::Site;
use crate::sync::probe::{Actor, Choice, Fate, Note, Others, Point, Probe, Ticket, Told, attach};
use crate::sync::thread::current_id;
use crate::sync::{Arc, Mutex, Weak};

const DRIVER: u64 = 1;
const DISPATCHER: u64 = 7;
const OTHER: u64 = 8;

/// An oracle that is told things by hand.
struct ByHand(Oracle, u64);

/// The callback of a number.
fn ticket(operation: u64) -> Ticket {
    Ticket { dispatcher: DISPATCHER, operation, is_future: false }
}

fn future(operation: u64) -> Ticket {
    Ticket { is_future: true, ..ticket(operation) }
}

impl ByHand {
    /// A driver with two dispatchers, the older of which is synchronized.
    fn new() -> Self {
        let mut told = ByHand(Oracle::default(), 0);
        told.hear(Note::DriverMade { driver: DRIVER, name: "lamp", runtime: 0 });
        told.hear(Note::DispatcherMade { dispatcher: DISPATCHER, driver: DRIVER, name: "switch", synchronized: true });
        told.hear(Note::DispatcherMade { dispatcher: OTHER, driver: DRIVER, name: "bulb", synchronized: false });
        told
    }

    fn hear(&mut self, note: Note) -> &mut Self {
        self.1 += 1;
        self.0.hear(self.1, current_id(), &note);
        self
    }

    fn accept(&mut self, ticket: Ticket, kind: &'static str, deadline: u64) -> &mut Self {
        let location = Site::caller();
        self.hear(Note::Accepted { ticket, kind, type_name: "a closure", location, deadline, always_on: false })
    }

    /// Tasks of these numbers that are ready.
    fn post(&mut self, operations: &[u64]) -> &mut Self {
        for &operation in operations {
            self.accept(ticket(operation), "task", u64::MAX).ready(operation);
        }
        self
    }

    fn ready(&mut self, operation: u64) -> &mut Self {
        self.hear(Note::Ready { ticket: ticket(operation), told: Told::Outcome })
    }

    fn enter(&mut self) -> &mut Self {
        self.hear(Note::Entered { driver: DRIVER, dispatcher: DISPATCHER })
    }

    fn begin(&mut self, operation: u64) -> &mut Self {
        self.begin_with(operation, Told::Outcome)
    }

    fn begin_with(&mut self, operation: u64, told: Told) -> &mut Self {
        self.hear(Note::Begun { ticket: ticket(operation), told, inline: false })
    }

    fn end(&mut self, operation: u64) -> &mut Self {
        self.hear(Note::Ended { ticket: ticket(operation) })
    }

    fn cancel(&mut self, operation: u64) -> &mut Self {
        self.begin_with(operation, Told::Canceled).end(operation)
    }

    fn shut_down(&mut self) -> &mut Self {
        self.hear(Note::ShutdownBegan { dispatcher: DISPATCHER })
    }

    fn observe(&mut self) -> &mut Self {
        self.hear(Note::ObserverBegun { dispatcher: DISPATCHER }).hear(Note::ObserverEnded { dispatcher: DISPATCHER })
    }

    fn end_all(&mut self) -> &mut Self {
        for dispatcher in [OTHER, DISPATCHER] {
            self.hear(Note::Entered { driver: DRIVER, dispatcher });
            self.hear(Note::ObserverBegun { dispatcher }).hear(Note::ObserverEnded { dispatcher }).hear(Note::Left);
        }
        self
    }

    #[track_caller]
    fn breaks(&mut self, promise: u8, what: &str) {
        let broken = self.0.first_broken().expect("a promise was broken");
        let text = broken.to_string();
        assert_eq!(broken.promise, promise, "{text}");
        assert!(text.contains(what), "{text}");
    }

    #[track_caller]
    fn keeps_all(&mut self) {
        assert_eq!(self.0.first_broken().map(ToString::to_string), None);
    }
}

#[test]
fn what_keeps_the_promises_is_not_complained_of() {
    let mut told = ByHand::new();
    told.post(&[1, 2]).enter().begin(1).end(1).begin(2);
    told.accept(ticket(3), "delayed task", 50).accept(ticket(4), "delayed task", 20).accept(ticket(5), "wait", 0);
    told.accept(ticket(6), "channel read", 0).accept(ticket(7), "token", 0).accept(ticket(8), "offload", 0);
    told.accept(future(9), "future", 0).post(&[10]).shut_down().end(2);
    for operation in [10, 6, 5, 4, 3, 8, 7] {
        told.cancel(operation);
    }
    told.hear(Note::FutureDropped { ticket: future(9) });
    told.hear(Note::FutureEnded { ticket: future(9), fate: Fate::Canceled }).observe().hear(Note::Left);
    told.keeps_all();
}

#[test]
fn promise_1_a_callback_that_begins_twice_or_never_ends_is_noticed() {
    ByHand::new().post(&[1]).enter().begin(1).end(1).begin(1).breaks(1, "begins once more");
    ByHand::new().post(&[1, 1]).breaks(1, "has the number of another one");
    ByHand::new().post(&[1]).ready(1).breaks(1, "became ready twice");
    ByHand::new().post(&[1]).enter().begin(1).hear(Note::TakenBack { ticket: ticket(1) }).breaks(1, "had begun");
    let mut over = ByHand::new();
    over.post(&[1, 2]);
    over.0.is_over(9);
    over.breaks(1, "never told how it ended (and 1 others)");
    ByHand::new().post(&[1]).enter().shut_down().observe().breaks(1, "is not told how it ended");
    ByHand::new().accept(ticket(1), "wait", 0).enter().begin(1).breaks(1, "has not come about");
}

#[test]
fn promise_1_what_comes_after_the_end_or_before_the_beginning_is_noticed() {
    let mut twice = ByHand::new();
    twice.post(&[1]).enter().begin(1).begin(1).breaks(1, "begins a second time");
    ByHand::new().post(&[1]).enter().begin(1).end(1).ready(1).breaks(1, "became ready although it had ended");
    ByHand::new().post(&[1]).end(1).breaks(1, "ends and had not begun");
    let mut late = ByHand::new();
    late.post(&[1]).enter().begin(1).end(1).hear(Note::TakenBack { ticket: ticket(1) });
    late.breaks(1, "is taken back although it had ended");
}

#[test]
fn promise_1_an_outcome_that_is_changed_on_the_way_is_noticed() {
    ByHand::new().post(&[1]).enter().begin_with(1, Told::Canceled).breaks(1, "had been decided");
    let mut failed = ByHand::new();
    failed.accept(ticket(1), "channel read", 0).hear(Note::Ready { ticket: ticket(1), told: Told::Failure });
    failed.shut_down().enter().cancel(1).breaks(1, "had been decided");
    let mut praised = ByHand::new();
    praised.accept(ticket(1), "channel read", 0).hear(Note::Ready { ticket: ticket(1), told: Told::Failure });
    praised.enter().begin(1).breaks(1, "is not told what it became ready with");
    let mut canceled = ByHand::new();
    canceled.accept(ticket(1), "channel read", 0).hear(Note::Ready { ticket: ticket(1), told: Told::Canceled });
    canceled.breaks(1, "although nothing shuts down");
    let mut asked = ByHand::new();
    asked.accept(ticket(1), "channel read", 0).hear(Note::CancelAsked { ticket: ticket(1) });
    asked.hear(Note::Ready { ticket: ticket(1), told: Told::Canceled }).enter().cancel(1).keeps_all();
}

#[test]
fn promise_1_a_future_ends_once_and_as_what_it_is_counted() {
    let mut told = ByHand::new();
    told.enter().accept(future(1), "future", 0).hear(Note::FutureEnded { ticket: future(1), fate: Fate::Ran });
    told.hear(Note::FutureEnded { ticket: future(1), fate: Fate::Ran }).breaks(1, "ends once more");
    let mut told = ByHand::new();
    told.accept(future(1), "future", 0).hear(Note::FutureEnded { ticket: future(1), fate: Fate::Canceled });
    told.breaks(1, "is counted as what it did not end as");
}

#[test]
fn promise_2_callbacks_of_a_synchronized_dispatcher_that_overlap_are_noticed() {
    ByHand::new().post(&[1, 2]).enter().begin(1).begin(2).breaks(2, "begins beside task of a closure");
}

#[test]
fn promise_3_a_callback_that_overtakes_is_noticed() {
    ByHand::new().post(&[1, 2]).enter().begin(2).breaks(3, "which is to come first");
    let mut timers = ByHand::new();
    timers.accept(ticket(1), "delayed task", 20).accept(ticket(2), "delayed task", 10).ready(1);
    timers.breaks(3, "which was due before");
    let mut equal = ByHand::new();
    equal.accept(ticket(1), "delayed task", 20).accept(ticket(2), "delayed task", 20).ready(2);
    equal.breaks(3, "which was due before");
    let mut resumed = ByHand::new();
    for (operation, comes_first) in [(1, false), (2, true)] {
        resumed.accept(ticket(operation), "wait", 0).hear(Note::Parked {
            ticket: ticket(operation),
            told: Told::Outcome,
            comes_first,
        });
    }
    resumed.hear(Note::Unparked { dispatcher: DISPATCHER }).enter().begin(1).breaks(3, "which is to come first");
}

#[test]
fn promise_5_a_driver_that_is_called_into_by_itself_is_noticed() {
    let mut told = ByHand::new();
    told.enter().hear(Note::Entered { driver: 2, dispatcher: 9 });
    told.hear(Note::Entered { driver: DRIVER, dispatcher: OTHER }).breaks(5, "by a call of its own driver");
    let mut work = ByHand::new();
    work.enter().hear(Note::Entered { driver: 0, dispatcher: 0 });
    work.hear(Note::Entered { driver: DRIVER, dispatcher: OTHER }).keeps_all();
}

#[test]
fn promise_8_a_shutdown_out_of_order_is_noticed() {
    ByHand::new().shut_down().post(&[1]).breaks(8, "accepted after the shutdown had begun");
    ByHand::new().post(&[1]).shut_down().enter().begin(1).breaks(8, "although the shutdown had begun before");
    ByHand::new().post(&[1, 2]).shut_down().enter().cancel(2).breaks(8, "which is to come first");
    ByHand::new().post(&[1, 2]).enter().begin(1).shut_down().cancel(2).breaks(8, "which has not returned");
    ByHand::new().shut_down().shut_down().breaks(8, "a second time");
    let mut waits = ByHand::new();
    waits.accept(ticket(1), "delayed task", 5).accept(ticket(2), "wait", 0).shut_down().enter().cancel(1);
    waits.breaks(8, "which is to come first");
}

#[test]
fn promise_8_an_observer_that_comes_early_or_twice_is_noticed() {
    ByHand::new().shut_down().enter().observe().observe().breaks(8, "twice");
    ByHand::new().shut_down().observe().breaks(8, "while it is not current");
    ByHand::new().post(&[1]).enter().begin(1).shut_down().observe().breaks(8, "still runs");
    let mut late = ByHand::new();
    late.post(&[1]).shut_down().enter().cancel(1).observe().accept(ticket(2), "future", 0);
    late.breaks(8, "after the shutdown observer had begun");
    let mut over = ByHand::new();
    over.shut_down();
    over.0.is_over(9);
    over.breaks(8, "has not shut down");
}

/// Whatever has not ended when the observer is called is complained of there, so nothing is left whose begin or end after
/// that would have to be.
#[test]
fn promise_8_what_begins_or_ends_after_the_observer_was_complained_of_before_or_has_no_number() {
    let over = || {
        let mut told = ByHand::new();
        told.post(&[1]).accept(future(2), "future", 0).shut_down().enter().cancel(1);
        told.hear(Note::FutureEnded { ticket: future(2), fate: Fate::Canceled }).observe().keeps_all();
        told
    };
    over().begin(1).breaks(1, "begins once more");
    over().end(1).breaks(1, "ends and had not begun");
    over().hear(Note::FutureEnded { ticket: future(2), fate: Fate::Canceled }).breaks(1, "ends once more");
    over().post(&[3]).breaks(8, "was accepted after the shutdown observer had begun");
    ByHand::new().post(&[1]).shut_down().enter().observe().breaks(1, "the shutdown observer is called");
    let mut late = ByHand::new();
    late.accept(future(2), "future", 0).shut_down().enter().observe().breaks(1, "the shutdown observer is called");
}

#[test]
fn promise_8_a_driver_closes_its_dispatchers_newest_first_and_is_told_last() {
    let close = |dispatcher| Note::ShutdownBegan { dispatcher };
    let begun = Note::DriverShutdownBegan { driver: DRIVER };
    ByHand::new().hear(begun).hear(close(OTHER)).hear(close(DISPATCHER)).keeps_all();
    ByHand::new().hear(begun).hear(close(DISPATCHER)).breaks(8, "before a newer one");
    ByHand::new().hear(begun).hear(begun).breaks(8, "a second time");
    let observer = Note::DriverObserverBegun { driver: DRIVER };
    ByHand::new().hear(begun).hear(observer).breaks(8, "has not shut down when the observer of its driver is called");
    ByHand::new().hear(begun).hear(close(OTHER)).hear(close(DISPATCHER)).end_all().hear(observer).keeps_all();
    let mut again = ByHand::new();
    again.hear(begun).hear(close(OTHER)).hear(close(DISPATCHER)).end_all().hear(observer).hear(observer);
    again.breaks(8, "calls its shutdown observers once too often");
    let made = Note::DispatcherMade { dispatcher: 9, driver: DRIVER, name: "late", synchronized: true };
    ByHand::new().hear(begun).hear(made).breaks(8, "although the shutdown of its driver had begun");
}

#[test]
fn what_threads_outside_of_the_run_do_is_not_judged() {
    ByHand::new().enter().begin(1).end(1).begin(1).post(&[2, 2]).observe().keeps_all();
    ByHand::new().post(&[1]).enter().observe().keeps_all();
    let mut over = ByHand::new();
    over.enter().begin(1);
    over.0.is_over(9);
    over.keeps_all();
}

#[test]
fn promise_10_what_is_called_or_dropped_out_of_context_is_noticed() {
    ByHand::new().post(&[1]).begin(1).breaks(10, "while its dispatcher is not current");
    let mut told = ByHand::new();
    told.accept(future(1), "future", 0).hear(Note::FutureDropped { ticket: future(1) });
    told.breaks(10, "is dropped while its dispatcher is not current");
}

#[test]
fn the_report_names_promise_step_callback_dispatcher_and_driver() {
    let mut told = ByHand::new();
    told.post(&[1, 2]).enter().begin(2);
    let text = told.0.first_broken().expect("it overtook").to_string();
    let here = file!();
    assert!(
        text.starts_with(&format!("promise 3 (first in, first out) is broken at step 9: task of a closure ({here}:")),
        "{text}"
    );
    assert!(text.ends_with("; dispatcher \"switch\" of driver \"lamp\""), "{text}");
}

/// An oracle that is told of a real run.
struct Watching(Mutex<Oracle>);

impl Probe for Watching {
    fn choose(&self, _choice: Choice, _of: usize) -> usize {
        0
    }

    fn turn(&self, _others: Weak<dyn Others>) {}

    fn next(&self, _actors: &[Actor]) -> usize {
        0
    }

    fn point(&self, _point: Point) {}

    fn panicked(&self, _message: &str, _location: Option<&Location<'_>>) {}

    fn note(&self, note: Note) {
        self.0.lock().hear(1, current_id(), &note);
    }
}

#[test]
fn a_run_of_everything_keeps_all_promises_in_the_eyes_of_the_oracle() {
    for make in [
        DispatcherBuilder::new,
        || DispatcherBuilder::new().unsynchronized(),
        || DispatcherBuilder::new().allow_sync_calls(),
    ] {
        let watching = Arc::new(Watching(Mutex::new(Oracle::default())));
        let _attached = attach(Some(Arc::clone(&watching) as Arc<dyn Probe>));
        let runtime = ForegroundRuntime::new();
        let driver = runtime.new_driver("lamp");
        let dispatcher = driver.new_dispatcher(make().name("switch")).expect("it is made");
        busy_and_suspended(&runtime, &driver, &dispatcher);
        let counters = runtime.counters();
        {
            let mut oracle = watching.0.lock();
            oracle.is_over(2);
            assert_eq!(oracle.first_broken().map(ToString::to_string), None);
            assert_eq!(Counters { refused: counters.refused, ..oracle.ledger().tally() }, counters);
        }
    }
}
