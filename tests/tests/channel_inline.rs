//! Goal: a message runs its reader on the writer's thread when every rule allows it, and is queued otherwise.
//! Method: mostly on the foreground runtime, where "before the write returns" and "later" are plain facts of a log; the
//! rules about threads on pools.

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use common::{HANG, Log, add_up, pool_of, within};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{
    Channel, Dispatcher, DispatcherBuilder, DispatcherHandle, Message, Runtime, RuntimeBuilder, Status, current,
    current_driver,
};

/// A dispatcher of a driver of its own.
#[track_caller]
fn dispatcher(runtime: &Runtime, name: &str) -> Dispatcher {
    on(runtime, name, DispatcherBuilder::new())
}

#[track_caller]
fn on(runtime: &Runtime, name: &str, builder: DispatcherBuilder) -> Dispatcher {
    runtime.new_driver(name).new_dispatcher(builder.name(name)).expect("created")
}

/// Registers a read that runs `then` with the name of the dispatcher that is current.
#[track_caller]
fn on_message(end: &Channel, dispatcher: &DispatcherHandle, then: impl FnOnce(Result<(), Status>) + Send + 'static) {
    end.begin_read(dispatcher, then).expect("registered");
}

fn note(log: &Log, what: &'static str) -> impl FnOnce(Result<(), Status>) + Send + 'static {
    let log = log.clone();
    move |outcome| {
        let place = current().expect("a handler has a dispatcher");
        log.add(format!("{what} on {} {outcome:?}", place.name()));
    }
}

/// Runs `body` as a task of `dispatcher`.
#[track_caller]
fn as_task(dispatcher: &DispatcherHandle, body: impl FnOnce() + Send + 'static) {
    dispatcher.post_task(move |_| body()).expect("accepted");
}

/// R59, R66, promise 6.
///
/// Shows CH-R18, CH-R59, CH-R66.
#[test]
fn a_message_for_another_idle_driver_runs_before_the_write_returns() {
    let runtime = ForegroundRuntime::new();
    let (writer, reader) = (dispatcher(&runtime, "writer"), dispatcher(&runtime, "reader"));
    let (near, far) = Channel::pair();
    let log = Log::new();
    let entry = log.clone();
    on_message(&far, &reader, move |_| {
        let (dispatcher, driver) = (current().expect("current"), current_driver().expect("current"));
        entry.add(format!("read on {} of {}", dispatcher.name(), driver.name()));
    });
    let entry = log.clone();
    as_task(&writer, move || {
        near.write(Message::new()).expect("written");
        entry.add(format!("written on {}", current().expect("current").name()));
    });
    runtime.run_until_idle();
    assert_eq!(log.take(), ["read on reader of reader", "written on writer"]);
    assert_eq!(reader.dump().inlined, 1);
    add_up(&runtime);
}

/// R59, promise 5: the reader's driver is in the call stack.
///
/// Shows CH-R63.
#[test]
fn a_message_for_the_writers_own_driver_is_deferred() {
    let runtime = ForegroundRuntime::new();
    let driver = runtime.new_driver("both");
    let writer = driver.new_dispatcher(DispatcherBuilder::new().name("writer")).expect("created");
    for reader in [DispatcherBuilder::new().name("reader"), DispatcherBuilder::new().name("reader").unsynchronized()] {
        let reader = driver.new_dispatcher(reader).expect("created");
        let (near, far) = Channel::pair();
        let log = Log::new();
        on_message(&far, &reader, note(&log, "read"));
        let entry = log.clone();
        as_task(&writer, move || {
            near.write(Message::new()).expect("written");
            entry.add("written");
        });
        runtime.run_until_idle();
        assert_eq!(log.take(), ["written", "read on reader Ok(())"]);
    }
}

/// R65, and stricter than upstream: a thread outside never runs a handler, entered or not.
///
/// Shows CH-R62, CH-R65.
#[test]
fn a_message_from_a_thread_outside_is_deferred() {
    let runtime = ForegroundRuntime::new();
    let (other, reader) = (runtime.new_driver("other"), dispatcher(&runtime, "reader"));
    let (near, far) = Channel::pair();
    let log = Log::new();
    on_message(&far, &reader, note(&log, "first"));
    near.write(Message::new()).expect("written");
    assert!(log.is_empty());
    runtime.run_until_idle();
    assert_eq!(log.take(), ["first on reader Ok(())"]);
    drop(far.try_read());
    on_message(&far, &reader, note(&log, "second"));
    other.enter(|| near.write(Message::new()).expect("written"));
    assert!(log.is_empty());
    runtime.run_until_idle();
    assert_eq!(log.take(), ["second on reader Ok(())"]);
}

/// Promise 6: a thread of another runtime's pool is a thread outside.
#[test]
fn a_message_from_another_runtime_is_deferred() {
    let (one, two) = (ForegroundRuntime::new(), ForegroundRuntime::new());
    let (writer, reader) = (dispatcher(&one, "writer"), dispatcher(&two, "reader"));
    let (near, far) = Channel::pair();
    let log = Log::new();
    on_message(&far, &reader, note(&log, "read"));
    as_task(&writer, move || near.write(Message::new()).expect("written"));
    one.run_until_idle();
    assert!(log.is_empty());
    two.run_until_idle();
    assert_eq!(log.take(), ["read on reader Ok(())"]);
}

/// R64.
///
/// Shows CH-R64.
#[test]
fn the_last_hop_of_a_ring_is_deferred() {
    let runtime = ForegroundRuntime::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| dispatcher(&runtime, name));
    let (ab, from_a) = Channel::pair();
    let (bc, from_b) = Channel::pair();
    let (ca, from_c) = Channel::pair();
    let log = Log::new();
    let hop = |log: &Log, next: Channel| {
        let log = log.clone();
        move |_| {
            let name = current().expect("current").name().to_owned();
            log.add(format!("{name} begins"));
            next.write(Message::new()).expect("written");
            log.add(format!("{name} ends"));
        }
    };
    on_message(&from_a, &b, hop(&log, bc));
    on_message(&from_b, &c, hop(&log, ca));
    on_message(&from_c, &a, note(&log, "back"));
    as_task(&a, {
        let hop = hop(&log, ab);
        move || hop(Ok(()))
    });
    runtime.run_until_idle();
    assert_eq!(log.take(), ["a begins", "b begins", "c begins", "c ends", "b ends", "a ends", "back on a Ok(())"]);
}

