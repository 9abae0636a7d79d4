//! Goal: what a driver asks of its host holds on the real one, in virtual time and on threads, under many schedules, and
//! wherever a shutdown comes in between: calls, tokens, irqs, suspend.
//! Method: the example `selftest`, which checks its host, in the harness; and a driver whose dispatchers call each other.

use std::sync::Arc;

use fuchsine_driver::{
    Channel, Dispatcher, DispatcherOptions, Driver, DriverContext, DriverEntry, Instant, Message, StartError, Status,
};
use fuchsine_selftest::DRIVER as SELFTEST;
use fuchsine_testing::{Explorer, ForegroundRuntime, Harness, Injector, Place, Target};

static HOLDS: DriverEntry = SELFTEST;

#[test]
fn everything_holds_in_virtual_time_and_on_threads() {
    for suspended in [false, true] {
        let test = |place: Place<'_>| {
            let harness = Harness::builder(&HOLDS).config(format!("suspended = {suspended}")).start(place).unwrap();
            assert_eq!(harness.lines(), ["INFO selftest: everything holds checks=4"]);
            // One that is suspended is resumed for its stop.
            harness.stop().unwrap();
        };
        test(Place::Foreground(&ForegroundRuntime::new()));
        test(Place::Threads);
    }
}

#[test]
fn everything_holds_under_many_schedules() {
    Explorer::new().seeds(60).explore(|runtime| {
        let harness = Harness::builder(&HOLDS).config("suspended = true").start(runtime).unwrap();
        harness.stop().unwrap();
    });
}

/// Nothing is told twice or not at all, nothing leaks, and nothing is dropped where it does not belong.
#[test]
fn a_shutdown_may_come_at_any_step_of_it() {
    for target in [Target::driver("selftest"), Target::runtime()] {
        let injector = Injector::new().explorer(Explorer::new().seeds(150)).one_step_a_seed();
        let injected = injector.shutdown(target, |runtime| {
            if let Ok(harness) = Harness::builder(&HOLDS).start(runtime) {
                let _ = harness.stop();
            }
        });
        assert!(injected.injections > 100, "{injected:?}");
    }
}

/// Two dispatchers of one driver, each of which asks the other one before it answers.
struct Mutual;

/// Registers for a request, and asks for the reply to one of its own.
fn ask_and_answer(home: &Dispatcher, server: Channel, other: Channel) -> Result<(), Status> {
    let server = Arc::new(server);
    let own = Arc::clone(&server);
    server.begin_read(home, move |_| {
        if let Ok(request) = own.try_read() {
            let _ = own.write(Message::new().in_reply_to(request.txid()));
        }
    })?;
    home.post_task(move |_| drop(other.call(Message::new(), Instant::INFINITE)))?; // mark: asks
    Ok(())
}

impl Driver for Mutual {
    const NAME: &'static str = "mutual";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let desk = |name| cx.new_dispatcher(DispatcherOptions::new(name).allow_sync_calls());
        let (left, right) = (desk("left")?, desk("right")?);
        let ((to_left, at_left), (to_right, at_right)) = (Channel::pair()?, Channel::pair()?);
        ask_and_answer(&left, at_left, to_right)?;
        ask_and_answer(&right, at_right, to_left)?;
        Ok(Mutual)
    }
}

static MUTUAL: DriverEntry = DriverEntry::of::<Mutual>();

#[test]
fn a_driver_whose_calls_wait_for_each_other_is_reported_by_its_dispatchers_and_its_line() {
    let runtime = ForegroundRuntime::new();
    let harness = Harness::builder(&MUTUAL).start(&runtime).unwrap();
    runtime.run_until_idle();
    let waits = runtime.waits();
    let line = include_str!("selftest.rs").lines().position(|line| line.ends_with("// mark: asks")).unwrap() + 1;
    let text = waits.to_string();
    assert!(waits.is_deadlock(), "{text}");
    for part in [
        format!("mutual/left waits for a reply from mutual/right, in the task of {}:{line}:", file!()),
        "selftest::ask_and_answer::{{closure}}".to_owned(),
        "deadlock: mutual/left -> mutual/right -> mutual/left".to_owned(),
    ] {
        assert!(text.contains(&part), "{part:?} is missing in:\n{text}");
    }
    // A stop ends both calls.
    harness.stop().unwrap();
}
