//! The end of loops: teardown on live loops, draining until nothing is left, an exact close; what holds a loop open, and
//! what panics and work have to do with it.

mod loop_support;

use std::cell::RefCell;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use fuchsine_dispatcher::Interest;
use fuchsine_dispatcher::event_loop::{
    EventLoop, HolderKind, Lane, LoopPanicPolicy, RunSummary, WorkError, WorkPolicy, yield_wanted,
};
use loop_support::{HANG, Log, join, loops, run, run_one, shutdown};

/// Arms a timer that fires in an hour, and leaves it to the loop.
fn forget_a_timer(event_loop: &EventLoop) {
    let timer = event_loop.timer(|_, _| unreachable!("it is due in an hour"));
    timer.once(Duration::from_secs(3_600)).unwrap();
    timer.detach();
}

/// Shows L19, E19.
#[test]
fn what_holds_a_loop_that_shuts_down_is_listed_by_kind_and_place_and_dropped_at_the_deadline() {
    let log = Log::new();
    let entries = log.clone();
    let (go, may_go) = channel::<()>();
    let summary = run(loops(1)
        .linger(Duration::from_millis(1))
        .setup(0, |event_loop| {
            // What was armed before the shutdown holds nothing.
            forget_a_timer(event_loop);
            assert_eq!(event_loop.holders(), []);
            shutdown(event_loop);
        })
        .teardown(0, move |event_loop| {
            assert_eq!(event_loop.holders(), []);
            forget_a_timer(event_loop);
            let (near, far) = UnixStream::pair().unwrap();
            let (near, far) = (Rc::new(near), Rc::new(far));
            let kept = (near.clone(), far);
            let wait = event_loop.wait(&*near, Interest::READABLE, move |_, _| drop(kept.clone()));
            wait.unwrap().detach();
            let handler = event_loop.signal(rustix::process::Signal::USR2.as_raw(), |_, _| {}).unwrap();
            let own: Rc<RefCell<Option<_>>> = Rc::new(RefCell::new(Some(handler)));
            let job = event_loop.job(move |_| drop(own.borrow_mut().take()));
            let work = event_loop.work(
                Lane::Fast,
                move || may_go.recv_timeout(HANG).is_ok(),
                |_, result| {
                    assert_eq!(result, Ok(true));
                },
            );
            assert!(work.is_ok());
            let holders = event_loop.holders();
            let kinds: Vec<_> = holders.iter().map(|holder| holder.kind).collect();
            assert_eq!(kinds, [HolderKind::Timer, HolderKind::Wait, HolderKind::Signal, HolderKind::Work]);
            assert!(holders.iter().all(|holder| holder.created.file().ends_with("loop_shutdown.rs")));
            entries.add(holders[3].to_string());
            // The handler goes; the timer and the wait stay until the deadline, the work until its end.
            job.arm().unwrap();
            job.detach();
            go.send(()).unwrap();
        }));
    assert_eq!(summary.panics(), 0);
    assert!(log.text().starts_with("work made at") && log.text().contains("loop_shutdown.rs"), "{}", log.text());
    let dropped: Vec<_> = summary.loops[0].dropped.iter().map(|holder| holder.kind).collect();
    assert_eq!(dropped, [HolderKind::Timer, HolderKind::Wait]);
}

/// Shows E19.
#[test]
fn a_loop_may_linger_for_as_long_as_it_takes() {
    let summary = run(loops(1).linger(Duration::MAX).setup(0, shutdown).teardown(0, |event_loop| {
        let timer = event_loop.timer(|_, _| {});
        timer.once(Duration::from_millis(5)).unwrap();
        timer.detach();
    }));
    assert_eq!((summary.panics(), summary.loops[0].dropped.len()), (0, 0));
}

/// Shows X1, X2, L22.
#[test]
fn posts_from_before_the_shutdown_run_before_the_teardown_callbacks_which_see_that_it_has_begun() {
    let log = Log::new();
    let (entries, in_teardown) = (log.clone(), log.clone());
    run(loops(1)
        .setup(0, move |event_loop| {
            assert!(!event_loop.is_shutting_down());
            let (one, two) = (entries.clone(), entries.clone());
            event_loop.async_run(move |_| one.add("posted-before")).unwrap();
            shutdown(event_loop);
            event_loop.async_run(move |_| two.add("posted-after")).unwrap();
        })
        .teardown(0, move |event_loop| {
            assert!(event_loop.is_shutting_down());
            in_teardown.add("teardown");
        }));
    assert_eq!(log.text(), "posted-before posted-after teardown");
}

