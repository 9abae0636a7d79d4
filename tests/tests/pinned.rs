//! Goal: a dispatcher without thread migration keeps everything of it on one thread, and that thread is never blocked.
//! Method: threads are noted wherever code of the user runs or is dropped, and compared at the end; what would hang if a
//! promise were broken has a hang limit.

mod common;

use std::cell::Cell;
use std::collections::HashSet;
use std::future::{pending, poll_fn};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread::ThreadId;
use std::time::Duration;

use common::{HANG, Log, add_up, pool_of, within};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{
    Channel, Dispatcher, DispatcherBuilder, Driver, Interest, Lane, Message, Reason, Runtime, RuntimeBuilder, Status,
    blocking, current,
};

/// The threads that something was seen on.
#[derive(Clone, Default)]
struct Threads(Arc<Mutex<HashSet<ThreadId>>>);

impl Threads {
    fn note(&self) {
        self.0.lock().unwrap().insert(std::thread::current().id());
    }

    fn all(&self) -> HashSet<ThreadId> {
        self.0.lock().unwrap().clone()
    }

    #[track_caller]
    fn one(&self) -> ThreadId {
        let all = self.all();
        assert_eq!(all.len(), 1, "one thread was expected");
        *all.iter().next().unwrap()
    }

    /// Something whose drop is noted.
    fn on_drop(&self) -> NoteOnDrop {
        NoteOnDrop(self.clone())
    }
}

struct NoteOnDrop(Threads);

impl Drop for NoteOnDrop {
    fn drop(&mut self) {
        self.0.note();
    }
}

fn pinned(driver: &Driver) -> Dispatcher {
    driver.new_dispatcher(DispatcherBuilder::new().name("pinned").no_thread_migration()).expect("created")
}

fn end(runtime: &Runtime) {
    runtime.shutdown(HANG).expect("the runtime shuts down");
    add_up(runtime);
    assert_eq!(runtime.counters().pending, 0);
}

/// Shows R24.
#[test]
fn whether_a_dispatcher_may_migrate_can_be_asked() {
    let runtime = ForegroundRuntime::new();
    let driver = runtime.new_driver("driver");
    assert!(!pinned(&driver).allows_thread_migration());
    assert!(driver.new_dispatcher(DispatcherBuilder::new()).expect("created").allows_thread_migration());
}

/// Shows R27.
#[test]
fn no_thread_migration_goes_with_neither_unsynchronized_nor_sync_calls() {
    let runtime = pool_of(1);
    let driver = runtime.new_driver("driver");
    let builder = || DispatcherBuilder::new().no_thread_migration();
    for refused in [builder().unsynchronized(), builder().allow_sync_calls()] {
        let error = driver.new_dispatcher(refused).expect_err("not supported");
        assert_eq!(error.status(), Status::NotSupported);
        assert!(error.to_string().contains("without thread migration"), "{error}");
    }
    assert_eq!(runtime.thread_count(), 1, "nothing stays behind");
    end(&runtime);
}

