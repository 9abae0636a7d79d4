//! Who gets a node: nodes of their own, nodes that are offered, composites; and what drivers wait for.

use super::{Instance, MAX_STACKED, Rule, Supervisor, rules};
use crate::life_cycle::Phase;
use crate::node::{AddError, Binding, NodeId, Properties, RuleId, SetId};

impl Supervisor {
    /// What the rules wait for that wait for a node and were not told of yet, while nothing is on its way that could
    /// still bring one: the name and the sentence.
    pub(crate) fn newly_waiting(&mut self) -> Vec<(String, String)> {
        if self.stopping || self.starting > 0 || !self.begun {
            return Vec::new();
        }
        let untold = self.rules.take_untold();
        untold.into_iter().map(|id| (self.rules.name(id).to_owned(), self.waits_for(id))).collect()
    }

    /// The names of the rules that wait for a node.
    #[cfg(test)]
    pub(crate) fn waiting_for_a_node(&self) -> Vec<&str> {
        let idle = self.rules.idle().map(|rule| rule.name.as_str());
        if self.starting > 0 { Vec::new() } else { idle.collect() }
    }

    /// What is told about a driver that waits for a node.
    pub(super) fn waits_for(&self, id: RuleId) -> String {
        let rule = self.rules.rule(id);
        let wanted = format!("waits for {}", rule.wants());
        match self.bound_where_it_matches(rule).as_slice() {
            [] => format!("{wanted}; there is none yet"),
            taken_by => {
                format!("{wanted}; one node carries one driver, and `{}` is there already", taken_by.join("`, `"))
            }
        }
    }

    /// The drivers that are bound to nodes which this rule matches, each once.
    pub(super) fn bound_where_it_matches(&self, rule: &Rule) -> Vec<&str> {
        let nodes = self.tree.subtree(self.tree.root()).into_iter().filter_map(|id| self.tree.get(id));
        let mut names = Vec::new();
        for node in nodes.filter(|node| rule.binds().any(|bind| bind.matches(&node.properties))) {
            let taken_by = match node.binding {
                Binding::Bound(instance) => self.instances.get(&instance).map(|instance| instance.rule),
                Binding::Part(set) => self.sets.get(set).map(|set| set.rule),
                _ => None,
            };
            let name = taken_by.and_then(|rule| self.rules.get(rule)).map(|entry| entry.rule.name.as_str());
            names.extend(name.filter(|name| *name != rule.name && !names.contains(name)));
        }
        names
    }

    /// Makes the node of a rule that gets one of its own, and binds it there.
    pub(super) fn give_own_node(&mut self, id: RuleId) {
        let Some(entry) = self.rules.get(id).filter(|entry| entry.rule.has_own_node() && !entry.is_held()) else {
            return;
        };
        let name = entry.rule.name.clone();
        match self.tree.add(self.tree.root(), &name, Properties::default()) {
            Ok(node) => {
                self.make_for(node, id);
                self.bind(node, id);
            }
            // What was there before under that name is on its way out.
            Err(AddError::Leaving(_)) => drop(self.homeless.insert(id)),
            Err(AddError::ParentLeaving) => {}
            Err(error) => debug_assert!(false, "driver names are unique, and valid names of nodes: {error}"),
        }
    }

    pub(super) fn make_for(&mut self, node: NodeId, rule: RuleId) {
        if let Some(node) = self.tree.get_mut(node) {
            node.made_for = Some(rule);
        }
    }

    pub(super) fn offer(&mut self, id: NodeId) {
        self.offer_except(id, None);
    }

    /// Binds the first driver that matches, if the node is free and the driver above it has started.
    pub(super) fn offer_except(&mut self, id: NodeId, except: Option<RuleId>) {
        let Some(node) = self.tree.get(id) else { return };
        if node.binding != Binding::Unbound || node.removal.is_leaving() {
            return;
        }
        if let Some(rule) = node.made_for {
            let may = |entry: &rules::Entry| !entry.is_held() && !entry.is_retired();
            if except != Some(rule) && self.rules.get(rule).is_some_and(may) {
                self.bind(id, rule);
            }
            return;
        }
        let Some(Binding::Bound(adder)) = node.parent.and_then(|parent| self.tree.get(parent)).map(|node| node.binding)
        else {
            return;
        };
        if self.phase_of(adder) != Phase::Running {
            return;
        }
        let Some(rule) = self.rules.choose(&node.properties, |rule| except != Some(rule)) else { return };
        let above = self.drivers_above(id);
        if above.iter().filter(|instance| instance.rule == rule).count() < MAX_STACKED {
            self.take(id, rule);
            return;
        }
        let reason = format!(
            "`{name}` would be bound once more below itself, where it runs {MAX_STACKED} times already; make its `bind` \
             match the nodes of other drivers only",
            name = self.rules.name(rule)
        );
        self.ended(adder, reason);
    }

