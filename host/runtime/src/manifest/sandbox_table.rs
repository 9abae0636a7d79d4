//! What a `sandbox` table says, and whom it counts for: a process, with all drivers in it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::Diagnostic;
use super::kind;
use super::parse::Reader;
use super::plan::PlannedDriver;
use super::source::Place;
use super::spec::DriverSpec;
use crate::apart::{Apart, ProcessName};
use crate::process::{Enforce, Refusal, Sandbox, SystemCalls};

const SANDBOX_KEYS: &[&str] = &[
    "read",
    "write",
    "execute",
    "network",
    "unix_sockets",
    "system_calls",
    "allow_calls",
    "refuse_calls",
    "refused_calls",
    "no_new_privileges",
    "memory",
    "files",
    "processes",
    "cpu_seconds",
    "core",
    "user",
    "group",
    "groups",
    "capabilities",
    "enforce",
];

/// No limit is larger than this.
const MOST: i64 = 1 << 53;
/// A process needs a few descriptors before any driver is in it.
const FEWEST_FILES: i64 = 32;

const SIZE: &str = "a size: a number of bytes, or text such as \"64MiB\"";

/// A sandbox, with where it was said.
#[derive(Debug, Clone)]
pub(crate) struct SandboxSpec {
    pub(crate) sandbox: Sandbox,
    pub(crate) place: Place,
}

impl Reader {
    /// The sandbox of a driver's process.
    pub(super) fn sandbox(&mut self, table: &DeTable<'_>) -> Option<SandboxSpec> {
        let place = table.get_key_value("sandbox").map(|(key, _)| self.source.place(key.span()))?;
        let keys = self.subtable(table, "sandbox")?;
        self.refuse_unknown(keys, SANDBOX_KEYS, "`sandbox`");
        if !table.contains_key("process") {
            let message = "`sandbox` counts for a process, and this driver is in that of the host";
            let help = "say `process = \"own\"` too";
            self.diagnostics.push(Diagnostic::at(place.clone(), message).help(help));
        }
        let default = Sandbox::default();
        let truth = |it: &mut Reader, key, default| it.boolean(keys, key).unwrap_or(default);
        let mut sandbox = Sandbox {
            no_new_privileges: truth(self, "no_new_privileges", default.no_new_privileges),
            network: truth(self, "network", default.network),
            unix_sockets: truth(self, "unix_sockets", default.unix_sockets),
            ..default
        };
        sandbox.read = self.absolute_paths(keys, "read");
        sandbox.write = self.absolute_paths(keys, "write");
        sandbox.execute = self.absolute_paths(keys, "execute");
        match self.one_of(keys, "system_calls", "list of system calls", &["default", "any"]).as_deref() {
            Some("any") => sandbox.system_calls = SystemCalls::Any,
            _ => sandbox.system_calls = SystemCalls::Default,
        }
        sandbox.allow_calls = self.texts(keys, "allow_calls");
        sandbox.refuse_calls = self.texts(keys, "refuse_calls");
        match self.one_of(keys, "refused_calls", "end of refused calls", &["error", "kill"]).as_deref() {
            Some("kill") => sandbox.refused_calls = Refusal::Kill,
            _ => sandbox.refused_calls = Refusal::Error,
        }
        sandbox.memory = self.size(keys, "memory");
        sandbox.core = self.size(keys, "core").unwrap_or_default();
        sandbox.files = self.integer(keys, "files", FEWEST_FILES..MOST).map(|count| count as u64);
        sandbox.processes = self.integer(keys, "processes", 1..MOST).map(|count| count as u64);
        sandbox.cpu_seconds = self.integer(keys, "cpu_seconds", 1..MOST).map(|count| count as u64);
        sandbox.user = self.account(keys, "user");
        sandbox.group = self.account(keys, "group");
        sandbox.groups = self.texts(keys, "groups");
        sandbox.capabilities = self.texts(keys, "capabilities");
        match self.one_of(keys, "enforce", "way to enforce a sandbox", &["required", "best-effort"]).as_deref() {
            Some("best-effort") => sandbox.enforce = Enforce::BestEffort,
            _ => sandbox.enforce = Enforce::Required,
        }
        if let Err(error) = sandbox.check() {
            let diagnostic = Diagnostic::at(place.clone(), error.message());
            self.diagnostics.push(match error.what_to_do() {
                Some(help) => diagnostic.help(help),
                None => diagnostic,
            });
        }
        Some(SandboxSpec { sandbox, place })
    }

