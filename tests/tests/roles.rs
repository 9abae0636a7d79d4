//! Goal: scheduler roles keep their rules: one pool a role, settings that outlive it, who may use it.
//! Method: the numbers of threads tell which pools there are; a callback tells on which thread it runs by its name.

mod conformance_support;

use std::collections::BTreeSet;
use std::sync::mpsc::channel;

use conformance_support::{Log, make, on_message, task, write};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{Channel, Dispatcher, DispatcherBuilder, Runtime, RuntimeBuilder, Status};
use fuchsine_tests::pools::{HANG_LIMIT, World, on_every_pool, on_every_pool_calling_inline, on_pools};

fn of_role(role: &str) -> DispatcherBuilder {
    DispatcherBuilder::new().scheduler_role(role)
}

fn one_thread() -> Runtime {
    RuntimeBuilder::new().threads(1).name("pool").build().expect("the system has threads")
}

/// The name of the thread that a task of this dispatcher runs on, without the number.
#[track_caller]
fn thread_of(dispatcher: &Dispatcher) -> String {
    let (sender, receiver) = channel();
    task(dispatcher, move || sender.send(std::thread::current().name().map(str::to_owned)).expect("it is awaited"));
    let name = receiver.recv_timeout(HANG_LIMIT).expect("the task runs").expect("threads have names");
    name.rsplit_once('-').map(|(pool, _)| pool.to_owned()).unwrap_or(name)
}

/// Shows R31, R32, R56, SR-6.
#[test]
fn dispatchers_of_one_role_share_a_pool_and_those_of_two_roles_never_do() {
    let runtime = one_thread();
    let driver = runtime.new_driver("owner");
    let make = |role: &str| driver.new_dispatcher(of_role(role)).expect("made");
    assert_eq!(runtime.role("one").thread_count(), 0, "no pool without a dispatcher");
    let five: Vec<_> = (0..5).map(|_| make("one")).collect();
    assert_eq!(runtime.role("one").thread_count(), 1);
    let other = make("other");
    let default = make("");
    let pools: BTreeSet<_> = five.iter().map(thread_of).collect();
    assert_eq!(pools.into_iter().collect::<Vec<_>>(), ["pool:one"]);
    assert_eq!(thread_of(&other), "pool:other");
    assert_eq!(thread_of(&default), "pool");
    let counts = ["", "one", "other"].map(|role| runtime.role(role).thread_count());
    assert_eq!(counts, [1, 1, 1]);
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
}

/// A message of a driver on another role's pool is not delivered on that pool's thread.
#[test]
fn a_callback_never_runs_on_the_pool_of_another_role() {
    on_every_pool(|world| {
        let log = Log::default();
        let writer = make(world, "writer", of_role("one"));
        let reader = make(world, "reader", of_role("two"));
        let (near, far) = Channel::pair();
        let noted = log.clone();
        on_message(&far, &reader, move |_| noted.add("read"));
        let noted = log.clone();
        task(&writer, move || {
            write(&near);
            noted.add("written");
        });
        world.settle();
        if world.is_foreground() {
            assert_eq!(log.take(), ["written", "read"], "it is not inlined across roles");
        } else {
            world.wait_until("both", || log.len() == 2);
        }
    });
}

/// Shows R36, W13.
#[test]
fn what_is_set_for_a_role_outlives_its_dispatchers() {
    on_every_pool(|world| {
        let role = world.runtime().role("role");
        assert!(!role.no_sync_calls());
        role.set_no_sync_calls(true).expect("before the first dispatcher");
        role.set_thread_limit(world.threads() + 1).expect("before the first dispatcher");
        let driver = world.driver("owner");
        for round in 0..3 {
            let dispatcher = driver.new_dispatcher(of_role("role")).expect("made");
            assert_eq!(role.thread_count(), world.threads(), "round {round}");
            assert_eq!((role.no_sync_calls(), role.thread_limit()), (true, world.threads() + 1), "round {round}");
            drop(dispatcher);
            world.wait_until("the pool to be gone", || driver.dispatchers().is_empty() && role.thread_count() == 0);
            assert_eq!((role.no_sync_calls(), role.thread_limit()), (true, world.threads() + 1), "after round {round}");
        }
        let same = world.runtime().role("role");
        assert_eq!(same, role);
        assert!(same.no_sync_calls());
        assert_ne!(world.runtime().role(""), role);
    });
}

/// Shows R37, SR-5.
#[test]
fn the_shutdown_observer_runs_on_the_pool_of_the_dispatchers_own_role() {
    let runtime = one_thread();
    let driver = runtime.new_driver("owner");
    let (sender, receiver) = channel();
    let observed = move || sender.send(std::thread::current().name().map(str::to_owned)).expect("it is awaited");
    drop(driver.new_dispatcher(of_role("observed").shutdown_observer(observed)).expect("made"));
    let name = receiver.recv_timeout(HANG_LIMIT).expect("it is observed");
    assert_eq!(name.as_deref(), Some("pool:observed-0"));
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
}