    /// A rule takes a node that it matches: for a driver of its own, or as a parent of a composite.
    pub(super) fn take(&mut self, id: NodeId, rule_id: RuleId) {
        let rule = self.rules.rule(rule_id);
        if rule.parents.is_empty() {
            return self.bind(id, rule_id);
        }
        let Some(node) = self.tree.get(id) else { return };
        let Some(set) = self.sets.join(rule_id, rule, id, &node.properties) else { return };
        let complete = self.sets.complete(set, rule);
        self.set_binding(id, Binding::Part(set));
        if let Some(parents) = complete {
            self.compose(set, rule_id, parents);
        }
    }

    /// Makes the node of a composite and binds its driver there.
    pub(super) fn compose(&mut self, set: SetId, rule_id: RuleId, parents: Vec<NodeId>) {
        let rule = self.rules.rule(rule_id);
        let names = rule.parents.iter().map(|parent| parent.name.as_str()).collect::<Vec<_>>().join(",");
        let mut properties = vec![("parents".to_owned(), names)];
        let places = self.sets.get(set).map(|set| set.places.as_slice()).unwrap_or_default();
        for (parent, place) in rule.parents.iter().zip(places) {
            let place = place.and_then(|node| self.tree.get(node));
            let of_it = place.into_iter().flat_map(|node| node.properties.iter());
            properties.extend(of_it.map(|(name, value)| (format!("{}/{name}", parent.name), value.to_owned())));
        }
        // A dot is in no name of a driver, so no other node of the root can have such a name.
        let names = std::iter::once(rule.name.clone()).chain((2..).map(|n| format!("{}.{n}", rule.name)));
        for name in names {
            match self.tree.add(self.tree.root(), &name, properties.iter().cloned().collect()) {
                Ok(node) => {
                    self.make_for(node, rule_id);
                    self.tree.rest_on(node, parents);
                    self.sets.set_node(set, node);
                    return self.bind(node, rule_id);
                }
                Err(AddError::Exists(_) | AddError::Leaving(_)) => {}
                Err(_) => return,
            }
        }
    }

    /// The instances bound to the nodes above this one.
    pub(super) fn drivers_above(&self, id: NodeId) -> Vec<&Instance> {
        let above = self.tree.above(id).into_iter();
        above
            .filter_map(|id| match self.tree.get(id)?.binding {
                Binding::Bound(instance) => self.instances.get(&instance),
                _ => None,
            })
            .collect()
    }

    /// The parents that a composite has at this moment, by the names that its driver has for them.
    pub(crate) fn parents_of_composite(&self, node: NodeId) -> Vec<(&str, NodeId)> {
        let set = self.sets.of_node(node).and_then(|set| self.sets.get(set));
        let Some((set, entry)) = set.and_then(|set| Some((set, self.rules.get(set.rule)?))) else { return Vec::new() };
        let places = entry.rule.parents.iter().zip(&set.places);
        places.filter_map(|(parent, place)| Some((parent.name.as_str(), (*place)?))).collect()
    }

    /// Of a composite, the parent of this name, or the first; `None` for a node that is none.
    pub(crate) fn parent_of_composite(&self, node: NodeId, name: Option<&str>) -> Option<Option<NodeId>> {
        let set = self.sets.get(self.sets.of_node(node)?)?;
        let parents = &self.rules.get(set.rule)?.rule.parents;
        let place = match name {
            Some(name) => parents.iter().position(|parent| parent.name == name),
            None => Some(0),
        };
        Some(place.and_then(|place| set.places.get(place).copied().flatten()))
    }
}