/// Shows R41, R76.
#[test]
fn callbacks_canceled_ones_drops_and_the_observer_run_on_one_thread() {
    for threads in [1, 2, 8] {
        let runtime = pool_of(threads);
        let driver = runtime.new_driver("driver");
        let seen = Threads::default();
        let observer = {
            let (seen, dropped) = (seen.clone(), seen.on_drop());
            move || {
                let _dropped = dropped;
                seen.note()
            }
        };
        let builder = DispatcherBuilder::new().no_thread_migration().shutdown_observer(observer);
        let dispatcher = driver.new_dispatcher(builder).expect("created");
        let plain = driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
        let (done, all_done) = channel();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let (noting, dropped, done) = (seen.clone(), seen.on_drop(), done.clone());
                        let task = move |_: Result<(), _>| {
                            let _dropped = dropped;
                            noting.note();
                            let _ = done.send(());
                        };
                        // From outside, and from other threads of the pool.
                        let pinned = dispatcher.handle();
                        plain.post_task(move |_| pinned.post_task(task).expect("accepted")).expect("accepted");
                    }
                });
            }
        });
        let (noting, done_offload) = (seen.clone(), done.clone());
        let _work = dispatcher
            .offload(
                Lane::Fast,
                |_| (),
                move |_| {
                    noting.note();
                    let _ = done_offload.send(());
                },
            )
            .expect("accepted");
        let (noting, done_delayed) = (seen.clone(), done.clone());
        let _timer = dispatcher
            .post_after(Duration::from_millis(1), move |_| {
                noting.note();
                let _ = done_delayed.send(());
            })
            .expect("accepted");
        for _ in 0..302 {
            within(&all_done, "a callback");
        }
        for _ in 0..20 {
            let (noting, dropped) = (seen.clone(), seen.on_drop());
            let far = Duration::from_secs(3600);
            let _timer = dispatcher.post_after(far, move |outcome| {
                let _dropped = dropped;
                assert!(outcome.is_err());
                noting.note();
            });
            let (noting, dropped) = (seen.clone(), seen.on_drop());
            let _future = dispatcher.spawn(async move {
                let _dropped = dropped;
                noting.note();
                pending::<()>().await;
            });
        }
        drop(dispatcher);
        end(&runtime);
        seen.one();
    }
}

/// Whoever takes an event, or shuts the dispatcher down, the handler runs on its thread and is dropped there.
#[test]
fn waits_irqs_and_reads_are_told_and_canceled_on_one_thread() {
    for threads in [1, 2, 8] {
        let runtime = pool_of(threads);
        let driver = runtime.new_driver("driver");
        // Elsewhere, so that the threads of the pool are awake and take events.
        let busy = driver.new_dispatcher(DispatcherBuilder::new().unsynchronized()).expect("created");
        let dispatcher = pinned(&driver);
        let seen = Threads::default();
        let (done, all_done) = channel();
        let told = || {
            let (noting, dropped, done) = (seen.clone(), seen.on_drop(), done.clone());
            move || {
                let _dropped = &dropped;
                noting.note();
                let _ = done.send(());
            }
        };
        let (irq, trigger) = dispatcher.new_irq().expect("there is a descriptor");
        let irq_told = told();
        let bound = dispatcher.bind_irq(&irq, move |event| {
            irq_told();
            if let Ok(event) = event {
                event.ack();
            }
        });
        assert!(bound.is_ok());
        let mut kept = Vec::new();
        for _ in 0..50 {
            busy.post_task(|_| ()).expect("accepted");
            let (ready, mut writer) = UnixStream::pair().expect("there are descriptors");
            let wait_told = told();
            let wait = dispatcher.begin_wait(&ready, Interest::READABLE, move |_| wait_told());
            let (near, far) = Channel::pair();
            let read_told = told();
            far.begin_read(&dispatcher, move |_| read_told()).expect("registered");
            writer.write_all(b"x").expect("written");
            near.write(message()).expect("written");
            trigger.trigger();
            for _ in 0..3 {
                within(&all_done, "an event");
            }
            kept.push((ready, writer, wait.expect("armed"), near, far));
        }
        // What never comes is canceled.
        let (silent, _writer) = UnixStream::pair().expect("there are descriptors");
        let wait_told = told();
        let _wait = dispatcher.begin_wait(&silent, Interest::READABLE, move |_| wait_told()).expect("armed");
        let (_near, far) = Channel::pair();
        let read_told = told();
        far.begin_read(&dispatcher, move |_| read_told()).expect("registered");
        drop(dispatcher);
        for _ in 0..3 {
            within(&all_done, "a cancellation");
        }
        end(&runtime);
        seen.one();
    }
}

