//! Goal: a value that is bound to a dispatcher is made, used and dropped there and nowhere else, in order.
//! Method: a value that notes each event with the dispatcher that is current; the notes are read at the end.

mod common;

use std::collections::HashSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use common::Log;
use fuchsine_dispatcher::{
    BoundCall, Dispatcher, DispatcherBound, DispatcherBuilder, DispatcherHandle, DispatcherState, Instant, PanicPolicy,
    RuntimeBuilder, Status, current,
};
use fuchsine_tests::pools::{World, in_usual_order, on_every_pool, on_every_pool_with, on_pools};

/// A value that notes what happens to it, and where.
struct Noted {
    log: Log,
    count: u32,
}

impl Noted {
    fn new(log: &Log) -> Self {
        let made = Noted { log: log.clone(), count: 0 };
        made.note("made");
        made
    }

    fn note(&self, what: &str) {
        let place = current().map_or("nowhere".to_owned(), |dispatcher| dispatcher.name().to_owned());
        self.log.add(format!("{what} on {place}"));
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.note("dropped");
    }
}

fn home(world: &World, log: &Log) -> Dispatcher {
    let log = log.clone();
    let builder = DispatcherBuilder::new().name("home").shutdown_observer(move || log.add("observed"));
    world.driver("driver").new_dispatcher(builder).expect("created")
}

/// The result of a call, once it is there.
#[track_caller]
fn result<R>(world: &World, mut reply: BoundCall<R>) -> Result<R, Status> {
    let mut result = None;
    world.wait_until("the reply", || {
        result = result.take().or_else(|| reply.try_take());
        result.is_some()
    });
    result.expect("it was waited for").map_err(Status::from)
}

/// Holds the dispatcher until it is dropped, so that what is posted meanwhile waits. In the foreground nothing has to be
/// held.
struct Held(#[expect(dead_code, reason = "its drop lets go")] Option<std::sync::mpsc::Sender<()>>);

fn hold(world: &World, dispatcher: &DispatcherHandle) -> Held {
    if world.is_foreground() {
        return Held(None);
    }
    let (held, release) = std::sync::mpsc::channel::<()>();
    let (entered, is_entered) = std::sync::mpsc::channel();
    dispatcher
        .post_task(move |_| {
            entered.send(()).expect("it is awaited");
            let _ = release.recv();
        })
        .expect("accepted");
    is_entered.recv().expect("it is held");
    Held(Some(held))
}

#[test]
fn a_bound_value_is_made_called_and_dropped_on_its_dispatcher_in_order() {
    on_every_pool(|world| {
        let log = Log::new();
        let home = home(world, &log);
        let making = log.clone();
        let bound = DispatcherBound::new(&home, move || Noted::new(&making)).expect("accepted");
        for round in 0..3 {
            let between = log.clone();
            bound.async_call(move |value| value.note(&format!("called {round}"))).expect("accepted");
            home.post_task(move |_| between.add(format!("posted {round}"))).expect("accepted");
        }
        drop(bound);
        let last = log.clone();
        home.post_task(move |_| last.add("posted last")).expect("accepted");
        world.settle();
        assert_eq!(
            log.take(),
            [
                "made on home",
                "called 0 on home",
                "posted 0",
                "called 1 on home",
                "posted 1",
                "called 2 on home",
                "posted 2",
                "dropped on home",
                "posted last"
            ]
        );
        world.wait_until("the end of the keeper", || home.counters().pending == 0);
        drop(home);
        world.shutdown();
        assert_eq!(log.take(), ["observed"]);
    });
}

#[test]
fn calls_from_many_threads_never_overlap_and_each_is_made() {
    in_usual_order(|world| {
        let log = Log::new();
        let home = home(world, &log);
        // No lock, no atomic: only the dispatcher touches it.
        let bound = DispatcherBound::new(&home, || 0_u64).expect("accepted");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..250 {
                        bound.async_call(|count| *count += 1).expect("accepted");
                    }
                });
            }
        });
        let count = bound.call_for(|count| *count).expect("accepted");
        assert_eq!(result(world, count), Ok(1000));
    });
}

#[test]
fn a_result_is_awaited_on_another_dispatcher() {
    on_every_pool(|world| {
        let log = Log::new();
        let home = home(world, &log);
        let other = world.driver("other").new_dispatcher(DispatcherBuilder::new()).expect("created");
        let bound = DispatcherBound::new(&home, || vec![1, 2]).expect("accepted");
        let sum = bound.call_for(|list| list.iter().sum::<i32>()).expect("accepted");
        let entry = log.clone();
        let _waiting = other.spawn(async move { entry.add(format!("{:?}", sum.await)) }).expect("accepted");
        world.wait_until("the sum", || !log.is_empty());
        assert_eq!(log.take(), ["Ok(3)"]);
    });
}

