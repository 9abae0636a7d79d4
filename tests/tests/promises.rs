//! The promises of the design, one test each at least, named after them.
//!
//! Each runs on the foreground runtime, where order is exact, or on a pool of two threads, where it is about threads.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use common::{HANG, Log, add_up, pool_of, within};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{
    Canceled, Channel, Dispatcher, DispatcherBuilder, DispatcherState, Interest, Lane, Message, OffloadError,
    PanicPolicy, Reason, RuntimeBuilder, Status, current, current_driver,
};

fn foreground(name: &str) -> (ForegroundRuntime, Dispatcher) {
    let runtime = ForegroundRuntime::new();
    let dispatcher = runtime.new_driver(name).new_dispatcher(DispatcherBuilder::new().name(name)).expect("created");
    (runtime, dispatcher)
}

/// Promise 1: each accepted callback ends exactly once, whichever way.
#[test]
fn promise_1_each_accepted_callback_ends_exactly_once() {
    let (runtime, dispatcher) = foreground("once");
    let log = Log::new();
    let entry = log.clone();
    dispatcher.post_task(move |outcome| entry.add(format!("ran {outcome:?}"))).expect("accepted");
    let entry = log.clone();
    let handle = dispatcher.post_cancelable(move |_| entry.add("taken back, and yet called")).expect("accepted");
    assert!(handle.cancel().is_ok());
    assert_eq!(handle.cancel().expect_err("it is gone").status(), Status::NotFound);
    runtime.run_until_idle();
    let entry = log.clone();
    dispatcher.post_task(move |outcome| entry.add(format!("pending {outcome:?}"))).expect("accepted");
    let entry = log.clone();
    let _later = dispatcher
        .post_after(Duration::from_secs(1000), move |outcome| entry.add(format!("delayed {outcome:?}")))
        .expect("accepted");
    dispatcher.shutdown_async();
    let entry = log.clone();
    let refused = dispatcher.post_task(move |_| entry.add("refused, then called by its poster")).expect_err("refused");
    assert_eq!(refused.status(), Status::BadState);
    refused.into_inner()(Ok(()));
    runtime.run_until_idle();
    assert_eq!(
        log.take(),
        ["ran Ok(())", "refused, then called by its poster", "pending Err(Canceled)", "delayed Err(Canceled)"]
    );
    let counters = dispatcher.counters();
    assert_eq!(
        (counters.accepted, counters.ran, counters.canceled, counters.taken_back, counters.pending, counters.refused),
        (4, 1, 2, 1, 0, 1)
    );
    add_up(&runtime);
}

/// Promise 1, on threads: posts, cancels and a shutdown race; what was accepted is accounted for to the last one.
///
/// Shows R82.
#[test]
fn promise_1_holds_while_posts_cancels_and_shutdown_race() {
    const POSTERS: usize = 3;
    for round in 0..30 {
        let runtime = pool_of(2);
        let driver = runtime.new_driver("race");
        let dispatcher = Arc::new(driver.new_dispatcher(DispatcherBuilder::new().name("race")).expect("created"));
        let ended = Arc::new(AtomicUsize::new(0));
        let start = Arc::new(Barrier::new(POSTERS + 1));
        let posters: Vec<_> = (0..POSTERS)
            .map(|_| {
                let (dispatcher, ended, start) = (dispatcher.handle(), Arc::clone(&ended), Arc::clone(&start));
                std::thread::spawn(move || {
                    start.wait();
                    let (mut accepted, mut taken_back) = (0, 0);
                    for nth in 0..2000 {
                        let ended = Arc::clone(&ended);
                        let posted = dispatcher.post_cancelable(move |_| {
                            ended.fetch_add(1, Ordering::Relaxed);
                        });
                        let Ok(handle) = posted else { continue };
                        accepted += 1;
                        if nth % 3 == 0 && handle.cancel().is_ok() {
                            taken_back += 1;
                        }
                    }
                    (accepted, taken_back)
                })
            })
            .collect();
        start.wait();
        for _ in 0..round * 50 {
            std::hint::spin_loop();
        }
        dispatcher.shutdown_async();
        let (mut accepted, mut taken_back) = (0, 0);
        for poster in posters {
            let counts = poster.join().expect("a poster ends");
            accepted += counts.0;
            taken_back += counts.1;
        }
        runtime.shutdown(HANG).expect("the runtime shuts down");
        let counters = runtime.counters();
        assert!(counters.add_up(), "{counters:?}");
        assert_eq!(counters.accepted, accepted);
        assert_eq!(counters.taken_back, taken_back);
        assert_eq!(counters.pending, 0);
        assert_eq!(ended.load(Ordering::Relaxed) as u64, counters.ran + counters.canceled);
        assert_eq!(counters.refused, (POSTERS * 2000) as u64 - accepted);
    }
}

