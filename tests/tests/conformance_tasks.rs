//! Goal: tasks, delayed tasks and their cancellation, by the rules of Fuchsia's driver runtime.
//! Method: one scenario a rule on every kind of runtime; exact times on the virtual clock.

mod conformance_support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conformance_support::{Log, gate, make, noted, plain, task};
use fuchsine_dispatcher::{Canceled, DispatcherBuilder, DispatcherHandle, Instant, Status, TaskHandle};
use fuchsine_tests::pools::{in_the_foreground, in_usual_order, on_every_pool, on_pools};

/// Posts a delayed task that notes its name.
#[track_caller]
fn delayed(dispatcher: &DispatcherHandle, log: &Log, name: &'static str, deadline: Instant) -> TaskHandle {
    let log = log.clone();
    let posted = dispatcher.post_at(deadline, move |outcome| match outcome {
        Ok(()) => log.add(name),
        Err(Canceled) => log.add(format!("{name} canceled")),
    });
    posted.expect("the dispatcher runs")
}

/// Shows R77, U-6.
#[test]
fn what_is_due_at_its_post_is_queued_at_once_and_equal_deadlines_keep_their_order() {
    in_the_foreground(|world| {
        let dispatcher = plain(world, "tasks");
        let log = Log::default();
        let later = dispatcher.now() + Duration::from_secs(1);
        let mut handles = Vec::new();
        for name in ["first of three", "second of three", "third of three"] {
            handles.push(delayed(&dispatcher, &log, name, later));
        }
        handles.push(delayed(&dispatcher, &log, "due", dispatcher.now()));
        noted(&dispatcher, &log, "task");
        handles.push(delayed(&dispatcher, &log, "past", Instant::ZERO));
        world.settle();
        assert_eq!(log.take(), ["due", "task", "past"]);
        world.wait_until("the delayed ones", || log.len() == 3);
        assert_eq!(log.take(), ["first of three", "second of three", "third of three"]);
    });
}

/// Shows R78, DT-28.
#[test]
fn an_earlier_deadline_that_is_posted_later_is_kept_and_nothing_runs_early() {
    on_every_pool(|world| {
        let dispatcher = plain(world, "timers");
        let log = Log::default();
        let start = dispatcher.now();
        let times = Arc::new(Mutex::new(Vec::new()));
        for millis in [20, 5, 10, 1] {
            let (entry, times, own) = (log.clone(), Arc::clone(&times), dispatcher.handle());
            let posted = dispatcher.post_at(start + Duration::from_millis(millis), move |_| {
                let passed = own.now().duration_since(start);
                times.lock().expect("nobody panics").push((millis, passed));
                entry.add(millis.to_string());
            });
            let _handle = posted.expect("it runs");
        }
        world.wait_until("all of them", || log.len() == 4);
        assert_eq!(log.take(), ["1", "5", "10", "20"]);
        for (millis, passed) in times.lock().expect("nobody panics").iter() {
            assert!(*passed >= Duration::from_millis(*millis), "{millis} ms ran after {passed:?}");
        }
    });
}

/// Shows R79, W6, U-7.
#[test]
fn a_delayed_task_gets_its_turn_although_its_queue_never_runs_dry() {
    fn forever(dispatcher: &DispatcherHandle) {
        let again = dispatcher.clone();
        // Refused at the shutdown, which is how it ends.
        let _ = dispatcher.post_task(move |outcome| {
            if outcome.is_ok() {
                forever(&again);
            }
        });
    }
    on_pools(|world| {
        let dispatcher = plain(world, "busy");
        forever(&dispatcher.handle());
        let log = Log::default();
        for nth in 0..3 {
            let _handle = delayed(&dispatcher, &log, "due", dispatcher.now() + Duration::from_millis(1));
            world.wait_until("the delayed task", || log.len() == nth + 1);
        }
    });
}

