//! Properties of nodes, and the rule by which a driver asks for some.

use std::collections::BTreeMap;
use std::fmt;

/// The properties of one node: names and values, both text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, String>);

impl Properties {
    /// The value of a property.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All properties by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a property unless there is one of that name already.
    pub(crate) fn add_default(&mut self, name: &str, value: &str) {
        self.0.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Properties {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(properties: I) -> Self {
        Properties(properties.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// What a driver asks of a node: equality of all listed properties.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BindRule(Vec<(String, String)>);

impl BindRule {
    pub(crate) fn new<N: Into<String>, V: Into<String>>(properties: impl IntoIterator<Item = (N, V)>) -> BindRule {
        BindRule(properties.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }

    /// Whether nothing is asked for. Such a driver binds to no node of another driver: it gets one of its own.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, properties: &Properties) -> bool {
        !self.is_empty() && self.0.iter().all(|(name, value)| properties.get(name) == Some(value.as_str()))
    }
}

impl fmt::Display for BindRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (name, value)) in self.0.iter().enumerate() {
            let separator = if n == 0 { "" } else { ", " };
            write!(f, "{separator}{name} = {value:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Properties {
        Properties::from_iter([("protocol", "block"), ("bus", "0")])
    }

    #[test]
    fn a_rule_matches_only_if_all_its_properties_are_equal() {
        assert!(BindRule::new([("protocol", "block")]).matches(&node()));
        assert!(BindRule::new([("protocol", "block"), ("bus", "0")]).matches(&node()));
        assert!(!BindRule::new([("protocol", "block"), ("bus", "1")]).matches(&node()));
        assert!(!BindRule::new([("protocol", "network")]).matches(&node()));
        assert!(!BindRule::new([("speed", "0")]).matches(&node()));
    }

    #[test]
    fn an_empty_rule_matches_no_node() {
        assert!(!BindRule::default().matches(&node()));
        assert!(!BindRule::default().matches(&Properties::default()));
    }

    #[test]
    fn a_default_property_does_not_replace_one_that_was_given() {
        let mut properties = node();
        properties.add_default("bus", "7");
        properties.add_default("name", "disk");
        assert_eq!((properties.get("bus"), properties.get("name")), (Some("0"), Some("disk")));
    }
}