/// Promise 2: never two callbacks at once, whatever the mix; and each sees what the previous one wrote.
///
/// Shows R73.
#[test]
fn promise_2_a_synchronized_dispatcher_never_runs_two_callbacks_at_once() {
    let runtime = pool_of(4);
    let driver = runtime.new_driver("serial");
    let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().name("serial")).expect("created");
    let inside = Arc::new(AtomicBool::new(false));
    // Written without any lock by each callback: lost updates would show that two ran at once.
    let plain = Arc::new(Mutex::new(0u64));
    let (sender, receiver) = channel();
    let (near, far) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
    let visit = {
        let (inside, plain) = (Arc::clone(&inside), Arc::clone(&plain));
        move || {
            assert!(!inside.swap(true, Ordering::AcqRel), "two callbacks at once");
            let mut count = plain.try_lock().expect("nobody else is inside");
            *count += 1;
            std::thread::yield_now();
            drop(count);
            inside.store(false, Ordering::Release);
        }
    };
    let posters: Vec<_> = (0..3)
        .map(|_| {
            let (handle, visit, sender) = (dispatcher.handle(), visit.clone(), sender.clone());
            std::thread::spawn(move || {
                for nth in 0..300u64 {
                    let (visit_now, visit_later) = (visit.clone(), visit.clone());
                    let (told_now, told_later) = (sender.clone(), sender.clone());
                    handle
                        .post_task(move |_| {
                            visit_now();
                            told_now.send(()).expect("counted");
                        })
                        .expect("accepted");
                    let _timer = handle
                        .post_after(Duration::from_micros(nth), move |_| {
                            visit_later();
                            told_later.send(()).expect("counted");
                        })
                        .expect("accepted");
                }
            })
        })
        .collect();
    let mut waits = 0;
    for _ in 0..50 {
        let (visit_wait, told) = (visit.clone(), sender.clone());
        dispatcher
            .begin_wait(&near, Interest::WRITABLE, move |_| {
                visit_wait();
                told.send(()).expect("counted");
            })
            .expect("a socket can be waited for");
        let (visit, told) = (visit.clone(), sender.clone());
        dispatcher
            .offload(
                Lane::Fast,
                |_| (),
                move |_| {
                    visit();
                    told.send(()).expect("counted");
                },
            )
            .expect("accepted");
        waits += 2;
    }
    for poster in posters {
        poster.join().expect("a poster ends");
    }
    let total = 3 * 300 * 2 + waits;
    for _ in 0..total {
        receiver.recv_timeout(HANG).expect("each callback runs");
    }
    assert_eq!(*plain.lock().expect("not poisoned"), total as u64);
    drop((near, far));
    runtime.shutdown(HANG).expect("the runtime shuts down");
    add_up(&runtime);
}

