//! The actions of a host: what is done, with no lock held, when the supervisor has decided it.
//!
//! One thread at a time is here (see `shared`), so what is done to one instance is done in the order in which it was
//! decided.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fuchsine_dispatcher::{CreateError, DispatcherBuilder, DispatcherHandle, Driver, Instant, Status};
use parking_lot::Mutex;

use super::instance::{AtEnd, Instance, InstanceState, LastDispatcher};
use super::services::Service;
use super::shared::{Shared, driver_status};
use super::summary::DriverSummary;
use super::{FarEvent, HostEvent};
use crate::apart::MARK;
use crate::life_cycle::{InstanceId, Refused};
use crate::load;
use crate::node::{NodeId, RuleId};
use crate::supervisor::{Action, Consequence, Failure, Supervisor};

impl Shared {
    /// Does one thing.
    pub(super) fn perform(&self, action: Action) {
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
            Action::CutStop(id) => self.with(id, |instance| self.cut_stop(instance)),
            Action::Watch(id, after) => self.watch(id, after),
            Action::RestartLater { node, number, after } => self.restart_later(node, number, after),
            Action::Released(id) => self.released(id, None),
            Action::GivenUp(id, stuck) => self.released(id, Some(stuck)),
            Action::Failed(id, failure, consequence) => {
                self.with(id, |instance| self.failed(instance, failure, consequence));
            }
            Action::Finished(id, consequence) => self.with(id, |instance| {
                tracing::info!(driver = instance.name, node = instance.node_path, "has come to its end; {consequence}");
                self.tell(HostEvent::Finished { driver: instance.name.clone(), consequence });
            }),
            Action::Abort(id) => self.with(id, |instance| self.abort(instance)),
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
                let shared = self.arc();
                self.timers.end(move || shared.all_gone());
            }
        }
    }

    fn all_gone(&self) {
        let now = self.runtime.now();
        let mut state = self.state.lock();
        state.gone = true;
        state.took = state.stopping_since.map_or(Duration::ZERO, |since| now.duration_since(since));
        drop(state);
        self.changed.notify_all();
        self.tell(HostEvent::Stopped);
    }

    fn with(&self, id: InstanceId, act: impl FnOnce(&Arc<Instance>)) {
        let instance = self.state.lock().instances.get(&id).cloned();
        if let Some(instance) = instance {
            act(&instance);
        }
    }

    fn start(&self, id: InstanceId, rule: RuleId, node: NodeId) {
        let Some(planned) = self.state.lock().drivers.get(&rule).cloned() else { return };
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
                properties: found.properties.without(MARK),
                apart: planned.apart.clone(),
                process: AtomicU32::new(0),
                driver,
                default: OnceLock::new(),
                state: Mutex::new(InstanceState::default()),
                at_end: AtEnd::default(),
            });
            state.instances.insert(id, Arc::clone(&instance));
            instance
        };
        load::runs_as(instance.driver.id(), &instance);
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
                    self.tell_far(FarEvent::Started(&instance.name));
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

    fn shut_down(&self, instance: &Arc<Instance>) {
        let (shared, ending) = (self.arc(), Arc::clone(instance));
        shut_down(&instance.driver, move || {
            ending.at_end.run();
            shared.advance(|supervisor| supervisor.dispatchers_down(ending.id));
        });
    }

    fn stop_driver(&self, instance: &Arc<Instance>) {
        let id = instance.id;
        let shared = self.arc();
        let ended = move |result| shared.hook_ended(id, result, Supervisor::stopped);
        let Some(value) = instance.state.lock().value.take() else { return ended(Ok(())) };
        match self.last_dispatcher(instance, DispatcherBuilder::new().allow_sync_calls()) {
            Ok(last) => load::stop(instance, value, &last, ended),
            Err(error) if error.status() == Status::NoResources && self.another_is_stopping() => {
                // Whoever stops now gives a thread back.
                instance.state.lock().value = Some(value);
                self.state.lock().waiting_for_thread.push_back(id);
            }
            Err(error) => match self.last_dispatcher(instance, DispatcherBuilder::new()) {
                Ok(last) => {
                    tracing::warn!(
                        driver = instance.name,
                        node = instance.node_path,
                        "its stop cannot have a thread to block on, so what blocks in it is refused: {error}"
                    );
                    load::stop(instance, value, &last, ended);
                }
                Err(error) => {
                    instance.state.lock().value = Some(value);
                    let message = format!("its stop was not called: {error}");
                    ended(Err(load::HookFailure { status: driver_status(error.status()), message, panicked: false }));
                }
            },
        }
    }

    /// Drops what the `stop` of a driver waits for, which ends it.
    fn cut_stop(&self, instance: &Instance) {
        let last = instance.state.lock().last.as_ref().map(|last| last.owner.clone());
        if let Some(owner) = last {
            shut_down(&owner, || {});
            return;
        }
        // It waits for a thread that it does not get.
        let id = instance.id;
        self.state.lock().waiting_for_thread.retain(|waiting| *waiting != id);
        self.advance(|supervisor| supervisor.stopped(id));
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
        instance: &Arc<Instance>,
        builder: DispatcherBuilder,
    ) -> Result<DispatcherHandle, CreateError> {
        if let Some(last) = &instance.state.lock().last {
            return Ok(last.dispatcher.clone());
        }
        let name = format!("{} (stop)", instance.name);
        let owner = self.runtime.new_driver(&name);
        match owner.new_dispatcher(builder.name(name)) {
            Ok(dispatcher) => {
                let dispatcher = dispatcher.release();
                load::runs_as(owner.id(), instance);
                instance.state.lock().last = Some(LastDispatcher { owner, dispatcher: dispatcher.clone() });
                self.state.lock().on_last_dispatchers += 1;
                Ok(dispatcher)
            }
            Err(error) => {
                shut_down(&owner, || {});
                Err(error)
            }
        }
    }

    /// Asked by one that has no dispatcher to stop on.
    fn another_is_stopping(&self) -> bool {
        self.state.lock().on_last_dispatchers > 0
    }

    fn released(&self, id: InstanceId, stuck_in: Option<String>) {
        let now = self.runtime.now();
        let mut state = self.state.lock();
        let Some(instance) = state.instances.remove(&id) else { return };
        let counters = instance.counters();
        let inner = instance.state.lock();
        load::ran_as(&instance, inner.last.as_ref().map(|last| last.owner.id()));
        state.summaries.push(DriverSummary {
            driver: instance.name.clone(),
            node: instance.node_path.clone(),
            counters,
            stop_took: inner.going_since.map_or(Duration::ZERO, |since| now.duration_since(since)),
            failure: inner.failure.clone(),
            is_restarted: inner.is_restarted,
            given_up: stuck_in.clone(),
        });
        state.given_up += usize::from(stuck_in.is_some());
        if inner.last.is_some() && stuck_in.is_none() {
            state.on_last_dispatchers -= 1;
        }
        drop(inner);
        let next = state.waiting_for_thread.pop_front();
        drop(state);
        if let Some(stuck_in) = stuck_in {
            tracing::error!(
                driver = instance.name,
                node = instance.node_path,
                "was given up: the host goes on without it, and its dispatchers and threads are leaked; {stuck_in}"
            );
            self.tell(HostEvent::GivenUp { driver: instance.name.clone() });
        } else {
            tracing::debug!(driver = instance.name, node = instance.node_path, "is gone");
        }
        if let Some(next) = next {
            self.with(next, |instance| self.stop_driver(instance));
        }
    }

    fn failed(&self, instance: &Instance, failure: Failure, consequence: Consequence) {
        let is_restarted = matches!(consequence, Consequence::Restart { .. });
        match is_restarted {
            true => tracing::warn!(driver = instance.name, node = instance.node_path, "{failure}; {consequence}"),
            false if consequence != Consequence::Down => {
                tracing::error!(driver = instance.name, node = instance.node_path, "{failure}; {consequence}");
            }
            false => tracing::error!(driver = instance.name, node = instance.node_path, "{failure}"),
        }
        let mut inner = instance.state.lock();
        inner.failure = Some(failure.to_string());
        inner.is_restarted = is_restarted;
        drop(inner);
        if !is_restarted && consequence != Consequence::Rematch {
            self.state.lock().first_failure.get_or_insert_with(|| (instance.name.clone(), failure.clone()));
            self.changed.notify_all();
        }
        self.tell(HostEvent::Failed { driver: instance.name.clone(), failure, consequence });
    }

    /// Ends the process, as the policy of a driver that panicked says.
    fn abort(&self, instance: &Instance) -> ! {
        tracing::error!(driver = instance.name, node = instance.node_path, "panicked, and its policy is to abort");
        self.tell(HostEvent::Aborting { driver: instance.name.clone() });
        std::process::abort()
    }

    fn tell(&self, event: HostEvent) {
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (self.observer)(event)));
        if told.is_err() {
            tracing::error!("the observer of the host panicked");
        }
    }
}

/// Shuts a driver of the runtime down, or joins a shutdown that a panic has begun; `then` is called once, at its end.
pub(crate) fn shut_down(driver: &Driver, then: impl FnOnce() + Send + 'static) {
    let Err(begun) = driver.shutdown(then) else { return };
    if let Err(over) = driver.observe_shutdown(begun.into_observer()) {
        (over.into_observer())();
    }
}

impl Instance {
    fn is_going(&self, now: Instant) {
        self.state.lock().going_since.get_or_insert(now);
    }
}
