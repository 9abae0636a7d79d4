//! `PauseGate`: how one loop of a manager makes all others stand still, and, if it wants, their workers too.
//!
//! | a loop is | means | left by |
//! |---|---|---|
//! | `Running` | it may be inside a callback | coming to its next turn while a pause is wanted; having to wait for its own pause; ending |
//! | `Standing` | it runs nothing until nobody pauses | the end of the pause |
//! | `Gone` | it has ended and is counted no more | |
//!
//! 1. A loop that wants to pause waits, standing still itself, until those who asked before have had their turn. Then
//!    it is *the pauser*, and `wanted` tells the others, each of which is woken and looks at it once a turn.
//! 2. Whoever looks and finds it set stands still under the gate's lock until there is no pauser.
//! 3. The pauser waits until no other loop is running, and, if workers are meant too, until none is in the middle of
//!    an item. Workers are halted from the beginning, those that are started meanwhile from their birth.
//! 4. Resuming takes the pauser away, which releases everybody at once.
//!
//! Only loops that have not gone are counted, so a pause neither misses a loop that is still starting (it stands still
//! before its first turn) nor waits for one that has ended. A loop that waits for something of its own (its workers, at
//! its end) counts as standing meanwhile, and cannot go on during a pause. A pauser that ends resumes the others.
//!
//! Exclusion rests on the lock alone; `wanted` is a hint that saves taking it once a turn, and the wake-up that follows
//! it is what makes it visible in time.

use std::collections::VecDeque;
use std::fmt;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, Wakeup};
use crate::time::Instant;

/// A worker, as far as a pause is concerned with it.
pub(crate) trait Halt {
    /// It starts nothing from now on.
    fn halt(&self);

    /// It may start items again.
    fn release(&self);

    /// Whether it is in the middle of an item.
    fn is_busy(&self) -> bool;
}

/// Between the loops of one manager, and the workers `W` of all of them.
pub(crate) struct PauseGate<W> {
    /// Whether there is a pauser. Written under the lock.
    wanted: AtomicBool,
    state: Mutex<State<W>>,
    /// Something the pauser waits for may have happened.
    settled: Condvar,
    /// There is no pauser any more.
    resumed: Condvar,
}

struct State<W> {
    loops: Vec<LoopState>,
    pauser: Option<Pauser>,
    /// The loops that want to pause next, in the order of asking.
    queue: VecDeque<u32>,
    workers: Vec<Arc<W>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LoopState {
    Running,
    Standing,
    Gone,
}

#[derive(Clone, Copy)]
struct Pauser {
    tid: u32,
    workers_too: bool,
    is_complete: bool,
}

/// Why a loop does not become the pauser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoTurn {
    /// It is the pauser already.
    Own,
    /// Another one is, or waits to be.
    Others,
}

/// What a pauser does if it is not alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It waits until it is.
    Wait,
    /// It gives up.
    Try,
}

/// Whom a pauser was still waiting for.
pub(crate) enum Blocker<W> {
    Loop(u32),
    Worker(Arc<W>),
}

impl<W: Halt> PauseGate<W> {
    /// For so many loops, all of which are going to run.
    pub(crate) fn new(loops: usize) -> Self {
        let loops = vec![LoopState::Running; loops];
        PauseGate {
            wanted: AtomicBool::new(false),
            state: Mutex::new(State { loops, pauser: None, queue: VecDeque::new(), workers: Vec::new() }),
            settled: Condvar::new(),
            resumed: Condvar::new(),
        }
    }

    /// Once a turn: stands still while another loop pauses.
    pub(crate) fn pass(&self, tid: u32) {
        // Relaxed: a hint. Who sets it wakes this loop afterwards, and the wake-up carries it along.
        if self.wanted.load(Ordering::Relaxed) {
            let mut state = self.state.lock();
            self.stand_while_paused(&mut state, tid);
        }
    }

    /// Lets the loop wait for something of its own without holding up a pause, and not go on during one.
    pub(crate) fn standing<R>(&self, tid: u32, wait: impl FnOnce() -> R) -> R {
        self.state.lock().stand(tid);
        self.settled.notify_all();
        let result = wait();
        let mut state = self.state.lock();
        self.stand_while_paused(&mut state, tid);
        state.loops[tid as usize] = LoopState::Running;
        result
    }

    fn stand_while_paused(&self, state: &mut MutexGuard<'_, State<W>>, tid: u32) {
        while state.pauser.is_some_and(|pauser| pauser.tid != tid) {
            if state.stand(tid) {
                self.settled.notify_all();
            }
            self.resumed.wait(state);
        }
        state.loops[tid as usize] = LoopState::Running;
    }

