//! Model checks of dumps beside callbacks, takes back, shutdowns, and the ends of drivers.
//!
//! What is real and what is modelled is said in `shuttle_dispatcher.rs`, whose helpers these models use. Threads of a model
//! have no names and share what they publish, so who runs where is not looked at here.

use super::dump::{DispatcherDump, RuntimeDump};
use super::shuttle_dispatcher::{conclude, explore, set_up};
use super::{DispatcherBuilder, DispatcherState};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, thread};

/// What holds in every dump of a dispatcher.
fn check(dump: &DispatcherDump) {
    let counters = dump.counters;
    assert!(counters.add_up(), "{counters:?}");
    let listed = dump.pending.len() + dump.pending_not_listed;
    assert_eq!(dump.queues.iter().map(|(_, len)| len).sum::<usize>(), listed, "{dump}");
    assert!(dump.running.len() <= 1, "{dump}");
    assert!(dump.longest_queue >= dump.queued("ready"), "{dump}");
    if matches!(dump.state, DispatcherState::Shutdown | DispatcherState::Destroyed) {
        assert_eq!((listed, dump.futures), (0, 0), "{dump}");
    }
    serialize(&dump.to_json());
}

fn check_all(dump: &RuntimeDump) {
    dump.drivers.iter().flat_map(|driver| &driver.dispatchers).for_each(check);
    serialize(&dump.to_json());
}

fn serialize(json: &str) {
    assert!(json.starts_with("{\"version\":1,") && json.ends_with('}'), "{json}");
}

/// A dump of a dispatcher is made while its callbacks run, one of them is taken back, and it shuts down: its numbers
/// add up at each moment, and what is listed is what is counted.
#[test]
fn shuttle_a_dump_beside_callbacks_and_a_shutdown_sees_one_moment() {
    explore(|| {
        let (runtime, _driver, dispatcher, seen) = set_up(1);
        for name in ["first", "second"] {
            let visited = Arc::clone(&seen);
            dispatcher.post_task(move |outcome| visited.visit(name, outcome)).expect("it runs");
        }
        let visited = Arc::clone(&seen);
        let third = dispatcher.post_cancelable(move |outcome| visited.visit("third", outcome)).expect("it runs");
        let looked_at = dispatcher.handle();
        let dumper = thread::spawn("dumper", move || {
            for _ in 0..3 {
                check(&looked_at.dump());
            }
        })
        .expect("a thread");
        let taken_back = third.cancel().is_ok();
        dispatcher.shutdown_async();
        dumper.join().expect("it ends");
        conclude(&runtime, &seen, &["first", "second"]);
        assert_eq!(seen.ended.lock().contains_key("third"), !taken_back);
    });
}

/// A driver is dumped, by itself and with its runtime, while it is suspended and resumed and a callback of it runs: nobody
/// waits for a lock that is held by somebody who waits for one of theirs.
#[test]
fn shuttle_a_dump_of_a_driver_that_is_suspended_and_resumed_waits_for_nobody() {
    explore(|| {
        let (runtime, driver, dispatcher, seen) = set_up(1);
        let visited = Arc::clone(&seen);
        dispatcher.post_task(move |outcome| visited.visit("task", outcome)).expect("it runs");
        let (looked_at, whole) = (driver.clone(), runtime.clone());
        let dumper = thread::spawn("dumper", move || {
            looked_at.dump().dispatchers.iter().for_each(check);
            check_all(&whole.dump());
        })
        .expect("a thread");
        let told = Arc::new(AtomicUsize::new(0));
        let completer = Arc::clone(&told);
        driver.suspend(move |_| _ = completer.fetch_add(1, Ordering::AcqRel)).expect("it runs");
        driver.resume();
        dumper.join().expect("it ends");
        conclude(&runtime, &seen, &["task"]);
        assert_eq!(told.load(Ordering::Acquire), 1);
    });
}

/// The whole runtime is dumped while a driver creates a dispatcher, drops its last handle, and all shuts down: no lock is
/// taken in the wrong order, and a driver whose last reference is the dump's goes in peace.
#[test]
fn shuttle_a_dump_of_a_runtime_beside_creation_and_the_end_of_drivers_waits_for_nobody() {
    explore(|| {
        let (runtime, driver, dispatcher, seen) = set_up(1);
        let visited = Arc::clone(&seen);
        dispatcher.post_task(move |outcome| visited.visit("task", outcome)).expect("it runs");
        let looked_at = runtime.clone();
        let dumper = thread::spawn("dumper", move || {
            for _ in 0..2 {
                check_all(&looked_at.dump());
            }
        })
        .expect("a thread");
        let making = runtime.clone();
        let maker = thread::spawn("maker", move || {
            let other = making.new_driver("other");
            let _ = other.new_dispatcher(DispatcherBuilder::new().name("short-lived")).map(drop);
        })
        .expect("a thread");
        drop(driver);
        dispatcher.shutdown_async();
        maker.join().expect("it ends");
        dumper.join().expect("it ends");
        conclude(&runtime, &seen, &["task"]);
        check_all(&runtime.dump());
    });
}
