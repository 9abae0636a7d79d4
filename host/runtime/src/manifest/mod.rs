//! What is to run: manifests in TOML, `--set` overrides, and the checks that find every mistake before anything runs.
//!
//! 1. [`parse`](Manifest::parse): text to [`Manifest`], with the place of everything.
//! 2. [`set`](Manifest::set): `--set DRIVER.KEY=VALUE` on top.
//! 3. [`plan`](Manifest::plan): against the drivers that exist.

mod brackets;
mod changes;
mod diagnostic;
mod driver_table;
#[cfg(test)]
mod drop_in_tests;
mod drop_ins;
mod kind;
mod overrides;
mod parse;
mod plan;
#[cfg(test)]
mod plan_tests;
mod resolve;
mod sandbox_table;
#[cfg(test)]
mod sandbox_tests;
mod source;
mod spec;
mod suggest;
#[cfg(test)]
mod tests;
mod warnings;

pub use changes::{Change, ChangeKind};
pub use diagnostic::{Diagnostic, ManifestError};
pub(crate) use kind::default_value;
pub use kind::name as kind_name;
pub(crate) use parse::is_name;
pub use plan::{Plan, PlannedDriver};
pub use source::{Place, Source};
pub use spec::{LogFormat, LogSettings, Manifest};
