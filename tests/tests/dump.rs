//! Dumps: everything that runs or waits is in them, with who posted it, and they come from stuck dispatchers too.

mod common;

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{HANG, Log, pool_of, within};
use fuchsine_dispatcher::{
    CallSite, Channel, Dispatcher, DispatcherBuilder, DispatcherDump, DispatcherHandle, DispatcherState, Driver,
    DriverState, DumpLimits, Interest, Kind, Lane, Message, Reason, RuntimeBuilder, RuntimeDump, ShutdownError, Site,
    testing::ForegroundRuntime,
};
use fuchsine_tests::pools::{in_the_foreground, on_every_pool, on_every_pool_with, on_pools};
use serde_json::Value;

fn dispatcher(driver: &Driver, name: &str) -> Dispatcher {
    driver.new_dispatcher(DispatcherBuilder::new().name(name)).expect("created")
}

/// Posts a task that blocks until the sender is dropped; returns when it runs.
fn block(dispatcher: &DispatcherHandle) -> std::sync::mpsc::Sender<()> {
    let (release, released) = channel::<()>();
    let (begun, begins) = channel();
    dispatcher
        .post_task(move |_| {
            let _ = begun.send(());
            let _ = released.recv();
        })
        .expect("it runs");
    within(&begins, "the task");
    release
}

fn json(dump: &RuntimeDump) -> Value {
    serde_json::from_str(&dump.to_json()).expect("it is JSON")
}

/// Shows R175, DD-1.
#[test]
fn an_idle_dispatcher_holds_nothing_and_says_so() {
    on_every_pool(|world| {
        let one = dispatcher(&world.driver("driver"), "one");
        let dump = one.dump();
        assert_eq!((dump.name.as_str(), dump.driver.as_str(), dump.role.as_str()), ("one", "driver", ""));
        assert_eq!((dump.id, dump.driver_id), (one.id().as_raw(), one.owner().id().as_raw()));
        assert!(dump.synchronized && !dump.allows_sync_calls && !dump.no_thread_migration);
        assert_eq!((dump.state, dump.requests(), dump.longest_queue), (DispatcherState::Running, 0, 0));
        assert!(!dump.is_busy() && dump.queues.iter().all(|(_, len)| *len == 0));
        let text = dump.to_string();
        assert!(text.contains("\"one\" of driver"), "{text}");
        assert!(text.contains("holds nothing"), "{text}");
    });
}

#[test]
fn a_name_is_whole_in_a_dump_and_takes_one_line_at_most_of_its_text() {
    let long = "ä".repeat(500_000);
    for name in ["two\nlines", "a \"quoted\" \u{1b}[31m one\0", &long] {
        let world = |world: &fuchsine_tests::pools::World| {
            let builder = DispatcherBuilder::new().name(name).scheduler_role(name);
            let _one = world.driver(name).new_dispatcher(builder).expect("any name is one");
            let dump = world.runtime().dump();
            assert_eq!(json(&dump)["drivers"][0]["dispatchers"][0]["name"], name);
            assert_eq!(dump.drivers[0].dispatchers[0].role, name);
            let text = dump.to_string();
            assert!(text.lines().all(|line| line.chars().count() < 1000), "a line is too long");
            assert!(!text.contains("\nlines") && !text.contains(['\0', '\u{1b}']), "{text:?}");
            assert!(text.contains(if name == long { "ää…\"" } else { "\\" }), "{text}");
        };
        on_every_pool_with(|| RuntimeBuilder::new().name(name), world);
    }
}

/// Shows R173, DD-6.
#[test]
fn the_options_of_a_dispatcher_are_in_its_dump() {
    on_every_pool(|world| {
        let driver = world.driver("driver");
        let make = |builder: DispatcherBuilder| driver.new_dispatcher(builder).expect("created");
        let dump = make(DispatcherBuilder::new().unsynchronized()).dump();
        assert!(!dump.synchronized && dump.to_string().contains("unsynchronized"));
        let dump = make(DispatcherBuilder::new().allow_sync_calls()).dump();
        assert!(dump.allows_sync_calls && dump.to_string().contains("allows sync calls"));
        let dump = make(DispatcherBuilder::new().no_thread_migration()).dump();
        assert!(dump.no_thread_migration && dump.to_string().contains("stays on one thread"));
        let dump = make(DispatcherBuilder::new().scheduler_role("video")).dump();
        assert!(dump.role == "video" && dump.to_string().contains("role \"video\""));
    });
}

