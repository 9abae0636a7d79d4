//! What the tests of the dispatcher share: a log of what happened, pools, hang limits.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fuchsine_dispatcher::{Runtime, RuntimeBuilder};

/// After this long a test counts as hung. It is no measure of speed.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// An ordered record of what happened.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn new() -> Self {
        Log::default()
    }

    pub(crate) fn add(&self, entry: impl Into<String>) {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(entry.into());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).is_empty()
    }
}

/// A runtime with this many threads.
#[track_caller]
pub(crate) fn pool_of(threads: usize) -> Runtime {
    RuntimeBuilder::new().threads(threads).build().expect("the system has threads")
}

/// Waits for one message, but not for ever.
#[track_caller]
pub(crate) fn within<T>(receiver: &Receiver<T>, what: &str) -> T {
    match receiver.recv_timeout(HANG) {
        Ok(value) => value,
        Err(error) => panic!("{what} did not come: {error}"),
    }
}

/// The counters of a runtime that is at rest: they add up, and nothing is pending.
#[track_caller]
pub(crate) fn add_up(runtime: &Runtime) {
    let counters = runtime.counters();
    assert!(counters.add_up(), "{counters:?}");
}
