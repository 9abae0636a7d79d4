//! A manifest against the drivers that exist: what `fuchsine check` checks and what a host runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fuchsine_driver::abi::DriverEntry;
use serde_json::{Map, Value};

use super::diagnostic::{Diagnostic, ManifestError};
use super::kind;
use super::resolve;
use super::sandbox_table;
use super::source::Source;
use super::spec::{DriverSpec, Manifest};
use super::suggest::{did_you_mean, list};
use crate::apart::Apart;
use crate::load::Module;
use crate::node::BindRule;
use crate::registry::Registry;
use crate::supervisor::{ParentRule, Policy, Rule};

/// A manifest that was checked and can be run.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) threads: Option<usize>,
    pub(crate) stop_timeout: Duration,
    pub(crate) drivers: Vec<PlannedDriver>,
    pub(crate) warnings: Vec<Diagnostic>,
}

/// One driver of a plan.
#[derive(Debug, Clone)]
pub struct PlannedDriver {
    pub(crate) name: String,
    pub(crate) entry: &'static DriverEntry,
    pub(crate) bind: BindRule,
    pub(crate) parents: Vec<ParentRule>,
    pub(crate) priority: i64,
    pub(crate) policy: Policy,
    /// One JSON object: all settings, and the defaults of all other keys that have one.
    pub(crate) config: String,
    /// Where it runs, if that is another process; `entry` is its stand-in then.
    pub(crate) apart: Option<Arc<Apart>>,
}

impl Plan {
    /// The drivers, in the order of the manifest.
    pub fn drivers(&self) -> &[PlannedDriver] {
        &self.drivers
    }

    /// How long stopping may take, all drivers together.
    pub fn stop_timeout(&self) -> Duration {
        self.stop_timeout
    }

    /// What can be run, but is probably not what was meant: rules that can never match, for example.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }
}

impl PlannedDriver {
    /// The name in the manifest.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The driver that is run.
    pub fn entry(&self) -> &'static DriverEntry {
        self.entry
    }

    /// The process that it runs in, as the manifest has it: `own`, or a name. `None`: that of the host.
    pub fn process(&self) -> Option<&str> {
        self.apart.as_deref().map(Apart::process_name)
    }

    /// The module that it is from; `None` for one that is linked in.
    pub fn module(&self) -> Option<&Path> {
        match &self.apart {
            Some(apart) => apart.module.as_ref().map(|module| module.path.as_path()),
            None => Module::of(self.entry).map(|module| module.path()),
        }
    }

    /// The properties that a node must have, as text; `None` for a driver that gets a node of its own, and for a
    /// composite, which has [`parents`](Self::parents).
    pub fn binds_to(&self) -> Option<String> {
        (!self.bind.is_empty()).then(|| self.bind.to_string())
    }

    /// What a node must be; empty where [`binds_to`](Self::binds_to) is `None`.
    pub fn bind(&self) -> &BindRule {
        &self.bind
    }

    /// The nodes that a composite is made of; empty for any other driver.
    pub fn parents(&self) -> &[ParentRule] {
        &self.parents
    }

    /// Who of several drivers that match gets a node: the highest; of equal ones the first in the manifest.
    pub fn priority(&self) -> i64 {
        self.priority
    }

    /// What becomes of it when it ends, fails or does not stop.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Whether it gets a node of its own.
    pub(crate) fn has_own_node(&self) -> bool {
        self.bind.is_empty() && self.parents.is_empty()
    }

    pub(crate) fn rule(&self) -> Rule {
        Rule {
            name: self.name.clone(),
            bind: self.bind.clone(),
            parents: self.parents.clone(),
            priority: self.priority,
            policy: self.policy.clone(),
        }
    }

    /// The configuration as the driver gets it: the text of one JSON object.
    pub fn config(&self) -> &str {
        &self.config
    }
}

impl Manifest {
    /// Checks the manifest against the drivers that exist, without running any. The modules that it needs are loaded.
    ///
    /// # Errors
    /// All drivers that do not exist, modules that are not used, keys that a driver does not know, values of the wrong kind and required keys that
    /// are missing.
    pub fn plan(&self, registry: &Registry) -> Result<Plan, ManifestError> {
        let mut diagnostics = Vec::new();
        let mut drivers: Vec<PlannedDriver> =
            self.drivers.iter().filter_map(|spec| planned(spec, self, registry, &mut diagnostics)).collect();
        sandbox_table::share(&mut drivers, &self.drivers, &mut diagnostics);
        if diagnostics.is_empty() && !drivers.iter().any(PlannedDriver::has_own_node) {
            let message = "nothing would ever start: every driver waits for a node of another one";
            let help = "a driver with `bind = {}`, or one that has no bind rule of its own, gets a node of its own";
            let place = self.drivers.first().map(|spec| spec.name_place.clone());
            let place = place.unwrap_or_else(|| self.source.place(0..0));
            diagnostics.push(Diagnostic::at(place, message).help(help));
        }
        // Those of `--set` come last: they stand at the end of the command line.
        diagnostics.sort_by_key(|diagnostic: &Diagnostic| {
            diagnostic.place().map(|place| (place.source().is_override(), place.source().to_string(), place.start()))
        });
        let warnings = if diagnostics.is_empty() { self.warnings(&drivers) } else { Vec::new() };
        let plan = Plan { threads: self.threads, stop_timeout: self.stop_timeout, drivers, warnings };
        ManifestError::unless_empty(diagnostics, plan)
    }
}

