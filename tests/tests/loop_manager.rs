//! The manager: start, setup, teardown, the two phases of an end, and what is refused.

mod loop_support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fuchsine_dispatcher::Status;
use fuchsine_dispatcher::event_loop::{
    EventLoop, HolderKind, Lane, LoopManager, LoopPanic, ManagerError, TimerError, tid,
};
use loop_support::{HANG, Log, join, loops, run, run_one, shutdown};

/// Shows L6, L12, L22.
#[test]
fn setup_runs_on_each_loop_and_teardown_too_both_in_the_order_of_registration() {
    let log = Log::new();
    let (s1, s2, s3, t1, t2) = (log.clone(), log.clone(), log.clone(), log.clone(), log.clone());
    let summary = run(loops(1)
        .setup(0, move |_| s1.add("setup-1"))
        .setup_all(move |event_loop| s2.add(format!("setup-all-{}", event_loop.tid().unwrap())))
        .setup(0, move |event_loop| {
            s3.add("setup-3");
            shutdown(event_loop);
        })
        .teardown(0, move |event_loop| {
            assert!(event_loop.is_shutting_down(), "true before the first teardown callback");
            t1.add("teardown-1");
        })
        .teardown_all(move |_| t2.add("teardown-all")));
    assert_eq!(log.text(), "setup-1 setup-all-0 setup-3 teardown-1 teardown-all");
    assert_eq!(summary.loops.len(), 1);
}

#[test]
fn the_all_loops_variants_run_once_on_each_loop() {
    const LOOPS: usize = 3;
    let (up, down) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (in_setup, in_teardown) = (up.clone(), down.clone());
    let bit = |event_loop: &EventLoop| 1 << (8 * event_loop.tid().unwrap());
    let summary = run(loops(LOOPS)
        .setup_all(move |event_loop| {
            in_setup.fetch_add(bit(event_loop), Ordering::Relaxed);
            let manager = LoopManager::current().unwrap();
            assert_eq!(manager.len(), LOOPS);
            if event_loop.tid() == Some(0) {
                manager.shutdown();
            }
        })
        .teardown_all(move |event_loop| {
            in_teardown.fetch_add(bit(event_loop), Ordering::Relaxed);
        }));
    assert_eq!((up.load(Ordering::Relaxed), down.load(Ordering::Relaxed)), (0x01_01_01, 0x01_01_01));
    assert_eq!((summary.loops.len(), summary.panics()), (LOOPS, 0));
}

/// Shows D2, D4, L4, L15.
#[test]
fn run_makes_the_calling_thread_loop_zero_and_returns_when_all_have_ended() {
    let caller = std::thread::spawn(|| {
        let own = std::thread::current().id();
        let summary = loops(2)
            .setup(0, move |_| assert_eq!((std::thread::current().id(), tid()), (own, Some(0))))
            .setup(1, move |event_loop| {
                assert_ne!(std::thread::current().id(), own);
                shutdown(event_loop);
            })
            .build()
            .unwrap()
            .run()
            .unwrap();
        assert_eq!((summary.panics(), tid()), (0, None), "the thread has no loop any more");
    });
    caller.join().unwrap();
}

/// Shows L13.
#[test]
fn a_shutdown_may_come_before_the_start_and_from_anywhere_and_more_than_once() {
    let log = Log::new();
    let (up, down) = (log.clone(), log.clone());
    let manager =
        loops(1).setup(0, move |_| up.add("setup")).teardown(0, move |_| down.add("teardown")).build().unwrap();
    let handle = manager.handle();
    assert!(!handle.is_shutting_down());
    handle.shutdown();
    std::thread::spawn(move || handle.shutdown()).join().unwrap();
    join(manager.spawn().unwrap());
    assert_eq!(log.text(), "setup teardown");
}

/// Shows X3, X6, E6.
#[test]
fn whatever_teardown_leads_to_still_runs() {
    fn chain(event_loop: &EventLoop, log: Log, left: u32) {
        log.add("link");
        if left > 0 {
            event_loop.async_run(move |event_loop| chain(event_loop, log, left - 1)).unwrap();
        }
    }
    let log = Log::new();
    let entries = log.clone();
    let summary = run(loops(1).setup(0, shutdown).teardown(0, move |event_loop| {
        chain(event_loop, entries.clone(), 9);
        let (by_job, by_timer, by_work) = (entries.clone(), entries.clone(), entries.clone());
        let job = event_loop.job(move |_| by_job.add("job"));
        job.arm().unwrap();
        job.detach();
        let timer = event_loop.timer(move |event_loop, _| {
            by_timer.add("timer");
            let after = by_timer.clone();
            event_loop.async_run(move |_| after.add("after-timer")).unwrap();
        });
        timer.once(Duration::from_millis(3)).unwrap();
        timer.detach();
        event_loop.work(Lane::Slow, || "work", move |_, result| by_work.add(result.unwrap())).unwrap();
    }));
    let text = log.text();
    assert_eq!(text.matches("link").count(), 10);
    for entry in ["job", "timer", "work", "after-timer"] {
        assert!(text.split(' ').any(|seen| seen == entry), "{entry} is missing in: {text}");
    }
    assert_eq!((summary.panics(), summary.loops[0].dropped.len()), (0, 0));
}

