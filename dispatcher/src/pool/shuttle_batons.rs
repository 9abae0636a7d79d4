//! Model checks of the baton: of the threads of a pool that is driven by hand one moves at a time, and no wake-up is lost,
//! whichever thread it comes from.
//!
//! Real: the helpers, the crank's side, the run queue. Modelled: the reactor, whose timers fire when the model says so.
//! Not covered: helpers that do not give the baton back in time, because no time passes in a model.

use std::task::Wake;
use std::time::Duration;

use super::batons::{self, Baton, Job};
use super::{Pool, PoolOptions};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, thread};
use crate::time::{Clock, Instant};

fn explore(model: fn()) {
    let iterations =
        std::env::var("SHUTTLE_ITERATIONS").ok().and_then(|iterations| iterations.parse().ok()).unwrap_or(500);
    shuttle::check_random(model, iterations);
    shuttle::check_pct(model, iterations, 3);
}

fn pool() -> Arc<Pool> {
    let clock = Clock::virtual_at(Instant::ZERO);
    let options = PoolOptions {
        name: "model".to_owned(),
        role: String::new(),
        threads: 0,
        thread_limit: 0,
        dynamic: false,
        idle_life: Duration::MAX,
        scheduling: None,
        clock,
        simulated: true,
    };
    Pool::start(options).expect("a model has what it needs")
}

/// Turns the crank until `done`, which something outside may bring about.
fn turn_until(pool: &Arc<Pool>, mut done: impl FnMut() -> bool) {
    let mut turn = 0;
    while !done() {
        turn += 1;
        if !pool.run_one(turn) && !pool.batons().resume_patient() {
            thread::yield_now();
        }
    }
}

fn end(pool: &Arc<Pool>) {
    pool.close();
    pool.join();
}

/// What a helper does between getting the baton and giving it back.
fn move_alone(moving: &AtomicUsize) {
    assert_eq!(moving.fetch_add(1, Ordering::AcqRel), 0, "two move at once");
    thread::yield_now();
    moving.fetch_sub(1, Ordering::AcqRel);
}

/// Two helpers sleep, and two threads outside wake them, before or after.
#[test]
fn shuttle_one_helper_moves_at_a_time_and_no_wake_up_is_lost() {
    explore(|| {
        let pool = pool();
        let (moving, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut wakers = Vec::new();
        for nth in 0..2 {
            let is_set = Arc::new(AtomicUsize::new(0));
            let place: Arc<Mutex<Option<Arc<Baton>>>> = Arc::default();
            let (setting, own, moves, ends) =
                (Arc::clone(&is_set), Arc::clone(&place), Arc::clone(&moving), Arc::clone(&ended));
            let body = move || {
                let baton = batons::current().expect("a helper");
                *own.lock() = Some(Arc::clone(&baton));
                while is_set.load(Ordering::Acquire) == 0 {
                    move_alone(&moves);
                    baton.sleep(Instant::INFINITE);
                }
                move_alone(&moves);
                ends.fetch_add(1, Ordering::AcqRel);
            };
            let waker = thread::spawn(&format!("waker {nth}"), move || {
                setting.store(1, Ordering::Release);
                let baton = place.lock().clone();
                if let Some(baton) = baton {
                    baton.wake();
                }
            });
            pool.batons().begin(&pool, Job::Call(Box::new(body))).expect("a helper");
            wakers.push(waker.expect("a thread"));
        }
        turn_until(&pool, || {
            move_alone(&moving);
            ended.load(Ordering::Acquire) == 2
        });
        for waker in wakers {
            waker.join().expect("it ends");
        }
        end(&pool);
    });
}

/// A deadline and a wake-up race: the helper goes on, once for each sleep, and its timer is disarmed.
#[test]
fn shuttle_a_deadline_and_a_wake_up_end_one_sleep() {
    explore(|| {
        let pool = pool();
        let (sleeps, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (slept, ends) = (Arc::clone(&sleeps), Arc::clone(&ended));
        let body = move || {
            let baton = batons::current().expect("a helper");
            baton.sleep(Instant::from_nanos(1));
            slept.fetch_add(1, Ordering::AcqRel);
            baton.let_others_go_first();
            ends.fetch_add(1, Ordering::AcqRel);
        };
        let baton = pool.batons().begin(&pool, Job::Call(Box::new(body))).expect("a helper");
        let clock = Arc::clone(&pool);
        let time = thread::spawn("time", move || clock.reactor().fire_all()).expect("a thread");
        let waker = thread::spawn("waker", move || baton.wake()).expect("a thread");
        turn_until(&pool, || ended.load(Ordering::Acquire) == 1);
        assert_eq!(sleeps.load(Ordering::Acquire), 1);
        time.join().expect("it ends");
        waker.join().expect("it ends");
        end(&pool);
    });
}

/// A pool that closes while a helper has a job and another has none: both end.
#[test]
fn shuttle_helpers_end_with_their_pool_whatever_they_are_at() {
    explore(|| {
        let pool = pool();
        pool.batons().begin(&pool, Job::Call(Box::new(|| ()))).expect("a helper");
        let ended = Arc::new(AtomicUsize::new(0));
        let ends = Arc::clone(&ended);
        let body = move || {
            batons::current().expect("a helper").sleep(Instant::INFINITE);
            ends.fetch_add(1, Ordering::AcqRel);
        };
        let baton = pool.batons().begin(&pool, Job::Call(Box::new(body))).expect("a helper");
        let closing = Arc::clone(&pool);
        let closer = thread::spawn("closer", move || closing.close()).expect("a thread");
        baton.wake();
        turn_until(&pool, || ended.load(Ordering::Acquire) == 1);
        closer.join().expect("it ends");
        end(&pool);
    });
}