/// A task looks at its own dispatcher and at another, first with one behind it, then alone.
///
/// Shows R173, DD-2, DD-3.
#[test]
fn a_dump_that_is_made_inside_of_a_task_lists_it_as_running_and_what_is_behind_it_as_queued() {
    in_the_foreground(|world| {
        let driver = world.driver("driver");
        let (one, other) = (dispatcher(&driver, "one"), dispatcher(&driver, "other"));
        let dumps = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..2 {
            let (dumps, runtime) = (Arc::clone(&dumps), world.runtime().clone());
            let (own, beside) = (one.handle(), other.handle());
            one.post_task(move |_| {
                dumps.lock().expect("nobody panics").push((own.dump(), beside.dump(), runtime.dump()));
            })
            .expect("it runs");
        }
        world.settle();
        let dumps = std::mem::take(&mut *dumps.lock().expect("nobody panics"));
        assert_eq!(dumps.len(), 2);
        for (nth, (own, beside, whole)) in dumps.into_iter().enumerate() {
            assert_eq!((own.running.len(), own.queued("ready")), (1, 1 - nth));
            assert_eq!((beside.running.len(), beside.queued("ready")), (0, 0));
            let place = whole.made_in.as_ref().expect("it was made in a callback");
            assert_eq!(
                place.to_string(),
                format!("dispatcher {} \"one\" of driver {} \"driver\"", one.id().as_raw(), driver.id().as_raw())
            );
            assert!(whole.to_string().contains(&format!("dump made in {place}\n")));
        }
        assert!(world.runtime().dump().made_in.is_none());
    });
}

/// Shows R173, DD-4.
#[test]
fn what_is_queued_says_which_dispatcher_of_which_driver_posted_it_and_from_which_line() {
    on_pools(|world| {
        let (target, poster) = (world.driver("target"), world.driver("poster"));
        let (busy, posting) = (dispatcher(&target, "busy"), dispatcher(&poster, "posting"));
        let release = block(&busy);
        let to = busy.handle();
        if world.threads() > 1 {
            world.run_on(&posting, move || to.post_task(|_| ()).expect("it is queued"));
        } else {
            poster.enter(|| to.post_task(|_| ()).expect("it is queued"));
        }
        busy.post_task(|_| ()).expect("it is queued");
        let dump = busy.dump();
        let posters: Vec<_> = dump.pending.iter().map(|pending| pending.posted_by.clone()).collect();
        assert_eq!(posters.len(), 2);
        let place = posters[0].as_ref().expect("it was posted from inside of a driver");
        assert_eq!(place.driver.name.as_deref(), Some("poster"));
        let dispatcher = place.dispatcher.as_ref().and_then(|dispatcher| dispatcher.name.as_deref());
        assert_eq!(dispatcher, (world.threads() > 1).then_some("posting"));
        assert_eq!(posters[1], None, "by a thread outside of any");
        assert!(dump.pending.iter().all(|pending| pending.posted_from.file().ends_with("dump.rs")));
        assert!(dump.to_string().contains(&format!(" by {place}\n")));
        drop(release);
    });
}

#[test]
fn what_is_posted_for_code_of_others_is_listed_as_theirs() {
    static SITE: CallSite = CallSite::new("lamp.c", 12, 0, "on_switch");
    on_pools(|world| {
        let driver = world.driver("lamp");
        let one = dispatcher(&driver, "one");
        let release = block(&one);
        one.post_task_from(Site::of(&SITE), |_| ()).expect("it is queued");
        let dump = one.dump();
        let pending = dump.pending.last().expect("it is queued");
        assert_eq!((pending.posted_from, pending.type_name), (Site::of(&SITE), "on_switch"));
        assert!(dump.to_string().contains(": task posted at lamp.c:12 (on_switch)\n"), "{dump}");
        drop(release);
    });
}