/// Promise 3, better than R59: what is queued is never overtaken.
///
/// Shows CH-R59.
#[test]
fn a_message_never_overtakes_what_its_readers_dispatcher_has_queued() {
    let runtime = ForegroundRuntime::new();
    let (writer, reader) = (dispatcher(&runtime, "writer"), dispatcher(&runtime, "reader"));
    let (near, far) = Channel::pair();
    let log = Log::new();
    on_message(&far, &reader, note(&log, "read"));
    let (entry, home) = (log.clone(), reader.handle());
    as_task(&writer, move || {
        let task = entry.clone();
        as_task(&home, move || task.add("the task"));
        near.write(Message::new()).expect("written");
        entry.add("written");
    });
    runtime.run_until_idle();
    assert_eq!(log.take(), ["written", "the task", "read on reader Ok(())"]);
}

/// R33: a registration that is ready at once is not called inside of the call that registers it, and is no inline call.
///
/// Shows CH-R33, R166.
#[test]
fn a_registration_that_is_ready_at_once_is_deferred() {
    let runtime = ForegroundRuntime::new();
    let (one, reader) = (dispatcher(&runtime, "one"), dispatcher(&runtime, "reader"));
    let (near, far) = Channel::pair();
    let log = Log::new();
    let far = Arc::new(far);
    let (entry, home, end) = (log.clone(), reader.handle(), Arc::clone(&far));
    as_task(&one, move || {
        near.write(Message::new()).expect("written");
        on_message(&end, &home, note(&entry, "read"));
        entry.add("registered");
    });
    runtime.run_until_idle();
    assert_eq!(log.take(), ["registered", "read on reader Ok(())"]);
    assert_eq!(reader.dump().inlined, 0);
}

/// Promise 6: the depth of inline calls is bounded, and 0 switches them off.
#[test]
fn inline_calls_nest_as_deep_as_allowed_and_are_deferred_beyond() {
    for depth in [0, 1, 5] {
        let runtime = ForegroundRuntime::with(RuntimeBuilder::new().inline_depth(depth)).expect("created");
        let first = dispatcher(&runtime, "first");
        let deepest = Arc::new(AtomicUsize::new(0));
        let level = Arc::new(AtomicUsize::new(0));
        let (head, first_tail) = Channel::pair();
        let mut tails = vec![first_tail];
        // A chain of ten drivers, each of which writes to the next.
        for n in 0..10 {
            let (next, tail) = Channel::pair();
            let home = dispatcher(&runtime, &format!("driver {n}")).release();
            let (level, deepest) = (Arc::clone(&level), Arc::clone(&deepest));
            on_message(&tails[n], &home, move |_| {
                let now = level.fetch_add(1, Ordering::Relaxed) + 1;
                deepest.fetch_max(now, Ordering::Relaxed);
                let _ = next.write(Message::new());
                level.fetch_sub(1, Ordering::Relaxed);
            });
            tails.push(tail);
        }
        as_task(&first, move || head.write(Message::new()).expect("written"));
        runtime.run_until_idle();
        // The task of `first` is the first level of the stack, so one less fits above it; what is deferred starts anew,
        // with itself as the first.
        let expected = if depth == 0 { 1 } else { depth as usize };
        assert_eq!(deepest.load(Ordering::Relaxed), expected, "depth {depth}");
        add_up(&runtime);
    }
}

