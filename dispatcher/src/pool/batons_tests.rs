//! Goal: helpers of a pool that is driven by hand do their jobs, sleep, are woken and end.
//! Method: a pool without threads, turned by the test.

use super::*;
use crate::pool::PoolOptions;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::refused_threads::refuse_after;

fn pool() -> Arc<Pool> {
    let options = PoolOptions {
        name: "by-hand".to_owned(),
        role: String::new(),
        threads: 0,
        thread_limit: 0,
        dynamic: false,
        idle_life: Duration::MAX,
        scheduling: None,
        clock: Clock::virtual_at(Instant::ZERO),
        simulated: true,
    };
    Pool::start(options).expect("it needs nothing from the system")
}

fn end(pool: &Arc<Pool>) {
    pool.close();
    pool.join();
    assert!(pool.batons().have_ended());
}

#[test]
fn without_a_thread_a_job_runs_where_the_crank_is_turned() {
    let pool = pool();
    let here = thread::current_id();
    let ran_here = Arc::new(AtomicBool::new(false));
    let noting = Arc::clone(&ran_here);
    let job = Job::Call(Box::new(move || noting.store(thread::current_id() == here, Ordering::Relaxed)));
    let baton = refuse_after(0, || pool.batons().begin(&pool, job));
    assert!(baton.is_none() && ran_here.load(Ordering::Relaxed));
    end(&pool);
}

#[test]
fn a_helper_that_is_done_is_used_again_and_its_panic_is_the_cranks() {
    let pool = pool();
    let begin = |call: Box<dyn FnOnce() + Send>| pool.batons().begin(&pool, Job::Call(call)).expect("a thread");
    let first = begin(Box::new(|| ()));
    let panicked = catch_unwind(AssertUnwindSafe(|| begin(Box::new(|| panic!("of a job"))))).expect_err("it panics");
    assert_eq!(panicked.downcast_ref(), Some(&"of a job"));
    let third = begin(Box::new(|| ()));
    assert!(Arc::ptr_eq(&first, &third));
    end(&pool);
}

#[test]
fn a_helper_that_is_woken_several_times_goes_on_once() {
    let pool = pool();
    let turns = Arc::new(Mutex::new(0));
    let counting = Arc::clone(&turns);
    let baton = pool.batons().begin(
        &pool,
        Job::Call(Box::new(move || {
            for _ in 0..2 {
                current().expect("a helper").sleep(Instant::INFINITE);
                *counting.lock() += 1;
            }
        })),
    );
    let baton = baton.expect("a thread");
    baton.wake_by_ref();
    baton.wake_by_ref();
    while pool.run_one(1) {}
    assert_eq!(*turns.lock(), 1);
    baton.wake_by_ref();
    while pool.run_one(1) {}
    assert_eq!(*turns.lock(), 2);
    end(&pool);
}
