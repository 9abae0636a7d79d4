//! Dumps: what dispatchers do and hold, as values and as text. A dump waits for no callback.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use super::callback_queue::{Kind, Stage};
use super::core::ActiveWhat;
use super::counters::Counters;
use super::dispatcher::DispatcherInner;
use super::driver::DriverInner;
use super::inline::Reason;
use super::runtime_inner::RuntimeInner;
use super::state::DispatcherState;
use crate::sync::Arc;
use crate::sync::thread::ThreadId;

/// How many pending callbacks a dump lists for each dispatcher; the rest is counted.
const LISTED: usize = 64;

/// A callback that runs at this moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunningDump {
    /// The thread it runs on.
    pub thread: ThreadId,
    /// What it is: a kind of callback, or the shutdown observer.
    pub what: &'static str,
    /// The type of the closure; empty for the observer.
    pub type_name: &'static str,
    /// Where it was posted.
    pub posted_from: Option<&'static Location<'static>>,
    /// For how long, by the coarse clock.
    pub running_for: Duration,
    /// What it waits for, if it sleeps in a blocking call of this crate.
    pub waits_for: Option<&'static str>,
}

/// A callback that waits.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PendingDump {
    /// Its kind.
    pub kind: Kind,
    /// Whether it is ready, or still waits for its event.
    pub is_ready: bool,
    /// The type of the closure.
    pub type_name: &'static str,
    /// Where it was posted.
    pub posted_from: &'static Location<'static>,
    /// The driver that posted it, if it was posted from inside one.
    pub posting_driver: Option<u64>,
    /// The dispatcher that posted it, if it was posted from a callback.
    pub posting_dispatcher: Option<u64>,
    /// For how long it has been pending, by the coarse clock.
    pub age: Duration,
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
    /// Whether it is synchronized.
    pub synchronized: bool,
    /// Whether it allows sync calls.
    pub allows_sync_calls: bool,
    /// Its state.
    pub state: DispatcherState,
    /// Its numbers.
    pub counters: Counters,
    /// How many futures live on it.
    pub futures: usize,
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
}

impl DispatcherDump {
    pub(crate) fn of(dispatcher: &DispatcherInner) -> Self {
        let now = dispatcher.now();
        let core = dispatcher.lock();
        let running = core
            .active
            .iter()
            .map(|active| {
                let (what, type_name, posted_from) = match active.what {
                    ActiveWhat::Callback { kind, type_name, location } => (kind.as_str(), type_name(), Some(location)),
                    ActiveWhat::ShutdownObserver => ("shutdown observer", "", None),
                };
                let running_for = now.duration_since(active.since);
                let waits_for = active.waits_for;
                RunningDump { thread: active.thread, what, type_name, posted_from, running_for, waits_for }
            })
            .collect();
        let pending: Vec<_> = Stage::ALL
            .into_iter()
            .flat_map(|stage| core.queue.entries(stage).map(move |(entry, details)| (stage, entry, details)))
            .take(LISTED)
            .map(|(stage, entry, details)| PendingDump {
                kind: entry.kind,
                is_ready: stage == Stage::Ready,
                type_name: entry.callback.type_name(),
                posted_from: details.location,
                posting_driver: (details.poster.driver != 0).then_some(details.poster.driver),
                posting_dispatcher: (details.poster.dispatcher != 0).then_some(details.poster.dispatcher),
                age: now.duration_since(details.accepted_at),
            })
            .collect();
        let options = dispatcher.options();
        DispatcherDump {
            name: options.name.clone(),
            id: dispatcher.id().as_raw(),
            driver: dispatcher.owner().name().to_owned(),
            synchronized: options.synchronized,
            allows_sync_calls: dispatcher.allows_sync_calls(),
            state: core.state,
            counters: core.counters(),
            futures: core.futures.len(),
            inlined: core.inline_counts.inlined,
            deferred: Reason::ALL
                .iter()
                .map(|&reason| (reason, core.inline_counts.deferred[reason as usize]))
                .collect(),
            running,
            pending_not_listed: core.queue.len() - pending.len(),
            pending,
        }
    }

