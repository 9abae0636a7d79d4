//! Goal: order, batches and fairness of what is queued, by the rules of Fuchsia's driver runtime.
//! Method: floods and long callbacks, on the foreground runtime where the order of turns is the point, and on pools.

mod conformance_support;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use conformance_support::{Log, gate, make, noted, on_message, plain, task, write};
use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_dispatcher::{Channel, DispatcherBuilder, DispatcherHandle, Interest, RuntimeBuilder, Status, TaskHandle};
use fuchsine_tests::pools::{World, in_the_foreground, on_every_pool, on_pools};
use fuchsine_tests::process::HANG_LIMIT;

/// Shows R65, U-5.
#[test]
fn whatever_is_queued_on_a_synchronized_dispatcher_runs_first_in_first_out() {
    on_every_pool(|world| {
        let dispatcher = plain(world, "queue");
        let log = Log::default();
        let (nears, fars): (Vec<_>, Vec<_>) = (0..20).map(|_| Channel::pair()).unzip();
        for (nth, far) in fars.iter().enumerate() {
            let entry = log.clone();
            on_message(far, &dispatcher, move |_| entry.add(format!("read {nth}")));
        }
        let (entry, queue) = (log.clone(), dispatcher.handle());
        // From inside, so that all of it is queued before any of it runs.
        world.run_on(&dispatcher, move || {
            for (nth, near) in nears.iter().enumerate() {
                noted(&queue, &entry, format!("task {nth}"));
                write(near);
            }
            nears
        });
        world.wait_until("all of it", || log.len() == 40);
        let expected: Vec<String> = (0..20).flat_map(|nth| [format!("task {nth}"), format!("read {nth}")]).collect();
        assert_eq!(log.take(), expected);
    });
}

/// A world without threads whose batches have this many callbacks.
fn with_batches_of(batch: u32) -> World {
    World::foreground_with(RuntimeBuilder::new().batch(batch))
}

/// Shows R66, R69, R70, W1, U-2.
#[test]
fn a_turn_makes_one_batch_and_then_the_others_have_theirs() {
    for batch in [1, 3, 10] {
        let world = with_batches_of(batch);
        let (a, b) = (plain(&world, "a"), plain(&world, "b"));
        let log = Log::default();
        for _ in 0..25 {
            noted(&a, &log, "a");
            noted(&b, &log, "b");
        }
        world.settle();
        let order = log.take().concat();
        let mut expected = String::new();
        let mut left = 25;
        while left > 0 {
            let now = left.min(batch as usize);
            expected += &("a".repeat(now) + &"b".repeat(now));
            left -= now;
        }
        assert_eq!(order, expected, "batches of {batch}");
        world.shutdown();
    }
}

/// Shows R72.
#[test]
fn what_a_callback_posts_to_its_own_dispatcher_runs_in_the_same_turn_if_the_batch_allows() {
    for (batch, expected) in [(2, ["a", "posted by a", "b"]), (1, ["a", "b", "posted by a"])] {
        let world = with_batches_of(batch);
        let (a, b) = (plain(&world, "a"), plain(&world, "b"));
        let log = Log::default();
        let (entry, queue) = (log.clone(), a.handle());
        task(&a, move || {
            entry.add("a");
            noted(&queue, &entry, "posted by a");
        });
        noted(&b, &log, "b");
        world.settle();
        assert_eq!(log.take(), expected, "batches of {batch}");
        world.shutdown();
    }
}

/// Shows R67, R71.
#[test]
fn a_callback_takes_back_everything_that_waits_behind_it_in_its_batch() {
    on_every_pool(|world| {
        for builder in [DispatcherBuilder::new(), DispatcherBuilder::new().unsynchronized()] {
            let dispatcher = make(world, "batch", builder);
            let handles: Arc<Mutex<Vec<TaskHandle>>> = Arc::default();
            let ran = Arc::new(AtomicUsize::new(0));
            let (queue, taking, counting) = (dispatcher.handle(), Arc::clone(&handles), Arc::clone(&ran));
            let taken_back = world.run_on(&dispatcher, move || {
                // Queued by a callback of a synchronized dispatcher, none of them can have begun.
                for _ in 0..9 {
                    let counting = Arc::clone(&counting);
                    let posted = queue.post_cancelable(move |_| {
                        counting.fetch_add(1, Ordering::Relaxed);
                    });
                    taking.lock().expect("nobody panics").push(posted.expect("it runs"));
                }
                taking.lock().expect("nobody panics").iter().filter(|handle| handle.cancel().is_ok()).count()
            });
            world.settle();
            assert_eq!(ran.load(Ordering::Relaxed) + taken_back, 9);
            if dispatcher.is_synchronized() {
                assert_eq!(taken_back, 9);
            }
        }
    });
}

