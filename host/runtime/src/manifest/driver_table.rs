//! What a `[drivers.NAME]` table says about binding and about policies.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::Diagnostic;
use super::kind;
use super::parse::{Reader, in_text_order, is_name, property_text};
use super::source::Place;
use super::spec::BoundTo;
use crate::apart::ProcessName;
use crate::node::{BindRule, Condition};
use crate::supervisor::{Backoff, Limit, OnPanic, ParentRule, Policy, Restart};

const RESTARTS: &[&str] = &["never", "on-failure", "always"];
const PANICS: &[&str] = &["restart", "stop", "abort"];
const PARENT_KEYS: &[&str] = &["bind", "optional"];
const BACKOFF_KEYS: &[&str] = &["initial", "factor", "max"];
const LIMIT_KEYS: &[&str] = &["count", "within"];

const CONDITION: &str = "a string, integer or boolean, an array of them, `{ not = … }` or `{ optional = … }`";

/// What a wait or a time limit may be.
const DURATION: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(24 * 60 * 60);

impl Reader {
    pub(super) fn bind(&mut self, table: &DeTable<'_>) -> BoundTo {
        let (mut conditions, mut places) = (Vec::new(), Vec::new());
        for (key, value) in in_text_order(table) {
            match condition(value.get_ref()) {
                Some(condition) => {
                    conditions.push((key.get_ref().to_string(), condition));
                    places.push(self.source.place(value.span()));
                }
                None => self.expected(value, &format!("property `{}`", key.get_ref()), CONDITION),
            }
        }
        BoundTo { rule: BindRule::new(conditions), places }
    }

    /// The parents of a composite; none for any other driver.
    pub(super) fn parents(&mut self, table: &DeTable<'_>, has_bind: bool) -> Vec<(ParentRule, Place)> {
        let Some(parents) = self.subtable(table, "parents") else { return Vec::new() };
        let place = table.get_key_value("parents").map(|(key, _)| self.source.place(key.span()));
        let place = place.unwrap_or_else(|| self.source.place(0..0));
        if has_bind {
            let message = "a driver has either `bind` or `parents`";
            let help = "with `parents` it is started on several nodes at once, each of which has a `bind` of its own";
            self.diagnostics.push(Diagnostic::at(place.clone(), message).help(help));
        }
        if parents.is_empty() {
            let help = "write one table a parent, such as `[drivers.mirror.parents.left]`";
            self.diagnostics.push(Diagnostic::at(place, "`parents` names no parent").help(help));
        }
        in_text_order(parents).into_iter().filter_map(|(key, value)| self.parent(key, value)).collect()
    }

