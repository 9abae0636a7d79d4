//! The pause: one loop runs, all others stand still, and their workers if it wants. No test measures time: what may not
//! run sets a flag while it runs, and whoever is alone looks at the flags.

mod loop_support;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use fuchsine_dispatcher::Status;
use fuchsine_dispatcher::event_loop::{
    EventLoop, Lane, ManagerHandle, PauseError, PauseGuard, PauseScope, WaitingFor, yield_wanted,
};
use loop_support::{HANG, Log, loops, run, shutdown};

/// How many are inside of something at this moment.
#[derive(Clone, Default)]
struct Inside(Arc<AtomicUsize>);

impl Inside {
    fn enter<R>(&self, body: impl FnOnce() -> R) -> R {
        self.0.fetch_add(1, Ordering::SeqCst);
        let result = body();
        self.0.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// Gives everybody many chances to show up.
    #[track_caller]
    fn assert_nobody(&self) {
        for _ in 0..200 {
            assert_eq!(self.0.load(Ordering::SeqCst), 0, "somebody runs who should stand still");
            std::thread::yield_now();
        }
    }
}

fn manager(event_loop: &EventLoop) -> ManagerHandle {
    event_loop.manager().expect("the loop has a manager")
}

/// Posts itself to its loop again and again, and counts.
fn spin(event_loop: &EventLoop, inside: Inside, rounds: Arc<AtomicUsize>) {
    inside.enter(std::thread::yield_now);
    rounds.fetch_add(1, Ordering::SeqCst);
    if !event_loop.is_shutting_down() {
        event_loop.async_run(move |event_loop| spin(event_loop, inside, rounds)).expect("the loop goes on");
    }
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !holds() {
        assert!(start.elapsed() < HANG, "hangs: {what}");
        std::thread::yield_now();
    }
}

/// Shows C7, P1, P2, P5.
#[test]
fn a_pause_returns_when_all_other_loops_stand_still_and_they_go_on_when_the_guard_is_dropped() {
    let (inside, rounds) = (Inside::default(), Arc::new(AtomicUsize::new(0)));
    let (spinning, counted) = (inside.clone(), rounds.clone());
    let summary = run(loops(4)
        .setup_all(move |event_loop| {
            if event_loop.tid() != Some(0) {
                spin(event_loop, spinning.clone(), counted.clone());
            }
        })
        .setup(0, move |event_loop| {
            let manager = manager(event_loop);
            wait_for("the others start", || rounds.load(Ordering::SeqCst) > 10);
            let guard = event_loop.pause(PauseScope::Loops).unwrap();
            assert!(manager.is_paused());
            assert_eq!([0, 1, 2, 3].map(|tid| manager.is_standing(tid)), [false, true, true, true]);
            let before = rounds.load(Ordering::SeqCst);
            inside.assert_nobody();
            assert_eq!(rounds.load(Ordering::SeqCst), before);
            drop(guard);
            assert!(!manager.is_paused());
            wait_for("the others go on", || rounds.load(Ordering::SeqCst) > before);
            manager.shutdown();
        }));
    assert_eq!(summary.panics(), 0);
}

/// Shows P3, E13.
#[test]
fn a_pause_with_workers_waits_for_the_item_that_runs_which_sees_that_it_is_waited_for() {
    let inside = Inside::default();
    let in_work = inside.clone();
    let (started, has_started) = channel();
    let next_started: Arc<AtomicBool> = Arc::default();
    let starts = next_started.clone();
    let log = Log::new();
    let entries = log.clone();
    let summary = run(loops(2)
        .setup(1, move |event_loop| {
            let (running, queued, ends) = (in_work.clone(), in_work, entries.clone());
            let long = move || {
                running.enter(|| {
                    started.send(()).unwrap();
                    wait_for("the item is asked to yield", yield_wanted);
                });
            };
            event_loop.work(Lane::Slow, long, move |_, _| ends.add("done-1")).unwrap();
            let ends = entries.clone();
            let next = move || {
                starts.store(true, Ordering::SeqCst);
                queued.enter(|| {});
            };
            event_loop.work(Lane::Slow, next, move |_, _| ends.add("done-2")).unwrap();
        })
        .setup(0, move |event_loop| {
            has_started.recv_timeout(HANG).unwrap();
            let guard = event_loop.pause(PauseScope::LoopsAndWorkers).unwrap();
            // Neither the item that ran, which has ended, nor the one behind it.
            inside.assert_nobody();
            assert!(!next_started.load(Ordering::SeqCst));
            drop(guard);
            assert!(!yield_wanted(), "there is nothing to yield outside of work");
            shutdown(event_loop);
        }));
    assert_eq!((summary.panics(), log.text().as_str()), (0, "done-1 done-2"));
}

/// Shows E13.
#[test]
fn a_pause_of_loops_only_does_not_wait_for_work() {
    let (go, may_go) = channel::<()>();
    let (started, has_started) = channel();
    let summary = run(loops(2)
        .setup(1, move |event_loop| {
            let work = move || {
                started.send(()).unwrap();
                may_go.recv_timeout(HANG).is_ok()
            };
            event_loop.work(Lane::Fast, work, |_, result| assert_eq!(result, Ok(true))).unwrap();
        })
        .setup(0, move |event_loop| {
            has_started.recv_timeout(HANG).unwrap();
            // This would hang if the pause waited for the work, which waits for this callback.
            let guard = event_loop.pause(PauseScope::Loops).unwrap();
            go.send(()).unwrap();
            drop(guard);
            shutdown(event_loop);
        }));
    assert_eq!(summary.panics(), 0);
}

/// Shows E13.
#[test]
fn a_pause_whose_deadline_passes_names_the_loop_and_the_worker_it_waited_for_and_everybody_goes_on() {
    let (go_work, work_may_go) = channel::<()>();
    let (go_loop, loop_may_go) = channel::<()>();
    let (started, has_started) = channel();
    let log = Log::new();
    let entries = log.clone();
    let summary = run(loops(2)
        .setup(1, move |event_loop| {
            let in_work = started.clone();
            let work = move || {
                in_work.send(()).unwrap();
                work_may_go.recv_timeout(HANG).unwrap();
            };
            event_loop.work(Lane::Slow, work, move |_, _| entries.add("done")).unwrap();
            started.send(()).unwrap();
            loop_may_go.recv_timeout(HANG).unwrap();
        })
        .setup(0, move |event_loop| {
            has_started.recv_timeout(HANG).unwrap();
            has_started.recv_timeout(HANG).unwrap();
            let refused = event_loop.pause_until(PauseScope::LoopsAndWorkers, event_loop.now()).unwrap_err();
            assert_eq!(refused.status(), Status::TimedOut);
            let [WaitingFor::Loop { tid: 1, .. }, WaitingFor::Worker { lane: Lane::Slow, given: Some(given), .. }] =
                refused.waiting_for()
            else {
                panic!("one loop and one worker were waited for: {refused}");
            };
            assert!(given.file().ends_with("loop_pause.rs"));
            let text = refused.to_string();
            assert!(text.contains("loop test-1") && text.contains("worker test-1-slow with the work of"), "{text}");
            assert!(!manager(event_loop).is_paused(), "a pause that failed is over");
            // Whoever was waited for goes on: that is what the end of this test shows.
            go_loop.send(()).unwrap();
            go_work.send(()).unwrap();
            let guard = event_loop.pause_until(PauseScope::Loops, event_loop.now() + HANG).unwrap();
            drop(guard);
            shutdown(event_loop);
        }));
    assert_eq!((summary.panics(), log.text().as_str()), (0, "done"));
}

/// Shows P6.
#[test]
fn what_is_posted_and_given_to_workers_during_a_pause_runs_when_it_is_over() {
    let log = Log::new();
    let entries = log.clone();
    let summary = run(loops(2).setup(0, move |event_loop| {
        let guard = event_loop.pause(PauseScope::LoopsAndWorkers).unwrap();
        let other = manager(event_loop).event_loop(1).unwrap();
        let (done, wait) = channel::<()>();
        let (posted, worked) = (entries.clone(), entries.clone());
        other
            .async_run(move |event_loop| {
                posted.add("posted");
                let registered = posted.clone();
                event_loop.teardown(move |_| registered.add("torn-down")).unwrap();
                drop(done);
            })
            .unwrap();
        // A worker that is started during the pause stands still as well.
        let started: Arc<AtomicBool> = Arc::default();
        let starts = started.clone();
        let work = move || {
            starts.store(true, Ordering::SeqCst);
            // Until the other loop has run.
            let _ = wait.recv_timeout(HANG);
            worked.add("worked");
        };
        event_loop.work(Lane::Fast, work, |event_loop, _| shutdown(event_loop)).unwrap();
        for _ in 0..200 {
            std::thread::yield_now();
            assert!(!started.load(Ordering::SeqCst));
        }
        entries.add("resumed");
        drop(guard);
    }));
    assert_eq!((summary.panics(), log.text().as_str()), (0, "resumed posted worked torn-down"));
}

/// Shows P7, E14.
#[test]
fn a_loop_that_pauses_already_is_told_so() {
    let summary = run(loops(2).setup(0, |event_loop| {
        let guard = event_loop.pause(PauseScope::Loops).unwrap();
        let refused = event_loop.pause(PauseScope::Loops).unwrap_err();
        assert_eq!((refused.status(), refused), (Status::BadState, PauseError::AlreadyPaused));
        assert_eq!(event_loop.try_pause(PauseScope::Loops).unwrap_err(), PauseError::AlreadyPaused);
        drop(guard);
        drop(event_loop.try_pause(PauseScope::Loops).unwrap());
        shutdown(event_loop);
    }));
    assert_eq!(summary.panics(), 0);
}

/// Shows P7, E14.
#[test]
fn a_loop_that_does_not_want_to_wait_for_another_pause_is_told_so() {
    let (entered, has_entered) = channel();
    let summary = run(loops(2)
        .setup(0, move |event_loop| {
            has_entered.recv_timeout(HANG).unwrap();
            // Waits for the callback of loop 1, which does not end before it has been refused.
            drop(event_loop.pause(PauseScope::Loops).unwrap());
            shutdown(event_loop);
        })
        .setup(1, move |event_loop| {
            entered.send(()).unwrap();
            // The first may succeed, as long as loop 0 has not come to its own pause; from then on it is loop 0's turn.
            wait_for("the other loop wants to pause", || match event_loop.try_pause(PauseScope::Loops) {
                Ok(guard) => {
                    drop(guard);
                    false
                }
                Err(refused) => {
                    assert_eq!((refused.status(), refused), (Status::ShouldWait, PauseError::ShouldWait));
                    true
                }
            });
        }));
    assert_eq!(summary.panics(), 0);
}

/// Shows E14, P7.
#[test]
fn loops_that_pause_at_the_same_time_are_alone_one_after_the_other() {
    const LOOPS: usize = 4;
    const TIMES: usize = 50;
    fn again(event_loop: &EventLoop, alone: Inside, left: usize, all: Arc<AtomicUsize>) {
        let scope = if left.is_multiple_of(2) { PauseScope::Loops } else { PauseScope::LoopsAndWorkers };
        let guard = event_loop.pause(scope).unwrap();
        alone.assert_nobody();
        alone.enter(std::thread::yield_now);
        drop(guard);
        if left % 2 == 1 {
            event_loop.work(Lane::Fast, std::thread::yield_now, |_, _| {}).unwrap();
        }
        if left > 1 {
            event_loop.async_run(move |event_loop| again(event_loop, alone, left - 1, all)).unwrap();
        } else if all.fetch_add(1, Ordering::SeqCst) + 1 == LOOPS {
            shutdown(event_loop);
        }
    }
    let (alone, all) = (Inside::default(), Arc::new(AtomicUsize::new(0)));
    let summary = run(loops(LOOPS).setup_all(move |event_loop| again(event_loop, alone.clone(), TIMES, all.clone())));
    assert_eq!((summary.panics(), summary.loops.len()), (0, LOOPS));
}

/// Shows P8, E14.
#[test]
fn a_pause_counts_only_loops_that_have_not_ended() {
    let summary = run(loops(3).setup(0, shutdown).teardown(0, |event_loop| {
        let manager = manager(event_loop);
        for tid in [1, 2] {
            let other = manager.event_loop(tid).unwrap();
            wait_for("the other loops end", || other.is_closed());
        }
        // They have ended, or are about to.
        let guard = event_loop.pause(PauseScope::LoopsAndWorkers).unwrap();
        assert!(manager.is_paused());
        drop(guard);
    }));
    assert_eq!(summary.panics(), 0);
}

/// Shows E14.
#[test]
fn a_pause_in_the_first_callback_of_all_finds_loops_that_have_run_nothing_yet_or_stand_between_callbacks() {
    for _ in 0..20 {
        let inside = Inside::default();
        let in_setup = inside.clone();
        let summary = run(loops(3)
            .setup(0, move |event_loop| {
                let guard = event_loop.pause(PauseScope::Loops).unwrap();
                inside.assert_nobody();
                drop(guard);
                shutdown(event_loop);
            })
            .setup_all(move |event_loop| {
                if event_loop.tid() != Some(0) {
                    in_setup.enter(std::thread::yield_now);
                }
            }));
        assert_eq!(summary.panics(), 0);
    }
}

/// Shows E14, X3.
#[test]
fn every_loop_may_pause_while_all_shut_down() {
    for round in 0..20 {
        let alone = Inside::default();
        let summary = run(loops(3).setup(round % 3, shutdown).teardown_all(move |event_loop| {
            let guard = event_loop.pause(PauseScope::LoopsAndWorkers).unwrap();
            alone.assert_nobody();
            alone.enter(std::thread::yield_now);
            drop(guard);
            event_loop.work(Lane::Slow, || {}, |_, _| {}).unwrap();
        }));
        assert_eq!(summary.panics(), 0);
    }
}

/// Shows E15, P5.
#[test]
fn a_guard_that_is_kept_keeps_the_others_standing_until_it_is_dropped() {
    let inside = Inside::default();
    let elsewhere = inside.clone();
    let summary = run(loops(2).setup(0, move |event_loop| {
        let guard = event_loop.pause(PauseScope::Loops).unwrap();
        let other = manager(event_loop).event_loop(1).unwrap();
        other.async_run(move |_| elsewhere.enter(std::thread::yield_now)).unwrap();
        let kept: Rc<RefCell<Option<PauseGuard>>> = Rc::new(RefCell::new(Some(guard)));
        let timer = event_loop.timer(move |event_loop, _| {
            // This loop has slept and woken meanwhile; the other one has not moved.
            inside.assert_nobody();
            drop(kept.borrow_mut().take());
            shutdown(event_loop);
        });
        timer.once(Duration::from_millis(2)).unwrap();
        timer.detach();
    }));
    assert_eq!(summary.panics(), 0);
}

/// Shows E15, E14.
#[test]
fn a_guard_that_is_never_dropped_ends_with_its_loop() {
    let ran = Arc::new(AtomicBool::new(false));
    let elsewhere = ran.clone();
    let summary = run(loops(2).linger(Duration::from_millis(1)).setup(0, move |event_loop| {
        std::mem::forget(event_loop.pause(PauseScope::LoopsAndWorkers).unwrap());
        // It would never run if the forgotten guard kept this loop's own worker from it.
        event_loop.work(Lane::Fast, || {}, |_, result| assert_eq!(result, Ok(()))).unwrap();
        let other = manager(event_loop).event_loop(1).unwrap();
        other.async_run(move |_| elsewhere.store(true, Ordering::SeqCst)).unwrap();
        shutdown(event_loop);
    }));
    assert_eq!(summary.panics(), 0);
    assert!(ran.load(Ordering::SeqCst), "the other loop went on when this one had ended");
}

/// Shows E15, E14.
#[test]
fn a_guard_that_is_never_dropped_by_the_last_callback_of_all_ends_with_its_loop() {
    fn until_refused(event_loop: &EventLoop) {
        if event_loop.async_run(until_refused).is_err() {
            // The loop accepts nothing any more, and is running what it has accepted.
            std::mem::forget(event_loop.pause(PauseScope::LoopsAndWorkers).unwrap());
        }
    }
    let summary = run(loops(2).linger(Duration::from_millis(1)).setup(0, |event_loop| {
        // On a worker that is halted by the pause, unless it is through before.
        event_loop.work(Lane::Slow, || wait_for("a yield is wanted", yield_wanted), |_, _| {}).unwrap();
        until_refused(event_loop);
        event_loop.work(Lane::Slow, || {}, |_, result| assert_eq!(result, Ok(()))).unwrap();
        shutdown(event_loop);
    }));
    assert_eq!(summary.panics(), 0);
}

/// Shows P4.
#[test]
fn a_pause_during_the_shutdown_waits_for_work_of_a_loop_that_waits_for_it_too() {
    let inside = Inside::default();
    let in_work = inside.clone();
    let (started, has_started) = channel();
    let summary = run(loops(2)
        .setup(1, move |event_loop| {
            let work = move || {
                in_work.enter(|| {
                    started.send(()).unwrap();
                    wait_for("a yield is wanted", yield_wanted);
                });
            };
            event_loop.work(Lane::Slow, work, |_, _| {}).unwrap();
        })
        .setup(0, move |event_loop| {
            has_started.recv_timeout(HANG).unwrap();
            shutdown(event_loop);
        })
        .teardown(0, move |event_loop| {
            let guard = event_loop.pause(PauseScope::LoopsAndWorkers).unwrap();
            inside.assert_nobody();
            drop(guard);
        }));
    assert_eq!((summary.panics(), summary.loops[1].work_finished_at_shutdown), (0, 1));
}

/// Shows Q2.
#[test]
fn a_loop_that_stands_still_is_between_its_prepare_and_its_check_hooks() {
    let inside = Inside::default();
    let hooked = inside.clone();
    let rounds = Arc::new(AtomicUsize::new(0));
    let counted = rounds.clone();
    let summary = run(loops(3)
        .setup_all(move |event_loop| {
            if event_loop.tid() == Some(0) {
                return;
            }
            let (begin, end) = (hooked.clone(), hooked.clone());
            event_loop
                .check(move |_| {
                    begin.0.fetch_add(1, Ordering::SeqCst);
                })
                .detach();
            let mut has_begun = false;
            // The first prepare comes without a check before it: the hooks are made in the middle of an iteration.
            event_loop
                .prepare(move |_| {
                    if std::mem::replace(&mut has_begun, true) {
                        end.0.fetch_sub(1, Ordering::SeqCst);
                    }
                })
                .detach();
            spin(event_loop, Inside::default(), counted.clone());
        })
        .setup(0, move |event_loop| {
            wait_for("the others turn", || rounds.load(Ordering::SeqCst) > 10);
            for _ in 0..50 {
                let guard = event_loop.pause(PauseScope::Loops).unwrap();
                inside.assert_nobody();
                drop(guard);
                std::thread::yield_now();
            }
            shutdown(event_loop);
        }));
    assert_eq!(summary.panics(), 0);
}
