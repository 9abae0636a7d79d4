//! Models of tokens on real dispatchers and the real pool: a registration against a transfer, the drop of the other end,
//! a cancel, and the shutdown.
//!
//! What each checks in the end: the handler was told once unless it was taken back; the channel is with the handler, or came
//! back, or is closed; the counters add up. Run as the other models (`shuttle_channel`). Not covered: weak memory.

use std::time::Duration;

use super::shuttle_channel::explore;
use super::{Channel, Token};
use crate::runtime::{Dispatcher, DispatcherBuilder, Runtime, RuntimeBuilder};
use crate::status::Status;
use crate::sync::{Arc, Mutex, thread};

type Told = Arc<Mutex<Vec<Result<Channel, Status>>>>;

fn set_up() -> (Runtime, Dispatcher, Told) {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("a model has threads");
    let home = runtime.new_driver("home").new_dispatcher(DispatcherBuilder::new()).expect("the driver is new");
    (runtime, home, Told::default())
}

fn conclude(runtime: &Runtime) {
    runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
    let counters = runtime.counters();
    assert!(counters.add_up(), "{counters:?}");
    assert_eq!(counters.pending, 0);
}

fn telling(told: &Told) -> impl FnOnce(Result<Channel, Status>) + Send + 'static {
    let told = Arc::clone(told);
    move |outcome| told.lock().push(outcome)
}

#[test]
fn shuttle_a_registration_a_transfer_and_a_shutdown_leave_the_channel_in_one_place() {
    explore(|| {
        let (runtime, home, told) = set_up();
        let (for_server, for_client) = Token::pair();
        let (near, far) = Channel::pair();
        let transferring = thread::spawn("transferring", move || for_client.transfer(far)).expect("a thread");
        let stopping = home.handle();
        let stopping = thread::spawn("stopping", move || stopping.shutdown_async()).expect("a thread");
        let is_registered = for_server.register(&home, telling(&told)).is_ok();
        let transferred = transferring.join().expect("it ends");
        stopping.join().expect("it ends");
        conclude(&runtime);
        let told = told.lock();
        assert_eq!(told.len(), usize::from(is_registered));
        let with_handler = told.iter().any(|outcome| outcome.is_ok());
        assert!(told.iter().all(|outcome| matches!(outcome, Ok(_) | Err(Status::Canceled))));
        assert!(!with_handler || transferred.is_ok());
        assert_eq!(near.is_peer_closed(), !with_handler && transferred.is_ok());
    });
}

#[test]
fn shuttle_a_registration_is_told_once_when_the_other_end_is_dropped_and_the_dispatcher_shuts_down() {
    explore(|| {
        let (runtime, home, told) = set_up();
        let (for_server, for_client) = Token::pair();
        let _registered = for_server.register(&home, telling(&told)).expect("it runs");
        let dropping = thread::spawn("dropping", move || drop(for_client)).expect("a thread");
        home.shutdown_async();
        dropping.join().expect("it ends");
        conclude(&runtime);
        assert!(matches!(told.lock()[..], [Err(Status::Canceled)]));
    });
}

#[test]
fn shuttle_a_registration_that_is_taken_back_during_a_transfer_has_one_end() {
    explore(|| {
        let (runtime, home, told) = set_up();
        let (for_server, for_client) = Token::pair();
        let (near, far) = Channel::pair();
        let registered = for_server.register(&home, telling(&told)).expect("it runs");
        let transferring = thread::spawn("transferring", move || for_client.transfer(far)).expect("a thread");
        let taken_back = registered.cancel().is_ok();
        let transferred = transferring.join().expect("it ends");
        conclude(&runtime);
        assert_eq!(told.lock().len(), usize::from(!taken_back));
        assert!(taken_back || told.lock()[0].is_ok());
        assert_eq!(near.is_peer_closed(), taken_back && transferred.is_ok());
    });
}
