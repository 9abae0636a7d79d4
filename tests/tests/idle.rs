//! Waiting until nothing runs and nothing is ready to: what counts, who may wait, and that nothing is missed.
//!
//! Orders that need luck here are explored by the models in `dispatcher/src/runtime/shuttle_idle.rs`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use fuchsine_dispatcher::{
    Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Driver, Lane, Runtime, Status, WaitUntilError,
};
use fuchsine_tests::pools::{HANG_LIMIT, in_the_foreground, on_every_pool, on_pools};

fn dispatcher(driver: &Driver) -> Dispatcher {
    driver.new_dispatcher(DispatcherBuilder::new().name(driver.name())).expect("created")
}

/// Posts a task that blocks until the sender is dropped; returns when it runs.
fn block(dispatcher: &DispatcherHandle) -> Sender<()> {
    let (release, released) = channel::<()>();
    let (tell, told) = channel();
    dispatcher
        .post_task(move |_| {
            // The test may be past caring.
            let _ = tell.send(());
            let _ = released.recv();
        })
        .expect("it runs");
    told.recv_timeout(HANG_LIMIT).expect("the task begins");
    release
}

fn idle(dispatcher: &DispatcherHandle) {
    if let Err(error) = dispatcher.wait_until_idle(HANG_LIMIT) {
        panic!("{error}");
    }
}

/// A thread that waits for something; its message says how that ended.
fn wait_beside<R: Send + 'static>(wait: impl FnOnce() -> R + Send + 'static) -> Receiver<R> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(wait()));
    receiver
}

/// Shows DT-53.
#[test]
fn a_fresh_dispatcher_is_idle() {
    on_every_pool(|world| {
        let one = dispatcher(&world.driver("fresh"));
        assert!(one.is_idle());
        assert!(one.wait_until_idle(Duration::ZERO).is_ok());
        assert!(world.runtime().wait_until_idle(Duration::ZERO).is_ok());
    });
}

/// Shows R110, DT-55.
#[test]
fn a_dispatcher_is_busy_while_something_is_queued_or_runs_and_idle_afterwards() {
    in_the_foreground(|world| {
        let one = dispatcher(&world.driver("one"));
        one.post_task(|_| ()).expect("it runs");
        assert!(!one.is_idle());
        world.settle();
        assert!(one.is_idle());
    });
    on_pools(|world| {
        let one = dispatcher(&world.driver("one"));
        let release = block(&one);
        assert!(!one.is_idle(), "it runs");
        one.post_task(|_| ()).expect("it runs");
        let handle = one.handle();
        let waiting = wait_beside(move || handle.wait_until_idle(HANG_LIMIT).map(|()| handle.counters().ran));
        drop(release);
        let ran = waiting.recv_timeout(HANG_LIMIT).expect("it becomes idle").expect("in time");
        assert_eq!(ran, 2, "the wait ended before the second task");
    });
}

/// What is taken back leaves nothing behind, not even a turn that has to pass.
///
/// Shows DT-56.
#[test]
fn a_dispatcher_whose_only_callback_is_taken_back_is_idle_at_once() {
    on_pools(|world| {
        let driver = world.driver("one");
        let one = dispatcher(&driver);
        let blocked: Vec<_> = (0..world.threads()).map(|_| dispatcher(&driver)).collect();
        let release: Vec<_> = blocked.iter().map(|blocked| block(blocked)).collect();
        let task = one.post_cancelable(|_| unreachable!("it is taken back")).expect("accepted");
        assert!(!one.is_idle());
        let handle = one.handle();
        let waiting = wait_beside(move || handle.wait_until_idle(HANG_LIMIT));
        assert!(task.cancel().is_ok());
        // No thread of the pool has had a turn since.
        assert!(one.is_idle());
        assert!(waiting.recv_timeout(HANG_LIMIT).expect("it is told").is_ok());
        drop(release);
    });
}

