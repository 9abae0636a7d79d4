//! Model checks of races at the edges of a runtime: creation against shutdown, several shutdowns at once, events that are
//! taken by several threads, unsynchronized dispatchers, threads that are reserved and given back.
//!
//! What is real and what is modelled is said in `shuttle_dispatcher.rs`, whose helpers these models use. A thread or a
//! pool that is left behind shows as a deadlock, because nobody ever wakes it.

use std::time::Duration;

use super::callback_queue::{Callback, Kind, Outcome, Stage};
use super::flavour::Flavour;
use super::inline::Origin;
use super::shuttle_dispatcher::{Event, Seen, conclude, explore, set_up};
use super::{DispatcherBuilder, RuntimeBuilder};
use crate::status::Status;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Condvar, Mutex, thread};
use crate::time::Instant;

/// A dispatcher of a new role is created while the runtime shuts down: refused, or shut down with the rest; the pool of
/// its role ends in either case.
#[test]
fn shuttle_a_role_that_is_new_while_the_runtime_shuts_down_leaves_no_pool_behind() {
    explore(|| {
        let runtime = RuntimeBuilder::new().threads(1).build().expect("a model has threads");
        let driver = runtime.new_driver("driver");
        let observed = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&observed);
        let creator = thread::spawn("creator", move || {
            let builder = DispatcherBuilder::new().scheduler_role("new").shutdown_observer(move || {
                seen.fetch_add(1, Ordering::AcqRel);
            });
            match driver.new_dispatcher(builder) {
                Ok(dispatcher) => {
                    let _ = dispatcher.release();
                    1
                }
                Err(error) => {
                    assert_eq!(error.status(), Status::BadState);
                    0
                }
            }
        })
        .expect("a thread");
        runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
        assert_eq!(creator.join().expect("it ends"), observed.load(Ordering::Acquire));
    });
}

/// A driver shuts down while a dispatcher of it is created: refused, or its observer comes before the driver's.
#[test]
fn shuttle_a_dispatcher_that_is_created_while_its_driver_shuts_down_is_refused_or_ends_first() {
    explore(|| {
        let (runtime, driver, _dispatcher, seen) = set_up(1);
        let (creating, observed) = (driver.clone(), Arc::clone(&seen));
        let creator = thread::spawn("creator", move || {
            let builder = DispatcherBuilder::new()
                .allow_sync_calls()
                .shutdown_observer(move || observed.observers.lock().push("dispatcher"));
            creating.new_dispatcher(builder).map(super::Dispatcher::release).is_ok()
        })
        .expect("a thread");
        let observed = Arc::clone(&seen);
        driver.shutdown(move || observed.observers.lock().push("driver")).expect("the first");
        let is_created = creator.join().expect("it ends");
        runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
        let observers = seen.observers.lock();
        let expected: &[&str] =
            if is_created { &["dispatcher", "dispatcher", "driver"] } else { &["dispatcher", "driver"] };
        assert_eq!(*observers, expected);
    });
}

/// A driver shuts down while the first dispatcher of a role, one that allows sync calls, is created for it: if it is refused,
/// at whatever step, neither its pool nor its thread stays.
#[test]
fn shuttle_a_creation_that_is_refused_at_its_last_step_gives_everything_back() {
    explore(|| {
        let (runtime, driver, _dispatcher, seen) = set_up(1);
        let creating = driver.clone();
        let creator = thread::spawn("creator", move || {
            let builder = DispatcherBuilder::new().scheduler_role("new").allow_sync_calls();
            creating.new_dispatcher(builder).map(super::Dispatcher::release).is_ok()
        })
        .expect("a thread");
        let observed = Arc::clone(&seen);
        driver.shutdown(move || observed.observers.lock().push("driver")).expect("the first");
        let is_created = creator.join().expect("it ends");
        let figures = runtime.inner().role_pools(|pools| pools.figures("new"));
        assert!(is_created || figures.running() == 0 && figures.reserved == 0, "{figures:?}");
        runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
        let figures = runtime.inner().role_pools(|pools| pools.figures("new"));
        assert_eq!((figures.running(), figures.reserved), (0, 0));
    });
}

/// Two threads shut a runtime down while a third drops a handle of it: each returns when all is over.
#[test]
fn shuttle_several_shutdowns_at_once_all_return_at_the_end() {
    explore(|| {
        let (runtime, _driver, dispatcher, seen) = set_up(1);
        let visited = Arc::clone(&seen);
        dispatcher.post_task(move |outcome| visited.visit("task", outcome)).expect("it runs");
        let others: Vec<_> = (0..2)
            .map(|_| {
                let (runtime, seen) = (runtime.clone(), Arc::clone(&seen));
                thread::spawn("other", move || {
                    runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
                    assert_eq!(*seen.observers.lock(), ["dispatcher"]);
                })
                .expect("a thread")
            })
            .collect();
        runtime.shutdown_async();
        for other in others {
            other.join().expect("it ends");
        }
        conclude(&runtime, &seen, &["task"]);
    });
}