/// Promise 6.
#[test]
fn a_dispatcher_that_allows_sync_calls_is_entered_only_from_its_like() {
    let runtime = ForegroundRuntime::new();
    let reader = on(&runtime, "reader", DispatcherBuilder::new().allow_sync_calls());
    for (writer, expected) in [
        (DispatcherBuilder::new(), ["written", "read on reader Ok(())"]),
        (DispatcherBuilder::new().allow_sync_calls(), ["read on reader Ok(())", "written"]),
    ] {
        let writer = on(&runtime, "writer", writer);
        let (near, far) = Channel::pair();
        let log = Log::new();
        on_message(&far, &reader, note(&log, "read"));
        let entry = log.clone();
        as_task(&writer, move || {
            near.write(Message::new()).expect("written");
            entry.add("written");
        });
        runtime.run_until_idle();
        assert_eq!(log.take(), expected);
    }
}

/// Promise 6: the close is told under the same rules.
///
/// Shows CH-R54.
#[test]
fn closing_an_end_runs_the_peers_read_inline() {
    let runtime = ForegroundRuntime::new();
    let (closer, reader) = (dispatcher(&runtime, "closer"), dispatcher(&runtime, "reader"));
    let (near, far) = Channel::pair();
    let log = Log::new();
    on_message(&far, &reader, note(&log, "told"));
    let entry = log.clone();
    as_task(&closer, move || {
        drop(near);
        entry.add("closed");
    });
    runtime.run_until_idle();
    assert_eq!(log.take(), ["told on reader Err(PeerClosed)", "closed"]);
}

/// While a thread unwinds, no other driver's code runs on it.
#[test]
fn an_end_that_a_panic_closes_is_told_later() {
    let runtime = ForegroundRuntime::new();
    let (closer, reader) = (dispatcher(&runtime, "closer"), dispatcher(&runtime, "reader"));
    let (near, far) = Channel::pair();
    let log = Log::new();
    let entry = log.clone();
    on_message(&far, &reader, move |outcome| entry.add(format!("{outcome:?} {}", std::thread::panicking())));
    as_task(&closer, move || {
        let _near = near;
        panic!("on purpose");
    });
    runtime.run_until_idle();
    assert_eq!(log.take(), ["Err(PeerClosed) false"]);
    assert_eq!(reader.dump().inlined, 0);
}

/// A handler that runs inline while messages are being destroyed finds ends closed that it closes itself.
///
/// Shows CH-R28.
#[test]
fn handlers_that_run_while_messages_are_destroyed_see_their_own_closes_at_once() {
    let runtime = ForegroundRuntime::new();
    let (closer, reader) = (dispatcher(&runtime, "closer"), dispatcher(&runtime, "reader"));
    let (near, far) = Channel::pair();
    // The end of `kept` is inside of a message that is never read.
    let (kept, sent) = Channel::pair();
    near.write(Message::new().with(sent)).expect("written");
    let log = Log::new();
    let entry = log.clone();
    on_message(&kept, &reader, move |outcome| {
        let (inner_kept, inner_sent) = Channel::pair();
        let (carrier, carried) = Channel::pair();
        carrier.write(Message::new().with(inner_sent)).expect("written");
        drop((carrier, carried));
        entry.add(format!("{outcome:?}, inner closed: {}", inner_kept.is_peer_closed()));
    });
    let entry = log.clone();
    as_task(&closer, move || {
        drop(far);
        entry.add("closed");
    });
    runtime.run_until_idle();
    assert_eq!(log.take(), ["Err(PeerClosed), inner closed: true", "closed"]);
}

/// Promise 6 on a pool: the inline call is made by the writer's thread, which involves no other.
#[test]
fn an_inline_round_trip_stays_on_one_thread_of_a_pool() {
    let runtime = pool_of(2);
    let (client, server) = (dispatcher(&runtime, "client"), dispatcher(&runtime, "server"));
    let (near, far) = Channel::pair();
    let far = Arc::new(far);
    let (sender, receiver) = channel();
    let end = Arc::clone(&far);
    on_message(&far, &server, move |_| {
        let request = end.try_read().expect("a call stands for a message");
        let mut reply = request.recycle(8);
        reply.bytes_mut().fill(1);
        end.write(reply.with(fuchsine_dispatcher::Handle::value(std::thread::current().id()))).expect("written");
    });
    as_task(&client, move || {
        near.write(Message::with_len(64)).expect("written");
        let mut reply = near.try_read().expect("the server has answered before the write returned");
        let server_thread = reply.take_handles().remove(0).into_value::<std::thread::ThreadId>().expect("a thread");
        sender.send((server_thread, std::thread::current().id())).expect("the test waits");
    });
    let (server_thread, client_thread) = within(&receiver, "the round trip");
    assert_eq!(server_thread, client_thread);
    assert_eq!(server.dump().inlined, 1);
    runtime.shutdown(HANG).expect("in time");
    add_up(&runtime);
}

