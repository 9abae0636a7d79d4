//! The shutdown of drivers and of whole runtimes: who is told when, what may come after, and what is said of those that do
//! not come to an end.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use common::Log;
use fuchsine_dispatcher::{
    Canceled, Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Driver, DriverId, Lane, RuntimeBuilder,
    ShutdownError, Status, current, current_driver,
};
use fuchsine_tests::pools::{HANG_LIMIT, in_the_foreground, on_every_pool, on_pools};

fn dispatcher(driver: &Driver) -> Dispatcher {
    driver.new_dispatcher(DispatcherBuilder::new()).expect("created")
}

/// A dispatcher whose observer notes its end.
fn observed(driver: &Driver, name: &str, log: &Log) -> DispatcherHandle {
    let (entry, log) = (format!("{name} ended"), log.clone());
    let builder = DispatcherBuilder::new().name(name).shutdown_observer(move || log.add(entry));
    driver.new_dispatcher(builder).expect("created").release()
}

/// A dispatcher whose observer says that it has begun, and returns when the sender is dropped.
fn with_held_observer(driver: &Driver, begun: Sender<()>, log: &Log) -> (DispatcherHandle, Sender<()>) {
    let (release, released) = channel::<()>();
    let log = log.clone();
    let builder = DispatcherBuilder::new().shutdown_observer(move || {
        let _ = begun.send(());
        let _ = released.recv();
        log.add("held one ended");
    });
    (driver.new_dispatcher(builder).expect("created").release(), release)
}

/// Shows DT-67.
#[test]
fn the_shutdown_of_a_driver_touches_no_other() {
    on_every_pool(|world| {
        let log = Log::new();
        let (first, second) = (world.driver("first"), world.driver("second"));
        let stays = observed(&first, "stays", &log);
        let _goes: Vec<_> = ["a", "b"].map(|name| observed(&second, name, &log)).into();
        let entry = log.clone();
        second.shutdown(move || entry.add("second ended")).expect("it begins");
        world.wait_until("the second driver to end", || second.is_shut_down());
        let entries = log.take();
        assert_eq!(entries.len(), 3);
        assert_eq!(entries[2], "second ended");
        assert!(first.new_dispatcher(DispatcherBuilder::new()).is_ok());
        assert_eq!(world.run_on(&stays, || 7), 7);
        let entry = log.clone();
        first.shutdown(move || entry.add("first ended")).expect("it begins");
        world.wait_until("the first driver to end", || first.is_shut_down());
        assert_eq!(log.take(), ["stays ended", "first ended"]);
        assert!(world.runtime().wait_until_destroyed(HANG_LIMIT).is_ok());
    });
}

/// Ours closes all at once, newest first, before it returns; what is queued is canceled, not run.
///
/// Shows R155, U-11.
#[test]
fn the_shutdown_of_a_driver_closes_its_dispatchers_newest_first_before_it_returns() {
    in_the_foreground(|world| {
        let (driver, log) = (world.driver("driver"), Log::new());
        let all = ["oldest", "middle", "newest"].map(|name| observed(&driver, name, &log));
        for one in &all {
            let (name, log) = (one.name().to_owned(), log.clone());
            one.post_task(move |outcome| log.add(format!("{name} {outcome:?}"))).expect("it runs");
            // Their turns come in the order of their posts; closing them changes that for none.
            assert_eq!(one.post_task(|_| ()).map_err(|error| error.status()), Ok(()));
        }
        let entry = log.clone();
        driver.shutdown(move || entry.add("driver ended")).expect("it begins");
        for one in &all {
            assert_eq!(one.post_task(|_| ()).expect_err("closed").status(), Status::BadState);
        }
        assert!(log.is_empty(), "nobody is called from inside the call");
        world.settle();
        let entries = log.take();
        assert_eq!(entries.last().map(String::as_str), Some("driver ended"));
        for name in ["oldest", "middle", "newest"] {
            assert!(entries.contains(&format!("{name} {:?}", Err::<(), _>(Canceled))), "{entries:?}");
        }
        // Idle ones, which are put into the run queue by their closing: the order in which they are closed shows.
        let idle = world.driver("idle");
        let _all = ["oldest", "middle", "newest"].map(|name| observed(&idle, name, &log));
        idle.shutdown(|| ()).expect("it begins");
        world.settle();
        assert_eq!(log.take(), ["newest ended", "middle ended", "oldest ended"]);
    });
}

