//! Goal: the foreground runtime keeps the rules of the original's test calls: runs and their statuses, quit, the default
//! dispatcher of a thread, shutdown by the crank; and it runs the futures of a test.
//! Method: no time passes and nothing runs unless the test says so, so each step is asserted.

mod common;

use std::pin::pin;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use common::{HANG, Log, add_up, pool_of, within};
use fuchsine_dispatcher::testing::{ForegroundRuntime, set_default_dispatcher};
use fuchsine_dispatcher::{
    Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Instant, Message, PendingDump, Reason, Runtime,
    RuntimeBuilder, Status, SynchronizationChecker, current, current_driver, sleep,
};

const MILLISECOND: Duration = Duration::from_millis(1);

#[track_caller]
fn dispatcher(runtime: &Runtime, name: &str) -> Dispatcher {
    runtime.new_driver(name).new_dispatcher(DispatcherBuilder::new().name(name)).expect("created")
}

#[track_caller]
fn post(dispatcher: &DispatcherHandle, log: &Log, what: &'static str) {
    let log = log.clone();
    dispatcher
        .post_task(move |outcome| log.add(if outcome.is_ok() { what.to_owned() } else { format!("{what} canceled") }))
        .expect("accepted");
}

/// Shows R114.
#[test]
fn dispatchers_of_all_drivers_and_roles_run_on_the_thread_that_turns_the_crank() {
    let runtime = ForegroundRuntime::new();
    let (sender, threads) = channel();
    let mut keep = Vec::new();
    for (driver, role) in [("a", ""), ("b", ""), ("b", "audio")] {
        let builder = DispatcherBuilder::new().scheduler_role(role);
        let dispatcher = runtime.new_driver(driver).new_dispatcher(builder).expect("created");
        let sender = sender.clone();
        dispatcher
            .post_task(move |_| sender.send(thread::current().id()).expect("the test listens"))
            .expect("accepted");
        keep.push(dispatcher);
    }
    assert!(threads.try_recv().is_err(), "nothing runs by itself");
    // Whoever turns it: another thread may, when this one does not.
    let turned_by = thread::scope(|scope| {
        let turning = scope.spawn(|| {
            runtime.run_until_idle();
            thread::current().id()
        });
        turning.join().expect("it turns")
    });
    assert_eq!(threads.try_iter().collect::<Vec<_>>(), [turned_by; 3]);
}

/// Shows R115.
#[test]
fn a_run_says_how_it_ended() {
    let runtime = ForegroundRuntime::new();
    let home = dispatcher(&runtime, "home");
    let log = Log::new();
    let entry = log.clone();
    let _timer = home.post_after(MILLISECOND * 10, move |_| entry.add("timer")).expect("armed");
    post(&home, &log, "task");

    let start = runtime.now();
    assert_eq!(runtime.run(start + MILLISECOND), Err(Status::TimedOut));
    assert_eq!(log.take(), ["task"]);
    assert_eq!(runtime.now(), start + MILLISECOND, "the deadline has come");
    assert_eq!(runtime.run(start + MILLISECOND * 10), Err(Status::TimedOut));
    assert_eq!(log.take(), ["timer"], "what is due at the deadline runs");
    assert_eq!(runtime.run(start), Err(Status::TimedOut), "a deadline in the past ends a run that has nothing to do");
    assert_eq!(runtime.run(Instant::INFINITE), Ok(()), "with nothing left there is nothing to wait for");

    runtime.quit();
    post(&home, &log, "later");
    assert_eq!(runtime.run(Instant::INFINITE), Err(Status::Canceled));
    assert!(log.is_empty());

    runtime.shutdown().expect("it shuts down");
    assert_eq!(log.take(), ["later canceled"]);
    assert_eq!(runtime.run(Instant::INFINITE), Err(Status::BadState));
    assert_eq!(runtime.run_one_until(Instant::INFINITE), Err(Status::BadState));
}