/// Of those that are gone the number is left.
///
/// Shows R173.
#[test]
fn a_poster_that_is_gone_is_known_by_its_number() {
    in_the_foreground(|world| {
        let one = dispatcher(&world.driver("target"), "target");
        let driver = world.driver("poster");
        let gone = dispatcher(&driver, "gone");
        let (id, to) = (gone.id().as_raw(), one.handle());
        gone.post_task(move |_| drop(to.post_after(Duration::from_secs(9), |_| ()).expect("accepted")))
            .expect("it runs");
        world.settle();
        drop(gone);
        world.settle();
        let dump = one.dump();
        let place = dump.pending[0].posted_by.as_ref().expect("it was posted by a callback");
        assert_eq!(place.driver.name.as_deref(), Some("poster"));
        let dispatcher = place.dispatcher.as_ref().expect("a dispatcher's");
        assert_eq!((dispatcher.id, dispatcher.name.as_deref()), (id, None));
        assert!(dump.to_string().contains(&format!("dispatcher {id} (gone) of driver")));
    });
}

/// What waits for its `Canceled` is listed, with who posted it.
///
/// Shows R174, DD-5.
#[test]
fn during_a_shutdown_a_dump_lists_what_waits_for_its_cancellation() {
    in_the_foreground(|world| {
        let driver = world.driver("driver");
        let one = dispatcher(&driver, "one");
        one.post_task(|_| ()).expect("accepted");
        let _later = one.post_after(Duration::from_secs(9), |_| ()).expect("accepted");
        one.shutdown_async();
        let dump = one.dump();
        assert_eq!((dump.state, dump.queued("ready"), dump.queued("delayed")), (DispatcherState::ShuttingDown, 2, 0));
        assert_eq!(dump.pending.iter().map(|pending| pending.kind).collect::<Vec<_>>(), [Kind::Task, Kind::Delayed]);
        assert!(dump.pending.iter().all(|pending| pending.posted_by.is_none() && pending.is_ready));
    });
}

/// Whatever it waits for.
///
/// Shows R174, W18.
#[test]
fn everything_that_is_pending_is_listed_and_counted_by_queue() {
    in_the_foreground(|world| {
        let one = dispatcher(&world.driver("driver"), "one");
        let (near, _far) = Channel::pair();
        near.begin_read(&one, |_| ()).expect("registered");
        let _later = one.post_after(Duration::from_secs(9), |_| ()).expect("accepted");
        let event = fuchsine_dispatcher::testing::sim::Event::new();
        let _wait = one.begin_wait(&event, Interest::READABLE, |_| ()).expect("armed");
        let (irq, _trigger) = one.new_irq().expect("simulated");
        let _irq = one.bind_irq(&irq, |_| ()).expect("bound");
        let _work = one.offload(Lane::Slow, |_| (), |_| ()).expect("accepted");
        let _future = one.spawn(std::future::pending::<()>()).expect("spawned");
        one.post_task(|_| ()).expect("accepted");
        let dump = one.dump();
        for queue in ["reads", "waits", "delayed", "offloads", "irqs"] {
            assert_eq!(dump.queued(queue), 1, "{queue}: {dump}");
            assert_eq!(dump.pending.iter().filter(|pending| pending.queue == queue).count(), 1, "{queue}: {dump}");
            assert!(dump.to_string().contains(&format!("{queue} 1")), "{queue}: {dump}");
        }
        // The future counts as one, and so does its first wake.
        assert_eq!((dump.queued("ready"), dump.futures), (2, 1), "{dump}");
        assert!(dump.to_string().contains("futures 1"));
        assert!(dump.pending.iter().all(|pending| pending.is_ready == (pending.queue == "ready")));
    });
}

/// Shows R170, DD-7.
#[test]
fn requests_are_counted_as_posted_inline_or_deferred_by_reason() {
    in_the_foreground(|world| {
        let (target, writer) =
            (dispatcher(&world.driver("target"), "target"), dispatcher(&world.driver("writer"), "w"));
        target.post_task(|_| ()).expect("it runs");
        world.settle();
        let dump = target.dump();
        assert_eq!((dump.requests(), dump.posted, dump.inlined), (1, 1, 0));
        let (near, far) = Channel::pair();
        near.begin_read(&target, |_| ()).expect("registered");
        writer.post_task(move |_| far.write(Message::from_bytes(b"inline")).expect("there is room")).expect("it runs");
        world.settle();
        let dump = target.dump();
        assert_eq!((dump.requests(), dump.posted, dump.inlined), (2, 1, 1));
        let (near, far) = Channel::pair();
        near.begin_read(&target, |_| ()).expect("registered");
        far.write(Message::from_bytes(b"from outside")).expect("there is room");
        let dump = target.dump();
        assert_eq!((dump.requests(), dump.inlined), (3, 1));
        assert!(dump.deferred.contains(&(Reason::OtherPool, 1)));
        assert!(dump.to_string().contains("1 posted, 1 inline, 1 deferred (other pool)"), "{dump}");
    });
}

