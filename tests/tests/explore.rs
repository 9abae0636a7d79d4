//! Goal: whoever tests a driver finds a mistake that depends on the order of things, is told where it is, and meets it
//! again by what the report says.
//! Method: a counter with a planted mistake and its correct twin, by the public functions alone; the variable that names a
//! schedule is set for a process of its own.

mod common;

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use fuchsine_dispatcher::testing::{Explorer, Failure, ForegroundRuntime, Schedule, Strategy, explore};
use fuchsine_dispatcher::{Channel, DispatcherBound, DispatcherBuilder, Instant, Message};

/// Two drivers count; each reads before it reports and writes afterwards.
fn lost_update(runtime: &ForegroundRuntime) {
    let total = Arc::new(AtomicU32::new(0));
    for name in ["left", "right"] {
        let driver = runtime.new_driver(name);
        let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().name("count")).expect("it is made").release();
        let (counted, reporting) = (Arc::clone(&total), dispatcher.clone());
        let posted = dispatcher.post_task(move |_| {
            let before = counted.load(Ordering::Relaxed);
            reporting.post_task(|_| ()).expect("it is running");
            counted.store(before + 1, Ordering::Relaxed);
        });
        posted.expect("it is running");
    }
    runtime.run_until_idle();
    assert_eq!(total.load(Ordering::Relaxed), 2, "a count is lost");
}

fn found() -> Box<Failure> {
    Explorer::new().try_explore(lost_update).expect_err("it is found")
}

#[test]
fn a_report_says_what_happened_in_words_that_stay_the_same() {
    let (report, again) = (found().to_string(), found().to_string());
    assert_eq!(report, again);
    for part in
        ["a count is lost", "FUCHSINE_SEED=", "left/count", "right/count", "lets others go first", "explore.rs:"]
    {
        assert!(report.contains(part), "{part:?} is missing in:\n{report}");
    }
    // What counts through the process, or lies somewhere in its memory, differs from run to run.
    assert!(!report.contains("0x7") && !report.contains("ThreadId"), "{report}");
}

