//! Creating dispatchers, and their operations: delayed tasks, waits, offloaded work, blocking, stop tokens, dumps.

mod common;

use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use common::{HANG, Log, add_up, pool_of, within};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{
    DispatcherBuilder, DispatcherState, Instant, Interest, Lane, OffloadError, Readiness, RuntimeBuilder, Status,
    blocking, current, current_driver,
};

#[test]
fn a_dispatcher_is_owned_by_the_driver_that_the_thread_is_inside_of() {
    let runtime = ForegroundRuntime::new();
    assert_eq!(DispatcherBuilder::new().build().expect_err("no driver").status(), Status::InvalidArgs);
    let (outer, inner) = (runtime.new_driver("outer"), runtime.new_driver("inner"));
    outer.enter(|| {
        assert!(current().is_none(), "a driver that is entered by hand has no current dispatcher");
        let made = inner.enter(|| DispatcherBuilder::new().name("made").build().expect("inside a driver"));
        assert_eq!(made.owner(), inner);
        assert_eq!(current_driver(), Some(outer.clone()));
    });
    assert!(current_driver().is_none());
    let parent = outer.new_dispatcher(DispatcherBuilder::new()).expect("created");
    let log = Log::new();
    let entry = log.clone();
    parent
        .post_task(move |_| {
            let child = DispatcherBuilder::new().name("child").build().expect("inside a callback").release();
            entry.add(child.owner().name());
        })
        .expect("accepted");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["outer"]);
}

/// The driver is left again although the closure panicked.
///
/// Shows R9, TC-2.
#[test]
fn a_driver_is_left_when_what_entered_it_panics() {
    let runtime = ForegroundRuntime::new();
    let driver = runtime.new_driver("entered");
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| driver.enter(|| panic!("on purpose"))));
    assert!(result.is_err());
    assert!(current_driver().is_none());
}

#[test]
fn creation_refuses_what_cannot_be_and_says_why() {
    let runtime = RuntimeBuilder::new().threads(1).thread_limit(2).build().expect("the system has threads");
    let driver = runtime.new_driver("refused");
    let both = DispatcherBuilder::new().unsynchronized().allow_sync_calls();
    let error = driver.new_dispatcher(both).expect_err("not offered");
    assert_eq!(error.status(), Status::NotSupported);
    assert!(error.to_string().contains("choose one of the two"), "{error}");
    let first = driver.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("one thread is left");
    assert_eq!(runtime.thread_count(), 2);
    let error = driver.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect_err("none is left");
    assert_eq!(error.status(), Status::NoResources);
    assert!(error.to_string().contains("raise the thread limit"), "{error}");
    let (sender, receiver) = channel();
    let last = DispatcherBuilder::new().shutdown_observer(move || sender.send(()).expect("it is awaited"));
    let plain = driver.new_dispatcher(last).expect("plain ones need no thread");
    let (gone, is_gone) = channel();
    // The thread is given back before the driver lets go of the dispatcher.
    drop(first);
    drop(plain);
    within(&receiver, "the observer");
    driver.shutdown(move || gone.send(()).expect("it is awaited")).expect("the first");
    assert_eq!(driver.new_dispatcher(DispatcherBuilder::new()).expect_err("closed").status(), Status::BadState);
    within(&is_gone, "the driver's observer");
    let other = runtime.new_driver("other");
    let _second = other.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("the thread was given back");
    assert_eq!(runtime.thread_count(), 2, "the spare thread is used again");
    runtime.shutdown(HANG).expect("the runtime shuts down");
    let late = runtime.new_driver("late");
    assert!(late.is_shut_down());
    assert_eq!(late.new_dispatcher(DispatcherBuilder::new()).expect_err("too late").status(), Status::BadState);
}

#[test]
fn runtime_options_are_checked() {
    for (builder, text) in [
        (RuntimeBuilder::new().threads(0), "at least one thread"),
        (RuntimeBuilder::new().threads(4).thread_limit(3), "below the number of base threads"),
        (RuntimeBuilder::new().batch(0), "at least one callback"),
    ] {
        let error = builder.build().expect_err("refused");
        assert_eq!(error.status(), Status::InvalidArgs);
        assert!(error.to_string().contains(text), "{error}");
    }
}

