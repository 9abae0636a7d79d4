//! Goal: making a dispatcher keeps the rules of the driver runtime: who owns it, what is refused in which order, and that a
//! refusal leaves nothing behind.
//! Method: every refusal is provoked alone and together with all later ones, and the numbers of the role are compared
//! before and after.

mod conformance_support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

use conformance_support::{Log, task};
use fuchsine_dispatcher::testing::{ForegroundRuntime, refuse_threads_after};
use fuchsine_dispatcher::{
    Dispatcher, DispatcherBuilder, DispatcherState, Driver, Role, RuntimeBuilder, Status, current_driver,
};
use fuchsine_tests::pools::{HANG_LIMIT, World, on_every_pool, on_pools, on_pools_with};

fn builder() -> DispatcherBuilder {
    DispatcherBuilder::new()
}

#[track_caller]
fn refused(driver: &Driver, builder: DispatcherBuilder) -> Status {
    driver.new_dispatcher(builder).expect_err("it is refused").status()
}

/// Threads, threads reserved, threads ever added.
fn numbers(role: &Role) -> (usize, usize, u64) {
    (role.thread_count(), role.sync_call_dispatchers(), role.added())
}

/// Shows R1.
#[test]
fn runtimes_of_one_process_share_nothing() {
    let make = || RuntimeBuilder::new().threads(1).thread_limit(2).build().expect("the system has threads");
    let (one, other) = (make(), make());
    let blocking = |driver: &Driver| driver.new_dispatcher(builder().scheduler_role("role").allow_sync_calls());
    let (driver, other_driver) = (one.new_driver("owner"), other.new_driver("owner"));
    let first = blocking(&driver).expect("there is room");
    assert!(blocking(&driver).is_err(), "there was room for one");
    assert_eq!(other.role("role").thread_count(), 0);
    let second = blocking(&other_driver).expect("and there is here");
    assert_ne!(one.role("role"), other.role("role"));
    one.shutdown(HANG_LIMIT).expect("it shuts down");
    assert_eq!(first.state(), DispatcherState::Destroyed);
    assert_eq!(second.state(), DispatcherState::Running, "the other goes on");
    other.shutdown(HANG_LIMIT).expect("it shuts down");
}

/// Shows R2.
#[test]
fn dispatchers_own_no_thread() {
    on_every_pool(|world| {
        let driver = world.driver("owner");
        let many: Vec<_> = (0..1_000).map(|_| driver.new_dispatcher(builder()).expect("made")).collect();
        assert_eq!(world.runtime().thread_count(), world.threads());
        let ran = Arc::new(AtomicUsize::new(0));
        for dispatcher in &many {
            let ran = Arc::clone(&ran);
            task(dispatcher, move || {
                ran.fetch_add(1, Ordering::Relaxed);
            });
        }
        world.wait_until("all to run", || ran.load(Ordering::Relaxed) == many.len());
        assert_eq!(world.runtime().thread_count(), world.threads());
    });
}

/// Shows R3, R4.
#[test]
fn a_driver_is_there_before_its_first_dispatcher_and_after_its_last() {
    on_every_pool(|world| {
        let names =
            || -> Vec<String> { world.runtime().dump().drivers.into_iter().map(|driver| driver.name).collect() };
        let driver = world.driver("driver");
        assert_eq!(names(), ["driver"]);
        let dispatcher = driver.new_dispatcher(builder()).expect("made");
        drop(dispatcher);
        world.wait_until("its dispatcher to be gone", || driver.dispatchers().is_empty());
        assert_eq!(names(), ["driver"], "somebody has a handle");
        let again = driver.new_dispatcher(builder()).expect("it may have others").release();
        drop(driver);
        assert_eq!(names(), ["driver"], "it has a dispatcher");
        let owner = again.owner();
        again.shutdown_async();
        drop(again);
        world.wait_until("its dispatcher to be gone", || owner.dispatchers().is_empty());
        drop(owner);
        world.wait_until("the driver to be gone", || names().is_empty());
    });
}

