//! The rule by which a driver asks for a node: one condition for each property that matters to it.

use std::fmt;

use super::properties::Properties;

/// What a rule asks of one property.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Condition {
    /// The node has the property, with one of these values.
    OneOf(Vec<String>),
    /// The node does not have the property, or has another value.
    NoneOf(Vec<String>),
    /// The node does not have the property, or has one of these values.
    Optional(Vec<String>),
}

impl Condition {
    /// Whether a node that has the property with this value, or does not have it, meets the condition.
    pub fn accepts(&self, value: Option<&str>) -> bool {
        let listed = |values: &[String]| value.is_some_and(|value| values.iter().any(|known| known == value));
        match self {
            Condition::OneOf(values) => listed(values),
            Condition::NoneOf(values) => !listed(values),
            Condition::Optional(values) => value.is_none() || listed(values),
        }
    }

    /// Whether whatever meets this condition meets the other one too.
    fn implies(&self, other: &Condition) -> bool {
        let all_in = |some: &[String], others: &[String]| some.iter().all(|value| others.contains(value));
        let none_in = |some: &[String], others: &[String]| !some.iter().any(|value| others.contains(value));
        match (self, other) {
            (Condition::OneOf(mine), Condition::OneOf(theirs) | Condition::Optional(theirs)) => all_in(mine, theirs),
            (Condition::OneOf(mine), Condition::NoneOf(theirs)) => none_in(mine, theirs),
            (Condition::Optional(mine), Condition::Optional(theirs)) => all_in(mine, theirs),
            (Condition::Optional(mine), Condition::NoneOf(theirs)) => none_in(mine, theirs),
            (Condition::NoneOf(mine), Condition::NoneOf(theirs)) => all_in(theirs, mine),
            (Condition::Optional(_) | Condition::NoneOf(_), Condition::OneOf(_))
            | (Condition::NoneOf(_), Condition::Optional(_)) => false,
        }
    }

    /// As a sentence about the property: `must be "block"`.
    pub(crate) fn in_words(&self) -> String {
        match self {
            Condition::OneOf(values) => format!("must be {}", quoted(values, " or ")),
            Condition::NoneOf(values) => format!("must not be {}", quoted(values, " or ")),
            Condition::Optional(values) => format!("must be {} where there is one", quoted(values, " or ")),
        }
    }
}

fn quoted(values: &[String], separator: &str) -> String {
    values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(separator)
}

/// What a driver asks of a node: a condition for each property that matters to it, all of which must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BindRule(Vec<(String, Condition)>);

impl BindRule {
    /// Equality of all these properties. Of a name that stands twice both must hold.
    pub fn equal<N: Into<String>, V: Into<String>>(properties: impl IntoIterator<Item = (N, V)>) -> BindRule {
        let one_of = |(name, value): (N, V)| (name.into(), Condition::OneOf(vec![value.into()]));
        BindRule(properties.into_iter().map(one_of).collect())
    }

    /// These conditions.
    pub fn new(conditions: impl IntoIterator<Item = (String, Condition)>) -> BindRule {
        BindRule(conditions.into_iter().collect())
    }

    /// Whether nothing is asked for. Such a driver binds to no node of another driver: it gets one of its own.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The conditions, each with the name of its property.
    pub fn conditions(&self) -> impl Iterator<Item = (&str, &Condition)> {
        self.0.iter().map(|(name, condition)| (name.as_str(), condition))
    }

    /// Whether a node with these properties is what is asked for.
    pub fn matches(&self, properties: &Properties) -> bool {
        !self.is_empty() && self.0.iter().all(|(name, condition)| condition.accepts(properties.get(name)))
    }

    /// Whether each node that this rule matches is matched by the other one too.
    pub(crate) fn implies(&self, other: &BindRule) -> bool {
        // Where several conditions of one name only together imply another, that is not seen.
        let implied = |(name, condition): &(String, Condition)| {
            self.0.iter().any(|(mine, having)| mine == name && having.implies(condition))
        };
        !self.is_empty() && !other.is_empty() && other.0.iter().all(implied)
    }

    /// A property that no node can have as this rule wants it.
    pub(crate) fn contradiction(&self) -> Option<&str> {
        let possible = |name: &str| {
            let of_it = || self.0.iter().filter(|(known, _)| known == name).map(|(_, condition)| condition);
            let values = of_it().filter_map(|condition| match condition {
                Condition::OneOf(values) | Condition::Optional(values) => Some(values),
                Condition::NoneOf(_) => None,
            });
            let some_value = values.flatten().any(|value| of_it().all(|condition| condition.accepts(Some(value))));
            // Of what is only ruled out, no text can say that all values are.
            let open = of_it().all(|condition| matches!(condition, Condition::NoneOf(_)));
            some_value || open || of_it().all(|condition| condition.accepts(None))
        };
        self.0.iter().map(|(name, _)| name.as_str()).find(|name| !possible(name))
    }
}