#[test]
fn pinned_dispatchers_are_spread_over_the_base_threads_and_the_place_is_given_back() {
    let runtime = pool_of(2);
    let driver = runtime.new_driver("driver");
    let thread_of = |dispatcher: &Dispatcher| {
        let (sender, receiver) = channel();
        dispatcher.post_task(move |_| sender.send(std::thread::current().id()).unwrap()).expect("accepted");
        within(&receiver, "the thread")
    };
    let (first, second) = (pinned(&driver), pinned(&driver));
    assert_ne!(thread_of(&first), thread_of(&second));
    let third = pinned(&driver);
    let (gone, is_gone) = channel();
    let observed = DispatcherBuilder::new().no_thread_migration().shutdown_observer(move || gone.send(()).unwrap());
    let fourth = driver.new_dispatcher(observed).expect("created");
    let given_back = thread_of(&fourth);
    assert_ne!(thread_of(&third), given_back, "two on each");
    drop(fourth);
    within(&is_gone, "the observer");
    // The place is given back right after the observer; only then is the dispatcher off the driver's list.
    while driver.dispatchers().len() > 3 {
        std::thread::yield_now();
    }
    assert_eq!(thread_of(&pinned(&driver)), given_back, "it has the fewest");
    end(&runtime);
}

/// The callback of the blocking dispatcher waits for one of the pinned dispatcher: on one thread that would hang.
#[test]
fn what_may_block_never_runs_on_the_thread_of_a_pinned_dispatcher() {
    for threads in [1, 2, 4] {
        let runtime = pool_of(threads);
        let driver = runtime.new_driver("driver");
        let blocks =
            || driver.new_dispatcher(DispatcherBuilder::new().name("blocks").allow_sync_calls()).expect("created");
        let blocking_before = blocks();
        let all_pinned: Vec<_> = (0..threads).map(|_| pinned(&driver)).collect();
        let blocking_after = blocks();
        let (hosts, blockers) = (Threads::default(), Threads::default());
        let (done, all_done) = channel();
        let rounds = 100;
        for round in 0..rounds {
            for blocks in [&blocking_before, &blocking_after] {
                let target = all_pinned[round % threads].handle();
                let (hosts, blockers, done) = (hosts.clone(), blockers.clone(), done.clone());
                let task = move |_| {
                    blockers.note();
                    let (reply, replied) = channel();
                    target
                        .post_task(move |_| {
                            hosts.note();
                            reply.send(()).unwrap()
                        })
                        .expect("accepted");
                    blocking(|| within(&replied, "the pinned callback")).expect("it may block");
                    done.send(()).unwrap();
                };
                // From outside and from a host: what a host makes runnable is handed to another thread.
                let blocks = blocks.handle();
                match round % 2 {
                    0 => blocks.post_task(task).expect("accepted"),
                    _ => all_pinned[0].post_task(move |_| blocks.post_task(task).expect("accepted")).expect("accepted"),
                }
            }
        }
        for _ in 0..2 * rounds {
            within(&all_done, "a blocking callback");
        }
        assert_eq!(hosts.all().len(), threads);
        assert!(hosts.all().is_disjoint(&blockers.all()));
        drop(all_pinned);
        end(&runtime);
    }
}

/// The pool of a role ends with its last dispatcher, whose thread may be the one that is told last.
#[test]
fn pinned_dispatchers_of_a_role_come_and_go_with_its_pool() {
    let runtime = pool_of(1);
    let driver = runtime.new_driver("driver");
    for round in 0..30 {
        let seen = Threads::default();
        let (noting, (gone, is_gone)) = (seen.clone(), channel());
        let builder = DispatcherBuilder::new().scheduler_role("display").no_thread_migration();
        let builder = builder.shutdown_observer(move || {
            noting.note();
            let _ = gone.send(());
        });
        let dispatcher = driver.new_dispatcher(builder).expect("created");
        let (noting, (sender, receiver)) = (seen.clone(), channel());
        let task = move |_| {
            noting.note();
            sender.send(()).unwrap();
        };
        dispatcher.post_task(task).expect("accepted");
        within(&receiver, "a visit");
        drop(dispatcher);
        // Sometimes the next one finds the pool there, sometimes not.
        if round % 2 == 0 {
            within(&is_gone, "the observer");
        }
        seen.one();
    }
    end(&runtime);
}