/// Work is offloaded while the runtime shuts down; no worker starts after the lanes have been joined.
#[test]
fn shuttle_work_that_races_with_the_end_of_the_runtime_leaves_no_worker_behind() {
    explore(|| {
        let (runtime, _driver, dispatcher, seen) = set_up(1);
        let (handle, visited) = (dispatcher.handle(), Arc::clone(&seen));
        let poster = thread::spawn("poster", move || {
            let done = move |outcome: Result<(), _>| visited.visit("done", outcome.map_err(|_| crate::Canceled));
            handle.offload(crate::event_loop::Lane::Fast, |_| (), done).is_ok()
        })
        .expect("a thread");
        runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
        let accepted = poster.join().expect("it ends");
        assert_eq!(seen.ended.lock().contains_key("done"), accepted);
        assert!(runtime.inner().default_pool().lanes().is_at_rest());
    });
}

/// Two timers come to pass one after the other, and are taken by different threads: they run in that order, also beside
/// a task, a cancel and a shutdown.
#[test]
fn shuttle_events_of_successive_polls_run_in_their_order() {
    explore(|| {
        let (runtime, _driver, dispatcher, seen) = set_up(2);
        let order = Arc::new(Mutex::new(Vec::new()));
        let arm = |name: &'static str| {
            let (seen, order) = (Arc::clone(&seen), Arc::clone(&order));
            dispatcher
                .post_after(Duration::from_secs(1), move |outcome| {
                    if outcome.is_ok() {
                        order.lock().push(name);
                    }
                    seen.visit(name, outcome);
                })
                .expect("it runs")
        };
        let pool = Arc::clone(runtime.inner().default_pool());
        let _first = arm("first");
        pool.reactor().fire_all();
        thread::yield_now();
        let second = arm("second");
        pool.reactor().fire_all();
        let third = arm("third");
        let canceler = thread::spawn("canceler", move || second.cancel().is_ok()).expect("a thread");
        pool.reactor().fire_all();
        thread::yield_now();
        let taken_back = canceler.join().expect("it ends");
        drop(third);
        dispatcher.shutdown_async();
        conclude(&runtime, &seen, &["first", "third"]);
        assert_eq!(seen.ended.lock().contains_key("second"), !taken_back);
        let order = order.lock();
        let all = ["first", "second", "third"];
        let places: Vec<_> = order.iter().map(|name| all.iter().position(|one| one == name)).collect();
        assert!(places.is_sorted(), "{order:?}");
    });
}

/// Tasks, a message, a wake and a shutdown of an unsynchronized dispatcher: each ends once, and the observer is last
/// although several threads may be inside.
#[test]
fn shuttle_an_unsynchronized_dispatcher_ends_everything_once_and_its_observer_is_last() {
    explore(|| {
        let runtime = RuntimeBuilder::new().threads(2).build().expect("a model has threads");
        let seen = Arc::new(Seen::default());
        let observed = Arc::clone(&seen);
        let builder = DispatcherBuilder::new().unsynchronized().shutdown_observer(move || {
            assert_eq!(observed.inside.load(Ordering::Acquire), 0, "a callback beside the observer");
            observed.observers.lock().push("dispatcher");
        });
        let dispatcher = runtime.new_driver("driver").new_dispatcher(builder).expect("created");
        let caller = runtime.new_driver("caller").new_dispatcher(DispatcherBuilder::new()).expect("created");
        for name in ["first", "second"] {
            let seen = Arc::clone(&seen);
            dispatcher.post_task(move |outcome| seen.visit_beside_others(name, outcome)).expect("it runs");
        }
        let inner = Arc::clone(dispatcher.inner());
        let callback = Callback::new(Event::beside_others(&seen, "message"));
        let location = crate::site::Site::caller();
        let accepted =
            inner.accept_armed(Stage::Reading, Kind::Read, Flavour::REGULAR, Instant::INFINITE, location, || callback);
        let id = accepted.unwrap_or_else(|_| panic!("it runs"));
        let target = Arc::clone(&inner);
        caller
            .post_task(move |outcome| {
                if outcome.is_ok() {
                    target.complete(id, Outcome::Done(0), Origin::Message);
                }
            })
            .expect("it runs");
        let visited = Arc::clone(&seen);
        let joined = dispatcher.spawn(async move { visited.visit_beside_others("future", Ok(())) }).expect("it runs");
        dispatcher.shutdown_async();
        conclude(&runtime, &seen, &["first", "second", "message"]);
        drop(joined);
    });
}

