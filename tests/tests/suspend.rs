//! Suspend and resume of drivers, and the always-on view: what is parked, what runs, in which order it all comes back,
//! and what shutdown makes of it. On every kind of runtime.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use common::Log;
use fuchsine_dispatcher::testing::set_default_dispatcher;
use fuchsine_dispatcher::{
    Channel, DispatcherBuilder, DispatcherHandle, DispatcherState, Driver, Interest, Kind, Lane, Message, PanicPolicy,
    Reason, RuntimeBuilder, Status, current, current_driver, sleep,
};
use fuchsine_tests::pools::{HANG_LIMIT, World, in_the_foreground, on_every_pool, on_every_pool_with, on_pools};

fn dispatcher(driver: &Driver, builder: DispatcherBuilder) -> DispatcherHandle {
    driver.new_dispatcher(builder).expect("there is room").release()
}

/// Suspends, and waits until the completer has said so.
#[track_caller]
fn suspend(world: &World, driver: &Driver) {
    let ended = begin_suspend(driver);
    world.wait_until("the suspend", || !ended.is_empty());
    assert_eq!(ended.take(), ["Ok(())"]);
}

/// Suspends; the completer writes its outcome down.
#[track_caller]
fn begin_suspend(driver: &Driver) -> Log {
    let ended = Log::new();
    let told = ended.clone();
    driver.suspend(move |outcome| told.add(format!("{outcome:?}"))).expect("it runs");
    ended
}

fn post(on: &DispatcherHandle, log: &Log, name: &'static str) {
    let log = log.clone();
    let task =
        move |outcome: Result<(), _>| log.add(if outcome.is_ok() { name.to_owned() } else { format!("-{name}") });
    on.post_task(task).expect("it is accepted");
}

fn post_after(on: &DispatcherHandle, delay: Duration, log: &Log, name: &'static str) {
    let log = log.clone();
    let task =
        move |outcome: Result<(), _>| log.add(if outcome.is_ok() { name.to_owned() } else { format!("-{name}") });
    let _timer = on.post_after(delay, task).expect("it is accepted");
}

/// Everything that was posted on these has run, as far as it may: a task through the view says so.
fn flush(world: &World, on: &DispatcherHandle) {
    world.run_on(&on.always_on(), || ());
    world.settle();
}

/// A callback that sits on a dispatcher until it is let go.
struct Sitting {
    let_go: std::sync::mpsc::Sender<()>,
}

fn sit_on(on: &DispatcherHandle) -> Sitting {
    let (entered, has_entered) = channel();
    let (let_go, released): (_, Receiver<()>) = channel();
    let task = move |_| {
        entered.send(()).expect("it is awaited");
        // An error means that the test is over, which is fine too.
        let _ = released.recv();
    };
    on.post_task(task).expect("it is accepted");
    has_entered.recv_timeout(HANG_LIMIT).expect("it runs");
    Sitting { let_go }
}

impl Sitting {
    fn let_go(self) {
        self.let_go.send(()).expect("it sits");
    }
}

/// Shows R124, R131.
#[test]
fn what_comes_in_while_a_driver_is_suspended_is_accepted_and_runs_in_its_order_after_the_resume() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let log = Log::new();
        for _cycle in 0..3 {
            suspend(world, &driver);
            ["first", "second", "third"].into_iter().for_each(|name| post(&on, &log, name));
            flush(world, &on);
            assert!(log.is_empty());
            assert_eq!(on.counters().pending, 3);
            assert!(driver.resume());
            world.wait_until("the tasks", || on.counters().pending == 0);
            world.settle();
            assert_eq!(log.take(), ["first", "second", "third"]);
        }
    });
}

/// Shows R123, R122.
#[test]
fn what_was_queued_before_the_suspend_stays_before_what_was_posted_after_it() {
    on_pools(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let log = Log::new();
        let sitting = sit_on(&on);
        post(&on, &log, "queued");
        let ended = begin_suspend(&driver);
        post(&on, &log, "posted");
        assert!(ended.is_empty(), "a callback executes");
        sitting.let_go();
        world.wait_until("the suspend", || !ended.is_empty());
        assert_eq!(ended.take(), ["Ok(())"]);
        flush(world, &on);
        assert!(log.is_empty(), "nothing of the batch was begun after the suspend");
        assert!(driver.resume());
        world.wait_until("both", || on.counters().pending == 0);
        world.settle();
        assert_eq!(log.take(), ["queued", "posted"]);
    });
}

