//! The Fuchsine driver host: registry, node tree, life cycle, manifests.

mod life_cycle;
mod manifest;
mod node;
mod supervisor;

pub use life_cycle::{InstanceId, Phase};
pub use manifest::{Diagnostic, LogFormat, LogSettings, Manifest, ManifestError, Place, Source};
pub use node::{NodeId, Properties};
pub use supervisor::Failure;