/// All base threads host something and no thread is reserved, so the watch has to add one.
#[test]
fn in_dynamic_mode_a_thread_is_added_for_what_no_host_may_run() {
    let runtime = RuntimeBuilder::new().threads(1).dynamic_threads().build().expect("the system has threads");
    let driver = runtime.new_driver("driver");
    let dispatcher = pinned(&driver);
    let blocks = driver.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("created");
    assert_eq!(runtime.thread_count(), 1, "none is added before it is needed");
    let (hosts, blockers) = (Threads::default(), Threads::default());
    for _ in 0..3 {
        let (hosts, blockers, (sender, receiver)) = (hosts.clone(), blockers.clone(), channel());
        let handle = blocks.handle();
        dispatcher
            .post_task(move |_| {
                hosts.note();
                let blocking = handle.post_task(move |_| {
                    blockers.note();
                    sender.send(()).unwrap();
                });
                blocking.expect("accepted");
            })
            .expect("accepted");
        within(&receiver, "a thread for the blocking dispatcher");
    }
    assert!(hosts.all().is_disjoint(&blockers.all()));
    end(&runtime);
}

/// Shows U-18, R41.
#[test]
fn a_pinned_dispatcher_keeps_its_thread_whatever_threads_its_pool_has_had_and_gets() {
    let runtime = pool_of(2);
    let driver = runtime.new_driver("driver");
    let blocks = || driver.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("created");
    let visit = |dispatcher: &Dispatcher, seen: &Threads| {
        let (seen, (sender, receiver)) = (seen.clone(), channel());
        dispatcher
            .post_task(move |_| {
                seen.note();
                sender.send(()).unwrap();
            })
            .expect("accepted");
        within(&receiver, "a visit");
    };
    // Extra threads are there before it, come while it is there, and some of them go.
    let mut blocking_ones: Vec<_> = (0..3).map(|_| blocks()).collect();
    let elsewhere = Threads::default();
    blocking_ones.iter().for_each(|one| visit(one, &elsewhere));
    let dispatcher = pinned(&driver);
    let (seen, elsewhere) = (Threads::default(), Threads::default());
    for round in 0..50 {
        visit(&dispatcher, &seen);
        match round % 3 {
            0 => blocking_ones.push(blocks()),
            _ => drop(blocking_ones.pop()),
        }
        blocking_ones.iter().for_each(|one| visit(one, &elsewhere));
        // From a callback that may block, which is on another thread.
        if let Some(one) = blocking_ones.first() {
            let (handle, noting, (sender, receiver)) = (dispatcher.handle(), seen.clone(), channel());
            let visiting = move |_| {
                let visited = handle.post_task(move |_| {
                    noting.note();
                    sender.send(()).unwrap();
                });
                visited.expect("accepted");
            };
            one.post_task(visiting).expect("accepted");
            within(&receiver, "a visit from a blocking dispatcher");
        }
    }
    assert!(!elsewhere.all().contains(&seen.one()));
    end(&runtime);
}

#[test]
fn a_thread_may_be_blocked_again_when_nothing_is_pinned_to_it_any_more() {
    let runtime = pool_of(1);
    let driver = runtime.new_driver("driver");
    for _ in 0..20 {
        let (gone, is_gone) = channel();
        let builder = DispatcherBuilder::new().no_thread_migration().shutdown_observer(move || gone.send(()).unwrap());
        let hosted = driver.new_dispatcher(builder).expect("created");
        let blocks = driver.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("created");
        let (sender, receiver) = channel();
        let posting = blocks.handle();
        let post = move |_| {
            posting
                .post_task(move |_| {
                    let _ = sender.send(());
                })
                .expect("accepted")
        };
        hosted.post_task(post).expect("accepted");
        drop(hosted);
        within(&is_gone, "the observer");
        // Refused or canceled or run: whatever the shutdown left of it ends.
        drop(receiver);
        let (sender, receiver) = channel();
        blocks.post_task(move |_| sender.send(()).unwrap()).expect("accepted");
        within(&receiver, "a callback of the blocking dispatcher");
    }
    end(&runtime);
}