/// Shows R81, DT-31, DT-32.
#[test]
fn a_task_that_is_queued_or_delayed_can_be_taken_back_and_then_never_runs() {
    on_every_pool(|world| {
        let dispatcher = plain(world, "tasks");
        let log = Log::default();
        let far = delayed(&dispatcher, &log, "delayed", dispatcher.now() + Duration::from_secs(100));
        assert!(far.cancel().is_ok());
        assert_eq!(far.cancel().expect_err("it is gone").status(), Status::NotFound);
        let (own, entry) = (dispatcher.handle(), log.clone());
        world.run_on(&dispatcher, move || {
            let queued = own.post_cancelable(move |_| entry.add("queued")).expect("it runs");
            assert!(queued.cancel().is_ok());
        });
        world.settle();
        assert_eq!(log.take(), Vec::<String>::new());
        assert_eq!(dispatcher.counters().taken_back, 2);
    });
}

/// Shows R81, DT-34.
#[test]
fn a_task_that_runs_or_has_run_cannot_be_taken_back() {
    on_every_pool(|world| {
        for builder in [DispatcherBuilder::new(), DispatcherBuilder::new().unsynchronized()] {
            let dispatcher = make(world, "tasks", builder);
            let (give, take) = channel::<TaskHandle>();
            let (tell, told) = channel();
            let posted = dispatcher.post_cancelable(move |_| {
                let own = take.recv().expect("it is sent");
                tell.send(own.cancel().is_ok()).expect("it is awaited");
            });
            let posted = posted.expect("it runs");
            give.send(posted.clone()).expect("it is awaited");
            let mut inside = None;
            world.wait_until("the task", || {
                inside = inside.or(told.try_recv().ok());
                inside.is_some()
            });
            assert_eq!(inside, Some(false));
            assert_eq!(posted.cancel().expect_err("it has run").status(), Status::NotFound);
        }
    });
}

/// Shows R81, R145, DT-38.
#[test]
fn a_canceled_callback_takes_back_what_would_be_canceled_after_it() {
    on_every_pool(|world| {
        let dispatcher = plain(world, "tasks");
        let log = Log::default();
        let second: Arc<Mutex<Option<TaskHandle>>> = Arc::default();
        let (entry, taking, own) = (log.clone(), Arc::clone(&second), dispatcher.handle());
        let keeping = Arc::clone(&second);
        let later = log.clone();
        world.run_on(&dispatcher, move || {
            let first = own.post_task(move |outcome| {
                let other = taking.lock().expect("nobody panics").take().expect("it was posted");
                entry.add(format!("{outcome:?}, took the other back: {}", other.cancel().is_ok()));
            });
            first.expect("it runs");
            let posted = own.post_cancelable(move |_| later.add("called although it was taken back"));
            *keeping.lock().expect("nobody panics") = Some(posted.expect("it runs"));
            own.shutdown_async();
        });
        world.wait_until("the end", || dispatcher.counters().pending == 0);
        world.settle();
        assert_eq!(log.take(), ["Err(Canceled), took the other back: true"]);
    });
}

