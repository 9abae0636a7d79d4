//! Dumps: what dispatchers do and hold, as values, as text and as JSON. A dump waits for no callback.
//!
//! Each dispatcher is looked at under its own lock, for as long as it takes to copy what is listed; a whole runtime is not
//! stopped, so what moves from one dispatcher to another meanwhile may be seen twice or not at all. `collect` gathers,
//! `names` turns numbers into names, `pools` has the threads, `text` and `json` write.
//!
//! Times are those of a coarse clock: the watch of a pool reads it once a millisecond while callbacks run, and while the
//! watch sleeps it is exact. So they are right to about a millisecond.

mod collect;
mod json;
mod names;
mod pools;
mod text;

use std::time::Duration;

use super::callback_queue::Kind;
use super::counters::Counters;
use super::driver::DriverState;
use super::inline::Reason;
use super::state::DispatcherState;
use crate::site::Site;
use crate::time::Instant;

#[cfg(feature = "testing")]
pub(crate) use collect::users_type;
pub use names::{Named, PlaceDump, ThreadName};
pub use pools::{LaneDump, PoolDump, ThreadDump};

/// How much a dump lists. What is left out is counted.
///
/// # Examples
/// ```
/// # use fuchsine_dispatcher::*;
/// # let runtime = RuntimeBuilder::new().threads(1).build()?;
/// let short = runtime.dump_with(DumpLimits { dispatchers: 8, pending: 4, ..DumpLimits::default() });
/// # runtime.shutdown(std::time::Duration::from_secs(10))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpLimits {
    /// Threads of each pool.
    pub threads: usize,
    /// Drivers.
    pub drivers: usize,
    /// Dispatchers, of all drivers together. Those on which something runs or waits come first.
    pub dispatchers: usize,
    /// Pending callbacks of each dispatcher.
    pub pending: usize,
    /// Pending callbacks of all dispatchers together.
    pub pending_in_all: usize,
}

impl DumpLimits {
    /// Everything is listed.
    pub const NONE: DumpLimits = DumpLimits {
        threads: usize::MAX,
        drivers: usize::MAX,
        dispatchers: usize::MAX,
        pending: usize::MAX,
        pending_in_all: usize::MAX,
    };
}

impl Default for DumpLimits {
    fn default() -> Self {
        DumpLimits { threads: 256, drivers: 256, dispatchers: 256, pending: 64, pending_in_all: 4096 }
    }
}

/// A callback that runs at this moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunningDump {
    /// The thread it runs on.
    pub thread: ThreadName,
    /// What it is: a kind of callback, or the shutdown observer.
    pub what: &'static str,
    /// The type of the closure; empty for the observer.
    pub type_name: &'static str,
    /// Where it was posted.
    pub posted_from: Option<Site>,
    /// For how long, by the coarse clock.
    pub running_for: Duration,
    /// What it waits for, if it sleeps in a blocking call of this crate.
    pub waits_for: Option<&'static str>,
    /// The dispatcher that would bring that about, if it is known: of a call, the one that it is made on, or that reads the
    /// other end of the channel.
    pub waits_on: Option<Named>,
}

/// A callback that waits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PendingDump {
    /// Its kind.
    pub kind: Kind,
    /// Where it waits: the name of one of [`DispatcherDump::queues`].
    pub queue: &'static str,
    /// Whether it is ready, or still waits for its event.
    pub is_ready: bool,
    /// The type of the closure.
    pub type_name: &'static str,
    /// Where it was posted.
    pub posted_from: Site,
    /// The driver, and the dispatcher if it was a callback, that posted it; `None` for a thread outside of any.
    pub posted_by: Option<PlaceDump>,
    /// For how long it has been pending, by the coarse clock.
    pub age: Duration,
}

/// A callback that has returned.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LongestDump {
    /// What it was: a kind of callback, or the shutdown observer.
    pub what: &'static str,
    /// The type of the closure; empty for the observer.
    pub type_name: &'static str,
    /// Where it was posted.
    pub posted_from: Option<Site>,
    /// How long it ran, by the coarse clock.
    pub ran_for: Duration,
}