/// Shows R30, U-22.
#[test]
fn names_of_any_length_are_kept_whole() {
    let runtime = ForegroundRuntime::new();
    let long = "n".repeat(10_000);
    let dispatcher =
        runtime.new_driver(long.clone()).new_dispatcher(DispatcherBuilder::new().name(long.clone())).expect("created");
    assert_eq!(dispatcher.name(), long);
    assert_eq!(dispatcher.owner().name(), long);
}

#[test]
fn different_roles_never_share_a_thread() {
    let runtime = pool_of(1);
    let driver = runtime.new_driver("roles");
    let plain = driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
    let special = driver.new_dispatcher(DispatcherBuilder::new().scheduler_role("special")).expect("created");
    let again = driver.new_dispatcher(DispatcherBuilder::new().scheduler_role("special")).expect("created");
    let (sender, receiver) = channel();
    let mut threads = Vec::new();
    for dispatcher in [&plain, &special, &again] {
        let sender = sender.clone();
        dispatcher.post_task(move |_| sender.send(std::thread::current().id()).expect("awaited")).expect("accepted");
        threads.push(within(&receiver, "the thread"));
    }
    assert_ne!(threads[0], threads[1]);
    assert_eq!(threads[1], threads[2]);
    runtime.shutdown(HANG).expect("the runtime shuts down");
}

#[test]
fn a_delayed_task_never_runs_early_and_can_be_canceled_at_any_time_before() {
    let runtime = ForegroundRuntime::new();
    let dispatcher = runtime.new_driver("delayed").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let log = Log::new();
    let entry = log.clone();
    let start = runtime.now();
    let _first = dispatcher
        .post_after(Duration::from_nanos(1_500), move |_| {
            let at = current().expect("inside").now();
            entry.add(format!("{} ns", at.duration_since(start).as_nanos()));
        })
        .expect("accepted");
    let entry = log.clone();
    let second = dispatcher.post_at(start + Duration::from_secs(1), move |_| entry.add("canceled")).expect("accepted");
    let entry = log.clone();
    let _past = dispatcher.post_at(Instant::ZERO, move |_| entry.add("past")).expect("accepted");
    assert_eq!(dispatcher.counters().pending, 3);
    runtime.advance(Duration::from_micros(1));
    assert_eq!(log.take(), ["past"]);
    runtime.advance(Duration::from_nanos(500));
    assert_eq!(log.take(), ["1500 ns"]);
    assert!(second.cancel().is_ok());
    runtime.advance(Duration::from_secs(10));
    assert!(log.is_empty());
    let refused = dispatcher.post_at(Instant::INFINITE, |_| ()).expect_err("never");
    assert_eq!(refused.status(), Status::InvalidArgs);
    assert!(refused.to_string().contains("infinite"), "{refused}");
    let refused = dispatcher.post_after(Duration::MAX, |_| ()).expect_err("never");
    assert_eq!(refused.status(), Status::InvalidArgs);
    assert_eq!(dispatcher.counters().refused, 2);
    add_up(&runtime);
}

/// A task that is due and queued can still be taken back, by the callback that runs before it.
#[test]
fn a_callback_takes_back_what_is_already_due() {
    let runtime = ForegroundRuntime::new();
    let dispatcher = runtime.new_driver("due").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let log = Log::new();
    let (sender, receiver) = channel::<fuchsine_dispatcher::TaskHandle>();
    let entry = log.clone();
    let _first = dispatcher
        .post_after(Duration::from_secs(1), move |_| {
            let canceled = receiver.recv().expect("sent before").cancel().is_ok();
            entry.add(format!("canceled: {canceled}"));
        })
        .expect("accepted");
    let entry = log.clone();
    let second =
        dispatcher.post_after(Duration::from_secs(1), move |_| entry.add("ran all the same")).expect("accepted");
    sender.send(second).expect("it is received later");
    runtime.advance(Duration::from_secs(1));
    assert_eq!(log.take(), ["canceled: true"]);
    add_up(&runtime);
}

