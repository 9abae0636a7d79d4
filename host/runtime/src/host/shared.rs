//! Feeds what happens to the supervisor, and has what it decides carried out (`actions`).
//!
//! Events come from any thread: hooks that ended, observers, drivers that add nodes, the user. Each is fed to the
//! supervisor under the lock; the actions that come out are queued, and one thread at a time carries them out, in
//! order, with no lock held. So a driver that is called by an action may cause further events without any recursion,
//! and what is done to one instance is done in the order in which it was decided.
//!
//! Whoever has something under way (a hook that runs, an observer that will come) holds an `Arc` of this, so a host
//! whose handle was dropped still comes to its orderly end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant as RealInstant};

use fuchsine_dispatcher::{DriverId, Instant, Runtime, ShutdownError, Status};
use parking_lot::{Condvar, Mutex};

use super::instance::Instance;
use super::services::{NodeExtras, Removed, Service};
use super::summary::{DriverSummary, StopError, Summary, Waiting};
use super::timers::Timers;
use super::{FarEvent, FarObserver, HostState, LogObserver, NotStarted, Observer};
use crate::apart::Processes;
use crate::life_cycle::{InstanceId, Phase, Refused};
use crate::load;
use crate::manifest::{Plan, PlannedDriver};
use crate::node::{AddError, NodeId, Properties, RuleId};
use crate::supervisor::{Action, Failure, Policy, Supervisor};

/// How long a host waits for its own runtime after all drivers have stopped, at least.
const LAST_GRACE: Duration = Duration::from_millis(500);

/// How often somebody who waits for the stop is told who is waited for.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// The inside of a host.
pub(crate) struct Shared {
    pub(super) me: Weak<Shared>,
    pub(super) runtime: Runtime,
    /// When the host was made; the clock of the supervisor begins here.
    made_at: Instant,
    pub(super) timers: Timers,
    pub(super) observer: Observer,
    log_observer: Option<LogObserver>,
    far: Option<FarObserver>,
    processes: Processes,
    pub(super) state: Mutex<State>,
    /// Notified when an event was fed, and when what followed from it was carried out.
    pub(super) changed: Condvar,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) supervisor: Supervisor,
    /// What the host runs, as it was read last.
    pub(super) plan: Plan,
    /// Its drivers as rules of the supervisor, and those that are gone of which something may be left.
    pub(super) drivers: BTreeMap<RuleId, Arc<PlannedDriver>>,
    pub(super) begun: bool,
    pub(super) queue: VecDeque<Action>,
    /// Whether a thread carries out actions.
    pub(super) performing: bool,
    /// Until they are released, the oldest first.
    pub(super) instances: BTreeMap<InstanceId, Arc<Instance>>,
    pub(super) nodes: NodeExtras,
    pub(super) addresses: Vec<(InstanceId, String)>,
    pub(super) summaries: Vec<DriverSummary>,
    /// Instances whose `stop` waits until a thread for sync calls is free.
    pub(super) waiting_for_thread: VecDeque<InstanceId>,
    /// How many instances are in their `stop` or their destruction.
    pub(super) on_last_dispatchers: usize,
    /// How many were given up, so that something of them still runs.
    pub(super) given_up: usize,
    pub(super) started: bool,
    pub(super) stopping_since: Option<Instant>,
    pub(super) first_failure: Option<(String, Failure)>,
    pub(super) gone: bool,
    pub(super) took: Duration,
}