/// There is no driver that is unknown; a shutdown begins once, and the observer comes back.
///
/// Shows R156.
#[test]
fn a_second_shutdown_of_a_driver_is_refused_and_gives_its_observer_back() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let _one = dispatcher(&driver).release();
        driver.shutdown(|| ()).expect("it begins");
        let called = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&called);
        let refused = driver
            .shutdown(move || {
                let _ = counts.fetch_add(1, Ordering::Relaxed);
            })
            .expect_err("refused");
        assert_eq!(refused.status(), Status::BadState);
        world.wait_until("the driver to end", || driver.is_shut_down());
        assert_eq!(called.load(Ordering::Relaxed), 0);
        refused.into_observer()();
        assert_eq!(called.load(Ordering::Relaxed), 1);
        assert_eq!(driver.shutdown(|| ()).expect_err("it is over").status(), Status::BadState);
    });
}

/// Strictly after all of them, on any number of threads.
///
/// Shows R157, W8.
#[test]
fn the_observer_of_a_driver_runs_after_those_of_all_its_dispatchers_have_returned() {
    on_pools(|world| {
        for _ in 0..20 {
            let driver = world.driver("driver");
            let returned = Arc::new(AtomicUsize::new(0));
            for _ in 0..8 {
                let returned = Arc::clone(&returned);
                let builder = DispatcherBuilder::new().shutdown_observer(move || {
                    std::thread::yield_now();
                    returned.fetch_add(1, Ordering::Relaxed);
                });
                let _ = driver.new_dispatcher(builder).expect("created").release();
            }
            let (sender, receiver) = channel();
            let seen = Arc::clone(&returned);
            driver
                .shutdown(move || {
                    let _ = sender.send(seen.load(Ordering::Relaxed));
                })
                .expect("it begins");
            assert_eq!(receiver.recv_timeout(HANG_LIMIT), Ok(8));
            assert!(driver.wait_until_destroyed(HANG_LIMIT).is_ok());
            assert_eq!(receiver.recv(), Err(std::sync::mpsc::RecvError), "called once");
        }
    });
}

/// Ours has the driver on the stack and no dispatcher, as none is left; each dispatcher's own observer is
/// where its things are dropped.
///
/// Shows R158.
#[test]
fn the_observer_of_a_driver_runs_inside_the_driver_on_the_pool() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let _one = dispatcher(&driver).release();
        let (sender, receiver) = channel();
        let runtime = world.runtime().clone();
        driver
            .shutdown(move || {
                let is_own = runtime.shutdown(Duration::ZERO).is_err_and(|error| error.status() == Status::BadState);
                let driver = current_driver().map(|driver| driver.id());
                let _ = sender.send((driver, current().is_some(), is_own));
            })
            .expect("it begins");
        world.wait_until("the driver to end", || driver.is_shut_down());
        assert_eq!(receiver.recv_timeout(HANG_LIMIT), Ok((Some(driver.id()), false, true)));
    });
}

/// Shows R159, DT-70.
#[test]
fn the_observer_of_a_driver_without_dispatchers_runs_on_the_pool() {
    fn ends(world: &fuchsine_tests::pools::World, driver: &Driver) {
        let (sender, receiver) = channel();
        let caller = std::thread::current().id();
        let is_foreground = world.is_foreground();
        driver
            .shutdown(move || {
                let elsewhere = std::thread::current().id() != caller;
                let _ = sender.send((current_driver().map(|driver| driver.id()), elsewhere || is_foreground));
            })
            .expect("it begins");
        world.wait_until("the driver to end", || driver.is_shut_down());
        assert_eq!(receiver.recv_timeout(HANG_LIMIT), Ok((Some(driver.id()), true)));
    }
    on_every_pool(|world| {
        ends(world, &world.driver("never had one"));
        let driver = world.driver("has had two");
        let both = [dispatcher(&driver), dispatcher(&driver)].map(Dispatcher::release);
        both.iter().for_each(DispatcherHandle::shutdown_async);
        world.wait_until("both to be gone", || driver.dispatchers().is_empty());
        assert!(!driver.is_shut_down());
        ends(world, &driver);
    });
}