/// Shows R82, R147, DT-91, U-10.
#[test]
fn nothing_is_accepted_any_more_once_the_shutdown_has_begun() {
    on_every_pool(|world| {
        for builder in [DispatcherBuilder::new(), DispatcherBuilder::new().unsynchronized()] {
            let observed = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&observed);
            let builder = builder.shutdown_observer(move || {
                count.fetch_add(1, Ordering::SeqCst);
            });
            let dispatcher = make(world, "tasks", builder);
            let refused = |own: &DispatcherHandle| {
                let now = own.post_task(|_| panic!("it was refused")).expect_err("refused").status();
                let later = own.post_after(Duration::from_millis(1), |_| panic!("refused")).expect_err("refused");
                (now, later.status())
            };
            let inside = Arc::new(Mutex::new(None));
            let (own, told) = (dispatcher.handle(), Arc::clone(&inside));
            let posted = dispatcher.post_after(Duration::from_secs(1000), move |outcome| {
                assert_eq!(outcome, Err(Canceled));
                *told.lock().expect("nobody panics") = Some(refused(&own));
            });
            let _handle = posted.expect("it runs");
            dispatcher.shutdown_async();
            assert_eq!(refused(&dispatcher), (Status::BadState, Status::BadState));
            world.wait_until("the observer", || observed.load(Ordering::SeqCst) == 1);
            assert_eq!(*inside.lock().expect("nobody panics"), Some((Status::BadState, Status::BadState)));
            assert_eq!(refused(&dispatcher), (Status::BadState, Status::BadState));
            world.settle();
            assert_eq!(dispatcher.owner().panics(), 0);
            assert_eq!(dispatcher.owner().counters().refused, 6);
        }
    });
}

/// Shows R82.
#[test]
fn what_was_accepted_while_a_shutdown_began_ends_exactly_once() {
    // Its threads race of their own accord, so there is no schedule to explore.
    in_usual_order(|world| {
        let dispatcher = plain(world, "race");
        let ended = Arc::new(AtomicUsize::new(0));
        let posters: Vec<_> = (0..2)
            .map(|_| {
                let (own, ended) = (dispatcher.handle(), Arc::clone(&ended));
                std::thread::spawn(move || {
                    let post = || {
                        let ended = Arc::clone(&ended);
                        own.post_task(move |_| {
                            ended.fetch_add(1, Ordering::SeqCst);
                        })
                    };
                    // Until the first refusal, and a hundred at most.
                    (0..100).take_while(|_| post().is_ok()).count()
                })
            })
            .collect();
        std::thread::yield_now();
        dispatcher.shutdown_async();
        let accepted: usize = posters.into_iter().map(|poster| poster.join().expect("it ends")).sum();
        world.wait_until("all of them", || ended.load(Ordering::SeqCst) == accepted);
        world.shutdown();
        assert_eq!(ended.load(Ordering::SeqCst), accepted);
    });
}

/// Shows R84.
#[test]
fn an_infinite_delay_is_refused_with_the_task() {
    on_every_pool(|world| {
        let dispatcher = plain(world, "tasks");
        for deadline in [Instant::INFINITE, dispatcher.now() + Duration::MAX] {
            let refused = dispatcher.post_at(deadline, |_| panic!("never")).expect_err("it would never come");
            assert_eq!(refused.status(), Status::InvalidArgs);
        }
        assert_eq!(dispatcher.counters().pending, 0);
    });
}

/// Shows DT-19, R142.
#[test]
fn what_runs_ends_as_it_began_and_only_then_the_rest_is_canceled() {
    on_pools(|world| {
        let log = Log::default();
        let entry = log.clone();
        let builder = DispatcherBuilder::new().unsynchronized().shutdown_observer(move || entry.add("observer"));
        let dispatcher = make(world, "parallel", builder);
        let (gate, keeper) = gate();
        let entry = log.clone();
        let running = dispatcher.post_task(move |outcome| {
            keeper.pass();
            entry.add(format!("running {outcome:?}"));
        });
        running.expect("it runs");
        gate.wait();
        let _far = delayed(&dispatcher, &log, "delayed", dispatcher.now() + Duration::from_secs(1000));
        dispatcher.shutdown_async();
        // Others run meanwhile, and yet nothing is canceled.
        if world.threads() >= 2 {
            world.run_on(&plain(world, "other"), || ());
        }
        assert_eq!(log.len(), 0);
        gate.open();
        world.wait_until("the observer", || log.len() == 3);
        assert_eq!(log.take(), ["running Ok(())", "delayed canceled", "observer"]);
    });
}

