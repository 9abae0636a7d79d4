//! One thread of a pool: an event loop whose workload is the pool's runnables, and whose way to sleep is the pool's.
//!
//! 1. Make turns: of the own deque, every [`INJECTOR_TICK`]th one of the injector first, else stolen from a sibling.
//! 2. After [`TURNS_PER_LOOK`] turns look at the reactor without blocking, so that timers and descriptors are served
//!    while everybody is busy.
//! 3. With nothing to run, sleep as the pool's protocol says (`pool/README.md`): lead if nobody does, else park.

use super::idle::{SleepAs, ThreadIndex};
use super::{Pool, Task, Turn};
use crate::event_loop::PollMode;
use crate::sync::Arc;

/// How many turns are made between two looks at the reactor.
const TURNS_PER_LOOK: u32 = 61;
/// How often the injector is looked at before the own deque, in turns.
const INJECTOR_TICK: u32 = 31;

/// What a thread of a pool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It lives as long as the pool.
    Base,
    /// It was added for a dispatcher that allows sync calls.
    Extra,
}

/// The body of a pool thread.
pub(crate) fn run(pool: &Arc<Pool>, index: ThreadIndex, role: Role) {
    pool.queue.enter(pool.id(), index);
    tracing::trace!(index, ?role, "a pool thread starts");
    let mut worker = Worker { pool, index, searching: false, turns: 0 };
    loop {
        if worker.make_turns() {
            worker.look();
        } else if pool.threads.is_closed() {
            break;
        } else {
            worker.sleep();
        }
    }
    worker.stop_searching();
    pool.queue.leave(index);
}

struct Worker<'a> {
    pool: &'a Arc<Pool>,
    index: ThreadIndex,
    searching: bool,
    turns: u32,
}

impl Worker<'_> {
    /// Makes some turns; false when there is nothing to run, and then the thread counts as searching.
    fn make_turns(&mut self) -> bool {
        for _ in 0..TURNS_PER_LOOK {
            let Some(task) = self.next() else { return false };
            if Arc::clone(&task).run_turn() == Turn::Again {
                self.pool.queue.push(self.pool.id(), task);
                self.pool.notify();
            }
        }
        true
    }

    fn next(&mut self) -> Option<Task> {
        self.turns = self.turns.wrapping_add(1);
        let queue = &self.pool.queue;
        let own = if self.turns.is_multiple_of(INJECTOR_TICK) {
            queue.steal_injected().or_else(|| queue.pop_own())
        } else {
            queue.pop_own()
        };
        if own.is_some() {
            self.stop_searching();
            return own;
        }
        if !self.searching {
            self.pool.idle.start_searching();
            self.searching = true;
        }
        let found = queue.steal_injected().or_else(|| queue.steal_from_siblings(self.index));
        if found.is_some() {
            self.stop_searching();
        }
        found
    }

    /// The thread becomes active. The last one that searched answers for what was posted meanwhile.
    fn stop_searching(&mut self) {
        if std::mem::take(&mut self.searching) && self.pool.idle.stop_searching() && !self.pool.queue.is_empty() {
            self.pool.notify();
        }
    }

    /// Takes what is due in the reactor, if nobody leads.
    fn look(&mut self) {
        let Some(mut lead) = self.pool.reactor.try_lead() else { return };
        let batch = lead.poll(PollMode::NonBlocking);
        drop(lead);
        if !batch.is_empty() {
            self.stop_searching();
            batch.deliver();
        }
    }

    /// Sleeps until there may be something to do. The thread is searching before and after.
    fn sleep(&mut self) {
        debug_assert!(self.searching, "only a thread that found nothing sleeps");
        let pool = self.pool;
        let lead = pool.reactor.try_lead();
        let Some(how) = pool.idle.begin_sleep(self.index, lead.is_some()) else { return };
        if !pool.queue.is_empty() || pool.threads.is_closed() {
            pool.idle.cancel_sleep(self.index);
            if lead.is_some() {
                // Somebody may have parked because the lead was taken for a moment.
                pool.watch.arm(pool);
            }
            return;
        }
        match (how, lead) {
            (SleepAs::Leader, Some(mut lead)) => {
                pool.watch.lead_taken();
                let batch = lead.poll(PollMode::Block);
                // In this order: whoever gets the lead next must not find this thread listed as the leader.
                pool.idle.cancel_sleep(self.index);
                drop(lead);
                if batch.is_empty() {
                    // Woken for a runnable, most likely; looking for it comes next.
                    pool.watch.arm(pool);
                } else {
                    self.stop_searching();
                    pool.watch.arm(pool);
                    batch.deliver();
                }
            }
            _ => pool.idle.park(self.index),
        }
    }
}
