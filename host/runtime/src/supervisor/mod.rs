//! Who is bound where, who starts and stops when: the node tree and all life cycles as one state machine.
//!
//! An event (a hook ended, a child was added, a driver panicked, the host is to stop) goes in through a method; what is
//! to be done comes out of [`Supervisor::take_actions`], in order. The supervisor calls nobody, so every interleaving
//! can be tested by feeding it events (`model.rs` does).
//!
//! 1. [`begin`](Supervisor::begin) gives every driver without a bind rule a node of its own below the root.
//! 2. A node is *offered* when the driver that added it has started: the first rule that matches (`rules`) binds a new
//!    instance to it, or takes it as a parent of a composite (`sets`). One node carries one driver; one rule may be bound
//!    to many nodes, but not to more than [`MAX_STACKED`] on top of each other: a driver whose rule matches what it adds
//!    itself would never end.
//! 3. A removal marks the whole subtree, then drivers stop from the leaves up (`node::removal`), siblings side by side,
//!    the newest first.
//! 4. A driver that fails is taken down children first. Its policy (`restart`) says whether it is started again; if not,
//!    its node is quarantined: kept, but offered to nobody, or to other drivers only where the policy says `rematch`.
//! 5. Drivers are stopped, started and replaced by request (`operate`) by the same way: what becomes of the node is
//!    written down as the instance's [`After`], and the removal of the node comes before all of it.
//! 6. When no driver is left and none waits for its restart or was stopped by request, the host stops.
//! 7. Until every driver of the manifest has started once, any failure that is not followed by a restart stops the whole
//!    host; after that, it stops only the failed driver and what is below it.
//! 8. A driver with a stop timeout that does not stop in time is hurried first: what its hooks wait for is dropped. If it
//!    is still there a little later, it is given up: the host goes on without it, and it is never started again.

mod action;
mod ends;
mod explain;
#[cfg(test)]
mod model;
mod offers;
mod operate;
mod overview;
mod restart;
mod rules;
mod sets;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::life_cycle::{InstanceId, LifeCycle, Next, Phase, Refused};
use crate::node::{AddError, Binding, DriverPresence, Duty, NodeId, NodeTree, Properties, RuleId};

pub(crate) use action::Action;
pub use action::{Consequence, Failure};
pub use explain::{Explanation, Mismatch, Offer, Verdict as OfferVerdict};
pub use operate::OperateError;
pub(crate) use overview::Standing;
pub use restart::{Backoff, Limit, OnPanic, Policy, Restart};
use restart::{End, History};
pub use rules::ParentRule;
pub(crate) use rules::Rule;
use rules::Rules;
use sets::{Left, Sets};

/// How many nodes between the root and a node may carry drivers of one rule. Nobody stacks a driver on itself so often
/// on purpose.
const MAX_STACKED: usize = 16;

/// How long a driver that was hurried has until it is given up, at most.
const LAST_GRACE: Duration = Duration::from_secs(1);

/// What becomes of the node of an instance that ends, unless the node goes too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// It is offered again.
    Offer,
    /// It is offered again, but not to the same driver.
    OfferOthers,
    /// The same driver is started there again, so long after this one is gone.
    Restart(Duration),
    Hold,
    Done,
    Quarantine,
}

#[derive(Debug)]
struct Instance {
    life: LifeCycle,
    node: NodeId,
    rule: RuleId,
    failed: bool,
    after: Option<After>,
    /// Whether its stop is watched, and has been found to be late.
    watched: bool,
    late: bool,
}

/// The machine. See the head of the module.
#[derive(Debug)]
pub(crate) struct Supervisor {
    tree: NodeTree,
    rules: Rules,
    sets: Sets,
    instances: BTreeMap<InstanceId, Instance>,
    next_instance: u64,
    /// How many instances are starting.
    starting: usize,
    /// What is remembered of the ends of drivers, for as long as their node is there.
    histories: BTreeMap<NodeId, (RuleId, History)>,
    /// How many nodes wait for the restart of their driver, and how many are held.
    waiting: usize,
    held: usize,
    next_wait: u64,
    /// The rules that get a node of their own as soon as its name is free.
    homeless: BTreeSet<RuleId>,
    /// The time of the event, on a clock of the host's.
    now: Duration,
    begun: bool,
    all_started: bool,
    stopping: bool,
    actions: Vec<Action>,
}