#[test]
fn other_dispatchers_run_elsewhere_while_a_pinned_callback_takes_long() {
    let runtime = pool_of(2);
    let driver = runtime.new_driver("driver");
    let dispatcher = pinned(&driver);
    let plain: Vec<_> = (0..4).map(|_| driver.new_dispatcher(DispatcherBuilder::new()).expect("created")).collect();
    let handles: Vec<_> = plain.iter().map(|one| one.handle()).collect();
    let (done, is_done) = channel();
    dispatcher
        .post_task(move |_| {
            let (ran, all_ran) = channel();
            for plain in handles {
                let ran = ran.clone();
                plain.post_task(move |_| ran.send(()).unwrap()).expect("accepted");
            }
            for _ in 0..4 {
                within(&all_ran, "a callback that another thread can run");
            }
            done.send(()).unwrap();
        })
        .expect("accepted");
    within(&is_done, "the long callback");
    end(&runtime);
}

/// A reader of another driver, and the channel that is read there.
fn reader(runtime: &Runtime, builder: DispatcherBuilder, log: &Log) -> (Dispatcher, Channel) {
    let driver = runtime.new_driver("reader");
    let dispatcher = driver.new_dispatcher(builder).expect("created");
    let (near, far) = Channel::pair();
    let far = Arc::new(far);
    let (log, reading) = (log.clone(), Arc::clone(&far));
    far.begin_read(&dispatcher, move |outcome| {
        if outcome.is_ok() {
            log.add("read");
            let _ = reading.try_read();
        }
    })
    .expect("registered");
    (dispatcher, near)
}

fn message() -> Message {
    Message::new()
}

#[test]
fn a_message_runs_inline_on_the_thread_of_a_pinned_dispatcher() {
    let runtime = pool_of(1);
    let log = Log::new();
    let (target, near) = reader(&runtime, DispatcherBuilder::new().no_thread_migration(), &log);
    let writer = pinned(&runtime.new_driver("writer"));
    let (done, is_done) = channel();
    let writing = log.clone();
    writer
        .post_task(move |_| {
            near.write(message()).expect("written");
            writing.add("written");
            done.send(near).unwrap();
        })
        .expect("accepted");
    drop(within(&is_done, "the write"));
    assert_eq!(log.take(), ["read", "written"]);
    assert_eq!(target.dump().inlined, 1);
    end(&runtime);
}

#[test]
fn a_message_from_another_thread_is_deferred_and_says_so() {
    let runtime = pool_of(2);
    let log = Log::new();
    let (target, near) = reader(&runtime, DispatcherBuilder::new().no_thread_migration(), &log);
    // The other base thread hosts the writer.
    let writer = pinned(&runtime.new_driver("writer"));
    let (done, is_done) = channel();
    let (held, release) = channel::<()>();
    // The target's thread is held, so that the order is known.
    let (entered, is_held) = channel();
    target
        .post_task(move |_| {
            entered.send(()).unwrap();
            let _ = release.recv_timeout(HANG);
        })
        .expect("accepted");
    within(&is_held, "the target's thread");
    let writing = log.clone();
    writer
        .post_task(move |_| {
            near.write(message()).expect("written");
            writing.add("written");
            held.send(()).unwrap();
            done.send(near).unwrap();
        })
        .expect("accepted");
    let near = within(&is_done, "the write");
    let (read, is_read) = channel();
    target.post_task(move |_| read.send(()).unwrap()).expect("accepted");
    within(&is_read, "what is behind the read");
    assert_eq!(log.take(), ["written", "read"]);
    let dump = target.dump();
    let pinned_count =
        dump.deferred.iter().find(|(reason, _)| *reason == Reason::Pinned).map_or(0, |(_, count)| *count);
    assert_eq!((dump.inlined, pinned_count), (0, 1));
    drop(near);
    end(&runtime);
}