/// Shows R121.
#[test]
fn a_suspend_is_told_once_after_all_dispatchers_are_quiet_and_never_before_the_call_returns() {
    on_pools(|world| {
        let driver = world.driver("driver");
        let on: Vec<_> = (0..2).map(|_| dispatcher(&driver, DispatcherBuilder::new().allow_sync_calls())).collect();
        let others = world.driver("other");
        let other = dispatcher(&others, DispatcherBuilder::new());
        let sitting: Vec<_> = on.iter().map(sit_on).collect();
        let held = Arc::new(Mutex::new(()));
        let log = Log::new();
        {
            let guard = held.lock().unwrap_or_else(PoisonError::into_inner);
            let (told, lock) = (log.clone(), Arc::clone(&held));
            let completer = move |outcome| {
                let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
                told.add(format!("{outcome:?} in {:?}", current_driver().map(|driver| driver.name().to_owned())));
            };
            driver.suspend(completer).expect("it runs");
            drop(guard);
        }
        // Other drivers do not notice.
        world.run_on(&other, || ());
        let mut sitting = sitting.into_iter();
        sitting.next().expect("there are two").let_go();
        world.wait_until("the first to end", || on.iter().any(|on| on.dump().running.is_empty()));
        assert!(log.is_empty(), "one still executes");
        sitting.next().expect("there are two").let_go();
        world.wait_until("the suspend", || !log.is_empty());
        assert_eq!(log.take(), ["Ok(()) in Some(\"driver\")"]);
    });
}

/// Shows R121.
#[test]
fn a_driver_without_dispatchers_is_suspended_at_once() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        assert!(!driver.is_suspended());
        suspend(world, &driver);
        assert!(driver.is_suspended());
        assert!(driver.resume() && !driver.is_suspended());
    });
}

/// A callback that suspends its own driver is one of those that are waited for.
///
/// Shows R122.
#[test]
fn a_driver_may_be_suspended_and_resumed_by_its_own_callbacks() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let log = Log::new();
        let (own, told, posting) = (driver.clone(), log.clone(), on.clone());
        world.run_on(&on, move || {
            let ended = told.clone();
            own.suspend(move |outcome| ended.add(format!("suspended: {outcome:?}"))).expect("it runs");
            post(&posting, &told, "parked");
            told.add("still here");
        });
        world.wait_until("the suspend", || driver.is_suspended() && world_has(&log, 2));
        flush(world, &on);
        assert_eq!(log.take(), ["still here", "suspended: Ok(())"]);
        let own = driver.clone();
        assert!(world.run_on(&on.always_on(), move || own.resume()));
        world.wait_until("the task", || on.counters().pending == 0);
        world.settle();
        assert_eq!(log.take(), ["parked"]);
    });
}

fn world_has(log: &Log, entries: usize) -> bool {
    let seen = log.take();
    let is_there = seen.len() >= entries;
    seen.into_iter().for_each(|entry| log.add(entry));
    is_there
}

/// Shows R128, W7, U-13.
#[test]
fn a_second_suspend_is_refused_and_gives_its_completer_back() {
    on_pools(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let sitting = sit_on(&on);
        let first = begin_suspend(&driver);
        let refused = driver.suspend(|_| ()).expect_err("the first still waits");
        assert_eq!(refused.status(), Status::AlreadyExists);
        let log = Log::new();
        let told = log.clone();
        let refused = driver.suspend(move |outcome| told.add(format!("{outcome:?}"))).expect_err("the same");
        refused.into_completer()(Ok(()));
        assert_eq!(log.take(), ["Ok(())"], "it belongs to the caller");
        sitting.let_go();
        world.wait_until("the first", || !first.is_empty());
        assert_eq!(first.take(), ["Ok(())"]);
        assert_eq!(driver.suspend(|_| ()).expect_err("it is suspended").into_status(), Status::AlreadyExists);
        assert!(driver.resume());
        suspend(world, &driver);
    });
}