    fn parent(
        &mut self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> Option<(ParentRule, Place)> {
        let (name, place) = (key.get_ref().to_string(), self.source.place(key.span()));
        if !is_name(&name) {
            let message = format!("`{name}` cannot name a parent: letters, digits, `-` and `_` are allowed");
            self.diagnostics.push(Diagnostic::at(place, message));
            return None;
        }
        let table = self.as_table(value, &format!("parents.{name}"))?;
        self.refuse_unknown(table, PARENT_KEYS, &format!("parent `{name}`"));
        let bind = self.subtable(table, "bind").map(|bind| self.bind(bind).rule).unwrap_or_default();
        if bind.is_empty() {
            let message = format!("parent `{name}` has no `bind`, so no node would ever be it");
            self.diagnostics.push(Diagnostic::at(place.clone(), message));
        }
        let optional = self.boolean(table, "optional").unwrap_or_default();
        Some((ParentRule { name, bind, optional }, place))
    }

    /// The process that a driver is to run in, if that is another one.
    pub(super) fn process(&mut self, table: &DeTable<'_>) -> Option<ProcessName> {
        let (text, span) = self.string(table, "process")?;
        match text {
            "own" => Some(ProcessName::Own),
            name if is_name(name) => Some(ProcessName::Named(name.to_owned())),
            name => {
                let message = format!("`{name}` cannot name a process: letters, digits, `-` and `_` are allowed");
                let help = "\"own\" is a process for this driver alone; drivers with the same name here are in one";
                self.diagnostics.push(Diagnostic::at(self.source.place(span), message).help(help));
                None
            }
        }
    }

    pub(super) fn policy(&mut self, table: &DeTable<'_>) -> Policy {
        let restart = match self.one_of(table, "restart", "restart policy", RESTARTS).as_deref() {
            Some("on-failure") => Restart::OnFailure,
            Some("always") => Restart::Always,
            _ => Restart::Never,
        };
        let on_panic = match self.one_of(table, "on_panic", "panic policy", PANICS).as_deref() {
            Some("restart") => OnPanic::Restart,
            Some("stop") => OnPanic::Stop,
            Some("abort") => OnPanic::Abort,
            _ => OnPanic::AsFailure,
        };
        let rematch = self.boolean(table, "rematch").unwrap_or_default();
        let stop_timeout = self.duration(table, "stop_timeout");
        let mut policy = Policy { restart, on_panic, rematch, stop_timeout, ..Policy::default() };
        if let Some(backoff) = self.subtable(table, "backoff") {
            self.refuse_unknown(backoff, BACKOFF_KEYS, "`backoff`");
            let default = Backoff::default();
            let initial = self.duration(backoff, "initial").unwrap_or(default.initial);
            policy.backoff = Backoff {
                initial,
                factor: self.integer(backoff, "factor", 1..101).map_or(default.factor, |factor| factor as u32),
                max: self.duration(backoff, "max").unwrap_or(default.max.max(initial)),
            };
            if policy.backoff.max < initial
                && let Some(max) = backoff.get("max")
            {
                let place = self.source.place(max.span());
                self.diagnostics.push(Diagnostic::at(place, "`max` must not be shorter than `initial`"));
            }
        }
        if let Some(limit) = self.subtable(table, "limit") {
            self.refuse_unknown(limit, LIMIT_KEYS, "`limit`");
            let default = Limit::default();
            policy.limit = Limit {
                count: self.integer(limit, "count", 1..1_000_001).map_or(default.count, |count| count as u32),
                within: self.duration(limit, "within").unwrap_or(default.within),
            };
        }
        policy
    }

    pub(super) fn boolean(&mut self, table: &DeTable<'_>, key: &str) -> Option<bool> {
        let value = table.get(key)?;
        let truth = value.get_ref().as_bool();
        if truth.is_none() {
            self.expected(value, &format!("`{key}`"), "`true` or `false`");
        }
        truth
    }

    fn duration(&mut self, table: &DeTable<'_>, key: &str) -> Option<Duration> {
        let (text, span) = self.string(table, key)?;
        let duration = kind::duration(text).filter(|duration| DURATION.contains(duration));
        if duration.is_none() {
            let message = format!("`{key}` must be a duration from \"1ms\" to \"24h\", such as \"250ms\" or \"5s\"");
            self.diagnostics.push(Diagnostic::at(self.source.place(span), message));
        }
        duration
    }
}

/// What a rule asks of one property.
fn condition(value: &DeValue<'_>) -> Option<Condition> {
    match value {
        DeValue::Table(table) if table.len() == 1 => {
            let (key, value) = table.iter().next()?;
            let values = values(value.get_ref())?;
            match key.get_ref().as_ref() {
                "not" => Some(Condition::NoneOf(values)),
                "optional" => Some(Condition::Optional(values)),
                _ => None,
            }
        }
        value => values(value).map(Condition::OneOf),
    }
}

/// One value, or several.
fn values(value: &DeValue<'_>) -> Option<Vec<String>> {
    match value {
        DeValue::Array(values) if !values.is_empty() => {
            values.iter().map(|value| property_text(value.get_ref())).collect()
        }
        value => property_text(value).map(|value| vec![value]),
    }
}
