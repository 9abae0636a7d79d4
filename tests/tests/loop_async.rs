//! Asynchronous callbacks: order, deferral, exact refusal, fairness. Method: loops on threads; order is asserted,
//! never time.

mod loop_support;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use fuchsine_dispatcher::Status;
use fuchsine_dispatcher::event_loop::{EventLoop, LoopHandle, tid};
use loop_support::{Log, join, loops, run, run_one, shutdown};

/// Shows C1.
#[test]
fn a_post_crosses_every_loop_once() {
    fn hop(event_loop: &EventLoop, crossed: Arc<AtomicUsize>) {
        crossed.fetch_add(1, Ordering::Relaxed);
        let (manager, own) = (event_loop.manager().unwrap(), event_loop.tid().unwrap() as usize);
        match own.checked_sub(1) {
            None => manager.shutdown(),
            Some(next) => {
                manager.event_loop(next).unwrap().async_run(move |event_loop| hop(event_loop, crossed)).unwrap();
            }
        }
    }
    const LOOPS: usize = 4;
    let crossed = Arc::new(AtomicUsize::new(0));
    let counter = crossed.clone();
    run(loops(LOOPS).setup(0, move |event_loop| {
        let last = event_loop.manager().unwrap().event_loop(LOOPS - 1).unwrap();
        last.async_run(move |event_loop| hop(event_loop, counter)).unwrap();
    }));
    assert_eq!(crossed.load(Ordering::Relaxed), LOOPS);
}

/// Shows C2, A3, A10.
#[test]
fn posts_of_one_poster_run_in_order_and_those_made_before_the_shutdown_all_run() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        for digit in 1..=5 {
            let entries = entries.clone();
            event_loop.async_run(move |_| entries.add(digit.to_string())).unwrap();
        }
        shutdown(event_loop);
    });
    assert_eq!(log.text(), "1 2 3 4 5");
}

/// Shows A2.
#[test]
fn a_post_never_runs_before_it_returns_not_even_on_its_own_loop() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let inner = entries.clone();
        event_loop.async_run(move |_| inner.add("ran")).unwrap();
        entries.add("returned");
        shutdown(event_loop);
    });
    assert_eq!(log.text(), "returned ran");
}

/// Shows L6, C8.
#[test]
fn posts_made_before_the_start_run_first_and_in_order() {
    let log = Log::new();
    let (first, second) = (log.clone(), log.clone());
    let manager = loops(1)
        .setup(0, move |_| first.add("setup-1"))
        .setup(0, move |event_loop| {
            second.add("setup-2");
            shutdown(event_loop);
        })
        .build()
        .unwrap();
    for name in ["early-1", "early-2"] {
        let entries = log.clone();
        manager.handle().event_loop(0).unwrap().async_run(move |_| entries.add(name)).unwrap();
    }
    join(manager.spawn().unwrap());
    assert_eq!(log.text(), "early-1 early-2 setup-1 setup-2");
}

/// Shows A1, A9, E5.
#[test]
fn a_loop_that_has_ended_gives_the_closure_back_unrun() {
    let running = loops(1).setup(0, shutdown).build().unwrap().spawn().unwrap();
    let handle = running.handle().event_loop(0).unwrap();
    join(running);
    let refused = handle.async_run(|_| panic!("ran on a loop that has ended")).unwrap_err();
    assert_eq!(refused.status(), Status::BadState);
    assert!(refused.to_string().contains("ended"));
    let _closure: fn(&EventLoop) = refused.into_inner();
    assert!(handle.is_closed());
}

/// Shows E5, E6.
#[test]
fn each_post_against_the_end_of_a_loop_is_either_run_or_refused() {
    /// How far a poster gets ahead of the loop: enough that the loop is never idle.
    const AHEAD: usize = 500;
    for _ in 0..20 {
        // Two threads that never stop posting keep the loop from ever being idle; without lingering it closes
        // nevertheless.
        let running = loops(1).linger(Duration::ZERO).build().unwrap().spawn().unwrap();
        let (started, have_started) = std::sync::mpsc::channel();
        let posters = [(); 2].map(|()| {
            let (handle, started) = (running.handle().event_loop(0).unwrap(), started.clone());
            std::thread::spawn(move || {
                let ran = Arc::new(AtomicUsize::new(0));
                let mut accepted = 0;
                loop {
                    let count = ran.clone();
                    if handle
                        .async_run(move |_| {
                            count.fetch_add(1, Ordering::Relaxed);
                        })
                        .is_err()
                    {
                        return (accepted, ran);
                    }
                    accepted += 1;
                    if accepted == AHEAD {
                        started.send(()).unwrap();
                    }
                    while accepted - ran.load(Ordering::Relaxed) > AHEAD {
                        std::thread::yield_now();
                    }
                }
            })
        });
        (0..2).for_each(|_| have_started.recv_timeout(loop_support::HANG).unwrap());
        running.handle().shutdown();
        assert_eq!(join(running).panics(), 0);
        for poster in posters {
            let (accepted, ran) = poster.join().unwrap();
            assert_eq!(ran.load(Ordering::Relaxed), accepted);
        }
    }
}