/// Shows R17, DT-79.
#[test]
fn who_makes_a_dispatcher_is_the_driver_that_the_thread_is_inside_of() {
    on_every_pool(|world| {
        let error = builder().build().expect_err("this thread is inside of no driver");
        assert_eq!(error.status(), Status::InvalidArgs);
        assert!(error.to_string().contains("inside no driver"), "{error}");
        let driver = world.driver("owner");
        let entered = driver.enter(|| builder().build().expect("a driver is entered"));
        assert_eq!(entered.owner(), driver);
        let made: Arc<Mutex<Option<Dispatcher>>> = Arc::default();
        let making = Arc::clone(&made);
        task(&entered, move || *making.lock().unwrap() = builder().name("made by a callback").build().ok());
        world.settle();
        let made = made.lock().unwrap().take().expect("a callback is inside of its driver");
        assert_eq!(made.owner(), driver);
        assert!(builder().build().is_err(), "and outside again");
    });
}

/// Shows R18.
#[test]
fn a_host_names_the_owner_on_any_thread() {
    on_every_pool(|world| {
        let (driver, other) = (world.driver("owner"), world.driver("other"));
        let by_thread = {
            let driver = driver.clone();
            thread::spawn(move || driver.new_dispatcher(builder()).expect("on any thread")).join().expect("it ends")
        };
        assert_eq!(by_thread.owner(), driver);
        // The one who is named owns it, whoever the thread is inside of.
        let inside = other.enter(|| {
            let made = driver.new_dispatcher(builder()).expect("inside of another driver");
            assert_eq!(current_driver().as_ref(), Some(&other), "the owner is not entered for longer than the call");
            made
        });
        assert_eq!(inside.owner(), driver);
        assert_eq!(driver.dispatchers().len(), 2);
        assert!(other.dispatchers().is_empty());
    });
}

/// Shows R19.
#[test]
fn a_shutdown_observer_is_a_choice() {
    on_every_pool(|world| {
        let log = Log::default();
        let driver = world.driver("owner");
        let noted = log.clone();
        let with = driver.new_dispatcher(builder().shutdown_observer(move || noted.add("observed"))).expect("made");
        let without = driver.new_dispatcher(builder()).expect("made without an observer");
        let handles = [with.handle(), without.handle()];
        drop((with, without));
        world.wait_until("both to be gone", || handles.iter().all(|one| one.state() == DispatcherState::Destroyed));
        assert_eq!(log.take(), ["observed"]);
    });
}

/// Shows R20.
#[test]
fn the_first_of_several_reasons_to_refuse_is_the_one_that_is_told() {
    let runtime = RuntimeBuilder::new().threads(1).enforce_allowed_roles().build().expect("the system has threads");
    let role = runtime.role("role");
    role.set_thread_limit(1).expect("as many as it starts with");
    role.set_no_sync_calls(true).expect("nobody uses it");
    let driver = runtime.new_driver("owner");
    driver.shutdown(|| ()).expect("the first");
    // Everything is wrong at first; each step takes away the reason that was told.
    let all = || builder().scheduler_role("role").unsynchronized().allow_sync_calls();
    assert_eq!(all().build().expect_err("refused").status(), Status::InvalidArgs);
    assert_eq!(refused(&driver, all()), Status::AccessDenied);
    driver.allow_scheduler_role("role");
    let error = driver.new_dispatcher(all()).expect_err("refused");
    assert_eq!(error.status(), Status::NotSupported);
    assert!(error.to_string().contains("choose one of the two"), "{error}");
    let blocking = || builder().scheduler_role("role").allow_sync_calls();
    let error = driver.new_dispatcher(blocking()).expect_err("refused");
    assert_eq!(error.status(), Status::NotSupported);
    assert!(error.to_string().contains("must not allow sync calls"), "{error}");
    role.set_no_sync_calls(false).expect("nobody uses it");
    assert_eq!(refused(&driver, blocking()), Status::BadState);
    let open = runtime.new_driver("open");
    open.allow_scheduler_role("role");
    assert_eq!(refused(&open, blocking()), Status::NoResources);
    role.set_thread_limit(2).expect("more is fine");
    let made = open.new_dispatcher(blocking()).expect("nothing is left to refuse");
    assert!(made.allows_sync_calls());
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
}