/// Shows R171, DD-8, DD-9.
#[test]
fn a_read_that_is_registered_late_counts_as_that_and_as_nothing_else() {
    in_the_foreground(|world| {
        let target = dispatcher(&world.driver("target"), "target");
        let (near, far) = Channel::pair();
        far.write(Message::from_bytes(b"early")).expect("there is room");
        near.begin_read(&target, |_| ()).expect("registered");
        world.settle();
        let dump = target.dump();
        assert_eq!((dump.requests(), dump.late_reads, dump.inlined), (1, 1, 0));
        assert!(dump.deferred.iter().all(|(_, count)| *count == 0));
    });
}

/// Shows R176, DD-10.
#[test]
fn a_dump_of_the_runtime_has_its_threads_with_what_they_run() {
    on_pools(|world| {
        let driver = world.driver("driver");
        let (busy, other) =
            (dispatcher(&driver, "busy"), driver.new_dispatcher(DispatcherBuilder::new().scheduler_role("r")));
        let other = other.expect("created");
        let release = block(&busy);
        world.wait_until("all threads to be there", || {
            world.runtime().dump().pools.iter().all(|pool| pool.threads.len() == world.threads())
        });
        let dump = world.runtime().dump();
        assert_eq!(dump.threads, 2 * world.threads());
        assert_eq!(dump.pools.iter().map(|pool| pool.role.as_str()).collect::<Vec<_>>(), ["", "r"]);
        for pool in &dump.pools {
            assert_eq!((pool.base, pool.extra, pool.threads_not_listed), (world.threads(), 0, 0));
            for (nth, thread) in pool.threads.iter().enumerate() {
                let suffix = if pool.role.is_empty() { format!("-{nth}") } else { format!(":r-{nth}") };
                assert!(thread.thread.name.as_ref().is_some_and(|name| name.ends_with(&suffix)), "{thread:?}");
                assert!(thread.is_base && (cfg!(not(target_os = "linux")) || thread.thread.os_id.is_some()));
            }
        }
        let inside: Vec<_> =
            dump.pools.iter().flat_map(|pool| &pool.threads).filter_map(|thread| thread.runs.as_ref()).collect();
        assert_eq!(inside.len(), 1, "{dump}");
        assert_eq!(inside[0].dispatcher.as_ref().map(|one| one.id), Some(busy.id().as_raw()));
        let running = &busy.dump().running[0];
        assert!(dump.pools[0].threads.iter().any(|thread| thread.thread == running.thread), "it is named the same");
        let text = dump.to_string();
        assert!(text.contains(&format!("running on {} for ", running.thread)), "{text}");
        drop((release, other));
    });
}

#[test]
fn a_thread_that_was_added_and_a_worker_of_a_lane_are_in_the_dump() {
    on_pools(|world| {
        let driver = world.driver("driver");
        let blocking = driver.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).expect("created");
        let (release, released) = channel::<()>();
        let (begun, begins) = channel();
        let work = move |_: &_| {
            let _ = begun.send(());
            let _ = released.recv();
        };
        blocking.offload(Lane::Slow, work, |_| ()).expect("accepted");
        within(&begins, "the work");
        world.wait_until("the added thread", || world.runtime().dump().pools[0].threads.iter().any(|one| !one.is_base));
        let dump = world.runtime().dump();
        assert_eq!(dump.pools[0].extra, 1);
        let slow = &dump.pools[0].lanes[1];
        assert_eq!((slow.lane, slow.workers, slow.idle, slow.waiting), ("slow", 1, 0, 0));
        let running = &blocking.dump().running[0];
        assert_eq!(running.what, "offload");
        assert!(running.thread.name.as_ref().is_some_and(|name| name.contains("-slow-")), "{running:?}");
        assert!(dump.to_string().contains(", added: "), "{dump}");
        assert!(dump.to_string().contains("lane slow: 1 workers of "), "{dump}");
        drop(release);
    });
}

