//! The rate limiter: how many a tick, in which order, on which loop, and what becomes of the rest. Time is looked at only
//! as the distance between two ticks, which has a lower bound and no upper one.

mod loop_support;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fuchsine_dispatcher::event_loop::{EventLoop, RateLimit, RateLimiter, Release};
use fuchsine_dispatcher::{Canceled, Instant, Status};
use loop_support::{Log, join, loops, run, run_one, shutdown};

const FOREVER: Duration = Duration::from_secs(3_600);

fn limit(per_tick: u32, interval: Duration) -> RateLimit {
    RateLimit { per_tick: NonZeroU32::new(per_tick).unwrap(), interval, ..RateLimit::default() }
}

/// Enqueues an event for the loop itself that writes down its name, and how it ended.
fn enqueue(limiter: &RateLimiter, event_loop: &EventLoop, log: &Log, name: &'static str) {
    let log = log.clone();
    limiter
        .enqueue(&event_loop.handle(), move |_, released| {
            log.add(if released.is_ok() { name.to_owned() } else { format!("{name}-canceled") });
        })
        .unwrap();
}

/// Runs `body` some iterations later, when everything that was posted so far, and what it led to, has run.
fn later(event_loop: &EventLoop, body: impl FnOnce(&EventLoop) + 'static) {
    fn count_down(event_loop: &EventLoop, left: u32, body: impl FnOnce(&EventLoop) + 'static) {
        if left == 0 {
            return body(event_loop);
        }
        let mut body = Some(body);
        let job = event_loop.job(move |event_loop| {
            if let Some(body) = body.take() {
                count_down(event_loop, left - 1, Box::new(body) as Box<dyn FnOnce(&EventLoop)>);
            }
        });
        job.arm().unwrap();
        job.detach();
    }
    count_down(event_loop, 6, body);
}

/// Shows R1, C35, C37.
#[test]
fn a_new_limiter_is_idle_with_one_event_a_tick_and_may_be_dropped_at_any_time() {
    run_one(|event_loop| {
        let limiter = event_loop.rate_limiter(RateLimit::default());
        assert_eq!(limiter.limit(), limit(1, Duration::ZERO));
        assert_eq!((limiter.limit().release, limiter.len()), (Release::OldestFirst, 0));
        let again = limiter.clone();
        drop(limiter);
        again.shutdown();
        drop(again);
        shutdown(event_loop);
    });
}

/// Shows C38, R3.
#[test]
fn the_first_event_is_released_at_once_and_the_limiter_may_go_in_its_callback() {
    let ticks = Arc::new(AtomicUsize::new(0));
    let counted = ticks.clone();
    run_one(move |event_loop| {
        // With an interval in which no test waits for the second one.
        let limiter = event_loop.rate_limiter(limit(1, FOREVER));
        let own = limiter.clone();
        limiter
            .enqueue(&event_loop.handle(), move |event_loop, released| {
                assert_eq!(released, Ok(()));
                counted.fetch_add(1, Ordering::Relaxed);
                own.shutdown();
                drop(own);
                shutdown(event_loop);
            })
            .unwrap();
    });
    assert_eq!(ticks.load(Ordering::Relaxed), 1);
}

/// Shows C40, R6, E27.
#[test]
fn an_event_is_taken_back_by_its_key_once_and_by_its_own_limiter_only() {
    run_one(|event_loop| {
        let (one, other) = (event_loop.rate_limiter(limit(1, FOREVER)), event_loop.rate_limiter(limit(1, FOREVER)));
        let key = one.enqueue(&event_loop.handle(), |_, _| unreachable!("it was taken back")).unwrap();
        let foreign = other.enqueue(&event_loop.handle(), |_, released| assert_eq!(released, Ok(()))).unwrap();
        assert!(one.dequeue(foreign).is_none(), "a key of another limiter names nothing here");
        let taken = one.dequeue(key).expect("it was listed");
        drop(taken.into_inner());
        assert!(one.dequeue(key).is_none(), "it is not listed any more");
        later(event_loop, move |event_loop| {
            assert!(other.dequeue(foreign).is_none(), "it has been released");
            shutdown(event_loop);
        });
    });
}