/// Shows L19, E19.
#[test]
fn what_was_armed_before_the_shutdown_keeps_no_loop_from_ending() {
    let summary = run_one(|event_loop| {
        let forgotten = event_loop.timer(|_, _| unreachable!("it is due in an hour"));
        forgotten.once(Duration::from_secs(3_600)).unwrap();
        forgotten.detach();
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let wait = event_loop.wait_once(&near, fuchsine_dispatcher::Interest::READABLE, |_, _| {}).unwrap();
        event_loop.teardown(move |_| drop((near, far))).unwrap();
        wait.detach();
        shutdown(event_loop);
    });
    assert_eq!(summary.loops[0].dropped, []);
}

#[test]
fn a_ticker_from_before_the_shutdown_that_ticks_during_it_keeps_no_loop_from_ending() {
    let builder = loops(1).linger(Duration::from_secs(3_600)).setup(0, |event_loop| {
        let ticker = event_loop.timer(|_, _| {});
        ticker.ticker(Duration::from_micros(100)).unwrap();
        ticker.detach();
        shutdown(event_loop);
    });
    let summary = run(builder.teardown(0, |event_loop| {
        // Holds the loop through some ticks.
        let grace = event_loop.timer(|_, _| {});
        grace.once(Duration::from_millis(3)).unwrap();
        grace.detach();
    }));
    assert_eq!(summary.loops[0].dropped, []);
}

/// Shows L19, E19.
#[test]
fn what_teardown_arms_and_never_fires_is_dropped_after_the_time_to_linger_and_named() {
    let summary = run(loops(1).linger(Duration::from_millis(2)).setup(0, shutdown).teardown(0, |event_loop| {
        let forgotten = event_loop.timer(|_, _| unreachable!("it is due in an hour"));
        forgotten.once(Duration::from_secs(3_600)).unwrap();
        forgotten.detach();
    }));
    let [dropped] = &summary.loops[0].dropped[..] else { panic!("one thing was dropped: {summary:?}") };
    assert_eq!(dropped.kind, HolderKind::Timer);
    assert!(dropped.to_string().contains("loop_manager.rs"), "{dropped}");
}

/// Shows X6, E6.
#[test]
fn a_chain_that_never_ends_is_refused_after_the_time_to_linger() {
    fn forever(event_loop: &EventLoop, refused: Arc<AtomicUsize>) {
        let next = refused.clone();
        if event_loop.async_run(move |event_loop| forever(event_loop, next)).is_err() {
            refused.fetch_add(1, Ordering::Relaxed);
            let late = event_loop.timer(|_, _| {});
            assert_eq!(late.once(Duration::ZERO), Err(TimerError::LoopEnded));
            assert!(event_loop.work(Lane::Fast, || (), |_, _| {}).is_err());
            assert!(event_loop.job(|_| {}).arm().is_err());
        }
    }
    let refused = Arc::new(AtomicUsize::new(0));
    let count = refused.clone();
    let summary = run(loops(1).linger(Duration::from_millis(1)).setup(0, move |event_loop| {
        forever(event_loop, count);
        shutdown(event_loop);
    }));
    assert_eq!((refused.load(Ordering::Relaxed), summary.panics()), (1, 0));
}

/// Shows L7, L10, E16.
#[test]
fn teardown_can_be_registered_while_running_but_not_once_the_shutdown_has_begun() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let in_teardown = entries.clone();
        event_loop
            .teardown(move |event_loop| {
                in_teardown.add("teardown");
                let late = in_teardown.clone();
                let refused = event_loop.teardown(move |_| late.add("late")).unwrap_err();
                assert_eq!(refused.status(), Status::BadState);
            })
            .unwrap();
        shutdown(event_loop);
    });
    assert_eq!(log.text(), "teardown");
}

