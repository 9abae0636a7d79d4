//! Goal: on the foreground runtime callbacks may block, and lane work may wait, without a second thread that moves: the
//! order of things is the same each time, time is the test's, and whoever waits for what will never come is seen.
//! Method: callbacks of dispatchers that allow sync calls, and work, wait for stop tokens and call `blocking`; logs are
//! compared, and a counter finds two that move at once.

mod common;

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use common::{HANG, Log, add_up, in_a_process_of_its_own, within};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{
    Channel, Dispatcher, DispatcherBuilder, Instant, Lane, Message, PanicPolicy, Runtime, RuntimeBuilder, Status,
    StopToken, blocking, current,
};
use fuchsine_tests::process::eventually;

const SECOND: Duration = Duration::from_secs(1);

#[track_caller]
fn on(runtime: &Runtime, name: &str, builder: DispatcherBuilder) -> Dispatcher {
    runtime.new_driver(name).new_dispatcher(builder.name(name)).expect("created")
}

/// A dispatcher whose callbacks may block, with a driver of its own.
#[track_caller]
fn sync(runtime: &Runtime, name: &str) -> Dispatcher {
    on(runtime, name, DispatcherBuilder::new().allow_sync_calls())
}

/// A token of a dispatcher that the test shuts down when it wants to let somebody go on.
#[track_caller]
fn gate(runtime: &Runtime) -> (Dispatcher, StopToken) {
    let gate = on(runtime, "gate", DispatcherBuilder::new());
    let token = gate.stop_token();
    (gate, token)
}

#[test]
fn a_callback_that_waits_lets_all_others_run_and_goes_on_when_what_it_waits_for_has_happened() {
    let runtime = ForegroundRuntime::new();
    let (gate, token) = gate(&runtime);
    let (waiter, other) = (sync(&runtime, "waiter"), on(&runtime, "other", DispatcherBuilder::new()));
    let log = Log::new();
    let entry = log.clone();
    waiter
        .post_task(move |_| {
            entry.add("waits");
            entry.add(format!("woken {}", token.wait_timeout(SECOND * 1000)));
        })
        .expect("accepted");
    let entry = log.clone();
    waiter.post_task(move |_| entry.add("next")).expect("accepted");
    let entry = log.clone();
    other.post_task(move |_| entry.add("other")).expect("accepted");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["waits", "other"], "a synchronized dispatcher runs nothing else meanwhile");
    gate.shutdown_async();
    assert!(log.is_empty(), "and nothing goes on by itself");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["woken true", "next"]);
    runtime.shutdown().expect("it shuts down");
    add_up(&runtime);
}

#[test]
fn the_deadline_of_a_wait_is_one_of_the_virtual_clock_and_comes_in_its_order() {
    let runtime = ForegroundRuntime::new();
    let (_gate, token) = gate(&runtime);
    let log = Log::new();
    let mut keep = Vec::new();
    for (name, seconds) in [("third", 30), ("first", 10)] {
        let waiter = sync(&runtime, name);
        let (entry, token) = (log.clone(), token.clone());
        waiter
            .post_task(move |_| {
                let woken = token.wait_timeout(SECOND * seconds);
                let now = current().expect("a callback").now().as_nanos() / 1_000_000_000;
                entry.add(format!("{name} {woken} at {now}"));
            })
            .expect("accepted");
        keep.push(waiter);
    }
    let timer = on(&runtime, "timer", DispatcherBuilder::new());
    let entry = log.clone();
    let _armed = timer.post_after(SECOND * 20, move |_| entry.add("second")).expect("armed");
    runtime.run_until_idle();
    assert!(log.is_empty());
    runtime.advance(SECOND * 9);
    assert!(log.is_empty());
    runtime.advance(SECOND);
    assert_eq!(log.take(), ["first false at 10"]);
    runtime.run_until(Instant::INFINITE);
    assert_eq!(log.take(), ["second", "third false at 30"]);
    assert_eq!(runtime.now().as_nanos(), 30_000_000_000, "no timer of a wait is left behind");
}