/// Shows A12, E25.
#[test]
fn a_long_burst_does_not_keep_a_timer_waiting_until_its_end() {
    const BURST: usize = 200_000;
    let ran = Arc::new(AtomicUsize::new(0));
    let fired_after = Arc::new(AtomicUsize::new(usize::MAX));
    let (count, seen) = (ran.clone(), fired_after.clone());
    run_one(move |event_loop| {
        let at_firing = count.clone();
        let timer = event_loop.timer(move |_, _| seen.store(at_firing.load(Ordering::Relaxed), Ordering::Relaxed));
        timer.once(Duration::ZERO).unwrap();
        timer.detach();
        for nth in 0..BURST {
            let count = count.clone();
            let post = move |event_loop: &EventLoop| {
                count.fetch_add(1, Ordering::Relaxed);
                if nth + 1 == BURST {
                    shutdown(event_loop);
                }
            };
            event_loop.async_run(post).unwrap();
        }
    });
    assert_eq!(ran.load(Ordering::Relaxed), BURST);
    assert!(fired_after.load(Ordering::Relaxed) < BURST, "the timer fired within the burst");
}

/// Shows A13, E25.
#[test]
fn a_callback_that_posts_itself_again_and_again_starves_nobody() {
    fn again(event_loop: &EventLoop, stop: Arc<AtomicBool>) {
        if !stop.load(Ordering::Relaxed) {
            event_loop.async_run(move |event_loop| again(event_loop, stop)).unwrap();
        }
    }
    let stop = Arc::new(AtomicBool::new(false));
    run_one(move |event_loop| {
        again(event_loop, stop.clone());
        let job_ran = Rc::new(std::cell::Cell::new(false));
        let seen = job_ran.clone();
        let job = event_loop.job(move |_| seen.set(true));
        job.arm().unwrap();
        job.detach();
        let timer = event_loop.timer(move |event_loop, _| {
            assert!(job_ran.get(), "jobs are served");
            stop.store(true, Ordering::Relaxed);
            shutdown(event_loop);
        });
        timer.once(Duration::from_millis(5)).unwrap();
        timer.detach();
    });
}

/// Shows E32.
#[test]
fn a_panicking_callback_is_reported_and_the_loop_goes_on() {
    let log = Log::new();
    let (seen, entries) = (log.clone(), log.clone());
    let builder = loops(1)
        .panic_observer(move |panic| seen.add(format!("[{} {}: {}]", panic.loop_name, panic.callback, panic.message)))
        .setup(0, move |event_loop| {
            event_loop.async_run(|_| panic!("on purpose")).unwrap();
            event_loop
                .async_run(move |event_loop| {
                    entries.add("next");
                    shutdown(event_loop);
                })
                .unwrap();
        });
    let summary = run(builder);
    assert_eq!(log.text(), "[test-0 async: on purpose] next");
    assert_eq!(summary.panics(), 1);
}

/// Shows D2, A1.
#[test]
fn callbacks_run_on_the_loop_they_were_posted_to_and_know_it() {
    let running = loops(3).build().unwrap().spawn().unwrap();
    assert_eq!(tid(), None, "no loop runs on this thread");
    assert!(EventLoop::current().is_none());
    let (sender, receiver) = std::sync::mpsc::channel();
    for wanted in [2, 0, 1] {
        let handle = running.handle().event_loop(wanted).unwrap();
        let (sender, expected): (_, LoopHandle) = (sender.clone(), handle.clone());
        handle
            .async_run(move |event_loop| {
                assert!(expected.is_current() && event_loop.handle() == expected);
                let name = std::thread::current().name().map(str::to_owned);
                sender.send((tid(), EventLoop::current().and_then(|own| own.tid()), name)).unwrap();
            })
            .unwrap();
        let seen = receiver.recv_timeout(loop_support::HANG).unwrap();
        assert_eq!(seen, (Some(wanted as u32), Some(wanted as u32), Some(format!("test-{wanted}"))));
        assert!(!handle.is_current());
    }
    running.handle().shutdown();
    join(running);
}

/// Does not compile if one of the types can be sent to another thread: then it is not clear which of the two is meant.
macro_rules! stay_on_their_thread {
    ($($type:ty),* $(,)?) => {$({
        trait Either<A> {
            fn one() {}
        }
        impl<T: ?Sized> Either<()> for T {}
        struct IsSend;
        impl<T: ?Sized + Send> Either<IsSend> for T {}
        <$type as Either<_>>::one();
    })*};
}

/// Shows E1, E15, E26.
#[test]
fn handles_go_to_any_thread_and_what_belongs_to_one_loop_goes_nowhere() {
    use fuchsine_dispatcher::event_loop as loops;
    fn are_send_and_sync<T: Send + Sync + Clone + std::fmt::Debug + 'static>() {}
    are_send_and_sync::<LoopHandle>();
    are_send_and_sync::<loops::ManagerHandle>();
    are_send_and_sync::<loops::TimerStopper>();
    are_send_and_sync::<loops::WorkHandle>();
    are_send_and_sync::<loops::RateLimiter>();
    are_send_and_sync::<loops::LimitedEvent>();
    are_send_and_sync::<loops::PauseError>();
    // Whatever the values are: each stays on its loop.
    are_send_and_sync::<loops::LoopLocal<Rc<()>>>();
    stay_on_their_thread!(
        EventLoop,
        loops::Job,
        loops::Timer,
        loops::Wait,
        loops::SignalHandler,
        loops::Hook,
        loops::PauseGuard,
    );
}
