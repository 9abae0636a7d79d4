//! Goal: a callback or a scenario that blocks for ever out of sight fails its test within some seconds, with a report that
//! names it; and one that waits for another callback costs some milliseconds.
//! Method: callbacks and scenarios that wait on channels of the standard library. What blocks the thread of the test ends its
//! process, so that is done in another one.

mod common;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::in_a_process_of_its_own;
use fuchsine_dispatcher::testing::{Explorer, ForegroundRuntime, Injector, Strategy, Target};
use fuchsine_dispatcher::{DispatcherBuilder, DispatcherHandle, Lane};

/// Soon enough for a test of it.
const LIMIT: Duration = Duration::from_secs(2);

fn dispatcher(runtime: &ForegroundRuntime, driver: &str, builder: DispatcherBuilder) -> DispatcherHandle {
    runtime.new_driver(driver).new_dispatcher(builder.name("main")).expect("it has what it needs").release()
}

/// A channel that nothing is ever sent on, as long as the sender is kept.
fn silence() -> (Sender<()>, Receiver<()>) {
    channel()
}

/// Waits for what never comes.
fn listen(receiver: &Receiver<()>) {
    let _ = receiver.recv();
}

/// A driver whose callback waits for what never comes, after another one that is well.
fn deaf(runtime: &ForegroundRuntime, builder: DispatcherBuilder) {
    let (sender, receiver) = silence();
    let deaf = dispatcher(runtime, "deaf", builder);
    deaf.post_task(|_| ()).expect("it is running");
    deaf.post_task(move |_| listen(&receiver)).expect("it is running");
    runtime.run_until_idle();
    drop(sender);
}

/// What the process of a test says that hangs.
#[track_caller]
fn report_of(name: &str, body: impl FnOnce()) -> Option<String> {
    let output = in_a_process_of_its_own(name, body)?;
    assert!(!output.succeeded, "{}", output.text);
    let (_, report) = output.text.split_once("fuchsine: a test hangs: ").expect("it says so");
    assert!(report.starts_with("it has slept for 2s without a step"), "{report}");
    Some(report.to_owned())
}

#[test]
fn a_callback_that_blocks_the_thread_of_an_exploration_ends_the_test_with_its_name_and_its_step() {
    let name = "a_callback_that_blocks_the_thread_of_an_exploration_ends_the_test_with_its_name_and_its_step";
    let explore = || {
        let explorer = Explorer::new().overlap(false).hang_limit(LIMIT);
        explorer.explore(|runtime| deaf(runtime, DispatcherBuilder::new()));
    };
    let Some(report) = report_of(name, explore) else { return };
    let who = report.lines().nth(1).expect("a line says who it is");
    assert!(who.starts_with("task of hangs::deaf::{{closure}} (") && who.contains("tests/hangs.rs:"), "{report}");
    assert!(who.contains("dispatcher \"main\" of driver \"deaf\", since step "), "{report}");
    assert!(report.contains("it hangs at step ") && report.contains("\nFUCHSINE_SEED=picks:"), "{report}");
    assert!(report.contains("makes driver deaf; makes deaf/main"), "the trace so far\n{report}");
    assert!(report.contains("left at that moment:\ndeaf/main, running:\n  running: task of "), "{report}");
}

#[test]
fn a_callback_that_blocks_the_thread_of_an_injection_ends_the_test_with_the_moment() {
    let name = "a_callback_that_blocks_the_thread_of_an_injection_ends_the_test_with_the_moment";
    let inject = || {
        let injector = Injector::new().explorer(Explorer::new().overlap(false).hang_limit(LIMIT).seeds(1));
        // It hangs where it is canceled.
        injector.shutdown(Target::runtime(), |runtime| {
            let (sender, receiver) = silence();
            let bad = dispatcher(runtime, "bad loser", DispatcherBuilder::new());
            let _ = bad.post_task(move |outcome| outcome.unwrap_or_else(|_| listen(&receiver)));
            runtime.run_until_idle();
            drop(sender);
        });
    };
    let Some(report) = report_of(name, inject) else { return };
    assert!(report.contains("of driver \"bad loser\", since step "), "{report}");
    let seed = report.split_once("FUCHSINE_SEED=").and_then(|(_, text)| text.split_once(':')).expect("a schedule");
    assert!(report.contains('@'), "{seed:?}\n{report}");
}

