//! Goal: no public call of the dispatchers, channels and futures ends the process, hangs, or leaves something behind that
//! does not work any more, wherever it is made: the answer is a value or a status.
//! Method: each operation is made at each place (in callbacks of every kind, in observers, drops, wakers, while a thread
//! unwinds, on things that are gone), on a runtime of its own, and afterwards that runtime has to work and to shut down.
//! All of it runs in a process of its own, so that an abort is seen and told. A list of all public functions is compared
//! with the operations, so none is left out.

#[path = "../common/mod.rs"]
mod common;
mod coverage;
mod kit_operations;
mod operations;
mod panics;
mod places;
mod site_operations;
mod state_operations;
mod things;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use common::in_a_process_of_its_own;
use fuchsine_tests::random::Random;
use operations::{Answer, Operation};
use places::PLACES;
use things::{Things, text_of};

/// All operations.
fn operations() -> impl Iterator<Item = &'static Operation> {
    operations::OPERATIONS
        .iter()
        .chain(state_operations::OPERATIONS)
        .chain(kit_operations::OPERATIONS)
        .chain(site_operations::OPERATIONS)
}

/// What became of one operation at one place.
#[derive(Debug)]
enum Met {
    Answered(Answer),
    Panicked(String),
}

/// Makes one operation at one place, and has the runtime work and end afterwards.
fn make(place: &places::Place, operation: &Operation) -> Met {
    let things = Arc::new(Things::new());
    let met: Arc<Mutex<Option<Met>>> = Arc::default();
    let (with, telling, call) = (Arc::clone(&things), Arc::clone(&met), operation.call);
    (place.go)(
        &things,
        Box::new(move || {
            let answer = catch_unwind(AssertUnwindSafe(|| call.make(&with)));
            let answer = answer.map_or_else(|panic| Met::Panicked(text_of(&*panic)), Met::Answered);
            *telling.lock().expect("nobody panics here") = Some(answer);
        }),
    );
    let met = things.wait_for(|| met.lock().expect("nobody panics here").take());
    let Some(met) = met else { panic!("{} {}: never came about", place.name, operation.name) };
    things.works_or_is_over();
    things.end();
    met
}

/// Shows W16, CH-R57, CH-R58, D3, CT-32.
#[test]
fn every_operation_is_answered_at_every_place() {
    let child = in_a_process_of_its_own("every_operation_is_answered_at_every_place", || {
        // A call that hangs is told by the last line, too.
        std::thread::spawn(|| {
            std::thread::sleep(std::time::Duration::from_secs(300));
            eprintln!("it hangs");
            std::process::abort();
        });
        // What panics on purpose says so on standard error, thousands of times.
        std::panic::set_hook(Box::new(|_| ()));
        let mut wrong = Vec::new();
        let mut answered = 0;
        for place in PLACES {
            for operation in operations() {
                eprintln!("{} {}", place.name, operation.name);
                match make(place, operation) {
                    Met::Answered(_) => answered += 1,
                    Met::Panicked(text) if operation.may_panic.is_some_and(|part| text.contains(part)) => answered += 1,
                    Met::Panicked(text) => wrong.push(format!("{} {}: {text}", place.name, operation.name)),
                }
            }
        }
        eprintln!("{answered} answered, wrong: {wrong:#?}");
        assert_eq!(answered, PLACES.len() * operations().count());
    });
    if let Some(child) = child {
        let last: Vec<&str> = child.text.lines().rev().take(40).collect();
        assert!(child.succeeded, "ended by signal {:?}; the last lines, newest first:\n{last:#?}", child.signal);
    }
}

/// Everything that holds something, dropped in a random order, some of it in callbacks.
#[test]
fn things_may_be_dropped_in_any_order() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let things = Things::new();
        let elsewhere = Things::new();
        let mut parts = things.parts();
        while !parts.is_empty() {
            let part = parts.swap_remove(random.below(parts.len()));
            if random.below(3) == 0 {
                // Refused when it has shut down, and then dropped here.
                let _ = elsewhere.target.post_task(move |_| drop(part));
            } else {
                drop(part);
            }
        }
        elsewhere.end();
    }
}

/// The answers of things that are gone are those that the documentation promises.
#[test]
fn what_is_gone_answers_with_a_status() {
    let gone = PLACES.iter().find(|place| place.name == "after the runtime").expect("there is such a place");
    let mut statuses = 0;
    for operation in operations() {
        match (operation.needs_running, make(gone, operation)) {
            (true, Met::Answered(Answer::Status(_))) => statuses += 1,
            (true, met) => panic!("{} was answered by {met:?} after the end", operation.name),
            (false, _) => {}
        }
    }
    assert!(statuses >= 10, "{statuses}");
}