/// Rearming from its own callback, in the middle of a queue that never runs dry: delayed tasks do not starve.
///
/// Shows R79.
#[test]
fn delayed_tasks_do_not_starve_behind_a_queue_that_never_runs_dry() {
    let runtime = pool_of(1);
    let dispatcher = runtime.new_driver("busy").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let (sender, receiver) = channel();
    fn forever(dispatcher: &fuchsine_dispatcher::DispatcherHandle) {
        let again = dispatcher.clone();
        // Refused at shutdown, which is how it ends.
        let _ = dispatcher.post_task(move |outcome| {
            if outcome.is_ok() {
                forever(&again);
            }
        });
    }
    forever(&dispatcher.handle());
    for _ in 0..20 {
        let sender = sender.clone();
        let _timer = dispatcher
            .post_after(Duration::from_millis(1), move |_| sender.send(()).expect("it is awaited"))
            .expect("accepted");
        within(&receiver, "the timer");
    }
    runtime.shutdown(HANG).expect("the runtime shuts down");
    add_up(&runtime);
}

#[test]
fn a_wait_reports_what_is_ready_and_counts_what_is_ready_already() {
    let runtime = pool_of(2);
    let dispatcher = runtime.new_driver("waits").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let (near, mut far) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
    let (sender, receiver) = channel();
    let told = sender.clone();
    let wait = dispatcher
        .begin_wait(&near, Interest::READABLE, move |outcome| told.send(outcome).expect("awaited"))
        .expect("accepted");
    assert!(wait.cancel().is_ok());
    assert!(wait.cancel().is_err());
    far.write_all(b"level").expect("there is room");
    let told = sender.clone();
    dispatcher
        .begin_wait(&near, Interest::READABLE, move |outcome| told.send(outcome).expect("awaited"))
        .expect("accepted");
    let readiness = within(&receiver, "the readiness").expect("ready");
    assert!(readiness.contains(Readiness::READABLE), "{readiness:?}");
    drop(far);
    dispatcher
        .begin_wait(&near, Interest::READABLE, move |outcome| sender.send(outcome).expect("awaited"))
        .expect("accepted");
    let readiness = within(&receiver, "the end of the stream").expect("ready");
    assert!(readiness.contains(Readiness::READABLE), "data is still there: {readiness:?}");
    runtime.shutdown(HANG).expect("the runtime shuts down");
    add_up(&runtime);
}

/// What cannot be polled is refused with a sentence that points to `offload`; the callback comes back.
#[test]
fn a_regular_file_cannot_be_waited_for() {
    let runtime = pool_of(1);
    let dispatcher = runtime.new_driver("files").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let file = tempfile::tempfile().expect("a file");
    let called = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&called);
    let refused = dispatcher
        .begin_wait(&file.as_fd(), Interest::READABLE, move |_| {
            counting.fetch_add(1, Ordering::Relaxed);
        })
        .expect_err("not pollable");
    assert_eq!(refused.status(), Status::NotSupported);
    assert!(refused.to_string().contains("offload"), "{refused}");
    refused.into_inner()(Err(Status::NotSupported));
    assert_eq!(called.load(Ordering::Relaxed), 1, "only by its owner");
    let counters = dispatcher.counters();
    assert_eq!((counters.accepted, counters.refused), (0, 1));
    runtime.shutdown(HANG).expect("the runtime shuts down");
}

