//! Goal: the table by which a callback runs inside of the call that makes it ready, or later; each row of it.
//! Method: one exchange of a message for each row, on every kind of runtime where it makes sense: whether the handler has
//! run when the write returns is the answer. Busy dispatchers need a second thread.

mod conformance_support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{ThreadId, current};

use conformance_support::{Gate, Log, gate, make, noted, on_message, plain, task, write};
use fuchsine_dispatcher::{Channel, DispatcherBuilder, DispatcherHandle, Interest, Reason};
use fuchsine_tests::pools::{World, in_the_foreground, on_every_pool, on_every_pool_calling_inline, on_pools};

/// How a write is made.
#[derive(Debug, Clone, Copy)]
enum From {
    /// In a callback of the dispatcher.
    Callback,
    /// In a callback of the dispatcher, inside of another driver that was entered by hand.
    EnteredDriver,
    /// On the test's own thread.
    Outside,
}

/// Whether the handler of `target` runs inside of a write that is made so: on the writer's thread, before it returns.
#[track_caller]
fn runs_inline(world: &World, writer: &DispatcherHandle, from: From, target: &DispatcherHandle) -> bool {
    let (near, far) = Channel::pair();
    let ran_on: Arc<Mutex<Option<ThreadId>>> = Arc::default();
    let (told, seen) = (Arc::clone(&ran_on), Arc::clone(&ran_on));
    on_message(&far, target, move |_| *told.lock().expect("nobody panics") = Some(current().id()));
    let writing = move || {
        write(&near);
        *seen.lock().expect("nobody panics") == Some(current().id())
    };
    let between = world.driver("between");
    let inline = match from {
        From::Callback => world.run_on(writer, writing),
        From::EnteredDriver => world.run_on(writer, move || between.enter(writing)),
        From::Outside => writing(),
    };
    // Whoever closes the end first takes a deferred call back.
    world.wait_until("the handler", || ran_on.lock().expect("nobody panics").is_some());
    inline
}

fn synchronized() -> DispatcherBuilder {
    DispatcherBuilder::new()
}

fn unsynchronized() -> DispatcherBuilder {
    DispatcherBuilder::new().unsynchronized()
}

fn allowing() -> DispatcherBuilder {
    DispatcherBuilder::new().allow_sync_calls()
}

/// The only reason for which calls of this dispatcher were deferred.
fn reason(dispatcher: &DispatcherHandle) -> Option<Reason> {
    let dump = dispatcher.dump();
    let mut reasons = dump.deferred.into_iter().filter(|(_, count)| *count > 0).map(|(reason, _)| reason);
    let reason = reasons.next();
    assert_eq!(reasons.next(), None, "there is one reason");
    reason
}

/// Keeps a dispatcher busy until the gate opens.
#[track_caller]
fn busy(dispatcher: &DispatcherHandle) -> Gate {
    let (gate, keeper) = gate();
    task(dispatcher, move || keeper.pass());
    gate.wait();
    gate
}

/// Shows DT-1, CH-R59.
#[test]
fn a_message_of_another_driver_runs_inline_on_an_idle_synchronized_dispatcher() {
    on_every_pool_calling_inline(|world| {
        let (writer, target) = (plain(world, "writer"), plain(world, "target"));
        assert!(runs_inline(world, &writer, From::Callback, &target));
        assert_eq!((target.dump().inlined, reason(&target)), (1, None));
    });
}

/// Shows R57, DT-2.
#[test]
fn a_message_of_the_own_driver_is_deferred_also_between_two_dispatchers() {
    on_every_pool(|world| {
        let driver = world.driver("both");
        let make = |builder: DispatcherBuilder| driver.new_dispatcher(builder).expect("it is made");
        let writer = make(synchronized());
        for target in [make(synchronized()), make(unsynchronized())] {
            assert!(!runs_inline(world, &writer, From::Callback, &target));
            assert_eq!((target.dump().inlined, reason(&target)), (0, Some(Reason::Reentrant)));
        }
        // A driver in between does not help: every entry of the stack counts.
        let target = make(synchronized());
        assert!(!runs_inline(world, &writer, From::EnteredDriver, &target));
        assert_eq!(reason(&target), Some(Reason::Reentrant));
    });
}