#[test]
fn what_cannot_be_bound_comes_back_unrun() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let plain = driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
        let wide = driver.new_dispatcher(DispatcherBuilder::new().unsynchronized()).expect("created");
        let refused = DispatcherBound::new(&wide, || 7).expect_err("its calls would overlap");
        assert_eq!(refused.status(), Status::WrongType);
        assert!(refused.to_string().contains("unsynchronized"), "{refused}");
        assert_eq!(refused.into_inner()(), 7, "the closure is given back");

        let refused = DispatcherBound::new_local(&plain, || Rc::new(8)).expect_err("it may migrate");
        assert_eq!(refused.status(), Status::NotSupported);
        assert!(refused.to_string().contains("without thread migration"), "{refused}");
        assert_eq!(*refused.into_inner()(), 8);

        let bound = DispatcherBound::new(&plain, || 9).expect("accepted");
        plain.shutdown_async();
        let refused = bound.async_call(|_| ()).expect_err("it shuts down");
        assert_eq!(refused.status(), Status::BadState);
        let mut value = 1;
        let refused = bound.call_for(|value: &mut i32| *value + 1).expect_err("it shuts down");
        assert_eq!(refused.into_inner()(&mut value), 2, "the call is given back");
        assert_eq!(DispatcherBound::new(&plain, || 1).map_err(Status::from).err(), Some(Status::BadState));
    });
}

#[test]
fn a_shutdown_drops_the_calls_that_wait_then_the_value_then_runs_the_observer() {
    on_every_pool(|world| {
        let log = Log::new();
        let home = home(world, &log);
        let making = log.clone();
        let bound = DispatcherBound::new(&home, move || Noted::new(&making)).expect("accepted");
        let ready = bound.call_for(|value| value.count).expect("accepted");
        assert_eq!(result(world, ready), Ok(0));
        let held = hold(world, &home);
        let waits = Noted::new(&log);
        log.take();
        let captured = bound.call_for(move |value| waits.note(&value.count.to_string())).expect("accepted");
        home.shutdown_async();
        drop(held);
        assert_eq!(result(world, captured), Err(Status::Canceled));
        world.shutdown();
        assert_eq!(log.take(), ["dropped on home", "dropped on home", "observed"]);
        drop(bound);
        assert!(log.is_empty(), "nothing is left for the owner to drop");
    });
}

#[test]
fn a_value_that_was_never_made_is_never_dropped() {
    on_every_pool(|world| {
        let log = Log::new();
        let home = home(world, &log);
        let held = hold(world, &home);
        let making = log.clone();
        let bound = DispatcherBound::new(&home, move || Noted::new(&making)).expect("accepted");
        let called = bound.call_for(|_| ()).expect("accepted");
        home.shutdown_async();
        drop(held);
        assert_eq!(result(world, called), Err(Status::Canceled));
        world.shutdown();
        assert_eq!(log.take(), ["observed"]);
    });
}

#[test]
fn a_shutdown_from_inside_of_the_construction_drops_the_value_on_the_spot() {
    on_every_pool(|world| {
        let log = Log::new();
        let home = home(world, &log);
        let making = log.clone();
        let make = move || {
            current().expect("on its dispatcher").shutdown_async();
            Noted::new(&making)
        };
        let bound = DispatcherBound::new(&home, make).expect("accepted");
        world.wait_until("the observer", || home.state() == DispatcherState::Destroyed);
        assert_eq!(log.take(), ["made on home", "dropped on home", "observed"]);
        drop(bound);
        assert!(log.is_empty());
    });
}

#[test]
fn the_owner_may_be_dropped_inside_of_a_call() {
    on_every_pool(|world| {
        let log = Log::new();
        let home = home(world, &log);
        let making = log.clone();
        let bound = Arc::new(Mutex::new(None));
        let owner = DispatcherBound::new(&home, move || Noted::new(&making)).expect("accepted");
        let inside = Arc::clone(&bound);
        *bound.lock().unwrap() = Some(owner);
        let call = move |value: &mut Noted| {
            drop(inside.lock().unwrap().take());
            value.note("still called");
        };
        bound.lock().unwrap().as_ref().expect("it is there").async_call(call).expect("accepted");
        world.wait_until("the end", || home.counters().pending == 0);
        world.settle();
        assert_eq!(log.take(), ["made on home", "still called on home", "dropped on home"]);
    });
}

#[test]
fn a_call_that_panics_is_reported_and_leaves_the_value() {
    on_every_pool_with(
        || RuntimeBuilder::new().panic_policy(PanicPolicy::Continue),
        |world| {
            let log = Log::new();
            let home = home(world, &log);
            let bound = DispatcherBound::new(&home, || 1).expect("accepted");
            let panics = |value: &mut i32| {
                *value = 2;
                panic!("on purpose");
            };
            let mut reply = bound.call_for::<(), _>(panics).expect("accepted");
            bound.async_call(|_| panic!("on purpose, too")).expect("accepted");
            assert_eq!(result(world, bound.call_for(|value| *value).expect("accepted")), Ok(2));
            let error = reply.try_take().expect("it is told").expect_err("it panicked");
            assert_eq!(error.panic_message(), Some("on purpose"));
            assert_eq!(home.owner().panics(), 2);
        },
    );
}