/// Shows R177.
#[test]
fn a_dump_lists_as_much_as_it_may_and_counts_the_rest() {
    in_the_foreground(|world| {
        let drivers: Vec<_> = (0..3).map(|nth| world.driver(&format!("driver {nth}"))).collect();
        let all: Vec<_> = drivers.iter().flat_map(|driver| (0..3).map(|_| dispatcher(driver, "one"))).collect();
        // The newest of the last driver is the one that matters, and has more than is listed.
        for _ in 0..5 {
            all[8].post_task(|_| ()).expect("accepted");
        }
        let limits = DumpLimits { dispatchers: 2, pending: 3, ..DumpLimits::default() };
        let dump = world.runtime().dump_with(limits);
        let listed: Vec<_> = dump.drivers.iter().flat_map(|driver| &driver.dispatchers).map(|one| one.id).collect();
        assert_eq!(listed, [all[0].id().as_raw(), all[8].id().as_raw()]);
        assert_eq!(dump.drivers.iter().map(|driver| driver.dispatchers_not_listed).sum::<usize>(), 7);
        let busy = &dump.drivers[2].dispatchers[0];
        assert_eq!((busy.pending.len(), busy.pending_not_listed, busy.queued("ready")), (3, 2, 5));
        let text = dump.to_string();
        assert!(text.contains("and 2 more\n") && text.contains("and 3 more dispatchers\n"), "{text}");

        let dump = world.runtime().dump_with(DumpLimits { drivers: 1, pending_in_all: 0, ..DumpLimits::default() });
        assert_eq!((dump.drivers.len(), dump.drivers_not_listed), (1, 2));
        assert!(dump.to_string().contains("and 2 more drivers"));
        assert_eq!(dump.counters.pending, 5, "numbers are those of all");
        let dump = world.runtime().dump_with(DumpLimits { pending_in_all: 4, ..DumpLimits::NONE });
        assert_eq!(dump.drivers[2].dispatchers[2].pending.len(), 4);
        drop(drivers);
    });
    on_pools(|world| {
        world.wait_until("all threads", || world.runtime().dump().pools[0].threads.len() == world.threads());
        let dump = world.runtime().dump_with(DumpLimits { threads: 0, ..DumpLimits::default() });
        assert_eq!((dump.pools[0].threads.len(), dump.pools[0].threads_not_listed), (0, world.threads()));
    });
}

#[test]
fn the_longest_queue_and_the_longest_callback_so_far_are_kept() {
    on_pools(|world| {
        let one = dispatcher(&world.driver("driver"), "one");
        let release = block(&one);
        for _ in 0..4 {
            one.post_task(|_| ()).expect("accepted");
        }
        drop(release);
        let (runtime, line) = (world.runtime().clone(), line!() + 1);
        one.post_task(move |_| {
            let since = Instant::now();
            while since.elapsed() < Duration::from_millis(3) {}
            // Whoever looks at the clock sets the coarse one.
            let _ = runtime.now();
        })
        .expect("it runs");
        one.post_task(|_| ()).expect("it runs");
        assert!(one.wait_until_idle(HANG).is_ok());
        let dump = one.dump();
        assert!((4..=6).contains(&dump.longest_queue), "{}", dump.longest_queue);
        assert_eq!(dump.queued("ready"), 0);
        let longest = dump.longest_callback.as_ref().expect("one took long");
        assert!(longest.ran_for >= Duration::from_millis(3), "{longest:?}");
        // The one that was held may have taken longer, so the line is not certain, but the file is.
        assert!(longest.posted_from.is_some_and(|at| at.file().ends_with("dump.rs")), "{line}");
        assert!(dump.to_string().contains("; longest callback so far "));
    });
}

/// Also of one that is stuck for good.
///
/// Shows R174.
#[test]
fn a_callback_that_is_stuck_is_in_the_dump_with_its_thread_and_for_how_long() {
    on_pools(|world| {
        let one = dispatcher(&world.driver("driver"), "one");
        let before = Instant::now();
        let release = block(&one);
        let since = Instant::now();
        while since.elapsed() < Duration::from_millis(2) {}
        let at_least = since.elapsed();
        let dump = one.dump();
        let running = &dump.running[0];
        assert!(running.running_for >= at_least, "{running:?}");
        assert!(running.thread.name.is_some(), "{running:?}");
        assert!(dump.state == DispatcherState::Running && before.elapsed() >= at_least);
        drop(release);
    });
}

