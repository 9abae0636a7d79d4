//! Rules that can never match, as far as a manifest alone can tell.

use std::cmp::Reverse;

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
        for (n, driver) in drivers.iter().enumerate() {
            let Some(spec) = self.drivers.get(n) else { continue };
            let place = spec.name_place.clone();
            let places = spec.bind.as_ref().map(|bound_to| bound_to.places.as_slice()).unwrap_or_default();
            self.warn_of(&driver.name, &driver.bind, (&place, places), &mut warnings);
            for (parent, place) in &spec.parents {
                self.warn_of(&format!("{}.{}", driver.name, parent.name), &parent.bind, (place, &[]), &mut warnings);
            }
            if let Some(first) = shadowing(n, drivers) {
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
        (place, places): (&Place, &[Place]),
        warnings: &mut Vec<Diagnostic>,
    ) {
        if let Some(property) = bind.contradiction() {
            let message = format!("`{name}` can never be bound: no value of `{property}` is as its rule asks");
            warnings.push(Diagnostic::at(place.clone(), message).warning());
        }
        for (n, (property, condition)) in bind.conditions().enumerate() {
            let (Condition::OneOf(values), "parent") = (condition, property) else { continue };
            if values.iter().any(|value| self.driver_names().any(|known| known == value)) {
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

/// The driver that is asked before this one about each node that this one would take.
fn shadowing(n: usize, drivers: &[PlannedDriver]) -> Option<&str> {
    let this = &drivers[n];
    let before = drivers
        .iter()
        .enumerate()
        .filter(|(m, other)| (Reverse(other.priority), *m) < (Reverse(this.priority), n) && other.parents.is_empty());
    // Only neighbours in kind are compared: a manifest of thousands is checked in the time of a few.
    let mut before = before.map(|(_, other)| other).take(MAX_COMPARED);
    before.find(|other| this.parents.is_empty() && this.bind.implies(&other.bind)).map(|other| other.name.as_str())
}

/// So many drivers that come first are looked at for each driver.
const MAX_COMPARED: usize = 500;