/// Shows R38, W5, U-16.
#[test]
fn a_driver_needs_leave_for_a_role_at_each_creation_whoever_used_it_before() {
    for foreground in [false, true] {
        let builder = RuntimeBuilder::new().enforce_allowed_roles();
        let (kept, world_runtime);
        if foreground {
            kept = ForegroundRuntime::with(builder).expect("made");
            world_runtime = Runtime::clone(&kept);
        } else {
            world_runtime = builder.threads(1).build().expect("the system has threads");
        }
        let (allowed, other) = (world_runtime.new_driver("allowed"), world_runtime.new_driver("other"));
        let error = allowed.new_dispatcher(of_role("role")).expect_err("not yet");
        assert_eq!(error.status(), Status::AccessDenied);
        assert!(error.to_string().contains("allow_scheduler_role"), "{error}");
        assert_eq!(world_runtime.role("role").thread_count(), 0, "no pool is made for who may not use it");
        allowed.allow_scheduler_role("role");
        allowed.allow_scheduler_role("role");
        let first = allowed.new_dispatcher(of_role("role")).expect("it has leave");
        let refused = other.new_dispatcher(of_role("role")).expect_err("that somebody has made the pool helps nobody");
        assert_eq!(refused.status(), Status::AccessDenied);
        let of_wrong_role = allowed.new_dispatcher(of_role("role ")).expect_err("that is another one");
        assert_eq!(of_wrong_role.status(), Status::AccessDenied);
        let inside = allowed.enter(|| other.new_dispatcher(of_role("role")).expect_err("the owner is asked"));
        assert_eq!(inside.status(), Status::AccessDenied);
        let outside = other.enter(|| allowed.new_dispatcher(of_role("role"))).expect("the owner has leave");
        let default = other.new_dispatcher(of_role("")).expect("the default role is everybody's");
        drop((first, outside, default));
    }
}

/// Roles are free unless that is enforced.
#[test]
fn without_enforcement_every_role_is_allowed() {
    on_every_pool(|world| {
        let driver = world.driver("owner");
        let _dispatcher = driver.new_dispatcher(of_role("any")).expect("nobody asks for leave");
    });
}

/// Shows R39.
#[test]
fn sync_calls_of_a_role_are_switched_off_only_while_nobody_uses_them() {
    on_every_pool(|world| {
        for name in ["", "role"] {
            let role = world.runtime().role(name);
            let driver = world.driver("owner");
            let blocking = driver.new_dispatcher(of_role(name).allow_sync_calls()).expect("made");
            assert_eq!(role.sync_call_dispatchers(), 1);
            assert_eq!(role.set_no_sync_calls(true), Err(Status::NotSupported));
            assert!(!role.no_sync_calls());
            drop(blocking);
            world.wait_until("it to be given back", || role.sync_call_dispatchers() == 0);
            role.set_no_sync_calls(true).expect("nobody uses them");
            assert!(role.no_sync_calls());
            role.set_no_sync_calls(true).expect("again is fine");
            role.set_no_sync_calls(false).expect("and back");
            assert!(!role.no_sync_calls());
        }
    });
}

/// Shows R40, U-17.
#[test]
fn a_role_without_sync_calls_delivers_inline_all_the_same() {
    on_every_pool_calling_inline(|world| {
        world.runtime().role("").set_no_sync_calls(true).expect("nobody uses them");
        let log = Log::default();
        let (writer, reader) = (make(world, "writer", of_role("")), make(world, "reader", of_role("")));
        let (near, far) = Channel::pair();
        let noted = log.clone();
        on_message(&far, &reader, move |_| noted.add("read"));
        let noted = log.clone();
        task(&writer, move || {
            write(&near);
            noted.add("written");
        });
        world.wait_until("both", || log.len() == 2);
        assert_eq!(log.take(), ["read", "written"]);
    });
}

/// Shows SR-4.
#[test]
fn a_dispatcher_that_allows_sync_calls_adds_to_its_own_role_only() {
    on_pools(|world: &World| {
        let driver = world.driver("owner");
        let _blocking = driver.new_dispatcher(of_role("role").allow_sync_calls()).expect("made");
        let (role, default) = (world.runtime().role("role"), world.runtime().role(""));
        assert_eq!((role.thread_count(), role.added()), (world.threads() + 1, 1));
        assert_eq!((default.thread_count(), default.added()), (world.threads(), 0));
    });
}

/// Shows R49, DT-82, DT-83.
#[test]
fn the_limit_of_a_role_is_never_set_below_what_runs() {
    let runtime = RuntimeBuilder::new().threads(2).build().expect("the system has threads");
    let driver = runtime.new_driver("owner");
    for name in ["", "role"] {
        let role = runtime.role(name);
        assert_eq!(role.thread_limit(), 22, "20 beyond the base threads");
        for impossible in [0, 1, 65_001, usize::MAX] {
            assert_eq!(role.set_thread_limit(impossible), Err(Status::OutOfRange));
            assert_eq!(role.thread_limit(), 22, "the old one holds");
        }
        role.set_thread_limit(3).expect("base threads and one");
        assert_eq!(role.thread_limit(), 3);
        let blocking = || of_role(name).allow_sync_calls();
        let one = driver.new_dispatcher(blocking()).expect("there is one");
        assert_eq!(role.thread_count(), 3);
        assert_eq!(driver.new_dispatcher(blocking()).expect_err("and no more").status(), Status::NoResources);
        assert_eq!(role.set_thread_limit(2), Err(Status::OutOfRange), "three run");
        role.set_thread_limit(4).expect("more is fine");
        let two = driver.new_dispatcher(blocking()).expect("there is one more");
        assert_eq!(role.thread_count(), 4);
        let plain: Vec<_> = (0..10).map(|_| driver.new_dispatcher(of_role(name)).expect("these need none")).collect();
        assert_eq!(role.thread_count(), 4);
        drop((one, two, plain));
    }
    assert_eq!(runtime.role("other").thread_limit(), 22, "each role has its own");
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
    assert_eq!(runtime.role("role").thread_limit(), 4, "a setting is kept to the end");
}