    /// As [`paths`](Self::paths), from the root: the process that opens them is another one.
    fn absolute_paths(&mut self, table: &DeTable<'_>, key: &str) -> Vec<PathBuf> {
        let paths = self.paths(table, key);
        paths.into_iter().map(|path| std::path::absolute(&path).unwrap_or(path)).collect()
    }

    fn texts(&mut self, table: &DeTable<'_>, key: &str) -> Vec<String> {
        let Some(value) = table.get(key) else { return Vec::new() };
        let texts = value.get_ref().as_array().and_then(|items| {
            items.iter().map(|item| item.get_ref().as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        });
        if texts.is_none() {
            self.expected(value, &format!("`{key}`"), "an array of strings");
        }
        texts.unwrap_or_default()
    }

    fn size(&mut self, table: &DeTable<'_>, key: &str) -> Option<u64> {
        let value = table.get(key)?;
        let size = match value.get_ref() {
            DeValue::String(text) => kind::bytes(text),
            DeValue::Integer(_) => return self.integer(table, key, 0..MOST).map(|bytes| bytes as u64),
            _ => None,
        };
        if size.is_none() {
            self.expected(value, &format!("`{key}`"), SIZE);
        }
        size
    }

    /// A name, or a number.
    fn account(&mut self, table: &DeTable<'_>, key: &str) -> Option<String> {
        let value: &Spanned<DeValue<'_>> = table.get(key)?;
        match value.get_ref() {
            DeValue::String(name) => Some(name.to_string()),
            DeValue::Integer(_) => self.integer(table, key, 0..i64::from(u32::MAX)).map(|number| number.to_string()),
            _ => {
                self.expected(value, &format!("`{key}`"), "a name or a number");
                None
            }
        }
    }
}

/// Gives all drivers of a process the sandbox that one of them says. Modules that are in it may be read there.
pub(super) fn share(drivers: &mut [PlannedDriver], specs: &[DriverSpec], diagnostics: &mut Vec<Diagnostic>) {
    let mut named: BTreeMap<&str, &SandboxSpec> = BTreeMap::new();
    for spec in specs {
        let (Some(ProcessName::Named(process)), Some(sandbox)) = (&spec.process, &spec.sandbox) else { continue };
        let first = *named.entry(process).or_insert(sandbox);
        if first.sandbox != sandbox.sandbox {
            let message = format!("the drivers of process `{process}` have different sandboxes");
            let help = format!("say it with one of them, it counts for all; the other one is at {}", first.place);
            diagnostics.push(Diagnostic::at(sandbox.place.clone(), message).help(help));
        }
    }
    let module_of = |driver: &PlannedDriver| {
        driver.apart.as_ref().and_then(|apart| Some((apart.process.clone(), apart.module.as_ref()?.path.clone())))
    };
    let modules: Vec<(ProcessName, PathBuf)> = drivers.iter().filter_map(module_of).collect();
    for driver in drivers {
        let Some(apart) = &driver.apart else { continue };
        let said = match &apart.process {
            ProcessName::Own => {
                specs.iter().find(|spec| spec.name == driver.name).and_then(|spec| spec.sandbox.as_ref())
            }
            ProcessName::Named(process) => named.get(process.as_str()).copied(),
        };
        let Some(said) = said else { continue };
        let mut sandbox = said.sandbox.clone();
        match &apart.process {
            ProcessName::Own => sandbox.read.extend(apart.module.iter().map(|module| module.path.clone())),
            named => sandbox
                .read
                .extend(modules.iter().filter(|(process, _)| process == named).map(|(_, path)| path.clone())),
        }
        driver.apart = Some(Arc::new(Apart { sandbox: Some(sandbox), ..Apart::clone(apart) }));
    }
}
