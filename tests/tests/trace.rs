//! Goal: whoever listens to spans sees which callback of whose dispatcher something happens in, and others see nothing.
//! Method: a subscriber of this thread writes down what callbacks log, on the foreground runtime, whose callbacks run here.

mod common;

use std::io::Write;

use common::Log;
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{Channel, DispatcherBuilder, Message, PanicPolicy, RuntimeBuilder};
use tracing::Level;

/// The lines of a log.
struct Lines(Log);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.add(String::from_utf8_lossy(bytes).trim());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What is logged meanwhile, with the spans that it is logged in.
fn logged_at(level: Level, body: impl FnOnce()) -> Vec<String> {
    let log = Log::new();
    let lines = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(move || Lines(lines.clone()))
        .without_time()
        .with_ansi(false)
        .with_target(false)
        .finish();
    tracing::subscriber::with_default(subscriber, body);
    log.take()
}

fn runtime() -> ForegroundRuntime {
    ForegroundRuntime::with(RuntimeBuilder::new().panic_policy(PanicPolicy::Continue)).expect("it needs nothing")
}

/// A task that writes to another driver, whose handler runs inline, and a third that is canceled.
fn scenario() {
    let runtime = runtime();
    let (nic, stack) = (runtime.new_driver("nic"), runtime.new_driver("stack"));
    let receiving = nic.new_dispatcher(DispatcherBuilder::new().name("receiving")).expect("created");
    let protocols = stack.new_dispatcher(DispatcherBuilder::new().name("protocols")).expect("created");
    let (near, far) = Channel::pair();
    far.begin_read(&protocols, |_| tracing::info!("a frame")).expect("the end is free");
    let posted = receiving.post_task(move |_| {
        tracing::info!("an interrupt");
        near.write(Message::new()).expect("the peer is there");
        tracing::info!("handed on");
    });
    posted.expect("it runs");
    runtime.run_until_idle();
    tracing::info!("outside");
    protocols.post_task(|outcome| tracing::info!(?outcome, "late")).expect("it runs");
    protocols.shutdown_async();
    runtime.run_until_idle();
}

/// Shows R178.
#[test]
fn each_callback_is_a_span_with_its_driver_and_dispatcher_for_whoever_listens() {
    let lines = logged_at(Level::TRACE, scenario);
    let of = |text: &str| lines.iter().find(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}: {lines:?}"));
    let names = |driver: &str, dispatcher: &str| format!("callback{{driver={driver:?} dispatcher={dispatcher:?} ");
    let (nic, stack) = (names("nic", "receiving"), names("stack", "protocols"));
    assert!(of("an interrupt").contains(&nic) && !of("an interrupt").contains(&stack));
    let inline = of("a frame");
    assert!(inline.find(&nic) < inline.find(&stack) && inline.contains(&nic), "one inside of the other: {inline}");
    assert!(of("handed on").contains(&nic) && !of("handed on").contains(&stack));
    assert!(!of("outside").contains("callback"));
    assert!(of("late").contains(&stack) && of("late").contains("outcome=Canceled"), "{}", of("late"));
    assert!(of("an interrupt").contains("posted_at=tests/tests/trace.rs:"), "{}", of("an interrupt"));
    assert!(of("an interrupt").contains("scenario"), "the type of the closure says where it was written: {lines:?}");
}

#[test]
fn nobody_else_meets_a_span() {
    let lines = logged_at(Level::DEBUG, scenario);
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains("callback{")), "{lines:?}");
}

#[test]
fn the_span_of_a_callback_that_panics_ends_with_it() {
    let lines = logged_at(Level::TRACE, || {
        let runtime = runtime();
        let driver = runtime.new_driver("driver");
        let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().name("one")).expect("created");
        dispatcher.post_task(|_| panic!("on purpose")).expect("it runs");
        dispatcher.post_task(|_| tracing::info!("the next")).expect("it runs");
        runtime.run_until_idle();
        tracing::info!("outside");
    });
    let spans =
        |text: &str| lines.iter().find(|line| line.contains(text)).map(|line| line.matches("callback{").count());
    assert_eq!((spans("the next"), spans("outside")), (Some(1), Some(0)), "{lines:?}");
}
