//! Goal: which driver and which dispatcher a thread is inside of, by the rules of Fuchsia's driver runtime.
//! Method: nested entries on plain threads; callbacks that look around, on every kind of runtime.

mod conformance_support;

use std::sync::Arc;

use conformance_support::{Log, make, on_message, plain, task, write};
use fuchsine_dispatcher::testing::set_default_dispatcher;
use fuchsine_dispatcher::{
    Channel, DispatcherBuilder, Driver, Runtime, RuntimeBuilder, Status, blocking, current, current_driver,
};
use fuchsine_tests::pools::{in_the_foreground, on_every_pool, on_every_pool_calling_inline, on_pools};

fn names() -> (Option<String>, Option<String>) {
    let driver = current_driver().map(|driver| driver.name().to_owned());
    (driver, current().map(|dispatcher| dispatcher.name().to_owned()))
}

/// A hundred drivers, each entered inside of the one before.
fn descend(drivers: &[Driver], depth: usize) {
    let Some(driver) = drivers.get(depth) else { return };
    driver.enter(|| {
        assert_eq!(current_driver().as_ref(), Some(driver));
        assert_eq!(current(), None, "a driver is on top, and no dispatcher");
        descend(drivers, depth + 1);
        assert_eq!(current_driver().as_ref(), Some(driver), "leaving the next one restores it");
    });
}

/// Shows R8, R12, TC-1.
#[test]
fn the_current_driver_follows_what_is_entered_and_left() {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("the system has a thread");
    let drivers: Vec<Driver> = (0..100).map(|nth| runtime.new_driver(nth.to_string())).collect();
    assert_eq!(names(), (None, None));
    descend(&drivers, 0);
    assert_eq!(names(), (None, None));
}

/// Shows R8, TC-3.
#[test]
fn each_thread_has_a_call_stack_of_its_own() {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("the system has a thread");
    let (a, b) = (runtime.new_driver("a"), runtime.new_driver("b"));
    a.enter(|| {
        let other = std::thread::spawn(move || {
            let before = current_driver();
            let inside = b.enter(current_driver);
            (before, inside == Some(b), current_driver())
        });
        assert_eq!(other.join().expect("the thread ends"), (None, true, None));
        assert_eq!(current_driver(), Some(a.clone()));
    });
}

/// Shows R10.
#[test]
fn a_driver_may_be_entered_again_while_the_thread_is_inside_of_it() {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("the system has a thread");
    let (a, b) = (runtime.new_driver("a"), runtime.new_driver("b"));
    let seen = a.enter(|| b.enter(|| a.enter(current_driver)));
    assert_eq!(seen, Some(a));
    assert_eq!(current_driver(), None);
}

/// Shows R7.
#[test]
fn each_callback_finds_its_dispatcher_and_driver_on_top_and_leaves_nothing() {
    on_every_pool(|world| {
        let dispatcher = plain(world, "inside");
        let other = world.driver("other");
        let seen = world.run_on(&dispatcher, move || {
            let mut seen = vec![names()];
            other.enter(|| seen.push(names()));
            seen.push(names());
            seen
        });
        let inside = (Some("inside".to_owned()), Some("inside".to_owned()));
        assert_eq!(seen, [inside.clone(), (Some("other".to_owned()), None), inside]);
        assert_eq!(names(), (None, None));
    });
}

/// Shows R7.
#[test]
fn creation_enters_the_owner_for_the_call_only() {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("the system has a thread");
    let (a, b) = (runtime.new_driver("a"), runtime.new_driver("b"));
    let made = a.enter(|| {
        let made = b.new_dispatcher(DispatcherBuilder::new()).expect("it is made");
        assert_eq!(current_driver(), Some(a.clone()));
        made
    });
    assert_eq!(made.owner(), b);
    assert_eq!(current_driver(), None);
}