/// Shows DT-16.
#[test]
fn a_message_from_a_thread_without_a_driver_is_deferred() {
    on_every_pool(|world| {
        let writer = plain(world, "writer");
        for target in [plain(world, "target"), make(world, "target", unsynchronized())] {
            let (near, far) = Channel::pair();
            let log = Log::default();
            let entry = log.clone();
            let test = std::thread::current().id();
            let is_foreground = world.is_foreground();
            on_message(&far, &target, move |_| {
                entry.add(if is_foreground || std::thread::current().id() != test { "read" } else { "inside" });
            });
            write(&near);
            world.wait_until("the read", || log.len() == 1);
            assert_eq!(log.take(), ["read"]);
            assert_eq!((target.dump().inlined, reason(&target)), (0, Some(Reason::OtherPool)));
        }
        assert!(!runs_inline(world, &writer, From::Outside, &plain(world, "another")));
    });
}

/// Shows R58, DT-7.
#[test]
fn a_dispatcher_that_allows_sync_calls_is_entered_by_its_like_only() {
    on_every_pool_calling_inline(|world| {
        for (writer, from, expected) in [
            (allowing(), From::Callback, true),
            (synchronized(), From::Callback, false),
            (unsynchronized(), From::Callback, false),
            // The dispatcher on top decides, and here there is none.
            (allowing(), From::EnteredDriver, false),
        ] {
            let (writer, target) = (make(world, "writer", writer), make(world, "target", allowing()));
            assert_eq!(runs_inline(world, &writer, from, &target), expected, "{from:?}");
            assert_eq!(reason(&target), (!expected).then_some(Reason::AllowSyncCalls));
            // It takes its thread with it.
            drop((writer, target));
            world.settle();
        }
    });
}

/// Shows R74, DT-5.
#[test]
fn an_unsynchronized_dispatcher_is_entered_idle_or_busy() {
    on_every_pool_calling_inline(|world| {
        let (writer, target) = (plain(world, "writer"), make(world, "target", unsynchronized()));
        assert!(runs_inline(world, &writer, From::Callback, &target));
        if world.threads() >= 2 {
            let gate = busy(&target);
            assert!(runs_inline(world, &writer, From::Callback, &target));
            gate.open();
        }
        assert_eq!(target.dump().inlined, 1 + u64::from(world.threads() >= 2));
    });
}

/// Writes a message to a reader that is held, so that its handler cannot have run when the write returns.
#[track_caller]
fn tell(world: &World, writer: &DispatcherHandle, target: &DispatcherHandle) -> Log {
    let (near, far) = Channel::pair();
    let (log, far) = (Log::default(), Arc::new(far));
    let (entry, end) = (log.clone(), Arc::clone(&far));
    on_message(&far, target, move |_| {
        entry.add("read");
        drop(end);
    });
    let told = log.clone();
    let before = world.run_on(writer, move || {
        write(&near);
        (told.len(), near)
    });
    assert_eq!(before.0, 0, "the handler ran although its dispatcher was busy");
    log
}

/// Shows R62.
#[test]
fn a_busy_synchronized_dispatcher_is_not_entered_whether_it_runs_on_the_pool_or_inline() {
    on_pools(|world| {
        if world.threads() < 2 {
            return;
        }
        let (writer, target) = (plain(world, "writer"), plain(world, "target"));
        let on_the_pool = busy(&target);
        let held = tell(world, &writer, &target);
        on_the_pool.open();
        world.wait_until("the handler", || held.len() == 1);
        assert_eq!((target.dump().inlined, reason(&target)), (0, Some(Reason::Parallel)));

        // Busy inside of somebody else's write.
        let (first, target) = (plain(world, "first"), plain(world, "target"));
        let (near, far) = Channel::pair();
        let (gate, keeper) = gate();
        on_message(&far, &target, move |_| keeper.pass());
        task(&first, move || write(&near));
        gate.wait();
        assert_eq!(target.dump().running.len(), 1, "an inline callback is a running one");
        let held = tell(world, &writer, &target);
        gate.open();
        world.wait_until("the handler", || held.len() == 1);
        assert_eq!((target.dump().inlined, reason(&target)), (1, Some(Reason::Parallel)));
        drop(far);
    });
}

