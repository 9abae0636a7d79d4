//! Goal: a dispatcher that gives up its right to block becomes like one that never had it, and gives its thread back.
//! Method: seal in a callback, and look at inline calls, at `blocking`, and at the numbers of the role.

mod conformance_support;

use std::sync::mpsc::channel;

use conformance_support::{Log, make, on_message, plain, task, write};
use fuchsine_dispatcher::{Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Status, blocking};
use fuchsine_tests::pools::{World, on_every_pool, on_every_pool_calling_inline, on_pools};

fn sync_calls() -> DispatcherBuilder {
    DispatcherBuilder::new().allow_sync_calls()
}

/// Seals in a callback of the dispatcher, and says what came of it.
#[track_caller]
fn sealed(world: &World, dispatcher: &Dispatcher) -> Result<(), Status> {
    sealed_by(world, dispatcher, dispatcher.handle())
}

/// Seals `target` in a callback of `caller`.
#[track_caller]
fn sealed_by(world: &World, caller: &Dispatcher, target: DispatcherHandle) -> Result<(), Status> {
    let (sender, receiver) = channel();
    task(caller, move || sender.send(target.seal_allow_sync_calls()).expect("it is awaited"));
    let mut result = None;
    world.wait_until("the callback", || {
        result = result.or_else(|| receiver.try_recv().ok());
        result.is_some()
    });
    result.expect("it was awaited")
}

/// Writes from a plain dispatcher of another driver to one that reads; whether the read ran inside of the write.
#[track_caller]
fn is_inlined(world: &World, reader: &Dispatcher) -> bool {
    // A callback that has told its result may not have returned yet.
    world.settle();
    let before = reader.dump().inlined;
    let log = Log::default();
    let writer = plain(world, "writer");
    let (near, far) = Channel::pair();
    let noted = log.clone();
    on_message(&far, reader, move |_| noted.add("read"));
    let noted = log.clone();
    task(&writer, move || {
        write(&near);
        noted.add("written");
    });
    world.wait_until("both", || log.len() == 2);
    // Where it was not, the two may have come in any order.
    let is_inlined = reader.dump().inlined > before;
    assert!(!is_inlined || log.take() == ["read", "written"]);
    is_inlined
}

/// Shows R107, U-24.
#[test]
fn sealing_is_refused_from_outside_then_for_what_cannot_be_sealed() {
    on_every_pool(|world| {
        let dispatcher = make(world, "sealed", sync_calls());
        let never = plain(world, "never");
        assert_eq!(dispatcher.seal_allow_sync_calls(), Err(Status::BadState), "this thread runs no callback of it");
        assert_eq!(never.seal_allow_sync_calls(), Err(Status::BadState), "asked before what it allows");
        let inside = dispatcher.owner().enter(|| dispatcher.seal_allow_sync_calls());
        assert_eq!(inside, Err(Status::BadState), "its driver is not enough");
        assert_eq!(sealed_by(world, &never, dispatcher.handle()), Err(Status::BadState), "another one is current");
        assert!(dispatcher.allows_sync_calls(), "nothing has changed");
        assert_eq!(sealed(world, &never), Err(Status::AlreadyExists), "it never allowed them");
        assert_eq!(sealed(world, &dispatcher), Ok(()));
        assert_eq!(sealed(world, &dispatcher), Err(Status::AlreadyExists), "it is sealed");
    });
}

/// Shows R107.
#[test]
fn a_dispatcher_that_shuts_down_is_sealed_no_more() {
    on_every_pool(|world| {
        let log = Log::default();
        let dispatcher = make(world, "sealed", sync_calls());
        let (handle, noted) = (dispatcher.handle(), log.clone());
        task(&dispatcher, move || {
            handle.shutdown_async();
            noted.add(format!("{:?}", handle.seal_allow_sync_calls()));
        });
        world.wait_until("the callback", || log.len() == 1);
        assert_eq!(log.take(), [format!("{:?}", Err::<(), _>(Status::BadState))]);
        // Its thread is given back once, by the shutdown.
        let role = world.runtime().role("");
        world.wait_until("its end", || role.sync_call_dispatchers() == 0);
    });
}

/// Shows R108.
#[test]
fn messages_run_inline_once_it_is_sealed() {
    on_every_pool_calling_inline(|world| {
        let dispatcher = make(world, "sealed", sync_calls());
        assert!(!is_inlined(world, &dispatcher), "it might block its caller");
        assert_eq!(sealed(world, &dispatcher), Ok(()));
        assert!(!dispatcher.allows_sync_calls());
        assert!(is_inlined(world, &dispatcher), "{}", dispatcher.dump());
    });
}

/// Shows R51, R107.
#[test]
fn blocking_is_refused_once_it_is_sealed() {
    on_every_pool(|world| {
        let log = Log::default();
        let dispatcher = make(world, "sealed", sync_calls());
        let (handle, noted) = (dispatcher.handle(), log.clone());
        task(&dispatcher, move || {
            noted.add(format!("{:?}", blocking(|| 1).map_err(|error| error.status())));
            noted.add(format!("{:?}", handle.seal_allow_sync_calls()));
            noted.add(format!("{:?}", blocking(|| 2).map_err(|error| error.status())));
        });
        world.wait_until("the callback", || log.len() == 3);
        assert_eq!(log.take(), ["Ok(1)", "Ok(())", "Err(BadState)"]);
        // On a thread of nobody it is free, and a plain dispatcher never may.
        let elsewhere = std::thread::spawn(|| blocking(|| ()).is_ok());
        assert!(elsewhere.join().expect("it ends"));
        let (plain, noted) = (plain(world, "plain"), log.clone());
        task(&plain, move || noted.add(format!("{:?}", blocking(|| 3).map_err(|error| error.status()))));
        world.wait_until("the callback", || log.len() == 1);
        assert_eq!(log.take(), ["Err(BadState)"]);
    });
}

/// Shows R109.
#[test]
fn a_sealed_one_gives_its_thread_to_the_next_and_gives_it_once() {
    on_pools(|world| {
        let role = world.runtime().role("");
        role.set_thread_limit(world.threads() + 1).expect("one more than run");
        let first = make(world, "first", sync_calls());
        let driver = world.driver("second");
        assert_eq!(driver.new_dispatcher(sync_calls()).expect_err("all are taken").status(), Status::NoResources);
        assert_eq!(sealed(world, &first), Ok(()));
        assert_eq!(role.sync_call_dispatchers(), 0);
        assert_eq!(role.thread_count(), world.threads() + 1, "no thread stops for that");
        let second = driver.new_dispatcher(sync_calls()).expect("the thread is free");
        assert_eq!((role.thread_count(), role.added()), (world.threads() + 1, 1), "it is the same one");
        // The end of the sealed one gives nothing back a second time.
        let observed = first.handle();
        drop(first);
        world.wait_until("its end", || observed.owner().dispatchers().is_empty());
        assert_eq!(role.sync_call_dispatchers(), 1);
        assert!(world.driver("third").new_dispatcher(sync_calls()).is_err(), "the second one still has it");
        drop(second);
    });
}