/// Shows C41, R3, R4.
#[test]
fn the_second_event_comes_no_earlier_than_an_interval_after_the_first() {
    const INTERVAL: Duration = Duration::from_millis(20);
    run_one(|event_loop| {
        let limiter = event_loop.rate_limiter(limit(1, INTERVAL));
        let enqueued_at: Instant = event_loop.now();
        limiter.enqueue(&event_loop.handle(), |_, released| assert_eq!(released, Ok(()))).unwrap();
        let second = move |event_loop: &EventLoop, released| {
            assert_eq!(released, Ok(()));
            assert!(event_loop.now() - enqueued_at >= INTERVAL, "the first tick was no earlier than its event");
            shutdown(event_loop);
        };
        limiter.enqueue(&event_loop.handle(), second).unwrap();
    });
}

/// Shows R4, R5, R8.
#[test]
fn a_tick_releases_so_many_in_the_order_that_is_set_and_the_rest_wait() {
    for (release, expected) in [(Release::OldestFirst, "a b"), (Release::NewestFirst, "d c")] {
        let log = Log::new();
        let entries = log.clone();
        run_one(move |event_loop| {
            let limiter = event_loop.rate_limiter(RateLimit { release, ..limit(2, FOREVER) });
            for name in ["a", "b", "c", "d"] {
                enqueue(&limiter, event_loop, &entries, name);
            }
            assert_eq!(limiter.len(), 4);
            later(event_loop, move |event_loop| {
                assert_eq!((limiter.len(), entries.text().as_str()), (2, expected));
                shutdown(event_loop);
            });
        });
    }
}

/// Shows R4.
#[test]
fn a_limiter_whose_list_ran_dry_within_a_tick_is_idle_and_a_changed_limit_counts_from_the_next_tick() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let limiter = event_loop.rate_limiter(limit(2, FOREVER));
        enqueue(&limiter, event_loop, &entries, "a");
        let entries = entries.clone();
        later(event_loop, move |event_loop| {
            // One was released where two might have been: idle, so the next is released at once, not in an hour.
            assert_eq!(entries.text(), "a");
            enqueue(&limiter, event_loop, &entries, "b");
            later(event_loop, move |event_loop| {
                assert_eq!(entries.text(), "a b");
                limiter.set_limit(limit(1, Duration::ZERO));
                for name in ["c", "d", "e"] {
                    enqueue(&limiter, event_loop, &entries, name);
                }
                let handle = event_loop.handle();
                limiter.enqueue(&handle, |event_loop, _| shutdown(event_loop)).unwrap();
            });
        });
    });
    assert_eq!(log.text(), "a b c d e");
}

/// Shows R2, R4, E27.
#[test]
fn each_event_runs_on_its_own_loop_whoever_enqueued_it_also_when_it_is_canceled() {
    const LOOPS: usize = 3;
    let log = Log::new();
    let entries = log.clone();
    let running = loops(LOOPS).build().unwrap().spawn().unwrap();
    let handle = running.handle();
    let (sender, receiver) = std::sync::mpsc::channel();
    handle
        .event_loop(0)
        .unwrap()
        .async_run(move |event_loop| sender.send(event_loop.rate_limiter(limit(LOOPS as u32, FOREVER))).unwrap())
        .unwrap();
    let limiter = receiver.recv_timeout(loop_support::HANG).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let send_one = |tid: usize| {
        let (entries, sender) = (entries.clone(), sender.clone());
        limiter.enqueue(&handle.event_loop(tid).unwrap(), move |event_loop, released| {
            assert_eq!(event_loop.tid(), Some(tid as u32));
            entries.add(if released == Err(Canceled) { "canceled" } else { "released" });
            sender.send(()).unwrap();
        })
    };
    // A whole tick of them: so the limiter is not idle afterwards, and the rest is listed.
    for tid in 0..LOOPS {
        send_one(tid).unwrap();
    }
    (0..LOOPS).for_each(|_| receiver.recv_timeout(loop_support::HANG).unwrap());
    while limiter.len() > 0 {
        std::thread::yield_now();
    }
    for tid in 0..LOOPS {
        send_one(tid).unwrap();
    }
    let before = limiter.len();
    limiter.shutdown();
    (0..LOOPS).for_each(|_| receiver.recv_timeout(loop_support::HANG).unwrap());
    assert_eq!(send_one(0).unwrap_err().status(), Status::BadState);
    handle.shutdown();
    assert_eq!(join(running).panics(), 0);
    let text = log.text();
    let canceled = text.matches("canceled").count();
    assert!(text.starts_with("released"), "{text}");
    assert!(canceled <= LOOPS && before <= LOOPS && text.split(' ').count() == 2 * LOOPS, "{text}");
}

