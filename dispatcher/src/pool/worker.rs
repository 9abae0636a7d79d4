//! One thread of a pool.
//!
//! A base thread is an event loop whose workload is the pool's runnables and whose way to sleep is the pool's; an extra
//! thread runs the same workload and sleeps the same way, without a loop of its own around it.
//!
//! 1. Make turns: of the own deque, every [`INJECTOR_TICK`]th one of the injector first, else stolen from a sibling. A
//!    host (`hosts.rs`) makes every second one of what is pinned to it, if anything is.
//! 2. Every [`TURNS_PER_LOOK`] turns look at the reactor without blocking, so that timers and descriptors are served
//!    while everybody is busy; and take from siblings that have begun nothing since the last look, so that nothing waits
//!    behind a long callback for as long as others are busy.
//! 3. With nothing to run, sleep as the pool's protocol says (`pool/README.md`): lead if nobody does, else park.
//!
//! A thread that found nothing counts as searching until it finds something, sleeps, or runs anything else.

use std::time::Duration;

use super::hosts::Place;
use super::idle::{SleepAs, ThreadIndex};
use super::pulse::Pulse;
use super::{Pool, Task, Turn};
use crate::event_loop::PollMode;
use crate::sync::Arc;

/// How many turns are made between two looks at the reactor.
pub(crate) const TURNS_PER_LOOK: u32 = 61;
/// How often the injector is looked at before the own deque, in turns.
const INJECTOR_TICK: u32 = 31;

/// How long a thread that waits awake again and again leaves a reactor alone that nobody leads.
const LOOK_INTERVAL: Duration = Duration::from_micros(20);

/// What a thread of a pool is.
pub(crate) enum Role {
    /// It lives as long as the pool, and is the loop that grows from this seed.
    #[cfg(not(shuttle))]
    Base(crate::event_loop::LoopSeed),
    /// It only runs runnables.
    Extra,
}

/// The body of a pool thread.
pub(crate) fn run(pool: &Arc<Pool>, index: ThreadIndex, role: Role) {
    #[cfg(not(shuttle))]
    let is_base = matches!(role, Role::Base(_));
    #[cfg(shuttle)]
    let is_base = false;
    let _member = pool.members.enter(index, is_base);
    pool.queue.enter(pool.id(), index);
    let mut worker = Worker { seat: Seat::new(Arc::clone(pool), index), turns: 0, seen: Vec::new() };
    worker.seat.carry_out_scheduling();
    let mut retires = false;
    match role {
        #[cfg(not(shuttle))]
        Role::Base(seed) => {
            let event_loop = crate::event_loop::EventLoop::with(seed, Box::new(worker));
            event_loop.run();
        }
        Role::Extra => loop {
            if worker.make_turns() {
                continue;
            }
            if retires || pool.threads.is_closed() {
                break;
            }
            worker.seat.sleep();
            retires = pool.idle.is_retired(index);
            // Who led may have got something of its own together with the news, and what was kept out of hosts may have
            // come to the last thread that would look there: that is run first.
            if retires && !pool.queue.has_own(index) && !pool.hosts.has_work_for(index) {
                break;
            }
        },
    }
    Seat::new(Arc::clone(pool), index).stop_searching();
    pool.queue.leave(index);
    if retires {
        pool.threads.ends(pool, index);
    }
}

/// A thread's place in its pool: how it searches and sleeps.
#[derive(Debug)]
pub(super) struct Seat {
    pool: Arc<Pool>,
    index: ThreadIndex,
    pulse: Arc<Pulse>,
}

/// A seat that makes turns.
#[derive(Debug)]
struct Worker {
    seat: Seat,
    turns: u32,
    /// The beats of all threads at the last look.
    seen: Vec<u32>,
}

impl Worker {
    /// Makes some turns; false when there is nothing to run, and then the thread counts as searching.
    fn make_turns(&mut self) -> bool {
        let pool = Arc::clone(&self.seat.pool);
        self.seat.pulse.beat();
        for _ in 0..TURNS_PER_LOOK {
            self.turns = self.turns.wrapping_add(1);
            if self.turns.is_multiple_of(TURNS_PER_LOOK) {
                self.seat.look();
                self.relieve_siblings();
            }
            let Some(task) = self.seat.next(self.turns) else { return false };
            let place = task.place();
            let may_block = place == Place::MayBlock;
            if may_block && !pool.hosts.begin_blocking(self.seat.index) {
                pool.keep_out(task);
                continue;
            }
            self.seat.pulse.beat();
            self.seat.carry_out_scheduling();
            let turn = task.run_turn();
            if may_block {
                pool.hosts.end_blocking(self.seat.index);
            }
            if let Turn::Again(task) = turn {
                pool.schedule_again(task, place);
            }
        }
        true
    }

    /// Takes over what waits behind a long callback. Who is busy without end searches nowhere else, and the stall watch
    /// wakes only who sleeps.
    fn relieve_siblings(&mut self) {
        let Seat { pool, index, .. } = &self.seat;
        pool.pulses.standing_still(&mut self.seen, |sibling| {
            if sibling != *index {
                pool.queue.relieve(sibling);
            }
        });
    }
}

