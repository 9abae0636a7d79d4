//! What a manifest says, after parsing and before any driver is known: [`Manifest`] and its parts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::resolve::ModuleSpec;
use super::sandbox_table::SandboxSpec;
use super::source::{Place, Source};
use crate::apart::ProcessName;
use crate::control::ControlPlace;
use crate::node::BindRule;
use crate::supervisor::{ParentRule, Policy};

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// The `[log]` table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogSettings {
    /// A level (`off`, `error`, `warn`, `info`, `debug`, `trace`) or a filter such as `info,nbd=debug`; `None` leaves it
    /// to the command.
    pub level: Option<String>,
    /// The format; `None` leaves it to the command.
    pub format: Option<LogFormat>,
}

/// A manifest: which drivers to run, on which nodes, with what configuration.
///
/// [`Manifest::parse`] checks all that the text alone can tell; [`Manifest::plan`] checks it against the drivers that
/// exist. The format is described in the book's reference, and in short:
///
/// ```toml
/// [host]
/// threads = 2                    # of the pool; default: one a processor, at least 2
/// stop_timeout_ms = 10000        # for all drivers together
/// module_path = ["drivers"]      # folders with loadable modules, besides those that are always searched
/// control = "control.sock"       # the control socket; false: there is none; default: one in the usual folder
///
/// [log]
/// level = "info"
/// format = "text"                # or "json"
///
/// [drivers.disk]                 # the name that messages and --set use
/// driver = "ramdisk"             # which driver; default: the one of the same name
/// module = "libramdisk.so"       # where it is from; default: this program, else a module of the search path
/// process = "own"                # in a process of its own, or in the one of this name; default: in this one
/// sandbox = { memory = "1GiB" }  # fences around that process; default: none
/// config = { size = "64MiB" }    # what that driver understands (`fuchsine drivers` lists it)
///
/// [drivers.nbd]
/// bind = { protocol = "block" }  # start one on each node with all these properties; default: the driver's own rule
/// ```
#[derive(Debug, Clone)]
pub struct Manifest {
    pub(crate) source: Source,
    pub(crate) threads: Option<usize>,
    pub(crate) stop_timeout: Duration,
    pub(crate) log: LogSettings,
    /// `Some(None)`: there is to be none.
    pub(crate) control: Option<Option<ControlPlace>>,
    /// Folders where modules are looked for.
    pub(crate) module_path: Vec<PathBuf>,
    pub(crate) drivers: Vec<DriverSpec>,
    /// What was said of the host and its log, with where: `[host] threads`.
    pub(crate) settings: Vec<(String, Place)>,
}

/// One `[drivers.NAME]` table.
#[derive(Debug, Clone)]
pub(crate) struct DriverSpec {
    pub(crate) name: String,
    pub(crate) name_place: Place,
    /// The name of the driver to run, and where it was said.
    pub(crate) driver: String,
    pub(crate) driver_place: Place,
    /// Whether it was said at all; else it is the name of the table.
    pub(crate) driver_is_given: bool,
    /// The module that it is from, if that was said.
    pub(crate) module: Option<ModuleSpec>,
    /// The process that it runs in, if that is another one.
    pub(crate) process: Option<ProcessName>,
    /// What that process may do.
    pub(crate) sandbox: Option<SandboxSpec>,
    /// What a node must be; `None`: what the driver itself asks for.
    pub(crate) bind: Option<BoundTo>,
    /// The nodes that a composite is made of.
    pub(crate) parents: Vec<(ParentRule, Place)>,
    pub(crate) priority: i64,
    pub(crate) policy: Policy,
    pub(crate) config: BTreeMap<String, Setting>,
}

/// A bind rule, with where it was said.
#[derive(Debug, Clone)]
pub(crate) struct BoundTo {
    pub(crate) rule: BindRule,
    /// Of each condition, its value.
    pub(crate) places: Vec<Place>,
}

/// One value of a driver's configuration, with where it came from.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) value: serde_json::Value,
    pub(crate) key_place: Place,
    pub(crate) value_place: Place,
    /// The text of a `--set` value, which may stand for itself where the key takes a string.
    pub(crate) bare: Option<String>,
}

impl Manifest {
    pub(crate) const DEFAULT_STOP_TIMEOUT: Duration = Duration::from_secs(10);

    /// The built-in manifest: `ramdisk` of 64 MiB, and `nbd` which serves it on `127.0.0.1:10809`.
    ///
    /// # Panics
    /// Never in a build whose tests passed: they parse it.
    pub fn built_in() -> Manifest {
        let source = Source::named("built-in manifest", include_str!("default.toml"));
        Manifest::parse(source).expect("the built-in manifest is valid")
    }

    /// Where the manifest came from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The number of pool threads asked for; `None`: the runtime's default.
    pub fn threads(&self) -> Option<usize> {
        self.threads
    }

    /// How long stopping may take, all drivers together.
    pub fn stop_timeout(&self) -> Duration {
        self.stop_timeout
    }

    /// Where the control socket is to be, if that is said; `Some(None)`: there is to be none.
    pub fn control(&self) -> Option<Option<ControlPlace>> {
        self.control.clone()
    }

    /// The `[log]` table.
    pub fn log(&self) -> &LogSettings {
        &self.log
    }

    /// The names of the drivers, in the order of the manifest.
    pub fn driver_names(&self) -> impl Iterator<Item = &str> {
        self.drivers.iter().map(|driver| driver.name.as_str())
    }
}