/// Shows R21.
#[test]
fn what_is_made_belongs_to_the_caller_until_it_is_released_or_dropped() {
    on_every_pool(|world| {
        let driver = world.driver("owner");
        let (owned, released) = (driver.new_dispatcher(builder()), driver.new_dispatcher(builder()));
        let owned = owned.expect("made");
        let gone = owned.handle();
        let released = released.expect("made").release();
        drop(owned);
        // It leaves its driver right after it has told its state.
        world.wait_until("the owned one to be gone", || {
            gone.state() == DispatcherState::Destroyed && driver.dispatchers().len() == 1
        });
        assert_eq!(released.state(), DispatcherState::Running, "the driver has it");
        assert_eq!(driver.dispatchers(), [released]);
    });
}

/// Shows R22.
#[test]
fn a_driver_that_shuts_down_makes_nothing_ever_again() {
    on_every_pool(|world| {
        let log = Log::default();
        let driver = world.driver("owner");
        let (again, noted) = (driver.clone(), log.clone());
        let in_observer = move || noted.add(format!("observer of a dispatcher: {}", refused(&again, builder())));
        let _first = driver.new_dispatcher(builder().shutdown_observer(in_observer)).expect("made");
        let (again, noted) = (driver.clone(), log.clone());
        driver
            .shutdown(move || noted.add(format!("observer of the driver: {}", refused(&again, builder()))))
            .expect("the first");
        assert_eq!(refused(&driver, builder()), Status::BadState);
        world.wait_until("the driver to be over", || driver.is_shut_down());
        let bad_state = Status::BadState;
        assert_eq!(
            log.take(),
            [format!("observer of a dispatcher: {bad_state}"), format!("observer of the driver: {bad_state}")]
        );
        assert_eq!(refused(&driver, builder()), Status::BadState, "nor afterwards");
    });
}

/// Shows R23, DT-92.
#[test]
fn the_first_of_a_role_may_race_with_the_end_of_its_last() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 100;
    on_pools(|world| {
        let gone = Arc::new(AtomicUsize::new(0));
        let makers: Vec<_> = (0..THREADS)
            .map(|_| {
                let (driver, gone) = (world.driver("maker"), Arc::clone(&gone));
                thread::spawn(move || {
                    for _ in 0..ROUNDS {
                        let gone = Arc::clone(&gone);
                        let observed = move || {
                            gone.fetch_add(1, Ordering::Relaxed);
                        };
                        let one = builder().scheduler_role("raced").shutdown_observer(observed);
                        drop(driver.new_dispatcher(one).expect("it is made"));
                    }
                })
            })
            .collect();
        makers.into_iter().for_each(|maker| maker.join().expect("it ends"));
        world.wait_until("all to be gone", || gone.load(Ordering::Relaxed) == THREADS * ROUNDS);
        let role = world.runtime().role("raced");
        world.wait_until("the pool of the role to be gone", || role.thread_count() == 0);
    });
}

/// Shows R24, DT-89.
#[test]
fn a_dispatcher_says_what_it_was_made_with() {
    on_every_pool(|world| {
        let driver = world.driver("owner");
        for (builder, synchronized, sync_calls, role) in [
            (builder(), true, false, ""),
            (builder().unsynchronized(), false, false, ""),
            (builder().allow_sync_calls(), true, true, ""),
            (builder().unsynchronized().scheduler_role("role"), false, false, "role"),
            (builder().allow_sync_calls().scheduler_role("role"), true, true, "role"),
        ] {
            let moved = Box::new(driver.new_dispatcher(builder.name("name")).expect("made"));
            assert_eq!(moved.name(), "name");
            assert_eq!(moved.is_synchronized(), synchronized);
            assert_eq!(moved.allows_sync_calls(), sync_calls);
            assert_eq!(moved.scheduler_role(), role);
            let handle = moved.handle();
            moved.shutdown_async();
            world.wait_until("it to be gone", || handle.state() == DispatcherState::Destroyed);
        }
    });
}