impl Supervisor {
    pub(crate) fn new(rules: Vec<Rule>) -> Supervisor {
        Supervisor {
            tree: NodeTree::new(),
            rules: Rules::new(rules),
            sets: Sets::default(),
            instances: BTreeMap::new(),
            next_instance: 0,
            starting: 0,
            histories: BTreeMap::new(),
            waiting: 0,
            held: 0,
            next_wait: 0,
            homeless: BTreeSet::new(),
            now: Duration::ZERO,
            begun: false,
            all_started: false,
            stopping: false,
            actions: Vec::new(),
        }
    }

    /// Tells the time of the next event.
    pub(crate) fn at(&mut self, now: Duration) {
        self.now = now;
    }

    /// What is to be done, in order. Each action is returned once.
    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    pub(crate) fn rule_of(&self, name: &str) -> Option<RuleId> {
        self.rules.find(name)
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

    /// The drivers of the manifest of which no instance has ever started.
    pub(crate) fn not_started(&self) -> impl Iterator<Item = &str> {
        self.rules.not_started()
    }

    /// Starts the drivers that have a node of their own.
    pub(crate) fn begin(&mut self) {
        self.begun = true;
        for rule in self.rules.ids() {
            self.give_own_node(rule);
        }
        self.note_all_started();
    }

    // Events about one instance.

    pub(crate) fn started(&mut self, id: InstanceId) -> Result<(), Refused> {
        let Some(instance) = self.instances.get_mut(&id) else { return Ok(()) };
        let (next, rule) = (instance.life.started()?, instance.rule);
        self.starting -= usize::from(next != Next::Nothing);
        if matches!(next, Next::OfferChildren) {
            self.rules.note_started(rule);
        }
        self.follow(id, next);
        self.check_node_of(id);
        self.note_all_started();
        Ok(())
    }

    pub(crate) fn start_failed(&mut self, id: InstanceId, reason: String) -> Result<(), Refused> {
        let Some(instance) = self.instances.get_mut(&id) else { return Ok(()) };
        let next = instance.life.start_failed()?;
        self.starting -= usize::from(next != Next::Nothing);
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
        self.starting -= usize::from(instance.life.phase() == Phase::Starting);
        let next = instance.life.panicked();
        self.record(id, Failure::Panic(message));
        self.follow(id, next);
        self.check_node_of(id);
    }

    /// The driver says that it cannot go on.
    pub(crate) fn ended(&mut self, id: InstanceId, reason: String) {
        // One that ends already, by request or because it has done its work, ends as it does.
        let ends = self.instances.get(&id).is_none_or(|instance| instance.after.is_some());
        if !ends && self.may_end(id) {
            self.record(id, Failure::Ended(reason));
            self.end(id);
        }
    }

    /// The driver says that it has done what it was there for.
    pub(crate) fn finished(&mut self, id: InstanceId) {
        let Some(instance) = self.instances.get(&id).filter(|instance| !instance.failed && instance.after.is_none())
        else {
            return;
        };
        let rule = instance.rule;
        if self.may_end(id) {
            let consequence = self.consequence(id, End::Finished);
            // It cannot start any more than it has.
            self.rules.note_started(rule);
            self.actions.push(Action::Finished(id, consequence));
            self.end(id);
        }
    }

    fn may_end(&self, id: InstanceId) -> bool {
        matches!(self.phase_of(id), Phase::Starting | Phase::Running)
    }

    fn end(&mut self, id: InstanceId) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let next = instance.life.end();
        if instance.life.phase() == Phase::Starting {
            self.watch(id);
        }
        self.follow(id, next);
    }

    /// One of its stop hooks did not succeed. It goes all the same.
    pub(crate) fn stop_failed(&mut self, id: InstanceId, reason: String) {
        self.record(id, Failure::Stop(reason));
    }