/// Also when no other dispatcher is left, and however many threads are free.
///
/// Shows R160, W8, DT-71, U-20.
#[test]
fn the_observer_of_a_driver_waits_for_one_of_a_dispatcher_that_is_running() {
    on_pools(|world| {
        let (driver, log) = (world.driver("driver"), Log::new());
        let (begun, begins) = channel();
        let (one, release) = with_held_observer(&driver, begun, &log);
        one.shutdown_async();
        begins.recv_timeout(HANG_LIMIT).expect("the observer begins");
        let (sender, ended) = channel();
        let entry = log.clone();
        driver
            .shutdown(move || {
                entry.add("driver ended");
                let _ = sender.send(());
            })
            .expect("it begins");
        if world.threads() > 1 {
            // Whatever the driver's shutdown has put into the run queue has had its turn when a driver that came later has
            // ended: the queue is a FIFO, and another thread is free.
            let later = world.driver("later");
            later.shutdown(|| ()).expect("it begins");
            assert!(later.wait_until_destroyed(HANG_LIMIT).is_ok());
        }
        assert_eq!(ended.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
        assert!(log.is_empty());
        drop(release);
        ended.recv_timeout(HANG_LIMIT).expect("the driver ends");
        assert_eq!(log.take(), ["held one ended", "driver ended"]);
    });
}

/// A driver that has shut down stays so; there is no moment in which it creates.
///
/// Shows R161, R162.
#[test]
fn a_driver_that_began_to_shut_down_creates_no_dispatcher_ever_again() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let create = |driver: &Driver| driver.new_dispatcher(DispatcherBuilder::new()).map(drop).map_err(Status::from);
        let (sender, receiver) = channel();
        let (creating, by_observer) = (driver.clone(), sender.clone());
        let builder = DispatcherBuilder::new().shutdown_observer(move || {
            let _ = by_observer.send(create(&creating));
        });
        let _ = driver.new_dispatcher(builder).expect("created").release();
        let creating = driver.clone();
        driver
            .shutdown(move || {
                let _ = sender.send(create(&creating));
            })
            .expect("it begins");
        assert_eq!(create(&driver), Err(Status::BadState));
        world.wait_until("the driver to end", || driver.is_shut_down());
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [Err(Status::BadState); 2]);
        assert_eq!(create(&driver), Err(Status::BadState));
    });
}

/// Dispatchers whose handles are dropped in their observers, which wait for each other.
///
/// Shows DT-68, DT-85, U-26.
#[test]
fn dispatchers_may_end_side_by_side_and_drop_their_handles_in_their_observers() {
    on_pools(|world| {
        if world.threads() == 1 {
            return;
        }
        let driver = world.driver("driver");
        let together = Arc::new(Barrier::new(2));
        for nth in 0..2 {
            let slot = Arc::new(std::sync::Mutex::new(None::<Dispatcher>));
            let (own, together) = (Arc::clone(&slot), Arc::clone(&together));
            let builder = DispatcherBuilder::new().shutdown_observer(move || {
                together.wait();
                drop(own.lock().expect("nobody panics").take());
            });
            let builder = if nth == 0 { builder.allow_sync_calls() } else { builder };
            *slot.lock().expect("nobody panics") = Some(driver.new_dispatcher(builder).expect("created"));
        }
        let ended = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&ended);
        driver
            .shutdown(move || {
                let _ = counts.fetch_add(1, Ordering::Relaxed);
            })
            .expect("it begins");
        assert!(driver.wait_until_destroyed(HANG_LIMIT).is_ok());
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    });
}

/// Shows R164, DT-73.
#[test]
fn waiting_until_destroyed_ends_at_once_without_dispatchers_else_after_the_last_observer() {
    on_pools(|world| {
        let (driver, log) = (world.driver("driver"), Log::new());
        assert!(driver.wait_until_destroyed(Duration::ZERO).is_ok());
        assert!(world.runtime().wait_until_destroyed(Duration::ZERO).is_ok());
        let (begun, begins) = channel();
        let (held, release) = with_held_observer(&driver, begun, &log);
        let rest: Vec<_> = (0..3).map(|nth| observed(&driver, &format!("dispatcher {nth}"), &log)).collect();
        let error = driver.wait_until_destroyed(Duration::ZERO).expect_err("they live");
        assert_eq!(error.status(), Status::TimedOut);
        for one in rest.iter().chain([&held]) {
            one.shutdown_async();
        }
        begins.recv_timeout(HANG_LIMIT).expect("the observer begins");
        assert_eq!(driver.wait_until_destroyed(Duration::ZERO).expect_err("one lives").status(), Status::TimedOut);
        let (sender, receiver) = channel();
        let (waiting, seen) = (driver.clone(), log.clone());
        std::thread::spawn(move || {
            let result = waiting.wait_until_destroyed(HANG_LIMIT).map_err(Status::from);
            sender.send((result, seen.take().len()))
        });
        drop(release);
        assert_eq!(receiver.recv_timeout(HANG_LIMIT), Ok((Ok(()), 4)));
        assert!(!driver.is_shut_down(), "it was its dispatchers that went");
    });
}