/// One dispatcher.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DispatcherDump {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u64,
    /// The name of its driver.
    pub driver: String,
    /// The number of its driver.
    pub driver_id: u64,
    /// The role whose pool it runs on; empty for the default role.
    pub role: String,
    /// Whether it is synchronized.
    pub synchronized: bool,
    /// Whether it allows sync calls.
    pub allows_sync_calls: bool,
    /// Whether everything of it runs on one thread.
    pub no_thread_migration: bool,
    /// Its state.
    pub state: DispatcherState,
    /// Its numbers.
    pub counters: Counters,
    /// How many futures live on it.
    pub futures: usize,
    /// How many callbacks stand in each queue, by its name.
    pub queues: Vec<(&'static str, usize)>,
    /// The most callbacks that were ever ready at once.
    pub longest_queue: usize,
    /// Of the callbacks that have returned, the one that took longest, if any took long enough to be seen.
    pub longest_callback: Option<LongestDump>,
    /// How many tasks were posted. They never run inline, and no decision is made of them.
    pub posted: u64,
    /// How many reads were registered when there was something to read already. They are queued, without a decision.
    pub late_reads: u64,
    /// How many calls were made inline.
    pub inlined: u64,
    /// How many calls were deferred, by reason.
    pub deferred: Vec<(Reason, u64)>,
    /// What runs.
    pub running: Vec<RunningDump>,
    /// What waits, the first ones.
    pub pending: Vec<PendingDump>,
    /// How many more wait.
    pub pending_not_listed: usize,
    /// How many threads sleep until it is idle.
    pub waiting_for_idle: usize,
}

impl DispatcherDump {
    /// Whether anything runs or waits here.
    pub fn is_busy(&self) -> bool {
        !self.running.is_empty() || !self.pending.is_empty() || self.pending_not_listed > 0 || self.futures > 0
    }

    /// How many callbacks a queue has, 0 if there is none of this name.
    pub fn queued(&self, queue: &str) -> usize {
        self.queues.iter().find(|(name, _)| *name == queue).map_or(0, |(_, len)| *len)
    }

    /// Everything that became ready: posted, read late, run inline, or deferred. (Fuchsia: R170, total requests.)
    pub fn requests(&self) -> u64 {
        self.posted + self.late_reads + self.inlined + self.deferred.iter().map(|(_, count)| count).sum::<u64>()
    }
}

/// The observer of a driver that runs at this moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ObservingDump {
    /// The thread it runs on.
    pub thread: ThreadName,
    /// For how long, by the coarse clock.
    pub running_for: Duration,
}

/// One driver.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DriverDump {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u64,
    /// Where it stands in its life.
    pub state: DriverState,
    /// Its numbers, those of dispatchers that are gone included.
    pub counters: Counters,
    /// How many of its callbacks panicked.
    pub panics: u64,
    /// How many threads are inside of it.
    pub threads: usize,
    /// Whether it is suspended, or about to be.
    pub is_suspended: bool,
    /// Its own observers, while they run.
    pub observing: Option<ObservingDump>,
    /// Its dispatchers, oldest first.
    pub dispatchers: Vec<DispatcherDump>,
    /// How many more it has.
    pub dispatchers_not_listed: usize,
}

/// A whole runtime.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RuntimeDump {
    /// Its name.
    pub name: String,
    /// The time by its clock.
    pub at: Instant,
    /// Whose callback, or which driver, the dump was made in.
    pub made_in: Option<PlaceDump>,
    /// The threads of all pools.
    pub threads: usize,
    /// Its pools, that of the default role first.
    pub pools: Vec<PoolDump>,
    /// Its numbers, those of drivers that are gone included.
    pub counters: Counters,
    /// Its drivers, oldest first.
    pub drivers: Vec<DriverDump>,
    /// How many more it has. Their numbers are in `counters`.
    pub drivers_not_listed: usize,
}
