//! Work lanes: results, order, cancellation, panics, and what becomes of work at shutdown.

mod loop_support;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::thread::ThreadId;

use fuchsine_dispatcher::Status;
use fuchsine_dispatcher::event_loop::{EventLoop, Lane, WorkError, WorkHandle, WorkPolicy, tid};
use loop_support::{HANG, Log, loops, run, run_one, shutdown};

/// Shows C5, W5, W6, W7, D3.
#[test]
fn the_result_comes_back_to_the_origin_loop_and_work_knows_no_loop() {
    run_one(|event_loop| {
        let origin = std::thread::current().id();
        let work = || {
            assert!(tid().is_none() && EventLoop::current().is_none());
            (std::thread::current().id(), std::thread::current().name().map(str::to_owned))
        };
        let done = move |event_loop: &EventLoop, result: Result<(ThreadId, Option<String>), WorkError>| {
            let (worker, name) = result.unwrap();
            assert_ne!(worker, origin);
            assert_eq!(name.as_deref(), Some("test-0-fast"));
            assert_eq!((std::thread::current().id(), tid()), (origin, Some(0)));
            shutdown(event_loop);
        };
        event_loop.work(Lane::Fast, work, done).unwrap();
    });
}

/// Shows W4.
#[test]
fn items_of_a_lane_run_one_at_a_time_in_order_and_are_done_in_order() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let running = Arc::new(AtomicUsize::new(0));
        for nth in 1..=5 {
            let (running, worked, done) = (running.clone(), entries.clone(), entries.clone());
            let work = move || {
                assert_eq!(running.fetch_add(1, Ordering::Relaxed), 0, "one at a time");
                worked.add(format!("w{nth}"));
                running.fetch_sub(1, Ordering::Relaxed);
            };
            let finished = move |event_loop: &EventLoop, result: Result<(), WorkError>| {
                result.unwrap();
                done.add(format!("d{nth}"));
                if nth == 5 {
                    shutdown(event_loop);
                }
            };
            event_loop.work(Lane::Fast, work, finished).unwrap();
        }
    });
    let text = log.text();
    let of =
        |letter| text.split(' ').filter(|entry| entry.starts_with(letter)).map(|entry| &entry[1..]).collect::<String>();
    assert_eq!((of('w'), of('d')), ("12345".to_owned(), "12345".to_owned()));
}

/// Shows W1.
#[test]
fn lanes_do_not_wait_for_each_other() {
    run_one(|event_loop| {
        let (release, released) = channel();
        let blocked = move || released.recv_timeout(HANG).expect("the fast lane releases the slow one");
        event_loop
            .work(Lane::Slow, blocked, |event_loop, result| {
                result.unwrap();
                shutdown(event_loop);
            })
            .unwrap();
        event_loop.work(Lane::Fast, move || release.send(()).unwrap(), |_, result| result.unwrap()).unwrap();
    });
}

/// Occupies a lane until the returned sender is used or dropped.
fn occupy(event_loop: &EventLoop, lane: Lane) -> (std::sync::mpsc::Sender<()>, WorkHandle) {
    let (release, released) = channel::<()>();
    let (started, has_started) = channel();
    let work = move || {
        started.send(()).unwrap();
        let _ = released.recv_timeout(HANG);
    };
    let handle = event_loop.work(lane, work, |_, result| result.unwrap()).unwrap();
    has_started.recv_timeout(HANG).expect("the worker starts");
    (release, handle)
}

/// Shows W6, W9, W10, E9.
#[test]
fn canceled_work_is_done_at_once_and_not_after_the_items_ahead() {
    run_one(|event_loop| {
        let (release, running) = occupy(event_loop, Lane::Slow);
        assert!(!running.cancel(), "what runs cannot be canceled");
        let handle = event_loop
            .work(
                Lane::Slow,
                || unreachable!("it was canceled"),
                move |event_loop, result: Result<(), _>| {
                    assert_eq!(result, Err(WorkError::Canceled));
                    // Only now may the item ahead end.
                    release.send(()).unwrap();
                    shutdown(event_loop);
                },
            )
            .unwrap();
        let twin = handle.clone();
        let (won, twice) = std::thread::spawn(move || (twin.cancel(), twin.cancel())).join().unwrap();
        assert!(won && !twice && !handle.cancel(), "only one call wins");
    });
}