#[test]
fn where_the_construction_panics_calls_are_dropped_unmade() {
    on_every_pool_with(
        || RuntimeBuilder::new().panic_policy(PanicPolicy::Continue),
        |world| {
            let log = Log::new();
            let home = home(world, &log);
            let bound = DispatcherBound::<u32>::new(&home, || panic!("on purpose")).expect("accepted");
            let dropped = Noted::new(&log);
            log.take();
            bound.async_call(move |_| dropped.note("called")).expect("accepted");
            let reply = bound.call_for(|value| *value).expect("accepted");
            assert_eq!(result(world, reply), Err(Status::Canceled));
            drop(bound);
            world.wait_until("the end", || home.counters().pending == 0);
            world.settle();
            assert_eq!(log.take(), ["dropped on home"]);
        },
    );
}

/// What notes the threads that it is on, and cannot leave its own.
struct Local(Rc<()>, Arc<Mutex<HashSet<ThreadId>>>);

impl Local {
    fn note(&self) {
        self.1.lock().unwrap().insert(std::thread::current().id());
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        self.note();
    }
}

#[test]
fn a_local_value_stays_on_the_thread_of_its_pinned_dispatcher() {
    for drop_first in [true, false] {
        on_pools(|world| {
            let driver = world.driver("driver");
            let pinned = driver.new_dispatcher(DispatcherBuilder::new().no_thread_migration()).expect("created");
            let threads = Arc::new(Mutex::new(HashSet::new()));
            let noting = Arc::clone(&threads);
            let bound = DispatcherBound::new_local(&pinned, move || Local(Rc::new(()), noting)).expect("accepted");
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| {
                        for _ in 0..100 {
                            bound.async_call(|value| value.note()).expect("accepted");
                        }
                    });
                }
            });
            let alone = bound.call_for(|value| Rc::strong_count(&value.0)).expect("accepted");
            assert_eq!(result(world, alone), Ok(1));
            if drop_first {
                drop(bound);
                world.wait_until("the drop", || pinned.counters().pending == 0);
                world.shutdown();
            } else {
                world.shutdown();
                drop(bound);
            }
            let threads = threads.lock().unwrap();
            assert_eq!(threads.len(), 1);
            assert!(!threads.contains(&std::thread::current().id()));
        });
    }
}

#[test]
fn a_local_value_works_in_the_foreground() {
    fuchsine_tests::pools::in_the_foreground(|world| {
        let driver = world.driver("driver");
        let pinned = driver.new_dispatcher(DispatcherBuilder::new().no_thread_migration()).expect("created");
        let bound = DispatcherBound::new_local(&pinned, || Rc::new(5)).expect("accepted");
        assert_eq!(result(world, bound.call_for(|value| **value).expect("accepted")), Ok(5));
    });
}

#[test]
fn a_result_is_waited_for_where_blocking_is_allowed_and_refused_elsewhere() {
    on_every_pool(|world| {
        let log = Log::new();
        let home = home(world, &log);
        let bound = Arc::new(DispatcherBound::new(&home, || 7).expect("accepted"));
        let wait_for = |bound: &Arc<DispatcherBound<i32>>| {
            let bound = Arc::clone(bound);
            move || bound.call_for(|value| *value).expect("accepted").wait(Instant::INFINITE)
        };
        let other = world.driver("other");
        let blocks = other.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("created");
        assert_eq!(world.run_on(&blocks, wait_for(&bound)), Ok(7));
        let plain = other.new_dispatcher(DispatcherBuilder::new()).expect("created");
        assert_eq!(world.run_on(&plain, wait_for(&bound)), Err(Status::BadState));
        if !world.is_foreground() {
            assert_eq!(wait_for(&bound)(), Ok(7), "a thread of no pool may wait");
        }

        // It would wait for itself.
        let own = other.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("created");
        let on_own = Arc::new(DispatcherBound::new(&own, || 8).expect("accepted"));
        assert_eq!(world.run_on(&own, wait_for(&on_own)), Err(Status::BadState));
    });
}

#[test]
fn a_wait_for_a_result_ends_at_its_deadline_and_with_a_shutdown() {
    on_pools(|world| {
        let log = Log::new();
        let home = home(world, &log);
        let bound = DispatcherBound::new(&home, || 7).expect("accepted");
        let held = hold(world, &home);
        let mut call = bound.call_for(|value| *value).expect("accepted");
        assert_eq!(call.wait(Instant::ZERO), Err(Status::TimedOut));
        drop(held);
        assert_eq!(call.wait(Instant::INFINITE), Ok(7), "it may be waited for again");
        assert_eq!(call.wait(Instant::INFINITE), Err(Status::Canceled), "it is given out once");

        let held = hold(world, &home);
        let mut call = bound.call_for(|value| *value).expect("accepted");
        home.shutdown_async();
        drop(held);
        assert_eq!(call.wait(Instant::INFINITE), Err(Status::Canceled));
    });
}

#[test]
fn the_owner_goes_to_any_thread_whatever_it_owns() {
    fn goes_anywhere<T: Send + Sync>() {}
    goes_anywhere::<DispatcherBound<Rc<()>>>();
    goes_anywhere::<DispatcherBound<u32>>();
    goes_anywhere::<BoundCall<u32>>();
}