/// Promise 3: callbacks run in the order in which they became ready; due timers count by deadline.
#[test]
fn promise_3_callbacks_run_in_the_order_in_which_they_became_ready() {
    let (runtime, dispatcher) = foreground("order");
    let log = Log::new();
    let mut handles = Vec::new();
    for (name, millis) in [("late", 30), ("early", 10), ("middle", 20), ("early too", 10)] {
        let entry = log.clone();
        handles.push(dispatcher.post_after(Duration::from_millis(millis), move |_| entry.add(name)).expect("accepted"));
    }
    for nth in 0..25 {
        let (entry, again, handle) = (log.clone(), log.clone(), dispatcher.handle());
        dispatcher
            .post_task(move |_| {
                entry.add(format!("task {nth}"));
                if nth == 0 {
                    handle.post_task(move |_| again.add("posted by task 0")).expect("accepted");
                }
            })
            .expect("accepted");
    }
    runtime.advance(Duration::from_millis(40));
    let mut expected: Vec<String> = (0..25).map(|nth| format!("task {nth}")).collect();
    expected.extend(["posted by task 0", "early", "early too", "middle", "late"].map(String::from));
    assert_eq!(log.take(), expected);
}

/// Promise 4: the first of ten blocks, the other nine run.
///
/// Shows R68, R74.
#[test]
fn promise_4_no_callback_of_an_unsynchronized_dispatcher_waits_behind_a_running_one() {
    let runtime = pool_of(2);
    let driver = runtime.new_driver("parallel");
    let dispatcher =
        driver.new_dispatcher(DispatcherBuilder::new().name("parallel").unsynchronized()).expect("created");
    let (release, blocked) = channel::<()>();
    let (sender, receiver) = channel();
    dispatcher.post_task(move |_| within(&blocked, "the release")).expect("accepted");
    for nth in 1..10 {
        let sender = sender.clone();
        dispatcher.post_task(move |_| sender.send(nth).expect("counted")).expect("accepted");
    }
    let mut ran: Vec<i32> =
        (1..10).map(|_| receiver.recv_timeout(HANG).expect("nine run past the blocked one")).collect();
    ran.sort_unstable();
    assert_eq!(ran, (1..10).collect::<Vec<_>>());
    release.send(()).expect("it still blocks");
    runtime.shutdown(HANG).expect("the runtime shuts down");
    add_up(&runtime);
}

/// Promise 5: a post never runs its own callback before it returns, from wherever it is made.
#[test]
fn promise_5_a_post_never_runs_its_own_callback() {
    let (runtime, dispatcher) = foreground("self");
    let other = runtime.new_driver("other").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let unsynchronized =
        runtime.new_driver("third").new_dispatcher(DispatcherBuilder::new().unsynchronized()).expect("created");
    let log = Log::new();
    let entry = log.clone();
    let targets = [dispatcher.handle(), other.handle(), unsynchronized.handle()];
    dispatcher
        .post_task(move |_| {
            for target in targets {
                let in_post = entry.clone();
                target.post_task(move |_| in_post.add("callback")).expect("accepted");
                entry.add("post returned");
            }
        })
        .expect("accepted");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["post returned", "post returned", "post returned", "callback", "callback", "callback"]);
}

/// Promise 5: a driver that is anywhere in the call stack is not called into, however many others are in between.
///
/// Shows R11.
#[test]
fn promise_5_a_driver_anywhere_in_the_call_stack_is_never_called_into() {
    let runtime = ForegroundRuntime::new();
    let log = Log::new();
    let outer = runtime.new_driver("outer");
    let start = outer.new_dispatcher(DispatcherBuilder::new()).expect("created");
    let sibling = outer.new_dispatcher(DispatcherBuilder::new().unsynchronized()).expect("created");
    let between = runtime.new_driver("between").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let (to_between, at_between) = Channel::pair();
    let (to_sibling, at_sibling) = Channel::pair();
    let entry = log.clone();
    at_sibling.begin_read(&sibling, move |_| entry.add("sibling")).map_err(Status::from).expect("registered");
    let entry = log.clone();
    at_between
        .begin_read(&between, move |_| {
            to_sibling.write(Message::new()).expect("written");
            entry.add("between");
        })
        .map_err(Status::from)
        .expect("registered");
    let entry = log.clone();
    start
        .post_task(move |_| {
            to_between.write(Message::new()).expect("written");
            entry.add("outer");
        })
        .expect("accepted");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["between", "outer", "sibling"]);
}

