//! Model check of the sleep/wake protocol: every interleaving, within the preemption bound, of a poster and pool
//! threads that search, announce their sleep, look again, park or lead.
//!
//! A lost wake-up shows as a deadlock: a runnable is queued and everybody sleeps. The run queue is modelled as a
//! counter: in the smaller models one that orders nothing by itself, so that a push may be seen late, in the larger ones
//! behind a lock; the leader's poll as a flag with a condition variable; what is not covered is
//! crossbeam's deque itself and the reactor's own wake-up, which has a model beside it.
//!
//! Explored with `LOOM_MAX_PREEMPTIONS=3`: see the numbers that each model prints.

use loom::model::Builder;

use super::idle::{Idle, SleepAs, ThreadIndex, Wake};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Condvar, Mutex};

/// What is runnable.
enum Queue {
    /// A lock orders pushes and looks, as crossbeam's injector nearly does.
    Ordered(Mutex<usize>),
    /// Nothing does: only the fences of the protocol let a look see a push.
    Unordered(AtomicUsize),
}

impl Queue {
    fn push(&self) {
        match self {
            Queue::Ordered(queued) => *queued.lock() += 1,
            Queue::Unordered(queued) => {
                queued.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn take(&self) -> bool {
        let one_less = |queued: usize| queued.checked_sub(1);
        match self {
            Queue::Ordered(queued) => {
                let mut queued = queued.lock();
                one_less(*queued).inspect(|left| *queued = *left).is_some()
            }
            Queue::Unordered(queued) => queued.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok(),
        }
    }

    fn has_any(&self) -> bool {
        match self {
            Queue::Ordered(queued) => *queued.lock() > 0,
            Queue::Unordered(queued) => queued.load(Ordering::Relaxed) > 0,
        }
    }
}

struct Pool {
    idle: Idle,
    queue: Queue,
    done: AtomicUsize,
    total: usize,
    lead: Mutex<bool>,
    woken: Mutex<bool>,
    poll: Condvar,
}

impl Pool {
    fn new(threads: usize, total: usize, queue: Queue) -> Arc<Pool> {
        let idle = Idle::new();
        (0..threads).for_each(|thread| idle.admit(thread));
        Arc::new(Pool {
            idle,
            queue,
            done: AtomicUsize::new(0),
            total,
            lead: Mutex::new(false),
            woken: Mutex::new(false),
            poll: Condvar::new(),
        })
    }

    fn post(&self) {
        self.queue.push();
        let wake = self.idle.notify();
        self.carry_out(wake);
    }

    fn carry_out(&self, wake: Wake) {
        if wake == Wake::Leader {
            *self.woken.lock() = true;
            self.poll.notify_one();
        }
    }

    fn work(&self, thread: ThreadIndex) {
        let mut searching = false;
        loop {
            if !searching {
                self.idle.start_searching();
                searching = true;
            }
            if self.queue.take() {
                searching = false;
                if self.idle.stop_searching() && self.queue.has_any() {
                    let wake = self.idle.notify();
                    self.carry_out(wake);
                }
                if self.done.fetch_add(1, Ordering::AcqRel) + 1 == self.total && self.idle.close() {
                    self.carry_out(Wake::Leader);
                }
                continue;
            }
            if self.done.load(Ordering::Acquire) == self.total {
                return;
            }
            self.sleep(thread);
            if self.idle.is_retired(thread) {
                // As in `worker.rs`: it counts as searching and leaves like any other that stops to search.
                if self.idle.stop_searching() && self.queue.has_any() {
                    let wake = self.idle.notify();
                    self.carry_out(wake);
                }
                return;
            }
        }
    }

    /// What the stall watch does to extra threads that have slept for long; here all but thread 0 are extra.
    fn retire_sleepers(&self) {
        for (thread, sleep) in self.idle.sleeping_threads() {
            if thread > 0
                && let Some(wake) = self.idle.retire(thread, sleep)
            {
                self.carry_out(wake);
            }
        }
    }

    fn sleep(&self, thread: ThreadIndex) {
        let leads = {
            let mut lead = self.lead.lock();
            !std::mem::replace(&mut *lead, true)
        };
        let how = self.idle.begin_sleep(thread, leads);
        match how {
            None => {}
            Some(_) if self.queue.has_any() => self.idle.cancel_sleep(thread),
            Some(SleepAs::Parked) => self.idle.park(thread),
            Some(SleepAs::Leader) => {
                {
                    let mut woken = self.woken.lock();
                    while !*woken {
                        self.poll.wait(&mut woken);
                    }
                    *woken = false;
                }
                self.idle.cancel_sleep(thread);
            }
        }
        if leads {
            *self.lead.lock() = false;
        }
    }
}

fn ordered() -> Queue {
    Queue::Ordered(Mutex::new(0))
}

fn unordered() -> Queue {
    Queue::Unordered(AtomicUsize::new(0))
}

fn explore(name: &str, threads: usize, posts_outside: usize, queue: fn() -> Queue) {
    explore_with(name, threads, posts_outside, queue, move |pool| {
        for _ in 0..posts_outside {
            pool.post();
        }
    });
}

/// `outside` makes `posts_outside` posts, and whatever else comes from outside.
fn explore_with(
    name: &str,
    threads: usize,
    posts_outside: usize,
    queue: fn() -> Queue,
    outside: impl Fn(&Arc<Pool>) + Send + Sync + 'static,
) {
    let schedules = std::sync::atomic::AtomicUsize::new(0);
    let schedules = std::sync::Arc::new(schedules);
    let counting = std::sync::Arc::clone(&schedules);
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(move || {
        counting.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let pool = Pool::new(threads, posts_outside, queue());
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let pool = Arc::clone(&pool);
                loom::thread::spawn(move || pool.work(thread))
            })
            .collect();
        outside(&pool);
        for worker in workers {
            worker.join().expect("a worker ends");
        }
        assert_eq!(pool.done.load(Ordering::Acquire), pool.total);
        assert!(!pool.queue.has_any());
    });
    println!("{name}: {} schedules", schedules.load(std::sync::atomic::Ordering::Relaxed));
}

#[test]
fn loom_a_post_is_never_slept_through_by_a_lone_leader() {
    explore("one thread, two posts", 1, 2, unordered);
}

#[test]
fn loom_a_post_is_never_slept_through_by_a_leader_and_a_follower() {
    explore("two threads, two posts", 2, 2, ordered);
}

#[test]
fn loom_a_post_after_a_thread_was_told_to_retire_is_never_slept_through() {
    explore_with("retire, then a post", 2, 1, unordered, |pool| {
        pool.retire_sleepers();
        pool.post();
    });
}

#[test]
fn loom_a_post_before_a_thread_is_told_to_retire_is_never_slept_through() {
    explore_with("a post, then retire", 2, 1, unordered, |pool| {
        pool.post();
        pool.retire_sleepers();
    });
}

#[test]
fn loom_a_thread_that_retires_beside_a_post_takes_no_wake_up_along() {
    explore_with("a post beside a retirement", 2, 1, ordered, |pool| {
        let watching = Arc::clone(pool);
        let watch = loom::thread::spawn(move || watching.retire_sleepers());
        pool.post();
        watch.join().expect("the watch ends");
    });
}
