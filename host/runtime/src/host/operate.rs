//! What a host can be asked for while it runs: to stop, start and match drivers again, to explain, to take a new plan.

use std::sync::Arc;

use super::Host;
use super::shared::{Shared, State};
use crate::manifest::{Change, ChangeKind, Plan, PlannedDriver};
use crate::node::{NodeId, RuleId};
use crate::supervisor::{Explanation, OperateError, Supervisor};

/// What a request is about: a driver of the manifest, with all its instances, or the one driver on a node.
///
/// A text that begins with `/` is the path of a node, any other the name of a driver.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Target {
    /// The driver of this name in the manifest.
    Driver(String),
    /// Whatever is bound to the node of this path.
    Node(String),
}

impl From<&str> for Target {
    fn from(text: &str) -> Target {
        match text.starts_with('/') {
            true => Target::Node(text.to_owned()),
            false => Target::Driver(text.to_owned()),
        }
    }
}

impl Host {
    /// Begins to stop a driver, what is below it first. Its nodes stay, and nobody is bound to them until
    /// [`start_driver`](Self::start_driver) or [`rematch`](Self::rematch) is asked for; a driver that is stopped by its
    /// name is bound to no further node either. The host goes on, also without any driver left.
    ///
    /// # Errors
    /// [`OperateError`]: there is no such driver or node, or the host is stopping.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_driver::{Driver, DriverContext, DriverEntry, StartError};
    /// use fuchsine_host::{Host, Manifest, Registry, Source};
    /// use std::time::Duration;
    ///
    /// struct Idle;
    /// impl Driver for Idle {
    ///     const NAME: &'static str = "idle";
    ///     async fn start(_cx: DriverContext) -> Result<Self, StartError> {
    ///         Ok(Idle)
    ///     }
    /// }
    /// static IDLE: DriverEntry = DriverEntry::of::<Idle>();
    ///
    /// let manifest = Manifest::parse(Source::named("example", "[drivers.idle]"))?;
    /// let host = Host::builder(manifest.plan(&Registry::new([&IDLE])?)?).build()?;
    /// host.start();
    /// host.wait_started(Duration::from_secs(10))?;
    /// host.restart_driver("idle")?;
    /// host.stop_driver("/idle")?;
    /// assert!(host.stop_driver("other").is_err());
    /// host.stop(Duration::from_secs(10))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop_driver(&self, target: impl Into<Target>) -> Result<(), OperateError> {
        self.shared().operate(&target.into(), Supervisor::stop_rule, Supervisor::stop_node)
    }

    /// Begins to start a driver that was stopped, has ended or failed: on the node, or wherever it was or matches. What
    /// runs already goes on.
    ///
    /// # Errors
    /// As [`stop_driver`](Self::stop_driver).
    pub fn start_driver(&self, target: impl Into<Target>) -> Result<(), OperateError> {
        self.shared().operate(&target.into(), Supervisor::start_rule, Supervisor::start_node)
    }

    /// Begins to stop a driver and starts it again on the same nodes, or starts it if it does not run. Earlier failures
    /// are forgotten.
    ///
    /// # Errors
    /// As [`stop_driver`](Self::stop_driver).
    pub fn restart_driver(&self, target: impl Into<Target>) -> Result<(), OperateError> {
        self.shared().operate(&target.into(), Supervisor::restart_rule, Supervisor::restart_node)
    }

    /// Offers a node anew, also one on which a driver failed or was stopped: whichever driver comes first now gets it. One
    /// that is there is stopped before.
    ///
    /// # Errors
    /// [`OperateError`]: there is no such node, or the host is stopping.
    pub fn rematch(&self, node: &str) -> Result<(), OperateError> {
        self.shared().event(|state| {
            let node = state.supervisor.node_at(node)?;
            state.supervisor.rematch(node)
        })
    }

    /// Why a node has the driver that it has: what each driver of the manifest says of it. `None` if there is no such node.
    pub fn explain(&self, node: &str) -> Option<Explanation> {
        let state = self.shared().state.lock();
        let node = state.supervisor.tree().find(node)?;
        state.supervisor.explain(node)
    }

    /// Runs another plan instead: drivers that are new are started, those that are gone are stopped, those that are
    /// different are stopped and started anew, and all others go on untouched. Returns what is different. The settings of
    /// the host itself count from its next start on.
    ///
    /// # Errors
    /// [`OperateError`]: the host is stopping, or has not begun.
    pub fn reload(&self, plan: Plan) -> Result<Vec<Change>, OperateError> {
        self.shared().reload(plan)
    }

    /// Runs one more driver, as if the manifest had it at its end. The next [`reload`](Self::reload) of a plan that does
    /// not have it removes it again.
    ///
    /// # Errors
    /// [`OperateError`]: there is a driver of that name, or the host is stopping or has not begun.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_driver::{Driver, DriverContext, DriverEntry, StartError};
    /// use fuchsine_host::{DriverState, Host, Manifest, Registry, Source};
    /// use std::time::Duration;
    ///
    /// struct Idle;
    /// impl Driver for Idle {
    ///     const NAME: &'static str = "idle";
    ///     async fn start(_cx: DriverContext) -> Result<Self, StartError> {
    ///         Ok(Idle)
    ///     }
    /// }
    /// static IDLE: DriverEntry = DriverEntry::of::<Idle>();
    ///
    /// let registry = Registry::new([&IDLE])?;
    /// let manifest = Manifest::parse(Source::named("example", "[drivers.idle]"))?;
    /// let host = Host::builder(manifest.plan(&registry)?).build()?;
    /// host.start();
    /// host.add_driver(manifest.addition("second", Some("idle"), None, [] as [&str; 0], &registry)?)?;
    /// let running = host.wait_driver("second", &[DriverState::Running], Duration::from_secs(10));
    /// assert_eq!(running, Some(DriverState::Running));
    /// host.remove_driver("second")?;
    /// assert!(host.remove_driver("second").is_err());
    /// host.stop(Duration::from_secs(10))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_driver(&self, driver: PlannedDriver) -> Result<(), OperateError> {
        self.shared().event(|state| {
            state.supervisor.may_operate()?;
            if state.plan.drivers.iter().any(|known| known.name() == driver.name()) {
                return Err(OperateError::Exists(driver.name().to_owned()));
            }
            let mut plan = state.plan.clone();
            plan.drivers.push(driver);
            state.take_over(plan);
            Ok(())
        })
    }

    /// Runs a driver no more, as if the manifest did not have it: it begins to stop, what is below it first. When no
    /// driver is left, the host stops.
    ///
    /// # Errors
    /// As [`stop_driver`](Self::stop_driver).
    pub fn remove_driver(&self, name: &str) -> Result<(), OperateError> {
        self.shared().event(|state| {
            state.supervisor.rule_named(name)?;
            let mut plan = state.plan.clone();
            plan.drivers.retain(|driver| driver.name() != name);
            state.take_over(plan);
            Ok(())
        })
    }
}

