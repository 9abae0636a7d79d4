//! Goal: threads are counted, added and retired as the rules say.
//! Method: the numbers of the role are compared after each step. Callbacks that block wait for the test, so nothing that
//! must not run can be late by accident; what must come to pass is awaited, up to a hang limit.

mod conformance_support;

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use conformance_support::{Gate, gate, make, plain, task};
use fuchsine_dispatcher::{Dispatcher, DispatcherBuilder, Interest, Role, Runtime, RuntimeBuilder, Status};
use fuchsine_tests::pools::{HANG_LIMIT, World, on_pools, on_pools_with};

fn sync_calls() -> DispatcherBuilder {
    DispatcherBuilder::new().allow_sync_calls()
}

fn of(world: &World) -> Role {
    world.runtime().role("")
}

/// Short, so that the tests which wait for it end soon; nothing is measured.
const SOON: Duration = Duration::from_millis(20);

fn dynamic() -> RuntimeBuilder {
    RuntimeBuilder::new().dynamic_threads().retire_threads_after(SOON)
}

/// Blocks a callback of this dispatcher until the gate is opened.
#[track_caller]
fn block(dispatcher: &Dispatcher) -> Gate {
    let (gate, keeper) = gate();
    task(dispatcher, move || keeper.pass());
    gate.wait();
    gate
}

#[track_caller]
fn within<T>(receiver: &Receiver<T>, what: &str) -> T {
    receiver.recv_timeout(HANG_LIMIT).unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Shows R5, R42.
#[test]
fn a_pool_starts_with_its_base_threads() {
    on_pools(|world| {
        assert_eq!(of(world).thread_count(), world.threads());
        let dispatcher = make(world, "one", DispatcherBuilder::new().scheduler_role("role"));
        assert_eq!(world.runtime().role("role").thread_count(), world.threads());
        drop(dispatcher);
    });
}

/// What is told of threads stays true when they have ended.
#[test]
fn a_runtime_that_has_shut_down_has_no_thread() {
    let runtime = RuntimeBuilder::new().threads(2).build().expect("the system has threads");
    let driver = runtime.new_driver("driver");
    let blocking = || DispatcherBuilder::new().allow_sync_calls();
    let _made = [blocking(), blocking().scheduler_role("role")].map(|one| driver.new_dispatcher(one).expect("made"));
    let threads = || (runtime.thread_count(), runtime.role("role").thread_count(), runtime.dump().threads);
    assert_eq!(threads(), (3, 3, 6));
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
    assert_eq!(threads(), (0, 0, 0));
}

/// Shows R43.
#[test]
fn the_limit_counts_what_may_block_and_nothing_else() {
    for dynamic in [false, true] {
        let builder = move || {
            let builder = RuntimeBuilder::new().thread_limit(10);
            if dynamic { builder.dynamic_threads() } else { builder }
        };
        on_pools_with(builder, |world| {
            let driver = world.driver("owner");
            let room = 10 - world.threads();
            let blocking: Vec<_> = (0..room).map(|_| driver.new_dispatcher(sync_calls()).expect("room")).collect();
            let error = driver.new_dispatcher(sync_calls()).expect_err("no room");
            assert_eq!(error.status(), Status::NoResources);
            assert!(error.to_string().contains("10 threads"), "{error}");
            let others: Vec<_> = (0..100)
                .map(|nth| {
                    let plain = DispatcherBuilder::new();
                    driver.new_dispatcher(if nth % 2 == 0 { plain } else { plain.unsynchronized() }).expect("unlimited")
                })
                .collect();
            let expected = if dynamic { world.threads() } else { 10 };
            assert_eq!(of(world).thread_count(), expected);
            drop((blocking, others));
        });
    }
}

/// Shows R44, R47, SR-7, SR-8.
#[test]
fn each_that_may_block_adds_one_thread_and_others_none() {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("the system has threads");
    let driver = runtime.new_driver("owner");
    let count_of = |role: &'static str, builder: DispatcherBuilder| {
        let made = driver.new_dispatcher(builder.scheduler_role(role)).expect("made").release();
        (runtime.role(role).thread_count(), made).0
    };
    let plain = DispatcherBuilder::new;
    let counts = [plain(), plain(), sync_calls()].map(|builder| count_of("plain first", builder));
    assert_eq!(counts, [1, 1, 2]);
    // A base thread is there from the start, so that the plain ones never wait for those that block.
    let counts = [sync_calls(), sync_calls(), plain(), plain()].map(|builder| count_of("blocking first", builder));
    assert_eq!(counts, [2, 3, 3, 3]);
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
}

