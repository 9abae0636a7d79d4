//! Waits: one shot, the level, canceling, order and overlap, and what a shutdown makes of them. On every kind of
//! runtime.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use common::Log;
use fuchsine_dispatcher::{
    DispatcherBuilder, DispatcherHandle, Driver, Interest, Irq, IrqTrigger, Readiness, Status, WaitHandle, current,
};
use fuchsine_tests::pools::{HANG_LIMIT, World, in_the_foreground, on_every_pool, on_pools};

fn dispatcher(driver: &Driver, builder: DispatcherBuilder) -> DispatcherHandle {
    driver.new_dispatcher(builder).expect("there is room").release()
}

fn both_kinds() -> [DispatcherBuilder; 2] {
    [DispatcherBuilder::new(), DispatcherBuilder::new().unsynchronized()]
}

/// Something to wait on that is of the sort of the runtime: an irq that nobody is bound to, readable once triggered.
fn signal(on: &DispatcherHandle) -> (Irq, IrqTrigger) {
    on.new_irq().expect("there is a descriptor")
}

fn wait_on(on: &DispatcherHandle, source: &Irq, log: &Log, name: &'static str) -> WaitHandle {
    let log = log.clone();
    let wait = move |outcome: Result<Readiness, Status>| match outcome {
        Ok(readiness) => log.add(format!("{name} {}", readiness.is_readable())),
        Err(status) => log.add(format!("{name} {status:?}")),
    };
    on.begin_wait(source, Interest::READABLE, wait).expect("it is accepted")
}

fn wait_for(world: &World, log: &Log, entries: usize) -> Vec<String> {
    let seen = Mutex::new(Vec::new());
    world.wait_until("the log to fill", || {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend(log.take());
        seen.len() >= entries
    });
    seen.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Shows R86, DT-35.
#[test]
fn a_wait_is_told_once_what_its_source_is_ready_for() {
    on_every_pool(|world| {
        for builder in both_kinds() {
            let on = dispatcher(&world.driver("driver"), builder);
            let (source, trigger) = signal(&on);
            let log = Log::new();
            let wait = wait_on(&on, &source, &log, "wait");
            world.settle();
            assert!(log.is_empty(), "nothing has been signaled");
            trigger.trigger();
            assert_eq!(wait_for(world, &log, 1), ["wait true"]);
            trigger.trigger();
            world.run_on(&on, || ());
            world.settle();
            assert!(log.is_empty(), "it is one shot");
            assert!(wait.cancel().is_err());
        }
    });
}

/// The level counts: what was signaled before the wait was begun is not missed.
///
/// Shows R86.
#[test]
fn what_is_ready_when_a_wait_is_begun_counts() {
    on_every_pool(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        let (source, trigger) = signal(&on);
        let log = Log::new();
        trigger.trigger();
        for _ in 0..3 {
            wait_on(&on, &source, &log, "wait");
            assert_eq!(wait_for(world, &log, 1), ["wait true"]);
        }
    });
}

/// Shows R86, DT-40.
#[test]
fn inside_of_a_wait_its_dispatcher_is_current() {
    on_every_pool(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        let (source, trigger) = signal(&on);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let note = Arc::clone(&seen);
        let wait = move |_| note.lock().unwrap_or_else(PoisonError::into_inner).push(current());
        on.begin_wait(&source, Interest::READABLE, wait).expect("it is accepted");
        trigger.trigger();
        world.wait_until("the wait", || !seen.lock().unwrap_or_else(PoisonError::into_inner).is_empty());
        assert_eq!(*seen.lock().unwrap_or_else(PoisonError::into_inner), [Some(on.clone())]);
    });
}

/// Shows R87.
#[test]
fn a_dispatcher_that_shuts_down_refuses_a_wait_and_gives_its_callback_back() {
    on_every_pool(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        let (source, _trigger) = signal(&on);
        let token = Arc::new(());
        let held = Arc::clone(&token);
        on.shutdown_async();
        let refused = on.begin_wait(&source, Interest::READABLE, move |_| drop(held)).expect_err("it shuts down");
        assert_eq!(refused.status(), Status::BadState);
        assert_eq!(Arc::strong_count(&token), 2, "it was not dropped");
        drop(refused.into_inner());
        assert_eq!(Arc::strong_count(&token), 1);
        assert_eq!(on.owner().counters().refused, 1);
    });
}