/// Shows R129, U-14.
#[test]
fn a_resume_before_the_suspend_is_complete_cancels_it_and_a_resume_of_a_running_driver_does_nothing() {
    on_pools(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        assert!(!driver.resume());
        let sitting = sit_on(&on);
        let log = Log::new();
        let first = begin_suspend(&driver);
        post(&on, &log, "task");
        assert!(driver.resume());
        if world.threads() > 1 {
            // The only thread of a smaller pool sits in the callback.
            world.wait_until("the completer", || !first.is_empty());
        }
        // The callback that was waited for ends in the middle of the next suspend, or before it.
        let second = begin_suspend(&driver);
        sitting.let_go();
        world.wait_until("the second", || !second.is_empty());
        assert_eq!((first.take(), second.take()), (vec!["Err(Canceled)".to_owned()], vec!["Ok(())".to_owned()]));
        assert!(log.is_empty());
        assert!(driver.resume());
        world.wait_until("the task", || on.counters().pending == 0);
        world.settle();
        assert_eq!(log.take(), ["task"]);
    });
}

/// Shows R132, W7, U-15.
#[test]
fn a_dispatcher_that_is_made_while_its_driver_is_suspended_starts_suspended() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        suspend(world, &driver);
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let log = Log::new();
        post(&on, &log, "task");
        flush(world, &on);
        assert!(log.is_empty());
        assert!(driver.resume());
        world.wait_until("the task", || on.counters().pending == 0);
        world.settle();
        assert_eq!(log.take(), ["task"]);
    });
}

/// Shows R133, W7, U-12.
#[test]
fn the_shutdown_of_a_suspended_driver_completes_and_tells_everything_canceled() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let log = Log::new();
        let observed = log.clone();
        let on = dispatcher(&driver, DispatcherBuilder::new().shutdown_observer(move || observed.add("dispatcher")));
        suspend(world, &driver);
        post(&on, &log, "parked");
        let observed = log.clone();
        driver.shutdown(move || observed.add("driver")).expect("the first");
        world.wait_until("the shutdown", || driver.is_shut_down());
        assert_eq!(log.take(), ["-parked", "dispatcher", "driver"]);
        assert_eq!(driver.suspend(|_| ()).expect_err("it has shut down").status(), Status::BadState);
        driver.resume();
    });
}

/// Shows R133.
#[test]
fn a_dispatcher_can_be_shut_down_by_itself_while_its_driver_is_suspended() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let (on, other) =
            (dispatcher(&driver, DispatcherBuilder::new()), dispatcher(&driver, DispatcherBuilder::new()));
        let log = Log::new();
        suspend(world, &driver);
        post(&on, &log, "gone");
        post(&other, &log, "kept");
        on.shutdown_async();
        world.wait_until("the shutdown", || on.counters().pending == 0);
        world.settle();
        flush(world, &other);
        assert_eq!(log.take(), ["-gone"]);
        assert!(driver.resume());
        world.wait_until("the other", || other.counters().pending == 0);
        world.settle();
        assert_eq!(log.take(), ["kept"]);
    });
}

/// The driver's observer is the last thing that the driver hears: it waits for a completer that is due, or runs.
#[test]
fn a_suspend_that_a_shutdown_overtakes_is_told_before_the_observer_of_the_driver() {
    on_pools(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let log = Log::new();
        let (told, observed) = (log.clone(), log.clone());
        let (let_go, released): (_, Receiver<()>) = channel();
        let completer = move |outcome| {
            let _ = released.recv();
            told.add(format!("{outcome:?}"));
        };
        driver.suspend(completer).expect("it runs");
        driver.shutdown(move || observed.add("observer")).expect("the first");
        if world.threads() > 1 {
            // The only thread of a smaller pool sits in the completer.
            world.wait_until("the dispatcher to go", || on.state() == DispatcherState::Destroyed);
            world.settle();
        }
        assert!(log.is_empty() && !driver.is_shut_down(), "the completer runs");
        let_go.send(()).expect("it sits");
        world.wait_until("the shutdown", || driver.is_shut_down());
        assert_eq!(log.take(), ["Ok(())", "observer"]);
    });
}

