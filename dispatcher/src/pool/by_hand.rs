//! A pool without threads: it is driven by hand, one turn at a time, by whoever turns the crank.
//!
//! What may block runs on a helper thread while the crank waits for it ([`batons`](super::batons)); everything else runs
//! on the thread that turns.

use std::cell::RefCell;
use std::collections::VecDeque;

use super::batons::{self, Batons, Job};
use super::hosts::Place;
use super::run_queue;
pub(crate) use super::worker::TURNS_PER_LOOK;
use super::{Pool, Task, Turn};
use crate::sync::probe::{self, Choice};
use crate::sync::{Arc, Mutex, Weak, thread_local};
use crate::time::Instant;

thread_local! {
    /// The pools that this thread turns by hand.
    static TURNED_HERE: RefCell<Vec<Weak<Pool>>> = const { RefCell::new(Vec::new()) };
}

/// Whether the calling thread turns a pool by hand that is not closed: whatever it waits for, it would have to do itself.
pub(crate) fn is_crank_here() -> bool {
    let is_open = |pool: Arc<Pool>| !pool.threads.is_closed();
    batons::current().is_none()
        && TURNED_HERE
            .try_with(|pools| pools.borrow().iter().filter_map(Weak::upgrade).any(is_open))
            .unwrap_or_default()
}

impl Pool {
    /// Notes that the calling thread turns this pool by hand.
    pub(crate) fn note_crank(self: &Arc<Self>) {
        self.batons().note_turner();
        let _ = TURNED_HERE.try_with(|pools| {
            let mut pools = pools.borrow_mut();
            let is_known = pools.iter().any(|pool| std::ptr::eq(pool.as_ptr(), Arc::as_ptr(self)));
            if !is_known {
                pools.retain(|pool| pool.strong_count() > 0);
                pools.push(Arc::downgrade(self));
            }
        });
    }

    /// Counts the calling thread as one of the pool while `f` runs.
    pub(crate) fn as_current<R>(&self, f: impl FnOnce() -> R) -> R {
        run_queue::as_current(self.id(), f)
    }

    /// Whether this thread was the last to turn this pool by hand.
    pub(crate) fn is_turned_here(&self) -> bool {
        self.batons().is_turner()
    }

    /// The helpers for what may block.
    pub(crate) fn batons(&self) -> &Arc<Batons> {
        &self.by_hand.batons
    }

    /// Makes one turn of what has been runnable for longest; else does one piece of lane work; else takes what is due in
    /// the reactor. False when there is nothing of all that.
    ///
    /// `turn` counts the calls: now and then work and events come first, so that what is runnable without end starves
    /// neither, as it would not starve them on a pool with threads.
    pub(crate) fn run_one(self: &Arc<Self>, turn: u64) -> bool {
        if turn.is_multiple_of(TURNS_PER_LOOK.into()) && (self.take_events() || self.do_work()) {
            return true;
        }
        let Some(task) = self.by_hand.take_first().or_else(|| self.queue.steal_injected()) else {
            return self.do_work() || self.take_events();
        };
        self.make_turn(task);
        true
    }

    pub(super) fn make_turn(self: &Arc<Self>, task: Task) {
        match task.place() {
            Place::MayBlock => {
                self.batons().begin(self, Job::Turn(task));
                return;
            }
            Place::On(_) if !self.hosts.claim_by_hand() => {
                self.queue.push(self.id(), task);
                panic!("a dispatcher without thread migration runs on the thread that first turned the crank for one");
            }
            Place::Anywhere if task.helper().is_none() && is_made_apart() => {
                self.batons().begin(self, Job::Turn(task));
                return;
            }
            Place::On(_) | Place::Anywhere => {}
        }
        if let Turn::Again(task) = task.run_turn() {
            self.queue.push(self.id(), task);
        }
    }

    /// Does one piece of lane work, which belongs to no pool; false when there is none.
    fn do_work(self: &Arc<Self>) -> bool {
        let Some(item) = self.lanes.take_by_hand() else { return false };
        self.batons().begin(self, Job::Work(item));
        true
    }

    /// The earliest deadline of an armed timer; infinite if there is none.
    pub(crate) fn next_deadline(&self) -> Instant {
        self.reactor.next_deadline()
    }
}

/// Whether a turn is made on a helper that would not have to be.
fn is_made_apart() -> bool {
    probe::is_interrupted() || probe::choose(Choice::Apart, 2) == 1
}

/// What only a pool has that is driven by hand.
pub(super) struct ByHand {
    batons: Arc<Batons>,
    /// What was taken from the injector to be chosen from, in the order in which it became runnable. Only the thread that
    /// moves looks here.
    pub(super) runnable: Mutex<VecDeque<Task>>,
}

impl ByHand {
    pub(super) fn new(pool: &str) -> Self {
        ByHand { batons: Batons::new(pool), runnable: Mutex::new(VecDeque::new()) }
    }

    fn take_first(&self) -> Option<Task> {
        self.runnable.lock().pop_front()
    }
}

/// The helpers end when their pool does.
impl Drop for ByHand {
    fn drop(&mut self) {
        self.batons.close();
    }
}