/// Many that overlap: never two move at once, and each run has the same order.
#[test]
fn of_many_that_wait_and_work_exactly_one_moves_and_the_order_is_always_the_same() {
    let scenario = || {
        let runtime = ForegroundRuntime::new();
        let (_gate, token) = gate(&runtime);
        let log = Log::new();
        let moving = Arc::new(AtomicUsize::new(0));
        let step = move |log: &Log, what: String| {
            assert_eq!(moving.fetch_add(1, Ordering::SeqCst), 0, "somebody else moves");
            thread::yield_now();
            log.add(what);
            assert_eq!(moving.fetch_sub(1, Ordering::SeqCst), 1);
        };
        let panics = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&panics);
        runtime.observe_panics(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        });
        let mut keep = Vec::new();
        for nth in 0..5_u64 {
            let waiter = sync(&runtime, "waiter");
            let (all, steps) = (log.clone(), step.clone());
            let (log, token, step) = (log.clone(), token.clone(), step.clone());
            waiter
                .post_task(move |_| {
                    for round in 0..3 {
                        step(&log, format!("waiter {nth} {round}"));
                        token.wait_timeout(Duration::from_millis((nth * 7 + round * 3) % 5 + 1));
                        blocking(|| step(&log, format!("blocks {nth} {round}"))).expect("it may");
                    }
                })
                .expect("accepted");
            keep.push(waiter);
            let worker = on(&runtime, "worker", DispatcherBuilder::new());
            let lane = if nth % 2 == 0 { Lane::Fast } else { Lane::Slow };
            let (work_log, work_step) = (all.clone(), steps.clone());
            let (done_log, done_step) = (all.clone(), steps.clone());
            worker
                .offload(
                    lane,
                    move |stop| {
                        work_step(&work_log, format!("works {nth}"));
                        stop.wait_timeout(Duration::from_millis(nth + 1));
                        work_step(&work_log, format!("has worked {nth}"));
                    },
                    move |_| done_step(&done_log, format!("done {nth}")),
                )
                .expect("accepted");
            keep.push(worker);
        }
        runtime.run_until(Instant::INFINITE);
        assert_eq!(panics.load(Ordering::SeqCst), 0, "two moved at once");
        log.take()
    };
    let first = scenario();
    assert_eq!(first.len(), 5 * (6 + 3));
    for _ in 0..20 {
        assert_eq!(scenario(), first);
    }
}

/// What `blocking` calls may wait in the kernel for what others do: they do it first, if they can.
#[test]
fn what_blocks_out_of_sight_begins_when_nothing_else_can_go_on() {
    let runtime = ForegroundRuntime::new();
    let log = Log::new();
    let (sender, receiver) = channel();
    let (entry, reader) = (log.clone(), sync(&runtime, "reader"));
    reader
        .post_task(move |_| {
            entry.add("reads");
            let read = || {
                entry.add("blocks");
                receiver.recv().expect("somebody sends")
            };
            let value: u32 = blocking(read).expect("it may");
            entry.add(format!("has read {value}"));
        })
        .expect("accepted");
    let (entry, writer) = (log.clone(), on(&runtime, "writer", DispatcherBuilder::new()));
    let again = writer.handle();
    writer
        .post_task(move |_| {
            entry.add("thinks");
            let task = move |_| {
                entry.add("writes");
                sender.send(7).expect("somebody reads");
            };
            again.post_task(task).expect("accepted");
        })
        .expect("accepted");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["reads", "thinks", "writes", "blocks", "has read 7"]);
}