/// Shows R46, DT-80.
#[test]
fn a_thread_that_was_given_back_is_used_again() {
    on_pools(|world| {
        let role = of(world);
        for round in 0..10 {
            let dispatcher = make(world, "one", sync_calls());
            assert_eq!((role.thread_count(), role.added()), (world.threads() + 1, 1), "round {round}");
            drop(dispatcher);
            world.wait_until("it to be given back", || role.sync_call_dispatchers() == 0);
        }
        assert_eq!(role.retired(), 0, "ten seconds are not over");
    });
}

/// Shows R48.
#[test]
fn an_unsynchronized_dispatcher_runs_on_all_base_threads_at_once() {
    on_pools(|world| {
        let dispatcher = make(world, "parallel", DispatcherBuilder::new().unsynchronized());
        assert_eq!(of(world).thread_count(), world.threads());
        let meeting = Arc::new(Barrier::new(world.threads()));
        let (sender, receiver) = channel();
        for _ in 0..world.threads() {
            let (meeting, sender) = (Arc::clone(&meeting), sender.clone());
            task(&dispatcher, move || {
                meeting.wait();
                sender.send(()).expect("it is awaited");
            });
        }
        (0..world.threads()).for_each(|_| within(&receiver, "all to meet"));
    });
}

/// Shows R50.
#[test]
fn as_many_may_block_as_allow_it_and_nobody_else_waits() {
    on_pools(|world| {
        let blocking: Vec<_> = (0..5).map(|nth| make(world, &format!("blocking {nth}"), sync_calls())).collect();
        let gates: Vec<_> = blocking.iter().map(block).collect();
        let other = plain(world, "other");
        let (sender, receiver) = channel();
        task(&other, move || sender.send(()).expect("it is awaited"));
        within(&receiver, "the plain dispatcher");
        gates.iter().for_each(Gate::open);
    });
}

/// Shows W2.
#[test]
fn a_surplus_thread_is_retired_and_joined_and_its_number_used_again() {
    on_pools_with(
        || RuntimeBuilder::new().name("p").retire_threads_after(SOON),
        |world| {
            let role = of(world);
            for round in 1..=3 {
                let names: Arc<Mutex<BTreeSet<String>>> = Arc::default();
                let blocking: Vec<_> =
                    (0..3).map(|nth| make(world, &format!("blocking {nth}"), sync_calls())).collect();
                assert_eq!(role.thread_count(), world.threads() + 3, "round {round}");
                // All threads are held at once, so each tells its name.
                let all: Vec<_> = (0..world.threads() + 3).map(|_| plain(world, "any")).collect();
                let meeting = Arc::new(Barrier::new(all.len()));
                for dispatcher in &all {
                    let (names, meeting) = (Arc::clone(&names), Arc::clone(&meeting));
                    task(dispatcher, move || {
                        names.lock().unwrap().insert(std::thread::current().name().unwrap_or_default().to_owned());
                        meeting.wait();
                    });
                }
                world.wait_until("all to meet", || names.lock().unwrap().len() == all.len());
                let expected: BTreeSet<String> = (0..all.len()).map(|nth| format!("p-{nth}")).collect();
                assert_eq!(*names.lock().unwrap(), expected, "round {round}");
                drop(blocking);
                world.wait_until("the surplus to be retired", || role.retired() == 3 * round);
                assert_eq!((role.thread_count(), role.added()), (world.threads(), 3 * round), "round {round}");
                // Twice: a list that is read while a thread ends may leave out another one.
                world.wait_until("the threads to end", || {
                    (0..2).all(|_| threads_of_process("p-").len() == world.threads())
                });
            }
        },
    );
}

/// The threads of this process whose names are this prefix and a number.
fn threads_of_process(prefix: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("this is Linux");
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names
        .map(|name| name.trim_end().to_owned())
        .filter(|name| name.strip_prefix(prefix).is_some_and(|number| number.parse::<u32>().is_ok()))
        .collect()
}

/// A thread that a dispatcher claims stays, however long it sleeps; so do base threads.
#[test]
fn a_claimed_thread_is_never_retired() {
    on_pools_with(
        || RuntimeBuilder::new().retire_threads_after(SOON),
        |world| {
            let role = of(world);
            let (kept, given_back) = (make(world, "kept", sync_calls()), make(world, "given back", sync_calls()));
            drop(given_back);
            world.wait_until("one to be retired", || role.retired() == 1);
            // Several lives of idleness later.
            std::thread::sleep(5 * SOON);
            assert_eq!((role.thread_count(), role.retired()), (world.threads() + 1, 1));
            drop(kept);
            world.wait_until("the other to be retired", || role.retired() == 2);
            std::thread::sleep(5 * SOON);
            assert_eq!((role.thread_count(), role.retired()), (world.threads(), 2));
        },
    );
}