/// Shows DT-94, R134, R124.
#[test]
fn always_on_tasks_run_while_regular_ones_are_parked() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let view = on.always_on();
        assert!(view.is_always_on() && view.always_on().is_always_on() && !on.is_always_on());
        assert_eq!(view, on, "it is the same dispatcher");
        let log = Log::new();
        suspend(world, &driver);
        post(&on, &log, "regular");
        post(&view, &log, "always on");
        flush(world, &on);
        assert_eq!(log.take(), ["always on"]);
        assert!(driver.resume());
        world.wait_until("the task", || on.counters().pending == 0);
        world.settle();
        assert_eq!(log.take(), ["regular"]);
    });
}

/// Shows DT-95, R83, R134, R135.
#[test]
fn the_current_dispatcher_of_an_always_on_callback_is_the_plain_one_and_management_acts_on_it() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new().name("parent"));
        let view = on.always_on();
        suspend(world, &driver);
        let seen = world.run_on(&view, || current().map(|current| (current.clone(), current.is_always_on())));
        assert_eq!(seen, Some((on.clone(), false)));
        assert_eq!((view.name(), view.id(), view.is_synchronized()), (on.name(), on.id(), on.is_synchronized()));
        view.shutdown_async();
        assert!(on.post_task(|_| ()).is_err());
        world.wait_until("the shutdown", || driver.dispatchers().is_empty());
    });
}

/// Shows R124.
#[test]
fn waits_reads_and_futures_through_the_view_run_while_suspended_and_others_after_the_resume() {
    in_the_foreground(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let log = Log::new();
        let (events, channels): (Vec<_>, Vec<_>) =
            (0..2).map(|_| (fuchsine_dispatcher::testing::sim::Event::new(), Channel::pair())).unzip();
        let names = ["regular", "always on"];
        for (nth, handle) in [on.clone(), on.always_on()].into_iter().enumerate() {
            let told = log.clone();
            let wait = move |outcome: Result<_, Status>| told.add(format!("wait {} {}", names[nth], outcome.is_ok()));
            handle.begin_wait(&events[nth], Interest::READABLE, wait).expect("it is accepted");
            let told = log.clone();
            let read = move |outcome: Result<_, Status>| told.add(format!("read {} {}", names[nth], outcome.is_ok()));
            channels[nth].0.begin_read(&handle, read).expect("it is accepted");
            let told = log.clone();
            let future = async move {
                let slept = sleep(Duration::from_secs(1)).await;
                told.add(format!("future {} {}", names[nth], slept.is_ok()));
            };
            drop(handle.spawn(future).expect("it is accepted"));
        }
        // The futures are polled for the first time, and sleep.
        world.settle();
        suspend(world, &driver);
        for (nth, handle) in [on.clone(), on.always_on()].into_iter().enumerate() {
            let told = log.clone();
            let done = move |outcome: Result<(), _>| told.add(format!("work {} {}", names[nth], outcome.is_ok()));
            handle.offload(Lane::Fast, |_| (), done).expect("it is accepted");
        }
        events.iter().for_each(|event| event.signal());
        channels.iter().for_each(|(_, peer)| peer.write(Message::new()).expect("the peer is there"));
        world.foreground().expect("it is one").advance(Duration::from_secs(2));
        let mut seen = log.take();
        seen.sort();
        assert_eq!(
            seen,
            ["future always on true", "read always on true", "wait always on true", "work always on true"]
        );
        assert!(driver.resume());
        world.settle();
        let mut seen = log.take();
        seen.sort();
        assert_eq!(seen, ["future regular true", "read regular true", "wait regular true", "work regular true"]);
    });
}

/// Shows R87, R124.
#[test]
fn a_wait_that_is_begun_while_suspended_is_armed_and_told_after_the_resume() {
    in_the_foreground(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        suspend(world, &driver);
        let event = fuchsine_dispatcher::testing::sim::Event::new();
        let log = Log::new();
        let told = log.clone();
        on.begin_wait(&event, Interest::READABLE, move |outcome| told.add(format!("{outcome:?}"))).expect("accepted");
        event.signal();
        world.settle();
        assert!(log.is_empty());
        // The level of now does not matter: the event has been taken.
        event.take().expect("it was signaled");
        assert!(driver.resume());
        world.settle();
        assert_eq!(log.take(), ["Ok(Readiness(READABLE | WRITABLE))"]);
    });
}