/// A callback that blocks where nobody sees it, without saying so, is left alone after a while, and found again.
#[test]
fn the_crank_goes_on_without_a_callback_that_blocks_out_of_sight_and_finds_it_again() {
    let runtime = ForegroundRuntime::new();
    // Short, so that the test is; the reader cannot end before the test lets it.
    runtime.set_patience(Duration::from_millis(20));
    let log = Log::new();
    let (sender, receiver) = channel::<u32>();
    let (entry, reader) = (log.clone(), sync(&runtime, "reader"));
    reader
        .post_task(move |_| {
            let value = receiver.recv().expect("somebody sends");
            entry.add(format!("has read {value}"));
        })
        .expect("accepted");
    let (entry, other) = (log.clone(), on(&runtime, "other", DispatcherBuilder::new()));
    other.post_task(move |_| entry.add("other")).expect("accepted");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["other"]);
    assert_eq!(reader.dump().running.len(), 1, "it is still inside");
    assert_eq!(runtime.shutdown(), Err(Status::TimedOut), "nothing that turns a crank can end it");
    sender.send(7).expect("it reads");
    runtime.set_patience(HANG);
    runtime.shutdown().expect("it ends now");
    assert_eq!(log.take(), ["has read 7"]);
    add_up(&runtime);
}

/// All that could go on wait for each other: that ends a run, and the dump says who waits for what.
#[test]
fn a_deadlock_ends_a_run_and_a_dump_shows_who_waits_for_what() {
    let runtime = ForegroundRuntime::new();
    let (gate, token) = gate(&runtime);
    let (one, other) = (sync(&runtime, "one"), sync(&runtime, "other"));
    let log = Log::new();
    for waiter in [&one, &other] {
        let (token, entry) = (token.clone(), log.clone());
        waiter
            .post_task(move |_| {
                token.wait_timeout(Duration::MAX);
                entry.add(current().expect("a callback").name());
            })
            .expect("accepted");
    }
    assert!(runtime.run_until_idle() > 0);
    runtime.run_until(Instant::INFINITE);
    assert!(log.is_empty());
    for waiter in [&one, &other] {
        let dump = waiter.dump();
        assert_eq!(dump.running.iter().map(|running| running.waits_for).collect::<Vec<_>>(), [Some("a shutdown")]);
        let text = dump.to_string();
        assert!(text.contains("waits for a shutdown") && text.contains("batons.rs"), "{text}");
    }
    assert!(gate.dump().running.is_empty());
    runtime.shutdown().expect("a shutdown ends every wait");
    assert_eq!(log.take(), ["one", "other"], "in the order in which they began to wait");
}

/// The wait of a callback ends when its dispatcher shuts down, though it is the token of another that it waits for.
#[test]
fn a_shutdown_ends_the_waits_of_its_dispatcher_and_of_its_work() {
    let runtime = ForegroundRuntime::new();
    let (_gate, token) = gate(&runtime);
    let (waiter, log) = (sync(&runtime, "waiter"), Log::new());
    let (entry, callback_token) = (log.clone(), token.clone());
    waiter
        .post_task(move |_| entry.add(format!("callback {}", callback_token.wait_timeout(Duration::MAX))))
        .expect("accepted");
    let (entry, done) = (log.clone(), log.clone());
    waiter
        .offload(
            Lane::Slow,
            move |_| entry.add(format!("work {}", token.wait_timeout(Duration::MAX))),
            move |result| done.add(format!("done {result:?}")),
        )
        .expect("accepted");
    runtime.run_until_idle();
    waiter.shutdown_async();
    assert!(log.is_empty());
    runtime.run_until_idle();
    assert_eq!(log.take(), ["work false", "callback false", "done Ok(())"]);
}

#[test]
fn a_panic_of_a_callback_that_may_block_is_handled_as_any_and_its_helper_is_used_again() {
    let runtime = ForegroundRuntime::with(RuntimeBuilder::new().panic_policy(PanicPolicy::Continue)).expect("made");
    let (waiter, log) = (sync(&runtime, "waiter"), Log::new());
    let (_gate, token) = gate(&runtime);
    waiter
        .post_task(move |_| {
            token.wait_timeout(SECOND);
            panic!("after the wait");
        })
        .expect("accepted");
    let entry = log.clone();
    waiter.post_task(move |_| entry.add(thread::current().name().unwrap_or("none"))).expect("accepted");
    runtime.advance(SECOND);
    assert_eq!(log.take(), ["fuchsine-baton-0"]);
    assert_eq!(waiter.owner().panics(), 1);
    runtime.shutdown().expect("it shuts down");
    add_up(&runtime);
}

