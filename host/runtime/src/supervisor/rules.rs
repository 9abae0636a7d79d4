//! The drivers of the manifest as rules: which of them a node is offered to, and in which order.
//!
//! A rule of a higher priority comes first, and of equal ones that which stands first in the manifest; so who gets a node
//! depends on the manifest and on the node alone. A node is looked up by its properties: each rule is listed under one
//! value that it needs, the one that the fewest others are listed under, so that a manifest of thousands of drivers
//! costs no more than the few that could match.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use super::restart::Policy;
use crate::node::{BindRule, Condition, Properties, RuleId};

/// One driver of the manifest, as far as the supervisor is concerned.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) bind: BindRule,
    /// The nodes that a composite is made of; empty for all other drivers.
    pub(crate) parents: Vec<ParentRule>,
    /// Who is offered a node first.
    pub(crate) priority: i64,
    pub(crate) policy: Policy,
}

/// One of the nodes that a composite is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentRule {
    /// What the driver calls it.
    pub name: String,
    /// What the node must be.
    pub bind: BindRule,
    /// Whether the composite starts without it, and goes on when it goes.
    pub optional: bool,
}

impl Rule {
    /// Whether it gets a node of its own.
    pub(crate) fn has_own_node(&self) -> bool {
        self.bind.is_empty() && self.parents.is_empty()
    }

    /// The rules by which it asks for nodes of other drivers.
    pub(crate) fn binds(&self) -> impl Iterator<Item = &BindRule> {
        let own = (!self.bind.is_empty()).then_some(&self.bind);
        own.into_iter().chain(self.parents.iter().map(|parent| &parent.bind))
    }