#[test]
fn the_variable_names_the_one_schedule_that_is_run() {
    let name = "the_variable_names_the_one_schedule_that_is_run";
    const CHILD: &str = "FUCHSINE_EXPLORE_CHILD";
    if std::env::var_os(CHILD).is_some() {
        explore(1_000_000_000, lost_update);
        return;
    }
    let failure = found();
    let run = |schedule: &str| {
        let mut child = Command::new(std::env::current_exe().expect("a test knows its program"));
        let output =
            child.args(["--exact", name, "--nocapture"]).env(CHILD, "1").env("FUCHSINE_SEED", schedule).output();
        let output = output.expect("the child starts");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for schedule in [&failure.schedule, &failure.shrunk] {
        let (passed, text) = run(&schedule.to_string());
        assert!(!passed && text.contains(&failure.trace.to_string()), "{text}");
        // The test is what the message of the panic is about, not the kit.
        assert!(text.contains(&format!("panicked at {}:", file!())), "{text}");
    }
    let (passed, text) = run("picks:");
    assert!(passed, "in the usual order nothing is lost:\n{text}");
    let (passed, text) = run("seventeen");
    assert!(!passed && text.contains("FUCHSINE_SEED is \"seventeen\", but a schedule is a number"), "{text}");
}

#[test]
fn an_exploration_meets_what_it_is_there_for() {
    let (inline, deferred, orders) = (AtomicU32::new(0), AtomicU32::new(0), Mutex::new(BTreeSet::new()));
    let strategies = [Strategy::Mixed, Strategy::Random, Strategy::Pct { preemptions: 2 }];
    for strategy in strategies {
        Explorer::new().strategy(strategy).explore(|runtime| {
            let make = |name| {
                let driver = runtime.new_driver(name);
                driver.new_dispatcher(DispatcherBuilder::new().name("main")).expect("it is made").release()
            };
            let (writer, reader) = (make("writer"), make("reader"));
            let log = common::Log::new();
            let (near, far) = Channel::pair();
            let noted = log.clone();
            far.begin_read(&reader, move |_| noted.add("read")).expect("it is registered");
            let noted = log.clone();
            let write = move || {
                noted.add("before");
                near.write(Message::from_bytes(b"x")).expect("it is open");
                noted.add("after");
                near
            };
            writer.post_task(move |_| drop(write())).expect("it is running");
            runtime.run_until_idle();
            inline.fetch_add(u32::from(reader.dump().inlined > 0), Ordering::Relaxed);
            deferred.fetch_add(u32::from(reader.dump().inlined == 0), Ordering::Relaxed);
            orders.lock().expect("nobody panics here").insert(log.take());
        });
    }
    assert!(inline.into_inner() > 0 && deferred.into_inner() > 0);
    let orders = orders.into_inner().expect("nobody panics here");
    let seen = |order: [&str; 3]| orders.contains(order.map(str::to_owned).as_slice());
    assert!(seen(["before", "read", "after"]) && seen(["before", "after", "read"]), "{orders:?}");
}

#[test]
fn an_exhaustive_search_says_whether_it_came_to_its_end() {
    let search = |limit| Explorer::new().strategy(Strategy::Exhaustive { limit }).overlap(false);
    let three_posts = |runtime: &ForegroundRuntime| {
        for name in ["one", "two", "three"] {
            let driver = runtime.new_driver(name);
            let dispatcher = driver.new_dispatcher(DispatcherBuilder::new()).expect("it is made");
            dispatcher.post_task(|_| ()).expect("it is running");
            // What is left is the order of the posts: one driver ends after the other.
            dispatcher.release();
        }
        runtime.run_until_idle();
    };
    let part = search(3).explore(three_posts);
    assert_eq!((part.schedules, part.is_complete), (3, false));
    let whole = search(10_000).explore(three_posts);
    assert!(whole.is_complete && whole.schedules >= 6, "{whole:?}");
    let found = search(10_000).try_explore(|runtime| {
        three_posts(runtime);
        panic!("at the end");
    });
    let first: Schedule = "picks:".parse().expect("it is one");
    assert_eq!(found.expect_err("the first one fails").schedule, first);
}

/// Two that may block, of which each asks the other while it answers: whether they meet is a matter of the order.
#[test]
fn a_deadlock_is_reported_by_who_waits_for_whom() {
    let scenario = |runtime: &ForegroundRuntime| {
        let [left, right] = ["left", "right"].map(|name| {
            let driver = runtime.new_driver(name);
            let builder = DispatcherBuilder::new().name("desk").allow_sync_calls();
            driver.new_dispatcher(builder).expect("it is made").release()
        });
        let ((to_right, at_right), (to_left, at_left)) = (Channel::pair(), Channel::pair());
        for (home, end) in [(&right, at_right), (&left, at_left)] {
            let end = Arc::new(end);
            let own = Arc::clone(&end);
            let answer = move |_| {
                if let Ok(request) = own.try_read() {
                    let _ = own.write(request);
                }
            };
            end.begin_read(home, answer).expect("it is running");
        }
        for (home, end) in [(&left, to_right), (&right, to_left)] {
            let ask = move |_| drop(end.call(Message::from_bytes(b"?"), Instant::INFINITE));
            home.post_task(ask).expect("it is running");
        }
        runtime.run_until_idle();
    };
    let report = Explorer::new().try_explore(scenario).expect_err("they meet").to_string();
    for part in [
        "callbacks wait for each other when the scenario returns",
        "left/desk waits for a reply from right/desk, in the task of tests/tests/explore.rs:",
        "deadlock: left/desk -> right/desk -> left/desk",
    ] {
        assert!(report.contains(part), "{part:?} is missing in:\n{report}");
    }
}

/// A call to a value that is bound waits for the dispatcher that the value lives on.
#[test]
fn who_waits_for_a_bound_value_waits_for_its_dispatcher() {
    let runtime = ForegroundRuntime::new();
    let [asks, holds] = ["asks", "holds"].map(|name| {
        let driver = runtime.new_driver(name);
        let builder = DispatcherBuilder::new().name("desk").allow_sync_calls();
        driver.new_dispatcher(builder).expect("it is made")
    });
    let value = DispatcherBound::new(&holds, || 7).expect("it is running");
    let (gate, far) = Channel::pair();
    holds.post_task(move |_| drop(gate.call(Message::from_bytes(b"?"), Instant::INFINITE))).expect("it is running");
    asks.post_task(move |_| {
        let mut call = value.call_for(|value| *value).expect("it is running");
        assert_eq!(call.wait(Instant::INFINITE), Ok(7));
    })
    .expect("it is running");
    runtime.run_until_idle();
    let text = runtime.waits().to_string();
    assert!(text.contains("asks/desk waits for the result of a call from holds/desk, in the task of "), "{text}");
    assert!(text.contains("holds/desk waits for a reply, in the task of "), "nobody reads the other end: {text}");
    assert!(!runtime.waits().is_deadlock(), "{text}");
    drop(far);
    runtime.run_until_idle();
    assert!(runtime.waits().is_empty());
}

/// A waking is a moment of its own: the future counts as woken, and its dispatcher has not heard of it. A shutdown that comes
/// in between has to wait for it.
#[test]
fn a_future_that_is_woken_while_its_dispatcher_shuts_down_ends_before_the_observer() {
    explore(300, |runtime| {
        let [sleeper, rouser, closer] = ["sleeper", "rouser", "closer"].map(|name| {
            let driver = runtime.new_driver(name);
            driver.new_dispatcher(DispatcherBuilder::new().name("main")).expect("it is made").release()
        });
        let slot = Arc::new(Mutex::new(None::<Waker>));
        let kept = Arc::clone(&slot);
        let sleeping = sleeper.spawn(poll_fn(move |context: &mut Context<'_>| {
            *kept.lock().expect("nothing panics with it") = Some(context.waker().clone());
            Poll::<()>::Pending
        }));
        drop(sleeping.expect("it is running"));
        runtime.run_until_idle();
        rouser
            .post_task(move |_| {
                let waker = slot.lock().expect("nothing panics with it").take();
                waker.expect("it was polled").wake();
            })
            .expect("it is running");
        closer.post_task(move |_| sleeper.shutdown_async()).expect("it is running");
        runtime.run_until_idle();
    });
}
