//! The waits of a host: for the restart of a driver, and for a stop that takes too long.
//!
//! They are timers on a dispatcher of the host's own, so the clock of the runtime counts, which may be a virtual one. It
//! has a role of its own and with it a thread that no driver can hold up; it is made when the first wait begins.

use std::sync::OnceLock;
use std::time::Duration;

use fuchsine_dispatcher::{CreateError, DispatcherBuilder, DispatcherHandle, Driver};

use super::shared::Shared;
use crate::life_cycle::InstanceId;
use crate::node::NodeId;

/// The role, and the name of the owner.
const NAME: &str = "fuchsine-host";

/// See the head of the module.
#[derive(Debug, Default)]
pub(super) struct Timers(OnceLock<(Driver, DispatcherHandle)>);

impl Timers {
    fn dispatcher(&self, shared: &Shared) -> Result<&DispatcherHandle, CreateError> {
        if let Some((_, dispatcher)) = self.0.get() {
            return Ok(dispatcher);
        }
        let owner = shared.runtime.new_driver(NAME);
        owner.allow_scheduler_role(NAME);
        let made = owner.new_dispatcher(DispatcherBuilder::new().name("waits").scheduler_role(NAME));
        // One thread carries out actions at a time, so nobody else has made one meanwhile.
        match made {
            Ok(dispatcher) => Ok(&self.0.get_or_init(|| (owner, dispatcher.release())).1),
            Err(error) => {
                super::actions::shut_down(&owner, || {});
                Err(error)
            }
        }
    }

    /// Ends all waits; `then` is called when nothing of them is left, which may be at once.
    pub(super) fn end(&self, then: impl FnOnce() + Send + 'static) {
        match self.0.get() {
            Some((owner, _)) => super::actions::shut_down(owner, then),
            None => then(),
        }
    }
}

impl Shared {
    /// Has something done after a while, unless the host is gone then.
    fn after(&self, wait: Duration, what: impl FnOnce(&Shared) + Send + 'static) {
        let host = self.me.clone();
        let due = move |ran: Result<(), fuchsine_dispatcher::Canceled>| {
            if let (Ok(()), Some(host)) = (ran, host.upgrade()) {
                what(&host);
            }
        };
        let begun = self.timers.dispatcher(self).map_err(|error| error.to_string());
        let begun = begun.and_then(|timers| timers.post_after(wait, due).map_err(|error| error.to_string()));
        if let Err(error) = begun {
            tracing::error!(error, "the host cannot wait: no driver is restarted, and no stop is watched");
        }
    }

    pub(super) fn restart_later(&self, node: NodeId, number: u64, after: Duration) {
        self.after(after, move |host| host.event(|state| state.supervisor.restart_due(node, number)));
    }

    pub(super) fn watch(&self, id: InstanceId, after: Duration) {
        self.after(after, move |host| {
            // Looked at before the lock is taken: a dump takes those of dispatchers.
            let stuck = host.stuck_in(id);
            host.event(|state| state.supervisor.overdue(id, &stuck));
        });
    }

    /// What a driver that does not stop is stuck in, in words.
    fn stuck_in(&self, id: InstanceId) -> String {
        let found = {
            let state = self.state.lock();
            let phase = state.supervisor.phase_of(id);
            state.instances.get(&id).map(|instance| (instance.clone(), phase))
        };
        let Some((instance, phase)) = found else { return String::new() };
        let last = instance.state.lock().last.as_ref().map(|last| last.owner.clone());
        let drivers = last.iter().chain([&instance.driver]).map(Driver::dump);
        let running: Vec<String> = drivers
            .flat_map(|driver| driver.dispatchers)
            .flat_map(|dispatcher| {
                let name = dispatcher.name;
                dispatcher.running.into_iter().map(move |running| {
                    let thread = &running.thread;
                    let thread = match (&thread.name, thread.os_id) {
                        (Some(name), Some(id)) => format!("`{name}` ({id})"),
                        (Some(name), None) => format!("`{name}`"),
                        (None, id) => format!("{}", id.unwrap_or_default()),
                    };
                    let from = running.posted_from.map(|at| format!(" from {at}")).unwrap_or_default();
                    let waits = running.waits_for.map(|what| format!(", waits for {what}")).unwrap_or_default();
                    format!(
                        "thread {thread} runs a {} of dispatcher `{name}`{from} for {:?}{waits}",
                        running.what, running.running_for
                    )
                })
            })
            .collect();
        let waits_for = phase.waits_for();
        match running.as_slice() {
            [] => format!("the host waits for {waits_for}, and nothing of it runs"),
            running => format!("the host waits for {waits_for}; {}", running.join("; ")),
        }
    }
}
