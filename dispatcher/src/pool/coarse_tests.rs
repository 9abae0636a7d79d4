//! The time for what is only looked at is right also when nobody reads the clock.

use super::{Pool, PoolOptions};
use crate::sync::{Arc, thread};
use crate::time::{Clock, Instant};
use std::time::Duration;

fn pool() -> Arc<Pool> {
    let options = PoolOptions {
        name: "coarse".to_owned(),
        threads: 1,
        thread_limit: 1,
        dynamic: false,
        idle_life: Duration::from_secs(60),
        scheduling: None,
        clock: Clock::real(),
        simulated: false,
    };
    Pool::start(options).expect("the system has a thread")
}

fn end(pool: &Pool) {
    pool.close();
    pool.join();
}

/// Looks until `condition` holds. The clock it counts on is another than that of the pool.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let limit = Clock::real().now() + Duration::from_secs(60);
    while !condition() {
        assert!(Clock::real().now() < limit, "waiting for {what}");
        thread::yield_now();
    }
}

fn moves(pool: &Pool) -> impl Fn() -> bool {
    let before: Instant = pool.coarse_now();
    move || pool.coarse_now() > before
}

#[test]
fn while_the_watch_looks_it_reads_the_clock() {
    let pool = pool();
    let clock = pool.reactor().clock().clone();
    pool.watch.arm(&pool);
    let before = clock.coarse();
    wait_until("the coarse clock to move", || {
        assert!(!pool.watch.is_asleep() || clock.coarse() > before);
        clock.coarse() > before
    });
    end(&pool);
}

#[test]
fn while_the_watch_sleeps_the_time_is_exact() {
    let pool = pool();
    wait_until("the watch to sleep", || pool.watch.is_asleep());
    wait_until("the time to move", moves(&pool));
    pool.watch.arm(&pool);
    wait_until("the watch to sleep again", || pool.watch.is_asleep());
    wait_until("the time to move", moves(&pool));
    end(&pool);
}

#[test]
fn when_the_watch_wakes_up_its_last_reading_is_not_taken_for_the_time() {
    let pool = pool();
    wait_until("the watch to sleep", || pool.watch.is_asleep());
    let exact = pool.coarse_now();
    pool.watch.arm(&pool);
    assert!(pool.coarse_now() >= exact, "the clock went back to where the watch had left it");
    end(&pool);
}
