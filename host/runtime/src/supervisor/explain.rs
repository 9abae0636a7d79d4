//! Why a node has the driver that it has: what each rule says of it.

use std::fmt;

use super::Supervisor;
use super::rules::Entry;
use crate::life_cycle::Phase;
use crate::node::{BindRule, Binding, Node, NodeId, Properties, RuleId};

/// What every driver of the manifest has to say about a node, in the order in which they are asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The path of the node.
    pub node: String,
    /// The properties that it has.
    pub properties: Properties,
    /// What is on it, as a sentence.
    pub state: String,
    /// The driver that is on it, or that has it as a parent.
    pub driver: Option<String>,
    /// One for each driver, and for each parent of a composite.
    pub offers: Vec<Offer>,
}

/// What one driver of the manifest says about a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Offer {
    /// The driver's name in the manifest.
    pub driver: String,
    /// Of a composite: as which of its parents.
    pub parent: Option<String>,
    /// What it says.
    pub verdict: Verdict,
}

/// Whether a driver takes a node, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It has the node.
    Taken,
    /// It matches; the sentence says why it does not have the node all the same.
    Matches(String),
    /// It does not match, for these reasons.
    Differs(Vec<Mismatch>),
    /// It asks for no node of another driver, but has one of its own.
    OwnNode,
}

/// One property that is not as a rule wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// Its name.
    pub property: String,
    /// What the rule asks for: `must be "block"`.
    pub wanted: String,
    /// What the node has.
    pub found: Option<String>,
}

impl Supervisor {
    /// What each rule says of a node.
    pub(crate) fn explain(&self, id: NodeId) -> Option<Explanation> {
        let node = self.tree.get(id)?;
        let taken_by = match node.binding {
            Binding::Bound(instance) => self.instances.get(&instance).map(|instance| instance.rule),
            Binding::Part(set) => self.sets.get(set).map(|set| set.rule),
            _ => None,
        };
        let rules = self.rules.in_order().into_iter();
        let offers = rules.flat_map(|(rule, entry)| self.offers_of(rule, entry, id, node, taken_by)).collect();
        Some(Explanation {
            node: self.tree.path(id).to_string(),
            properties: node.properties.clone(),
            state: self.state_of(node),
            driver: taken_by.and_then(|rule| self.rules.get(rule)).map(|entry| entry.rule.name.clone()),
            offers,
        })
    }

    /// Who has a node, or why nobody has, as a sentence.
    pub(crate) fn node_state(&self, id: NodeId) -> String {
        self.tree.get(id).map(|node| self.state_of(node)).unwrap_or_default()
    }

    fn offers_of(&self, rule: RuleId, entry: &Entry, id: NodeId, node: &Node, taken_by: Option<RuleId>) -> Vec<Offer> {
        let offer = |parent: Option<&str>, verdict| {
            vec![Offer { driver: entry.rule.name.clone(), parent: parent.map(str::to_owned), verdict }]
        };
        if node.made_for.is_some() || entry.rule.has_own_node() {
            let verdict = match (taken_by == Some(rule), node.made_for == Some(rule)) {
                (true, _) => Verdict::Taken,
                (false, true) => Verdict::Matches(self.why_not(entry, node)),
                (false, false) if entry.rule.has_own_node() => Verdict::OwnNode,
                (false, false) => Verdict::Differs(mismatches_of(entry, &node.properties)),
            };
            return offer(None, verdict);
        }
        let judge = |bind: &BindRule, is_taken: bool| match bind.matches(&node.properties) {
            _ if is_taken => Verdict::Taken,
            true => Verdict::Matches(self.why_not(entry, node)),
            false => Verdict::Differs(mismatches(bind, &node.properties)),
        };
        if entry.rule.parents.is_empty() {
            return offer(None, judge(&entry.rule.bind, taken_by == Some(rule)));
        }
        let place = match node.binding {
            Binding::Part(set) => self.sets.get(set).filter(|set| set.rule == rule),
            _ => None,
        };
        let place = place.and_then(|set| set.places.iter().position(|place| *place == Some(id)));
        let parents = entry.rule.parents.iter().enumerate();
        parents.flat_map(|(n, parent)| offer(Some(&parent.name), judge(&parent.bind, place == Some(n)))).collect()
    }