/// What waits for something does not count, whatever it waits for.
///
/// Shows R110, DT-58.
#[test]
fn timers_reads_and_futures_that_wait_do_not_keep_a_dispatcher_busy() {
    on_every_pool(|world| {
        let one = dispatcher(&world.driver("one"));
        let timer = one.post_after(Duration::from_secs(100), |_| ()).expect("accepted");
        let (near, _far) = Channel::pair();
        near.begin_read(&one, |_| ()).expect("registered");
        let future = one.spawn(std::future::pending::<()>()).expect("spawned");
        world.settle();
        assert!(one.wait_until_idle(HANG_LIMIT).is_ok());
        assert!(one.is_idle());
        assert_eq!(one.counters().pending, 3);
        assert!(timer.cancel().is_ok());
        drop(future);
    });
}

/// Each of many parallel callbacks is waited for.
///
/// Shows DT-59.
#[test]
fn a_wait_ends_only_when_all_parallel_callbacks_have_returned() {
    on_pools(|world| {
        let builder = DispatcherBuilder::new().unsynchronized();
        let one = world.driver("one").new_dispatcher(builder).expect("created");
        let ended = Arc::new(AtomicUsize::new(0));
        for _ in 0..22 {
            let ended = Arc::clone(&ended);
            one.post_task(move |_| {
                std::thread::yield_now();
                ended.fetch_add(1, Ordering::Relaxed);
            })
            .expect("it runs");
        }
        idle(&one);
        assert_eq!(ended.load(Ordering::Relaxed), 22);
    });
}

/// Work on a lane is the dispatcher's own doing, so it counts, queued and running.
///
/// Shows R110.
#[test]
fn offloaded_work_keeps_a_dispatcher_busy_until_its_result_has_been_told() {
    on_pools(|world| {
        let one = dispatcher(&world.driver("one"));
        let (release, released) = channel::<()>();
        let (tell, told) = channel();
        one.offload(
            Lane::Slow,
            move |_| released.recv(),
            move |_| {
                let _ = tell.send("told");
            },
        )
        .expect("accepted");
        assert!(!one.is_idle());
        let handle = one.handle();
        let waiting = wait_beside(move || handle.wait_until_idle(HANG_LIMIT).map(|()| told.try_recv()));
        drop(release);
        let result = waiting.recv_timeout(HANG_LIMIT).expect("it becomes idle").expect("in time");
        assert_eq!(result, Ok("told"));
    });
}

/// A wait that could only deadlock is refused, and nothing is aborted.
///
/// Shows R111.
#[test]
fn a_thread_that_would_wait_for_itself_is_refused() {
    fn refused(runtime: &Runtime, one: &DispatcherHandle) -> [Status; 4] {
        let status = |result: Result<(), WaitUntilError>| result.expect_err("refused").status();
        [
            status(one.wait_until_idle(HANG_LIMIT)),
            status(runtime.wait_until_idle(HANG_LIMIT)),
            status(one.owner().wait_until_destroyed(HANG_LIMIT)),
            status(runtime.wait_until_destroyed(HANG_LIMIT)),
        ]
    }
    on_every_pool(|world| {
        let (one, runtime) = (dispatcher(&world.driver("one")), world.runtime().clone());
        let handle = one.handle();
        let statuses = world.run_on(&one, move || refused(&runtime, &handle));
        assert_eq!(statuses, [Status::BadState; 4]);
    });
    on_pools(|world| {
        let (one, runtime) = (dispatcher(&world.driver("one")), world.runtime().clone());
        let (sender, receiver) = channel();
        let handle = one.handle();
        one.offload(
            Lane::Fast,
            move |_| refused(&runtime, &handle),
            move |result| {
                let _ = sender.send(result);
            },
        )
        .expect("accepted");
        let statuses = receiver.recv_timeout(HANG_LIMIT).expect("the work runs").expect("and returns");
        assert_eq!(statuses, [Status::BadState; 4], "on a worker of a lane");
    });
}