impl Manifest {
    /// One more driver beside those of this manifest, as a table of it would say it: `name`, and which `driver` it runs
    /// (the one of that name if it is not said), from which `module` (one that is found if it is not said), and
    /// `KEY=VALUE` settings. Modules are looked for where the manifest has them looked for.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), [`set`](Self::set) and [`plan`](Self::plan).
    pub fn addition<I>(
        &self,
        name: &str,
        driver: Option<&str>,
        module: Option<&Path>,
        settings: I,
        registry: &Registry,
    ) -> Result<PlannedDriver, ManifestError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut table = toml::Table::new();
        table.extend(driver.map(|driver| ("driver".to_owned(), driver.into())));
        if let Some(module) = module {
            let module = module.to_str().ok_or_else(|| Diagnostic::general("the path of the module is not UTF-8"))?;
            table.insert("module".to_owned(), module.into());
        }
        let drivers = toml::Table::from_iter([(name.to_owned(), table.into())]);
        let text = toml::Table::from_iter([("drivers".to_owned(), drivers.into())]).to_string();
        let mut added = Manifest::parse(Source::named("request", text))?;
        added.set(settings.into_iter().map(|setting| format!("{name}.{}", setting.as_ref())))?;
        let mut diagnostics = Vec::new();
        let planned = added.drivers.first().and_then(|spec| planned(spec, self, registry, &mut diagnostics));
        match planned {
            Some(planned) => ManifestError::unless_empty(diagnostics, planned),
            None => Err(ManifestError::unless_empty(diagnostics, ())
                .err()
                .unwrap_or_else(|| Diagnostic::general("there is no driver in it").into())),
        }
    }
}

fn planned(
    spec: &DriverSpec,
    manifest: &Manifest,
    registry: &Registry,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<PlannedDriver> {
    let resolved = match &spec.process {
        None => resolve::driver(spec, manifest, registry).map(|entry| (entry, None)),
        Some(process) => {
            resolve::apart(spec, process, manifest, registry).map(|(entry, apart)| (entry, Some(Arc::new(apart))))
        }
    };
    let (entry, apart) = match resolved {
        Ok(resolved) => resolved,
        Err(diagnostic) => {
            diagnostics.push(diagnostic);
            return None;
        }
    };
    let bind = match &spec.bind {
        Some(bound_to) => bound_to.rule.clone(),
        None if !spec.parents.is_empty() => BindRule::default(),
        None => BindRule::equal(entry.bind()),
    };
    let config = config(spec, entry, diagnostics);
    Some(PlannedDriver {
        name: spec.name.clone(),
        entry,
        bind,
        parents: spec.parents.iter().map(|(parent, _)| parent.clone()).collect(),
        priority: spec.priority,
        policy: spec.policy.clone(),
        config: Value::Object(config).to_string(),
        apart,
    })
}

fn config(spec: &DriverSpec, entry: &'static DriverEntry, diagnostics: &mut Vec<Diagnostic>) -> Map<String, Value> {
    let names = || entry.config().iter().map(|key| key.name());
    for (name, setting) in spec.config.iter().filter(|(name, _)| !names().any(|known| known == name.as_str())) {
        let message = format!("driver `{}` has no key `{name}`{}", spec.driver, did_you_mean(name, names()));
        let help = match entry.config().len() {
            0 => "it takes no configuration".to_owned(),
            _ => format!("its keys: {}", list(names())),
        };
        diagnostics.push(Diagnostic::at(setting.key_place.clone(), message).help(help));
    }
    let mut config = Map::new();
    for key in entry.config() {
        match spec.config.get(key.name()) {
            Some(setting) => match kind::accept(key, setting) {
                Ok(value) => drop(config.insert(key.name().to_owned(), value)),
                Err(message) => {
                    diagnostics.push(Diagnostic::at(setting.value_place.clone(), message).help(key.doc()));
                }
            },
            None if key.is_required() => {
                let message = format!("driver `{}` needs the key `{}`, which is missing", spec.driver, key.name());
                let help = format!("{}; it is {}", key.doc(), kind::description(key.kind()));
                diagnostics.push(Diagnostic::at(spec.name_place.clone(), message).help(help));
            }
            None => {
                // The registry has checked that defaults are valid.
                if let Ok(Some(value)) = kind::default_value(key) {
                    config.insert(key.name().to_owned(), value);
                }
            }
        }
    }
    config
}