    /// The time of its stop is up, and this is what it is stuck in.
    pub(crate) fn overdue(&mut self, id: InstanceId, stuck: &str) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        let timeout = self.rules.rule(instance.rule).policy.stop_timeout.unwrap_or(LAST_GRACE);
        if std::mem::replace(&mut instance.late, true) {
            return self.give_up(id, stuck);
        }
        self.starting -= usize::from(instance.life.phase() == Phase::Starting);
        let next = instance.life.hurry();
        self.record(id, Failure::Stop(format!("the time of its stop ({timeout:?}) is up: {stuck}")));
        self.actions.push(Action::Watch(id, timeout.min(LAST_GRACE)));
        self.follow(id, next);
        self.check_node_of(id);
    }

    /// The wait for a restart is over.
    pub(crate) fn restart_due(&mut self, node: NodeId, number: u64) {
        let Some(found) = self.tree.get(node).filter(|found| !found.removal.is_leaving()) else { return };
        if let Binding::Waiting(rule, waited) = found.binding
            && waited == number
        {
            self.set_binding(node, Binding::Unbound);
            self.bind(node, rule);
        }
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
        properties.add_default("parent", self.rules.name(instance.rule));
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
            subtree.iter().for_each(|&id| self.leave_set(id));
            subtree.into_iter().for_each(|id| self.check(id));
        }
    }

    /// A node that goes is no parent of a composite any more, unless the composite goes before it.
    fn leave_set(&mut self, id: NodeId) {
        let Some(Binding::Part(set)) = self.tree.get(id).map(|node| node.binding) else { return };
        let Some(rule) = self.sets.get(set).and_then(|set| self.rules.get(set.rule)) else { return };
        match self.sets.leave(set, &rule.rule, id) {
            Left::Nothing => {}
            Left::Composite(node) => self.remove(node),
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
            Next::PrepareStop => {
                self.watch(id);
                self.actions.push(Action::PrepareStop(id));
            }
            Next::ShutDown => {
                self.watch(id);
                self.actions.push(Action::ShutDown(id));
            }
            Next::CutStop => self.actions.push(Action::CutStop(id)),
            Next::Stop => self.actions.push(Action::Stop(id)),
            Next::Destroy => self.actions.push(Action::Destroy(id)),
            Next::Release => self.release(id),
        }
    }

    fn bind(&mut self, node: NodeId, rule: RuleId) {
        let id = InstanceId(self.next_instance);
        self.next_instance += 1;
        let life = LifeCycle::starting();
        let instance = Instance { life, node, rule, failed: false, after: None, watched: false, late: false };
        self.instances.insert(id, instance);
        self.starting += 1;
        self.rules.note_bound(rule);
        self.set_binding(node, Binding::Bound(id));
        self.actions.push(Action::Start { instance: id, rule, node });
    }

    /// Changes who is bound to a node, and keeps what is counted of it in step.
    fn set_binding(&mut self, id: NodeId, binding: Binding) {
        let Some(node) = self.tree.get_mut(id) else { return };
        let before = std::mem::replace(&mut node.binding, binding);
        let count = |of: fn(Binding) -> bool| (usize::from(of(binding)), usize::from(of(before)));
        let (waits, waited) = count(|binding| matches!(binding, Binding::Waiting(..)));
        let (holds, held) = count(|binding| matches!(binding, Binding::Held(_)));
        self.waiting = self.waiting + waits - waited;
        self.held = self.held + holds - held;
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
            _ => None,
        };
        let presence = match bound.map(|instance| self.phase_of(instance)) {
            None => DriverPresence::Absent,
            Some(Phase::Starting) => DriverPresence::Starting,
            Some(_) => DriverPresence::Present,
        };
        let children = node.children.len();
        if presence == DriverPresence::Starting
            && node.removal.is_leaving()
            && let Some(instance) = bound
        {
            self.watch(instance);
        }
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
        self.set_binding(id, Binding::Unbound);
        self.histories.remove(&id);
        let is_root = id == self.tree.root();
        let above = self.tree.take_out(id);
        self.actions.push(Action::NodeRemoved(id));
        if is_root {
            self.actions.push(Action::AllGone);
            return;
        }
        let parts = self.sets.of_node(id).map(|set| self.sets.dissolve(set)).unwrap_or_default();
        for &part in &parts {
            self.set_binding(part, Binding::Unbound);
        }
        for &node in &above {
            if let Some(Binding::Bound(instance)) = self.tree.get(node).map(|node| node.binding) {
                self.tell_children_gone(instance);
            }
            self.check(node);
        }
        parts.into_iter().for_each(|part| self.offer(part));
        for rule in std::mem::take(&mut self.homeless) {
            self.give_own_node(rule);
        }
    }

    fn tell_children_gone(&mut self, id: InstanceId) {
        let node = self.node_of(id).and_then(|node| self.tree.get(node));
        if node.is_some_and(|node| !node.children.is_empty()) {
            return;
        }
        if let Some(instance) = self.instances.get_mut(&id) {
            let next = instance.life.children_gone();
            self.follow(id, next);
        }
    }

    fn children_of(&self, id: InstanceId) -> Vec<NodeId> {
        let node = self.node_of(id).and_then(|node| self.tree.get(node));
        node.map(|node| node.children.iter().copied().collect()).unwrap_or_default()
    }

    fn note_all_started(&mut self) {
        if self.begun && !self.all_started && !self.stopping && self.starting == 0 && self.rules.all_have_started() {
            self.all_started = true;
            self.actions.push(Action::AllStarted);
        }
    }
}