/// R59: a synchronized dispatcher that runs on another thread is not entered; R60: an unsynchronized one is.
///
/// Shows CH-R60.
#[test]
fn a_busy_dispatcher_is_entered_only_if_it_is_unsynchronized() {
    for is_synchronized in [true, false] {
        let runtime = pool_of(2);
        let builder = DispatcherBuilder::new();
        let reader = on(&runtime, "reader", if is_synchronized { builder } else { builder.unsynchronized() });
        let writer = dispatcher(&runtime, "writer");
        let (near, far) = Channel::pair();
        let log = Log::new();
        on_message(&far, &reader, note(&log, "read"));
        let (entered, is_inside) = channel();
        let (release, released) = channel::<()>();
        as_task(&reader, move || {
            entered.send(()).expect("the test waits");
            within(&released, "the release");
        });
        within(&is_inside, "the long callback");
        let (entry, (done, is_done)) = (log.clone(), channel());
        as_task(&writer, move || {
            near.write(Message::new()).expect("written");
            entry.add("written");
            done.send(()).expect("the test waits");
        });
        within(&is_done, "the write");
        release.send(()).expect("the callback waits");
        runtime.shutdown(HANG).expect("in time");
        let log = log.take();
        if is_synchronized {
            // Afterwards, or canceled by the shutdown: never during.
            assert_eq!(log[0], "written");
            assert_eq!(log.len(), 2);
        } else {
            assert_eq!(log, ["read on reader Ok(())", "written"]);
        }
        add_up(&runtime);
    }
}

/// Promise 2 with inline calls in the mix: two writers of two drivers, on two threads, never run a reader at once.
#[test]
fn inline_calls_from_many_threads_never_run_a_synchronized_reader_in_parallel() {
    const WRITES: usize = 2000;
    let runtime = pool_of(3);
    let reader = dispatcher(&runtime, "reader");
    // Unsynchronized state on purpose: a lock that is always free.
    let inside = Arc::new(Mutex::new(0usize));
    let reads = Arc::new(AtomicUsize::new(0));
    let (done, is_done) = channel();

    fn serve(
        end: Arc<Channel>,
        home: DispatcherHandle,
        inside: Arc<Mutex<usize>>,
        reads: Arc<AtomicUsize>,
        done: std::sync::mpsc::Sender<()>,
    ) {
        let again = (Arc::clone(&end), home.clone());
        let registered = end.begin_read(&home, move |outcome| {
            if outcome.is_err() {
                return;
            }
            {
                let mut count = inside.try_lock().expect("no other callback of this dispatcher runs");
                while again.0.try_read().is_ok() {
                    *count += 1;
                    if reads.fetch_add(1, Ordering::Relaxed) + 1 == 3 * WRITES {
                        let _ = done.send(());
                    }
                }
            }
            serve(again.0, again.1, inside, reads, done);
        });
        assert!(registered.is_ok() || registered.is_err_and(|refused| refused.status() != Status::BadState));
    }

    let mut open = Vec::new();
    for n in 0..3 {
        let writer = dispatcher(&runtime, &format!("writer {n}")).release();
        let (near, far) = Channel::pair();
        serve(Arc::new(far), reader.handle(), Arc::clone(&inside), Arc::clone(&reads), done.clone());
        fn write(near: Arc<Channel>, home: DispatcherHandle, left: usize) {
            let again = home.clone();
            let posted = home.post_task(move |outcome| {
                if outcome.is_ok() {
                    near.write(Message::new()).expect("the reader is open");
                    if left > 1 {
                        write(near, again, left - 1);
                    }
                }
            });
            assert!(posted.is_ok());
        }
        let near = Arc::new(near);
        write(Arc::clone(&near), writer, WRITES);
        // Open until all has been read, so that no reader is told of a close.
        open.push(near);
    }
    within(&is_done, "all reads");
    assert_eq!(*inside.lock().expect("no panic"), 3 * WRITES);
    runtime.shutdown(HANG).expect("in time");
    add_up(&runtime);
    assert_eq!(runtime.counters().pending, 0);
}