/// Shows W18, E11, E32.
#[test]
fn a_panic_of_work_is_a_result_of_its_own_and_the_worker_goes_on() {
    let summary = run(loops(1).setup(0, |event_loop| {
        let panics = || -> u8 { panic!("on purpose") };
        event_loop
            .work(Lane::Fast, panics, |event_loop, result| {
                assert_eq!(result, Err(WorkError::Panicked("on purpose".into())));
                assert_eq!(result.unwrap_err().status(), Status::Internal);
                event_loop
                    .work(
                        Lane::Fast,
                        || 7,
                        |event_loop, result| {
                            assert_eq!(result, Ok(7));
                            shutdown(event_loop);
                        },
                    )
                    .unwrap();
            })
            .unwrap();
    }));
    assert_eq!(summary.panics(), 0, "no callback of the loop panicked");
}

#[test]
fn a_panic_of_done_is_caught_and_the_loop_goes_on() {
    let summary = run(loops(1).setup(0, |event_loop| {
        event_loop.work(Lane::Fast, || (), |_, _| panic!("on purpose")).unwrap();
        event_loop.work(Lane::Fast, || (), |event_loop, _| shutdown(event_loop)).unwrap();
    }));
    assert_eq!(summary.panics(), 1);
}

/// Shuts down with one item running and three queued; answers what `done` was told, in order, and the summary's
/// numbers.
fn at_shutdown(policy: WorkPolicy) -> (String, u64, u64) {
    let log = Log::new();
    let entries = log.clone();
    let builder = loops(1).work_at_shutdown(policy).setup(0, move |event_loop| {
        let (release, _running) = occupy(event_loop, Lane::Slow);
        for nth in 1..=3 {
            let (on_worker, entries) = (entries.clone(), entries.clone());
            let origin = std::thread::current().id();
            let work = move || {
                assert_ne!(std::thread::current().id(), origin, "work never runs on a loop");
                on_worker.add(format!("ran-{nth}"));
                nth
            };
            event_loop.work(Lane::Slow, work, move |_, result| entries.add(format!("{result:?}"))).unwrap();
        }
        event_loop.teardown(move |_| drop(release)).unwrap();
        shutdown(event_loop);
    });
    let summary = run(builder);
    let one = &summary.loops[0];
    (log.text(), one.work_finished_at_shutdown, one.work_canceled_at_shutdown)
}

/// Shows W3, W14, E12.
#[test]
fn queued_work_is_run_to_the_end_at_shutdown_by_default() {
    let (text, finished, canceled) = at_shutdown(WorkPolicy::Run);
    let done: Vec<_> = text.split(' ').filter(|entry| entry.starts_with("Ok")).collect();
    assert_eq!(done, ["Ok(1)", "Ok(2)", "Ok(3)"]);
    assert_eq!((finished, canceled), (4, 0));
}

/// Shows E12.
#[test]
fn queued_work_is_canceled_at_shutdown_if_the_policy_says_so_and_the_running_one_ends() {
    let (text, finished, canceled) = at_shutdown(WorkPolicy::Cancel);
    assert_eq!(text, "Err(Canceled) Err(Canceled) Err(Canceled)");
    assert_eq!((finished, canceled), (1, 3));
}

/// Shows W3, W15, E8.
#[test]
fn work_given_during_the_teardown_is_run_and_done() {
    let log = Log::new();
    let entries = log.clone();
    run(loops(1).setup(0, shutdown).teardown(0, move |event_loop| {
        event_loop
            .work(
                Lane::Fast,
                || "late",
                move |event_loop, result| {
                    let again = entries.clone();
                    entries.add(result.unwrap());
                    event_loop.work(Lane::Slow, || "later", move |_, result| again.add(result.unwrap())).unwrap();
                },
            )
            .unwrap();
    }));
    assert_eq!(log.text(), "late later");
}