/// Shows R59, U-1.
#[test]
fn an_inline_call_overtakes_nothing_that_is_queued() {
    on_every_pool(|world| {
        let (writer, target) = (plain(world, "writer"), plain(world, "target"));
        let (near, far) = Channel::pair();
        let log = Log::default();
        let entry = log.clone();
        on_message(&far, &target, move |_| entry.add("read"));
        let (entry, queue) = (log.clone(), target.handle());
        world.run_on(&writer, move || {
            noted(&queue, &entry, "task");
            write(&near);
        });
        world.wait_until("both", || log.len() == 2);
        assert_eq!(log.take(), ["task", "read"]);
        drop(far);
    });
}

/// Shows R80, DT-29, U-3.
#[test]
fn a_task_never_runs_inside_of_its_post_on_no_kind_of_dispatcher() {
    on_every_pool(|world| {
        let writer = plain(world, "writer");
        for target in [synchronized(), unsynchronized(), allowing()] {
            let target = make(world, "target", target);
            let queue = target.handle();
            // Another thread may run it at any time, but not this one inside of the post.
            let log = Log::default();
            let entry = log.clone();
            let here = world.run_on(&writer, move || {
                let here = std::thread::current().id();
                let inside = Arc::new(AtomicBool::new(true));
                let seen = Arc::clone(&inside);
                task(&queue, move || {
                    let is_inside = std::thread::current().id() == here && seen.load(Ordering::SeqCst);
                    entry.add(if is_inside { "inside" } else { "later" });
                });
                inside.store(false, Ordering::SeqCst);
                here
            });
            world.wait_until("the task", || log.len() == 1);
            assert_eq!(log.take(), ["later"], "{here:?}");
            assert_eq!(target.dump().inlined, 0);
        }
    });
}

/// Shows R63.
#[test]
fn what_an_inline_callback_queues_runs_after_the_write_has_returned() {
    on_every_pool_calling_inline(|world| {
        let (writer, target) = (plain(world, "writer"), plain(world, "target"));
        let (near, far) = Channel::pair();
        let log = Log::default();
        let (entry, queue) = (log.clone(), target.handle());
        on_message(&far, &target, move |_| {
            noted(&queue, &entry, "task");
            entry.add("read");
        });
        let entry = log.clone();
        let inside = world.run_on(&writer, move || {
            let here = std::thread::current().id();
            write(&near);
            entry.add("written");
            here
        });
        world.wait_until("the task", || log.len() == 3);
        let log = log.take();
        // On another thread the task may come before the write's own note; never before the end of the callback.
        assert_eq!(log[0], "read", "{log:?} {inside:?}");
        if world.threads() <= 1 {
            assert_eq!(log, ["read", "written", "task"]);
        }
        drop(far);
    });
}

/// Shows R64, R75, DT-10.
#[test]
fn threads_do_not_wait_for_a_dispatcher_that_is_busy_inline() {
    on_pools(|world| {
        if world.threads() < 2 {
            return;
        }
        let (writer, target, other) = (plain(world, "writer"), plain(world, "target"), plain(world, "other"));
        let (near, far) = Channel::pair();
        let (gate, keeper) = gate();
        on_message(&far, &target, move |_| keeper.pass());
        task(&writer, move || write(&near));
        gate.wait();
        let log = Log::default();
        for nth in 0..5 {
            noted(&target, &log, format!("held {nth}"));
        }
        // With two threads there is one left, and it is not stuck in `target`.
        for _ in 0..20 {
            world.run_on(&other, || ());
        }
        assert_eq!(log.len(), 0);
        gate.open();
        world.wait_until("what was held", || log.len() == 5);
        assert_eq!(log.take(), ["held 0", "held 1", "held 2", "held 3", "held 4"]);
        drop(far);
    });
}