/// What cannot block stays on the thread of the test.
#[test]
fn callbacks_that_may_not_block_run_on_the_thread_that_turns_the_crank() {
    let runtime = ForegroundRuntime::new();
    let threads = Arc::new(Mutex::new(Vec::new()));
    let mut keep = Vec::new();
    for builder in [DispatcherBuilder::new(), DispatcherBuilder::new().unsynchronized()] {
        let dispatcher = on(&runtime, "plain", builder);
        let seen = Arc::clone(&threads);
        dispatcher.post_task(move |_| seen.lock().expect("no panic").push(thread::current().id())).expect("accepted");
        let seen = Arc::clone(&threads);
        let _future = dispatcher
            .spawn(async move { seen.lock().expect("no panic").push(thread::current().id()) })
            .expect("spawned");
        keep.push(dispatcher);
    }
    runtime.run_until_idle();
    assert_eq!(*threads.lock().expect("no panic"), [thread::current().id(); 4]);
}

#[test]
fn a_blocking_call_of_a_test_waits_while_the_crank_turns_and_time_passes() {
    let runtime = ForegroundRuntime::new();
    let (gate, token) = gate(&runtime);
    let closing = gate.handle();
    let _timer = on(&runtime, "timer", DispatcherBuilder::new())
        .release()
        .post_after(SECOND * 60, move |_| closing.shutdown_async())
        .expect("armed");
    let outcome = runtime.run_blocking(move || (token.wait_timeout(SECOND * 3600), current().is_none()));
    assert_eq!(outcome.expect("it ends"), (true, true));
    assert_eq!(runtime.now().as_nanos(), 60_000_000_000);
}

#[test]
fn a_blocking_call_of_a_test_that_would_never_end_is_ended_and_told_so() {
    let runtime = ForegroundRuntime::new();
    let (_gate, token) = gate(&runtime);
    let log = Log::new();
    let (entry, waiting) = (log.clone(), token.clone());
    let stalled = runtime.run_blocking(move || entry.add(format!("woken {}", waiting.wait_timeout(Duration::MAX))));
    assert_eq!(stalled.expect_err("nothing ends it").status(), Status::TimedOut);
    assert_eq!(log.take(), ["woken false"], "it was run to its end");

    let (entry, quit) = (log.clone(), runtime.quit_handle());
    let quitted = runtime.run_blocking(move || {
        quit.quit();
        entry.add(format!("woken {}", token.wait_timeout(Duration::MAX)));
    });
    assert_eq!(quitted.expect_err("somebody quits").status(), Status::Canceled);
    assert_eq!(log.take(), ["woken false"]);
}

#[test]
#[should_panic(expected = "what the test found")]
fn a_panic_of_a_blocking_call_is_the_tests() {
    let runtime = ForegroundRuntime::new();
    let _ = runtime.run_blocking(|| panic!("what the test found"));
}

/// A blocking call of a test that blocks out of sight holds up neither the test nor the end of the runtime.
#[test]
fn a_blocking_call_that_blocks_out_of_sight_is_left_to_itself() {
    let runtime = ForegroundRuntime::new();
    runtime.set_patience(Duration::from_millis(20));
    let (sender, receiver) = channel::<u32>();
    let (tell, told) = channel();
    let stalled = runtime.run_blocking(move || tell.send(receiver.recv().expect("somebody sends")).expect("awaited"));
    assert_eq!(stalled.expect_err("nobody has sent").status(), Status::TimedOut);
    runtime.shutdown().expect("no driver waits for it");
    assert!(told.try_recv().is_err());
    sender.send(7).expect("it reads");
    assert_eq!(within(&told, "what was read"), 7);
}