#[test]
fn a_driver_says_where_it_stands_and_that_its_observer_runs() {
    on_pools(|world| {
        let driver = world.driver("driver");
        assert_eq!(driver.dump().state, DriverState::Running);
        let (release, released) = channel::<()>();
        let (begun, begins) = channel();
        driver
            .shutdown(move || {
                let _ = begun.send(());
                let _ = released.recv();
            })
            .expect("it begins");
        within(&begins, "the observer");
        let dump = driver.dump();
        assert_eq!((dump.state, dump.observing.is_some()), (DriverState::ShuttingDown, true));
        let error = world.runtime().shutdown_drivers(Duration::ZERO).expect_err("the observer runs");
        let text = error.to_string();
        assert!(text.contains("driver observer") && text.contains("running on "), "{text}");
        assert!(matches!(error, ShutdownError::TimedOut(_)));
        drop(release);
        assert!(driver.wait_until_destroyed(HANG).is_ok());
        let dump = driver.dump();
        assert_eq!((dump.state, dump.observing.is_none()), (DriverState::Shutdown, true));
    });
}

#[test]
fn a_shutdown_that_takes_too_long_names_the_threads_and_what_they_are_in() {
    for threads in [1, 2] {
        let runtime = pool_of(threads);
        let driver = runtime.new_driver("stuck driver");
        let one = dispatcher(&driver, "stuck dispatcher");
        let release = block(&one);
        let ShutdownError::TimedOut(dump) = runtime.shutdown(Duration::ZERO).expect_err("it is stuck") else {
            panic!("it is no thread of the runtime");
        };
        let text = dump.stuck();
        assert!(text.contains("\"stuck dispatcher\" of driver "), "{text}");
        let thread = &dump.drivers[0].dispatchers[0].running[0].thread;
        assert!(text.contains(&format!("running on {thread} for ")), "{text}");
        assert!(text.contains(&format!("\nthread {thread}: in dispatcher ")), "{text}");
        drop(release);
        runtime.shutdown(HANG).expect("it shuts down");
        assert_eq!(runtime.dump().stuck(), "  nothing that runs or waits\n");
    }
}

/// A thread that is counted as waiting can be waited for, so this wait is sure to sleep when the task is taken back.
///
/// Shows DT-56, W9.
#[test]
fn a_thread_that_waits_for_idle_is_seen_and_is_told_of_a_task_that_is_taken_back() {
    on_pools(|world| {
        let driver = world.driver("driver");
        let one = dispatcher(&driver, "one");
        let blocked: Vec<_> = (0..world.threads()).map(|_| dispatcher(&driver, "blocked")).collect();
        let release: Vec<_> = blocked.iter().map(|blocked| block(blocked)).collect();
        let task = one.post_cancelable(|_| ()).expect("accepted");
        let (sender, receiver) = channel();
        let handle = one.handle();
        // Longer than anybody waits for its end: at its deadline it would find the dispatcher idle without being told.
        std::thread::spawn(move || sender.send(handle.wait_until_idle(10 * HANG).is_ok()));
        world.wait_until("the wait to begin", || one.dump().waiting_for_idle == 1);
        assert!(one.dump().to_string().contains("1 threads wait until it is idle"));
        assert!(task.cancel().is_ok());
        assert!(within(&receiver, "the end of the wait"));
        assert_eq!(one.dump().waiting_for_idle, 0);
        drop(release);
    });
}

/// What a program reads has the same in it, and a version.
///
/// Shows R176.
#[test]
fn the_dump_as_json_has_what_the_values_have() {
    in_the_foreground(|world| {
        let one = dispatcher(&world.driver("a \"driver\"\n\\"), "one");
        one.post_task(|_| ()).expect("accepted");
        let dump = world.runtime().dump();
        let value = json(&dump);
        assert_eq!((&value["version"], &value["runtime"]), (&Value::from(1), &Value::from("fuchsine")));
        let driver = &value["drivers"][0];
        assert_eq!(driver["name"], "a \"driver\"\n\\");
        assert_eq!((&driver["state"], &driver["observing"]), (&Value::from("running"), &Value::Null));
        let found = &driver["dispatchers"][0];
        assert_eq!(found["id"], one.id().as_raw());
        assert_eq!(found["queues"]["ready"], 1);
        assert_eq!(found["counters"]["pending"], 1);
        assert_eq!(found["pending"][0]["kind"], "task");
        assert_eq!(found["pending"][0]["posted_by"], Value::Null);
        let line = dump.drivers[0].dispatchers[0].pending[0].posted_from.to_string();
        assert_eq!(found["pending"][0]["posted_at"], line.as_str());
        let alone: Value = serde_json::from_str(&one.dump().to_json()).expect("it is JSON");
        assert_eq!((&alone["version"], &alone["name"]), (&Value::from(1), &Value::from("one")));
        let of_driver: Value = serde_json::from_str(&one.owner().dump().to_json()).expect("it is JSON");
        assert_eq!(of_driver["dispatchers"][0]["id"], found["id"]);
    });
}

