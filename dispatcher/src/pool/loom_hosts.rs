//! Model check of how what may block is kept out of hosts: every interleaving, within the preemption bound, of a host that
//! hands it over, a thread that takes it, and a pin that makes a thread a host meanwhile.
//!
//! A wake-up that is lost shows as a deadlock. The queue is an atomic counter, which promises no more order
//! than a lock-free queue does; what is pinned, and everything that any thread may run, is in the models beside this one.

use loom::model::Builder;

use super::idle::{Idle, SleepAs, ThreadIndex};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex};

struct Pool {
    idle: Idle,
    hosts: Vec<AtomicBool>,
    kept_out: AtomicUsize,
    done: Mutex<usize>,
    total: usize,
}

impl Pool {
    fn is_host(&self, thread: ThreadIndex) -> bool {
        self.hosts[thread].load(Ordering::Acquire)
    }

    fn wake_no_host(&self) {
        // Nobody leads in this model, so waking is done once this returns.
        let _ = self.idle.wake_one_of(|thread| !self.is_host(thread));
    }

    /// As in `Pool::keep_out`.
    fn keep_out(&self) {
        self.kept_out.fetch_add(1, Ordering::Release);
        self.wake_no_host();
    }

    /// As in `Pool::pin`.
    fn pin(&self, thread: ThreadIndex) {
        self.hosts[thread].store(true, Ordering::Release);
        self.idle.publish();
        if self.has_kept_out() {
            self.wake_no_host();
        }
    }

    fn take(&self, thread: ThreadIndex) -> bool {
        if self.is_host(thread) {
            return false;
        }
        let take_one = |left: usize| left.checked_sub(1);
        self.kept_out.fetch_update(Ordering::AcqRel, Ordering::Acquire, take_one).is_ok()
    }

    fn has_kept_out(&self) -> bool {
        self.kept_out.load(Ordering::Acquire) > 0
    }

    /// A thread of the pool: as in `Seat::next` and `Seat::sleep`.
    fn work(&self, thread: ThreadIndex) {
        loop {
            self.idle.start_searching();
            while !self.take(thread) {
                if *self.done.lock() == self.total {
                    return;
                }
                let has_work = || !self.is_host(thread) && self.has_kept_out();
                match self.idle.begin_sleep(thread, false) {
                    None => {}
                    Some(_) if has_work() => self.idle.cancel_sleep(thread),
                    Some(SleepAs::Parked) => self.idle.park(thread),
                    Some(SleepAs::Leader) => unreachable!("nobody leads"),
                }
            }
            let _ = self.idle.stop_searching();
            let mut done = self.done.lock();
            *done += 1;
            if *done == self.total {
                drop(done);
                let _ = self.idle.close();
            }
        }
    }
}

fn explore(threads: usize, posts: usize, pinned_meanwhile: Option<ThreadIndex>) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(move || {
        let idle = Idle::new();
        (0..threads).for_each(|thread| idle.admit(thread));
        let pool = Arc::new(Pool {
            idle,
            hosts: (0..threads).map(|_| AtomicBool::new(false)).collect(),
            kept_out: AtomicUsize::new(0),
            done: Mutex::new(0),
            total: posts,
        });
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let pool = Arc::clone(&pool);
                loom::thread::spawn(move || pool.work(thread))
            })
            .collect();
        let pinning = pinned_meanwhile.map(|thread| {
            let pool = Arc::clone(&pool);
            loom::thread::spawn(move || pool.pin(thread))
        });
        for _ in 0..posts {
            pool.keep_out();
        }
        for worker in workers {
            worker.join().expect("a worker ends");
        }
        if let Some(pinning) = pinning {
            pinning.join().expect("it ends");
        }
        assert_eq!(*pool.done.lock(), posts);
        assert!(!pool.has_kept_out());
    });
}

#[test]
fn loom_what_is_kept_out_wakes_a_thread_that_is_no_host() {
    explore(1, 2, None);
}

#[test]
fn loom_a_thread_that_becomes_a_host_leaves_nothing_behind_that_was_kept_out() {
    explore(2, 1, Some(0));
}
