//! Gathering: from the inside of a runtime to the values of a dump.

use std::collections::HashSet;

use super::names::Names;
use super::{
    DispatcherDump, DriverDump, DumpLimits, LongestDump, ObservingDump, PendingDump, PoolDump, RunningDump, RuntimeDump,
};
use crate::runtime::active::{Active, ActiveWhat};
use crate::runtime::call_stack;
use crate::runtime::callback_queue::{Stage, TypeNameOf};
use crate::runtime::core::Core;
use crate::runtime::dispatcher::DispatcherInner;
use crate::runtime::driver_inner::DriverInner;
use crate::runtime::inline::Reason;
use crate::runtime::runtime_inner::RuntimeInner;
use crate::site::Site;
use crate::sync::Arc;
use crate::time::Instant;

/// What is needed to look at one dispatcher after the other.
struct Collector<'a> {
    names: Names,
    now: Instant,
    limits: DumpLimits,
    /// How many pending callbacks may still be listed.
    pending_left: usize,
    /// The dispatchers that are listed; `None` for all.
    listed: Option<HashSet<u64>>,
    runtime: &'a RuntimeInner,
}

impl<'a> Collector<'a> {
    fn new(runtime: &'a RuntimeInner, limits: DumpLimits) -> Self {
        let names = Names::of(runtime);
        let now = runtime.clock().now();
        Collector { names, now, limits, pending_left: limits.pending_in_all, listed: None, runtime }
    }

    fn running(&self, active: &Active) -> RunningDump {
        let (what, type_name, posted_from) = active.what.describe();
        RunningDump {
            thread: self.names.thread(active.thread),
            what,
            type_name,
            posted_from,
            running_for: self.now.duration_since(active.since),
            waits_for: active.waits_for.as_ref().map(|waits_for| waits_for.what),
            waits_on: active
                .waits_for
                .as_ref()
                .and_then(|waits_for| self.names.dispatcher((waits_for.whom.as_ref()?)()?)),
        }
    }

    /// The first pending callbacks, in the order of cancellation.
    fn pending(&mut self, core: &Core) -> Vec<PendingDump> {
        let most = self.limits.pending.min(self.pending_left);
        let all = Stage::ALL.into_iter().flat_map(|stage| core.queue.pending(stage).map(move |one| (stage, one)));
        let pending: Vec<_> = all
            .take(most)
            .map(|(stage, one)| PendingDump {
                kind: one.kind,
                queue: stage.as_str(),
                is_ready: stage == Stage::Ready,
                type_name: type_of(one.location, one.type_name),
                posted_from: one.location,
                posted_by: self.names.poster(one.poster),
                age: self.now.duration_since(one.accepted_at),
            })
            .collect();
        self.pending_left -= pending.len();
        pending
    }

    fn dispatcher(&mut self, dispatcher: &DispatcherInner) -> DispatcherDump {
        let (options, owner) = (dispatcher.options(), dispatcher.owner());
        let core = dispatcher.lock();
        let pending = self.pending(&core);
        let longest = core.active.longest().map(|longest| {
            let (what, type_name, posted_from) = longest.what.describe();
            LongestDump { what, type_name, posted_from, ran_for: longest.ran_for }
        });
        DispatcherDump {
            name: options.name.to_string(),
            id: dispatcher.id().as_raw(),
            driver: owner.name().to_owned(),
            driver_id: owner.id().as_raw(),
            role: dispatcher.pool().role().to_owned(),
            synchronized: options.synchronized,
            allows_sync_calls: dispatcher.allows_sync_calls(),
            no_thread_migration: options.no_thread_migration,
            state: core.state,
            counters: core.counters(),
            futures: core.futures.len(),
            queues: Stage::ALL.into_iter().map(|stage| (stage.as_str(), core.queue.len_of(stage))).collect(),
            longest_queue: core.queue.longest(),
            longest_callback: longest,
            posted: core.inline_counts.posted,
            late_reads: core.seldom.late_reads(),
            inlined: core.inline_counts.inlined,
            deferred: Reason::ALL
                .iter()
                .map(|&reason| (reason, core.inline_counts.deferred[reason as usize]))
                .collect(),
            running: core.running().map(|active| self.running(&active)).collect(),
            pending_not_listed: core.queue.len() - pending.len(),
            pending,
            waiting_for_idle: core.idle_waiters as usize,
        }
    }

