//! What is to run: manifests in TOML, `--set` overrides, and the checks that find every mistake before anything runs.
//!
//! 1. [`parse`](Manifest::parse): text to [`Manifest`], with the place of everything.
//! 2. [`set`](Manifest::set): `--set DRIVER.KEY=VALUE` on top.
//! 3. `plan`: against the drivers that exist.

mod diagnostic;
mod overrides;
mod parse;
mod source;
mod spec;
mod suggest;
#[cfg(test)]
mod tests;

pub use diagnostic::{Diagnostic, ManifestError};
pub use source::{Place, Source};
pub use spec::{LogFormat, LogSettings, Manifest};
