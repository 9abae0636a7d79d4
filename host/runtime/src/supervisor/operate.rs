//! What is asked for while a host runs: drivers are stopped, started, matched again, added, removed and replaced.

use crate::life_cycle::InstanceId;
use crate::node::{Binding, NodeId, RuleId};

use super::{After, Rule, Supervisor};
use std::time::Duration;

/// Why a request about a driver or a node is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OperateError {
    /// The manifest has no such driver.
    #[error("there is no driver `{0}` in the manifest")]
    NoDriver(String),
    /// There is one of that name already.
    #[error("there is a driver `{0}` already; give it another name")]
    Exists(String),
    /// There is no such node.
    #[error("there is no node `{0}`")]
    NoNode(String),
    /// No driver is or was on the node.
    #[error("no driver is bound to `{0}`")]
    NotBound(String),
    /// The node is what a composite is made of.
    #[error("`{0}` is a parent of the composite `{1}`; ask for that one")]
    Part(String, String),
    /// The host stops.
    #[error("the host is stopping")]
    Stopping,
    /// The host has not been started.
    #[error("the host has not begun to start its drivers")]
    NotBegun,
}

impl Supervisor {
    pub(crate) fn may_operate(&self) -> Result<(), OperateError> {
        match (self.begun, self.stopping) {
            (_, true) => Err(OperateError::Stopping),
            (false, _) => Err(OperateError::NotBegun),
            _ => Ok(()),
        }
    }

    pub(crate) fn rule_named(&self, name: &str) -> Result<RuleId, OperateError> {
        self.may_operate()?;
        self.rules.find(name).ok_or_else(|| OperateError::NoDriver(name.to_owned()))
    }

    pub(crate) fn node_at(&self, path: &str) -> Result<NodeId, OperateError> {
        self.may_operate()?;
        let below_root = self.tree.find(path).filter(|&node| node != self.tree.root());
        below_root.ok_or_else(|| OperateError::NoNode(path.to_owned()))
    }

    /// Stops all instances of a driver; it is started nowhere until it is asked for.
    pub(crate) fn stop_rule(&mut self, id: RuleId) {
        self.rules.hold(id, true);
        self.homeless.remove(&id);
        for instance in self.instances_of(id) {
            self.end_as(instance, After::Hold);
        }
        for node in self.nodes_left_by(id) {
            self.set_binding(node, Binding::Held(id));
        }
        self.dissolve_incomplete(id);
        self.note_all_started();
    }

    /// Starts a driver wherever it was stopped, has ended or failed, and wherever it matches.
    pub(crate) fn start_rule(&mut self, id: RuleId) {
        self.rules.hold(id, false);
        for node in self.nodes_left_by(id) {
            self.offer_anew(node);
        }
        if self.tree.find(&format!("/{}", self.rules.name(id))).is_none() {
            self.give_own_node(id);
        }
        self.offer_all();
    }

    /// Stops all instances of a driver and starts it again on the same nodes.
    pub(crate) fn restart_rule(&mut self, id: RuleId) {
        for instance in self.instances_of(id) {
            self.end_as(instance, After::Restart(Duration::ZERO));
        }
        self.start_rule(id);
    }

    /// Stops the driver on a node, which is offered to nobody until it is asked for.
    pub(crate) fn stop_node(&mut self, node: NodeId) -> Result<(), OperateError> {
        match self.binding(node)? {
            Binding::Bound(instance) => self.end_as(instance, After::Hold),
            binding => {
                let rule = binding.last().ok_or_else(|| self.not_bound(node))?;
                self.set_binding(node, Binding::Held(rule));
            }
        }
        Ok(())
    }

    /// Starts the driver of a node again that was stopped, has ended or failed there.
    pub(crate) fn start_node(&mut self, node: NodeId) -> Result<(), OperateError> {
        match self.binding(node)? {
            Binding::Bound(_) => {}
            binding => {
                let rule = binding.last().ok_or_else(|| self.not_bound(node))?;
                self.start_again(node, rule);
            }
        }
        Ok(())
    }

    /// Stops the driver of a node and starts it there again.
    pub(crate) fn restart_node(&mut self, node: NodeId) -> Result<(), OperateError> {
        match self.binding(node)? {
            Binding::Bound(instance) => {
                self.end_as(instance, After::Restart(Duration::ZERO));
                Ok(())
            }
            _ => self.start_node(node),
        }
    }

    /// Offers a node anew: to whichever driver comes first now. One that is there is stopped before.
    pub(crate) fn rematch(&mut self, node: NodeId) -> Result<(), OperateError> {
        match self.binding(node)? {
            Binding::Bound(instance) => self.end_as(instance, After::Offer),
            _ => self.offer_anew(node),
        }
        Ok(())
    }

    // The manifest changes.

    /// Adds a driver. It is offered nothing before [`arrange`](Self::arrange).
    pub(crate) fn add_rule(&mut self, rule: Rule) -> RuleId {
        self.rules.add(rule)
    }