/// Shows R164, DT-74.
#[test]
fn waiting_until_destroyed_includes_the_observer_of_the_driver() {
    on_pools(|world| {
        let driver = world.driver("driver");
        let _one = dispatcher(&driver).release();
        let (release, released) = channel::<()>();
        let (begun, begins) = channel();
        driver
            .shutdown(move || {
                let _ = begun.send(());
                let _ = released.recv();
            })
            .expect("it begins");
        begins.recv_timeout(HANG_LIMIT).expect("the observer begins");
        assert!(driver.dispatchers().is_empty());
        assert_eq!(driver.wait_until_destroyed(Duration::ZERO).expect_err("it runs").status(), Status::TimedOut);
        assert_eq!(
            world.runtime().wait_until_destroyed(Duration::ZERO).expect_err("it runs").status(),
            Status::TimedOut
        );
        drop(release);
        assert!(driver.wait_until_destroyed(HANG_LIMIT).is_ok());
        assert!(driver.is_shut_down());
    });
}

/// What there is goes, whatever state it is in; the runtime and its threads stay for what comes after.
///
/// Shows R6, R163.
#[test]
fn all_drivers_can_be_shut_down_and_the_runtime_goes_on() {
    on_pools(|world| {
        let (runtime, log) = (world.runtime(), Log::new());
        let drivers: Vec<_> = (0..3).map(|nth| world.driver(&format!("driver {nth}"))).collect();
        for driver in &drivers {
            let _ = observed(driver, driver.name(), &log);
        }
        drivers[2].shutdown(|| ()).expect("it begins");
        let threads = runtime.thread_count();
        if let Err(error) = runtime.shutdown_drivers(HANG_LIMIT) {
            panic!("{error}");
        }
        assert_eq!(log.take().len(), 3);
        assert!(drivers.iter().all(Driver::is_shut_down));
        assert!(runtime.shutdown_drivers(HANG_LIMIT).is_ok(), "there is nothing left to do");
        assert_eq!(runtime.thread_count(), threads);
        let next = dispatcher(&world.driver("next"));
        assert_eq!(world.run_on(&next, || 7), 7);
    });
}