/// Where no thread could bring it about, the crank has to.
///
/// Shows R111.
#[test]
fn in_the_foreground_a_wait_for_what_has_not_come_about_is_refused() {
    in_the_foreground(|world| {
        let one = dispatcher(&world.driver("one"));
        one.post_task(|_| ()).expect("it runs");
        assert_eq!(one.wait_until_idle(HANG_LIMIT).expect_err("refused").status(), Status::BadState);
        assert_eq!(world.runtime().wait_until_idle(HANG_LIMIT).expect_err("refused").status(), Status::BadState);
        world.settle();
        assert!(one.wait_until_idle(HANG_LIMIT).is_ok());
        assert_eq!(one.owner().wait_until_destroyed(HANG_LIMIT).expect_err("refused").status(), Status::BadState);
    });
}

#[test]
fn a_wait_whose_time_is_up_names_who_is_busy() {
    on_pools(|world| {
        let one = dispatcher(&world.driver("the busy one"));
        let release = block(&one);
        for error in [one.wait_until_idle(Duration::ZERO), world.runtime().wait_until_idle(Duration::ZERO)] {
            let error = error.expect_err("it is busy");
            assert_eq!(error.status(), Status::TimedOut);
            assert!(error.to_string().contains("the busy one"), "{error}");
        }
        drop(release);
        idle(&one);
    });
}

/// Passes a count down from dispatcher to dispatcher, always to the one before, until it is 0.
fn pass(ring: &Arc<Vec<DispatcherHandle>>, at: usize, left: usize, hops: &Arc<AtomicUsize>) {
    let (next, hops) = (Arc::clone(ring), Arc::clone(hops));
    ring[at]
        .post_task(move |_| {
            hops.fetch_add(1, Ordering::Relaxed);
            if left > 0 {
                pass(&next, (at + next.len() - 1) % next.len(), left - 1, &hops);
            }
        })
        .expect("it runs");
}

/// The runtime is idle when all are at one moment, not when each has been at some moment.
///
/// Shows R112, W9.
#[test]
fn a_runtime_is_not_idle_while_work_goes_from_dispatcher_to_dispatcher() {
    const HOPS: usize = 300;
    on_pools(|world| {
        let ring: Vec<_> = (0..5).map(|nth| dispatcher(&world.driver(&format!("driver {nth}"))).release()).collect();
        let (ring, hops) = (Arc::new(ring), Arc::new(AtomicUsize::new(0)));
        for round in 1..=10 {
            pass(&ring, 0, HOPS - 1, &hops);
            if let Err(error) = world.runtime().wait_until_idle(HANG_LIMIT) {
                panic!("{error}");
            }
            assert_eq!(hops.load(Ordering::Relaxed), round * HOPS, "work was under way");
        }
    });
}

/// Several threads wait for the same, and each is told.
///
/// Shows W9.
#[test]
fn all_that_wait_are_told() {
    on_pools(|world| {
        let one = dispatcher(&world.driver("one"));
        let release = block(&one);
        let together = Arc::new(Barrier::new(4));
        let waiting: Vec<_> = (0..4)
            .map(|nth| {
                let (handle, runtime) = (one.handle(), world.runtime().clone());
                let together = Arc::clone(&together);
                wait_beside(move || {
                    together.wait();
                    if nth % 2 == 0 { handle.wait_until_idle(HANG_LIMIT) } else { runtime.wait_until_idle(HANG_LIMIT) }
                })
            })
            .collect();
        drop(release);
        for waiting in waiting {
            assert!(waiting.recv_timeout(HANG_LIMIT).expect("it is told").is_ok());
        }
    });
}