    /// Makes the loop the pauser, once it is its turn. The others are to be woken then.
    pub(crate) fn begin(&self, tid: u32, workers_too: bool, turn: Turn) -> Result<(), NoTurn> {
        let mut state = self.state.lock();
        if state.pauser.is_some_and(|pauser| pauser.tid == tid) {
            return Err(NoTurn::Own);
        }
        if turn == Turn::Try && (state.pauser.is_some() || !state.queue.is_empty()) {
            return Err(NoTurn::Others);
        }
        state.queue.push_back(tid);
        while state.pauser.is_some() || state.queue.front() != Some(&tid) {
            if state.stand(tid) {
                self.settled.notify_all();
            }
            self.resumed.wait(&mut state);
        }
        state.queue.pop_front();
        state.loops[tid as usize] = LoopState::Running;
        state.pauser = Some(Pauser { tid, workers_too, is_complete: false });
        self.wanted.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Waits until all others stand still. If that does not come to pass until `deadline`, the pause is over, and those
    /// come back who were waited for.
    pub(crate) fn complete(&self, tid: u32, deadline: Instant) -> Result<(), Vec<Blocker<W>>> {
        let mut state = self.state.lock();
        loop {
            let blockers = state.blockers();
            if blockers.is_empty() {
                if let Some(pauser) = &mut state.pauser {
                    pauser.is_complete = true;
                }
                return Ok(());
            }
            if self.settled.wait_until(&mut state, deadline) == Wakeup::TimedOut {
                let blockers = state.blockers();
                if !blockers.is_empty() {
                    self.resume(&mut state, tid);
                    return Err(blockers);
                }
            }
        }
    }

    /// Ends the pause of this loop, if it has one.
    pub(crate) fn end(&self, tid: u32) {
        let mut state = self.state.lock();
        self.resume(&mut state, tid);
    }

    fn resume(&self, state: &mut State<W>, tid: u32) {
        if state.pauser.is_none_or(|pauser| pauser.tid != tid) {
            return;
        }
        state.pauser = None;
        self.wanted.store(false, Ordering::Relaxed);
        state.workers.iter().for_each(|worker| worker.release());
        self.resumed.notify_all();
    }

    /// The loop has ended: it runs nothing any more and is counted no more.
    pub(crate) fn leave(&self, tid: u32) {
        let mut state = self.state.lock();
        // A pause of its own has ended by now, unless the loop's thread unwinds.
        self.resume(&mut state, tid);
        state.loops[tid as usize] = LoopState::Gone;
        drop(state);
        self.settled.notify_all();
    }

    /// A worker has been made, and not started anything yet.
    pub(crate) fn enlist(&self, worker: Arc<W>) {
        let mut state = self.state.lock();
        if state.pauser.is_some_and(|pauser| pauser.workers_too) {
            worker.halt();
        }
        state.workers.push(worker);
    }

    /// A worker has ended.
    pub(crate) fn dismiss(&self, worker: &Arc<W>) {
        let mut state = self.state.lock();
        let at = state.workers.iter().position(|enlisted| Arc::ptr_eq(enlisted, worker));
        let worker = at.map(|at| state.workers.swap_remove(at));
        drop(state);
        drop(worker);
        self.settled.notify_all();
    }

    /// A halted worker has come to the end of its item.
    pub(crate) fn settle(&self) {
        // The lock: a pauser that has just seen the worker busy is not yet waiting otherwise.
        drop(self.state.lock());
        self.settled.notify_all();
    }

    /// Whether some loop has all others standing still at this moment.
    pub(crate) fn is_paused(&self) -> bool {
        self.state.lock().pauser.is_some_and(|pauser| pauser.is_complete)
    }

    /// Whether this loop stands still at this moment.
    pub(crate) fn is_standing(&self, tid: u32) -> bool {
        self.state.lock().loops.get(tid as usize).is_some_and(|standing| *standing == LoopState::Standing)
    }
}

impl<W: Halt> State<W> {
    /// Answers whether this is news.
    fn stand(&mut self, tid: u32) -> bool {
        std::mem::replace(&mut self.loops[tid as usize], LoopState::Standing) != LoopState::Standing
    }

    /// Whom the pauser has to wait for. Halts the workers, if they are meant too.
    fn blockers(&self) -> Vec<Blocker<W>> {
        let Some(pauser) = self.pauser else { return Vec::new() };
        let running =
            (0..).zip(&self.loops).filter(|(tid, standing)| **standing == LoopState::Running && *tid != pauser.tid);
        let mut blockers: Vec<_> = running.map(|(tid, _)| Blocker::Loop(tid)).collect();
        if pauser.workers_too {
            self.workers.iter().for_each(|worker| worker.halt());
            blockers.extend(self.workers.iter().filter(|worker| worker.is_busy()).cloned().map(Blocker::Worker));
        }
        blockers
    }
}

impl<W> fmt::Debug for PauseGate<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pauser = self.state.lock().pauser;
        match pauser {
            Some(pauser) => write!(f, "PauseGate(loop {} pauses)", pauser.tid),
            None => f.write_str("PauseGate(open)"),
        }
    }
}