/// Shows W10.
#[test]
fn a_source_that_cannot_be_polled_is_refused_and_counts_as_nothing_else() {
    on_pools(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        let file = std::fs::File::open(std::env::current_exe().expect("a test has a file")).expect("it can be read");
        let called = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&called);
        let wait = move |_| drop(counted.fetch_add(1, Ordering::AcqRel).to_string());
        let refused = on.begin_wait(&file, Interest::READABLE, wait).expect_err("a file is always ready");
        assert_eq!(refused.status(), Status::NotSupported);
        refused.into_inner()(Err(Status::Internal));
        assert_eq!(called.load(Ordering::Acquire), 1, "it belongs to the caller");
        let counters = on.counters();
        assert_eq!((counters.accepted, counters.refused, counters.pending), (0, 1, 0), "{counters:?}");
    });
}

/// Shows DT-37.
#[test]
fn a_wait_that_is_pending_can_be_canceled_and_is_never_called() {
    on_every_pool(|world| {
        for builder in both_kinds() {
            let on = dispatcher(&world.driver("driver"), builder);
            let (source, trigger) = signal(&on);
            let log = Log::new();
            let wait = wait_on(&on, &source, &log, "wait");
            assert!(wait.cancel().is_ok());
            assert_eq!(wait.cancel().expect_err("once").status(), Status::NotFound);
            trigger.trigger();
            world.run_on(&on, || ());
            world.settle();
            on.shutdown_async();
            world.wait_until("the shutdown", || on.counters().pending == 0);
            assert!(log.is_empty());
        }
    });
}

/// The events of both waits are taken in one poll, so the second one is certainly queued when the first one cancels it.
///
/// Shows R88.
#[test]
fn a_cancel_on_the_dispatcher_itself_wins_over_an_event_that_has_been_taken() {
    in_the_foreground(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        let ((first, first_trigger), (second, second_trigger)) = (signal(&on), signal(&on));
        let log = Log::new();
        let wait = wait_on(&on, &second, &log, "second");
        let told = log.clone();
        let cancels = move |_| told.add(format!("canceled: {}", wait.cancel().is_ok()));
        on.begin_wait(&first, Interest::READABLE, cancels).expect("it is accepted");
        world.settle();
        first_trigger.trigger();
        second_trigger.trigger();
        world.settle();
        assert_eq!(log.take(), ["canceled: true"]);
    });
}

/// Shows R88.
#[test]
fn a_cancel_on_a_synchronized_dispatcher_always_succeeds_before_the_wait_has_begun() {
    on_pools(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        for _ in 0..50 {
            let (source, trigger) = signal(&on);
            let log = Log::new();
            let wait = wait_on(&on, &source, &log, "wait");
            let canceled = world.run_on(&on, move || {
                trigger.trigger();
                // Another thread of the pool, if there is one, takes the event meanwhile.
                (0..20).for_each(|_| std::thread::yield_now());
                wait.cancel().is_ok()
            });
            assert!(canceled);
            world.run_on(&on, || ());
            assert!(log.is_empty());
        }
    });
}

/// Shows R89.
#[test]
fn a_wait_that_has_begun_cannot_be_canceled_and_one_that_waits_for_its_end_can() {
    on_every_pool(|world| {
        for builder in both_kinds() {
            let on = dispatcher(&world.driver("driver"), builder);
            let (source, trigger) = signal(&on);
            let (sender, receiver) = channel();
            let own: Arc<Mutex<Option<WaitHandle>>> = Arc::default();
            let handle = Arc::clone(&own);
            let wait = move |_| {
                let own = handle.lock().unwrap_or_else(PoisonError::into_inner).take();
                let canceled = own.map(|own| own.cancel().err().map(|error| error.status()));
                sender.send(canceled).expect("it is awaited");
            };
            {
                // The wait looks for its handle under the lock, so it finds it.
                let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
                *own = Some(on.begin_wait(&source, Interest::READABLE, wait).expect("it is accepted"));
            }
            trigger.trigger();
            if world.is_foreground() {
                world.settle();
            }
            let canceled = receiver.recv_timeout(HANG_LIMIT).expect("it runs");
            assert_eq!(canceled, Some(Some(Status::NotFound)), "its own callback runs");

            let (quiet, _quiet_trigger) = signal(&on);
            let log = Log::new();
            let wait = wait_on(&on, &quiet, &log, "wait");
            let stopping = on.clone();
            let canceled = world.run_on(&on, move || {
                stopping.shutdown_async();
                wait.cancel().is_ok()
            });
            assert!(canceled, "it was waiting for its `Canceled`");
            world.wait_until("the shutdown", || on.counters().pending == 0);
            assert!(log.is_empty());
        }
    });
}

