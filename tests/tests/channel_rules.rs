//! Goal: the rules of channels, one at a time: order, registration, cancel, closing, handles, limits.
//! Method: on the foreground runtime, where nothing moves unless the test turns the crank.

mod common;

use std::sync::{Arc, Mutex};

use common::{Log, add_up};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{
    Arena, Channel, Counters, Dispatcher, DispatcherBuilder, DispatcherHandle, Driver, Handle, Kind, Limits, Message,
    ReadError, Status,
};

/// A runtime with one driver that reads, and an end of a channel for it and one for the test.
struct Bench {
    runtime: ForegroundRuntime,
    driver: Driver,
    dispatcher: Dispatcher,
    near: Channel,
    far: Channel,
    log: Log,
}

impl Bench {
    fn new() -> Self {
        let runtime = ForegroundRuntime::new();
        let driver = runtime.new_driver("reader");
        let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().name("reader")).expect("created");
        let (near, far) = Channel::pair();
        Bench { runtime, driver, dispatcher, near, far, log: Log::new() }
    }

    /// Registers a read on `far` that writes its outcome down.
    #[track_caller]
    fn read_far(&self) {
        let log = self.log.clone();
        self.far.begin_read(&self.dispatcher, move |outcome| log.add(format!("{outcome:?}"))).expect("registered");
    }

    fn counters(&self) -> Counters {
        self.dispatcher.counters()
    }

    /// Ends it all: nothing is left, and the numbers add up.
    #[track_caller]
    fn end(self) {
        drop((self.near, self.far, self.dispatcher));
        self.runtime.shutdown().expect("nothing is stuck");
        add_up(&self.runtime);
        assert_eq!(self.runtime.counters().pending, 0);
    }
}

fn bytes(value: u64) -> Message {
    Message::from_bytes(&value.to_le_bytes())
}

fn value(message: &Message) -> u64 {
    u64::from_le_bytes(message.bytes().try_into().expect("eight bytes"))
}

/// CH-02. R5: a wholly empty message is a message like any other.
#[test]
fn an_empty_message_is_delivered() {
    let bench = Bench::new();
    bench.near.write(Message::new()).expect("written");
    bench.read_far();
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["Ok(())"]);
    let message = bench.far.try_read().expect("there is one");
    assert!(message.is_empty() && message.bytes().is_empty() && message.handles().is_empty());
    assert_eq!(bench.far.try_read().expect_err("there was one"), ReadError::ShouldWait);
    bench.end();
}

/// CH-46. R31: one registration at a time; the second is refused and its handler comes back uncalled.
#[test]
fn a_second_registration_is_refused_with_its_handler() {
    let bench = Bench::new();
    bench.read_far();
    let log = bench.log.clone();
    let refused =
        bench.far.begin_read(&bench.dispatcher, move |_| log.add("the refused handler")).expect_err("one is registered");
    assert_eq!(refused.status(), Status::BadState);
    bench.near.write(Message::new()).expect("written");
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["Ok(())"]);
    refused.into_inner()(Ok(()));
    assert_eq!(bench.log.take(), ["the refused handler"]);
    bench.read_far();
    bench.runtime.run_until_idle();
    assert_eq!(bench.log.take(), ["Ok(())"], "the message was not read, so the next registration is ready");
    assert_eq!(bench.counters().refused, 1);
    bench.end();
}
