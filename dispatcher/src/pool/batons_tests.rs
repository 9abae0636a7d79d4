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

/// Notes whether the crank went on without a helper.
#[derive(Default)]
struct Outside(AtomicBool);

impl Probe for Outside {
    fn choose(&self, _choice: probe::Choice, _of: usize) -> usize {
        0
    }

    fn turn(&self, _others: Weak<dyn probe::Others>) {}

    fn next(&self, _actors: &[Actor]) -> usize {
        0
    }

    fn point(&self, _point: probe::Point) {}

    fn note(&self, _note: probe::Note) {}

    fn went_outside(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn panicked(&self, _message: &str, _location: Option<&std::panic::Location<'_>>) {}
}

/// Runs a job while whoever turns the crank has a probe; whether the crank went on without it, before `then`.
fn goes_outside(job: impl FnOnce() + Send + 'static, then: impl FnOnce()) -> bool {
    let pool = pool();
    let outside = Arc::<Outside>::default();
    {
        let _attached = probe::attach(Some(Arc::clone(&outside) as Arc<dyn Probe>));
        pool.batons().begin(&pool, Job::Call(Box::new(job))).expect("a thread");
    }
    then();
    end(&pool);
    outside.0.load(Ordering::Relaxed)
}

/// Whether it waits is looked at by whoever turns the crank; it must not wait for the look.
#[test]
fn a_helper_that_is_busy_with_its_pool_does_not_count_as_blocked() {
    let until = Clock::real().now() + Duration::from_secs(1);
    let job = move || {
        while Clock::real().now() < until {
            (0..100).for_each(|_| assert!(!current().expect("a helper").is_outside()));
        }
    };
    assert!(!goes_outside(job, || ()));
}

#[test]
fn a_helper_that_waits_for_somebody_else_counts_as_blocked() {
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    assert!(goes_outside(move || assert!(receiver.recv().is_err()), || drop(sender)));
}