/// Promise 6: a message for an idle dispatcher of another driver runs before the write returns, without a queue or a
/// thread; everything that the rules forbid is deferred, for the reason that they give.
#[test]
fn promise_6_a_message_runs_inline_when_it_is_allowed_and_only_then() {
    let runtime = ForegroundRuntime::new();
    let log = Log::new();
    let driver = |name: &str| runtime.new_driver(name);
    let make =
        |owner: &str, builder: DispatcherBuilder| driver(owner).new_dispatcher(builder.name(owner)).expect("created");
    let writer = make("writer", DispatcherBuilder::new());
    let reader = make("reader", DispatcherBuilder::new());
    let parallel = make("parallel", DispatcherBuilder::new().unsynchronized());
    let blocking = make("blocking", DispatcherBuilder::new().allow_sync_calls());
    let busy = make("busy", DispatcherBuilder::new());
    let sibling = writer.owner().new_dispatcher(DispatcherBuilder::new().name("sibling")).expect("created");
    let targets = [&reader, &parallel, &blocking, &busy, &sibling];
    let mut ends = Vec::new();
    for target in targets {
        let (near, far) = Channel::pair();
        let entry = log.clone();
        let name = target.name().to_owned();
        far.begin_read(target, move |outcome| {
            outcome.expect("there is a message");
            entry.add(format!("{name} was called"));
        })
        .map_err(Status::from)
        .expect("registered");
        ends.push((target.name().to_owned(), near, far));
    }
    // An outside thread never runs a callback, not even inside of a driver.
    let (outside, told) = Channel::pair();
    let entry = log.clone();
    told.begin_read(&reader, move |_| entry.add("from outside")).map_err(Status::from).expect("registered");
    writer.owner().enter(|| outside.write(Message::from_bytes(b"!"))).expect("written");
    assert!(log.is_empty());
    runtime.run_until_idle();
    assert_eq!(log.take(), ["from outside"]);
    // One of the targets has something queued, which must not be overtaken.
    let entry = log.clone();
    let queued = busy.handle();
    let ends = Arc::new(ends);
    let writing = Arc::clone(&ends);
    writer
        .post_task(move |_| {
            let first = entry.clone();
            queued.post_task(move |_| first.add("busy was first")).expect("accepted");
            for (name, near, _) in writing.iter() {
                near.write(Message::from_bytes(b"!")).expect("written");
                entry.add(format!("wrote to {name}"));
            }
        })
        .expect("accepted");
    runtime.run_until_idle();
    assert_eq!(
        log.take(),
        [
            "reader was called",
            "wrote to reader",
            "parallel was called",
            "wrote to parallel",
            "wrote to blocking",
            "wrote to busy",
            "wrote to sibling",
            "busy was first",
            "busy was called",
            "blocking was called",
            "sibling was called",
        ]
    );
    let deferred = |dispatcher: &Dispatcher| {
        let dump = dispatcher.dump();
        let reasons: Vec<_> =
            dump.deferred.iter().filter(|(_, count)| *count > 0).map(|(reason, count)| (*reason, *count)).collect();
        (dump.inlined, reasons)
    };
    assert_eq!(deferred(&reader), (1, vec![(Reason::OtherPool, 1)]));
    assert_eq!(deferred(&parallel), (1, vec![]));
    assert_eq!(deferred(&blocking), (0, vec![(Reason::AllowSyncCalls, 1)]));
    assert_eq!(deferred(&busy), (0, vec![(Reason::Overtaking, 1)]));
    assert_eq!(deferred(&sibling), (0, vec![(Reason::Reentrant, 1)]));
    add_up(&runtime);
}

