//! Carries out what the supervisor decides.
//!
//! Events come from any thread: hooks that ended, observers, drivers that add nodes, the user. Each is fed to the
//! supervisor under the lock; the actions that come out are queued, and one thread at a time carries them out, in
//! order, with no lock held. So a driver that is called by an action may cause further events without any recursion,
//! and what is done to one instance is done in the order in which it was decided.
//!
//! Whoever has something under way (a hook that runs, an observer that will come) holds an `Arc` of this, so a host
//! whose handle was dropped still comes to its orderly end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant as RealInstant};

use fuchsine_dispatcher::{DispatcherBuilder, DriverId, Instant, Runtime, ShutdownError, Status};
use parking_lot::{Condvar, Mutex};

use super::instance::{Instance, InstanceState, LastDispatcher};
use super::services::{NodeExtras, Removed, Service};
use super::summary::{DriverSummary, StopError, Summary, Waiting};
use super::{HostEvent, HostState, NotStarted, Observer};
use crate::life_cycle::{InstanceId, Phase, Refused};
use crate::load;
use crate::manifest::Plan;
use crate::node::{AddError, NodeId, Properties};
use crate::supervisor::{Action, Failure, Rule, Supervisor};

/// How long a host waits for its own runtime after all drivers have stopped, at least.
const LAST_GRACE: Duration = Duration::from_millis(500);

/// The inside of a host.
pub(crate) struct Shared {
    me: Weak<Shared>,
    plan: Plan,
    runtime: Runtime,
    observer: Observer,
    state: Mutex<State>,
    /// Notified when `started`, `failed` or `gone` changes.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    supervisor: Supervisor,
    begun: bool,
    queue: VecDeque<Action>,
    /// Whether a thread carries out actions.
    performing: bool,
    /// Until they are released, the oldest first.
    instances: BTreeMap<InstanceId, Arc<Instance>>,
    nodes: NodeExtras,
    addresses: Vec<(InstanceId, String)>,
    summaries: Vec<DriverSummary>,
    /// Instances whose `stop` waits until a thread for sync calls is free.
    waiting_for_thread: VecDeque<InstanceId>,
    /// Drivers whose wait for a node was logged.
    told_waiting: BTreeSet<String>,
    started: bool,
    stopping_since: Option<Instant>,
    first_failure: Option<(String, Failure)>,
    gone: bool,
    took: Duration,
}

