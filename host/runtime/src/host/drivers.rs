//! The drivers as users see them: what became of each driver of the manifest, at one moment.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant as RealInstant};

use fuchsine_dispatcher::Counters;

use super::shared::{Shared, State};
use super::{Host, HostState, Target};
use crate::life_cycle::{InstanceId, Phase};
use crate::node::Binding;
use crate::supervisor::Standing;

/// Where a driver of the manifest stands, all its instances taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DriverState {
    /// No node matches it at this moment, or the one that it waits for has not been offered yet.
    Unbound,
    /// It is starting, and runs nowhere yet.
    Starting,
    /// It runs.
    Running,
    /// It is being stopped.
    Stopping,
    /// It failed and is started again in a while.
    Waiting,
    /// It was stopped by request.
    Held,
    /// It has come to its own end.
    Done,
    /// It failed, and its node is offered to nobody.
    Failed,
}

impl DriverState {
    /// All of them.
    pub const ALL: [DriverState; 8] = [
        DriverState::Unbound,
        DriverState::Starting,
        DriverState::Running,
        DriverState::Stopping,
        DriverState::Waiting,
        DriverState::Held,
        DriverState::Done,
        DriverState::Failed,
    ];

    /// The state as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            DriverState::Unbound => "unbound",
            DriverState::Starting => "starting",
            DriverState::Running => "running",
            DriverState::Stopping => "stopping",
            DriverState::Waiting => "waiting",
            DriverState::Held => "held",
            DriverState::Done => "done",
            DriverState::Failed => "failed",
        }
    }
}

/// One driver of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverInfo {
    name: String,
    driver: &'static str,
    version: &'static str,
    module: Option<PathBuf>,
    state: DriverState,
    instances: Vec<(String, Phase)>,
    left: Vec<String>,
    process: Option<String>,
    process_ids: Vec<u32>,
    counters: Counters,
    failure: Option<String>,
}

impl DriverInfo {
    /// The name in the manifest.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The driver that is run.
    pub fn driver(&self) -> &str {
        self.driver
    }

    /// Its version.
    pub fn version(&self) -> &str {
        self.version
    }

    /// The module that it is from; `None` for one that is linked in.
    pub fn module(&self) -> Option<&Path> {
        self.module.as_deref()
    }

    /// Where it stands.
    pub fn state(&self) -> DriverState {
        self.state
    }

    /// The nodes that it is on, and where it stands in its life there.
    pub fn instances(&self) -> &[(String, Phase)] {
        &self.instances
    }

    /// The nodes that it was on last, and where it is no more.
    pub fn left(&self) -> &[String] {
        &self.left
    }

    /// The process that it runs in, as the manifest has it: `own`, or a name. `None`: that of the host.
    pub fn process(&self) -> Option<&str> {
        self.process.as_deref()
    }

    /// The numbers of the processes in which its instances run, those of the host's own process not counted.
    pub fn process_ids(&self) -> &[u32] {
        &self.process_ids
    }

    /// What became of the callbacks of the instances that there are now; of one in another process, those of its stand-in.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How it failed last, if it ever did.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

impl State {
    /// All drivers, in the order in which nodes are offered to them.
    pub(super) fn driver_infos(&self) -> Vec<DriverInfo> {
        self.supervisor
            .overview()
            .into_iter()
            .filter_map(|rule| {
                let planned = self.drivers.get(&rule.id)?;
                let found = |id: &InstanceId| self.instances.get(id);
                let counters = rule.instances.iter().filter_map(|(id, _)| found(id)).map(|one| one.counters());
                let of_it = |path: &(InstanceId, Phase)| Some((found(&path.0)?.node_path.clone(), path.1));
                let failed = self.summaries.iter().rev().filter(|summary| summary.driver() == planned.name());
                Some(DriverInfo {
                    name: planned.name().to_owned(),
                    driver: planned.entry().name(),
                    version: planned.entry().version(),
                    module: planned.module().map(Path::to_owned),
                    process: planned.process().map(str::to_owned),
                    process_ids: rule.instances.iter().filter_map(|(id, _)| found(id)?.process_id()).collect(),
                    state: self.state_of(&rule, planned.name()),
                    counters: counters.fold(Counters::default(), |sum, one| sum + one),
                    instances: rule.instances.iter().filter_map(of_it).collect(),
                    left: rule.left.into_iter().map(|(path, _)| path).collect(),
                    failure: failed.filter_map(|summary| summary.failure()).next().map(str::to_owned),
                })
            })
            .collect()
    }

    fn state_of_driver(&self, name: &str) -> Option<DriverState> {
        let is_meant = |rule: &Standing| self.drivers.get(&rule.id).is_some_and(|planned| planned.name() == name);
        let found = self.supervisor.overview().into_iter().find(is_meant)?;
        Some(self.state_of(&found, name))
    }