/// Shows X4, X5, X6, X7, E6, E7, J12.
#[test]
fn a_long_chain_of_every_kind_from_the_teardown_runs_to_its_end() {
    fn link(event_loop: &EventLoop, left: u32, log: Log) {
        if left == 0 {
            return log.add("end");
        }
        // The chain goes through all kinds, each made while the loop has nothing else to do.
        match left % 4 {
            0 => event_loop.async_run(move |event_loop| link(event_loop, left - 1, log)).unwrap(),
            1 => {
                let job = event_loop.job(move |event_loop| link(event_loop, left - 1, log.clone()));
                job.arm().unwrap();
                job.detach();
            }
            2 => {
                let timer = event_loop.timer(move |event_loop, _| link(event_loop, left - 1, log.clone()));
                timer.once(Duration::from_micros(100)).unwrap();
                timer.detach();
            }
            _ => {
                let done = move |event_loop: &EventLoop, result: Result<(), WorkError>| {
                    assert_eq!(result, Ok(()));
                    link(event_loop, left - 1, log);
                };
                assert!(event_loop.work(Lane::Fast, || {}, done).is_ok());
            }
        }
    }
    let log = Log::new();
    let entries = log.clone();
    let summary = run(loops(1).setup(0, shutdown).teardown(0, move |event_loop| link(event_loop, 101, entries)));
    assert_eq!((log.text().as_str(), summary.panics()), ("end", 0));
}

/// Shows E5, A9, L18.
#[test]
fn a_handle_outlives_its_loop_and_is_refused_exactly_from_the_close_on() {
    let running = loops(2).build().unwrap().spawn().unwrap();
    let handles: Vec<_> = (0..2).map(|tid| running.handle().event_loop(tid).unwrap()).collect();
    running.handle().shutdown();
    join(running);
    for handle in handles {
        let value = Arc::new(());
        let captured = value.clone();
        let refused = handle.async_run(move |_| drop(captured)).unwrap_err();
        assert!(handle.is_closed());
        assert_eq!(Arc::strong_count(&value), 2, "the closure is inside of the error");
        drop(refused.into_inner());
        assert_eq!(Arc::strong_count(&value), 1);
        assert_eq!(handle.clone(), handle, "a handle may be cloned and dropped at any time");
    }
}

/// What a shutdown does with one item that runs and one that is queued, in each lane.
fn lanes_at_shutdown(fast: WorkPolicy, slow: WorkPolicy) -> (String, RunSummary) {
    let log = Log::new();
    let entries = log.clone();
    let builder = loops(1).lane_at_shutdown(Lane::Fast, fast).lane_at_shutdown(Lane::Slow, slow);
    let summary = run(builder.setup(0, move |event_loop| {
        for (lane, name) in [(Lane::Fast, "fast"), (Lane::Slow, "slow")] {
            let (started, has_started) = channel();
            let running = move || {
                started.send(()).unwrap();
                let start = std::time::Instant::now();
                while !yield_wanted() && start.elapsed() < HANG {
                    std::thread::yield_now();
                }
                yield_wanted()
            };
            let work = event_loop.work(lane, running, |_, told| assert_eq!(told, Ok(true), "it was asked to hurry"));
            assert!(work.is_ok());
            has_started.recv_timeout(HANG).unwrap();
            let entries = entries.clone();
            let done = move |_: &EventLoop, result: Result<(), WorkError>| {
                entries.add(format!("{name}-{}", if result.is_ok() { "ran" } else { "canceled" }));
            };
            assert!(event_loop.work(lane, || {}, done).is_ok());
        }
        shutdown(event_loop);
    }));
    let mut entries: Vec<_> = log.text().split(' ').map(str::to_owned).collect();
    entries.sort();
    (entries.join(" "), summary)
}

/// Shows E12, W14.
#[test]
fn each_lane_has_a_policy_for_queued_work_and_the_summary_says_how_many() {
    use WorkPolicy::{Cancel, Run};
    for (fast, slow, expected, finished, canceled) in [
        (Run, Run, "fast-ran slow-ran", 4, 0),
        (Cancel, Run, "fast-canceled slow-ran", 3, 1),
        (Run, Cancel, "fast-ran slow-canceled", 3, 1),
        (Cancel, Cancel, "fast-canceled slow-canceled", 2, 2),
    ] {
        let (text, summary) = lanes_at_shutdown(fast, slow);
        assert_eq!((text.as_str(), summary.panics()), (expected, 0));
        let one = &summary.loops[0];
        assert_eq!((one.work_finished_at_shutdown, one.work_canceled_at_shutdown), (finished, canceled));
    }
}