/// What the page shows: a receiver that is stuck, with work of another driver behind it.
fn example() -> (RuntimeDump, Value) {
    let runtime = RuntimeBuilder::new().name("example").threads(2).build().expect("the system has threads");
    let (nic, ip) = (runtime.new_driver("nic"), runtime.new_driver("ip"));
    let (receive, send) = (dispatcher(&nic, "receive"), dispatcher(&ip, "send"));
    let (socket, _peer) = UnixStream::pair().expect("the system has sockets");
    let _wait = receive.begin_wait(&socket, Interest::READABLE, |_| ()).expect("armed");
    let release = block(&receive);
    let to = receive.handle();
    send.post_task(move |_| to.post_task(|_| ()).expect("it is queued")).expect("it runs");
    let _later = receive.post_after(Duration::from_secs(30), |_| ()).expect("accepted");
    assert!(send.wait_until_idle(HANG).is_ok());
    let since = Instant::now();
    while runtime.dump().pools[0].threads.len() < 2 {
        assert!(since.elapsed() < HANG, "the threads start");
    }
    let dump = runtime.dump();
    let value = json(&dump);
    drop(release);
    runtime.shutdown(HANG).expect("it shuts down");
    (dump, value)
}

/// Numbers, and times with their units, become `#`.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if !c.is_ascii_digit() {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let unit = ["ns", "µs", "ms", "s"].into_iter().find(|unit| {
            rest.strip_prefix(unit).is_some_and(|after| !after.starts_with(|c: char| c.is_alphanumeric()))
        });
        rest = &rest[unit.map_or(0, str::len)..];
        out.push('#');
    }
    out
}

const PAGE: &str = include_str!("../../docs/src/how-to/read-a-dump.md");

#[test]
fn the_page_shows_a_dump_as_it_is() {
    let (dump, _) = example();
    let shown = PAGE.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of text");
    let (dump, shown) = (without_numbers(&dump.to_string()), without_numbers(shown));
    // Which of the two threads runs it is chance, and so is whether the other callback took long enough to be timed.
    let comparable = |text: &str| {
        let lines = text.lines().map(|line| line.split("; longest callback").next().unwrap_or_default());
        let mut threads: Vec<_> = lines.clone().filter(|line| line.contains(", base: ")).map(str::to_owned).collect();
        threads.sort();
        let others = lines.filter(|line| !line.contains(", base: ")).map(str::to_owned);
        threads.into_iter().chain(others).collect::<Vec<_>>()
    };
    assert_eq!(comparable(&shown), comparable(&dump), "docs/src/how-to/read-a-dump.md (left) and a dump (right)");
}