/// Shows DT-98, R123, R130, R131.
#[test]
fn timers_of_a_suspended_driver_wait_and_come_by_deadline_after_what_was_parked() {
    in_the_foreground(|world| {
        let runtime = world.foreground().expect("it is one");
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let log = Log::new();
        post_after(&on, Duration::from_millis(30), &log, "third");
        post_after(&on, Duration::from_millis(10), &log, "first");
        post_after(&on, Duration::from_millis(90), &log, "later");
        suspend(world, &driver);
        post_after(&on, Duration::from_millis(20), &log, "second");
        post_after(&on.always_on(), Duration::from_millis(10), &log, "always on");
        runtime.advance(Duration::from_millis(15));
        post(&on, &log, "parked");
        runtime.advance(Duration::from_millis(35));
        assert_eq!(log.take(), ["always on"]);
        assert!(driver.resume());
        world.settle();
        assert_eq!(log.take(), ["parked", "first", "second", "third"]);
        runtime.advance(Duration::from_millis(39));
        assert!(log.is_empty());
        runtime.advance(Duration::from_millis(1));
        assert_eq!(log.take(), ["later"]);
    });
}

/// A clock that has only timers of suspended drivers has nothing to wait for.
#[test]
fn a_suspended_driver_keeps_no_timer_armed() {
    in_the_foreground(|world| {
        let runtime = world.foreground().expect("it is one");
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let log = Log::new();
        post_after(&on, Duration::from_secs(10), &log, "before");
        suspend(world, &driver);
        post_after(&on, Duration::from_secs(10), &log, "meanwhile");
        let now = runtime.now();
        runtime.run_until(fuchsine_dispatcher::Instant::INFINITE);
        assert_eq!(runtime.now(), now, "no timer is left to advance to");
        assert!(driver.resume());
        runtime.run_until(fuchsine_dispatcher::Instant::INFINITE);
        assert_eq!(log.take(), ["before", "meanwhile"]);
    });
}

/// Shows DT-98.
#[test]
fn delayed_tasks_of_a_suspended_driver_are_kept_on_every_pool() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let log = Log::new();
        post_after(&on, Duration::from_millis(1), &log, "before");
        suspend(world, &driver);
        let before = log.take();
        post_after(&on, Duration::from_millis(1), &log, "meanwhile");
        post_after(&on.always_on(), Duration::from_millis(2), &log, "always on");
        world.wait_until("the always-on timer", || !log.is_empty());
        assert_eq!(log.take(), ["always on"]);
        let canceled = on.post_after(Duration::from_millis(1), |_| ()).expect("it is accepted");
        assert!(canceled.cancel().is_ok());
        assert!(driver.resume());
        world.wait_until("all", || on.counters().pending == 0);
        world.settle();
        let expected: &[&str] = if before.is_empty() { &["before", "meanwhile"] } else { &["meanwhile"] };
        assert_eq!(log.take(), expected);
    });
}

/// Shows R130, R172, U-21.
#[test]
fn a_message_to_a_suspended_dispatcher_is_parked_where_it_would_have_run_inline() {
    on_every_pool(|world| {
        let (driver, writer) = (world.driver("driver"), world.driver("writer"));
        let (on, from) = (dispatcher(&driver, DispatcherBuilder::new()), dispatcher(&writer, DispatcherBuilder::new()));
        let (near, far) = Channel::pair();
        let log = Log::new();
        let told = log.clone();
        near.begin_read(&on, move |outcome| told.add(format!("read {outcome:?}"))).expect("it is accepted");
        suspend(world, &driver);
        let told = log.clone();
        world.run_on(&from, move || {
            far.write(Message::new()).expect("the peer is there");
            told.add("written");
            drop(far);
        });
        flush(world, &on);
        assert_eq!(log.take(), ["written"]);
        let parked = on.dump().deferred.into_iter().find(|(reason, _)| *reason == Reason::Suspended);
        assert_eq!(parked, Some((Reason::Suspended, 1)));
        assert!(driver.resume());
        world.wait_until("the read", || on.counters().pending == 0);
        world.settle();
        assert_eq!(log.take(), ["read Ok(())"]);
    });
}

