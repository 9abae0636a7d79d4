//! What a supervisor has its host do, and what it tells of ends.

use std::time::Duration;

use crate::life_cycle::InstanceId;
use crate::node::{NodeId, RuleId};

/// What the host does next. Each of the first five ends with an event about the same instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Create its default dispatcher and call `start`; then `started` or `start_failed`.
    Start { instance: InstanceId, rule: RuleId, node: NodeId },
    /// Call `prepare_stop`; then `prepared`.
    PrepareStop(InstanceId),
    /// Shut down all dispatchers of the driver; then `dispatchers_down`.
    ShutDown(InstanceId),
    /// Call `stop`; then `stopped`.
    Stop(InstanceId),
    /// Drop the driver; then `destroyed`.
    Destroy(InstanceId),
    /// An instance is gone for good.
    Released(InstanceId),
    /// Drop what its `stop` waits for; then `stopped`.
    CutStop(InstanceId),
    /// Say `overdue` after so long, unless it is gone then.
    Watch(InstanceId, Duration),
    /// Say `restart_due` with the node and the number after so long.
    RestartLater { node: NodeId, number: u64, after: Duration },
    /// An instance is gone as far as the host is concerned, but something of it still runs: what it is stuck in.
    GivenUp(InstanceId, String),
    /// A driver failed, for this reason, and what follows from it.
    Failed(InstanceId, Failure, Consequence),
    /// A driver came to its own end, and is started again or not.
    Finished(InstanceId, Consequence),
    /// End the process.
    Abort(InstanceId),
    /// A node is out of the tree.
    NodeRemoved(NodeId),
    /// Every driver of the manifest has started. Comes at most once, and not once the host stops.
    AllStarted,
    /// The host is stopping: drivers that are left are being stopped.
    Stopping,
    /// Nothing is left. The last action of a host.
    AllGone,
}

/// What follows from the end of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Consequence {
    /// It is started again.
    Restart {
        /// After so long.
        after: Duration,
        /// Which restart this is, of those that are not forgotten yet.
        number: u32,
    },
    /// It stays down.
    Down,
    /// It stays down, and its node is offered to other drivers.
    Rematch,
    /// It stays down, because it has been restarted as often as its limit allows.
    LimitReached,
}

impl std::fmt::Display for Consequence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Consequence::Restart { after, number } => {
                write!(f, "it is started again after {after:?} (restart {number})")
            }
            Consequence::Down => f.write_str("it stays down"),
            Consequence::Rematch => f.write_str("it stays down, and its node is offered to others"),
            Consequence::LimitReached => f.write_str("it stays down, as it was restarted too often"),
        }
    }
}

/// How a driver failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// Its `start` did not succeed, for this reason.
    Start(String),
    /// One of its callbacks or hooks panicked with this message.
    Panic(String),
    /// It told the host that it cannot go on, for this reason.
    Ended(String),
    /// Something went wrong while it stopped. It is gone all the same.
    Stop(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Start(reason) => write!(f, "failed to start: {reason}"),
            Failure::Panic(message) => write!(f, "panicked: {message}"),
            Failure::Ended(reason) => write!(f, "cannot go on: {reason}"),
            Failure::Stop(reason) => write!(f, "did not stop well: {reason}"),
        }
    }
}
