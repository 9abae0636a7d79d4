//! Goal: a thread that registered its entry into a driver is inside of it, for everybody who asks and for the rule of no
//! re-entrancy, until it registers its exit; and nothing else can be left that way.
//! Method: entries on threads inside and outside of the pool, nested and forgotten; asked on the thread and from another.

use std::sync::mpsc::channel;
use std::time::Duration;

use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{
    Channel, DispatcherBuilder, Driver, Message, RuntimeBuilder, Status, current, current_driver,
};

const HANG_LIMIT: Duration = Duration::from_secs(60);

#[test]
fn an_entry_holds_until_its_exit_and_entries_nest() {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("the system has threads");
    let (outer, inner) = (runtime.new_driver("outer"), runtime.new_driver("inner"));
    let here = std::thread::current().id();
    assert_eq!(Driver::register_exit(), Err(Status::BadState));
    outer.register_entry();
    inner.register_entry();
    assert_eq!(current_driver(), Some(inner.clone()));
    assert!(current().is_none(), "a driver is entered, and no dispatcher");
    let asks = runtime.clone();
    let seen = std::thread::spawn(move || asks.driver_on_thread(here)).join().expect("it does not panic");
    assert_eq!(seen, Some(inner));
    assert_eq!(Driver::register_exit(), Ok(()));
    assert_eq!((current_driver(), runtime.driver_on_thread(here)), (Some(outer.clone()), Some(outer.clone())));
    assert!(DispatcherBuilder::new().build().is_ok_and(|made| made.owner() == outer));
    assert_eq!(Driver::register_exit(), Ok(()));
    assert_eq!((current_driver(), runtime.driver_on_thread(here)), (None, None));
    assert_eq!(Driver::register_exit(), Err(Status::BadState));
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
}

#[test]
fn a_callback_is_not_left_by_an_exit_and_its_turn_takes_forgotten_entries_along() {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("the system has threads");
    let (owner, other) = (runtime.new_driver("owner"), runtime.new_driver("other"));
    let dispatcher = owner.new_dispatcher(DispatcherBuilder::new()).expect("created");
    let (sender, receiver) = channel();
    let of_callback = sender.clone();
    let entered = other.clone();
    let forgets = move |_: Result<(), _>| {
        let before = Driver::register_exit();
        entered.register_entry();
        let inside = entered.enter(Driver::register_exit);
        let _ = of_callback.send((before, inside, current_driver()));
    };
    dispatcher.post_task(forgets).expect("it runs");
    let bad_state = Err(Status::BadState);
    assert_eq!(receiver.recv_timeout(HANG_LIMIT), Ok((bad_state, bad_state, Some(other))));
    dispatcher.wait_until_idle(HANG_LIMIT).expect("the turn ends");
    // The same thread, as there is one.
    dispatcher
        .post_task(move |_| sender.send((bad_state, Driver::register_exit(), current_driver())).unwrap())
        .unwrap();
    assert_eq!(receiver.recv_timeout(HANG_LIMIT), Ok((bad_state, bad_state, Some(owner))));
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
}

#[test]
fn a_driver_that_is_entered_is_not_called_into() {
    let runtime = ForegroundRuntime::new();
    let (target, writer) = (runtime.new_driver("target"), runtime.new_driver("writer"));
    let of_target = target.new_dispatcher(DispatcherBuilder::new()).expect("created");
    let of_writer = writer.new_dispatcher(DispatcherBuilder::new()).expect("created");
    for is_entered in [false, true] {
        let (near, far) = Channel::pair();
        let (sender, receiver) = channel();
        far.begin_read(&of_target, move |_| sender.send(()).expect("it is awaited")).expect("registered");
        let (enters, tell) = (target.clone(), channel());
        let writes = tell.0;
        of_writer
            .post_task(move |_| {
                if is_entered {
                    enters.register_entry();
                }
                near.write(Message::new()).expect("written");
                writes.send(receiver.try_recv().is_ok()).expect("it is awaited");
                if is_entered {
                    Driver::register_exit().expect("it is innermost");
                }
            })
            .expect("it runs");
        runtime.run_until_idle();
        assert_eq!(tell.1.try_recv(), Ok(!is_entered), "called into while it is entered: {is_entered}");
    }
}