/// Shows R115.
#[test]
fn a_run_of_one_unit_makes_one_turn_and_waits_for_a_timer_if_there_is_nothing_else() {
    let runtime = ForegroundRuntime::with(RuntimeBuilder::new().batch(2)).expect("made");
    let home = dispatcher(&runtime, "home");
    let log = Log::new();
    for what in ["one", "two", "three"] {
        post(&home, &log, what);
    }
    let entry = log.clone();
    let _timer = home.post_after(MILLISECOND * 10, move |_| entry.add("timer")).expect("armed");
    let start = runtime.now();
    assert_eq!(runtime.run_one_until(Instant::INFINITE), Ok(()));
    assert_eq!(log.take(), ["one", "two"], "a unit is a turn, and a turn a batch");
    assert_eq!(runtime.run_one_until(Instant::INFINITE), Ok(()));
    assert_eq!(log.take(), ["three"]);
    assert_eq!(runtime.run_one_until(start + MILLISECOND), Err(Status::TimedOut));
    assert_eq!((runtime.now(), log.is_empty()), (start + MILLISECOND, true));
    assert_eq!(runtime.run_one_until(start + MILLISECOND * 10), Ok(()));
    assert_eq!(log.take(), ["timer"]);
    assert_eq!(runtime.run_one_until(Instant::INFINITE), Err(Status::TimedOut), "nothing will ever be there");
    runtime.quit();
    post(&home, &log, "later");
    assert_eq!(runtime.run_one_until(Instant::INFINITE), Err(Status::Canceled));
    assert!(log.is_empty());
}

/// Shows R116.
#[test]
fn a_run_until_idle_does_not_wait_for_delayed_tasks() {
    let runtime = ForegroundRuntime::new();
    let home = dispatcher(&runtime, "home");
    let log = Log::new();
    let entry = log.clone();
    let _timer = home.post_after(MILLISECOND, move |_| entry.add("timer")).expect("armed");
    let (again, entry) = (home.handle(), log.clone());
    home.post_task(move |_| {
        entry.add("first");
        again.post_task(move |_| entry.add("second")).expect("accepted");
    })
    .expect("accepted");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["first", "second"]);
    assert_eq!(home.counters().pending, 1);
}

/// Shows R116, R117.
#[test]
fn a_quit_is_remembered_until_it_is_taken_back() {
    let runtime = ForegroundRuntime::with(RuntimeBuilder::new().batch(2)).expect("made");
    let home = dispatcher(&runtime, "home");
    let log = Log::new();
    let (quit, entry) = (runtime.quit_handle(), log.clone());
    home.post_task(move |_| {
        entry.add("one");
        quit.quit();
    })
    .expect("accepted");
    for what in ["two", "three"] {
        post(&home, &log, what);
    }
    runtime.run_until_idle();
    assert_eq!(log.take(), ["one", "two"], "the turn in which somebody quits is made to its end, and no other");
    assert!(!runtime.run_once());
    assert_eq!(runtime.run_until_idle(), 0);
    assert!(!runtime.run_until_condition(|| false));
    runtime.advance(MILLISECOND);
    assert!(log.is_empty(), "later runs return at once");
    runtime.reset_quit().expect("nothing runs");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["three"]);
}

/// Shows R117.
#[test]
fn a_quit_from_another_thread_ends_a_run_that_never_becomes_idle() {
    let runtime = ForegroundRuntime::new();
    let home = dispatcher(&runtime, "home");
    fn for_ever(home: DispatcherHandle, started: Arc<OnceLock<()>>) {
        let again = home.clone();
        // Refused once the dispatcher shuts down, which ends it.
        let _ = home.post_task(move |_| {
            let _ = started.set(());
            for_ever(again, started);
        });
    }
    let started = Arc::new(OnceLock::new());
    for_ever(home.handle(), Arc::clone(&started));
    let quit = runtime.quit_handle();
    let quitter = thread::spawn(move || {
        started.wait();
        quit.quit();
    });
    assert_eq!(runtime.run(Instant::INFINITE), Err(Status::Canceled));
    quitter.join().expect("it quits");
}