/// Shows R7, R9.
#[test]
fn a_shutdown_cancels_what_is_listed_at_once_and_refuses_what_comes_later() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let limiter = event_loop.rate_limiter(limit(1, FOREVER));
        for name in ["a", "b", "c"] {
            enqueue(&limiter, event_loop, &entries, name);
        }
        later(event_loop, move |event_loop| {
            assert_eq!(entries.text(), "a");
            limiter.shutdown();
            limiter.shutdown();
            assert_eq!(limiter.len(), 0);
            let unrun = Arc::new(());
            let captured = unrun.clone();
            let refused = limiter.enqueue(&event_loop.handle(), move |_, _| drop(captured)).unwrap_err();
            assert_eq!((refused.status(), Arc::strong_count(&unrun)), (Status::BadState, 2));
            later(event_loop, move |event_loop| {
                assert_eq!(entries.text(), "a b-canceled c-canceled");
                shutdown(event_loop);
            });
        });
    });
}

/// Keeps a loop that shuts down from ending until both of its events have come.
fn hold_until(event_loop: &EventLoop, arrived: Arc<AtomicUsize>) {
    if arrived.load(Ordering::SeqCst) < 2 {
        let next = arrived.clone();
        let timer = event_loop.timer(move |event_loop, _| hold_until(event_loop, next.clone()));
        timer.once(Duration::from_millis(1)).unwrap();
        timer.detach();
    }
}

/// Shows R7, R9, E27.
#[test]
fn the_shutdown_of_its_loop_is_the_shutdown_of_a_limiter_and_nothing_is_lost() {
    let log = Log::new();
    let (entries, arrived) = (log.clone(), Arc::new(AtomicUsize::new(0)));
    let awaited = arrived.clone();
    let builder = loops(2).teardown(1, move |event_loop| hold_until(event_loop, awaited));
    let summary = run(builder.setup(0, move |event_loop| {
        let limiter = event_loop.rate_limiter(limit(1, FOREVER));
        let manager = event_loop.manager().unwrap();
        for tid in [0, 1, 0, 1] {
            let (entries, count) = (entries.clone(), arrived.clone());
            let event = move |event_loop: &EventLoop, released: Result<(), Canceled>| {
                assert_eq!(event_loop.tid(), Some(tid));
                count.fetch_add(tid as usize, Ordering::SeqCst);
                entries.add(if released.is_ok() { "released" } else { "canceled" });
            };
            limiter.enqueue(&manager.event_loop(tid as usize).unwrap(), event).unwrap();
        }
        later(event_loop, shutdown);
    }));
    assert_eq!(summary.panics(), 0);
    let text = log.text();
    assert_eq!((text.matches("released").count(), text.matches("canceled").count()), (1, 3), "{text}");
}

/// Shows R9.
#[test]
fn an_event_whose_loop_has_ended_is_dropped_and_the_limiter_goes_on() {
    let ended = loops(1).build().unwrap();
    let gone = ended.handle().event_loop(0).unwrap();
    drop(ended);
    let value = Arc::new(());
    let captured = value.clone();
    run_one(move |event_loop| {
        let limiter = event_loop.rate_limiter(limit(1, Duration::ZERO));
        limiter.enqueue(&gone, move |_, _| drop(captured)).unwrap();
        limiter.enqueue(&event_loop.handle(), |event_loop, _| shutdown(event_loop)).unwrap();
    });
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn a_limiter_that_is_made_during_the_shutdown_refuses() {
    let summary = run(loops(1).setup(0, shutdown).teardown(0, |event_loop| {
        let limiter = event_loop.rate_limiter(RateLimit::default());
        assert!(limiter.enqueue(&event_loop.handle(), |_, _| {}).is_err());
    }));
    assert_eq!(summary.panics(), 0);
}
