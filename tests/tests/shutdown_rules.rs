//! The end of a dispatcher: on which thread, in which context, and what canceled callbacks may do. What is canceled in
//! which order stands in `suspend.rs`, where everything that can be pending is.

mod common;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use common::Log;
use fuchsine_dispatcher::{
    Channel, DispatcherBuilder, DispatcherHandle, DispatcherState, Driver, Message, Status, current,
};
use fuchsine_tests::pools::{in_the_foreground, on_every_pool, on_pools};

fn dispatcher(driver: &Driver, builder: DispatcherBuilder) -> DispatcherHandle {
    driver.new_dispatcher(builder).expect("there is room").release()
}

/// Shows R143, R144.
#[test]
fn everything_is_canceled_by_one_thread_of_the_pool_one_after_the_other_on_unsynchronized_dispatchers_too() {
    on_pools(|world| {
        for builder in [DispatcherBuilder::new(), DispatcherBuilder::new().unsynchronized()] {
            let threads: Arc<Mutex<Vec<ThreadId>>> = Arc::default();
            let inside = Arc::new(Mutex::new(()));
            let noted = Arc::clone(&threads);
            let note = move || noted.lock().unwrap_or_else(PoisonError::into_inner).push(std::thread::current().id());
            let at_the_end = note.clone();
            let on = dispatcher(&world.driver("driver"), builder.shutdown_observer(at_the_end));
            for _ in 0..20 {
                let (note, inside) = (note.clone(), Arc::clone(&inside));
                let task = move |_| {
                    let _alone = inside.try_lock().expect("no other canceled callback runs");
                    std::thread::yield_now();
                    note();
                };
                let _timer = on.post_after(Duration::from_secs(1000), task).expect("it is accepted");
            }
            on.shutdown_async();
            world.wait_until("the shutdown", || on.state() == DispatcherState::Destroyed);
            let threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
            assert_eq!(threads.len(), 21);
            assert!(threads.iter().all(|thread| *thread == threads[0]), "{threads:?}");
            assert_ne!(threads[0], std::thread::current().id());
        }
    });
}

/// Shows R148.
#[test]
fn a_canceled_callback_may_write_to_others_by_the_rules_of_any_call() {
    in_the_foreground(|world| {
        let (ending, other) = (world.driver("ending"), world.driver("other"));
        let on = dispatcher(&ending, DispatcherBuilder::new());
        let sibling = dispatcher(&ending, DispatcherBuilder::new());
        let foreign = dispatcher(&other, DispatcherBuilder::new());
        let log = Log::new();
        let listen = |on: &DispatcherHandle, name: &'static str| {
            let (near, far) = Channel::pair();
            let told = log.clone();
            near.begin_read(on, move |outcome: Result<(), Status>| told.add(format!("{name} {}", outcome.is_ok())))
                .expect("it is accepted");
            (near, far)
        };
        let ((_sibling_end, to_sibling), (_foreign_end, to_foreign)) =
            (listen(&sibling, "sibling"), listen(&foreign, "foreign"));
        let told = log.clone();
        let task = move |_| {
            to_foreign.write(Message::new()).expect("the peer is there");
            told.add("written to the other driver");
            to_sibling.write(Message::new()).expect("the peer is there");
            told.add("written to the own driver");
        };
        let _timer = on.post_after(Duration::from_secs(1000), task).expect("it is accepted");
        on.shutdown_async();
        world.settle();
        let expected = ["foreign true", "written to the other driver", "written to the own driver", "sibling true"];
        assert_eq!(log.take(), expected);
    });
}

/// Shows R151.
#[test]
fn the_end_of_a_whole_runtime_tells_everything_that_is_pending_and_every_observer() {
    on_every_pool(|world| {
        let log = Log::new();
        let observed = log.clone();
        let on = dispatcher(
            &world.driver("driver"),
            DispatcherBuilder::new().shutdown_observer(move || observed.add("observer")),
        );
        let (irq, _trigger) = on.new_irq().expect("there is a descriptor");
        let told = log.clone();
        on.bind_irq(&irq, move |outcome| told.add(format!("irq {:?}", outcome.err()))).expect("it is accepted");
        let told = log.clone();
        let timer = move |outcome: Result<(), _>| told.add(format!("timer {outcome:?}"));
        let _timer = on.post_after(Duration::from_secs(1000), timer).expect("it is accepted");
        world.shutdown();
        assert_eq!(log.take(), ["timer Err(Canceled)", "irq Some(Canceled)", "observer"]);
    });
}

/// Shows R102.
#[test]
fn a_handle_keeps_the_memory_and_not_the_dispatcher() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let on = dispatcher(&driver, DispatcherBuilder::new().name("kept"));
        let weak = on.downgrade();
        on.shutdown_async();
        // It leaves its driver a moment after its state says so.
        world.wait_until("the shutdown", || driver.dispatchers().is_empty());
        assert_eq!(on.state(), DispatcherState::Destroyed);
        assert_eq!(on.name(), "kept");
        assert_eq!(on.post_task(|_| ()).expect_err("it is gone").status(), Status::BadState);
        assert!(weak.upgrade().is_ok(), "the handle holds it");
        drop(on);
        world.wait_until("the memory to go", || weak.upgrade().is_err());
        assert_eq!(weak.upgrade().err(), Some(Status::BadState));
        assert_eq!(current(), None);
    });
}