/// What is parked can be taken back, listed, and canceled with notice.
#[test]
fn what_is_parked_is_listed_and_can_be_taken_back() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        suspend(world, &driver);
        let task = on.post_cancelable(|_| ()).expect("it is accepted");
        let dump = on.dump();
        let kinds: Vec<_> = dump.pending.iter().map(|pending| (pending.kind, pending.is_ready)).collect();
        assert_eq!(kinds, [(Kind::Task, false)]);
        assert!(task.cancel().is_ok() && task.cancel().is_err());
        let (near, far) = Channel::pair();
        let log = Log::new();
        let told = log.clone();
        near.begin_read(&on, move |outcome| told.add(format!("{outcome:?}"))).expect("it is accepted");
        far.write(Message::new()).expect("the peer is there");
        // Closing this end cancels the read, which is told so after the resume.
        drop(near);
        flush(world, &on);
        assert!(log.is_empty());
        assert!(driver.resume());
        world.wait_until("the read", || on.counters().pending == 0);
        world.settle();
        assert_eq!(log.take(), ["Err(Canceled)"]);
    });
}

/// What is parked is accepted and pending like anything else, and its end is counted as what it was.
///
/// Shows R172, U-21.
#[test]
fn the_numbers_add_up_while_a_driver_is_suspended() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        suspend(world, &driver);
        let log = Log::new();
        post(&on, &log, "task");
        post_after(&on, Duration::from_millis(1), &log, "delayed");
        let taken_back = on.post_cancelable(|_| ()).expect("it is accepted");
        post(&on.always_on(), &log, "always on");
        world.wait_until("what is always on", || !log.is_empty());
        world.settle();
        let parked = on.counters();
        assert_eq!((parked.accepted, parked.ran, parked.pending), (4, 1, 3), "{parked:?}");
        assert!(parked.add_up() && taken_back.cancel().is_ok());
        assert!(driver.resume());
        world.wait_until("all", || on.counters().pending == 0);
        let counters = on.counters();
        assert_eq!((counters.ran, counters.taken_back, counters.canceled), (3, 1, 0), "{counters:?}");
        assert!(counters.add_up());
    });
}

/// The default of a thread is a dispatcher and no view of one; inside of a callback it cannot be set, by neither.
///
/// Shows U-25.
#[test]
fn the_view_as_the_default_of_a_thread_is_the_dispatcher() {
    on_every_pool(|world| {
        let on = dispatcher(&world.driver("driver"), DispatcherBuilder::new());
        let view = on.always_on();
        set_default_dispatcher(Some(&view)).expect("the thread is inside of nothing");
        let seen = current();
        let inside = world.run_on(&on, move || set_default_dispatcher(Some(&view)));
        set_default_dispatcher(None).expect("the thread is inside of nothing");
        assert_eq!(seen.map(|seen| (seen.id(), seen.is_always_on())), Some((on.id(), false)));
        assert_eq!((inside, current()), (Err(Status::BadState), None));
    });
}