#[test]
fn in_the_foreground_everything_pinned_stays_with_who_turns_the_crank() {
    let runtime = ForegroundRuntime::new();
    let driver = runtime.new_driver("driver");
    let dispatcher = pinned(&driver);
    let plain = driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
    let log = Log::new();
    for turn in 0..3 {
        let (one, other) = (log.clone(), log.clone());
        dispatcher.post_task(move |_| one.add(format!("pinned {turn}"))).expect("accepted");
        plain.post_task(move |_| other.add(format!("plain {turn}"))).expect("accepted");
        runtime.run_until_idle();
    }
    assert_eq!(log.take(), ["pinned 0", "plain 0", "pinned 1", "plain 1", "pinned 2", "plain 2"]);
    dispatcher.post_task(|_| ()).expect("accepted");
    std::thread::scope(|scope| {
        let other_hand = scope.spawn(|| runtime.run_until_idle());
        let panic = other_hand.join().expect_err("another thread must not run it");
        let text = panic.downcast_ref::<&str>().expect("a sentence");
        assert!(text.contains("without thread migration"), "{text}");
    });
    runtime.shutdown().expect("nothing is lost");
    assert_eq!(runtime.counters().pending, 0);
}

#[test]
fn in_the_foreground_what_may_block_writes_to_a_pinned_reader_that_stays_with_the_crank() {
    let runtime = ForegroundRuntime::new();
    let (pinned_on, blocking_on) = (Threads::default(), Threads::default());
    let reader = runtime.new_driver("reader");
    let target = reader.new_dispatcher(DispatcherBuilder::new().no_thread_migration()).expect("created");
    let writer = runtime.new_driver("writer");
    let blocks = writer.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("created");
    for _ in 0..3 {
        let (near, far) = Channel::pair();
        let noting = pinned_on.clone();
        far.begin_read(&target, move |outcome| {
            noting.note();
            assert!(outcome.is_ok());
        })
        .expect("registered");
        let noting = blocking_on.clone();
        blocks
            .post_task(move |_| {
                noting.note();
                near.write(message()).expect("written");
            })
            .expect("accepted");
        runtime.run_until_idle();
    }
    assert_eq!(pinned_on.one(), std::thread::current().id());
    assert!(!blocking_on.all().contains(&std::thread::current().id()), "it runs on a helper");
    assert_eq!(target.dump().inlined, 0);
}

/// Shows RX-4, RX-6.
#[test]
fn a_local_future_is_refused_where_it_could_move() {
    let runtime = ForegroundRuntime::new();
    let driver = runtime.new_driver("driver");
    let dispatcher = pinned(&driver);
    let plain = driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
    let log = Log::new();
    // Outside of any callback.
    let refused = dispatcher.spawn_local(async { Rc::new(7) }).expect_err("it is not current");
    assert_eq!(refused.status(), Status::BadState);
    assert!(refused.to_string().contains("without thread migration"), "{refused}");
    let (entry, here) = (log.clone(), plain.handle());
    let elsewhere = dispatcher.handle();
    plain
        .post_task(move |_| {
            // On a dispatcher that may migrate, and on another one than its own.
            let given = Rc::new(Cell::new(0));
            let lent = Rc::clone(&given);
            let refused = here.spawn_local(async move { lent.set(1) }).expect_err("it may migrate");
            assert_eq!(Rc::strong_count(&given), 2, "the future is given back");
            drop(refused.into_inner());
            assert_eq!((Rc::strong_count(&given), given.get()), (1, 0));
            let status = elsewhere.spawn_local(async {}).expect_err("it is not current").into_status();
            entry.add(status.to_string());
        })
        .expect("accepted");
    let (entry, here) = (log.clone(), dispatcher.handle());
    dispatcher
        .post_task(move |_| {
            here.shutdown_async();
            let refused = here.spawn_local(async {}).expect_err("it shuts down");
            assert!(refused.to_string().contains("shuts down"), "{refused}");
            entry.add(refused.into_status().to_string());
        })
        .expect("accepted");
    runtime.run_until_idle();
    assert_eq!(log.take(), [Status::BadState.to_string(), Status::BadState.to_string()]);
}