/// Shows R71, R142.
#[test]
fn what_waits_behind_the_callback_that_shuts_down_is_canceled_although_it_was_its_batch() {
    on_every_pool(|world| {
        let dispatcher = plain(world, "batch");
        let log = Log::default();
        let (entry, own) = (log.clone(), dispatcher.handle());
        world.run_on(&dispatcher, move || {
            for nth in 0..4 {
                noted(&own, &entry, format!("{nth}"));
            }
            own.shutdown_async();
            entry.add("the running one ends as it is");
        });
        world.wait_until("the rest", || log.len() == 5);
        assert_eq!(
            log.take(),
            ["the running one ends as it is", "0 canceled", "1 canceled", "2 canceled", "3 canceled"]
        );
    });
}

/// The first callback of ten holds its thread, and the other nine run on the rest.
///
/// Shows R68, R74.
#[test]
fn callbacks_of_an_unsynchronized_dispatcher_are_claimed_one_at_a_time() {
    on_pools(|world| {
        if world.threads() < 2 {
            return;
        }
        let dispatcher = make(world, "parallel", DispatcherBuilder::new().unsynchronized());
        let (gate, keeper) = gate();
        let log = Log::default();
        task(&dispatcher, move || keeper.pass());
        for _ in 0..9 {
            noted(&dispatcher, &log, "ran");
        }
        gate.wait();
        world.wait_until("the other nine", || log.len() == 9);
        gate.open();
    });
}

/// Shows R73, DT-4.
#[test]
fn a_synchronized_dispatcher_runs_one_callback_at_a_time_whatever_they_are() {
    on_pools(|world| {
        let (reader, neighbour) = (plain(world, "reader"), plain(world, "neighbour"));
        let writers: Vec<_> = (0..3).map(|nth| plain(world, &format!("writer {nth}"))).collect();
        let inside = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let ended = Arc::new(AtomicUsize::new(0));
        let visit = {
            let (inside, most, ended) = (Arc::clone(&inside), Arc::clone(&most), Arc::clone(&ended));
            move || {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
                ended.fetch_add(1, Ordering::SeqCst);
            }
        };
        let (streams, peers): (Vec<_>, Vec<_>) =
            (0..12).map(|_| std::os::unix::net::UnixStream::pair().expect("a pair")).unzip();
        let mut fars = Vec::new();
        for (nth, stream) in streams.iter().enumerate() {
            let (near, far) = Channel::pair();
            let (read, wait, timer, posted) = (visit.clone(), visit.clone(), visit.clone(), visit.clone());
            on_message(&far, &reader, move |_| read());
            fars.push(far);
            let waited = reader.begin_wait(stream, Interest::WRITABLE, move |_| wait());
            waited.expect("a socket can be waited for");
            let _handle = reader.post_after(Duration::from_micros(nth as u64), move |_| timer()).expect("it runs");
            let queue = reader.handle();
            task(&writers[nth % 3], move || {
                write(&near);
                task(&queue, posted);
            });
        }
        // Another dispatcher is not held up meanwhile.
        world.run_on(&neighbour, || ());
        world.wait_until("all callbacks", || ended.load(Ordering::SeqCst) == 48);
        assert_eq!(most.load(Ordering::SeqCst), 1);
        drop(peers);
    });
}

/// Shows R75.
#[test]
fn a_blocked_dispatcher_occupies_one_thread_and_the_rest_go_on() {
    on_pools(|world| {
        if world.threads() < 2 {
            return;
        }
        let blocked = plain(world, "blocked");
        let (gate, keeper) = gate();
        task(&blocked, move || keeper.pass());
        gate.wait();
        for nth in 0..20 {
            noted(&blocked, &Log::default(), format!("{nth}"));
        }
        for nth in 0..10 {
            world.run_on(&plain(world, &format!("free {nth}")), || ());
        }
        assert_eq!(blocked.counters().pending, 20);
        gate.open();
    });
}

