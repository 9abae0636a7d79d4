//! What is different between two plans: what a host that reads its manifest again has to do, and no more.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::plan::{Plan, PlannedDriver};

/// One driver, or the host itself, that a new plan has otherwise than the old one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The driver's name in the manifest; `host` for settings of the host.
    pub name: String,
    /// What is different.
    pub kind: ChangeKind,
}

/// What is different about a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// It is there no more.
    Removed,
    /// It asks for other nodes, or is another driver: it is stopped, and started where it belongs now.
    Rebound,
    /// It has another configuration, or another process: it is stopped and started again on its nodes.
    Restarted,
    /// Only policies or its priority: it goes on.
    Adjusted,
    /// A setting of the host that counts from its next start on.
    NeedsRestart,
}

impl Plan {
    /// What has to be done to come from this plan to another one. Drivers that are the same in both are not mentioned, nor
    /// is their order.
    pub fn changes(&self, to: &Plan) -> Vec<Change> {
        let old: BTreeMap<&str, &PlannedDriver> = self.drivers.iter().map(|driver| (driver.name(), driver)).collect();
        let new: BTreeSet<&str> = to.drivers.iter().map(PlannedDriver::name).collect();
        let change = |name: &str, kind| Change { name: name.to_owned(), kind };
        let host = (self.threads != to.threads).then(|| change("host", ChangeKind::NeedsRestart));
        let gone = self.drivers.iter().map(PlannedDriver::name).filter(|name| !new.contains(name));
        let gone = gone.map(|name| change(name, ChangeKind::Removed));
        let others = to.drivers.iter().filter_map(|driver| {
            let kind = match old.get(driver.name()) {
                None => Some(ChangeKind::Added),
                Some(before) => before.difference(driver),
            };
            kind.map(|kind| change(driver.name(), kind))
        });
        host.into_iter().chain(gone).chain(others).collect()
    }
}

impl PlannedDriver {
    fn difference(&self, to: &PlannedDriver) -> Option<ChangeKind> {
        if self.bind != to.bind || self.parents != to.parents || !std::ptr::eq(self.entry, to.entry) {
            return Some(ChangeKind::Rebound);
        }
        if self.config != to.config || self.apart != to.apart {
            return Some(ChangeKind::Restarted);
        }
        (self.policy != to.policy || self.priority != to.priority).then_some(ChangeKind::Adjusted)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ChangeKind::NeedsRestart => {
                write!(f, "the settings of the host have changed; they count from its next start on")
            }
            kind => write!(f, "driver `{}` {kind}", self.name),
        }
    }
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChangeKind::Added => "is new",
            ChangeKind::Removed => "was removed",
            ChangeKind::Rebound => "is bound anew",
            ChangeKind::Restarted => "is restarted with its new configuration",
            ChangeKind::Adjusted => "goes on with its new policies",
            ChangeKind::NeedsRestart => "needs a restart of the host",
        })
    }
}