/// Shows R140, U-8.
#[test]
fn everything_that_is_pending_is_canceled_in_the_order_that_is_promised() {
    in_the_foreground(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let log = Log::new();
        let note = |name: &'static str| {
            let log = log.clone();
            move |outcome: Result<(), Status>| log.add(format!("{name} {outcome:?}"))
        };
        // In no order that resembles the one of the end.
        let (irq, trigger) = on.new_irq().expect("it is simulated");
        let told = note("irq");
        on.bind_irq(&irq, move |outcome| told(outcome.map(|_| ()))).expect("it is accepted");
        post_after(&on.always_on(), Duration::from_secs(1), &log, "always-on delayed");
        post_after(&on, Duration::from_secs(9), &log, "delayed late");
        post_after(&on, Duration::from_secs(2), &log, "delayed early");
        let event = fuchsine_dispatcher::testing::sim::Event::new();
        let told = note("wait");
        on.begin_wait(&event, Interest::READABLE, move |outcome| told(outcome.map(|_| ()))).expect("it is accepted");
        let (near, _far) = Channel::pair();
        near.begin_read(&on, note("read")).expect("it is accepted");
        let woken = fuchsine_dispatcher::testing::sim::Event::new();
        driver.register_wake_vector(&woken, Interest::READABLE).expect("it has an identity").keep();
        let told = note("parked wake");
        on.begin_wait(&woken, Interest::READABLE, move |outcome| told(outcome.map(|_| ()))).expect("it is accepted");
        suspend(world, &driver);
        woken.signal();
        world.settle();
        post(&on, &log, "parked");
        post(&on.always_on(), &log, "ready");
        trigger.trigger();
        on.shutdown_async();
        world.settle();
        let expected = [
            "-ready",
            "read Err(Canceled)",
            "wait Err(Canceled)",
            "-delayed early",
            "-delayed late",
            "-parked",
            "parked wake Err(Canceled)",
            "-always-on delayed",
            "irq Err(Canceled)",
        ];
        assert_eq!(log.take(), expected);
    });
}

/// Shows R146, U-9.
#[test]
fn what_was_decided_before_the_shutdown_keeps_its_outcome_also_where_it_is_parked() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new());
        let (near, far) = Channel::pair();
        let log = Log::new();
        let told = log.clone();
        near.begin_read(&on, move |outcome| told.add(format!("{outcome:?}"))).expect("it is accepted");
        suspend(world, &driver);
        drop(far);
        flush(world, &on);
        on.shutdown_async();
        world.wait_until("the shutdown", || on.counters().pending == 0);
        world.settle();
        assert_eq!(log.take(), ["Err(PeerClosed)"]);
    });
}

/// A panic of a completer is the driver's, and nobody else's.
#[test]
fn a_completer_that_panics_is_reported_with_its_driver() {
    let builder = || RuntimeBuilder::new().panic_policy(PanicPolicy::Continue);
    on_every_pool_with(builder, |world| {
        let driver = world.driver("driver");
        driver.suspend(|_| panic!("on purpose")).expect("it runs");
        world.wait_until("the panic", || driver.panics() == 1);
        assert!(driver.resume());
        suspend(world, &driver);
    });
}

/// Posts, suspends, resumes and a shutdown at once: everything that was accepted ends once.
#[test]
fn nothing_is_lost_between_suspends_and_resumes_of_several_threads() {
    const POSTS: usize = 300;
    on_pools(|world| {
        let driver = world.driver("driver");
        let on: Vec<_> = both_kinds().into_iter().map(|builder| dispatcher(&driver, builder)).collect();
        let (ran, outcomes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        std::thread::scope(|scope| {
            for on in &on {
                let ran = &ran;
                scope.spawn(move || {
                    for nth in 0..POSTS {
                        let ran = Arc::clone(ran);
                        let task = move |_| drop(ran.fetch_add(1, Ordering::AcqRel).to_string());
                        if nth % 3 == 0 {
                            let _timer = on.post_after(Duration::from_micros(nth as u64), task).expect("accepted");
                        } else {
                            on.post_task(task).expect("accepted");
                        }
                    }
                });
            }
            for _ in 0..2 {
                let (driver, outcomes) = (&driver, &outcomes);
                scope.spawn(move || {
                    for _ in 0..50 {
                        let told = Arc::clone(outcomes);
                        let completer = move |_| drop(told.fetch_add(1, Ordering::AcqRel).to_string());
                        if let Err(refused) = driver.suspend(completer) {
                            refused.into_completer()(Ok(()));
                        }
                        std::thread::yield_now();
                        driver.resume();
                    }
                });
            }
        });
        driver.resume();
        world.wait_until("all", || ran.load(Ordering::Acquire) == 2 * POSTS);
        world.wait_until("the completers", || outcomes.load(Ordering::Acquire) == 100);
    });
}

fn both_kinds() -> [DispatcherBuilder; 2] {
    [DispatcherBuilder::new(), DispatcherBuilder::new().unsynchronized()]
}