    /// Whether anything runs or waits here.
    pub fn is_busy(&self) -> bool {
        !self.running.is_empty() || !self.pending.is_empty() || self.futures > 0
    }
}

impl fmt::Display for DispatcherDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.synchronized { "synchronized" } else { "unsynchronized" };
        let sync_calls = if self.allows_sync_calls { ", allows sync calls" } else { "" };
        let Counters { accepted, ran, canceled, taken_back, pending, refused } = self.counters;
        writeln!(
            f,
            "dispatcher {} \"{}\" of driver \"{}\": {kind}{sync_calls}, {}",
            self.id, self.name, self.driver, self.state
        )?;
        writeln!(
            f,
            "  {accepted} accepted = {ran} ran + {canceled} canceled + {taken_back} taken back + {pending} pending; {refused} refused"
        )?;
        write!(f, "  {} inline", self.inlined)?;
        for (reason, count) in self.deferred.iter().filter(|(_, count)| *count > 0) {
            write!(f, ", {count} deferred ({})", reason.as_str())?;
        }
        writeln!(f)?;
        for running in &self.running {
            write!(f, "  running on {:?} for {:?}: {}", running.thread, running.running_for, running.what)?;
            if let Some(location) = running.posted_from {
                write!(f, " posted at {location} ({})", running.type_name)?;
            }
            if let Some(what) = running.waits_for {
                write!(f, ", waits for {what}")?;
            }
            writeln!(f)?;
        }
        for pending in &self.pending {
            let state = if pending.is_ready { "queued" } else { "waiting" };
            writeln!(
                f,
                "  {state} for {:?}: {} posted at {} ({})",
                pending.age,
                pending.kind.as_str(),
                pending.posted_from,
                pending.type_name
            )?;
        }
        if self.pending_not_listed > 0 {
            writeln!(f, "  and {} more", self.pending_not_listed)?;
        }
        Ok(())
    }
}

/// One driver.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DriverDump {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u64,
    /// Its numbers, those of dispatchers that are gone included.
    pub counters: Counters,
    /// How many of its callbacks panicked.
    pub panics: u64,
    /// How many threads are inside of it.
    pub threads: usize,
    /// Its dispatchers, oldest first.
    pub dispatchers: Vec<DispatcherDump>,
}

impl DriverDump {
    pub(crate) fn of(driver: &Arc<DriverInner>) -> Self {
        DriverDump {
            name: driver.name().to_owned(),
            id: driver.id().as_raw(),
            counters: driver.counters(),
            panics: driver.panics(),
            threads: super::call_stack::threads_in_driver(driver.id().as_raw()),
            dispatchers: driver.dispatchers().iter().map(|dispatcher| DispatcherDump::of(dispatcher)).collect(),
        }
    }
}

impl fmt::Display for DriverDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "driver {} \"{}\": {} threads inside, {} panics", self.id, self.name, self.threads, self.panics)?;
        self.dispatchers.iter().try_for_each(|dispatcher| dispatcher.fmt(f))
    }
}

/// A whole runtime.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RuntimeDump {
    /// The threads of all pools.
    pub threads: usize,
    /// Its numbers, those of drivers that are gone included.
    pub counters: Counters,
    /// Its drivers, oldest first.
    pub drivers: Vec<DriverDump>,
}

impl RuntimeDump {
    pub(crate) fn of(runtime: &RuntimeInner) -> Self {
        RuntimeDump {
            threads: runtime.pools().iter().map(|pool| pool.threads().started()).sum(),
            counters: runtime.counters(),
            drivers: runtime.drivers().iter().map(DriverDump::of).collect(),
        }
    }

    /// Only what keeps a shutdown from ending, as text: the dispatchers on which something runs or waits.
    pub fn stuck(&self) -> String {
        let busy = self.drivers.iter().flat_map(|driver| &driver.dispatchers).filter(|dispatcher| dispatcher.is_busy());
        let text: String = busy.map(ToString::to_string).collect();
        if text.is_empty() { "  nothing that runs or waits; an observer may be under way\n".to_owned() } else { text }
    }
}

impl fmt::Display for RuntimeDump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "runtime: {} threads", self.threads)?;
        self.drivers.iter().try_for_each(|driver| driver.fmt(f))
    }
}