#[test]
fn work_runs_outside_of_any_dispatcher_and_its_result_comes_back_in_order() {
    let runtime = pool_of(2);
    let dispatcher =
        runtime.new_driver("offload").new_dispatcher(DispatcherBuilder::new().name("home")).expect("created");
    let (sender, receiver) = channel();
    for nth in 0..20 {
        let sender = sender.clone();
        dispatcher
            .offload(
                if nth % 2 == 0 { Lane::Fast } else { Lane::Slow },
                move |stop| {
                    assert!(!stop.is_stopping());
                    assert!(current().is_none() && current_driver().is_none(), "work belongs to no driver");
                    nth * nth
                },
                move |outcome| {
                    let here = current().expect("back home").name().to_owned();
                    sender.send((nth, outcome, here)).expect("awaited");
                },
            )
            .expect("accepted");
    }
    let mut seen: Vec<_> = (0..20).map(|_| within(&receiver, "a result")).collect();
    seen.sort_by_key(|(nth, ..)| *nth);
    for (nth, (index, outcome, here)) in seen.into_iter().enumerate() {
        assert_eq!((index, outcome, here.as_str()), (nth, Ok(nth * nth), "home"));
    }
    let told = sender.clone();
    dispatcher
        .offload(
            Lane::Fast,
            |_| -> usize { panic!("in the work") },
            move |outcome| {
                told.send((0, outcome, String::new())).expect("awaited");
            },
        )
        .expect("accepted");
    let (_, outcome, _) = within(&receiver, "the panic");
    assert_eq!(outcome, Err(OffloadError::Panicked("in the work".to_owned())));
    runtime.shutdown(HANG).expect("the runtime shuts down");
    add_up(&runtime);
}

/// At shutdown work that runs is waited for and delivers its result; work that waits is canceled and never runs.
#[test]
fn shutdown_waits_for_work_that_runs_and_cancels_work_that_waits() {
    let runtime = ForegroundRuntime::new();
    let log = Log::new();
    let entry = log.clone();
    let builder = DispatcherBuilder::new().shutdown_observer(move || entry.add("observer"));
    let dispatcher = runtime.new_driver("stop").new_dispatcher(builder).expect("created");
    let handle = dispatcher.handle();
    let (first, second) = (log.clone(), log.clone());
    dispatcher
        .offload(
            Lane::Fast,
            move |stop| {
                handle.shutdown_async();
                assert!(stop.is_stopping());
                assert!(stop.wait_timeout(Duration::ZERO));
                7
            },
            move |outcome| first.add(format!("first {outcome:?}")),
        )
        .expect("accepted");
    dispatcher
        .offload(
            Lane::Fast,
            |_| panic!("it ran"),
            move |outcome: Result<(), _>| second.add(format!("second {outcome:?}")),
        )
        .expect("accepted");
    runtime.run_until_idle();
    let mut told = log.take();
    assert_eq!(told.pop().as_deref(), Some("observer"));
    told.sort();
    assert_eq!(told, ["first Ok(7)", "second Err(Canceled)"]);
    add_up(&runtime);
}

/// On a pool: the turn that would cancel has been made when another dispatcher's task has run, and it left the work alone.
#[test]
fn the_observer_comes_after_the_result_of_work_that_a_worker_runs() {
    let runtime = pool_of(1);
    let log = Log::new();
    let (sender, receiver) = channel();
    let (entry, told) = (log.clone(), sender.clone());
    let builder = DispatcherBuilder::new().shutdown_observer(move || {
        entry.add("observer");
        told.send(()).expect("awaited");
    });
    let dispatcher = runtime.new_driver("stop").new_dispatcher(builder).expect("created");
    let other = runtime.new_driver("other").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let (entered, is_inside) = channel();
    let (release, released) = channel::<()>();
    let entry = log.clone();
    dispatcher
        .offload(
            Lane::Slow,
            move |stop| {
                entered.send(()).expect("awaited");
                within(&released, "the release");
                assert!(stop.is_stopping());
            },
            move |outcome| entry.add(format!("{outcome:?}")),
        )
        .expect("accepted");
    within(&is_inside, "the work");
    dispatcher.shutdown_async();
    other.post_task(move |_| sender.send(()).expect("awaited")).expect("accepted");
    within(&receiver, "the other task");
    assert!(log.is_empty(), "{:?} while a worker runs the work", log.take());
    release.send(()).expect("it still runs");
    within(&receiver, "the observer");
    assert_eq!(log.take(), ["Ok(())", "observer"]);
    runtime.shutdown(HANG).expect("the runtime shuts down");
    add_up(&runtime);
}

