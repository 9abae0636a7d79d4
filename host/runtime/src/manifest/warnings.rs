//! Rules that can never match, as far as a manifest alone can tell.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::diagnostic::Diagnostic;
use super::plan::PlannedDriver;
use super::source::Place;
use super::spec::Manifest;
use super::suggest::{did_you_mean, list};
use crate::node::{BindRule, Condition};

impl Manifest {
    /// What is probably not meant so, in the order of the text.
    pub(super) fn warnings(&self, drivers: &[PlannedDriver]) -> Vec<Diagnostic> {
        let mut warnings = Vec::new();
        let names: HashSet<&str> = self.driver_names().collect();
        let shadowed = shadowed(drivers);
        for (n, driver) in drivers.iter().enumerate() {
            let Some(spec) = self.drivers.get(n) else { continue };
            let place = spec.name_place.clone();
            let places = spec.bind.as_ref().map(|bound_to| bound_to.places.as_slice()).unwrap_or_default();
            self.warn_of(&driver.name, &driver.bind, &names, (&place, places), &mut warnings);
            for (parent, place) in &spec.parents {
                self.warn_of(
                    &format!("{}.{}", driver.name, parent.name),
                    &parent.bind,
                    &names,
                    (place, &[]),
                    &mut warnings,
                );
            }
            if let Some(first) = shadowed.get(&n) {
                let message = format!("`{}` never gets a node: `{first}` takes each node that it matches", driver.name);
                let help = "give it a higher `priority`, or make the rule of the other one narrower";
                warnings.push(Diagnostic::at(place, message).warning().help(help));
            }
        }
        warnings.sort_by_key(|warning| warning.place().map(Place::start));
        warnings
    }

    fn warn_of(
        &self,
        name: &str,
        bind: &BindRule,
        names: &HashSet<&str>,
        (place, places): (&Place, &[Place]),
        warnings: &mut Vec<Diagnostic>,
    ) {
        if let Some(property) = bind.contradiction() {
            let message = format!("`{name}` can never be bound: no value of `{property}` is as its rule asks");
            warnings.push(Diagnostic::at(place.clone(), message).warning());
        }
        for (n, (property, condition)) in bind.conditions().enumerate() {
            let (Condition::OneOf(values), "parent") = (condition, property) else { continue };
            if values.iter().any(|value| names.contains(value.as_str())) {
                continue;
            }
            let hint = values.first().map(|value| did_you_mean(value, self.driver_names())).unwrap_or_default();
            let message = format!(
                "`{name}` waits for a node of `{}`, which this manifest does not run{hint}",
                values.join("` or `")
            );
            let help = format!("its drivers: {}", list(self.driver_names()));
            let place = places.get(n).unwrap_or(place).clone();
            warnings.push(Diagnostic::at(place, message).warning().help(help));
        }
    }
}

/// For each driver that never gets a node, the one that takes them all.
fn shadowed(drivers: &[PlannedDriver]) -> HashMap<usize, &str> {
    let mut order: Vec<usize> = (0..drivers.len()).filter(|&n| !drivers[n].bind.is_empty()).collect();
    order.sort_by_key(|&n| (Reverse(drivers[n].priority), n));
    let mut before = Before::default();
    let mut found = HashMap::new();
    for n in order {
        let bind = &drivers[n].bind;
        if let Some(first) = before.candidates(bind).find(|&m| bind.implies(&drivers[m].bind)) {
            found.insert(n, drivers[first].name.as_str());
        }
        before.list(n, bind);
    }
    found
}

/// The rules that are asked before, each under one value that it needs: a rule that implies another needs it too, so a
/// manifest of thousands is not compared each with each.
#[derive(Default)]
struct Before<'a> {
    by_value: HashMap<(&'a str, &'a str), Vec<usize>>,
    others: Vec<usize>,
}

impl<'a> Before<'a> {
    fn needed(bind: &'a BindRule) -> impl Iterator<Item = (&'a str, &'a [String])> {
        bind.conditions().filter_map(|(name, condition)| match condition {
            Condition::OneOf(values) => Some((name, values.as_slice())),
            _ => None,
        })
    }

    fn candidates(&self, bind: &'a BindRule) -> impl Iterator<Item = usize> {
        let values =
            Self::needed(bind).flat_map(|(name, values)| values.iter().map(move |value| (name, value.as_str())));
        let listed = values.filter_map(|value| self.by_value.get(&value)).flatten();
        listed.chain(&self.others).copied()
    }

    fn list(&mut self, n: usize, bind: &'a BindRule) {
        let crowd = |(name, values): &(&'a str, &'a [String])| {
            let listed = values.iter().map(|value| self.by_value.get(&(*name, value.as_str())).map_or(0, Vec::len));
            listed.max()
        };
        match Self::needed(bind).min_by_key(crowd) {
            Some((name, values)) => {
                for value in values {
                    self.by_value.entry((name, value.as_str())).or_default().push(n);
                }
            }
            None => self.others.push(n),
        }
    }
}