/// A local future that notes where it is polled and dropped, and shows its waker.
fn show_waker(seen: &Threads, wakers: &Arc<Mutex<Vec<Waker>>>, polls: u32) -> impl Future<Output = u32> + use<> {
    let dropped = seen.on_drop();
    let (noting, wakers) = (seen.clone(), Arc::clone(wakers));
    let count = Rc::new(Cell::new(0));
    poll_fn(move |cx| {
        let _of_the_future = &dropped;
        noting.note();
        count.set(count.get() + 1);
        if count.get() == polls {
            return Poll::Ready(count.get());
        }
        wakers.lock().unwrap().push(cx.waker().clone());
        Poll::Pending
    })
}

/// Shows RX-5, W3.
#[test]
fn a_local_future_is_polled_and_dropped_on_its_thread_whoever_wakes_or_cancels_it() {
    for threads in [1, 2, 8] {
        let runtime = pool_of(threads);
        let dispatcher = pinned(&runtime.new_driver("driver"));
        let (seen, wakers) = (Threads::default(), Arc::new(Mutex::new(Vec::new())));
        let (sender, receiver) = channel();
        let (noting, waking) = (seen.clone(), Arc::clone(&wakers));
        dispatcher
            .post_task(move |_| {
                let here = current().expect("on a dispatcher");
                let finishes = here.spawn_local(show_waker(&noting, &waking, 4)).expect("accepted");
                let canceled = here.spawn_local(show_waker(&noting, &waking, u32::MAX)).expect("accepted");
                let left = here.spawn_local(show_waker(&noting, &waking, u32::MAX)).expect("accepted");
                sender.send((finishes, canceled, left)).unwrap();
            })
            .expect("accepted");
        let (finishes, canceled, left) = within(&receiver, "the handles");
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let shown = std::mem::take(&mut *wakers.lock().unwrap());
                        shown.into_iter().for_each(Waker::wake);
                        std::thread::yield_now();
                    }
                });
            }
        });
        canceled.cancel();
        while !finishes.is_finished() {
            wakers.lock().unwrap().drain(..).for_each(Waker::wake);
            std::thread::yield_now();
        }
        drop(dispatcher);
        end(&runtime);
        assert!(left.is_finished());
        // Late wakers are harmless, and are dropped here.
        wakers.lock().unwrap().drain(..).for_each(Waker::wake);
        let thread = seen.one();
        assert_ne!(thread, std::thread::current().id());
    }
}

#[test]
fn the_result_of_a_local_future_is_joined_from_elsewhere() {
    let runtime = pool_of(2);
    let driver = runtime.new_driver("driver");
    let (dispatcher, other) = (pinned(&driver), driver.new_dispatcher(DispatcherBuilder::new()).expect("created"));
    let (sender, receiver) = channel();
    dispatcher
        .post_task(move |_| {
            let joined = current().expect("here").spawn_local(async {
                let local = Rc::new(41);
                let there = Rc::clone(&local);
                // Two local futures share what only this thread touches.
                let inner = current().expect("here").spawn_local(async move { *there }).expect("accepted");
                inner.await.expect("it finishes") + Rc::strong_count(&local)
            });
            sender.send(joined.expect("accepted")).unwrap();
        })
        .expect("accepted");
    let joined = within(&receiver, "the handle");
    let (sender, receiver) = channel();
    let _waits = other.spawn(async move { sender.send(joined.await).unwrap() }).expect("accepted");
    assert_eq!(within(&receiver, "the result"), Ok(42));
    end(&runtime);
}

/// Shows R76.
#[test]
fn thread_local_values_hold_on_a_pinned_dispatcher() {
    thread_local!(static COUNT: Cell<u32> = const { Cell::new(0) });
    let runtime = pool_of(4);
    let dispatcher = pinned(&runtime.new_driver("driver"));
    let (sender, receiver) = channel();
    for _ in 0..200 {
        let sender = sender.clone();
        dispatcher
            .post_task(move |_| sender.send(COUNT.with(|count| count.replace(count.get() + 1))).unwrap())
            .expect("accepted");
        std::thread::yield_now();
    }
    for expected in 0..200 {
        assert_eq!(within(&receiver, "a count"), expected);
    }
    end(&runtime);
}