/// Shows R25, R28.
#[test]
fn callbacks_that_overlap_and_block_are_refused_on_every_runtime() {
    on_every_pool(|world| {
        let driver = world.driver("owner");
        let either_order =
            [builder().unsynchronized().allow_sync_calls(), builder().allow_sync_calls().unsynchronized()];
        for both in either_order {
            assert_eq!(refused(&driver, both), Status::NotSupported);
        }
        assert_eq!(world.runtime().role("").sync_call_dispatchers(), 0);
    });
}

/// Shows R26.
#[test]
fn a_role_without_sync_calls_takes_no_dispatcher_that_allows_them() {
    on_every_pool(|world| {
        let driver = world.driver("owner");
        for name in ["", "quick"] {
            let role = world.runtime().role(name);
            role.set_no_sync_calls(true).expect("nobody uses it");
            let error = driver
                .new_dispatcher(builder().scheduler_role(name).allow_sync_calls())
                .expect_err("the role refuses it");
            assert_eq!(error.status(), Status::NotSupported);
            assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
            let _plain = driver.new_dispatcher(builder().scheduler_role(name)).expect("others are welcome");
            role.set_no_sync_calls(false).expect("it may be taken back");
            let _blocking =
                driver.new_dispatcher(builder().scheduler_role(name).allow_sync_calls()).expect("it is allowed again");
        }
    });
}

/// Shows W4, U-19.
#[test]
fn a_refused_creation_leaves_no_pool_thread_count_or_driver_behind() {
    on_every_pool(|world| {
        let runtime = world.runtime();
        let (driver, closing) = (world.driver("owner"), world.driver("closing"));
        runtime.role("full").set_thread_limit(world.threads()).expect("what it starts with");
        runtime.role("quick").set_no_sync_calls(true).expect("nobody uses it");
        closing.shutdown(|| ()).expect("the first");
        let dropped = Arc::new(());
        for (driver, builder, role) in [
            (&driver, builder().unsynchronized().allow_sync_calls().scheduler_role("fresh"), "fresh"),
            (&driver, builder().allow_sync_calls().scheduler_role("full"), "full"),
            (&driver, builder().allow_sync_calls().scheduler_role("quick"), "quick"),
            (&closing, builder().scheduler_role("fresh"), "fresh"),
        ] {
            let before = numbers(&runtime.role(""));
            let observer = Arc::clone(&dropped);
            let unused = builder.shutdown_observer(move || unreachable!("{observer:?}: nothing has shut down"));
            assert!(driver.new_dispatcher(unused).is_err());
            assert_eq!(numbers(&runtime.role(role)), (0, 0, 0), "{role}: no pool stays");
            assert_eq!(numbers(&runtime.role("")), before);
            assert!(driver.dispatchers().is_empty());
            assert_eq!(Arc::strong_count(&dropped), 1, "the observer is dropped, uncalled");
        }
        // A driver without dispatchers is not in the way of anybody.
        driver.shutdown(|| ()).expect("the first");
        world.wait_until("both drivers to be over", || driver.is_shut_down() && closing.is_shut_down());
    });
}

/// The threads of this process whose names begin so.
fn threads_of_process(prefix: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("this is Linux");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.map(|name| name.trim_end().to_owned()).filter(|name| name.starts_with(prefix)).collect()
}

/// Shows W4.
#[test]
fn a_thread_that_the_system_refuses_leaves_nothing_behind() {
    on_pools_with(
        || RuntimeBuilder::new().name("refused"),
        |world| {
            let (runtime, driver) = (world.runtime(), world.driver("owner"));
            let fresh = runtime.role("fresh");
            // Each base thread of the pool of a role, then the extra one.
            for starts in 0..=world.threads() {
                let blocking = builder().scheduler_role("fresh").allow_sync_calls();
                let error = refuse_threads_after(starts, || driver.new_dispatcher(blocking)).expect_err("refused");
                assert_eq!(error.status(), Status::NoResources, "{error}");
                assert!(std::error::Error::source(&error).is_some(), "it says what the system said");
                assert_eq!(numbers(&fresh), (0, 0, 0), "after {starts} threads");
                world.wait_until("its threads to end", || threads_of_process("refused:fresh").is_empty());
            }
            // The extra one of a pool that is there, which stays as it is.
            let default = runtime.role("");
            let before = numbers(&default);
            for _ in 0..10 {
                let blocking = builder().allow_sync_calls();
                assert!(refuse_threads_after(0, || driver.new_dispatcher(blocking)).is_err());
                assert_eq!(numbers(&default), before);
            }
            assert!(driver.dispatchers().is_empty());
            let made =
                driver.new_dispatcher(builder().scheduler_role("fresh").allow_sync_calls()).expect("given again");
            assert_eq!(numbers(&fresh), (world.threads() + 1, 1, 1));
            drop(made);
        },
    );
}