impl Shared {
    fn operate(
        &self,
        target: &Target,
        rule: fn(&mut Supervisor, RuleId),
        node: fn(&mut Supervisor, NodeId) -> Result<(), OperateError>,
    ) -> Result<(), OperateError> {
        self.event(|State { supervisor, .. }| match target {
            Target::Driver(name) => {
                let id = supervisor.rule_named(name)?;
                rule(supervisor, id);
                Ok(())
            }
            Target::Node(path) => {
                let id = supervisor.node_at(path)?;
                node(supervisor, id)
            }
        })
    }

    fn reload(&self, plan: Plan) -> Result<Vec<Change>, OperateError> {
        self.event(|state| {
            state.supervisor.may_operate()?;
            Ok(state.take_over(plan))
        })
    }
}

impl State {
    /// Runs another plan from now on.
    fn take_over(&mut self, plan: Plan) -> Vec<Change> {
        let changes = self.plan.changes(&plan);
        for change in &changes {
            self.apply(change, &plan);
        }
        let order: Vec<RuleId> =
            plan.drivers.iter().filter_map(|driver| self.supervisor.rule_named(driver.name()).ok()).collect();
        self.supervisor.arrange(&order);
        self.plan = plan;
        changes
    }

    fn apply(&mut self, change: &Change, plan: &Plan) {
        let old = self.supervisor.rule_named(&change.name).ok();
        let new = plan.drivers.iter().find(|driver| driver.name() == change.name);
        if let (Some(old), ChangeKind::Removed | ChangeKind::Rebound) = (old, change.kind) {
            self.supervisor.retire_rule(old);
        }
        match (change.kind, old, new) {
            (ChangeKind::Added | ChangeKind::Rebound, _, Some(new)) => {
                let id = self.supervisor.add_rule(new.rule());
                self.drivers.insert(id, Arc::new(new.clone()));
            }
            (ChangeKind::Restarted | ChangeKind::Adjusted, Some(id), Some(new)) => {
                self.drivers.insert(id, Arc::new(new.clone()));
                self.supervisor.replace_rule(id, new.rule(), change.kind == ChangeKind::Restarted);
            }
            _ => {}
        }
    }
}