/// Shows W6, W9.
#[test]
fn done_runs_exactly_once_while_cancel_races_the_start() {
    const ITEMS: usize = 2_000;
    let (ran, canceled, won) =
        (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (ran_in, canceled_in, won_in) = (ran.clone(), canceled.clone(), won.clone());
    let start = Arc::new(Barrier::new(2));
    run_one(move |event_loop| {
        let (handles, to_cancel) = channel::<WorkHandle>();
        let go = start.clone();
        let canceler = std::thread::spawn(move || {
            go.wait();
            to_cancel.iter().filter(|handle| handle.cancel()).count()
        });
        start.wait();
        let left = std::rc::Rc::new(std::cell::Cell::new(ITEMS));
        for _ in 0..ITEMS {
            let (ran, canceled, left) = (ran_in.clone(), canceled_in.clone(), left.clone());
            let done = move |event_loop: &EventLoop, result: Result<(), WorkError>| {
                match result {
                    Ok(()) => ran.fetch_add(1, Ordering::Relaxed),
                    Err(_) => canceled.fetch_add(1, Ordering::Relaxed),
                };
                left.set(left.get() - 1);
                if left.get() == 0 {
                    shutdown(event_loop);
                }
            };
            handles.send(event_loop.work(Lane::Fast, || (), done).unwrap()).unwrap();
        }
        drop(handles);
        won_in.store(canceler.join().unwrap(), Ordering::Relaxed);
    });
    let (ran, canceled) = (ran.load(Ordering::Relaxed), canceled.load(Ordering::Relaxed));
    assert_eq!((ran + canceled, canceled), (ITEMS, won.load(Ordering::Relaxed)));
}

/// Shows W8, W9, E10, E11.
#[test]
fn a_handle_may_be_used_at_any_time_and_cancels_only_what_has_not_started() {
    let (sender, receiver) = std::sync::mpsc::channel::<WorkHandle>();
    run_one(move |event_loop| {
        let own: Rc<RefCell<Option<WorkHandle>>> = Rc::default();
        let reached = own.clone();
        // The value that the work answers is of its own type, and none of them means anything else.
        let handle = event_loop
            .work(
                Lane::Fast,
                || "a value",
                move |event_loop, result| {
                    assert_eq!(result, Ok("a value"));
                    let handle = reached.borrow_mut().take().unwrap();
                    assert!(!handle.cancel(), "it has run");
                    sender.send(handle).unwrap();
                    shutdown(event_loop);
                },
            )
            .unwrap();
        *own.borrow_mut() = Some(handle);
    });
    let handle = receiver.recv().unwrap();
    assert!(!handle.cancel() && !handle.clone().cancel(), "the loop has gone, the handle has not");
}

/// Shows W11, W9, E10.
#[test]
fn of_many_threads_that_cancel_one_item_exactly_one_wins_and_done_runs_on_the_origin_loop() {
    run_one(|event_loop| {
        let (go, busy) = occupy(event_loop, Lane::Slow);
        drop(busy);
        let handle = event_loop
            .work(
                Lane::Slow,
                || unreachable!("it is canceled"),
                |event_loop, result: Result<(), WorkError>| {
                    assert_eq!((result, tid()), (Err(WorkError::Canceled), Some(0)));
                    shutdown(event_loop);
                },
            )
            .unwrap();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let handle = handle.clone();
                std::thread::spawn(move || handle.cancel())
            })
            .collect();
        let won = threads.into_iter().map(|thread| thread.join().unwrap()).filter(|won| *won).count();
        assert_eq!(won, 1);
        event_loop.teardown(move |_| drop(go)).unwrap();
    });
}
