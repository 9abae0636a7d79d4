//! A stand-in for the reactor under shuttle, of the same contract: timers and waits that a model fires by hand, one
//! leader, and a blocking poll that ends at `wake`.
//!
//! What it does not cover: the kernel, the timer wheel (which has tests of its own), and the wake-up word (which has a
//! loom model of its own).

use std::fmt;

use super::batch::{Batch, Due};
pub(crate) use super::batch::{EventTarget, Fired, Told};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};
use crate::sys::Readiness;
use crate::time::{Clock, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollMode {
    Block,
    NonBlocking,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimerId(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WaitId(u64);

#[derive(Default)]
struct State {
    serial: u64,
    armed: Vec<(u64, Due)>,
    due: Vec<Due>,
    woken: bool,
}

pub(crate) struct Reactor {
    clock: Clock,
    lead: Mutex<()>,
    state: Mutex<State>,
    changed: Condvar,
}

impl Reactor {
    pub(crate) fn new(clock: Clock) -> std::io::Result<Arc<Reactor>> {
        Ok(Reactor::simulated(clock))
    }

    pub(crate) fn simulated(clock: Clock) -> Arc<Reactor> {
        let state = Mutex::new(State::default());
        Arc::new(Reactor { clock, lead: Mutex::new(()), state, changed: Condvar::new() })
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    fn arm(&self, target: Arc<dyn EventTarget>, key: u64, fired: Fired) -> u64 {
        let mut state = self.state.lock();
        state.serial += 1;
        let serial = state.serial;
        state.armed.push((serial, Due { target, key, fired }));
        serial
    }

    fn disarm(&self, serial: u64) -> bool {
        let mut state = self.state.lock();
        let Some(at) = state.armed.iter().position(|(armed, _)| *armed == serial) else { return false };
        let due = state.armed.remove(at);
        drop(state);
        drop(due);
        true
    }

    pub(crate) fn arm_timer(&self, deadline: Instant, target: Arc<dyn EventTarget>, key: u64) -> TimerId {
        TimerId(self.arm(target, key, Fired::Timer { deadline }))
    }

    pub(crate) fn put_timer(&self, deadline: Instant, target: Arc<dyn EventTarget>, key: u64) -> TimerId {
        self.arm_timer(deadline, target, key)
    }

    pub(crate) fn heed_timer(&self, _deadline: Instant) {}

    pub(crate) fn arm_wait(&self, target: Arc<dyn EventTarget>, key: u64) -> WaitId {
        WaitId(self.arm(target, key, Fired::Ready(Readiness::READABLE)))
    }

    pub(crate) fn cancel_timer(&self, id: TimerId) -> bool {
        self.disarm(id.0)
    }

    pub(crate) fn cancel_wait(&self, id: WaitId) -> bool {
        self.disarm(id.0)
    }

    /// Lets everything that is armed come to pass.
    pub(crate) fn fire_all(&self) {
        let mut state = self.state.lock();
        let State { armed, due, .. } = &mut *state;
        due.extend(armed.drain(..).map(|(_, due)| due));
        state.woken = true;
        drop(state);
        self.changed.notify_all();
    }

    pub(crate) fn try_lead(&self) -> Option<Lead<'_>> {
        self.lead.try_lock().map(|guard| Lead { reactor: self, _guard: guard })
    }

    pub(crate) fn wake(&self) {
        self.state.lock().woken = true;
        self.changed.notify_all();
    }

    pub(crate) fn next_deadline(&self) -> Instant {
        Instant::INFINITE
    }
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reactor(modelled)")
    }
}

pub(crate) struct Lead<'a> {
    reactor: &'a Reactor,
    _guard: MutexGuard<'a, ()>,
}

impl Lead<'_> {
    pub(crate) fn poll(&mut self, mode: PollMode) -> Batch {
        let mut state = self.reactor.state.lock();
        while mode == PollMode::Block && !state.woken && state.due.is_empty() {
            self.reactor.changed.wait(&mut state);
        }
        state.woken = false;
        Batch { due: std::mem::take(&mut state.due) }
    }
}
