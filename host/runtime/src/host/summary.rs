//! What is told at the end: what became of each driver's callbacks, and, if it did not end, who is stuck where.

use std::fmt;
use std::time::Duration;

use fuchsine_dispatcher::{Counters, RuntimeDump};

use crate::life_cycle::Phase;

/// What became of the drivers of a host.
#[derive(Debug, Clone)]
pub struct Summary {
    pub(crate) drivers: Vec<DriverSummary>,
    pub(crate) took: Duration,
}

/// What became of one driver instance.
#[derive(Debug, Clone)]
pub struct DriverSummary {
    pub(crate) driver: String,
    pub(crate) node: String,
    pub(crate) counters: Counters,
    pub(crate) stop_took: Duration,
    pub(crate) failure: Option<String>,
    pub(crate) is_restarted: bool,
    /// What it was stuck in.
    pub(crate) given_up: Option<String>,
}

impl Summary {
    /// All instances that are gone, in the order in which they went.
    pub fn drivers(&self) -> &[DriverSummary] {
        &self.drivers
    }

    /// Whether any driver failed for good: so that it was not started again.
    pub fn has_failed(&self) -> bool {
        self.drivers.iter().any(|driver| driver.failure.is_some() && !driver.is_restarted)
    }

    /// How long the stop took, by the clock of the runtime.
    pub fn took(&self) -> Duration {
        self.took
    }
}

impl DriverSummary {
    /// The driver's name in the manifest.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// The path of the node that it was bound to.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// What became of the callbacks of all its dispatchers.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// From when it was told to stop (or failed) until nothing of it was left.
    pub fn stop_took(&self) -> Duration {
        self.stop_took
    }

    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether it was started again after that failure.
    pub fn is_restarted(&self) -> bool {
        self.is_restarted
    }

    /// Whether it did not stop in time, so that something of it may still run. Its numbers are those of that moment.
    pub fn is_given_up(&self) -> bool {
        self.given_up.is_some()
    }

    /// What it was stuck in when it was given up, with thread and place, if it was.
    pub fn stuck_in(&self) -> Option<&str> {
        self.given_up.as_deref()
    }
}

/// A driver that has not stopped, and what the host waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    pub(crate) driver: String,
    pub(crate) node: String,
    pub(crate) phase: Phase,
}

impl Waiting {
    /// The driver's name in the manifest.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// The path of the node that it is bound to.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Where it stands in its life.
    pub fn phase(&self) -> Phase {
        self.phase
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "driver `{}` on {}: waiting for {}", self.driver, self.node, self.phase.waits_for())
    }
}

/// A host has not stopped in time.
#[derive(Debug, thiserror::Error)]
pub struct StopError(Box<Stuck>);

#[derive(Debug)]
struct Stuck {
    summary: Summary,
    waiting: Vec<Waiting>,
    dump: RuntimeDump,
}

impl StopError {
    pub(super) fn new(summary: Summary, waiting: Vec<Waiting>, dump: RuntimeDump) -> StopError {
        StopError(Box::new(Stuck { summary, waiting, dump }))
    }

    /// What became of the drivers that did stop.
    pub fn summary(&self) -> &Summary {
        &self.0.summary
    }

    /// The drivers that did not stop. Empty if all did and only the runtime is still busy.
    pub fn waiting(&self) -> &[Waiting] {
        &self.0.waiting
    }

    /// What every dispatcher did and held when the time was up.
    pub fn dump(&self) -> &RuntimeDump {
        &self.0.dump
    }
}

impl fmt::Display for StopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the host did not stop in time")?;
        for waiting in &self.0.waiting {
            write!(f, "\n{waiting}")?;
        }
        write!(f, "\n{}", self.0.dump.stuck().trim_end())
    }
}
