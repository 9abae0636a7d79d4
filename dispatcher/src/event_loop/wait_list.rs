//! `WaitList`: all that wait on one source. They share one registration, which covers the union of their interests.
//!
//! Pure: it calls nobody. Who waits is moved out of it and told later, by whoever holds no lock.

use crate::event_loop::reactor::EventTarget;
use crate::sync::Arc;
use crate::sys::{Interest, Readiness};

/// One wait: what for, and whom to tell.
pub(crate) struct Wait {
    pub(crate) serial: u64,
    pub(crate) interest: Interest,
    pub(crate) target: Arc<dyn EventTarget>,
    pub(crate) key: u64,
}

/// The waits on one source, in the order of arming.
#[derive(Default)]
pub(crate) struct WaitList {
    waits: Vec<Wait>,
}

impl WaitList {
    pub(crate) fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    pub(crate) fn add(&mut self, wait: Wait) {
        self.waits.push(wait);
    }

    /// What all of them together wait for.
    pub(crate) fn interest(&self) -> Interest {
        self.waits.iter().fold(Interest::NONE, |all, wait| all | wait.interest)
    }

    /// Takes one wait out; `None` if it is not there any more.
    pub(crate) fn remove(&mut self, serial: u64) -> Option<Wait> {
        let at = self.waits.iter().position(|wait| wait.serial == serial)?;
        Some(self.waits.remove(at))
    }

    /// Those whom this readiness concerns, in the order of arming.
    pub(crate) fn concerned(&self, ready: Readiness) -> impl Iterator<Item = &Wait> + '_ {
        self.waits.iter().filter(move |wait| ready.concerns(wait.interest))
    }

    /// Takes out all whom this readiness concerns, in the order of arming.
    pub(crate) fn take_concerned(&mut self, ready: Readiness) -> impl Iterator<Item = Wait> + '_ {
        self.waits.extract_if(.., move |wait| ready.concerns(wait.interest))
    }

    pub(crate) fn take_all(&mut self) -> Vec<Wait> {
        std::mem::take(&mut self.waits)
    }
}
