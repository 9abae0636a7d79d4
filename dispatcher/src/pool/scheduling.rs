//! How the threads of a pool are scheduled by the operating system, and what it said.
//!
//! A thread can set its own scheduling only, so what is wanted stands here with a *generation*, and each thread compares
//! that with the last one that it has carried out: when it starts, before each turn, and before it runs what it took in a
//! poll. So what is posted after a wish runs as wished, unless it joins a turn that is under way. A refusal is noted and told
//! in the log once; the thread works on as it is scheduled.

use std::collections::BTreeMap;
use std::io;

use super::idle::ThreadIndex;
use super::pulse::Pulse;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sys::Scheduling;

/// What became of the wish.
#[derive(Debug, Clone, Default)]
pub(crate) struct SchedulingOutcome {
    /// How many threads are scheduled as wanted.
    pub(crate) applied: usize,
    /// How many were refused it.
    pub(crate) refused: usize,
    /// What the system said to the last one that was refused.
    pub(crate) refusal: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    wanted: Option<Scheduling>,
    refused: BTreeMap<ThreadIndex, io::Error>,
    applied: Vec<ThreadIndex>,
}

/// The wish of one pool.
#[derive(Debug)]
pub(crate) struct PoolScheduling {
    /// The pool's name, for the log.
    name: String,
    /// Written under the lock; 0 while nothing was ever wanted.
    generation: AtomicU32,
    state: Mutex<State>,
}

impl PoolScheduling {
    pub(super) fn new(name: String, wanted: Option<Scheduling>) -> Self {
        let generation = AtomicU32::new(u32::from(wanted.is_some()));
        PoolScheduling { name, generation, state: Mutex::new(State { wanted, ..State::default() }) }
    }

    /// Changes what is wanted. Threads that sleep carry it out when they get up.
    pub(crate) fn set(&self, wanted: Scheduling) {
        let mut state = self.state.lock();
        *state = State { wanted: Some(wanted), ..State::default() };
        // Never 0 again, which a thread begins with.
        let next = self.generation.load(Ordering::Relaxed).checked_add(1).unwrap_or(1);
        self.generation.store(next, Ordering::Relaxed);
    }

    /// Carries out what is wanted on the calling thread, if it has not yet.
    pub(super) fn carry_out(&self, thread: ThreadIndex, pulse: &Pulse) {
        // A look: what it misses is seen the next time, and the lock orders the rest.
        if self.generation.load(Ordering::Relaxed) != pulse.generation() {
            self.carry_out_anew(thread, pulse);
        }
    }

    #[cold]
    fn carry_out_anew(&self, thread: ThreadIndex, pulse: &Pulse) {
        let (generation, wanted) = {
            let state = self.state.lock();
            (self.generation.load(Ordering::Relaxed), state.wanted)
        };
        pulse.set_generation(generation);
        let Some(wanted) = wanted else { return };
        let outcome = wanted.apply();
        let mut state = self.state.lock();
        if self.generation.load(Ordering::Relaxed) != generation {
            // Something else is wanted by now.
            return;
        }
        match outcome {
            Ok(()) => state.applied.push(thread),
            Err(error) => {
                let is_first = state.refused.is_empty();
                let text = error.to_string();
                state.refused.insert(thread, error);
                drop(state);
                if is_first {
                    tracing::warn!(pool = self.name, error = text, "threads are not scheduled as wanted ({wanted})");
                }
            }
        }
    }

    /// A thread is about to end.
    pub(super) fn forget(&self, thread: ThreadIndex) {
        let mut state = self.state.lock();
        state.refused.remove(&thread);
        state.applied.retain(|applied| *applied != thread);
    }

    /// What became of it so far.
    pub(crate) fn outcome(&self) -> SchedulingOutcome {
        let state = self.state.lock();
        SchedulingOutcome {
            applied: state.applied.len(),
            refused: state.refused.len(),
            refusal: state.refused.values().next_back().map(ToString::to_string),
        }
    }
}
