//! Jobs: order, clear refusals, disarming, and what a callback may do to itself and to its siblings.

mod loop_support;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use fuchsine_dispatcher::event_loop::{EventLoop, Job, JobError};
use loop_support::{Log, loops, run, run_one, shutdown};

/// A job that writes its name down; the last one of a test shuts down.
fn named(event_loop: &EventLoop, log: &Log, name: &'static str) -> Job {
    let log = log.clone();
    event_loop.job(move |_| log.add(name))
}

/// Keeps jobs alive until the shutdown, which is asked for when all armed before have run.
fn finish(event_loop: &EventLoop, jobs: Vec<Job>) {
    let kept = RefCell::new(jobs);
    let last = event_loop.job(move |event_loop| {
        kept.borrow_mut().clear();
        shutdown(event_loop);
    });
    last.arm().unwrap();
    last.detach();
}

/// Shows C4, J2, J5.
#[test]
fn jobs_run_in_the_order_of_arming() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let jobs: Vec<_> = ["1", "2", "3", "4", "5"].map(|name| named(event_loop, &entries, name)).into();
        jobs.iter().for_each(|job| job.arm().unwrap());
        finish(event_loop, jobs);
    });
    assert_eq!(log.text(), "1 2 3 4 5");
}

/// Shows J9, E2.
#[test]
fn arming_an_armed_job_is_refused_and_loses_nobody() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let jobs: Vec<_> = ["a", "b", "c"].map(|name| named(event_loop, &entries, name)).into();
        jobs.iter().for_each(|job| job.arm().unwrap());
        // First, middle and last of the list: each of these shapes corrupts a list that does not look.
        for job in &jobs {
            assert_eq!(job.arm(), Err(JobError::AlreadyArmed));
            assert!(job.is_armed());
        }
        finish(event_loop, jobs);
    });
    assert_eq!(log.text(), "a b c");
}

/// Shows J8, E4.
#[test]
fn a_disarmed_job_does_not_run_and_its_neighbours_do() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let mut jobs: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| named(event_loop, &entries, name)).into();
        jobs.iter().for_each(|job| job.arm().unwrap());
        assert!(jobs[0].disarm() && jobs[2].disarm() && jobs[4].disarm());
        assert!(!jobs[2].disarm(), "it is not armed any more");
        jobs[2].arm().unwrap();
        drop(jobs.remove(1));
        finish(event_loop, jobs);
    });
    assert_eq!(log.text(), "d c");
}

/// Shows J5, J6.
#[test]
fn a_job_may_arm_itself_again_and_never_runs_twice_in_one_drain() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let own: Rc<RefCell<Option<Job>>> = Rc::default();
        let (again, entry) = (own.clone(), entries.clone());
        let rounds = Cell::new(0);
        let job = event_loop.job(move |event_loop| {
            entry.add("self");
            rounds.set(rounds.get() + 1);
            if rounds.get() < 3 {
                again.borrow().as_ref().unwrap().arm().unwrap();
            } else {
                shutdown(event_loop);
                // Frees the job from within its own callback.
                again.borrow_mut().take();
            }
        });
        job.arm().unwrap();
        *own.borrow_mut() = Some(job);
        let other = named(event_loop, &entries, "other");
        other.arm().unwrap();
        other.detach();
    });
    assert_eq!(log.text(), "self other self self");
}

/// Shows J7, E3.
#[test]
fn a_job_may_free_disarm_and_arm_siblings_that_are_pending_in_the_same_drain() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let siblings: Rc<RefCell<Vec<Job>>> = Rc::default();
        let (reached, entry) = (siblings.clone(), entries.clone());
        let first = event_loop.job(move |event_loop| {
            entry.add("first");
            let mut siblings = reached.borrow_mut();
            assert_eq!(siblings[2].arm(), Err(JobError::AlreadyArmed));
            assert!(siblings[1].disarm());
            siblings[1].arm().unwrap();
            drop(siblings.remove(0));
            finish(event_loop, Vec::new());
        });
        first.arm().unwrap();
        first.detach();
        siblings.borrow_mut().extend(["freed", "later", "third"].map(|name| named(event_loop, &entries, name)));
        siblings.borrow().iter().for_each(|job| job.arm().unwrap());
        event_loop.teardown(move |_| siblings.borrow_mut().clear()).unwrap();
    });
    assert_eq!(log.text(), "first third later");
}

/// Shows J8, E4.
#[test]
fn a_dropped_job_does_not_run_and_a_detached_one_does() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let dropped = named(event_loop, &entries, "dropped");
        dropped.arm().unwrap();
        drop(dropped);
        let detached = named(event_loop, &entries, "detached");
        detached.arm().unwrap();
        detached.detach();
        // Neither armed nor reachable by anybody: gone at once.
        named(event_loop, &entries, "never").detach();
        finish(event_loop, Vec::new());
    });
    assert_eq!(log.text(), "detached");
}

/// Shows J10, E25.
#[test]
fn a_job_that_arms_itself_again_and_again_starves_neither_timers_nor_posts() {
    run_one(|event_loop| {
        let own: Rc<RefCell<Option<Job>>> = Rc::default();
        let again = own.clone();
        let job = event_loop.job(move |_| {
            if let Some(job) = &*again.borrow() {
                job.arm().unwrap();
            }
        });
        job.arm().unwrap();
        *own.borrow_mut() = Some(job);
        let timer = event_loop.timer(move |event_loop, _| {
            let own = own.borrow_mut().take();
            drop(own);
            event_loop.async_run(shutdown).unwrap();
        });
        timer.once(Duration::from_millis(5)).unwrap();
        timer.detach();
    });
}