/// A runtime that cannot have all its threads has none.
#[test]
fn a_runtime_that_is_refused_a_thread_leaves_none_behind() {
    for starts in 0..4 {
        let build = || RuntimeBuilder::new().name("unbuilt").threads(4).build();
        let error = refuse_threads_after(starts, build).expect_err("refused");
        assert_eq!(error.status(), Status::NoResources, "{error}");
        // A joined thread is listed by the system for a moment more.
        let since = std::time::Instant::now();
        while !threads_of_process("unbuilt").is_empty() {
            assert!(since.elapsed() < HANG_LIMIT, "after {starts} threads");
            std::thread::yield_now();
        }
    }
    let runtime = RuntimeBuilder::new().name("built").threads(4).build().expect("given again");
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
}

/// Many refusals, then as many dispatchers as there were before: a thread that was reserved and not given back, or a count
/// that was not taken back, would be missing.
#[test]
fn refusals_use_nothing_up() {
    on_pools(|world| {
        let role = world.runtime().role("role");
        role.set_thread_limit(world.threads() + 2).expect("more than it starts with");
        let driver = world.driver("owner");
        let blocking = || builder().scheduler_role("role").allow_sync_calls();
        let keep = driver.new_dispatcher(builder().scheduler_role("role")).expect("it keeps the pool");
        let two = [driver.new_dispatcher(blocking()).expect("one"), driver.new_dispatcher(blocking()).expect("two")];
        let full = numbers(&role);
        for _ in 0..100 {
            assert_eq!(refused(&driver, blocking()), Status::NoResources);
            assert_eq!(numbers(&role), full);
        }
        drop(two);
        world.wait_until("both to be given back", || role.sync_call_dispatchers() == 0);
        let again = [driver.new_dispatcher(blocking()).expect("one"), driver.new_dispatcher(blocking()).expect("two")];
        assert_eq!(role.sync_call_dispatchers(), 2);
        drop((again, keep));
    });
}

/// A dispatcher may be made by anybody at any time: by the observer of another, while its own pool is about to end.
#[test]
fn the_observer_of_the_last_of_a_role_makes_the_next_first() {
    on_every_pool(|world| {
        let log = Log::default();
        let driver = world.driver("owner");
        let (maker, noted) = (driver.clone(), log.clone());
        let next = move || {
            let noted_too = noted.clone();
            let observed = move || noted_too.add("the next one is gone");
            let made = maker.new_dispatcher(builder().scheduler_role("role").shutdown_observer(observed));
            noted.add("made the next one");
            drop(made.expect("it is made"));
        };
        drop(driver.new_dispatcher(builder().scheduler_role("role").shutdown_observer(next)).expect("made"));
        world.wait_until("both to be gone", || log.len() == 2);
        assert_eq!(log.take(), ["made the next one", "the next one is gone"]);
        let role = world.runtime().role("role");
        world.wait_until("its pool to be gone", || role.thread_count() == 0);
    });
}

/// A runtime is waited for by no thread of its own, those of a pool that is about to end included.
#[test]
fn the_last_observer_of_a_role_cannot_wait_for_its_own_runtime() {
    on_pools(|world| {
        let driver = world.driver("owner");
        let (sender, receiver) = channel();
        let runtime = world.runtime().clone();
        let _dispatcher = driver.new_dispatcher(builder().scheduler_role("role")).expect("made").release();
        let in_observer =
            move || sender.send(runtime.shutdown(HANG_LIMIT).map_err(Status::from)).expect("it is awaited");
        driver.shutdown(in_observer).expect("the first");
        assert_eq!(receiver.recv_timeout(HANG_LIMIT), Ok(Err(Status::BadState)));
    });
}