/// Timers and descriptors are heard when the thread that led was retired.
#[test]
fn a_retired_leader_leaves_the_lead_to_another() {
    on_pools_with(
        || RuntimeBuilder::new().retire_threads_after(SOON),
        |world| {
            let role = of(world);
            for round in 1..=10 {
                drop(make(world, "given back", sync_calls()));
                let target = plain(world, "target");
                let (sender, receiver) = channel();
                let (timer, descriptor) = (sender.clone(), sender);
                let _timer = target
                    .post_after(3 * SOON, move |_| timer.send("timer").expect("it is awaited"))
                    .expect("accepted");
                world.wait_until("the surplus to be retired", || role.retired() == round);
                let (near, far) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
                target
                    .begin_wait(&near, Interest::READABLE, move |_| descriptor.send("descriptor").expect("awaited"))
                    .expect("accepted");
                drop(far);
                let mut seen = [within(&receiver, "one of both"), within(&receiver, "the other")];
                seen.sort_unstable();
                assert_eq!(seen, ["descriptor", "timer"]);
            }
        },
    );
}

/// Shows R45.
#[test]
fn in_dynamic_mode_no_thread_is_added_by_a_creation() {
    on_pools_with(dynamic, |world| {
        let blocking: Vec<_> = (0..5).map(|nth| make(world, &format!("blocking {nth}"), sync_calls())).collect();
        assert_eq!(of(world).sync_call_dispatchers(), 5);
        assert_eq!((of(world).thread_count(), of(world).added()), (world.threads(), 0));
        // Room for one is kept, as there may be something that no base thread can run.
        assert_eq!(of(world).set_thread_limit(world.threads()), Err(Status::OutOfRange));
        of(world).set_thread_limit(world.threads() + 1).expect("one is enough");
        drop(blocking);
    });
}

/// Shows R52, R53, R55, W2, DT-11.
#[test]
fn in_dynamic_mode_a_thread_is_added_when_all_are_stuck_and_retired_when_it_is_idle() {
    on_pools_with(dynamic, |world| {
        let role = of(world);
        let stuck: Vec<_> =
            (0..world.threads()).map(|nth| make(world, &format!("stuck {nth}"), sync_calls())).collect();
        let gates: Vec<_> = stuck.iter().map(block).collect();
        assert_eq!(role.added(), 0, "nothing waits for a thread");
        let other = plain(world, "other");
        let (sender, receiver) = channel();
        task(&other, move || sender.send(()).expect("it is awaited"));
        within(&receiver, "the plain dispatcher");
        assert_eq!(role.added(), 1);
        let seen = || {
            let dump = world.runtime().dump();
            let added = dump.pools[0].threads.iter().filter(|thread| !thread.is_base).count();
            (dump.pools[0].extra, added, dump.to_string(), dump.to_json())
        };
        let (extra, listed, text, json) = seen();
        assert_eq!((extra, listed), (1, 1), "{text}");
        assert!(text.contains("1 added, limit ") && text.contains("; 1 added so far, 0 retired"), "{text}");
        assert!(json.contains("\"added\":1,\"retired\":0"), "{json}");
        gates.iter().for_each(Gate::open);
        world.wait_until("the extra thread to be retired", || role.retired() == 1);
        assert_eq!((role.thread_count(), role.added()), (world.threads(), 1));
        // It counts as gone when it is told to go, and is listed until it has.
        world.wait_until("the extra thread to be gone", || seen().1 == 0);
        let (extra, _, text, json) = seen();
        assert_eq!(extra, 0, "{text}");
        assert!(text.contains("0 added, limit ") && text.contains("; 1 added so far, 1 retired"), "{text}");
        assert!(json.contains("\"added\":1,\"retired\":1"), "{json}");
    });
}

/// Nobody polls while all are stuck, and nothing is in a queue: the watch finds the event by itself.
#[test]
fn in_dynamic_mode_timers_and_descriptors_are_heard_when_all_are_stuck() {
    for by_descriptor in [false, true] {
        on_pools_with(dynamic, |world| {
            let other = plain(world, "other");
            let (near, far) = std::os::unix::net::UnixStream::pair().expect("a socket pair");
            let stuck: Vec<_> =
                (0..world.threads()).map(|nth| make(world, &format!("stuck {nth}"), sync_calls())).collect();
            let gates: Vec<_> = stuck.iter().map(block).collect();
            let (sender, receiver) = channel();
            let timer;
            if by_descriptor {
                let tell = move |_| sender.send(()).expect("it is awaited");
                other.begin_wait(&near, Interest::READABLE, tell).expect("accepted");
                drop(far);
            } else {
                timer = other.post_after(SOON, move |_| sender.send(()).expect("it is awaited")).expect("accepted");
                let _ = &timer;
            }
            within(&receiver, "the event");
            assert_eq!(of(world).added(), 1);
            gates.iter().for_each(Gate::open);
        });
    }
}