/// Promise 6: inline calls nest to a bounded depth; past it they are deferred, and nothing is lost.
///
/// Shows R60.
#[test]
fn promise_6_inline_calls_nest_to_a_bounded_depth() {
    let runtime = ForegroundRuntime::with(RuntimeBuilder::new().inline_depth(4)).expect("a foreground runtime");
    let log = Log::new();
    let chain: Vec<_> = (0..10)
        .map(|nth| runtime.new_driver(format!("{nth}")).new_dispatcher(DispatcherBuilder::new()).expect("created"))
        .collect();
    let mut next: Option<Channel> = None;
    let mut kept = Vec::new();
    for (nth, dispatcher) in chain.iter().enumerate().rev() {
        let (near, far) = Channel::pair();
        let (entry, forward) = (log.clone(), next.take());
        far.begin_read(dispatcher, move |_| {
            entry.add(format!("enter {nth}"));
            if let Some(forward) = forward {
                forward.write(Message::from_bytes(b"!")).expect("written");
            }
            entry.add(format!("leave {nth}"));
        })
        .map_err(Status::from)
        .expect("registered");
        kept.push(far);
        next = Some(near);
    }
    let first = next.expect("the chain has a beginning");
    let start = runtime.new_driver("start").new_dispatcher(DispatcherBuilder::new()).expect("created");
    start.post_task(move |_| first.write(Message::from_bytes(b"!")).expect("written")).expect("accepted");
    runtime.run_until_idle();
    let order = log.take();
    assert_eq!(order.len(), 20);
    // The start is one deep, so three more are entered inside of it; the fourth is deferred.
    assert_eq!(order[..6], ["enter 0", "enter 1", "enter 2", "leave 2", "leave 1", "leave 0"]);
    assert_eq!(order[6], "enter 3");
}

/// Promise 7: a flood on one dispatcher delays another by one batch a turn.
///
/// Shows R66.
#[test]
fn promise_7_a_flood_delays_others_by_one_batch_a_turn() {
    let (runtime, flooded) = foreground("flooded");
    let quiet = runtime.new_driver("quiet").new_dispatcher(DispatcherBuilder::new()).expect("created");
    let log = Log::new();
    for _ in 0..100 {
        let entry = log.clone();
        flooded.post_task(move |_| entry.add("flood")).expect("accepted");
    }
    let entry = log.clone();
    quiet.post_task(move |_| entry.add("quiet")).expect("accepted");
    runtime.run_until_idle();
    let order = log.take();
    assert_eq!(order.len(), 101);
    assert_eq!(order.iter().position(|entry| entry == "quiet"), Some(10), "the default batch is ten");
}

/// Promise 8: pending callbacks are told `Canceled` in the documented order, with the dispatcher current; what they post
/// there is refused; then the observer runs, once, last.
#[test]
fn promise_8_shutdown_cancels_in_order_and_tells_the_observer_last() {
    let runtime = ForegroundRuntime::new();
    let driver = runtime.new_driver("order");
    let log = Log::new();
    let entry = log.clone();
    let dispatcher = driver
        .new_dispatcher(DispatcherBuilder::new().name("order").shutdown_observer(move || {
            assert_eq!(current().expect("the dispatcher is current").name(), "order");
            entry.add("observer");
        }))
        .expect("created");
    let (stream, _peer) = {
        let net = runtime.sim_net().expect("descriptors are simulated");
        let listener = net.listen("127.0.0.1:1").expect("free");
        (net.connect("127.0.0.1:1").expect("there is a listener"), listener)
    };
    let told = |name: &'static str| {
        let (log, name) = (log.clone(), name);
        move |status: Status| {
            let here = current().expect("the dispatcher is current");
            assert_eq!(here.name(), "order");
            assert_eq!(current_driver().expect("inside the driver").name(), "order");
            let refused = here.post_task(|_| panic!("a callback posted during shutdown ran")).expect_err("refused");
            assert_eq!(refused.status(), Status::BadState);
            log.add(format!("{name} {status:?}"));
        }
    };
    let tell = told("far timer");
    let _far =
        dispatcher.post_after(Duration::from_secs(20), move |outcome| tell(outcome.expect_err("canceled").into()));
    let tell = told("near timer");
    let _near =
        dispatcher.post_after(Duration::from_secs(10), move |outcome| tell(outcome.expect_err("canceled").into()));
    let tell = told("wait");
    dispatcher
        .begin_wait(&stream, Interest::READABLE, move |outcome| tell(outcome.expect_err("canceled")))
        .expect("accepted");
    let tell = told("offload");
    dispatcher
        .offload(
            Lane::Slow,
            |_| panic!("canceled work ran"),
            move |outcome: Result<(), OffloadError>| {
                tell(outcome.expect_err("canceled").into());
            },
        )
        .expect("accepted");
    for name in ["task 1", "task 2"] {
        let tell = told(name);
        dispatcher.post_task(move |outcome| tell(outcome.expect_err("canceled").into())).expect("accepted");
    }
    assert_eq!(dispatcher.state(), DispatcherState::Running);
    dispatcher.shutdown_async();
    dispatcher.shutdown_async();
    assert!(log.is_empty(), "shutdown never calls back before it returns");
    runtime.run_until_idle();
    assert_eq!(
        log.take(),
        [
            "task 1 Canceled",
            "task 2 Canceled",
            "wait Canceled",
            "near timer Canceled",
            "far timer Canceled",
            "offload Canceled",
            "observer"
        ]
    );
    assert_eq!(dispatcher.state(), DispatcherState::Destroyed);
    add_up(&runtime);
}