/// A dispatcher that shuts down has something to do until its observer has returned.
///
/// Shows R110.
#[test]
fn a_dispatcher_that_shuts_down_is_idle_when_its_observer_has_returned() {
    on_pools(|world| {
        let (release, released) = channel::<()>();
        let ended = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&ended);
        let builder = DispatcherBuilder::new().shutdown_observer(move || {
            let _ = released.recv();
            seen.store(1, Ordering::Relaxed);
        });
        let one = world.driver("one").new_dispatcher(builder).expect("created");
        let handle = one.handle();
        one.shutdown_async();
        assert!(!handle.is_idle());
        let (waits, seen) = (handle.clone(), Arc::clone(&ended));
        let waiting = wait_beside(move || waits.wait_until_idle(HANG_LIMIT).map(|()| seen.load(Ordering::Relaxed)));
        drop(release);
        assert_eq!(waiting.recv_timeout(HANG_LIMIT).expect("it is told").expect("in time"), 1);
        assert!(handle.is_idle());
    });
}

/// Shows R113.
#[test]
fn queued_tasks_are_those_that_wait_for_their_turn() {
    in_the_foreground(|world| {
        let one = dispatcher(&world.driver("one"));
        assert!(!one.has_queued_tasks());
        let handle = one.handle();
        let inside = Arc::new(AtomicUsize::new(9));
        let seen = Arc::clone(&inside);
        one.post_task(move |_| seen.store(usize::from(handle.has_queued_tasks()), Ordering::Relaxed)).expect("it runs");
        assert!(one.has_queued_tasks());
        world.settle();
        assert_eq!(inside.load(Ordering::Relaxed), 0, "the one that runs does not count");

        let delayed = one.post_after(Duration::from_secs(1), |_| ()).expect("accepted");
        assert!(!one.has_queued_tasks(), "its time has not come");
        assert!(delayed.cancel().is_ok());

        let task = one.post_cancelable(|_| ()).expect("accepted");
        assert!(one.has_queued_tasks());
        assert!(task.cancel().is_ok());
        assert!(!one.has_queued_tasks());

        let (near, far) = Channel::pair();
        near.begin_read(&one, |_| ()).expect("registered");
        drop(far);
        assert!(!one.is_idle());
        assert!(!one.has_queued_tasks(), "a read is no task");
    });
}

/// What waits for its `Canceled` is queued.
///
/// Shows R113.
#[test]
fn during_a_shutdown_tasks_are_queued_until_they_have_been_told() {
    in_the_foreground(|world| {
        let one = dispatcher(&world.driver("one"));
        let _delayed = one.post_after(Duration::from_secs(1), |_| ()).expect("accepted");
        assert!(!one.has_queued_tasks());
        one.shutdown_async();
        assert!(one.has_queued_tasks());
        world.settle();
        assert!(!one.has_queued_tasks());
    });
}

/// Shows R111, R113.
#[test]
fn what_waits_for_a_suspended_driver_is_queued_and_keeps_nobody_busy() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let one = dispatcher(&driver);
        driver.suspend(|_| ()).expect("it runs");
        one.post_task(|_| ()).expect("accepted");
        assert!(one.wait_until_idle(HANG_LIMIT).is_ok());
        world.settle();
        assert!(one.is_idle() && one.has_queued_tasks());
        assert_eq!((one.counters().ran, one.counters().pending), (0, 1));
        assert!(driver.resume());
        world.wait_until("the task", || one.counters().ran == 1);
        assert!(!one.has_queued_tasks());
    });
}

/// Shows W9: the last thing that is ready is put aside while somebody waits.
#[test]
fn a_wait_for_idle_ends_when_the_driver_is_suspended() {
    on_pools(|world| {
        let (driver, other) = (world.driver("driver"), world.driver("other"));
        let one = dispatcher(&driver);
        let blocked: Vec<_> = (0..world.threads()).map(|_| dispatcher(&other)).collect();
        let release: Vec<_> = blocked.iter().map(|blocked| block(blocked)).collect();
        one.post_task(|_| ()).expect("accepted");
        let handle = one.handle();
        let waiting = wait_beside(move || handle.wait_until_idle(HANG_LIMIT));
        world.wait_until("the wait to begin", || one.dump().waiting_for_idle == 1);
        driver.suspend(|_| ()).expect("it runs");
        assert!(waiting.recv_timeout(HANG_LIMIT).expect("it is told").is_ok());
        drop(release);
    });
}
