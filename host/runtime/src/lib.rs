//! The Fuchsine driver host: registry, node tree, life cycle, manifests.

mod life_cycle;
mod log;
mod manifest;
mod node;
mod registry;
mod supervisor;

pub use fuchsine_driver::{ConfigKey, ConfigKind, DriverEntry};
pub use life_cycle::{InstanceId, Phase};
pub use manifest::{
    Diagnostic, LogFormat, LogSettings, Manifest, ManifestError, Place, Plan, PlannedDriver, Source, kind_name,
};
pub use node::{NodeId, Properties};
pub use registry::{Registry, RegistryError};
pub use supervisor::Failure;