/// Every name of a field.
fn fields(value: &Value, found: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|value| fields(value, found)),
        Value::Object(all) => {
            for (name, value) in all {
                found.insert(format!("`{name}`"));
                // The names in these are those of queues and reasons.
                if !["queues", "deferred"].contains(&name.as_str()) {
                    fields(value, found);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn the_page_explains_every_field_of_the_json() {
    let (_, value) = example();
    let mut found = std::collections::BTreeSet::new();
    fields(&value, &mut found);
    assert!(found.len() > 40, "{found:?}");
    let missing: Vec<_> = found.into_iter().filter(|name| !PAGE.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "docs/src/how-to/read-a-dump.md does not explain {missing:?}");
}

/// A dump calls nobody, and waits for nobody: it is made while every thread of the runtime is held, by a foreign thread.
#[test]
fn dumps_come_while_everything_runs_and_shuts_down() {
    on_pools(|world| {
        let driver = world.driver("driver");
        let log = Log::new();
        let all: Vec<_> = (0..4).map(|_| dispatcher(&driver, "one")).collect();
        for round in 0..50 {
            for one in &all {
                let _ = one.post_task(|_| ());
            }
            if round == 25 {
                all[0].shutdown_async();
            }
            let dump: Vec<DispatcherDump> = driver.dump().dispatchers;
            for one in dump {
                assert!(one.counters.add_up(), "{one}");
                let listed = one.pending.len() + one.pending_not_listed;
                assert_eq!(one.queues.iter().map(|(_, len)| len).sum::<usize>(), listed, "{one}");
            }
        }
        assert!(log.is_empty());
    });
}

#[test]
fn a_dump_of_a_foreground_runtime_is_the_same_each_time() {
    let make = || {
        let runtime = ForegroundRuntime::new();
        let one = dispatcher(&runtime.new_driver("driver"), "one");
        one.post_task(|_| ()).expect("accepted");
        runtime.advance(Duration::from_secs(1));
        one.post_task(|_| ()).expect("accepted");
        without_numbers(&runtime.dump().to_string())
    };
    assert_eq!(make(), make());
}

/// In the middle of a cancellation what was told so is counted, what is told so runs, and the rest is listed, in its order.
#[test]
fn a_dump_in_the_middle_of_a_cancellation_lists_what_is_not_told_yet() {
    const ALL: usize = 40;
    in_the_foreground(|world| {
        let one = dispatcher(&world.driver("driver"), "one");
        let seen = Arc::new(Mutex::new(Vec::new()));
        for number in 0..ALL {
            let (own, seen) = (one.handle(), Arc::clone(&seen));
            let task = move |outcome: Result<(), _>| {
                assert!(outcome.is_err(), "it is told of the shutdown");
                let dump = own.dump();
                assert!(dump.counters.add_up(), "{dump}");
                assert_eq!((dump.counters.ran, dump.counters.canceled), (0, number as u64 + 1), "{dump}");
                assert_eq!((dump.pending.len(), dump.running.len()), (ALL - 1 - number, 1), "{dump}");
                assert!(own.post_task(|_| unreachable!("it shuts down")).is_err());
                seen.lock().expect("no panic").push(number);
            };
            one.post_task(task).expect("accepted");
        }
        one.shutdown_async();
        world.settle();
        assert!(seen.lock().expect("no panic").iter().copied().eq(0..ALL));
        assert_eq!((one.counters().canceled, one.counters().refused), (ALL as u64, ALL as u64));
    });
}

/// What comes while the driver is suspended is counted when it comes, once.
///
/// Shows R172, U-21.
#[test]
fn requests_that_come_during_a_suspend_are_counted_and_listed_as_parked() {
    in_the_foreground(|world| {
        let driver = world.driver("driver");
        let (target, writer) = (dispatcher(&driver, "target"), dispatcher(&world.driver("writer"), "writer"));
        let (near, far) = Channel::pair();
        near.begin_read(&target, |_| ()).expect("registered");
        driver.suspend(|_| ()).expect("it runs");
        world.settle();
        target.post_task(|_| ()).expect("accepted");
        writer.post_task(move |_| far.write(Message::from_bytes(b"parked")).expect("there is room")).expect("it runs");
        world.settle();
        let dump = target.dump();
        assert_eq!((dump.requests(), dump.posted, dump.inlined), (2, 1, 0), "{dump}");
        assert_eq!((dump.queued("parked"), dump.queued("ready"), dump.queued("reads")), (2, 0, 0), "{dump}");
        assert!(dump.to_string().contains("holds parked 2"), "{dump}");
        let of_driver = driver.dump();
        assert!(of_driver.is_suspended && of_driver.to_string().contains(": running, suspended, "), "{of_driver}");
        assert!(driver.resume());
        world.settle();
        let dump = target.dump();
        assert_eq!((dump.requests(), dump.counters.ran, dump.queued("parked")), (2, 2, 0), "{dump}");
        assert!(!driver.dump().is_suspended);
    });
}

#[test]
fn dumps_and_suspends_of_one_driver_go_on_beside_each_other() {
    on_pools(|world| {
        let driver = world.driver("driver");
        for _ in 0..20 {
            let _ = dispatcher(&driver, "one").release();
        }
        let (done, is_done) = channel();
        let over = Arc::new(AtomicBool::new(false));
        let (dumped, seen) = (driver.clone(), Arc::clone(&over));
        std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                assert_eq!(dumped.dump().dispatchers.len(), 20);
            }
        });
        std::thread::spawn(move || {
            let suspends = (0..3000).filter(|_| driver.suspend(|_| ()).is_ok() && driver.resume()).count();
            over.store(true, Ordering::Relaxed);
            // It is awaited, unless the test has failed.
            let _ = done.send(suspends);
        });
        assert_eq!(within(&is_done, "the end of the suspends"), 3000);
    });
}