    fn driver(&mut self, driver: &DriverInner) -> DriverDump {
        let (state, observing) = driver.standing();
        let all = driver.dispatchers();
        let is_listed =
            |one: &&Arc<DispatcherInner>| self.listed.as_ref().is_none_or(|listed| listed.contains(&one.id().as_raw()));
        let listed: Vec<_> = all.iter().filter(is_listed).collect();
        // Ahead of the value that is made below: a guard inside of it would be held until all of that is made, while the
        // dispatchers are locked, which comes first elsewhere.
        let is_suspended = driver.power().lock().is_suspended();
        DriverDump {
            name: driver.name().to_owned(),
            id: driver.id().as_raw(),
            state,
            counters: driver.counters(),
            panics: driver.panics(),
            threads: call_stack::threads_in_driver(driver.id().as_raw()),
            is_suspended,
            observing: observing.map(|(thread, since)| ObservingDump {
                thread: self.names.thread(thread),
                running_for: self.now.duration_since(since),
            }),
            dispatchers_not_listed: all.len() - listed.len(),
            dispatchers: listed.into_iter().map(|dispatcher| self.dispatcher(dispatcher)).collect(),
        }
    }

    /// If there are more dispatchers than may be listed: those on which something runs or waits, then the oldest.
    fn choose(&mut self, drivers: &[Arc<DriverInner>]) {
        let all: Vec<_> = drivers.iter().flat_map(|driver| driver.dispatchers()).collect();
        if all.len() <= self.limits.dispatchers {
            return;
        }
        let (busy, idle): (Vec<_>, Vec<_>) = all.iter().partition(|one| {
            let core = one.lock();
            core.running().next().is_some() || core.queue.len() > 0
        });
        let first = busy.into_iter().chain(idle).take(self.limits.dispatchers);
        self.listed = Some(first.map(|one| one.id().as_raw()).collect());
    }

    fn runtime(mut self) -> RuntimeDump {
        let all = self.runtime.drivers();
        let listed = all.len().min(self.limits.drivers);
        self.choose(&all[..listed]);
        let roles = self.runtime.pools_by_role();
        let here = call_stack::poster();
        RuntimeDump {
            name: self.runtime.name().to_owned(),
            at: self.now,
            made_in: self.names.place(here.driver, here.dispatcher),
            threads: roles.iter().map(|(_, pool)| pool.threads().started()).sum(),
            pools: roles.iter().map(|(role, pool)| PoolDump::of(role, pool, &self.names, self.limits)).collect(),
            counters: self.runtime.counters(),
            drivers_not_listed: all.len() - listed,
            drivers: all[..listed].iter().map(|driver| self.driver(driver)).collect(),
        }
    }
}

impl ActiveWhat {
    /// What it is, its type, and where it was posted.
    fn describe(self) -> (&'static str, &'static str, Option<crate::site::Site>) {
        match self {
            ActiveWhat::Callback { kind, type_name, location } => {
                (kind.as_str(), type_of(location, type_name), Some(location))
            }
            ActiveWhat::ShutdownObserver => ("shutdown observer", "", None),
        }
    }
}

/// What a callback is called: what its site says, or else the type of its closure.
fn type_of(site: Site, type_name: TypeNameOf) -> &'static str {
    site.type_name().unwrap_or_else(|| users_type(type_name()))
}

/// The type of the closure that was posted, without what this crate wraps around it.
pub(crate) fn users_type(name: &'static str) -> &'static str {
    let inside = || name.strip_prefix(env!("CARGO_CRATE_NAME"))?.split_once('<')?.1.strip_suffix('>');
    inside().unwrap_or(name)
}

impl DispatcherDump {
    pub(crate) fn of(dispatcher: &DispatcherInner) -> Self {
        Collector::new(dispatcher.owner().runtime(), DumpLimits::default()).dispatcher(dispatcher)
    }
}

impl DriverDump {
    pub(crate) fn of(driver: &Arc<DriverInner>) -> Self {
        let mut collector = Collector::new(driver.runtime(), DumpLimits::default());
        collector.choose(std::slice::from_ref(driver));
        collector.driver(driver)
    }
}

impl RuntimeDump {
    pub(crate) fn of(runtime: &RuntimeInner) -> Self {
        Self::with_limits(runtime, DumpLimits::default())
    }

    pub(crate) fn with_limits(runtime: &RuntimeInner, limits: DumpLimits) -> Self {
        Collector::new(runtime, limits).runtime()
    }
}