/// Promise 8: a shutdown from inside a callback lets it finish; a running callback sees it coming.
#[test]
fn promise_8_a_callback_may_shut_its_own_dispatcher_down_and_finishes() {
    let (runtime, dispatcher) = foreground("own");
    let log = Log::new();
    let (entry, handle) = (log.clone(), dispatcher.handle());
    dispatcher
        .post_task(move |outcome| {
            assert_eq!(outcome, Ok(()));
            let stop = handle.stop_token();
            assert!(!stop.is_stopping());
            handle.shutdown_async();
            assert!(stop.is_stopping());
            assert_eq!(handle.state(), DispatcherState::ShuttingDown);
            entry.add("finished");
        })
        .expect("accepted");
    let entry = log.clone();
    dispatcher.post_task(move |outcome| entry.add(format!("{outcome:?}"))).expect("accepted");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["finished", "Err(Canceled)"]);
}

/// Promise 8: a driver's shutdown closes all its dispatchers before it returns; its observer runs after all of theirs,
/// and the driver creates no dispatcher ever again.
///
/// Shows CH-R73.
#[test]
fn promise_8_the_driver_observer_runs_after_the_observers_of_all_its_dispatchers() {
    for threads in [1, 2, 4] {
        let runtime = pool_of(threads);
        let driver = runtime.new_driver("several");
        let log = Log::new();
        let dispatchers: Vec<_> = (0..8)
            .map(|nth| {
                let entry = log.clone();
                let builder = DispatcherBuilder::new().name(format!("d{nth}")).shutdown_observer(move || {
                    std::thread::yield_now();
                    entry.add("dispatcher");
                });
                driver.new_dispatcher(if nth % 2 == 0 { builder } else { builder.unsynchronized() }).expect("created")
            })
            .collect();
        let (sender, receiver) = channel();
        let (entry, gone) = (log.clone(), driver.clone());
        driver
            .shutdown(move || {
                let error = gone.new_dispatcher(DispatcherBuilder::new()).expect_err("never again");
                assert_eq!(error.status(), Status::BadState);
                entry.add("driver");
                sender.send(()).expect("it is awaited");
            })
            .expect("the first shutdown");
        for dispatcher in &dispatchers {
            let refused = dispatcher.post_task(|_| ()).expect_err("closed before the call returned");
            assert_eq!(refused.status(), Status::BadState);
        }
        assert_eq!(driver.shutdown(|| ()).expect_err("only once").status(), Status::BadState);
        within(&receiver, "the driver observer");
        let mut expected = vec!["dispatcher"; 8];
        expected.push("driver");
        assert_eq!(log.take(), expected);
        assert_eq!(
            driver.new_dispatcher(DispatcherBuilder::new()).expect_err("never again").status(),
            Status::BadState
        );
        runtime.shutdown(HANG).expect("the runtime shuts down");
    }
}