impl Seat {
    pub(super) fn new(pool: Arc<Pool>, index: ThreadIndex) -> Self {
        let pulse = pool.pulses.of(index);
        Seat { pool, index, pulse }
    }

    fn next(&self, turn: u32) -> Option<Task> {
        let (queue, hosts) = (&self.pool.queue, &self.pool.hosts);
        let pop_own = || match hosts.is_host(self.index) {
            false => queue.pop_own(),
            true if turn.is_multiple_of(2) => hosts.pop_pinned(self.index).or_else(|| queue.pop_own()),
            true => queue.pop_own().or_else(|| hosts.pop_pinned(self.index)),
        };
        let own = if turn.is_multiple_of(INJECTOR_TICK) {
            hosts.steal_kept_out(self.index).or_else(|| queue.steal_injected()).or_else(pop_own)
        } else {
            pop_own()
        };
        if own.is_some() {
            self.stop_searching();
            return own;
        }
        self.start_searching();
        // What was kept out first: whoever did so has woken this thread for it and nobody else.
        let found = hosts
            .steal_kept_out(self.index)
            .or_else(|| queue.steal_injected())
            .or_else(|| queue.steal_from_siblings(self.index));
        if found.is_some() {
            self.stop_searching();
        }
        found
    }

    /// Before it runs anything of others.
    fn carry_out_scheduling(&self) {
        self.pool.scheduling.carry_out(self.index, &self.pulse);
    }

    fn start_searching(&self) {
        if !self.pulse.set_searching(true) {
            self.pool.idle.start_searching();
        }
    }

    /// The thread becomes active. The last one that searched answers for what was posted meanwhile.
    fn stop_searching(&self) {
        let pool = &self.pool;
        if self.pulse.set_searching(false) && pool.idle.stop_searching() && !pool.queue.is_empty() {
            pool.notify();
        }
    }

    /// Takes what is due in the reactor, if nobody leads.
    fn look(&self) {
        let Some(mut lead) = self.pool.reactor.try_lead() else { return };
        let batch = lead.poll(PollMode::NonBlocking);
        if !batch.is_empty() {
            self.stop_searching();
        }
        let left = batch.tell(lead);
        // Somebody may have parked because the lead was taken for a moment.
        self.pool.watch.arm(&self.pool);
        self.carry_out_scheduling();
        left.run();
    }

    /// Waits awake for what a worker of a lane is about to bring. True: something is to be done.
    fn wait_awake(&self) -> bool {
        let pool = &self.pool;
        let has_work = || !pool.queue.is_empty() || pool.hosts.has_work_for(self.index);
        if !pool.lanes.wait_awake(&self.pulse.patience, has_work) {
            return false;
        }
        // Who sleeps looks at the reactor and the clock; so does who would have slept, but not as often.
        let now = pool.reactor.clock().now();
        if self.pulse.is_time_to_look(now, LOOK_INTERVAL) {
            self.look();
        }
        true
    }

    /// Sleeps until there may be something to do.
    fn sleep(&self) {
        let pool = &self.pool;
        self.start_searching();
        if pool.lanes.is_at_work() && self.wait_awake() {
            return;
        }
        let lead = pool.reactor.try_lead();
        let how = pool.idle.begin_sleep(self.index, lead.is_some());
        let has_work = !pool.queue.is_empty() || pool.hosts.has_work_for(self.index);
        let stays_awake = has_work || pool.threads.is_closed();
        if how.is_some() && stays_awake {
            pool.idle.cancel_sleep(self.index);
        }
        let Some(how) = how.filter(|_| !stays_awake) else {
            if let Some(lead) = lead {
                drop(lead);
                // Somebody may have parked because the lead was taken for a moment.
                pool.watch.arm(pool);
            }
            return;
        };
        match (how, lead) {
            (SleepAs::Leader, Some(mut lead)) => {
                pool.watch.lead_taken();
                let batch = lead.poll(PollMode::Block);
                pool.reactor.clock().now();
                // Before the lead is given up: whoever gets it next must not find this thread listed as the leader.
                pool.idle.cancel_sleep(self.index);
                if !batch.is_empty() {
                    self.stop_searching();
                }
                let left = batch.tell(lead);
                pool.watch.arm(pool);
                self.carry_out_scheduling();
                left.run();
            }
            _ => {
                pool.idle.park(self.index);
                // The coarse clock stood still meanwhile, if everybody slept.
                pool.reactor.clock().now();
            }
        }
    }
}

#[cfg(not(shuttle))]
impl crate::event_loop::Workload for Worker {
    fn run(&mut self, _budget: u32) -> bool {
        self.make_turns()
    }

    fn before_park(&mut self) -> bool {
        // Sleeping looks at the queues once more by itself.
        false
    }
}

#[cfg(not(shuttle))]
impl crate::event_loop::Parker for Seat {
    fn park(&self) {
        self.sleep();
    }

    fn unpark(&self) {
        let wake = self.pool.idle.unpark(self.index);
        self.pool.carry_out(wake);
    }

    fn before_callback(&self) {
        self.stop_searching();
    }
}