/// Shows E8, W15.
#[test]
fn work_that_is_given_during_the_shutdown_runs_on_a_worker_as_ever() {
    let ran = Arc::new(AtomicBool::new(false));
    let seen = ran.clone();
    let summary = run(loops(1).setup(0, shutdown).teardown(0, move |event_loop| {
        let loop_thread = std::thread::current().id();
        let work = move || {
            assert_ne!(std::thread::current().id(), loop_thread);
            assert!(EventLoop::current().is_none());
            assert!(yield_wanted(), "the loop is about to end");
            ran.store(true, Ordering::SeqCst);
        };
        assert!(event_loop.work(Lane::Slow, work, |_, result| assert_eq!(result, Ok(()))).is_ok());
    }));
    assert_eq!(summary.panics(), 0);
    assert!(seen.load(Ordering::SeqCst));
}

/// Shows E32, W18.
#[test]
fn a_panic_stops_all_loops_in_order_if_the_policy_says_so() {
    let torn_down = Arc::new(AtomicUsize::new(0));
    let counted = torn_down.clone();
    let summary = run(loops(3)
        .panic_policy(LoopPanicPolicy::Shutdown)
        .setup(1, |event_loop| {
            event_loop.async_run(|_| panic!("on purpose")).unwrap();
        })
        .teardown_all(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        }));
    // Nobody but the panic has asked for the end.
    assert_eq!((summary.panics(), torn_down.load(Ordering::SeqCst)), (1, 3));
}

/// Shows E32.
#[test]
fn by_default_a_panic_of_any_kind_of_callback_is_counted_and_the_loop_goes_on() {
    let summary = run(loops(1).setup(0, |event_loop| {
        event_loop.async_run(|_| panic!("async")).unwrap();
        let job = event_loop.job(|_| panic!("job"));
        job.arm().unwrap();
        job.detach();
        let timer = event_loop.timer(|_, _| panic!("timer"));
        timer.once(Duration::ZERO).unwrap();
        timer.detach();
        let work = event_loop.work(
            Lane::Fast,
            || panic!("work"),
            |event_loop, result: Result<(), WorkError>| {
                assert_eq!(result, Err(WorkError::Panicked("work".to_owned())));
                shutdown(event_loop);
                panic!("done");
            },
        );
        assert!(work.is_ok());
        event_loop.teardown(|_| panic!("teardown")).unwrap();
    }));
    assert_eq!(summary.panics(), 5, "the panic of work is a result, and no panic of a callback");
}

/// Shows L15, W17.
#[cfg(target_os = "linux")]
#[test]
fn when_run_returns_no_thread_of_a_loop_or_of_a_worker_is_left() {
    fn threads() -> Vec<String> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let name =
            |task: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(task.ok()?.path().join("comm")).ok();
        tasks.filter_map(name).filter(|name| name.starts_with("gone-")).collect()
    }
    let summary = loops(3)
        .name("gone")
        .setup_all(|event_loop| {
            for lane in [Lane::Fast, Lane::Slow] {
                assert!(event_loop.work(lane, || {}, |_, _| {}).is_ok());
            }
            if event_loop.tid() == Some(2) {
                assert!(!threads().is_empty(), "the names are those that this test looks for");
                shutdown(event_loop);
            }
        })
        .build()
        .unwrap()
        .run()
        .unwrap();
    assert_eq!(summary.panics(), 0);
    // The kernel lists a thread for a moment after it has been joined.
    let start = std::time::Instant::now();
    while !threads().is_empty() {
        assert!(start.elapsed() < HANG, "left behind: {:?}", threads());
        std::thread::yield_now();
    }
}

/// Shows L13.
#[test]
fn a_shutdown_from_a_thread_outside_and_from_every_loop_at_once_is_one_shutdown() {
    let torn_down = Arc::new(AtomicUsize::new(0));
    let counted = torn_down.clone();
    let builder = loops(3).setup_all(shutdown).teardown_all(move |event_loop| {
        shutdown(event_loop);
        counted.fetch_add(1, Ordering::SeqCst);
    });
    let running = builder.build().unwrap().spawn().unwrap();
    let outside: Vec<_> = (0..4)
        .map(|_| {
            let handle = running.handle();
            std::thread::spawn(move || handle.shutdown())
        })
        .collect();
    let handle = running.handle();
    join(running);
    outside.into_iter().for_each(|thread| thread.join().unwrap());
    handle.shutdown();
    assert_eq!(torn_down.load(Ordering::SeqCst), 3);
}

/// Shows L10, E16.
#[test]
fn a_teardown_callback_that_comes_too_late_is_refused_and_given_back() {
    run_one(|event_loop| {
        event_loop
            .teardown(|event_loop| {
                let value = Arc::new(());
                let captured = value.clone();
                let refused = event_loop.teardown(move |_| drop(captured)).unwrap_err();
                assert_eq!(Arc::strong_count(&value), 2);
                drop(refused.into_inner());
            })
            .unwrap();
        shutdown(event_loop);
    });
}