/// Shows R118.
#[test]
fn a_quit_is_taken_back_only_while_nothing_runs() {
    let runtime = Arc::new(ForegroundRuntime::new());
    let home = dispatcher(&runtime, "home");
    assert_eq!(runtime.reset_quit(), Ok(()), "also when nobody has quit");
    let (inside, result) = (Arc::downgrade(&runtime), Arc::new(OnceLock::new()));
    let entry = Arc::clone(&result);
    home.post_task(move |_| {
        let runtime = inside.upgrade().expect("the test has it");
        runtime.quit();
        entry.set(runtime.reset_quit()).expect("once");
    })
    .expect("accepted");
    runtime.run_until_idle();
    assert_eq!(result.get(), Some(&Err(Status::BadState)));
    assert_eq!(runtime.run(Instant::INFINITE), Err(Status::Canceled), "so the quit stays");
    assert_eq!(runtime.reset_quit(), Ok(()));
    runtime.shutdown().expect("it shuts down");
    assert_eq!(runtime.reset_quit(), Err(Status::BadState), "there is nothing left to run");
}

/// Shows DT-62.
#[test]
fn a_run_can_be_quit_and_begun_again() {
    let runtime = ForegroundRuntime::new();
    let home = dispatcher(&runtime, "home");
    let log = Log::new();
    for _ in 0..2 {
        let (quit, entry) = (runtime.quit_handle(), log.clone());
        let _timer = home
            .post_after(MILLISECOND * 100, move |_| {
                entry.add("quits");
                quit.quit();
            })
            .expect("armed");
        assert_eq!(runtime.run(runtime.now() + MILLISECOND), Err(Status::TimedOut));
        assert!(log.is_empty());
        assert_eq!(runtime.run(Instant::INFINITE), Err(Status::Canceled));
        assert_eq!(log.take(), ["quits"]);
        runtime.reset_quit().expect("nothing runs");
    }
}

/// Shows R119.
#[test]
fn a_shutdown_is_carried_out_by_whoever_turns_the_crank() {
    let runtime = ForegroundRuntime::new();
    let driver = runtime.new_driver("patient");
    let log = Log::new();
    let (entry, turner) = (log.clone(), thread::current().id());
    let builder = DispatcherBuilder::new().shutdown_observer(move || {
        assert_eq!(thread::current().id(), turner);
        entry.add("observer");
    });
    let home = driver.new_dispatcher(builder).expect("created");
    post(&home, &log, "task");
    home.shutdown_async();
    assert!(log.is_empty(), "nobody has turned it");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["task canceled", "observer"]);
    assert_eq!(driver.panics(), 0, "the observer ran where it was expected");
}

/// Shows R117, R119.
#[test]
fn a_quit_does_not_keep_a_shutdown_from_its_end() {
    let runtime = ForegroundRuntime::new();
    let (one, other) = (dispatcher(&runtime, "one"), dispatcher(&runtime, "other"));
    let log = Log::new();
    post(&one, &log, "one");
    post(&other, &log, "other");
    runtime.quit();
    runtime.shutdown_driver(&one.owner());
    assert_eq!((log.take(), one.owner().is_shut_down()), (vec!["one canceled".to_owned(), "other".to_owned()], true));
    post(&other, &log, "other");
    runtime.shutdown().expect("it shuts down");
    assert_eq!(log.take(), ["other canceled"]);
    add_up(&runtime);
}

/// What the harness of the original does by hand is what a foreground runtime is.
///
/// Shows R120.
#[test]
fn a_test_has_a_foreground_dispatcher_blocking_work_beside_it_and_ends_with_everything_shut_down() {
    let runtime = ForegroundRuntime::new();
    let foreground = dispatcher(&runtime, "foreground");
    set_default_dispatcher(Some(&foreground)).expect("the thread is inside of nothing");
    let background =
        runtime.new_driver("background").new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("created");
    // Work that blocks until the foreground has done something, while the foreground runs.
    let (sender, receiver) = channel();
    let asked = foreground.handle();
    let answer = runtime.run_blocking(move || {
        asked.post_task(move |_| sender.send("from the foreground").expect("awaited")).expect("accepted");
        fuchsine_dispatcher::blocking(|| within(&receiver, "an answer")).expect("it may block")
    });
    assert_eq!(answer.expect("it ends"), "from the foreground");
    assert_eq!(runtime.run(runtime.now() + Duration::from_secs(1)), Err(Status::TimedOut));
    runtime.shutdown().expect("it shuts down");
    assert!(foreground.owner().is_shut_down() && background.owner().is_shut_down());
    assert_eq!(current().as_ref(), Some(&foreground.handle()), "destructors still find their dispatcher");
    drop(runtime);
    drop(foreground);
    assert_eq!(current(), None, "a default keeps nothing alive");
}