/// Promise 9: a panic is caught, reported, and by default shuts down its driver and no other.
#[test]
fn promise_9_a_panic_shuts_down_its_driver_and_no_other() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&reports);
    let builder = RuntimeBuilder::new().panic_observer(move |report| {
        let text = format!("{}/{}: {}", report.driver, report.dispatcher, report.message);
        seen.lock().expect("not poisoned").push(text);
    });
    let runtime = ForegroundRuntime::with(builder).expect("a foreground runtime");
    let bad = runtime.new_driver("bad");
    let first = bad.new_dispatcher(DispatcherBuilder::new().name("first")).expect("created");
    let second = bad.new_dispatcher(DispatcherBuilder::new().name("second")).expect("created");
    let good = runtime.new_driver("good").new_dispatcher(DispatcherBuilder::new().name("good")).expect("created");
    let log = Log::new();
    first.post_task(|_| panic!("on purpose {}", 1)).expect("accepted");
    for (name, dispatcher) in [("first", &first), ("second", &second), ("good", &good)] {
        let entry = log.clone();
        let _later = dispatcher
            .post_after(Duration::from_secs(1), move |outcome| entry.add(format!("{name} {outcome:?}")))
            .expect("accepted");
    }
    runtime.run_until_idle();
    // Newest first is the order of closing; the cancellations run as turns of the two.
    let mut told = log.take();
    told.sort();
    assert_eq!(told, ["first Err(Canceled)", "second Err(Canceled)"]);
    assert_eq!(*reports.lock().expect("not poisoned"), ["bad/first: on purpose 1"]);
    assert!(bad.is_shut_down());
    runtime.advance(Duration::from_secs(2));
    assert_eq!(log.take(), ["good Ok(())"]);
    assert_eq!(first.counters().ran, 1, "the panicked one counts as ran");
    add_up(&runtime);
}

struct PanicsWhenDropped(Log);

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        self.0.add("dropped");
        if !std::thread::panicking() {
            panic!("in a drop");
        }
    }
}

/// Promise 9: panics in canceled callbacks, observers, and drops of closures go no further either.
#[test]
fn promise_9_panics_at_every_place_are_caught() {
    let builder = RuntimeBuilder::new().panic_policy(PanicPolicy::Continue);
    let runtime = ForegroundRuntime::with(builder).expect("a foreground runtime");
    let driver = runtime.new_driver("panics");
    let log = Log::new();
    let entry = log.clone();
    let dispatcher = driver
        .new_dispatcher(DispatcherBuilder::new().shutdown_observer(move || {
            entry.add("observer");
            panic!("in an observer");
        }))
        .expect("created");
    let bomb = PanicsWhenDropped(log.clone());
    dispatcher.post_task(move |_| drop(bomb)).expect("accepted");
    let entry = log.clone();
    dispatcher.post_task(move |_| entry.add("next")).expect("accepted");
    let future_entry = log.clone();
    let _panicking = dispatcher
        .spawn(async move {
            future_entry.add("future");
            panic!("in a future");
        })
        .expect("accepted");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["dropped", "next", "future"]);
    let entry = log.clone();
    dispatcher
        .post_task(move |outcome| {
            entry.add(format!("{outcome:?}"));
            panic!("in a canceled callback");
        })
        .expect("accepted");
    let (entry, bomb) = (log.clone(), PanicsWhenDropped(log.clone()));
    dispatcher
        .spawn(async move {
            let _bomb = bomb;
            std::future::pending::<()>().await;
            entry.add("a future that never ends has ended");
        })
        .map(drop)
        .expect("accepted");
    dispatcher.shutdown_async();
    runtime.run_until_idle();
    assert_eq!(log.take(), ["Err(Canceled)", "dropped", "observer"]);
    assert_eq!(driver.panics(), 5);
    assert_eq!(dispatcher.state(), DispatcherState::Destroyed);
    add_up(&runtime);
}

