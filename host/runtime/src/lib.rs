//! The Fuchsine driver host: registry, node tree, life cycle, manifests.
//!
//! A [`Manifest`] says which drivers to run; checked against a [`Registry`] of drivers it becomes a [`Plan`]; a [`Host`]
//! runs the plan. The parts, from the pure ones to those that touch the world:
//!
//! - `manifest`, `registry`: what is to run, and every mistake in it, with its place.
//! - `node`, `life_cycle`, `supervisor`: who is bound where, who starts and stops when, as state machines.
//! - `load`: the table of C functions through which drivers talk, over the dispatcher runtime, and the loader of modules;
//!   `net` and `log` serve it. `event_text` goes the other way, from events to texts.
//! - `apart`: drivers in processes of their own, over the channels of [`process`].
//! - `host`: carries out what the supervisor decides, and what users hold.
//! - [`control`]: the socket over which a host that runs is asked and told.
//!
//! # Features
//! - `testing`: on a foreground runtime of the testing kit, drivers listen and connect on its simulated network.

mod apart;
pub mod control;
mod event_text;
mod host;
mod life_cycle;
mod load;
mod log;
mod manifest;
mod net;
mod node;
pub mod process;
mod registry;
mod supervisor;

pub use apart::run_driver_process;
pub use event_text::log_panics;
pub use fuchsine_driver::abi::{DriverNote, KeyNote, ModuleNote};
pub use fuchsine_driver::{ConfigKey, ConfigKind, DriverEntry};
pub use host::{
    DriverInfo, DriverState, DriverSummary, Heartbeat, Host, HostBuilder, HostEvent, HostState, NodeInfo, NotStarted,
    StopError, Summary, Target, Waiting,
};
pub use life_cycle::Phase;
pub use load::{FoundModule, Module, ModuleError, ModulePath, ModuleProblem, Writers};
pub use log::LogLine;
pub use manifest::{
    Change, ChangeKind, Diagnostic, LogFormat, LogSettings, Manifest, ManifestError, Place, Plan, PlannedDriver,
    Source, kind_name,
};
pub use node::{BindRule, Condition, Properties};
pub use registry::{Registry, RegistryError};
pub use supervisor::{
    Backoff, Consequence, Explanation, Failure, Limit, Mismatch, Offer, OfferVerdict, OnPanic, OperateError,
    ParentRule, Policy, Restart,
};