/// Shows R14.
#[test]
fn the_default_dispatcher_is_current_while_the_thread_is_inside_of_nothing() {
    let runtime = ForegroundRuntime::new();
    let (default, other) = (dispatcher(&runtime, "default"), dispatcher(&runtime, "other"));
    assert_eq!((current(), current_driver()), (None, None));
    let refused = DispatcherBuilder::new().build().expect_err("inside of no driver");
    assert_eq!(refused.status(), Status::InvalidArgs);

    set_default_dispatcher(Some(&default)).expect("inside of nothing");
    assert_eq!((current(), current_driver()), (Some(default.handle()), Some(default.owner())));
    assert!(default.is_current() && !other.is_current());
    let made = DispatcherBuilder::new().name("made").build().expect("it has an owner");
    assert_eq!(made.owner(), default.owner());

    // Inside of anything it is not asked.
    let inside = other.owner().enter(|| (current(), current_driver(), set_default_dispatcher(None)));
    assert_eq!(inside, (None, Some(other.owner()), Err(Status::BadState)));
    let log = Log::new();
    let entry = log.clone();
    other
        .post_task(move |_| {
            let name = current().expect("a callback has a dispatcher").name().to_owned();
            entry.add(format!("{name} {:?}", set_default_dispatcher(None)));
        })
        .expect("accepted");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["other Err(BadState)"]);

    thread::scope(|scope| scope.spawn(|| assert_eq!(current(), None, "it is one thread's own")).join().expect("it is"));
    set_default_dispatcher(None).expect("inside of nothing");
    assert_eq!((current(), current_driver(), default.is_current()), (None, None, false));
}

/// Shows R14.
#[test]
fn the_default_dispatcher_makes_the_thread_no_pool_thread_and_is_in_no_call_stack() {
    let runtime = ForegroundRuntime::new();
    let default = dispatcher(&runtime, "default");
    set_default_dispatcher(Some(&default)).expect("inside of nothing");
    let (near, far) = Channel::pair();
    let log = Log::new();
    let entry = log.clone();
    let other = dispatcher(&runtime, "other");
    far.begin_read(&other, move |_| entry.add("read")).expect("registered");
    near.write(Message::new()).expect("written");
    assert!(log.is_empty(), "deferred, as from any outside thread");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["read"]);
    let outside = other.dump().deferred.into_iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>();
    assert_eq!(outside, [(Reason::OtherPool, 1)]);
    assert!(default.dump().running.is_empty(), "it is no callback either");
    set_default_dispatcher(None).expect("inside of nothing");
}

