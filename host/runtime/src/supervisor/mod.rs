//! Who is bound where, who starts and stops when: the node tree and all life cycles as one state machine.
//!
//! An event (a hook ended, a child was added, a driver panicked, the host is to stop) goes in through a method; what is
//! to be done comes out of [`Supervisor::take_actions`], in order. The supervisor calls nobody, so every interleaving
//! can be tested by feeding it events (`model.rs` does).
//!
//! 1. [`begin`](Supervisor::begin) gives every driver without a bind rule a node of its own below the root.
//! 2. A node is *offered* when the driver that added it has started: the first rule of the manifest that matches binds
//!    a new instance to it. One node carries one driver; one rule may be bound to many nodes, but not to more than
//!    [`MAX_STACKED`] on top of each other: a driver whose rule matches what it adds itself would never end.
//! 3. A removal marks the whole subtree, then drivers stop from the leaves up (`node::removal`), siblings side by side,
//!    the newest first.
//! 4. A driver that fails is taken down children first, and its node is quarantined: kept, but offered to nobody.
//! 5. When no driver is left, the host stops.
//! 6. Until every driver of the manifest has started once, any failure stops the whole host; after that, it stops only
//!    the failed driver and what is below it.

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::life_cycle::{InstanceId, LifeCycle, Next, Phase, Refused};
use crate::node::{AddError, BindRule, Binding, DriverPresence, Duty, NodeId, NodeTree, Properties};

/// How many nodes between the root and a node may carry drivers of one rule. Nobody stacks a driver on itself so often
/// on purpose.
const MAX_STACKED: usize = 16;

/// One driver of the manifest, as far as matching is concerned. Known by its index.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) bind: BindRule,
}

/// What the host does next. Each of the first five ends with an event about the same instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// Create its default dispatcher and call `start`; then `started` or `start_failed`.
    Start { instance: InstanceId, rule: usize, node: NodeId },
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
    /// A driver failed, for this reason.
    Failed(InstanceId, Failure),
    /// A node is out of the tree.
    NodeRemoved(NodeId),
    /// Every driver of the manifest has started. Comes at most once, and not once the host stops.
    AllStarted,
    /// The host is stopping: drivers that are left are being stopped.
    Stopping,
    /// Nothing is left. The last action of a host.
    AllGone,
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

#[derive(Debug)]
struct Instance {
    life: LifeCycle,
    node: NodeId,
    rule: usize,
    failed: bool,
}

/// The machine. See the head of the module.
#[derive(Debug)]
pub(crate) struct Supervisor {
    tree: NodeTree,
    rules: Vec<Rule>,
    /// Whether an instance of the rule of the same index has ever started.
    started: Vec<bool>,
    instances: BTreeMap<InstanceId, Instance>,
    next_instance: u64,
    all_started: bool,
    stopping: bool,
    actions: Vec<Action>,
}

impl Supervisor {
    pub(crate) fn new(rules: Vec<Rule>) -> Supervisor {
        Supervisor {
            tree: NodeTree::new(),
            started: vec![false; rules.len()],
            rules,
            instances: BTreeMap::new(),
            next_instance: 0,
            all_started: false,
            stopping: false,
            actions: Vec::new(),
        }
    }

    /// What is to be done, in order. Each action is returned once.
    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    pub(crate) fn tree(&self) -> &NodeTree {
        &self.tree
    }

    pub(crate) fn node_of(&self, instance: InstanceId) -> Option<NodeId> {
        self.instances.get(&instance).map(|found| found.node)
    }

    pub(crate) fn phase_of(&self, instance: InstanceId) -> Phase {
        self.instances.get(&instance).map_or(Phase::Gone, |found| found.life.phase())
    }

    /// All instances that are left, the oldest first.
    pub(crate) fn instances(&self) -> impl Iterator<Item = (InstanceId, Phase)> {
        self.instances.iter().map(|(&id, instance)| (id, instance.life.phase()))
    }