    fn state_of(&self, rule: &Standing, name: &str) -> DriverState {
        let state = state_of(&rule.instances, &rule.left, rule.held);
        // The supervisor is done with an instance a little before what became of it is written down.
        let is_over = rule.instances.is_empty() && self.instances.values().any(|instance| instance.name == name);
        if is_over { DriverState::Stopping } else { state }
    }

    /// The instances that a request is about.
    fn instances_at(&self, target: &Target) -> Vec<InstanceId> {
        let is_meant = |name: &str, path: &str| match target {
            Target::Driver(wanted) => wanted == name,
            Target::Node(wanted) => wanted == path,
        };
        let all = self.instances.values();
        all.filter(|one| is_meant(&one.name, &one.node_path)).map(|one| one.id).collect()
    }
}

fn state_of(instances: &[(InstanceId, Phase)], left: &[(String, Binding)], held: bool) -> DriverState {
    let is_in = |wanted: fn(Phase) -> bool| instances.iter().any(|&(_, phase)| wanted(phase));
    let was = |wanted: fn(&Binding) -> bool| left.iter().any(|(_, binding)| wanted(binding));
    match () {
        () if held && !instances.is_empty() => DriverState::Stopping,
        () if held => DriverState::Held,
        () if is_in(|phase| phase == Phase::Running) => DriverState::Running,
        () if is_in(|phase| phase == Phase::Starting) => DriverState::Starting,
        () if !instances.is_empty() => DriverState::Stopping,
        () if was(|binding| matches!(binding, Binding::Waiting(..))) => DriverState::Waiting,
        () if was(|binding| matches!(binding, Binding::Quarantined(_))) => DriverState::Failed,
        () if was(|binding| matches!(binding, Binding::Held(_))) => DriverState::Held,
        () if was(|binding| matches!(binding, Binding::Done(_))) => DriverState::Done,
        () => DriverState::Unbound,
    }
}

impl Host {
    /// The drivers of the manifest, in the order in which nodes are offered to them.
    pub fn drivers(&self) -> Vec<DriverInfo> {
        self.shared().state.lock().driver_infos()
    }

    /// The addresses of the drivers that there are now.
    pub(crate) fn live_addresses(&self) -> Vec<String> {
        let state = self.shared().state.lock();
        let live = state.addresses.iter().filter(|(id, _)| state.instances.contains_key(id));
        live.map(|(_, address)| address.clone()).collect()
    }

    /// Waits until a driver is in one of these states, and tells in which. Gives `None` when `timeout` passes first, or
    /// when the host has no such driver (any more).
    ///
    /// # Thread requirements
    /// No thread of the runtime, and no foreground runtime: nobody would turn its crank.
    pub fn wait_driver(&self, name: &str, states: &[DriverState], timeout: Duration) -> Option<DriverState> {
        let state_now = |state: &State| match state.state_of_driver(name) {
            Some(found) if !states.contains(&found) => None,
            other => Some(other),
        };
        self.shared().wait_until(RealInstant::now() + timeout, state_now).flatten()
    }

    /// The instances of a driver, or the one on a node, to be waited for with [`wait_gone`](Self::wait_gone).
    pub(crate) fn instances_of(&self, target: &Target) -> Vec<InstanceId> {
        self.shared().state.lock().instances_at(target)
    }

    /// Waits until none of these is there any more. Gives whether that came in time.
    pub(crate) fn wait_gone(&self, instances: &[InstanceId], timeout: Duration) -> bool {
        let gone = |state: &State| instances.iter().all(|id| !state.instances.contains_key(id)).then_some(());
        self.shared().wait_until(RealInstant::now() + timeout, gone).is_some()
    }

    /// Waits until a node has a driver that runs, or none. Gives whether that came in time.
    pub(crate) fn wait_settled(&self, path: &str, timeout: Duration) -> bool {
        let settled = |state: &State| {
            let node = state.supervisor.tree().find(path).and_then(|node| state.supervisor.tree().get(node));
            let is_going = match node.map(|node| node.binding) {
                Some(Binding::Bound(instance)) => state.supervisor.phase_of(instance) != Phase::Running,
                _ => false,
            };
            (!is_going).then_some(())
        };
        self.shared().wait_until(RealInstant::now() + timeout, settled).is_some()
    }

    /// Waits until the host is in a state that is wanted. Gives whether that came in time.
    pub(crate) fn wait_state(&self, wanted: impl Fn(HostState) -> bool, timeout: Duration) -> bool {
        let reached = |state: &State| wanted(state.host_state()).then_some(());
        self.shared().wait_until(RealInstant::now() + timeout, reached).is_some()
    }
}

impl Shared {
    /// Looks after everything that happens, until there is an answer or the time is up.
    fn wait_until<T>(&self, deadline: RealInstant, mut look: impl FnMut(&State) -> Option<T>) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(answer) = look(&state) {
                return Some(answer);
            }
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return look(&state);
            }
        }
    }
}
