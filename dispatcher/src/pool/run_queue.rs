//! Where runnables wait: a deque for each thread of the pool, from which its siblings steal, and the injector for
//! everybody else.
//!
//! A thread knows its own deque by a thread-local, which names the pool it belongs to: a thread of another pool is an
//! outside thread here.

use std::cell::{Cell, RefCell};

use crossbeam_deque::{Injector, Steal, Stealer, Worker};

use super::Task;
use crate::sync::{RwLock, thread_local};

thread_local! {
    /// The pool that this thread belongs to, 0 for none.
    static CURRENT_POOL: Cell<usize> = const { Cell::new(0) };
    /// Its number there; means nothing without a pool.
    static CURRENT_INDEX: Cell<usize> = const { Cell::new(0) };
    /// The deque of this thread, if it is a thread of a pool.
    static OWN: RefCell<Option<Worker<Task>>> = const { RefCell::new(None) };
}

/// The pool that the calling thread belongs to, 0 for none.
pub(crate) fn current_pool() -> usize {
    CURRENT_POOL.with(Cell::get)
}

/// The number of the calling thread within the pool `id`, if it is one of its threads.
pub(crate) fn current_index(id: usize) -> Option<usize> {
    (current_pool() == id).then(|| CURRENT_INDEX.with(Cell::get))
}

/// Counts the calling thread as one of the pool `id` while `f` runs, without a deque: one that it has belongs to another
/// pool.
#[cfg(any(feature = "testing", all(test, shuttle)))]
pub(crate) fn as_current<R>(id: usize, f: impl FnOnce() -> R) -> R {
    struct Restore(usize, Option<Worker<Task>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT_POOL.with(|current| current.set(self.0));
            OWN.with(|own| own.replace(self.1.take()));
        }
    }
    let _restore = Restore(CURRENT_POOL.with(|current| current.replace(id)), OWN.with(RefCell::take));
    f()
}

/// Where a runnable was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// On this thread's own deque, which was empty: it is what this thread runs next.
    Next,
    /// Behind others, or where only other threads look.
    Behind,
}

/// The run queues of one pool.
pub(crate) struct RunQueue {
    injector: Injector<Task>,
    /// By thread index; `None` where no thread is.
    stealers: RwLock<Vec<Option<Stealer<Task>>>>,
}

impl RunQueue {
    pub(crate) fn new() -> Self {
        RunQueue { injector: Injector::new(), stealers: RwLock::new(Vec::new()) }
    }

    /// Makes the calling thread the thread `index` of pool `id`, with a deque of its own.
    pub(crate) fn enter(&self, id: usize, index: usize) {
        let worker = Worker::new_fifo();
        let mut stealers = self.stealers.write();
        while stealers.len() <= index {
            stealers.push(None);
        }
        stealers[index] = Some(worker.stealer());
        drop(stealers);
        CURRENT_POOL.with(|current| current.set(id));
        CURRENT_INDEX.with(|current| current.set(index));
        OWN.with(|own| own.replace(Some(worker)));
    }

    /// Undoes [`enter`](RunQueue::enter); what is left in the deque goes to the injector.
    pub(crate) fn leave(&self, index: usize) {
        self.stealers.write()[index] = None;
        CURRENT_POOL.with(|current| current.set(0));
        if let Some(worker) = OWN.with(RefCell::take) {
            while let Some(task) = worker.pop() {
                self.injector.push(task);
            }
        }
    }

    /// Queues a runnable: on the own deque of a thread of pool `id`, else on the injector.
    pub(crate) fn push(&self, id: usize, task: Task) -> Pushed {
        if current_pool() != id {
            // Not even a look at `OWN`, which the destructors of other thread-local values may find destroyed.
            self.injector.push(task);
            return Pushed::Behind;
        }
        OWN.with(|own| match &*own.borrow() {
            Some(worker) => {
                let pushed = if worker.is_empty() { Pushed::Next } else { Pushed::Behind };
                worker.push(task);
                pushed
            }
            None => {
                self.injector.push(task);
                Pushed::Behind
            }
        })
    }

    /// The oldest of the calling thread's own deque.
    pub(crate) fn pop_own(&self) -> Option<Task> {
        OWN.with(|own| own.borrow().as_ref().and_then(Worker::pop))
    }

    /// One from the injector, and some more into the calling thread's own deque.
    pub(crate) fn steal_injected(&self) -> Option<Task> {
        OWN.with(|own| {
            let own = own.borrow();
            insist(|| match &*own {
                Some(worker) => self.injector.steal_batch_and_pop(worker),
                None => self.injector.steal(),
            })
        })
    }

    /// One from a sibling of thread `index`, and some more into its own deque.
    pub(crate) fn steal_from_siblings(&self, index: usize) -> Option<Task> {
        let stealers = self.stealers.read();
        let count = stealers.len();
        OWN.with(|own| {
            let own = own.borrow();
            let own = own.as_ref()?;
            // Start behind oneself, so that thieves spread over their victims.
            (1..count)
                .filter_map(|step| stealers[(index + step) % count].as_ref())
                .find_map(|sibling| insist(|| sibling.steal_batch_and_pop(own)))
        })
    }

    /// Moves some of what waits in the deque of a sibling to the end of the calling thread's own; the sibling gets none
    /// of it back.
    pub(crate) fn relieve(&self, sibling: usize) {
        let stealers = self.stealers.read();
        let Some(Some(sibling)) = stealers.get(sibling) else { return };
        OWN.with(|own| {
            if let Some(own) = &*own.borrow() {
                while sibling.steal_batch(own).is_retry() {
                    std::hint::spin_loop();
                }
            }
        });
    }

    /// Whether something waits in the deque of thread `index`.
    pub(crate) fn has_own(&self, index: usize) -> bool {
        self.stealers.read().get(index).is_some_and(|stealer| stealer.as_ref().is_some_and(|own| !own.is_empty()))
    }

    /// Whether nothing is runnable in any queue of the pool.
    pub(crate) fn is_empty(&self) -> bool {
        self.injector.is_empty() && self.stealers.read().iter().flatten().all(Stealer::is_empty)
    }
}

fn insist(mut steal: impl FnMut() -> Steal<Task>) -> Option<Task> {
    loop {
        match steal() {
            Steal::Success(task) => return Some(task),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}