#[test]
fn work_is_taken_back_until_a_worker_has_started_it() {
    let runtime = ForegroundRuntime::new();
    let dispatcher = runtime.new_driver("back").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let work =
        dispatcher.offload(Lane::Slow, |_| panic!("it ran"), |_: Result<(), _>| panic!("told")).expect("accepted");
    assert!(work.cancel().is_ok());
    assert!(work.cancel().is_err());
    runtime.run_until_idle();
    let counters = dispatcher.counters();
    assert_eq!((counters.accepted, counters.taken_back, counters.pending), (1, 1, 0));
}

/// A worker that has begun is not to be stopped: the work is not taken back, and its result is told.
#[test]
fn work_that_a_worker_runs_cannot_be_taken_back() {
    let runtime = pool_of(1);
    let dispatcher = runtime.new_driver("running").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let (entered, is_inside) = channel();
    let (release, released) = channel::<()>();
    let (sender, receiver) = channel();
    let work = dispatcher
        .offload(
            Lane::Slow,
            move |_| {
                entered.send(()).expect("awaited");
                within(&released, "the release");
            },
            move |outcome| sender.send(outcome).expect("awaited"),
        )
        .expect("accepted");
    within(&is_inside, "the work");
    assert!(work.cancel().is_err());
    assert_eq!(dispatcher.counters().pending, 1);
    release.send(()).expect("it still runs");
    assert_eq!(within(&receiver, "the result"), Ok(()));
    runtime.shutdown(HANG).expect("the runtime shuts down");
    add_up(&runtime);
}

/// The lanes are independent: slow items that block do not hold up fast ones.
#[test]
fn slow_work_does_not_delay_fast_work() {
    let runtime = pool_of(1);
    let dispatcher = runtime.new_driver("lanes").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let (release, gate) = (Arc::new(Barrier::new(5)), channel());
    let (sender, receiver) = gate;
    for _ in 0..4 {
        let blocked = Arc::clone(&release);
        dispatcher
            .offload(
                Lane::Slow,
                move |_| {
                    blocked.wait();
                },
                |_| (),
            )
            .expect("accepted");
    }
    dispatcher.offload(Lane::Fast, |_| (), move |_| sender.send(()).expect("awaited")).expect("accepted");
    within(&receiver, "the fast work");
    release.wait();
    runtime.shutdown(HANG).expect("the runtime shuts down");
    add_up(&runtime);
}

#[test]
fn blocking_is_refused_where_it_is_not_allowed_and_the_closure_comes_back() {
    let runtime = ForegroundRuntime::new();
    let driver = runtime.new_driver("blocking");
    let plain = driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
    let sync = driver.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("created");
    let log = Log::new();
    let entry = log.clone();
    plain
        .post_task(move |_| {
            let refused = blocking(|| "not run").expect_err("not allowed here");
            assert_eq!(refused.status(), Status::BadState);
            assert!(refused.to_string().contains("offload"), "{refused}");
            entry.add(refused.into_inner()());
        })
        .expect("accepted");
    let entry = log.clone();
    sync.post_task(move |_| entry.add(blocking(|| "run").expect("allowed here"))).expect("accepted");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["not run", "run"]);
    runtime.shutdown().expect("it shuts down");
    assert_eq!(blocking(|| 5).expect("outside of any pool"), 5);
}