    /// The rules that wait for a node, while nothing is on its way that could still bring one.
    pub(crate) fn waiting_for_a_node(&self) -> Vec<&Rule> {
        let busy = self.stopping || self.instances.values().any(|instance| instance.life.phase() == Phase::Starting);
        let bound = |rule: usize| self.instances.values().any(|instance| instance.rule == rule);
        let idle = |&(index, _): &(usize, &Rule)| !busy && !self.started[index] && !bound(index);
        self.rules.iter().enumerate().filter(idle).map(|(_, rule)| rule).collect()
    }

    /// The drivers that are bound to nodes which this rule matches, each once.
    pub(crate) fn bound_where_it_matches(&self, rule: &Rule) -> Vec<&str> {
        let nodes = self.tree.subtree(self.tree.root()).into_iter().filter_map(|id| self.tree.get(id));
        let mut names = Vec::new();
        for node in nodes.filter(|node| rule.bind.matches(&node.properties)) {
            let Binding::Bound(instance) = node.binding else { continue };
            let name = self.instances.get(&instance).map(|instance| self.rules[instance.rule].name.as_str());
            names.extend(name.filter(|name| !names.contains(name)));
        }
        names
    }

    /// The drivers of the manifest of which no instance has ever started.
    pub(crate) fn not_started(&self) -> impl Iterator<Item = &str> {
        let missing = self.rules.iter().zip(&self.started).filter(|(_, started)| !**started);
        missing.map(|(rule, _)| rule.name.as_str())
    }

    /// Starts the drivers that have a node of their own.
    pub(crate) fn begin(&mut self) {
        for rule in 0..self.rules.len() {
            if self.rules[rule].bind.is_empty() {
                let name = self.rules[rule].name.clone();
                let node = self.tree.add(self.tree.root(), &name, Properties::default());
                self.bind(node.expect("driver names are unique, and valid names of nodes"), rule);
            }
        }
        self.note_all_started();
    }

    // Events about one instance.

    pub(crate) fn started(&mut self, id: InstanceId) -> Result<(), Refused> {
        let Some(instance) = self.instances.get_mut(&id) else { return Ok(()) };
        let (next, rule) = (instance.life.started()?, instance.rule);
        if matches!(next, Next::OfferChildren) {
            self.started[rule] = true;
        }
        self.follow(id, next);
        self.check_node_of(id);
        self.note_all_started();
        Ok(())
    }

    pub(crate) fn start_failed(&mut self, id: InstanceId, reason: String) -> Result<(), Refused> {
        let Some(instance) = self.instances.get_mut(&id) else { return Ok(()) };
        let next = instance.life.start_failed()?;
        self.record(id, Failure::Start(reason));
        self.follow(id, next);
        self.check_node_of(id);
        Ok(())
    }

    pub(crate) fn prepared(&mut self, id: InstanceId) -> Result<(), Refused> {
        self.advance(id, LifeCycle::prepared)
    }

    pub(crate) fn dispatchers_down(&mut self, id: InstanceId) -> Result<(), Refused> {
        self.advance(id, LifeCycle::dispatchers_down)
    }

    pub(crate) fn stopped(&mut self, id: InstanceId) -> Result<(), Refused> {
        self.advance(id, LifeCycle::stopped)
    }

    pub(crate) fn destroyed(&mut self, id: InstanceId) -> Result<(), Refused> {
        self.advance(id, LifeCycle::destroyed)
    }