/// Shows R61.
#[test]
fn the_news_that_a_peer_closed_runs_inline_too() {
    on_every_pool_calling_inline(|world| {
        let (closer, target) = (plain(world, "closer"), plain(world, "target"));
        let (near, far) = Channel::pair();
        let log = Log::default();
        let entry = log.clone();
        on_message(&far, &target, move |outcome| entry.add(format!("{outcome:?}")));
        let entry = log.clone();
        world.run_on(&closer, move || {
            drop(near);
            entry.add("closed");
        });
        assert_eq!(log.take(), ["Err(PeerClosed)", "closed"]);
        assert_eq!(target.dump().inlined, 1);
    });
}

/// The sockets of the simulation: what a wait takes an event from without the system.
fn sim_streams(
    world: &World,
) -> (fuchsine_dispatcher::testing::sim::Stream, fuchsine_dispatcher::testing::sim::Stream) {
    let net = world.runtime().sim_net().expect("the descriptors of a foreground runtime are simulated");
    let listener = net.listen("127.0.0.1:7").expect("the port is free");
    let near = net.connect("127.0.0.1:7").expect("somebody listens");
    let far = listener.accept().expect("somebody connected");
    (near, far)
}

/// Shows U-4, CH-R61.
#[test]
fn a_wait_runs_where_its_event_is_taken_unless_the_dispatcher_allows_sync_calls() {
    in_the_foreground(|world| {
        let (near, far) = sim_streams(world);
        for (builder, expected) in
            [(synchronized(), None), (unsynchronized(), None), (allowing(), Some(Reason::AllowSyncCalls))]
        {
            let target = make(world, "target", builder);
            let log = Log::default();
            let entry = log.clone();
            target
                .begin_wait(&near, Interest::READABLE, move |outcome| entry.add(format!("{}", outcome.is_ok())))
                .expect("it can be waited for");
            far.write(b"!").expect("there is room");
            world.settle();
            assert_eq!(log.take(), ["true"]);
            let inlined = u64::from(expected.is_none());
            assert_eq!((target.dump().inlined, reason(&target)), (inlined, expected));
            let mut byte = [0];
            near.read(&mut byte).expect("it is there");
        }
    });
}

/// Shows R60.
#[test]
fn nested_inline_calls_have_a_bounded_depth_beyond_which_they_are_deferred() {
    in_the_foreground(|world| {
        let dispatchers: Vec<_> = (0..40).map(|nth| plain(world, &nth.to_string())).collect();
        let (nears, fars): (Vec<_>, Vec<_>) = (0..40).map(|_| Channel::pair()).unzip();
        let nears: Vec<_> = nears.into_iter().map(Arc::new).collect();
        let log = Log::default();
        for (nth, far) in fars.iter().enumerate() {
            let (entry, next) = (log.clone(), Arc::clone(&nears[(nth + 1) % 40]));
            on_message(far, &dispatchers[nth], move |_| {
                entry.add(format!("in {nth}"));
                write(&next);
                entry.add(format!("out {nth}"));
            });
        }
        let first = Arc::clone(&nears[0]);
        let start = plain(world, "start");
        task(&start, move || write(&first));
        world.settle();
        let log = log.take();
        assert_eq!(log.len(), 80);
        // The task is one deep already, so fifteen fit above it.
        let deepest = log.iter().position(|entry| entry.starts_with("out")).expect("calls return");
        assert_eq!(deepest, 15);
        assert_eq!(reason(&dispatchers[15]), Some(Reason::Depth));
    });
}