impl Shared {
    pub(super) fn new(plan: Plan, runtime: Runtime, observer: Observer) -> Arc<Shared> {
        let rule = |driver: &crate::PlannedDriver| Rule { name: driver.name.clone(), bind: driver.bind.clone() };
        let state = State {
            supervisor: Supervisor::new(plan.drivers.iter().map(rule).collect()),
            begun: false,
            queue: VecDeque::new(),
            performing: false,
            instances: BTreeMap::new(),
            nodes: NodeExtras::default(),
            addresses: Vec::new(),
            summaries: Vec::new(),
            waiting_for_thread: VecDeque::new(),
            told_waiting: BTreeSet::new(),
            started: false,
            stopping_since: None,
            first_failure: None,
            gone: false,
            took: Duration::ZERO,
        };
        Arc::new_cyclic(|me| Shared {
            me: me.clone(),
            plan,
            runtime,
            observer,
            state: Mutex::new(state),
            changed: Condvar::new(),
        })
    }

    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn arc(&self) -> Arc<Shared> {
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

    /// The service of this name that the driver above offers at the node.
    pub(crate) fn service(&self, node: NodeId, name: &str) -> Option<Service> {
        self.state.lock().nodes.service(node, name)
    }

    /// # Errors
    /// `BadState` once the driver is going.
    pub(crate) fn publish_address(&self, id: InstanceId, address: &str) -> Result<(), Status> {
        let mut state = self.state.lock();
        if !matches!(state.supervisor.phase_of(id), Phase::Starting | Phase::Running) {
            return Err(Status::BadState);
        }
        state.addresses.push((id, address.to_owned()));
        Ok(())
    }

    /// Feeds an event to the state, then carries out what follows unless another thread is at it.
    fn event<R>(&self, feed: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        let result = feed(&mut state);
        let actions = state.supervisor.take_actions();
        state.queue.extend(actions);
        if std::mem::replace(&mut state.performing, true) {
            return result;
        }
        while let Some(action) = state.queue.pop_front() {
            drop(state);
            self.perform(action);
            state = self.state.lock();
        }
        state.performing = false;
        self.tell_who_waits(&mut state);
        result
    }

    /// As `event`, for one that the life cycle may refuse, which would be a mistake of this file.
    fn advance(&self, feed: impl FnOnce(&mut Supervisor) -> Result<(), Refused>) {
        if let Err(refused) = self.event(|state| feed(&mut state.supervisor)) {
            tracing::error!(%refused, "the host lost track of a driver");
            debug_assert!(false, "{refused}");
        }
    }

    fn tell_who_waits(&self, state: &mut State) {
        let State { supervisor, told_waiting, .. } = state;
        for rule in supervisor.waiting_for_a_node() {
            if told_waiting.insert(rule.name.clone()) {
                tracing::warn!(driver = rule.name, "waits for a node with {}; there is none yet", rule.bind);
            }
        }
    }

    // Actions.

    fn perform(&self, action: Action) {
        match action {
            Action::Start { instance, rule, node } => self.start(instance, rule, node),
            Action::PrepareStop(id) => self.with(id, |instance| {
                instance.is_going(self.runtime.now());
                tracing::debug!(driver = instance.name, node = instance.node_path, "prepares to stop");
                self.prepare_stop(instance);
            }),
            Action::ShutDown(id) => self.with(id, |instance| {
                instance.is_going(self.runtime.now());
                self.shut_down(instance);
            }),
            Action::Stop(id) => self.with(id, |instance| self.stop_driver(instance)),
            Action::Destroy(id) => self.with(id, |instance| self.destroy(instance)),
            Action::Released(id) => self.released(id),
            Action::Failed(id, failure) => self.with(id, |instance| self.failed(instance, failure)),
            Action::NodeRemoved(node) => {
                let (services, removed) = self.state.lock().nodes.take(node);
                services.into_iter().for_each(Service::give_up);
                removed.into_iter().for_each(|then| then());
            }
            Action::AllStarted => {
                self.state.lock().started = true;
                self.changed.notify_all();
                self.tell(HostEvent::Started { addresses: self.addresses() });
            }
            Action::Stopping => {
                self.state.lock().stopping_since = Some(self.runtime.now());
                self.changed.notify_all();
                self.tell(HostEvent::Stopping);
            }
            Action::AllGone => {
                let now = self.runtime.now();
                let mut state = self.state.lock();
                state.gone = true;
                state.took = state.stopping_since.map_or(Duration::ZERO, |since| now.duration_since(since));
                drop(state);
                self.changed.notify_all();
                self.tell(HostEvent::Stopped);
            }
        }
    }

    fn with(&self, id: InstanceId, act: impl FnOnce(&Arc<Instance>)) {
        let instance = self.state.lock().instances.get(&id).cloned();
        if let Some(instance) = instance {
            act(&instance);
        }
    }

    fn start(&self, id: InstanceId, rule: usize, node: NodeId) {
        let planned = &self.plan.drivers[rule];
        let driver = self.runtime.new_driver(&planned.name);
        let instance = {
            let mut state = self.state.lock();
            let tree = state.supervisor.tree();
            let Some(found) = tree.get(node) else { return };
            let instance = Arc::new(Instance {
                id,
                host: self.me.clone(),
                name: planned.name.clone(),
                entry: planned.entry,
                config: planned.config.clone(),
                node,
                node_name: found.name.clone(),
                node_path: tree.path(node).to_string(),
                properties: found.properties.clone(),
                driver,
                default: OnceLock::new(),
                state: Mutex::new(InstanceState::default()),
            });
            state.instances.insert(id, Arc::clone(&instance));
            instance
        };
        tracing::debug!(driver = instance.name, node = instance.node_path, "starts");
        match instance.driver.new_dispatcher(DispatcherBuilder::new().name(&planned.name)) {
            Ok(dispatcher) => {
                let default = instance.default.get_or_init(|| dispatcher.release());
                let shared = self.arc();
                load::start(&instance, default, move |result| shared.start_ended(id, result));
            }
            Err(error) => self.advance(|supervisor| supervisor.start_failed(id, error.to_string())),
        }
    }

    fn start_ended(&self, id: InstanceId, result: Result<load::Value, load::HookFailure>) {
        match result {
            Ok(value) => {
                self.with(id, |instance| {
                    tracing::debug!(driver = instance.name, node = instance.node_path, "started");
                    instance.state.lock().value = Some(value);
                });
                self.advance(|supervisor| supervisor.started(id));
            }
            Err(failure) => self.advance(|supervisor| {
                if failure.panicked {
                    supervisor.panicked(id, failure.message);
                    return Ok(());
                }
                supervisor.start_failed(id, failure.message)
            }),
        }
    }

    fn prepare_stop(&self, instance: &Arc<Instance>) {
        let id = instance.id;
        let shared = self.arc();
        let ended = move |result| shared.hook_ended(id, result, Supervisor::prepared);
        let value = instance.state.lock().value.take();
        match (value, instance.default.get()) {
            (Some(value), Some(dispatcher)) => {
                load::prepare_stop(instance, &value, dispatcher, ended);
                instance.state.lock().value = Some(value);
            }
            _ => ended(Ok(())),
        }
    }

    /// `prepare_stop` or `stop` ended. A failure does not keep the driver from going; it is counted.
    fn hook_ended(
        &self,
        id: InstanceId,
        result: Result<(), load::HookFailure>,
        next: fn(&mut Supervisor, InstanceId) -> Result<(), Refused>,
    ) {
        self.advance(|supervisor| {
            match result {
                Ok(()) => {}
                Err(failure) if failure.panicked => supervisor.panicked(id, failure.message),
                Err(failure) => supervisor.stop_failed(id, failure.message),
            }
            next(supervisor, id)
        });
    }

    fn shut_down(&self, instance: &Instance) {
        let (shared, id) = (self.arc(), instance.id);
        shut_down(&instance.driver, move || shared.advance(|supervisor| supervisor.dispatchers_down(id)));
    }

    fn stop_driver(&self, instance: &Arc<Instance>) {
        let id = instance.id;
        let shared = self.arc();
        let ended = move |result| shared.hook_ended(id, result, Supervisor::stopped);
        let Some(value) = instance.state.lock().value.take() else { return ended(Ok(())) };
        match self.last_dispatcher(instance, DispatcherBuilder::new().allow_sync_calls()) {
            Ok(last) => load::stop(instance, value, &last, ended),
            Err(error) if error.status() == Status::NoResources && self.another_is_stopping(id) => {
                // Whoever stops now gives a thread back.
                instance.state.lock().value = Some(value);
                self.state.lock().waiting_for_thread.push_back(id);
            }
            Err(error) => {
                instance.state.lock().value = Some(value);
                let message = format!("its stop was not called: {error}");
                ended(Err(load::HookFailure { status: driver_status(error.status()), message, panicked: false }));
            }
        }
    }

    fn destroy(&self, instance: &Arc<Instance>) {
        let value = instance.state.lock().value.take();
        if let Some(value) = value {
            // Only of a driver that is broken; its destructor is driver code and runs on a dispatcher as all of it does.
            match self.last_dispatcher(instance, DispatcherBuilder::new()) {
                Ok(last) => load::destroy(instance, value, &last),
                Err(error) => tracing::error!(driver = instance.name, %error, "the driver's value is leaked"),
            }
        }
        let (shared, id) = (self.arc(), instance.id);
        let destroyed = move || shared.advance(|supervisor| supervisor.destroyed(id));
        let last = instance.state.lock().last.as_ref().map(|last| last.owner.clone());
        match last {
            Some(owner) => shut_down(&owner, destroyed),
            None => destroyed(),
        }
    }

    fn last_dispatcher(
        &self,
        instance: &Instance,
        builder: DispatcherBuilder,
    ) -> Result<fuchsine_dispatcher::DispatcherHandle, fuchsine_dispatcher::CreateError> {
        if let Some(last) = &instance.state.lock().last {
            return Ok(last.dispatcher.clone());
        }
        let name = format!("{} (stop)", instance.name);
        let owner = self.runtime.new_driver(&name);
        match owner.new_dispatcher(builder.name(name)) {
            Ok(dispatcher) => {
                let dispatcher = dispatcher.release();
                instance.state.lock().last = Some(LastDispatcher { owner, dispatcher: dispatcher.clone() });
                Ok(dispatcher)
            }
            Err(error) => {
                shut_down(&owner, || {});
                Err(error)
            }
        }
    }

    fn another_is_stopping(&self, id: InstanceId) -> bool {
        let state = self.state.lock();
        state.instances.values().any(|other| other.id != id && other.state.lock().last.is_some())
    }

    fn released(&self, id: InstanceId) {
        let now = self.runtime.now();
        let mut state = self.state.lock();
        let Some(instance) = state.instances.remove(&id) else { return };
        let counters = instance.counters();
        let inner = instance.state.lock();
        state.summaries.push(DriverSummary {
            driver: instance.name.clone(),
            node: instance.node_path.clone(),
            counters,
            stop_took: inner.going_since.map_or(Duration::ZERO, |since| now.duration_since(since)),
            failure: inner.failure.clone(),
        });
        drop(inner);
        let next = state.waiting_for_thread.pop_front();
        drop(state);
        tracing::debug!(driver = instance.name, node = instance.node_path, "is gone");
        if let Some(next) = next {
            self.with(next, |instance| self.stop_driver(instance));
        }
    }

    fn failed(&self, instance: &Instance, failure: Failure) {
        tracing::error!(driver = instance.name, node = instance.node_path, "{failure}");
        instance.state.lock().failure = Some(failure.to_string());
        let mut state = self.state.lock();
        state.first_failure.get_or_insert_with(|| (instance.name.clone(), failure.clone()));
        drop(state);
        self.changed.notify_all();
        self.tell(HostEvent::Failed { driver: instance.name.clone(), failure });
    }

    fn tell(&self, event: HostEvent) {
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (self.observer)(event)));
        if told.is_err() {
            tracing::error!("the observer of the host panicked");
        }
    }

    // Questions.

    pub(super) fn addresses(&self) -> Vec<String> {
        let mut addresses = self.state.lock().addresses.clone();
        addresses.sort_by_key(|(id, _)| *id);
        addresses.into_iter().map(|(_, address)| address).collect()
    }

    pub(super) fn host_state(&self) -> HostState {
        let state = self.state.lock();
        match (state.gone, state.stopping_since, state.started) {
            (true, ..) => HostState::Stopped,
            (false, Some(_), _) => HostState::Stopping,
            (false, None, true) => HostState::Running,
            (false, None, false) => HostState::Starting,
        }
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
        let mut state = self.state.lock();
        while !state.gone {
            if self.changed.wait_until(&mut state, deadline).timed_out() && !state.gone {
                let waiting = self.waiting(&state);
                drop(state);
                return Err(StopError::new(self.summary(), waiting, self.runtime.dump()));
            }
        }
        drop(state);
        let left = deadline.saturating_duration_since(RealInstant::now()).max(LAST_GRACE);
        let shut_down = if owns_runtime { self.runtime.shutdown(left) } else { Ok(()) };
        match shut_down {
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

/// Shuts a driver of the runtime down, or joins a shutdown that a panic has begun; `then` is called once, at its end.
fn shut_down(driver: &fuchsine_dispatcher::Driver, then: impl FnOnce() + Send + 'static) {
    let Err(begun) = driver.shutdown(then) else { return };
    if let Err(over) = driver.observe_shutdown(begun.into_observer()) {
        (over.into_observer())();
    }
}

/// The same status, as drivers know it.
pub(crate) fn driver_status(status: Status) -> fuchsine_driver::Status {
    match fuchsine_driver::Status::result_of(status.as_raw()) {
        Err(status) => status,
        Ok(()) => fuchsine_driver::Status::Internal,
    }
}

impl Instance {
    fn is_going(&self, now: Instant) {
        self.state.lock().going_since.get_or_insert(now);
    }
}