/// An observer that runs is waited for, where upstream ends the process.
///
/// Shows R163, DX-1.
#[test]
fn shutting_all_drivers_down_waits_for_an_observer_that_runs() {
    on_pools(|world| {
        let (driver, log) = (world.driver("driver"), Log::new());
        let (begun, begins) = channel();
        let (one, release) = with_held_observer(&driver, begun, &log);
        one.shutdown_async();
        begins.recv_timeout(HANG_LIMIT).expect("the observer begins");
        let error = world.runtime().shutdown_drivers(Duration::ZERO).expect_err("it runs");
        assert!(matches!(error, ShutdownError::TimedOut(_)), "{error:?}");
        assert!(error.to_string().contains("shutdown observer"), "{error}");
        let (sender, receiver) = channel();
        let runtime = world.runtime().clone();
        std::thread::spawn(move || sender.send(runtime.shutdown_drivers(HANG_LIMIT).map_err(Status::from)));
        assert_eq!(receiver.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
        drop(release);
        assert_eq!(receiver.recv_timeout(HANG_LIMIT), Ok(Ok(())));
        assert_eq!(log.take(), ["held one ended"]);
    });
}

/// Where upstream would wait for its own thread for ever.
///
/// Shows R6, R163.
#[test]
fn shutting_all_drivers_down_is_refused_on_a_thread_of_the_runtime() {
    on_every_pool(|world| {
        let (one, runtime) = (dispatcher(&world.driver("one")), world.runtime().clone());
        let status = world.run_on(&one, move || runtime.shutdown_drivers(HANG_LIMIT).map_err(Status::from));
        assert_eq!(status, Err(Status::BadState));
        assert_eq!(world.run_on(&one, || 7), 7, "nothing was begun");
    });
}

/// Shows DT-61.
#[test]
fn a_read_can_be_taken_back_after_the_shutdown_has_begun() {
    on_every_pool(|world| {
        let (driver, log) = (world.driver("driver"), Log::new());
        let one = observed(&driver, "one", &log);
        let (near, _far) = Channel::pair();
        let entry = log.clone();
        near.begin_read(&one, move |_| entry.add("read")).expect("registered");
        let handle = one.clone();
        let taken_back = world.run_on(&one, move || {
            handle.shutdown_async();
            near.cancel_read().is_ok()
        });
        assert!(taken_back);
        world.wait_until("the dispatcher to be gone", || driver.dispatchers().is_empty());
        assert_eq!(log.take(), ["one ended"]);
    });
}

/// The last handle of a runtime is dropped while a callback runs and a shutdown is under way.
///
/// Shows DX-2.
#[test]
fn an_observer_is_called_although_the_last_handle_of_the_runtime_is_gone() {
    for threads in [1, 2, 8] {
        let runtime = RuntimeBuilder::new().threads(threads).build().expect("the system has threads");
        let (sender, observed) = channel();
        let builder = DispatcherBuilder::new().shutdown_observer(move || {
            let _ = sender.send("observed");
        });
        let one = runtime.new_driver("driver").new_dispatcher(builder).expect("created").release();
        let (release, released) = channel::<()>();
        let (begun, begins) = channel();
        one.post_task(move |_| {
            let _ = begun.send(());
            let _ = released.recv();
        })
        .expect("it runs");
        begins.recv_timeout(HANG_LIMIT).expect("the task begins");
        one.shutdown_async();
        drop((runtime, one));
        assert_eq!(observed.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        drop(release);
        assert_eq!(observed.recv_timeout(HANG_LIMIT), Ok("observed"));
    }
}

fn os_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().try_into().expect("numbers of threads are positive")
}

/// Shows R16.
#[test]
fn the_driver_that_a_thread_is_inside_of_is_found_by_the_threads_number() {
    on_every_pool(|world| {
        let (outer, inner) = (world.driver("outer"), world.driver("inner"));
        let one = dispatcher(&outer);
        let runtime = world.runtime().clone();
        let asks = runtime.clone();
        let (entered, expected) = (inner.clone(), (outer.id(), inner.id()));
        let seen: (usize, usize) = world.run_on(&one, move || {
            let thread = std::thread::current().id();
            let found = |expected: DriverId| {
                let (by_id, by_os) = (asks.driver_on_thread(thread), asks.driver_on_os_thread(os_id()));
                [by_id, by_os].iter().flatten().filter(|driver| driver.id() == expected).count()
            };
            (found(expected.0), entered.enter(|| found(expected.1)))
        });
        assert_eq!(seen, (2, 2), "the innermost one, by either number");
        let here = std::thread::current().id();
        assert!(runtime.driver_on_thread(here).is_none() && runtime.driver_on_os_thread(os_id()).is_none());
        inner.enter(|| {
            assert_eq!(runtime.driver_on_thread(here), Some(inner.clone()));
            let other = fuchsine_dispatcher::testing::ForegroundRuntime::new();
            assert_eq!(other.driver_on_thread(here), None, "it is no driver of that runtime");
            let elsewhere = runtime.clone();
            let from_elsewhere = std::thread::spawn(move || {
                let own = std::thread::current().id();
                (elsewhere.driver_on_thread(here).map(|driver| driver.id()), elsewhere.driver_on_thread(own))
            });
            assert_eq!(from_elsewhere.join().expect("it ends"), (Some(inner.id()), None));
        });
        assert!(runtime.driver_on_thread(here).is_none());
    });
}

/// Work on a lane belongs to no driver.
///
/// Shows R16.
#[test]
fn a_worker_of_a_lane_is_inside_of_no_driver() {
    on_every_pool(|world| {
        let (one, runtime) = (dispatcher(&world.driver("one")), world.runtime().clone());
        let (sender, receiver) = channel();
        let work = move |_: &_| runtime.driver_on_thread(std::thread::current().id()).is_none();
        one.offload(Lane::Fast, work, move |result| {
            let _ = sender.send(result);
        })
        .expect("accepted");
        world.settle();
        assert!(receiver.recv_timeout(HANG_LIMIT).expect("the work runs").expect("and returns"));
    });
}

#[test]
fn a_driver_that_was_dropped_unused_keeps_no_runtime_from_ending() {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("the system has threads");
    let (used, _kept) = (runtime.new_driver("used"), runtime.new_driver("kept"));
    drop(runtime.new_driver("dropped"));
    let _dispatcher = dispatcher(&used).release();
    used.shutdown(|| ()).expect("it begins");
    drop(used);
    drop(runtime.new_driver("dropped later"));
    assert_eq!(runtime.shutdown(HANG_LIMIT).ok(), Some(()), "the runtime ends");
    drop(runtime.new_driver("dropped too late"));
    assert!(runtime.counters().add_up());
}