    /// Removes a driver: its instances stop, and their nodes are offered to others.
    pub(crate) fn retire_rule(&mut self, id: RuleId) {
        self.homeless.remove(&id);
        let left: Vec<NodeId> = self.nodes_left_by(id);
        let instances = self.instances_of(id);
        self.dissolve_incomplete_of(id);
        self.rules.retire(id);
        for instance in instances {
            match self.node_of(instance).filter(|&node| self.is_made_for(node, id)) {
                Some(node) => self.remove(node),
                None => self.end_as(instance, After::Offer),
            }
        }
        for node in left {
            match self.is_made_for(node, id) {
                true => self.remove(node),
                false => self.set_binding(node, Binding::Unbound),
            }
        }
    }

    /// Puts other data in the place of a rule that asks for the same nodes; its instances are started anew with them, or
    /// go on as they are.
    pub(crate) fn replace_rule(&mut self, id: RuleId, rule: Rule, restart: bool) {
        self.rules.replace(id, rule);
        if restart {
            for instance in self.instances_of(id) {
                self.end_as(instance, After::Restart(Duration::ZERO));
            }
            let failed = |binding: &Binding| matches!(binding, Binding::Waiting(..) | Binding::Quarantined(_));
            for node in self.nodes_left_by(id) {
                if self.tree.get(node).is_some_and(|node| failed(&node.binding)) {
                    self.start_again(node, id);
                }
            }
        }
    }

    /// Brings the rules into an order, and offers what is free.
    pub(crate) fn arrange(&mut self, order: &[RuleId]) {
        self.rules.arrange(order);
        if !self.begun || self.stopping {
            return;
        }
        for &id in order {
            let missing =
                |name: &str| self.tree.find(&format!("/{name}")).is_none_or(|node| !self.is_made_for(node, id));
            if self.rules.get(id).is_some_and(|entry| missing(&entry.rule.name)) {
                self.give_own_node(id);
            }
        }
        self.offer_all();
        self.note_all_started();
        self.stop_if_nothing_is_left();
    }

    // What the above is made of.

    /// Ends an instance, unless it ends anyway; this is what becomes of its node.
    fn end_as(&mut self, id: InstanceId, after: After) {
        let Some(instance) = self.instances.get_mut(&id) else { return };
        instance.after = Some(after);
        if self.may_end(id) {
            self.end(id);
        }
    }

    fn binding(&self, node: NodeId) -> Result<Binding, OperateError> {
        let found = self.tree.get(node).filter(|node| !node.removal.is_leaving());
        match found.map(|node| node.binding).ok_or_else(|| self.not_bound(node))? {
            Binding::Part(set) => {
                let rule = self.sets.get(set).and_then(|set| self.rules.get(set.rule));
                let name = rule.map(|entry| entry.rule.name.clone()).unwrap_or_default();
                Err(OperateError::Part(self.tree.path(node).to_string(), name))
            }
            binding => Ok(binding),
        }
    }

    fn not_bound(&self, node: NodeId) -> OperateError {
        OperateError::NotBound(self.tree.path(node).to_string())
    }

    fn start_again(&mut self, node: NodeId, rule: RuleId) {
        self.histories.remove(&node);
        self.set_binding(node, Binding::Unbound);
        self.bind(node, rule);
    }

    fn offer_anew(&mut self, node: NodeId) {
        self.histories.remove(&node);
        self.set_binding(node, Binding::Unbound);
        self.offer(node);
    }

    /// Offers every node that nobody has.
    fn offer_all(&mut self) {
        let all = self.tree.subtree(self.tree.root());
        for node in all.into_iter().filter(|&node| node != self.tree.root()).collect::<Vec<_>>() {
            self.offer(node);
        }
    }

    fn instances_of(&self, rule: RuleId) -> Vec<InstanceId> {
        self.instances.iter().filter(|(_, instance)| instance.rule == rule).map(|(&id, _)| id).collect()
    }

    /// The nodes on which a driver was last, where none is now.
    fn nodes_left_by(&self, rule: RuleId) -> Vec<NodeId> {
        let all = self.tree.subtree(self.tree.root()).into_iter();
        all.filter(|&node| self.tree.get(node).is_some_and(|node| node.binding.last() == Some(rule))).collect()
    }

    fn is_made_for(&self, node: NodeId, rule: RuleId) -> bool {
        self.tree.get(node).is_some_and(|node| node.made_for == Some(rule))
    }

    /// Gives up composites that are not complete, and offers what they had to others.
    fn dissolve_incomplete(&mut self, rule: RuleId) {
        let parts = self.dissolve_incomplete_of(rule);
        parts.into_iter().for_each(|part| self.offer(part));
    }

    fn dissolve_incomplete_of(&mut self, rule: RuleId) -> Vec<NodeId> {
        let incomplete = self.sets.incomplete(rule).into_iter();
        let parts: Vec<NodeId> = incomplete.flat_map(|set| self.sets.dissolve(set)).collect();
        for &part in &parts {
            self.set_binding(part, Binding::Unbound);
        }
        parts
    }
}