/// Shows L16, E18.
#[test]
fn a_manager_that_never_runs_leaks_nothing_and_its_handles_refuse() {
    let value = Arc::new(());
    let (in_setup, in_post) = (value.clone(), value.clone());
    let manager = loops(2).setup(0, move |_| drop(in_setup)).build().unwrap();
    let handle = manager.handle().event_loop(1).unwrap();
    handle.async_run(move |_| drop(in_post)).unwrap();
    drop(manager);
    assert_eq!(Arc::strong_count(&value), 1);
    assert!(handle.async_run(|_| {}).is_err());
}

/// Shows X7.
#[test]
fn nothing_that_callbacks_captured_outlives_the_loops() {
    let value = Arc::new(());
    let captured = value.clone();
    run_one(move |event_loop| {
        // Each holds the loop that holds it.
        let (cycle, one) = (event_loop.clone(), captured.clone());
        let job = event_loop.job(move |_| drop((cycle.clone(), one.clone())));
        let (cycle, two) = (event_loop.clone(), captured.clone());
        let timer = event_loop.timer(move |_, _| drop((cycle.clone(), two.clone())));
        timer.ticker(Duration::from_secs(3_600)).unwrap();
        let kept = std::cell::RefCell::new(Some((job, timer)));
        let three = captured.clone();
        let timer = event_loop.timer(move |_, _| drop((kept.borrow_mut().take(), three.clone())));
        timer.once(Duration::from_secs(3_600)).unwrap();
        timer.detach();
        shutdown(event_loop);
    });
    assert_eq!(Arc::strong_count(&value), 1);
}

/// Shows D5, L1, E18.
#[test]
fn several_managers_run_in_one_process_and_do_not_know_of_each_other() {
    let (one, other) = (loops(2).build().unwrap().spawn().unwrap(), loops(3).build().unwrap().spawn().unwrap());
    assert_eq!((one.handle().len(), other.handle().len()), (2, 3));
    let (sender, receiver) = std::sync::mpsc::channel();
    other
        .handle()
        .event_loop(2)
        .unwrap()
        .async_run(move |event_loop| sender.send((event_loop.tid(), event_loop.manager().unwrap().len())).unwrap())
        .unwrap();
    assert_eq!(receiver.recv_timeout(HANG).unwrap(), (Some(2), 3));
    one.handle().shutdown();
    assert_eq!(join(one).loops.len(), 2);
    assert!(!other.handle().is_shutting_down());
    other.handle().shutdown();
    join(other);
}

/// Shows L4.
#[test]
fn loops_inside_of_a_loop_run_in_the_background_only() {
    run_one(|event_loop| {
        let nested = || loops(1).setup(0, shutdown).build().unwrap();
        let refused = nested().run().unwrap_err();
        assert!(matches!(refused, ManagerError::OnALoop) && refused.status() == Status::BadState);
        assert!(refused.to_string().contains("spawn"));
        nested().spawn().unwrap().join();
        shutdown(event_loop);
    });
}

/// Shows L1, L20.
#[test]
fn impossible_descriptions_are_refused() {
    assert_eq!(loops(0).build().unwrap_err().status(), Status::InvalidArgs);
    let refused = loops(2).setup(2, |_| {}).build().unwrap_err();
    assert_eq!(refused.to_string(), "a callback was registered for loop 2, but the loops are numbered from 0 to 1");
    assert!(loops(2).teardown(7, |_| {}).build().is_err());
    let manager = LoopManager::builder().build().unwrap();
    assert!(manager.handle().len() >= 1 && manager.handle().event_loop(usize::MAX).is_none());
}

#[test]
fn dropping_running_loops_shuts_them_down() {
    let (sender, receiver) = std::sync::mpsc::channel();
    let running = loops(1).teardown(0, move |_| sender.send(()).unwrap()).build().unwrap().spawn().unwrap();
    drop(running);
    receiver.recv_timeout(HANG).expect("teardown runs");
}

#[test]
fn a_loop_that_waits_for_its_own_end_is_told_so() {
    let log = Log::new();
    let seen = log.clone();
    let running =
        loops(1).panic_observer(move |panic: &LoopPanic| seen.add(&*panic.message)).build().unwrap().spawn().unwrap();
    let handle = running.handle();
    let (sender, receiver) = std::sync::mpsc::channel();
    let own = handle.event_loop(0).unwrap();
    own.async_run(move |_| drop(running.join())).unwrap();
    own.async_run(move |_| sender.send(()).unwrap()).unwrap();
    receiver.recv_timeout(HANG).expect("the loop goes on");
    assert!(log.text().contains("a loop cannot wait for its own end"), "{}", log.text());
    assert!(handle.is_shutting_down(), "what was dropped by the panic has shut the loops down");
}