/// Shows R90, DT-41.
#[test]
fn waits_overlap_with_nothing_of_a_synchronized_dispatcher() {
    on_pools(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        let (locks, calls) = (Arc::new((Mutex::new(()), Mutex::new(()))), Arc::new(AtomicUsize::new(0)));
        let signals: Vec<_> = (0..50).map(|_| signal(&on)).collect();
        for (source, trigger) in &signals {
            // In opposite orders: side by side they would stand in each other's way for ever.
            for in_order in [true, false] {
                let (locks, calls) = (Arc::clone(&locks), Arc::clone(&calls));
                let wait = move |_| {
                    let (first, second) = if in_order { (&locks.0, &locks.1) } else { (&locks.1, &locks.0) };
                    let _first = first.lock().unwrap_or_else(PoisonError::into_inner);
                    std::thread::yield_now();
                    let _second = second.try_lock().expect("nobody else of this dispatcher holds it");
                    calls.fetch_add(1, Ordering::AcqRel);
                };
                on.begin_wait(source, Interest::READABLE, wait).expect("it is accepted");
            }
            trigger.trigger();
        }
        world.wait_until("all waits", || calls.load(Ordering::Acquire) == 100);
    });
}

/// Shows R91, R141.
#[test]
fn a_wait_whose_event_was_taken_before_the_shutdown_but_not_told_is_canceled() {
    in_the_foreground(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        let ((first, first_trigger), (second, second_trigger)) = (signal(&on), signal(&on));
        let log = Log::new();
        let _wait = wait_on(&on, &second, &log, "second");
        let (own, told) = (on.clone(), log.clone());
        let stops = move |outcome: Result<Readiness, Status>| {
            own.shutdown_async();
            told.add(format!("first {}", outcome.is_ok()));
        };
        on.begin_wait(&first, Interest::READABLE, stops).expect("it is accepted");
        world.settle();
        first_trigger.trigger();
        second_trigger.trigger();
        world.settle();
        assert_eq!(log.take(), ["first true", "second Canceled"]);
    });
}

/// Nobody has to deliver an event that a thread has taken at the moment of the shutdown: it finds its wait marked.
///
/// Shows R141, R91.
#[test]
fn waits_that_are_signaled_while_their_dispatcher_shuts_down_are_told_once_and_before_the_observer() {
    const WAITS: usize = 40;
    on_pools(|world| {
        let told = Arc::new(AtomicUsize::new(0));
        let at_the_end = Arc::new(AtomicUsize::new(0));
        let (seen, noted) = (Arc::clone(&told), Arc::clone(&at_the_end));
        let observer = move || noted.store(seen.load(Ordering::Acquire), Ordering::Release);
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new().shutdown_observer(observer));
        let signals: Vec<_> = (0..WAITS).map(|_| signal(&on)).collect();
        for (source, _) in &signals {
            let told = Arc::clone(&told);
            let wait = move |_| drop(told.fetch_add(1, Ordering::AcqRel).to_string());
            on.begin_wait(source, Interest::READABLE, wait).expect("it is accepted");
        }
        std::thread::scope(|scope| {
            scope.spawn(|| signals.iter().for_each(|(_, trigger)| trigger.trigger()));
            scope.spawn(|| on.shutdown_async());
        });
        world.wait_until("the shutdown", || on.state() == fuchsine_dispatcher::DispatcherState::Destroyed);
        assert_eq!(at_the_end.load(Ordering::Acquire), WAITS);
        assert_eq!(told.load(Ordering::Acquire), WAITS);
    });
}

/// Shows DT-38.
#[test]
fn the_canceled_callback_of_a_wait_may_take_another_one_back() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let ((first, _first_trigger), (second, _second_trigger)) = (signal(&on), signal(&on));
        let log = Log::new();
        let other: Arc<Mutex<Option<WaitHandle>>> = Arc::default();
        let (handle, told) = (Arc::clone(&other), log.clone());
        let cancels = move |outcome: Result<Readiness, Status>| {
            let other = handle.lock().unwrap_or_else(PoisonError::into_inner).take();
            told.add(format!("{:?} {:?}", outcome.err(), other.map(|other| other.cancel().is_ok())));
        };
        on.begin_wait(&first, Interest::READABLE, cancels).expect("it is accepted");
        *other.lock().unwrap_or_else(PoisonError::into_inner) = Some(wait_on(&on, &second, &log, "second"));
        let ended = log.clone();
        driver.shutdown(move || ended.add("driver")).expect("the first");
        world.wait_until("the shutdown", || driver.is_shut_down());
        assert_eq!(log.take(), ["Some(Canceled) Some(true)", "driver"]);
    });
}