    /// A callback or hook of the driver panicked.
    pub(crate) fn panicked(&mut self, id: InstanceId, message: String) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let next = instance.life.panicked();
        self.record(id, Failure::Panic(message));
        self.follow(id, next);
        self.check_node_of(id);
    }

    /// The driver says that it cannot go on.
    pub(crate) fn ended(&mut self, id: InstanceId, reason: String) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let phase = instance.life.phase();
        if !matches!(phase, Phase::Starting | Phase::Running) {
            return;
        }
        let next = instance.life.end();
        self.record(id, Failure::Ended(reason));
        self.follow(id, next);
    }

    /// One of its stop hooks did not succeed. It goes all the same.
    pub(crate) fn stop_failed(&mut self, id: InstanceId, reason: String) {
        self.record(id, Failure::Stop(reason));
    }

    // Events about nodes, and about the host.

    /// Adds a child to the node that the instance is bound to, and offers it if its parent has started. The property
    /// `parent` is the name of the instance in the manifest, unless another value is given for it.
    pub(crate) fn add_child(
        &mut self,
        id: InstanceId,
        name: &str,
        mut properties: Properties,
    ) -> Result<NodeId, AddError> {
        let instance = self.instances.get(&id).ok_or(AddError::ParentLeaving)?;
        if !matches!(instance.life.phase(), Phase::Starting | Phase::Running) {
            return Err(AddError::ParentLeaving);
        }
        properties.add_default("parent", &self.rules[instance.rule].name);
        let node = self.tree.add(instance.node, name, properties)?;
        self.offer(node);
        Ok(node)
    }

    /// Begins to remove a node and all below it. Nothing happens for one that is gone or leaving already.
    pub(crate) fn remove(&mut self, node: NodeId) {
        let subtree = self.tree.subtree(node);
        let mut first = false;
        for &id in &subtree {
            first |= self.tree.get_mut(id).is_some_and(|node| node.removal.mark());
        }
        if first {
            subtree.into_iter().for_each(|id| self.check(id));
        }
    }

    /// Begins to stop everything.
    pub(crate) fn stop_all(&mut self) {
        if !self.stopping {
            self.stopping = true;
            self.actions.push(Action::Stopping);
            self.remove(self.tree.root());
        }
    }

    // What follows from events.

    fn advance(&mut self, id: InstanceId, event: fn(&mut LifeCycle) -> Result<Next, Refused>) -> Result<(), Refused> {
        let Some(instance) = self.instances.get_mut(&id) else { return Ok(()) };
        let next = event(&mut instance.life)?;
        self.follow(id, next);
        Ok(())
    }

    fn follow(&mut self, id: InstanceId, next: Next) {
        match next {
            Next::Nothing => {}
            Next::OfferChildren => self.children_of(id).into_iter().for_each(|child| self.offer(child)),
            Next::RemoveChildren => {
                self.children_of(id).into_iter().rev().for_each(|child| self.remove(child));
                self.tell_children_gone(id);
            }
            Next::PrepareStop => self.actions.push(Action::PrepareStop(id)),
            Next::ShutDown => self.actions.push(Action::ShutDown(id)),
            Next::Stop => self.actions.push(Action::Stop(id)),
            Next::Destroy => self.actions.push(Action::Destroy(id)),
            Next::Release => self.release(id),
        }
    }

    fn release(&mut self, id: InstanceId) {
        let Some(instance) = self.instances.remove(&id) else { return };
        if let Some(node) = self.tree.get_mut(instance.node) {
            node.binding = if instance.failed { Binding::Quarantined } else { Binding::Unbound };
        }
        self.actions.push(Action::Released(id));
        self.check(instance.node);
        if self.instances.is_empty() {
            // Only a driver brings nodes, so nothing could ever start again.
            self.stop_all();
        }
    }

    fn record(&mut self, id: InstanceId, failure: Failure) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        // The first failure is the reason; what follows from it (a canceled start, say) is not worth a line.
        if std::mem::replace(&mut instance.failed, true) {
            return;
        }
        self.actions.push(Action::Failed(id, failure));
        if !self.all_started {
            self.stop_all();
        }
    }

    fn bind(&mut self, node: NodeId, rule: usize) {
        let id = InstanceId(self.next_instance);
        self.next_instance += 1;
        self.instances.insert(id, Instance { life: LifeCycle::starting(), node, rule, failed: false });
        if let Some(found) = self.tree.get_mut(node) {
            found.binding = Binding::Bound(id);
        }
        self.actions.push(Action::Start { instance: id, rule, node });
    }

    /// Binds the first driver that matches, if the node is free and the driver above it has started.
    fn offer(&mut self, id: NodeId) {
        let Some(node) = self.tree.get(id) else { return };
        let parent_runs = match node.parent.and_then(|parent| self.tree.get(parent)).map(|parent| parent.binding) {
            Some(Binding::Bound(parent)) => self.phase_of(parent) == Phase::Running,
            Some(Binding::Unbound | Binding::Quarantined) | None => false,
        };
        if !parent_runs || node.binding != Binding::Unbound || node.removal.is_leaving() {
            return;
        }
        let Some(rule) = self.rules.iter().position(|rule| rule.bind.matches(&node.properties)) else { return };
        let above = self.drivers_above(id);
        if above.iter().filter(|instance| instance.rule == rule).count() < MAX_STACKED {
            self.bind(id, rule);
            return;
        }
        let Some(Binding::Bound(adder)) = node.parent.and_then(|parent| self.tree.get(parent)).map(|node| node.binding)
        else {
            return;
        };
        let reason = format!(
            "`{name}` would be bound once more below itself, where it runs {MAX_STACKED} times already; make its `bind` \
             match the nodes of other drivers only",
            name = self.rules[rule].name
        );
        self.ended(adder, reason);
    }

    /// The instances bound to the nodes above this one.
    fn drivers_above(&self, id: NodeId) -> Vec<&Instance> {
        let parent_of = |id: NodeId| self.tree.get(id).and_then(|node| node.parent);
        let above = std::iter::successors(parent_of(id), |&id| parent_of(id));
        above
            .filter_map(|id| match self.tree.get(id)?.binding {
                Binding::Bound(instance) => self.instances.get(&instance),
                Binding::Unbound | Binding::Quarantined => None,
            })
            .collect()
    }

    fn check_node_of(&mut self, id: InstanceId) {
        if let Some(node) = self.node_of(id) {
            self.check(node);
        }
    }

    /// Advances the removal of a node, and of those above it as they become free.
    fn check(&mut self, id: NodeId) {
        let Some(node) = self.tree.get(id) else { return };
        let bound = match node.binding {
            Binding::Bound(instance) => Some(instance),
            Binding::Unbound | Binding::Quarantined => None,
        };
        let presence = match bound.map(|instance| self.phase_of(instance)) {
            None => DriverPresence::Absent,
            Some(Phase::Starting) => DriverPresence::Starting,
            Some(_) => DriverPresence::Present,
        };
        let children = node.children.len();
        let node = self.tree.get_mut(id).expect("looked up above");
        match node.removal.check(children, presence) {
            Duty::Wait => {}
            Duty::StopDriver => {
                if let Some(instance) = bound {
                    let stop = self.advance(instance, LifeCycle::stop);
                    debug_assert!(stop.is_ok(), "the removal of a node waits for the start of its driver");
                }
            }
            Duty::Destroy => self.take_out(id),
        }
    }

    fn take_out(&mut self, id: NodeId) {
        let parent = self.tree.take_out(id);
        self.actions.push(Action::NodeRemoved(id));
        let Some(parent) = parent else {
            self.actions.push(Action::AllGone);
            return;
        };
        if let Some(Binding::Bound(above)) = self.tree.get(parent).map(|node| node.binding) {
            self.tell_children_gone(above);
        }
        self.check(parent);
    }

    fn tell_children_gone(&mut self, id: InstanceId) {
        if !self.children_of(id).is_empty() {
            return;
        }
        if let Some(instance) = self.instances.get_mut(&id) {
            let next = instance.life.children_gone();
            self.follow(id, next);
        }
    }

    fn children_of(&self, id: InstanceId) -> Vec<NodeId> {
        let node = self.node_of(id).and_then(|node| self.tree.get(node));
        node.map(|node| node.children.clone()).unwrap_or_default()
    }

    fn note_all_started(&mut self) {
        let starting = |instance: &Instance| instance.life.phase() == Phase::Starting;
        if !self.all_started
            && !self.stopping
            && self.started.iter().all(|&started| started)
            && !self.instances.values().any(starting)
        {
            self.all_started = true;
            self.actions.push(Action::AllStarted);
        }
    }
}
