//! Properties of nodes.

/// The properties of one node: names and values, both text, in the order in which they were given. A name stands once;
/// the last value counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties(Vec<(String, String)>);

impl Properties {
    /// The value of a property.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// All properties.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same without one.
    pub(crate) fn without(&self, name: &str) -> Properties {
        Properties(self.0.iter().filter(|(known, _)| known != name).cloned().collect())
    }

    /// Adds a property unless there is one of that name already.
    pub(crate) fn add_default(&mut self, name: &str, value: &str) {
        if self.get(name).is_none() {
            self.0.push((name.to_owned(), value.to_owned()));
        }
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Properties {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(properties: I) -> Self {
        let mut all = Properties::default();
        for (name, value) in properties {
            let (name, value) = (name.into(), value.into());
            match all.0.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known = value,
                None => all.0.push((name, value)),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> Properties {
        Properties::from_iter([("protocol", "block"), ("bus", "0")])
    }

    #[test]
    fn properties_keep_their_order_and_the_last_value_of_a_name_counts() {
        let properties = Properties::from_iter([("z", "1"), ("a", "2"), ("z", "3")]);
        assert_eq!(properties.iter().collect::<Vec<_>>(), [("z", "3"), ("a", "2")]);
    }

    #[test]
    fn a_default_property_does_not_replace_one_that_was_given() {
        let mut properties = node();
        properties.add_default("bus", "7");
        properties.add_default("name", "disk");
        assert_eq!((properties.get("bus"), properties.get("name")), (Some("0"), Some("disk")));
    }
}