    /// What it waits for, as a sentence goes on: `a node with protocol = "block"`.
    pub(crate) fn wants(&self) -> String {
        match self.parents.as_slice() {
            [] => format!("a node with {}", self.bind),
            parents => {
                let part = |parent: &ParentRule| format!("`{}` with {}", parent.name, parent.bind);
                format!("its parents {}", parents.iter().map(part).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// A rule, and how far it has come.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) rule: Rule,
    /// Where it stands in the manifest.
    position: usize,
    /// Whether an instance of it has ever started.
    started: bool,
    /// How many instances of it there are.
    bound: usize,
    /// It was stopped by request, and is offered nothing until it is started by one.
    held: bool,
    /// It is no longer in the manifest, and only its instances are left.
    retired: bool,
    /// Whether it was told what it waits for.
    told: bool,
}

impl Entry {
    pub(crate) fn is_held(&self) -> bool {
        self.held
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired
    }

    fn is_missing(&self) -> bool {
        !self.started && !self.held && !self.retired
    }

    fn is_idle(&self) -> bool {
        self.is_missing() && self.bound == 0 && !self.rule.has_own_node()
    }
}

type Rank = (Reverse<i64>, usize, RuleId);

/// All rules. See the head of the module.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    entries: BTreeMap<RuleId, Entry>,
    names: HashMap<String, RuleId>,
    next: u32,
    /// Under one property and value that they need.
    by_value: HashMap<(String, String), BTreeSet<Rank>>,
    /// Those that need no property to have a certain value.
    others: BTreeSet<Rank>,
    /// How many have to start before all have started.
    missing: usize,
    held: usize,
    /// Those that have not started and are bound nowhere.
    idle: BTreeSet<RuleId>,
}

impl Rules {
    pub(crate) fn new(rules: Vec<Rule>) -> Rules {
        let mut all = Rules::default();
        let ids: Vec<RuleId> = rules.into_iter().map(|rule| all.add(rule)).collect();
        all.arrange(&ids);
        all
    }

    /// Adds a rule, which is offered nothing before the next [`arrange`](Self::arrange).
    pub(crate) fn add(&mut self, rule: Rule) -> RuleId {
        let id = RuleId(self.next);
        self.next += 1;
        self.names.insert(rule.name.clone(), id);
        let entry =
            Entry { rule, position: usize::MAX, started: false, bound: 0, held: false, retired: false, told: false };
        self.entries.insert(id, entry);
        self.change(id, |_| {});
        self.missing += 1;
        id
    }

    /// Takes a rule out of the manifest; it is forgotten with its last instance.
    pub(crate) fn retire(&mut self, id: RuleId) {
        self.change(id, |entry| entry.retired = true);
        if let Some(entry) = self.entries.get(&id)
            && self.names.get(&entry.rule.name) == Some(&id)
        {
            self.names.remove(&entry.rule.name);
        }
        self.forget(id);
    }

    /// Puts other data in the place of a rule of the same name.
    pub(crate) fn replace(&mut self, id: RuleId, rule: Rule) {
        self.change(id, |entry| entry.rule = rule);
    }

    /// Brings the rules into the order of the manifest.
    pub(crate) fn arrange(&mut self, order: &[RuleId]) {
        for (position, id) in order.iter().enumerate() {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.position = position;
            }
        }
        self.by_value.clear();
        self.others.clear();
        let ids: Vec<RuleId> = order.iter().copied().filter(|id| self.entries.contains_key(id)).collect();
        for id in ids {
            self.list(id);
        }
    }

    fn list(&mut self, id: RuleId) {
        let Some(entry) = self.entries.get(&id).filter(|entry| !entry.retired) else { return };
        let rank = (Reverse(entry.rule.priority), entry.position, id);
        for bind in entry.rule.binds() {
            let needed = bind.conditions().filter_map(|(name, condition)| match condition {
                Condition::OneOf(values) => Some((name, values)),
                _ => None,
            });
            let listed = |name: &str, value: &str| {
                self.by_value.get(&(name.to_owned(), value.to_owned())).map_or(0, BTreeSet::len)
            };
            let crowd = |(name, values): &(&str, &Vec<String>)| values.iter().map(|value| listed(name, value)).max();
            match needed.min_by_key(crowd) {
                Some((name, values)) => {
                    for value in values {
                        self.by_value.entry((name.to_owned(), value.clone())).or_default().insert(rank);
                    }
                }
                None => drop(self.others.insert(rank)),
            }
        }
    }

    /// The first rule that asks for such a node and is accepted.
    pub(crate) fn choose(&self, properties: &Properties, accept: impl Fn(RuleId) -> bool) -> Option<RuleId> {
        let fits = |&&(_, _, id): &&Rank| {
            // One that was retired stays listed until the rules are arranged again.
            let entry = self.entries.get(&id).filter(|entry| !entry.held && !entry.retired);
            entry.is_some_and(|entry| entry.rule.binds().any(|bind| bind.matches(properties))) && accept(id)
        };
        let listed =
            properties.iter().filter_map(|(name, value)| self.by_value.get(&(name.to_owned(), value.to_owned())));
        let first = listed.chain([&self.others]).filter_map(|ranks| ranks.iter().find(fits)).min();
        first.map(|&(_, _, id)| id)
    }

    pub(crate) fn get(&self, id: RuleId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    /// The data of a rule of which there are instances.
    pub(crate) fn rule(&self, id: RuleId) -> &Rule {
        &self.entries[&id].rule
    }

    pub(crate) fn name(&self, id: RuleId) -> &str {
        &self.rule(id).name
    }

    pub(crate) fn find(&self, name: &str) -> Option<RuleId> {
        self.names.get(name).copied()
    }

    /// Those of the manifest, in the order in which they are offered a node.
    pub(crate) fn in_order(&self) -> Vec<(RuleId, &Entry)> {
        let mut all: Vec<_> =
            self.entries.iter().filter(|(_, entry)| !entry.retired).map(|(&id, entry)| (id, entry)).collect();
        all.sort_by_key(|(id, entry)| (Reverse(entry.rule.priority), entry.position, *id));
        all
    }

    /// Those of the manifest, in its order.
    pub(crate) fn ids(&self) -> Vec<RuleId> {
        let mut all: Vec<_> =
            self.entries.iter().filter(|(_, entry)| !entry.retired).map(|(&id, entry)| (entry.position, id)).collect();
        all.sort_unstable();
        all.into_iter().map(|(_, id)| id).collect()
    }

    pub(crate) fn note_started(&mut self, id: RuleId) {
        self.change(id, |entry| entry.started = true);
    }

    pub(crate) fn note_bound(&mut self, id: RuleId) {
        self.change(id, |entry| entry.bound += 1);
    }

    pub(crate) fn note_gone(&mut self, id: RuleId) {
        self.change(id, |entry| entry.bound -= 1);
        self.forget(id);
    }

    pub(crate) fn hold(&mut self, id: RuleId, held: bool) {
        self.change(id, |entry| entry.held = held);
    }

    pub(crate) fn has_held(&self) -> bool {
        self.held > 0
    }

    pub(crate) fn all_have_started(&self) -> bool {
        self.missing == 0
    }

    pub(crate) fn not_started(&self) -> impl Iterator<Item = &str> {
        let ids = self.ids().into_iter();
        ids.map(|id| &self.entries[&id]).filter(|entry| entry.is_missing()).map(|entry| entry.rule.name.as_str())
    }

    /// Those that have not started and are bound nowhere.
    #[cfg(test)]
    pub(crate) fn idle(&self) -> impl Iterator<Item = &Rule> {
        self.idle.iter().map(|id| &self.entries[id].rule)
    }

    /// Those of [`idle`](Self::idle) that were not told yet; they count as told from now on.
    pub(crate) fn take_untold(&mut self) -> Vec<RuleId> {
        let untold: Vec<RuleId> = self.idle.iter().copied().filter(|id| !self.entries[id].told).collect();
        for id in &untold {
            if let Some(entry) = self.entries.get_mut(id) {
                entry.told = true;
            }
        }
        untold
    }

    /// Changes an entry and keeps what is counted of it in step.
    fn change(&mut self, id: RuleId, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        let (missing, held) = (entry.is_missing(), entry.held && !entry.retired);
        change(entry);
        let idle = entry.is_idle();
        let (missing_now, held_now) = (entry.is_missing(), entry.held && !entry.retired);
        self.missing = self.missing + usize::from(missing_now) - usize::from(missing);
        self.held = self.held + usize::from(held_now) - usize::from(held);
        match idle {
            true => drop(self.idle.insert(id)),
            false => drop(self.idle.remove(&id)),
        }
    }

    fn forget(&mut self, id: RuleId) {
        if self.entries.get(&id).is_some_and(|entry| entry.retired && entry.bound == 0) {
            self.entries.remove(&id);
            self.idle.remove(&id);
        }
    }
}

impl fmt::Display for ParentRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let optional = if self.optional { " (optional)" } else { "" };
        write!(f, "{}: {}{optional}", self.name, self.bind)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rule(name: &str, priority: i64, bind: Vec<(String, Condition)>) -> Rule {
        Rule { name: name.to_owned(), priority, bind: BindRule::new(bind), ..Rule::default() }
    }

    fn some_bind() -> impl Strategy<Value = Vec<(String, Condition)>> {
        let values = || prop::collection::vec(prop::sample::select(vec!["0", "1", "2"]), 1..3);
        let texts = |values: Vec<&str>| values.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let condition = prop_oneof![
            3 => values().prop_map(move |values| Condition::OneOf(texts(values))),
            1 => values().prop_map(move |values| Condition::NoneOf(texts(values))),
            1 => values().prop_map(move |values| Condition::Optional(texts(values))),
        ];
        prop::collection::vec((prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned), condition), 1..4)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_choice_is_the_first_that_matches_by_priority_then_by_the_manifest(
            binds in prop::collection::vec((some_bind(), -2..3_i64), 1..12),
            node in prop::collection::btree_map(prop::sample::select(vec!["a", "b", "c"]), prop::sample::select(vec!["0", "1", "2", "3"]), 0..4),
            held in any::<u16>(),
        ) {
            let list: Vec<Rule> =
                binds.into_iter().enumerate().map(|(n, (bind, priority))| rule(&n.to_string(), priority, bind)).collect();
            let mut rules = Rules::new(list.clone());
            for n in 0..list.len() {
                rules.hold(RuleId(n as u32), held >> n & 1 == 1);
            }
            let properties: Properties = node.into_iter().collect();
            let free = list.iter().enumerate().filter(|(n, rule)| held >> n & 1 == 0 && rule.bind.matches(&properties));
            let expected = free.min_by_key(|(n, rule)| (Reverse(rule.priority), *n)).map(|(n, _)| RuleId(n as u32));
            prop_assert_eq!(rules.choose(&properties, |_| true), expected);
        }
    }

    #[test]
    fn rules_that_share_a_value_are_listed_under_another_one_where_they_have_it() {
        let all = (0..100).map(|n| {
            let one = |value: String| Condition::OneOf(vec![value]);
            let bind = vec![("protocol".into(), one("block".into())), ("parent".into(), one(n.to_string()))];
            rule(&format!("r{n}"), 0, bind)
        });
        let rules = Rules::new(all.collect());
        assert!(rules.by_value.values().all(|listed| listed.len() == 1), "{:?}", rules.by_value);
    }
}
