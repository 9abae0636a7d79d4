//! Composites: nodes that are made of several others.
//!
//! A *set* collects the parents of one composite. A node that fits an empty place of a set joins the first such set of
//! its rule, or begins a new one; it then belongs to the set and carries no driver of its own. When every place that must
//! be filled is, the composite gets its node below the root, which rests on those parents: it is a child of each of them,
//! so it is gone before any of them goes. When it is gone, the parents that stay are offered again.
//!
//! A place that is optional may be empty when the composite starts, and become empty or filled again while it runs.

use std::collections::BTreeMap;

use super::rules::Rule;
use crate::node::{NodeId, Properties, RuleId, SetId};

/// The parents of one composite.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) rule: RuleId,
    /// By the places of the rule.
    pub(crate) places: Vec<Option<NodeId>>,
    /// The node of the composite, once it is complete.
    pub(crate) node: Option<NodeId>,
}

/// All sets.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    sets: BTreeMap<SetId, Set>,
    /// Which set a composite's node is of.
    nodes: BTreeMap<NodeId, SetId>,
    next: u32,
}

impl Sets {
    pub(crate) fn get(&self, id: SetId) -> Option<&Set> {
        self.sets.get(&id)
    }

    pub(crate) fn of_node(&self, node: NodeId) -> Option<SetId> {
        self.nodes.get(&node).copied()
    }

    /// Puts a node that the rule asks for into the first set that has a place for it, or into a new one.
    pub(crate) fn join(&mut self, id: RuleId, rule: &Rule, node: NodeId, properties: &Properties) -> Option<SetId> {
        let fits = |place: usize| rule.parents[place].bind.matches(properties);
        let free = |set: &Set| {
            let open =
                |place: &usize| set.places[*place].is_none() && (set.node.is_none() || rule.parents[*place].optional);
            (0..rule.parents.len()).find(|place| open(place) && fits(*place))
        };
        let mut of_rule = self.sets.iter_mut().filter(|(_, set)| set.rule == id);
        if let Some((&found, set, place)) = of_rule.find_map(|(key, set)| free(set).map(|place| (key, set, place))) {
            set.places[place] = Some(node);
            return Some(found);
        }
        let place = (0..rule.parents.len()).find(|&place| fits(place))?;
        let new = SetId(self.next);
        self.next += 1;
        let mut places = vec![None; rule.parents.len()];
        places[place] = Some(node);
        self.sets.insert(new, Set { rule: id, places, node: None });
        Some(new)
    }

    /// The nodes on which a composite of this set rests, if it is complete and has no node yet.
    pub(crate) fn complete(&self, id: SetId, rule: &Rule) -> Option<Vec<NodeId>> {
        let set = self.sets.get(&id).filter(|set| set.node.is_none())?;
        let places = || set.places.iter().zip(&rule.parents);
        places()
            .all(|(place, parent)| place.is_some() || parent.optional)
            .then(|| places().filter(|(_, parent)| !parent.optional).filter_map(|(place, _)| *place).collect())
    }

    pub(crate) fn set_node(&mut self, id: SetId, node: NodeId) {
        if let Some(set) = self.sets.get_mut(&id) {
            set.node = Some(node);
            self.nodes.insert(node, id);
        }
    }

    /// A parent leaves its place, unless a composite rests on it, which goes first.
    pub(crate) fn leave(&mut self, id: SetId, rule: &Rule, node: NodeId) -> Left {
        let Some(set) = self.sets.get_mut(&id) else { return Left::Nothing };
        let Some(place) = set.places.iter().position(|place| *place == Some(node)) else { return Left::Nothing };
        if set.node.is_some() && !rule.parents[place].optional {
            return Left::Nothing;
        }
        set.places[place] = None;
        if set.places.iter().any(Option::is_some) {
            return Left::Nothing;
        }
        match set.node {
            Some(composite) => Left::Composite(composite),
            None => {
                self.sets.remove(&id);
                Left::Nothing
            }
        }
    }

    /// Takes a set apart, that of this composite's node or one that is not complete; returns its parents.
    pub(crate) fn dissolve(&mut self, id: SetId) -> Vec<NodeId> {
        let Some(set) = self.sets.remove(&id) else { return Vec::new() };
        if let Some(node) = set.node {
            self.nodes.remove(&node);
        }
        set.places.into_iter().flatten().collect()
    }

    /// The sets of a rule that have no node yet.
    pub(crate) fn incomplete(&self, rule: RuleId) -> Vec<SetId> {
        self.sets.iter().filter(|(_, set)| set.rule == rule && set.node.is_none()).map(|(&id, _)| id).collect()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.sets.is_empty() && self.nodes.is_empty()
    }
}

/// What follows when a parent has left its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Left {
    Nothing,
    /// That was the last one: the composite's node has nothing left to stand for.
    Composite(NodeId),
}