impl Shared {
    pub(super) fn new(
        plan: Plan,
        runtime: Runtime,
        (observer, log_observer, far): (Observer, Option<LogObserver>, Option<FarObserver>),
        processes: Processes,
    ) -> Arc<Shared> {
        let supervisor = Supervisor::new(plan.drivers.iter().map(PlannedDriver::rule).collect());
        let drivers = plan.drivers.iter().filter_map(|driver| {
            // The names of a plan are unique, so each finds its own.
            Some((supervisor.rule_of(driver.name())?, Arc::new(driver.clone())))
        });
        let state = State {
            drivers: drivers.collect(),
            supervisor,
            plan,
            begun: false,
            queue: VecDeque::new(),
            performing: false,
            instances: BTreeMap::new(),
            nodes: NodeExtras::default(),
            addresses: Vec::new(),
            summaries: Vec::new(),
            waiting_for_thread: VecDeque::new(),
            on_last_dispatchers: 0,
            given_up: 0,
            started: false,
            stopping_since: None,
            first_failure: None,
            gone: false,
            took: Duration::ZERO,
        };
        Arc::new_cyclic(|me| Shared {
            me: me.clone(),
            made_at: runtime.now(),
            timers: Timers::default(),
            runtime,
            observer,
            log_observer,
            far,
            processes,
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Who is told of each line of a driver, if anybody is.
    pub(crate) fn log_observer(&self) -> Option<&LogObserver> {
        self.log_observer.as_ref()
    }

    /// The child processes.
    pub(crate) fn processes(&self) -> &Processes {
        &self.processes
    }

    /// How many threads the plan asks for.
    pub(crate) fn threads(&self) -> Option<usize> {
        self.state.lock().plan.threads
    }

    /// The policy of a driver of the plan.
    pub(crate) fn policy_of(&self, name: &str) -> Option<Policy> {
        let state = self.state.lock();
        state.plan.drivers.iter().find(|driver| driver.name() == name).map(|driver| driver.policy.clone())
    }

    /// The node of this path.
    pub(crate) fn node_at(&self, path: &str) -> Option<NodeId> {
        self.state.lock().supervisor.tree().find(path)
    }

    /// The names of what is offered at this node.
    pub(crate) fn services_at(&self, node: NodeId) -> Vec<String> {
        self.state.lock().nodes.service_names(node)
    }

    /// Whether this host is the one of a child process.
    pub(crate) fn is_far(&self) -> bool {
        self.far.is_some()
    }

    pub(crate) fn tell_far(&self, event: FarEvent<'_>) {
        if let Some(far) = &self.far {
            far(event);
        }
    }

    pub(super) fn arc(&self) -> Arc<Shared> {
        self.me.upgrade().expect("whoever calls a method holds a reference")
    }

    // Events.

    pub(super) fn begin(&self) {
        self.event(|state| {
            if !std::mem::replace(&mut state.begun, true) {
                state.supervisor.begin();
            }
        });
    }

    pub(super) fn begin_stop(&self) {
        self.event(|state| state.supervisor.stop_all());
    }

    /// A callback of this driver, or of what a host ends it with, panicked.
    pub(super) fn panicked(&self, driver: DriverId, message: &str) {
        self.event(|state| {
            let owns = |instance: &Instance| {
                let last = instance.state.lock().last.as_ref().map(|last| last.owner.id());
                instance.driver.id() == driver || last == Some(driver)
            };
            let found = state.instances.values().find(|instance| owns(instance)).map(|instance| instance.id);
            if let Some(id) = found {
                state.supervisor.panicked(id, message.to_owned());
            }
        });
    }

    /// The driver has done what it was there for.
    pub(crate) fn finished(&self, id: InstanceId) {
        self.event(|state| state.supervisor.finished(id));
    }

    /// The driver cannot go on.
    pub(crate) fn ended(&self, id: InstanceId, reason: String) {
        self.event(|state| state.supervisor.ended(id, reason));
    }

    pub(crate) fn add_child(
        &self,
        id: InstanceId,
        name: &str,
        properties: Properties,
        services: Vec<Service>,
    ) -> Result<NodeId, (AddError, Vec<Service>)> {
        self.event(|state| match state.supervisor.add_child(id, name, properties) {
            Ok(node) => {
                state.nodes.offer(node, services);
                Ok(node)
            }
            Err(error) => Err((error, services)),
        })
    }

    /// Begins to remove a node; `then` is called when it is gone, which may be at once.
    pub(crate) fn remove_child(&self, node: NodeId, then: Option<Removed>) {
        let at_once = self.event(|state| {
            state.supervisor.remove(node);
            match then {
                Some(then) if state.supervisor.tree().get(node).is_some() => {
                    state.nodes.on_removed(node, then);
                    None
                }
                other => other,
            }
        });
        if let Some(then) = at_once {
            then();
        }
    }

    /// The service of this name that the driver above offers at the node. A composite reaches those of its parents by
    /// `PARENT/SERVICE`, and those of the first by their bare names too.
    pub(crate) fn service(&self, node: NodeId, name: &str) -> Option<Service> {
        let state = self.state.lock();
        let (node, name) =
            match state.supervisor.parent_of_composite(node, name.split_once('/').map(|(parent, _)| parent)) {
                Some(parent) => (parent?, name.split_once('/').map_or(name, |(_, service)| service)),
                None => (node, name),
            };
        state.nodes.service(node, name)
    }

    /// # Errors
    /// `BadState` once the driver is going.
    pub(crate) fn publish_address(&self, id: InstanceId, address: &str) -> Result<(), Status> {
        let mut state = self.state.lock();
        if !matches!(state.supervisor.phase_of(id), Phase::Starting | Phase::Running) {
            return Err(Status::BadState);
        }
        state.addresses.push((id, address.to_owned()));
        drop(state);
        self.tell_far(FarEvent::Address(address));
        Ok(())
    }

    /// Feeds an event to the state, then carries out what follows unless another thread is at it.
    pub(super) fn event<R>(&self, feed: impl FnOnce(&mut State) -> R) -> R {
        let now = self.runtime.now().duration_since(self.made_at);
        let mut state = self.state.lock();
        state.supervisor.at(now);
        let result = feed(&mut state);
        let actions = state.supervisor.take_actions();
        state.queue.extend(actions);
        self.changed.notify_all();
        if std::mem::replace(&mut state.performing, true) {
            return result;
        }
        while let Some(action) = state.queue.pop_front() {
            drop(state);
            self.perform(action);
            state = self.state.lock();
            self.changed.notify_all();
        }
        state.performing = false;
        let waiting = state.supervisor.newly_waiting();
        drop(state);
        for (driver, message) in waiting {
            tracing::warn!(driver, "{message}");
        }
        result
    }

    /// As `event`, for one that the life cycle may refuse, which would be a mistake of this file.
    pub(super) fn advance(&self, feed: impl FnOnce(&mut Supervisor) -> Result<(), Refused>) {
        if let Err(refused) = self.event(|state| feed(&mut state.supervisor)) {
            tracing::error!(%refused, "the host lost track of a driver");
            debug_assert!(false, "{refused}");
        }
    }

    // Questions.

    pub(super) fn addresses(&self) -> Vec<String> {
        let mut addresses = self.state.lock().addresses.clone();
        addresses.sort_by_key(|(id, _)| *id);
        addresses.into_iter().map(|(_, address)| address).collect()
    }

    pub(super) fn summary(&self) -> Summary {
        let state = self.state.lock();
        Summary { drivers: state.summaries.clone(), took: state.took }
    }

    pub(super) fn wait_started(&self, timeout: Duration) -> Result<Vec<String>, NotStarted> {
        let deadline = RealInstant::now() + timeout;
        let mut state = self.state.lock();
        loop {
            if let Some((driver, failure)) = &state.first_failure {
                return Err(NotStarted::Failed { driver: driver.clone(), failure: failure.clone() });
            }
            if state.started {
                break;
            }
            if state.stopping_since.is_some() {
                return Err(NotStarted::Stopped);
            }
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                let waiting_for = state.supervisor.not_started().map(str::to_owned).collect();
                return Err(NotStarted::TimedOut { waiting_for });
            }
        }
        drop(state);
        Ok(self.addresses())
    }

    pub(super) fn stop(&self, timeout: Duration, owns_runtime: bool) -> Result<Summary, StopError> {
        let deadline = RealInstant::now() + timeout;
        self.begin_stop();
        let mut tell = RealInstant::now() + TELL_EVERY;
        let mut state = self.state.lock();
        while !state.gone {
            self.changed.wait_until(&mut state, deadline.min(tell));
            let now = RealInstant::now();
            if state.gone || now < deadline.min(tell) {
                continue;
            }
            let waiting = self.waiting(&state);
            if now >= deadline {
                drop(state);
                return Err(StopError::new(self.summary(), waiting, self.runtime.dump()));
            }
            tell = now + TELL_EVERY;
            drop(state);
            // Not under the lock: a log that nobody reads may block, which must not hold up the stop.
            for waiting in waiting.iter().filter(|waiting| waiting.phase() != Phase::Running) {
                let what = waiting.phase().waits_for();
                tracing::warn!(driver = waiting.driver(), node = waiting.node(), "still waiting for {what}");
            }
            state = self.state.lock();
        }
        drop(state);
        let given_up = self.state.lock().given_up;
        let left = deadline.saturating_duration_since(RealInstant::now()).max(LAST_GRACE);
        // The threads of a driver that was given up may never come back, and have been told of.
        let left = if given_up > 0 { LAST_GRACE } else { left };
        let shut_down = if owns_runtime { self.runtime.shutdown(left) } else { Ok(()) };
        // What modules have said while the threads ended.
        load::flush(LAST_GRACE);
        match shut_down {
            Err(ShutdownError::TimedOut(_)) if given_up > 0 => Ok(self.summary()),
            Err(ShutdownError::TimedOut(dump)) => Err(StopError::new(self.summary(), Vec::new(), *dump)),
            _ => Ok(self.summary()),
        }
    }

    fn waiting(&self, state: &State) -> Vec<Waiting> {
        let waiting = |(id, phase): (InstanceId, Phase)| {
            let instance = state.instances.get(&id)?;
            Some(Waiting { driver: instance.name.clone(), node: instance.node_path.clone(), phase })
        };
        state.supervisor.instances().filter_map(waiting).collect()
    }
}

impl State {
    pub(super) fn host_state(&self) -> HostState {
        match (self.gone, self.stopping_since, self.started) {
            (true, ..) => HostState::Stopped,
            (false, Some(_), _) => HostState::Stopping,
            (false, None, true) => HostState::Running,
            (false, None, false) => HostState::Starting,
        }
    }
}

/// The same status, as drivers know it.
pub(crate) fn driver_status(status: Status) -> fuchsine_driver::Status {
    match fuchsine_driver::Status::result_of(status.as_raw()) {
        Err(status) => status,
        Ok(()) => fuchsine_driver::Status::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::driver_status;
    use fuchsine_dispatcher::Status;

    /// The two packages do not know each other, so each has a list of its own, which have to be one.
    #[test]
    fn a_status_is_the_same_to_a_driver_by_number_name_and_text() {
        let by_number = |raw| (Status::result_of(raw), fuchsine_driver::Status::result_of(raw));
        for raw in -1_000..=1 {
            let (ours, theirs) = by_number(raw);
            assert_eq!(format!("{ours:?}"), format!("{theirs:?}"), "{raw}");
        }
        let numbers: Vec<_> = Status::ALL.iter().map(|status| status.as_raw()).collect();
        let of_drivers: Vec<_> = fuchsine_driver::Status::ALL.iter().map(|status| status.as_raw()).collect();
        assert_eq!(numbers, of_drivers);
        for &status in Status::ALL {
            let told = driver_status(status);
            assert_eq!((status.as_raw(), status.to_string()), (told.as_raw(), told.to_string()));
        }
        for number in 0..200 {
            let error = std::io::Error::from_raw_os_error(number);
            assert_eq!(driver_status(Status::from(&error)), fuchsine_driver::Status::from(&error), "{error}");
        }
    }
}