/// Shows E32.
#[test]
fn a_panicking_job_can_be_armed_again() {
    let log = Log::new();
    let entries = log.clone();
    let summary = run(loops(1).setup(0, move |event_loop| {
        let mut calls = 0;
        let job = event_loop.job(move |_| {
            calls += 1;
            entries.add(format!("call-{calls}"));
            assert!(calls > 1, "the first call panics on purpose");
        });
        job.arm().unwrap();
        let timer = event_loop.timer(move |event_loop, _| {
            job.arm().unwrap();
            shutdown(event_loop);
        });
        timer.once(Duration::from_millis(1)).unwrap();
        event_loop.teardown(move |_| drop(timer)).unwrap();
    }));
    assert_eq!(log.text(), "call-1 call-2");
    assert_eq!(summary.panics(), 1);
}

/// A job that its own callback drops, after which it panics, either itself or in the drop of what it has captured.
fn drops_itself<T: 'static>(event_loop: &EventLoop, captured: T, panics: bool) -> Rc<RefCell<Option<Job>>> {
    let own: Rc<RefCell<Option<Job>>> = Rc::default();
    let reached = own.clone();
    let job = event_loop.job(move |_| {
        let _captured = &captured;
        reached.borrow_mut().take();
        assert!(!panics, "on purpose");
    });
    job.arm().unwrap();
    *own.borrow_mut() = Some(job);
    own
}

/// Shows E32, J7.
#[test]
fn a_panic_keeps_no_other_job_of_the_same_drain_from_running() {
    struct WhenDropped(Log, bool);
    impl Drop for WhenDropped {
        fn drop(&mut self) {
            self.0.add("dropped");
            assert!(!self.1, "on purpose");
        }
    }
    let log = Log::new();
    let entries = log.clone();
    let summary = run(loops(1).setup(0, move |event_loop| {
        let jobs = [named(event_loop, &entries, "first"), event_loop.job(|_| panic!("on purpose"))];
        jobs.iter().for_each(|job| job.arm().unwrap());
        drops_itself(event_loop, WhenDropped(entries.clone(), false), true);
        let middle = named(event_loop, &entries, "middle");
        middle.arm().unwrap();
        drops_itself(event_loop, WhenDropped(entries.clone(), true), false);
        let captured = WhenDropped(entries.clone(), false);
        let left_to_its_loop = event_loop.job(move |_| {
            let _captured = &captured;
            panic!("on purpose");
        });
        left_to_its_loop.arm().unwrap();
        left_to_its_loop.detach();
        let last = named(event_loop, &entries, "last");
        last.arm().unwrap();
        finish(event_loop, jobs.into_iter().chain([middle, last]).collect());
    }));
    assert_eq!(log.text(), "first dropped middle dropped dropped last");
    assert_eq!(summary.panics(), 4, "of a callback, of one whose job had gone, of a drop, of one left to its loop");
}

/// Shows J12, X3.
#[test]
fn jobs_armed_during_the_teardown_run_before_the_loop_ends() {
    let log = Log::new();
    let entries = log.clone();
    let builder = loops(1).setup(0, shutdown).teardown(0, move |event_loop| {
        let job = named(event_loop, &entries, "job");
        job.arm().unwrap();
        job.detach();
    });
    run(builder);
    assert_eq!(log.text(), "job");
}

/// Shows J9, E2.
#[test]
fn none_of_the_ways_to_arm_an_armed_job_loses_or_merges_anybody() {
    // Each: which jobs are armed, in order; all that are refused are those that were armed before.
    for (armed, expected) in [("aa", "a"), ("aba", "a b"), ("abcb", "a b c"), ("abb", "a b"), ("abcabc", "a b c")] {
        let log = Log::new();
        let entries = log.clone();
        run_one(move |event_loop| {
            let jobs: Vec<_> = ["a", "b", "c"].map(|name| named(event_loop, &entries, name)).into();
            let mut seen = String::new();
            for name in armed.chars() {
                let job = &jobs[name as usize - 'a' as usize];
                assert_eq!(job.arm().is_err(), seen.contains(name), "{name} in {armed}");
                seen.push(name);
            }
            finish(event_loop, jobs);
        });
        assert_eq!(log.text(), expected, "{armed}");
    }
}

/// Shows J9, J7, E3.
#[test]
fn a_job_that_arms_a_sibling_of_its_own_drain_is_refused_and_the_sibling_runs_once() {
    let log = Log::new();
    let entries = log.clone();
    run_one(move |event_loop| {
        let sibling = Rc::new(named(event_loop, &entries, "b"));
        let (reached, first) = (sibling.clone(), entries.clone());
        let job = event_loop.job(move |_| {
            first.add("a");
            assert_eq!(reached.arm(), Err(JobError::AlreadyArmed));
        });
        job.arm().unwrap();
        sibling.arm().unwrap();
        event_loop.teardown(move |_| drop((job, sibling))).unwrap();
        event_loop.async_run(|event_loop| event_loop.async_run(shutdown).unwrap()).unwrap();
    });
    assert_eq!(log.text(), "a b");
}