    /// Why a driver that matches does not have the node.
    fn why_not(&self, entry: &Entry, node: &Node) -> String {
        if entry.is_held() {
            return "it was stopped by request; start it first".to_owned();
        }
        match node.binding {
            Binding::Unbound if self.parent_runs(node) => "the node is not offered at this moment".to_owned(),
            Binding::Unbound => "the node is offered once the driver that added it has started".to_owned(),
            _ => self.state_of(node),
        }
    }

    fn parent_runs(&self, node: &Node) -> bool {
        let parent = node.parent.and_then(|parent| self.tree.get(parent)).map(|parent| parent.binding);
        matches!(parent, Some(Binding::Bound(parent)) if self.phase_of(parent) == Phase::Running)
    }

    /// Who has a node, or why nobody has.
    fn state_of(&self, node: &Node) -> String {
        let name = |rule: RuleId| self.rules.get(rule).map_or("a driver of before", |entry| entry.rule.name.as_str());
        match node.binding {
            _ if node.removal.is_leaving() => "the node is being removed".to_owned(),
            Binding::Bound(instance) => match self.instances.get(&instance) {
                Some(found) => format!("`{}` is bound to it", name(found.rule)),
                None => "it is free".to_owned(),
            },
            Binding::Part(set) => match self.sets.get(set) {
                Some(set) if set.node.is_some() => format!("it is a parent of `{}`", name(set.rule)),
                Some(set) => format!("it is kept as a parent of `{}`, which waits for the others", name(set.rule)),
                None => "it is free".to_owned(),
            },
            Binding::Unbound => "it is free".to_owned(),
            Binding::Waiting(rule, _) => format!("`{}` failed here and is started again in a while", name(rule)),
            Binding::Held(rule) => format!("`{}` was stopped here by request", name(rule)),
            Binding::Done(rule) => format!("`{}` has come to its end here", name(rule)),
            Binding::Quarantined(rule) => format!("`{}` failed here, so the node is offered to nobody", name(rule)),
        }
    }
}

/// What keeps a rule from matching.
fn mismatches(bind: &BindRule, properties: &Properties) -> Vec<Mismatch> {
    let conditions = bind.conditions().map(|(name, condition)| (name, condition, properties.get(name)));
    conditions
        .filter(|(_, condition, found)| !condition.accepts(*found))
        .map(|(name, condition, found)| Mismatch {
            property: name.to_owned(),
            wanted: condition.in_words(),
            found: found.map(str::to_owned),
        })
        .collect()
}

fn mismatches_of(entry: &Entry, properties: &Properties) -> Vec<Mismatch> {
    entry.rule.binds().flat_map(|bind| mismatches(bind, properties)).collect()
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.found {
            Some(found) => write!(f, "`{}` {}, and is {found:?}", self.property, self.wanted),
            None => write!(f, "`{}` {}, and is not there", self.property, self.wanted),
        }
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.driver)?;
        if let Some(parent) = &self.parent {
            write!(f, " (as `{parent}`)")?;
        }
        match &self.verdict {
            Verdict::Taken => f.write_str(": has it"),
            Verdict::Matches(why_not) => write!(f, ": matches, but {why_not}"),
            Verdict::OwnNode => f.write_str(": asks for no node, it has one of its own"),
            Verdict::Differs(mismatches) if mismatches.is_empty() => {
                f.write_str(": does not match, as this node was made for another driver")
            }
            Verdict::Differs(mismatches) => {
                let reasons: Vec<_> = mismatches.iter().map(Mismatch::to_string).collect();
                write!(f, ": does not match: {}", reasons.join("; "))
            }
        }
    }
}

impl fmt::Display for Explanation {
    /// A line each for the node, its properties and what each driver says. Ends without a line break.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.node, self.state)?;
        for (name, value) in self.properties.iter() {
            write!(f, "\n  {name} = {value:?}")?;
        }
        self.offers.iter().try_for_each(|offer| write!(f, "\n{offer}"))
    }
}