/// Shows DT-13, DT-14.
#[test]
fn two_ends_of_one_driver_play_over_several_channels_and_every_hop_is_deferred() {
    on_every_pool(|world| {
        let driver = world.driver("one");
        let make = |name: &str| driver.new_dispatcher(DispatcherBuilder::new().name(name)).expect("it is made");
        let dispatchers = [make("a"), make("b")];
        let (there, back) = (Channel::pair(), Channel::pair());
        let ends = [Arc::new(there.0), Arc::new(there.1), Arc::new(back.0), Arc::new(back.1)];
        let log = Log::default();
        // b reads from `there` and answers on `back`.
        let (entry, end, answer) = (log.clone(), Arc::clone(&ends[1]), Arc::clone(&ends[2]));
        on_message(&ends[1], &dispatchers[1], move |_| {
            end.try_read().expect("it is there");
            entry.add("request");
            write(&answer);
            entry.add("answered");
        });
        let entry = log.clone();
        on_message(&ends[3], &dispatchers[0], move |_| entry.add("reply"));
        let first = Arc::clone(&ends[0]);
        task(&dispatchers[0], move || write(&first));
        world.wait_until("the reply", || log.len() == 3);
        let log = log.take();
        assert_eq!(log[0], "request");
        if world.threads() <= 1 {
            assert_eq!(log, ["request", "answered", "reply"]);
        }
        assert_eq!(dispatchers.iter().map(|one| one.dump().inlined).sum::<u64>(), 0);
    });
}

/// Shows DT-31.
#[test]
fn a_task_that_was_taken_back_is_not_pending_any_more() {
    in_the_foreground(|world| {
        let dispatcher = plain(world, "queue");
        let posted = dispatcher.post_cancelable(|_| panic!("it was taken back")).expect("it runs");
        assert_eq!(dispatcher.counters().pending, 1);
        assert!(posted.cancel().is_ok());
        assert_eq!(dispatcher.counters().pending, 0);
        assert_eq!(posted.cancel().expect_err("once").status(), Status::NotFound);
        world.settle();
        assert_eq!(dispatcher.owner().panics(), 0);
    });
}

/// Shows R85.
#[test]
fn posting_allocates_nothing_once_its_storage_is_there() {
    let runtime = ForegroundRuntime::new();
    let dispatcher = runtime.new_driver("posts").new_dispatcher(DispatcherBuilder::new()).expect("it is made");
    let count = Arc::new(AtomicUsize::new(0));
    let round = || {
        for _ in 0..100 {
            let count = Arc::clone(&count);
            let posted = dispatcher.post_task(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            });
            posted.expect("it runs");
        }
    };
    for _ in 0..3 {
        round();
        runtime.run_until_idle();
    }
    let allocations = allocation_counter::measure(round).count_total;
    assert_eq!(allocations, 0);
    runtime.run_until_idle();
    assert_eq!(count.load(Ordering::Relaxed), 400);
}

/// What is queued where one thread is busy without end and each other one is inside of a long callback is run by the busy
/// one: no thread searches then, and none sleeps that could be woken.
#[test]
fn a_thread_that_is_busy_without_end_takes_over_what_waits_behind_long_callbacks() {
    for threads in [2, 8] {
        let world = World::threads_with(RuntimeBuilder::new(), threads);
        let flood = plain(&world, "flood");
        let stops = Arc::new(AtomicBool::new(false));
        go_on(&flood.handle(), &stops);
        let (blocked, has_blocked) = channel();
        let (release, posts) = channel::<()>();
        let posts = Arc::new(Mutex::new(posts));
        let (sender, ran) = channel();
        let lights: Vec<_> = (0..threads - 1).flat_map(|_| (0..5).map(|_| plain(&world, "light"))).collect();
        let longs: Vec<_> = (1..threads).map(|_| plain(&world, "long")).collect();
        let (leave, left) = channel::<()>();
        let left = Arc::new(Mutex::new(left));
        for (long, lights) in longs.iter().zip(lights.chunks(5)) {
            let lights: Vec<_> = lights.iter().map(|light| light.handle()).collect();
            let (blocked, posts, sender, left) =
                (blocked.clone(), Arc::clone(&posts), sender.clone(), Arc::clone(&left));
            task(long, move || {
                blocked.send(()).expect("it is awaited");
                let _ = posts.lock().expect("nobody panics").recv();
                for light in &lights {
                    let sender = sender.clone();
                    task(light, move || sender.send(()).expect("it is awaited"));
                }
                let _ = left.lock().expect("nobody panics").recv();
            });
        }
        for _ in &longs {
            has_blocked.recv_timeout(HANG_LIMIT).expect("each of the others begins a long callback");
        }
        drop(release);
        let took_over = lights.iter().all(|_| ran.recv_timeout(HANG_LIMIT).is_ok());
        drop(leave);
        stops.store(true, Ordering::Relaxed);
        assert!(took_over, "what was queued behind long callbacks of {threads} threads was run");
        world.shutdown();
    }
}

/// Posts itself again until it is told to stop.
fn go_on(flood: &DispatcherHandle, stops: &Arc<AtomicBool>) {
    let (own, stops) = (flood.clone(), Arc::clone(stops));
    let _ = flood.post_task(move |_| {
        if !stops.load(Ordering::Relaxed) {
            go_on(&own, &stops);
        }
    });
}
