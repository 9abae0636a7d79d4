//! Goal: code can tell in which sequence it runs, and what is used in a wrong place says so.
//! Method: ask on the right dispatcher, on another one, on none, in observers; look at status and sentence of each refusal.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, channel};

use fuchsine_dispatcher::{
    DispatcherBuilder, DispatcherHandle, Driver, SequenceError, SequenceId, Status, SynchronizationChecker,
};
use fuchsine_tests::pools::{World, on_every_pool};

fn dispatcher(driver: &Driver, name: &str) -> DispatcherHandle {
    driver.new_dispatcher(DispatcherBuilder::new().name(name)).expect("created").release()
}

#[track_caller]
fn ask(world: &World, on: &DispatcherHandle, about: &DispatcherHandle) -> Result<SequenceId, SequenceError> {
    let about = about.clone();
    world.run_on(on, move || about.sequence_id())
}

/// What the one sender has sent, or will have.
#[track_caller]
fn told<T>(world: &World, receiver: &Receiver<T>) -> T {
    let mut told = None;
    world.wait_until("what is told", || {
        told = told.take().or_else(|| receiver.try_recv().ok());
        told.is_some()
    });
    told.expect("it was waited for")
}

/// Shows R104, DT-76.
#[test]
fn a_sequence_id_is_had_on_its_dispatcher_alone_and_stays_the_same() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let (one, other) = (dispatcher(&driver, "one"), dispatcher(&driver, "other"));
        let id = ask(world, &one, &one).expect("it is current");
        assert_eq!(ask(world, &one, &one), Ok(id));
        let id_of_other = ask(world, &other, &other).expect("it is current");
        assert_ne!(id, id_of_other);

        let refused = ask(world, &other, &one).expect_err("another one is current");
        assert_eq!(refused.status(), Status::InvalidArgs);
        assert_eq!(refused.to_string(), "dispatcher `other` is current on this thread; dispatcher `one` was expected");

        let refused = one.sequence_id().expect_err("none is current");
        assert_eq!(refused.status(), Status::InvalidArgs);
        assert_eq!(refused.to_string(), "no dispatcher is current on this thread; dispatcher `one` was expected");
        let refused = driver.enter(|| one.sequence_id()).expect_err("a driver that is entered is no dispatcher");
        assert_eq!(refused.status(), Status::InvalidArgs);
    });
}

/// Shows R104, DT-77.
#[test]
fn an_unsynchronized_dispatcher_has_no_sequence_wherever_it_is_asked() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let wide = driver.new_dispatcher(DispatcherBuilder::new().name("wide").unsynchronized()).expect("created");
        let plain = dispatcher(&driver, "plain");
        let id = ask(world, &plain, &plain).expect("it is current");
        for refused in [ask(world, &wide, &wide), ask(world, &plain, &wide), wide.sequence_id()] {
            assert_eq!(refused.expect_err("no sequence").status(), Status::WrongType);
        }
        assert_eq!(wide.check_sequence_id(id).map_err(Status::from), Err(Status::WrongType));
    });
}

/// Shows R105.
#[test]
fn a_foreign_sequence_id_is_out_of_range_after_all_other_errors() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let (one, other) = (dispatcher(&driver, "one"), dispatcher(&driver, "other"));
        let id = ask(world, &one, &one).expect("it is current");
        let foreign = ask(world, &other, &other).expect("it is current");
        let check = |on: &DispatcherHandle, id| {
            let one = one.clone();
            world.run_on(on, move || one.check_sequence_id(id).map_err(|error| error.status()))
        };
        assert_eq!(check(&one, id), Ok(()));
        assert_eq!(check(&one, foreign), Err(Status::OutOfRange));
        assert_eq!(check(&other, id), Err(Status::InvalidArgs));
        assert_eq!(check(&other, foreign), Err(Status::InvalidArgs));
        assert_eq!(one.check_sequence_id(foreign).map_err(|error| error.status()), Err(Status::InvalidArgs));
    });
}