/// Shows DT-22, DT-23, R139, R149.
#[test]
fn callbacks_may_begin_the_shutdown_more_than_once_and_the_observer_comes_once() {
    on_every_pool(|world| {
        for builder in [DispatcherBuilder::new(), DispatcherBuilder::new().unsynchronized()] {
            let log = Log::default();
            let entry = log.clone();
            let dispatcher = make(world, "d", builder.shutdown_observer(move || entry.add("observer")));
            let (own, entry) = (dispatcher.handle(), log.clone());
            world.run_on(&dispatcher, move || {
                own.shutdown_async();
                own.shutdown_async();
                entry.add(format!("{}", own.state()));
            });
            world.wait_until("the observer", || log.len() >= 2);
            dispatcher.shutdown_async();
            world.settle();
            assert_eq!(log.take(), ["shutting down", "observer"]);
        }
    });
}

/// Shows DT-25, R139.
#[test]
fn beginning_a_shutdown_never_calls_back_before_it_returns() {
    on_every_pool(|world| {
        let lock = Arc::new(Mutex::new(0));
        let (in_observer, in_task) = (Arc::clone(&lock), Arc::clone(&lock));
        let builder = DispatcherBuilder::new().shutdown_observer(move || *in_observer.lock().expect("free") += 1);
        let dispatcher = make(world, "d", builder);
        task(&dispatcher, move || *in_task.lock().expect("free") += 1);
        {
            // Would hang if it called back on this thread, where the lock is held.
            let _held = lock.lock().expect("nobody panics");
            dispatcher.shutdown_async();
        }
        world.wait_until("the observer", || *lock.lock().expect("nobody panics") == 2);
    });
}

/// Shows R152, R153, R154, DT-88, DT-89.
#[test]
fn dropping_the_owner_at_any_time_begins_the_shutdown_and_handles_outlive_it() {
    on_every_pool(|world| {
        for builder in [DispatcherBuilder::new(), DispatcherBuilder::new().unsynchronized()] {
            let log = Log::default();
            let entry = log.clone();
            let dispatcher = make(world, "d", builder.shutdown_observer(move || entry.add("observer")));
            let handle = dispatcher.handle();
            let _far = delayed(&handle, &log, "pending", handle.now() + Duration::from_secs(1000));
            drop(dispatcher);
            world.wait_until("the observer", || log.len() == 2);
            assert_eq!(log.take(), ["pending canceled", "observer"]);
            assert_eq!(handle.post_task(|_| ()).expect_err("it is gone").status(), Status::BadState);
            assert_eq!(handle.name(), "d");
        }
    });
}

/// Shows R154, R149.
#[test]
fn the_owner_may_be_dropped_by_the_observer_itself() {
    on_every_pool(|world| {
        let owner = Arc::new(Mutex::new(None));
        let log = Log::default();
        let (inside, entry) = (Arc::clone(&owner), log.clone());
        let dispatcher = make(
            world,
            "d",
            DispatcherBuilder::new().shutdown_observer(move || {
                drop(inside.lock().expect("nobody panics").take());
                entry.add("observer");
            }),
        );
        let handle = dispatcher.handle();
        *owner.lock().expect("nobody panics") = Some(dispatcher);
        handle.shutdown_async();
        world.wait_until("the observer", || log.len() == 1);
        world.settle();
        assert_eq!(log.len(), 1);
    });
}

/// Shows U-26.
#[test]
fn two_threads_that_let_go_of_a_dispatcher_at_once_end_it_once() {
    in_usual_order(|world| {
        let log = Log::default();
        let entry = log.clone();
        let dispatcher = make(world, "d", DispatcherBuilder::new().shutdown_observer(move || entry.add("observer")));
        let handle = dispatcher.handle();
        let other = std::thread::spawn(move || handle.shutdown_async());
        drop(dispatcher);
        other.join().expect("it ends");
        world.wait_until("the observer", || log.len() >= 1);
        world.settle();
        assert_eq!(log.take(), ["observer"]);
    });
}