/// Checkers of what belongs to the default pass on the thread that turns the crank, at the end in destructors too; and only
/// where nothing of the default can run beside it.
///
/// Shows R14, R120.
#[test]
fn the_thread_that_turns_the_crank_is_in_the_sequence_of_its_default_dispatcher() {
    let runtime = ForegroundRuntime::new();
    let builder = DispatcherBuilder::new().name("default").allow_sync_calls();
    let default = runtime.new_driver("default").new_dispatcher(builder).expect("created");
    let gate = dispatcher(&runtime, "gate");
    let checker = SynchronizationChecker::new("a thing", &default).expect("synchronized");
    assert!(!checker.is_in_place());
    set_default_dispatcher(Some(&default)).expect("inside of nothing");
    checker.check();
    let id = default.sequence_id().expect("in its sequence");
    let (home, inside) = (default.handle(), Log::new());
    let (entry, token) = (inside.clone(), gate.stop_token());
    default
        .post_task(move |_| {
            token.wait_timeout(HANG);
            entry.add(format!("{:?}", home.check_sequence_id(id)));
        })
        .expect("accepted");
    runtime.run_until_idle();
    assert!(!checker.is_in_place(), "a callback of it sleeps half-way");
    assert!(!gate.owner().enter(|| checker.is_in_place()), "inside of something the default is not asked");
    gate.shutdown_async();
    runtime.run_until_idle();
    assert_eq!(inside.take(), ["Ok(())"], "the same sequence as in its callbacks");
    checker.check();

    // Once another thread has turned the crank, it may do so at any moment.
    let other = thread::scope(|scope| {
        let turning = scope.spawn(|| {
            set_default_dispatcher(Some(&default)).expect("inside of nothing");
            let before = checker.is_in_place();
            runtime.run_until_idle();
            (before, checker.is_in_place())
        });
        turning.join().expect("it turns")
    });
    assert_eq!((other, checker.is_in_place()), ((false, true), false));
    runtime.shutdown().expect("it shuts down");
    checker.check();

    // On a runtime with threads a callback may run at any moment.
    let pool = pool_of(1);
    let elsewhere = dispatcher(&pool, "elsewhere");
    set_default_dispatcher(Some(&elsewhere)).expect("inside of nothing");
    assert_eq!(elsewhere.sequence_id().expect_err("not in a callback").status(), Status::InvalidArgs);
    set_default_dispatcher(None).expect("inside of nothing");
    pool.shutdown(HANG).expect("it shuts down");
}

/// A post is attributed to what is current.
///
/// Shows R14.
#[test]
fn a_post_of_a_thread_with_a_default_dispatcher_names_it_as_the_poster() {
    let runtime = ForegroundRuntime::new();
    let (default, other) = (dispatcher(&runtime, "default"), dispatcher(&runtime, "other"));
    let log = Log::new();
    set_default_dispatcher(Some(&default)).expect("inside of nothing");
    post(&other, &log, "with");
    set_default_dispatcher(None).expect("inside of nothing");
    post(&other, &log, "without");
    let by = |pending: &PendingDump| pending.posted_by.as_ref()?.dispatcher.as_ref().map(|one| one.id);
    let posters: Vec<_> = other.dump().pending.iter().map(by).collect();
    assert_eq!(posters, [Some(default.id().as_raw()), None]);
}

#[test]
fn a_future_is_run_until_it_stalls_and_goes_on_when_it_can() {
    let runtime = ForegroundRuntime::new();
    let home = dispatcher(&runtime, "home");
    set_default_dispatcher(Some(&home)).expect("inside of nothing");
    let (near, far) = Channel::pair();
    let mut reading = pin!(async {
        let message = far.read().await?;
        sleep(MILLISECOND).await?;
        Ok::<_, Status>(message.bytes().to_vec())
    });
    assert!(runtime.run_until_stalled(&mut reading).is_pending());
    near.write(Message::from_bytes(&[7])).expect("written");
    assert!(runtime.run_until_stalled(&mut reading).is_pending(), "no time passes by itself");
    runtime.advance(MILLISECOND);
    assert_eq!(runtime.run_until_stalled(&mut reading), Poll::Ready(Ok(vec![7])));
    set_default_dispatcher(None).expect("inside of nothing");
}

#[test]
fn a_future_is_run_to_its_end_with_the_clock_advanced_from_timer_to_timer() {
    let runtime = ForegroundRuntime::new();
    let home = dispatcher(&runtime, "home");
    let hour = Duration::from_secs(3600);
    let start = runtime.now();
    let napping = home.spawn(async move { sleep(hour).await }).expect("spawned");
    assert_eq!(runtime.block_on(napping).expect("it ends"), Ok(Ok(())));
    assert_eq!(runtime.now(), start + hour);
}

