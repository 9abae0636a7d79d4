//! Goal: the harness that runs scenarios on every kind of runtime does so, and notices what goes wrong.
//! Method: scenarios that count, that fail, and that leave work behind.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fuchsine_dispatcher::{Channel, DispatcherBuilder, Message};
use fuchsine_tests::pools::{explored_seeds, in_the_foreground, on_every_pool, on_pools, repetitions};

#[test]
fn a_scenario_runs_on_each_runtime() {
    let seen = RefCell::new(Vec::new());
    on_every_pool(|world| seen.borrow_mut().push(world.threads()));
    on_pools(|world| seen.borrow_mut().push(world.threads() + 100));
    in_the_foreground(|world| seen.borrow_mut().push(world.threads() + 200));
    let repeated = |threads: &[usize]| threads.iter().flat_map(|&one| vec![one; repetitions() as usize]).collect();
    let mut expected: Vec<usize> = repeated(&[0, 1, 2, 8]);
    // Each schedule twice.
    expected.extend(vec![0; 2 * explored_seeds().count() as usize]);
    expected.extend::<Vec<_>>(repeated(&[101, 102, 108, 200]));
    assert_eq!(seen.into_inner(), expected);
}

#[test]
fn settling_lets_run_what_callbacks_make_ready_on_other_dispatchers() {
    on_every_pool(|world| {
        let done = Arc::new(AtomicUsize::new(0));
        let dispatchers: Vec<_> = (0..5)
            .map(|nth| {
                let driver = world.driver("one of five");
                let builder = DispatcherBuilder::new().name(format!("{nth}"));
                driver.new_dispatcher(builder).expect("it is made").release()
            })
            .collect();
        let ends: Vec<_> = dispatchers
            .iter()
            .map(|dispatcher| {
                let (near, far) = Channel::pair();
                let done = Arc::clone(&done);
                far.begin_read(dispatcher, move |_| {
                    done.fetch_add(1, Ordering::Relaxed);
                })
                .expect("it is registered");
                (near, far)
            })
            .collect();
        let (nears, fars): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        let first = dispatchers[0].clone();
        first
            .post_task(move |_| {
                for near in nears {
                    near.write(Message::new()).expect("the peer is there");
                }
            })
            .expect("the dispatcher runs");
        world.settle();
        assert_eq!(done.load(Ordering::Relaxed), 5);
        drop(fars);
    });
}

#[test]
fn waiting_in_the_foreground_advances_the_clock() {
    in_the_foreground(|world| {
        let dispatcher = world.driver("timer").new_dispatcher(DispatcherBuilder::new()).expect("it is made");
        let done = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&done);
        let _handle = dispatcher.post_after(Duration::from_secs(3600), move |_| {
            told.fetch_add(1, Ordering::Relaxed);
        });
        world.settle();
        assert_eq!(done.load(Ordering::Relaxed), 0);
        world.wait_until("the timer", || done.load(Ordering::Relaxed) == 1);
    });
}

#[test]
fn what_a_body_asserts_on_a_dispatcher_reaches_the_test() {
    on_every_pool(|world| {
        let dispatcher = world.driver("body").new_dispatcher(DispatcherBuilder::new()).expect("it is made");
        assert_eq!(world.run_on(&dispatcher, || 6 * 7), 42);
        let failed = catch_unwind(AssertUnwindSafe(|| world.run_on(&dispatcher, || assert_eq!(1, 2))));
        assert!(failed.is_err());
        // The panic was not one of the callback.
        assert_eq!(dispatcher.owner().panics(), 0);
    });
}

#[test]
fn a_scenario_that_fails_fails_the_test() {
    let runs = Cell::new(0);
    let failed = catch_unwind(AssertUnwindSafe(|| {
        on_pools(|world| {
            runs.set(runs.get() + 1);
            assert_ne!(world.threads(), 2);
        });
    }));
    assert!(failed.is_err());
    assert_eq!(runs.get(), repetitions() + 1, "nothing runs after a failure");
}