impl fmt::Display for BindRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (name, condition)) in self.0.iter().enumerate() {
            let separator = if n == 0 { "" } else { ", " };
            match condition {
                Condition::OneOf(values) => match values.as_slice() {
                    [value] => write!(f, "{separator}{name} = {value:?}")?,
                    values => write!(f, "{separator}{name} = [{}]", quoted(values, ", "))?,
                },
                Condition::NoneOf(values) => write!(f, "{separator}{name} not {}", quoted(values, " or "))?,
                Condition::Optional(values) => write!(f, "{separator}{name} absent or {}", quoted(values, " or "))?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node() -> Properties {
        Properties::from_iter([("protocol", "block"), ("bus", "0")])
    }

    fn rule(conditions: &[(&str, Condition)]) -> BindRule {
        BindRule::new(conditions.iter().map(|(name, condition)| ((*name).to_owned(), condition.clone())))
    }

    fn texts(values: &[&str]) -> Vec<String> {
        values.iter().map(|&value| value.to_owned()).collect()
    }

    fn one_of(values: &[&str]) -> Condition {
        Condition::OneOf(texts(values))
    }

    fn none_of(values: &[&str]) -> Condition {
        Condition::NoneOf(texts(values))
    }

    fn optional(values: &[&str]) -> Condition {
        Condition::Optional(texts(values))
    }

    #[test]
    fn a_rule_matches_only_if_all_its_properties_are_equal() {
        assert!(BindRule::equal([("protocol", "block")]).matches(&node()));
        assert!(BindRule::equal([("protocol", "block"), ("bus", "0")]).matches(&node()));
        assert!(!BindRule::equal([("protocol", "block"), ("bus", "1")]).matches(&node()));
        assert!(!BindRule::equal([("protocol", "network")]).matches(&node()));
        assert!(!BindRule::equal([("speed", "0")]).matches(&node()));
        assert!(!BindRule::equal([("bus", "0"), ("bus", "1")]).matches(&node()), "both must hold");
    }

    #[test]
    fn a_set_matches_each_of_its_values_and_no_other() {
        assert!(rule(&[("protocol", one_of(&["net", "block"]))]).matches(&node()));
        assert!(!rule(&[("protocol", one_of(&["net", "serial"]))]).matches(&node()));
        assert!(!rule(&[("speed", one_of(&["slow", "fast"]))]).matches(&node()), "it is not there");
    }

    #[test]
    fn what_is_ruled_out_may_be_absent() {
        assert!(!rule(&[("bus", none_of(&["1", "0"]))]).matches(&node()));
        assert!(rule(&[("bus", none_of(&["1"]))]).matches(&node()));
        assert!(rule(&[("speed", none_of(&["slow"]))]).matches(&node()));
    }

    #[test]
    fn what_is_optional_may_be_absent_but_not_other() {
        assert!(rule(&[("speed", optional(&["slow"]))]).matches(&node()));
        assert!(rule(&[("bus", optional(&["0", "1"]))]).matches(&node()));
        assert!(!rule(&[("bus", optional(&["1"]))]).matches(&node()));
    }

    #[test]
    fn an_empty_rule_matches_no_node() {
        assert!(!BindRule::default().matches(&node()));
        assert!(!BindRule::default().matches(&Properties::default()));
    }

    #[test]
    fn a_rule_reads_as_a_manifest_says_it() {
        let rule = rule(&[
            ("a", one_of(&["1"])),
            ("b", one_of(&["1", "2"])),
            ("c", none_of(&["x"])),
            ("d", optional(&["y", "z"])),
        ]);
        assert_eq!(rule.to_string(), r#"a = "1", b = ["1", "2"], c not "x", d absent or "y" or "z""#);
    }

    #[test]
    fn a_rule_that_no_node_can_meet_is_found() {
        for (conditions, found) in [
            (vec![("a", one_of(&["1"])), ("a", none_of(&["1"]))], Some("a")),
            (vec![("b", one_of(&["1"])), ("a", one_of(&["1"])), ("a", optional(&["2"]))], Some("a")),
            (vec![("a", one_of(&[]))], Some("a")),
            (vec![("a", optional(&["1"])), ("a", none_of(&["1"]))], None),
            (vec![("a", none_of(&["1"]))], None),
            (vec![("a", one_of(&["1", "2"])), ("a", none_of(&["1"]))], None),
        ] {
            assert_eq!(rule(&conditions).contradiction(), found, "{conditions:?}");
        }
    }

    fn condition() -> impl Strategy<Value = Condition> {
        let values = || prop::collection::vec(prop::sample::select(vec!["0", "1", "2"]), 1..3);
        prop_oneof![
            values().prop_map(|values| one_of(&values)),
            values().prop_map(|values| none_of(&values)),
            values().prop_map(|values| optional(&values)),
        ]
    }

    fn some_rule() -> impl Strategy<Value = BindRule> {
        let named = (prop::sample::select(vec!["a", "b"]), condition());
        prop::collection::vec(named, 1..4).prop_map(|conditions| rule(&conditions))
    }

    /// Every node that can matter to rules of these names and values.
    fn all_nodes() -> Vec<Properties> {
        let values = [None, Some("0"), Some("1"), Some("2"), Some("3")];
        let node = |a: Option<&'static str>, b: Option<&'static str>| {
            let both = [a.map(|a| ("a", a)), b.map(|b| ("b", b))];
            both.into_iter().flatten().collect::<Properties>()
        };
        values.iter().flat_map(|&a| values.iter().map(move |&b| node(a, b))).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_a_rule_is_said_to_imply_or_to_rule_out_is_so(first in some_rule(), second in some_rule()) {
            let nodes = all_nodes();
            if first.implies(&second) {
                prop_assert!(nodes.iter().all(|node| !first.matches(node) || second.matches(node)));
            }
            prop_assert_eq!(first.contradiction().is_some(), !nodes.iter().any(|node| first.matches(node)));
        }
    }
}