/// A dump shows what runs and what waits, with where it was posted, while a callback is stuck.
#[test]
fn a_dump_of_a_stuck_dispatcher_names_what_runs_and_what_waits() {
    let runtime = pool_of(1);
    let driver = runtime.new_driver("stuck driver");
    let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().name("stuck")).expect("created");
    let (entered, is_inside) = channel();
    let (release, released) = channel::<()>();
    dispatcher
        .post_task(move |_| {
            entered.send(()).expect("awaited");
            within(&released, "the release");
        })
        .expect("accepted");
    within(&is_inside, "the callback");
    dispatcher.post_task(|_| ()).expect("accepted");
    let _timer = dispatcher.post_after(Duration::from_secs(3600), |_| ()).expect("accepted");
    let dump = dispatcher.dump();
    assert_eq!(dump.state, DispatcherState::Running);
    assert_eq!((dump.running.len(), dump.pending.len()), (1, 2));
    let here = dump.running[0].posted_from.expect("a callback was posted somewhere");
    assert!(here.file().ends_with("dispatchers.rs"), "{here}");
    let error = runtime.shutdown(Duration::from_millis(50)).expect_err("it is stuck");
    assert_eq!(error.status(), Status::TimedOut);
    let text = error.to_string();
    for part in ["stuck driver", "\"stuck\"", "dispatchers.rs", "running", "task"] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
    release.send(()).expect("it still blocks");
    runtime.shutdown(HANG).expect("the second wait succeeds");
    add_up(&runtime);
}

#[test]
fn a_runtime_cannot_be_waited_for_on_its_own_thread() {
    let runtime = pool_of(1);
    let dispatcher = runtime.new_driver("own").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let (sender, receiver) = channel();
    let own = runtime.clone();
    dispatcher
        .post_task(move |_| {
            let status = own.shutdown(HANG).expect_err("it would wait for itself").status();
            sender.send(status).expect("awaited");
        })
        .expect("accepted");
    assert_eq!(within(&receiver, "the answer"), Status::BadState);
    runtime.shutdown(HANG).expect("from outside it works");
}

/// Dropping the last handle of a runtime begins its shutdown and never blocks, even inside of a callback.
#[test]
fn dropping_a_runtime_shuts_it_down_without_blocking() {
    let (sender, receiver) = channel();
    let runtime = pool_of(1);
    let driver = runtime.new_driver("dropped");
    let told = sender.clone();
    let dispatcher = driver
        .new_dispatcher(DispatcherBuilder::new().shutdown_observer(move || told.send("observer").expect("awaited")))
        .expect("created");
    let told = sender.clone();
    let _timer = dispatcher
        .post_after(Duration::from_secs(3600), move |outcome| {
            assert!(outcome.is_err());
            told.send("canceled").expect("awaited");
        })
        .expect("accepted");
    dispatcher
        .post_task(move |_| {
            drop(runtime);
            sender.send("dropped").expect("awaited");
        })
        .expect("accepted");
    let seen: Vec<_> = (0..3).map(|_| within(&receiver, "the next step")).collect();
    assert_eq!(seen, ["dropped", "canceled", "observer"]);
}

/// Several runtimes live in one process and know nothing of each other.
#[test]
fn runtimes_are_independent() {
    let (one, other) = (pool_of(1), pool_of(1));
    let dispatcher = other.new_driver("other").new_dispatcher(DispatcherBuilder::new()).expect("created");
    one.shutdown(HANG).expect("the runtime shuts down");
    let (sender, receiver) = channel();
    dispatcher.post_task(move |outcome| sender.send(outcome).expect("awaited")).expect("accepted");
    assert_eq!(within(&receiver, "the task"), Ok(()));
    other.shutdown(HANG).expect("the runtime shuts down");
}

#[test]
fn a_stop_token_can_be_polled() {
    let runtime = pool_of(1);
    let driver = runtime.new_driver("token");
    let dispatcher = driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
    let watcher = runtime.new_driver("watcher").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let token = dispatcher.stop_token();
    let (sender, receiver) = channel();
    let fd = token.as_fd().expect("a descriptor").try_clone_to_owned().expect("a descriptor");
    watcher
        .begin_wait(&fd, Interest::READABLE, move |outcome| sender.send(outcome.is_ok()).expect("awaited"))
        .expect("accepted");
    assert!(!token.wait_timeout(Duration::ZERO));
    dispatcher.shutdown_async();
    assert!(within(&receiver, "the signal"));
    assert!(token.is_stopping());
    let late = dispatcher.stop_token();
    assert!(late.is_stopping());
    runtime.shutdown(HANG).expect("the runtime shuts down");
}