/// Nothing of a role's pool is left when its last dispatcher is gone, in the foreground neither.
#[test]
fn a_role_of_the_foreground_comes_and_goes_too() {
    let runtime = ForegroundRuntime::new();
    let driver = runtime.new_driver("owner");
    for round in 0..3 {
        let log = Log::default();
        let dispatcher = driver.new_dispatcher(builder().scheduler_role("role")).expect("made");
        let noted = log.clone();
        task(&dispatcher, move || noted.add("ran"));
        runtime.run_until_idle();
        assert_eq!(log.take(), ["ran"], "round {round}");
        let gone = dispatcher.handle();
        drop(dispatcher);
        runtime.run_until_idle();
        assert_eq!(gone.state(), DispatcherState::Destroyed, "round {round}");
    }
}

/// What an error says of a role is one line that can be read, whatever the role is called.
#[test]
fn an_error_shows_a_name_of_any_length_in_one_line() {
    let runtime = RuntimeBuilder::new().threads(1).enforce_allowed_roles().build().expect("the system has threads");
    let driver = runtime.new_driver("owner");
    let role = format!("first\nsecond{}", "r".repeat(100_000));
    let not_allowed = driver.new_dispatcher(builder().scheduler_role(role.clone())).expect_err("it has no leave");
    driver.allow_scheduler_role(role.clone());
    runtime.role(role.clone()).set_no_sync_calls(true).expect("nobody uses it");
    let blocking = builder().scheduler_role(role).allow_sync_calls();
    let no_sync_calls = driver.new_dispatcher(blocking).expect_err("the role does not allow it");
    for text in [not_allowed.to_string(), no_sync_calls.to_string()] {
        assert!(text.contains("\"first\\nsecondrrr") && text.contains("rrr…\""), "{text}");
        assert!(text.len() < 300 && text.lines().count() == 1, "{text}");
    }
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
}

/// Leave for a role is given by a value that becomes a text: the code that makes it may ask the driver anything.
#[test]
fn the_name_of_an_allowed_role_is_made_before_the_driver_is_locked() {
    struct Asks(Driver);
    impl From<Asks> for String {
        fn from(asks: Asks) -> String {
            format!("role {}", asks.0.dispatchers().len())
        }
    }
    let runtime = RuntimeBuilder::new().threads(1).enforce_allowed_roles().build().expect("the system has threads");
    let driver = runtime.new_driver("owner");
    // On a thread of its own, so that a lock that is held is told and not waited for.
    let (sender, receiver) = channel();
    let allowing = driver.clone();
    thread::spawn(move || {
        allowing.allow_scheduler_role(Asks(allowing.clone()));
        let _ = sender.send(());
    });
    receiver.recv_timeout(HANG_LIMIT).expect("the driver can be asked meanwhile");
    assert!(driver.new_dispatcher(builder().scheduler_role("role 0")).is_ok());
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
}

/// Names of roles are told apart by every byte, however long they are.
#[test]
fn a_role_is_its_whole_name() {
    on_pools(|world: &World| {
        let driver = world.driver("owner");
        let long = "r".repeat(10_000);
        let longer = format!("{long}s");
        let one = driver.new_dispatcher(builder().scheduler_role(long.clone())).expect("made");
        let other = driver.new_dispatcher(builder().scheduler_role(longer.clone())).expect("made");
        let zero = driver.new_dispatcher(builder().scheduler_role("a\0b").name("n\0n")).expect("made");
        assert_eq!((one.scheduler_role(), other.scheduler_role(), zero.scheduler_role()), (&*long, &*longer, "a\0b"));
        for role in [&*long, &*longer, "a\0b"] {
            assert_eq!(world.runtime().role(role).thread_count(), world.threads());
        }
        assert_eq!(world.runtime().role("a").thread_count(), 0);
    });
}