struct DropsOn(Log, &'static str);

impl Drop for DropsOn {
    fn drop(&mut self) {
        let place = current().map_or("nowhere".to_owned(), |dispatcher| dispatcher.name().to_owned());
        self.0.add(format!("{} on {place}", self.1));
    }
}

/// Promise 10: closures and futures, run or canceled, are dropped with the dispatcher current, before the observer;
/// refused and taken-back ones by the caller.
#[test]
fn promise_10_drops_happen_in_context() {
    let runtime = ForegroundRuntime::new();
    let driver = runtime.new_driver("context");
    let log = Log::new();
    let entry = log.clone();
    let builder = DispatcherBuilder::new().name("home").shutdown_observer(move || entry.add("observer"));
    let dispatcher = driver.new_dispatcher(builder).expect("created");
    let guard = |name| DropsOn(log.clone(), name);
    let held = guard("run");
    dispatcher.post_task(move |_| drop(held)).expect("accepted");
    runtime.run_until_idle();
    let held = guard("canceled");
    dispatcher.post_task(move |_| drop(held)).expect("accepted");
    let held = guard("work");
    let done = guard("done");
    dispatcher.offload(Lane::Fast, move |_| drop(held), move |_| drop(done)).expect("accepted");
    let held = guard("future");
    dispatcher
        .spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        })
        .map(drop)
        .expect("accepted");
    let held = guard("taken back");
    let taken = dispatcher.post_cancelable(move |_| drop(held)).expect("accepted").cancel().expect("pending");
    drop(taken);
    dispatcher.shutdown_async();
    let held = guard("refused");
    drop(dispatcher.post_task(move |_| drop(held)).expect_err("refused"));
    runtime.run_until_idle();
    assert_eq!(
        log.take(),
        [
            "run on home",
            "taken back on nowhere",
            "refused on nowhere",
            "canceled on home",
            "future on home",
            "done on home",
            "work on home",
            "observer"
        ]
    );
    add_up(&runtime);
}

/// Promise 11: a stale handle answers `BadState`; dropping the owner begins the shutdown.
#[test]
fn promise_11_stale_handles_answer_and_dropping_the_owner_shuts_down() {
    let (runtime, dispatcher) = foreground("stale");
    let log = Log::new();
    let handle = dispatcher.handle();
    let weak = handle.downgrade();
    let entry = log.clone();
    handle.post_task(move |outcome| entry.add(format!("{outcome:?}"))).expect("accepted");
    let task = handle.post_after(Duration::from_secs(1), |_| ()).expect("accepted");
    drop(dispatcher);
    runtime.run_until_idle();
    assert_eq!(log.take(), ["Err(Canceled)"]);
    assert_eq!(handle.post_task(|_| ()).expect_err("stale").status(), Status::BadState);
    assert_eq!(handle.post_after(Duration::ZERO, |_| ()).expect_err("stale").status(), Status::BadState);
    assert_eq!(handle.offload(Lane::Fast, |_| (), |_| ()).expect_err("stale").status(), Status::BadState);
    assert_eq!(handle.spawn(async {}).expect_err("stale").status(), Status::BadState);
    assert_eq!(task.cancel().expect_err("told already").status(), Status::NotFound);
    handle.shutdown_async();
    drop(handle);
    assert_eq!(weak.upgrade().expect_err("gone"), Status::BadState);
}

/// A released dispatcher is shut down with its driver, not with its handle.
#[test]
fn promise_11_a_released_dispatcher_lives_until_its_driver_ends() {
    let (runtime, dispatcher) = foreground("released");
    let driver = dispatcher.owner();
    let handle = dispatcher.release();
    runtime.run_until_idle();
    let log = Log::new();
    let entry = log.clone();
    handle.post_task(move |outcome| entry.add(format!("{outcome:?}"))).expect("accepted");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["Ok(())"]);
    runtime.shutdown_driver(&driver);
    assert_eq!(handle.state(), DispatcherState::Destroyed);
}

/// A task that was accepted before `Canceled` keeps its type all the way.
#[test]
fn canceled_converts_into_its_status() {
    assert_eq!(Status::from(Canceled), Status::Canceled);
}