/// Each new thread that gets stuck itself is followed by another, up to the limit; then things wait, and go on when one
/// is free again.
#[test]
fn in_dynamic_mode_threads_are_added_up_to_the_limit() {
    let runtime: Runtime =
        RuntimeBuilder::new().threads(1).thread_limit(3).dynamic_threads().build().expect("the system has threads");
    let role = runtime.role("");
    let make = |name: &str| runtime.new_driver(name).new_dispatcher(DispatcherBuilder::new()).expect("made");
    let stuck: Vec<_> = ["one", "two", "three"].map(make).into_iter().collect();
    let gates: Vec<_> = stuck.iter().map(block).collect();
    assert_eq!((role.thread_count(), role.added()), (3, 2));
    let other = make("other");
    let (sender, receiver): (Sender<()>, _) = channel();
    task(&other, move || sender.send(()).expect("it is awaited"));
    // Longer than it takes to notice a stall: the limit is what keeps it from being added.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!((role.thread_count(), role.added()), (3, 2));
    assert!(receiver.try_recv().is_err());
    role.set_thread_limit(4).expect("more is fine");
    within(&receiver, "the one that waited");
    assert_eq!((role.thread_count(), role.added()), (4, 3));
    gates.iter().for_each(Gate::open);
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
}

/// A base thread that hosts a pinned dispatcher runs nothing that may block, and in dynamic mode no other thread is there
/// at first.
#[test]
fn in_dynamic_mode_a_thread_is_added_for_what_no_base_thread_may_run() {
    on_pools_with(dynamic, |world| {
        let pinned = || DispatcherBuilder::new().no_thread_migration();
        let hosts: Vec<_> = (0..world.threads()).map(|nth| make(world, &format!("pinned {nth}"), pinned())).collect();
        let blocking = make(world, "blocking", sync_calls());
        let (sender, receiver) = channel();
        for round in 1..=2 {
            let sender = sender.clone();
            task(&blocking, move || sender.send(()).expect("it is awaited"));
            within(&receiver, "the callback that may block");
            world.wait_until("the extra thread to be retired", || of(world).retired() == round);
            assert_eq!(of(world).added(), round);
        }
        drop(hosts);
    });
}

/// The other way round: where threads are not added dynamically, none is, whatever is stuck.
#[test]
fn in_static_mode_no_thread_is_added_for_a_stall() {
    let runtime = RuntimeBuilder::new().threads(1).build().expect("the system has threads");
    let make = |name: &str| runtime.new_driver(name).new_dispatcher(DispatcherBuilder::new()).expect("made");
    let (stuck, other) = (make("stuck"), make("other"));
    let gate = block(&stuck);
    let (sender, receiver) = channel();
    task(&other, move || sender.send(()).expect("it is awaited"));
    std::thread::sleep(Duration::from_millis(500));
    assert!(receiver.try_recv().is_err());
    assert_eq!((runtime.thread_count(), runtime.role("").added()), (1, 0));
    gate.open();
    within(&receiver, "the other");
    runtime.shutdown(HANG_LIMIT).expect("it shuts down");
}

/// What is posted to a pool whose threads come and go all the time runs, each once.
#[test]
fn nothing_is_lost_while_threads_come_and_go() {
    on_pools_with(
        || RuntimeBuilder::new().retire_threads_after(Duration::ZERO),
        |world| {
            let role = of(world);
            let targets: Vec<_> = (0..4).map(|nth| plain(world, &format!("target {nth}"))).collect();
            let (sender, receiver) = channel();
            for round in 0..300_u32 {
                let extra = make(world, "extra", sync_calls());
                for target in targets.iter().chain([&extra]) {
                    let sender = sender.clone();
                    task(target, move || sender.send(round).expect("it is awaited"));
                }
                (0..5).for_each(|_| assert_eq!(within(&receiver, "a task"), round));
                drop(extra);
            }
            world.wait_until("all extra threads to be retired", || role.added() == role.retired());
            assert_eq!(role.thread_count(), world.threads());
        },
    );
}