/// Shows R106, DT-86.
#[test]
fn the_observer_of_a_driver_is_in_the_sequence_of_its_first_dispatcher() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let (first, second) = (dispatcher(&driver, "first"), dispatcher(&driver, "second"));
        let id = ask(world, &first, &first).expect("it is current");
        let checker = SynchronizationChecker::new("the table", &first).expect("it is synchronized");
        let (sender, receiver) = channel();
        let asked = (first.clone(), second.clone());
        let observer = move || {
            let ids = [asked.0.sequence_id(), asked.1.sequence_id()].map(|id| id.map_err(|error| error.status()));
            let _ = sender.send((ids, checker.is_in_place(), fuchsine_dispatcher::current().is_none()));
        };
        driver.shutdown(observer).expect("it runs");
        let (ids, is_in_place, none_current) = told(world, &receiver);
        assert_eq!(ids, [Ok(id), Err(Status::InvalidArgs)]);
        assert!(is_in_place && none_current);
        assert!(first.sequence_id().is_err(), "only there");
    });
}

#[test]
fn the_observer_of_a_driver_whose_first_dispatcher_is_pinned_is_in_no_sequence() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let builder = DispatcherBuilder::new().no_thread_migration();
        let first = driver.new_dispatcher(builder).expect("created").release();
        assert!(ask(world, &first, &first).is_ok());
        let (sender, receiver) = channel();
        let observer = move || {
            let _ = sender.send(first.sequence_id().map_err(|error| error.status()));
        };
        driver.shutdown(observer).expect("it runs");
        assert_eq!(told(world, &receiver), Err(Status::InvalidArgs));
    });
}

#[test]
fn the_observer_of_a_dispatcher_is_in_its_sequence() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let (sender, receiver) = channel();
        let observer = move || {
            let current = fuchsine_dispatcher::current().expect("it is current");
            let _ = sender.send(current.sequence_id());
        };
        let owner = driver.new_dispatcher(DispatcherBuilder::new().shutdown_observer(observer)).expect("created");
        let id = ask(world, &owner, &owner);
        drop(owner);
        assert_eq!(told(world, &receiver), id);
    });
}

/// The sentence of the panic of `f`.
#[track_caller]
fn panic_of(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("a panic was expected");
    *payload.downcast::<String>().expect("a sentence")
}

#[test]
fn a_checker_panics_in_a_wrong_place_and_says_what_belongs_where() {
    on_every_pool(|world| {
        let (driver, stranger) = (world.driver("nic"), world.driver("disk"));
        let (home, other) = (dispatcher(&driver, "rx"), dispatcher(&stranger, "io"));
        let checker = SynchronizationChecker::new("the descriptor ring", &home).expect("it is synchronized");
        let asked = checker.clone();
        world.run_on(&home, move || asked.check());
        let asked = checker.clone();
        let sentence = world.run_on(&other, move || panic_of(|| asked.check()));
        assert_eq!(
            sentence,
            "the descriptor ring belongs to dispatcher `rx` of driver `nic` and was used on dispatcher `io` of driver `disk`"
        );
        assert_eq!(
            panic_of(|| checker.check()),
            "the descriptor ring belongs to dispatcher `rx` of driver `nic` and was used on a thread without a current \
             dispatcher"
        );
        // A driver that is entered by hand hides the dispatcher below it.
        let inner = (checker.clone(), driver.clone());
        assert!(!world.run_on(&home, move || inner.1.enter(|| inner.0.is_in_place())));
    });
}

#[test]
fn a_checker_is_made_for_a_sequence_only() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let wide = driver.new_dispatcher(DispatcherBuilder::new().unsynchronized()).expect("created");
        let plain = dispatcher(&driver, "plain");
        let status = |made: Result<SynchronizationChecker, SequenceError>| made.map(|_| ()).map_err(Status::from);
        assert_eq!(status(SynchronizationChecker::new("it", &wide)), Err(Status::WrongType));
        assert_eq!(status(SynchronizationChecker::of_current("it")), Err(Status::InvalidArgs));
        let of_current = || SynchronizationChecker::of_current("it");
        assert_eq!(status(world.run_on(&wide, of_current)), Err(Status::WrongType));
        let made = world.run_on(&plain, of_current).expect("it is synchronized");
        assert!(!made.is_in_place());
        assert!(world.run_on(&plain, move || made.is_in_place()));
    });
}