/// A future is spawned while its dispatcher shuts down: refused, or dropped before the observer.
#[test]
fn shuttle_a_future_that_is_spawned_during_shutdown_is_refused_or_ends_first() {
    struct Held(Arc<Seen>);
    impl Drop for Held {
        fn drop(&mut self) {
            assert!(self.0.observers.lock().is_empty(), "dropped after the observer");
            assert!(super::current().is_some(), "dropped out of context");
            assert!(self.0.ended.lock().insert("future", Ok(())).is_none());
        }
    }
    explore(|| {
        let (runtime, _driver, dispatcher, seen) = set_up(1);
        let (handle, by_spawner) = (dispatcher.handle(), Arc::clone(&seen));
        let spawner = thread::spawn("spawner", move || {
            let held = Held(by_spawner);
            let spawned = handle.spawn(async move {
                let _held = held;
                std::future::pending::<()>().await;
            });
            match spawned {
                Ok(join) => {
                    join.cancel();
                    true
                }
                Err(refused) => {
                    std::mem::forget(refused.into_inner());
                    false
                }
            }
        })
        .expect("a thread");
        dispatcher.shutdown_async();
        let accepted = spawner.join().expect("it ends");
        conclude(&runtime, &seen, &[]);
        assert_eq!(seen.ended.lock().contains_key("future"), accepted);
    });
}

/// Dispatchers that allow sync calls come and go at the thread limit: never more than the limit at once, and the thread
/// of one that has gone is there for the next.
#[test]
fn shuttle_reserved_threads_are_given_back_whatever_races() {
    explore(|| {
        let runtime = RuntimeBuilder::new().threads(1).thread_limit(2).build().expect("a model has threads");
        let alive = Arc::new(AtomicUsize::new(0));
        let creators: Vec<_> = (0..2)
            .map(|_| {
                let (driver, alive) = (runtime.new_driver("driver"), Arc::clone(&alive));
                thread::spawn("creator", move || {
                    let counted = Arc::clone(&alive);
                    let builder = DispatcherBuilder::new().allow_sync_calls().shutdown_observer(move || {
                        counted.fetch_sub(1, Ordering::AcqRel);
                    });
                    match driver.new_dispatcher(builder) {
                        Ok(dispatcher) => {
                            assert_eq!(alive.fetch_add(1, Ordering::AcqRel), 0, "two at a limit of one");
                            drop(dispatcher);
                        }
                        Err(error) => assert_eq!(error.status(), Status::NoResources),
                    }
                })
                .expect("a thread")
            })
            .collect();
        for creator in creators {
            creator.join().expect("it ends");
        }
        runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
        assert_eq!(alive.load(Ordering::Acquire), 0);
        assert!(runtime.inner().default_pool().threads().started() <= 2);
    });
}

/// A thread retires beside posts and the next reservation: everything runs, and no thread is left behind.
#[test]
fn shuttle_a_thread_that_retires_takes_nothing_along() {
    explore(|| {
        let (runtime, driver, dispatcher, seen) = set_up(1);
        let pool = Arc::clone(runtime.inner().default_pool());
        drop(driver.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("there is room"));
        let watched = Arc::clone(&pool);
        let watch = thread::spawn("watch", move || (0..2).for_each(|_| watched.retire_sleepers())).expect("a thread");
        for name in ["one", "two"] {
            let visited = Arc::clone(&seen);
            dispatcher.post_task(move |outcome| visited.visit(name, outcome)).expect("it runs");
        }
        let next = driver.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("there is room");
        watch.join().expect("it ends");
        let figures = pool.threads().figures();
        assert!(figures.extra >= figures.reserved, "{figures:?}");
        assert_eq!(figures.added, figures.extra as u64 + figures.retired, "{figures:?}");
        drop(next);
        conclude(&runtime, &seen, &["one", "two"]);
    });
}

/// Posts two tasks, the first of which blocks until the second has run. A thread that takes the first, and could take the
/// second only afterwards, has to see to it that another one gets up. The stall watch helps nobody here, as no time passes
/// in a model.
fn the_first_blocks_until_the_second_has_run(builders: [DispatcherBuilder; 2], same: bool) {
    let (runtime, driver, _dispatcher, seen) = set_up(2);
    let [first, second] = builders.map(|builder| driver.new_dispatcher(builder).expect("created"));
    let second = if same { first.handle() } else { second.handle() };
    let met = Arc::new((Mutex::new(false), Condvar::new()));
    let wait = |met: &(Mutex<bool>, Condvar)| {
        let mut has_run = met.0.lock();
        while !*has_run {
            met.1.wait(&mut has_run);
        }
    };
    let waiting = Arc::clone(&met);
    first.post_task(move |_| wait(&waiting)).expect("it runs");
    let telling = Arc::clone(&met);
    second
        .post_task(move |_| {
            *telling.0.lock() = true;
            telling.1.notify_all();
        })
        .expect("it runs");
    wait(&met);
    conclude(&runtime, &seen, &[]);
}

#[test]
fn shuttle_what_is_posted_beside_a_blocked_callback_is_found_by_the_free_thread() {
    explore(|| {
        the_first_blocks_until_the_second_has_run([DispatcherBuilder::new(), DispatcherBuilder::new()], false);
    });
}

#[test]
fn shuttle_the_next_callback_of_an_unsynchronized_dispatcher_is_found_by_the_free_thread() {
    explore(|| {
        let builders = [DispatcherBuilder::new().unsynchronized(), DispatcherBuilder::new()];
        the_first_blocks_until_the_second_has_run(builders, true);
    });
}