#[test]
fn a_scenario_that_waits_for_what_never_comes_ends_the_test() {
    let explore = || {
        let (_sender, receiver) = silence();
        let body = move || {
            Explorer::new().hang_limit(LIMIT).explore(|runtime| {
                runtime.run_until_idle();
                let _ = receiver.recv();
            });
        };
        // As where tests run side by side, each on a thread with its name.
        let thread = std::thread::Builder::new().name("the_name_of_a_test".into()).spawn(body);
        let _ = thread.expect("there is a thread").join();
    };
    let Some(report) = report_of("a_scenario_that_waits_for_what_never_comes_ends_the_test", explore) else { return };
    assert!(report.contains("no callback runs on its thread: the scenario itself waits"), "{report}");
    assert!(report.starts_with("it has slept for 2s without a step (thread \"the_name_of_a_test\"). "), "{report}");
}

#[test]
fn a_callback_that_blocks_the_crank_of_a_foreground_runtime_ends_the_test() {
    let run = || {
        let runtime = ForegroundRuntime::new();
        runtime.set_hang_limit(LIMIT);
        deaf(&runtime, DispatcherBuilder::new());
    };
    let name = "a_callback_that_blocks_the_crank_of_a_foreground_runtime_ends_the_test";
    let Some(report) = report_of(name, run) else { return };
    assert!(
        report.contains("deaf/main, running:\n  running: task of ") && report.contains("tests/hangs.rs:"),
        "{report}"
    );
}

#[test]
fn a_callback_that_blocks_a_helper_fails_the_exploration_once() {
    let runs = Mutex::new(0);
    let found = Explorer::new().try_explore(|runtime| {
        *runs.lock().expect("nothing panics with it") += 1;
        deaf_and_left(runtime);
    });
    let report = found.expect_err("it never ends").to_string();
    assert!(report.starts_with("the shutdown does not come to its end\n"), "{report}");
    assert!(report.contains("blocks out of sight of the testing kit:\n  deaf/main: the task of "), "{report}");
    assert!(report.contains("tests/hangs.rs:") && report.contains(", since step "), "{report}");
    assert_eq!(*runs.lock().expect("as above"), 1, "each run of it takes seconds, and leaves a thread");
}

/// As above, with a sender that is kept to the end of the process.
fn deaf_and_left(runtime: &ForegroundRuntime) {
    let (sender, receiver) = silence();
    std::mem::forget(sender);
    let deaf = dispatcher(runtime, "deaf", DispatcherBuilder::new().allow_sync_calls());
    deaf.post_task(move |_| listen(&receiver)).expect("it is running");
    runtime.run_until_idle();
}

#[test]
fn work_that_blocks_fails_the_exploration_and_says_whose_it_is() {
    let found = Explorer::new().try_explore(|runtime| {
        let (sender, receiver) = silence();
        std::mem::forget(sender);
        let miner = dispatcher(runtime, "miner", DispatcherBuilder::new());
        miner.offload(Lane::Slow, move |_| listen(&receiver), |_| ()).expect("it is running");
        runtime.run_until_idle();
    });
    let report = found.expect_err("it never ends").to_string();
    assert!(
        report.contains("work of a lane, of one of: miner/main: ") && report.contains("tests/hangs.rs:"),
        "{report}"
    );
}

#[test]
#[should_panic(expected = "as something blocks out of sight of the testing kit:\n  deaf/main: the task of ")]
fn a_foreground_runtime_that_is_dropped_says_who_blocks() {
    let runtime = ForegroundRuntime::new();
    runtime.set_patience(Duration::from_millis(20));
    deaf_and_left(&runtime);
}

/// One callback waits for another by a channel of the standard library: the other one gets its turn as soon as that is
/// seen, and the waiting costs no patience, of which there is more than any test has.
#[test]
fn a_callback_that_waits_for_another_out_of_sight_takes_no_patience() {
    let waits = Arc::new(Mutex::new(0));
    let explorer = Explorer::new().seeds(20).strategy(Strategy::Random);
    explorer.explore(|runtime| {
        runtime.set_patience(Duration::from_secs(3600));
        let (sender, receiver) = channel();
        let asker = dispatcher(runtime, "asker", DispatcherBuilder::new().allow_sync_calls());
        let teller = dispatcher(runtime, "teller", DispatcherBuilder::new());
        asker.post_task(move |_| assert_eq!(receiver.recv(), Ok(7))).expect("it is running");
        teller.post_task(move |_| sender.send(7).expect("it waits")).expect("it is running");
        runtime.run_until_idle();
        *waits.lock().expect("nothing panics with it") += 1;
    });
    assert!(*waits.lock().expect("as above") >= 20);
}
