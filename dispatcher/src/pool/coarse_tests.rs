//! The time for what is only looked at: who keeps it.

use super::{Pool, PoolOptions, Runnable, Task, Turn};
use crate::sync::{Arc, Mutex, thread};
use crate::time::{Clock, Instant};
use std::time::Duration;

const THREADS: usize = 2;

fn pool() -> Arc<Pool> {
    let options = PoolOptions {
        name: "coarse".to_owned(),
        role: String::new(),
        threads: THREADS,
        thread_limit: THREADS,
        dynamic: false,
        idle_life: Duration::from_secs(60),
        scheduling: None,
        clock: Clock::real(),
        simulated: false,
    };
    Pool::start(options).expect("the system has threads")
}

fn end(pool: &Pool) {
    pool.close();
    pool.join();
}

/// Until all threads sleep and the watch does: from here on nobody reads the pool's clock.
fn wait_for_rest(pool: &Pool) {
    wait_until("everybody to sleep", || pool.idle.sleeping_threads().len() == THREADS && pool.watch.is_asleep());
}

/// Looks until `condition` holds. The clock it counts on is another than that of the pool.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let limit = Clock::real().now() + Duration::from_secs(60);
    while !condition() {
        assert!(Clock::real().now() < limit, "waiting for {what}");
        thread::yield_now();
    }
}

#[test]
fn while_the_watch_looks_it_reads_the_clock() {
    let pool = pool();
    pool.watch.arm(&pool);
    let before = pool.coarse_now();
    wait_until("the coarse clock to move", || {
        pool.watch.arm(&pool);
        pool.coarse_now() > before
    });
    end(&pool);
}

#[test]
fn what_comes_from_outside_after_a_rest_has_the_exact_time() {
    let pool = pool();
    wait_for_rest(&pool);
    let before = pool.time_after_rest();
    wait_until("the time to move", || pool.time_after_rest() > before);
    assert!(pool.coarse_now() > before, "the coarse clock has it too");
    end(&pool);
}

#[test]
fn a_thread_that_gets_up_reads_the_clock_before_it_runs_anything() {
    struct Look(Mutex<Option<Instant>>, Arc<Pool>);
    impl Runnable for Look {
        fn run_turn(self: Arc<Self>) -> Turn {
            *self.0.lock() = Some(self.1.coarse_now());
            Turn::Done
        }
    }
    let pool = pool();
    let exact = Clock::real();
    for _ in 0..3 {
        wait_for_rest(&pool);
        let look = Arc::new(Look(Mutex::new(None), Arc::clone(&pool)));
        let posted = exact.now();
        pool.schedule(Arc::clone(&look) as Task);
        wait_until("a turn", || look.0.lock().is_some());
        let seen = look.0.lock().expect("it was seen a line above");
        assert!(posted <= seen, "the thread got up without a look at the clock");
    }
    end(&pool);
}