/// A future that nothing will wake is told so, with who waits for what, and a quit ends its run.
///
/// Shows RK-4.
#[test]
fn a_future_that_would_wait_for_ever_is_an_error_that_shows_a_dump() {
    let runtime = ForegroundRuntime::new();
    let _home = dispatcher(&runtime, "the last to know");
    let stalled = runtime.block_on(std::future::pending::<()>()).expect_err("nothing wakes it");
    assert_eq!(stalled.status(), Status::TimedOut);
    assert!(format!("{stalled:?}").contains("the last to know"), "{stalled:?}");
    runtime.quit();
    let quit = runtime.block_on(std::future::pending::<()>()).expect_err("it quits");
    assert_eq!(quit.status(), Status::Canceled);
}

/// A wake-up from a thread outside is not lost between the last turn and the answer.
#[test]
fn a_future_that_another_thread_has_woken_is_polled_again() {
    let runtime = ForegroundRuntime::new();
    for _ in 0..100 {
        let (near, far) = Channel::pair();
        let mut reading = pin!(far.read());
        assert!(runtime.run_until_stalled(&mut reading).is_pending());
        let writer = thread::spawn(move || near.write(Message::from_bytes(&[1])));
        let hang = std::time::Instant::now() + HANG;
        loop {
            if let Poll::Ready(message) = runtime.run_until_stalled(&mut reading) {
                assert_eq!(message.expect("a message").bytes(), [1]);
                break;
            }
            assert!(std::time::Instant::now() < hang, "the wake-up was lost");
        }
        writer.join().expect("it writes").expect("written");
    }
}

#[test]
fn a_runtime_and_its_handles_may_be_dropped_in_any_order() {
    for order in 0..3 {
        let runtime = ForegroundRuntime::new();
        let home = dispatcher(&runtime, "home");
        let log = Log::new();
        post(&home, &log, "task");
        match order {
            0 => {
                drop(runtime);
                drop(home);
            }
            1 => {
                let handle = home.handle();
                drop(home);
                drop(runtime);
                assert_eq!(handle.post_task(|_| ()).expect_err("it has shut down").status(), Status::BadState);
            }
            _ => {
                let kept: Runtime = (*runtime).clone();
                drop(runtime);
                assert!(kept.new_driver("late").is_shut_down());
                assert_eq!(kept.shutdown(HANG).expect_err("it has no threads").status(), Status::BadState);
                drop(kept);
                drop(home);
            }
        }
        assert_eq!(log.take(), ["task canceled"], "in order {order}");
    }
}

#[test]
#[should_panic(expected = "the crank cannot be turned from inside of a callback")]
fn the_crank_cannot_be_turned_by_a_future_that_is_being_run() {
    let runtime = ForegroundRuntime::new();
    let _ = runtime.block_on(async { runtime.run_once() });
}

/// A pool with threads has nothing to do with the crank of another runtime, wherever it is waited for.
#[test]
fn a_thread_that_turns_no_crank_any_more_may_block() {
    let runtime = ForegroundRuntime::new();
    let refused = fuchsine_dispatcher::blocking(|| ()).expect_err("it turns a crank");
    assert_eq!(refused.status(), Status::BadState);
    let text = refused.to_string();
    let entered = runtime.new_driver("entered").enter(|| fuchsine_dispatcher::blocking(|| ()).is_err());
    assert!(entered, "inside of a driver it still turns the crank");
    assert!(text.contains("run_until_stalled") && text.contains("run_blocking"), "{text}");
    let token = dispatcher(&runtime, "home").release().stop_token();
    assert!(!token.wait_timeout(HANG * 1000), "it does not wait where nothing can happen");
    let elsewhere = thread::spawn(|| fuchsine_dispatcher::blocking(|| 1).is_ok());
    assert!(elsewhere.join().expect("it runs"), "another thread may");
    runtime.shutdown().expect("it shuts down");
    assert_eq!(fuchsine_dispatcher::blocking(|| 5).expect("nothing is left to turn"), 5);
    let pool = pool_of(1);
    pool.shutdown(HANG).expect("it shuts down");
}