/// The future is woken, by a callback that blocks out of sight, while the crank waits in vain for that callback.
#[test]
fn a_wake_up_during_a_turn_that_did_nothing_is_not_lost() {
    let runtime = ForegroundRuntime::new();
    runtime.set_patience(Duration::from_millis(200));
    let (hand_over, wakers) = channel::<Waker>();
    let (release, released) = channel::<()>();
    let waker = sync(&runtime, "waker");
    waker
        .post_task(move |_| {
            wakers.recv().expect("the future is polled").wake();
            let _ = released.recv();
        })
        .expect("accepted");
    runtime.run_until_idle();
    let mut polls = 0;
    let mut future = poll_fn(|context| {
        polls += 1;
        if polls == 1 {
            hand_over.send(context.waker().clone()).expect("the callback waits");
            return Poll::Pending;
        }
        Poll::Ready(())
    });
    assert!(runtime.block_on(&mut future).is_ok(), "it was woken");
    drop(release);
    runtime.set_patience(HANG);
    runtime.shutdown().expect("it shuts down");
}

/// What is pinned stays on the thread of the test, also when a callback that may block makes it ready.
#[test]
fn a_message_to_a_pinned_dispatcher_waits_for_the_thread_that_turns_the_crank() {
    let runtime = ForegroundRuntime::new();
    let pinned = on(&runtime, "pinned", DispatcherBuilder::new().no_thread_migration());
    let (plain, writer) = (on(&runtime, "plain", DispatcherBuilder::new()), sync(&runtime, "writer"));
    let log = Log::new();
    let (mut ends, mut keep) = (Vec::new(), Vec::new());
    for home in [&pinned, &plain] {
        let (near, far) = Channel::pair();
        let (entry, turner) = (log.clone(), thread::current().id());
        far.begin_read(home, move |_| {
            let place = current().expect("a handler has a dispatcher");
            entry.add(format!("{} on the crank: {}", place.name(), thread::current().id() == turner));
        })
        .expect("registered");
        ends.push(near);
        keep.push(far);
    }
    let entry = log.clone();
    writer
        .post_task(move |_| {
            for near in &ends {
                near.write(Message::new()).expect("written");
            }
            entry.add("written");
        })
        .expect("accepted");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["plain on the crank: false", "written", "pinned on the crank: true"]);
}

/// The helpers of a runtime end with it, whatever they were at. Threads are counted for the whole process, without the one that
/// looks for tests that hang.
#[test]
fn no_helper_outlives_its_runtime() {
    let name = "no_helper_outlives_its_runtime";
    let child = in_a_process_of_its_own(name, || {
        let threads = || {
            let all = std::fs::read_dir("/proc/self/task").expect("Linux").flatten();
            let names = all.filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok());
            names.filter(|name| name.trim_end() != "test-watchdog").count()
        };
        // The system may list a thread for a moment after it has been joined.
        let expect = |count| eventually(&format!("{count} threads are there"), || threads() == count);
        let before = threads();
        for shut_down in [true, false, true, false] {
            let runtime = ForegroundRuntime::new();
            let (_gate, token) = gate(&runtime);
            let waiters: Vec<_> = (0..3).map(|_| sync(&runtime, "waiter")).collect();
            for waiter in &waiters {
                let token = token.clone();
                waiter
                    .post_task(move |_| {
                        token.wait_timeout(Duration::MAX);
                    })
                    .expect("accepted");
            }
            runtime.run_until_idle();
            // One for each that waits.
            expect(before + 3);
            if shut_down {
                runtime.shutdown().expect("it shuts down");
                expect(before);
            }
        }
        expect(before);
    });
    if let Some(child) = child {
        assert!(child.succeeded, "{}", child.text);
    }
}

/// A thread of another runtime, and one of none, may wake who waits here.
#[test]
fn a_wake_up_from_another_thread_is_seen_by_the_next_turn() {
    let runtime = ForegroundRuntime::new();
    let (gate, token) = gate(&runtime);
    let (waiter, log) = (sync(&runtime, "waiter"), Log::new());
    let entry = log.clone();
    waiter.post_task(move |_| entry.add(format!("{}", token.wait_timeout(Duration::MAX)))).expect("accepted");
    runtime.run_until_idle();
    let outside = gate.handle();
    thread::spawn(move || outside.shutdown_async()).join().expect("it ends");
    assert!(log.is_empty(), "only the crank moves it");
    runtime.run_until_idle();
    assert_eq!(log.take(), ["true"]);
}