/// Shows R13, R51.
#[test]
fn a_thread_that_enters_a_driver_is_inside_of_it_and_yet_none_of_the_pool() {
    on_pools(|world| {
        let (driver, reader) = (world.driver("entered"), plain(world, "reader"));
        let (near, far) = Channel::pair();
        let log = Log::default();
        let entry = log.clone();
        let test = std::thread::current().id();
        on_message(&far, &reader, move |_| {
            entry.add(format!("on the test's thread: {}", std::thread::current().id() == test));
        });
        driver.enter(|| {
            write(&near);
            // It may block: it holds up nobody.
            assert_eq!(blocking(|| 42).ok(), Some(42));
            world.settle();
        });
        assert_eq!(log.take(), ["on the test's thread: false"]);
    });
}

/// Three dispatchers of three drivers: 2 tells 1, which runs inside of it and answers; the answer is deferred.
///
/// Shows DT-64.
#[test]
fn the_current_dispatcher_follows_a_message_there_and_back() {
    on_every_pool_calling_inline(|world| {
        let (one, two) = (plain(world, "one"), plain(world, "two"));
        let (near, far) = Channel::pair();
        let (near, far) = (Arc::new(near), Arc::new(far));
        let log = Log::default();
        let (entry, end) = (log.clone(), Arc::clone(&far));
        on_message(&far, &one, move |_| {
            entry.add(format!("request {:?}", names().1));
            end.try_read().expect("a call stands for a message");
            write(&end);
        });
        let entry = log.clone();
        on_message(&near, &two, move |_| entry.add(format!("reply {:?}", names().1)));
        let (entry, end) = (log.clone(), Arc::clone(&near));
        task(&two, move || {
            write(&end);
            entry.add(format!("written {:?}", names().1));
        });
        world.wait_until("the reply", || log.len() == 3);
        assert_eq!(log.take(), [r#"request Some("one")"#, r#"written Some("two")"#, r#"reply Some("two")"#]);
    });
}

/// Shows DT-65, R144.
#[test]
fn canceled_callbacks_and_the_observer_find_their_dispatcher_on_top() {
    on_every_pool(|world| {
        let log = Log::default();
        let entry = log.clone();
        let builder = DispatcherBuilder::new().shutdown_observer(move || entry.add(format!("observer {:?}", names())));
        let dispatcher = make(world, "d", builder);
        let (_near, far) = Channel::pair();
        let entry = log.clone();
        on_message(&far, &dispatcher, move |outcome| {
            assert_eq!(outcome, Err(Status::Canceled));
            entry.add(format!("read {:?}", names()));
        });
        dispatcher.shutdown_async();
        world.wait_until("the observer", || log.len() == 2);
        let place = r#"(Some("d"), Some("d"))"#;
        assert_eq!(log.take(), [format!("read {place}"), format!("observer {place}")]);
    });
}

/// Shows R17, R21, DT-79.
#[test]
fn a_dispatcher_is_made_inside_of_a_driver_only_and_belongs_to_it() {
    fn made(runtime: &Runtime) -> Status {
        DispatcherBuilder::new().build().map(|made| drop((made, runtime))).expect_err("no driver").status()
    }
    on_every_pool(|world| {
        assert_eq!(made(world.runtime()), Status::InvalidArgs);
        let parent = plain(world, "parent");
        let child = world.run_on(&parent, || DispatcherBuilder::new().name("child").build().expect("it is made"));
        assert_eq!(child.owner(), parent.owner());
        let by_hand = world.driver("entered").enter(|| DispatcherBuilder::new().build().expect("it is made"));
        assert_eq!(by_hand.owner().name(), "entered");
    });
}

/// Shows U-25.
#[test]
fn the_always_on_view_as_default_stands_for_its_dispatcher_and_inside_of_anything_it_is_refused() {
    in_the_foreground(|world| {
        let dispatcher = plain(world, "default");
        set_default_dispatcher(Some(&dispatcher.always_on())).expect("the thread is inside of nothing");
        assert_eq!((current(), current_driver()), (Some(dispatcher.handle()), Some(dispatcher.owner())));
        assert_eq!(current().map(|current| current.is_always_on()), Some(false));
        let inside = dispatcher.owner().enter(|| set_default_dispatcher(Some(&dispatcher.always_on())));
        assert_eq!(inside, Err(Status::BadState));
        set_default_dispatcher(None).expect("the thread is inside of nothing");
        assert_eq!(current(), None);
    });
}
