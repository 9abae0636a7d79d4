//! `fuchsine check`, and how `run` gets what it runs.

use std::io::Write;
use std::path::Path;

use fuchsine_host::{Manifest, ManifestError, Plan};

use crate::args::{CheckOptions, LogOptions, Settings};
use crate::built_in;
use crate::exit::Exit;
use crate::{discovery, logging, output};

/// Checks a manifest, the one that `run` would find if none is named: exit 0 and a line on standard output, or exit 4 and all mistakes on standard error. What is
/// probably not meant is told there too and is no mistake.
pub(crate) fn check(options: &CheckOptions, log: &LogOptions) -> Exit {
    let Some(path) = discovery::manifest(options.manifest.as_deref()) else {
        // A closed standard error leaves nobody to tell.
        let _ = writeln!(std::io::stderr(), "error: there is no manifest to check; name one, or set FUCHSINE_MANIFEST");
        return Exit::Usage;
    };
    match prepare(Some(&path), &options.settings) {
        Ok(Prepared { plan, .. }) => {
            logging::report_warnings(plan.warnings(), log);
            let names: Vec<_> = plan.drivers().iter().map(|driver| driver.name()).collect();
            output::finish(&format!("{}: ok, drivers: {}\n", path.display(), names.join(", ")))
        }
        Err(error) => {
            logging::report(&error, log);
            Exit::ConfigInvalid
        }
    }
}

/// A manifest that was read, and what it comes to with the drivers that there are.
pub(crate) struct Prepared {
    pub(crate) manifest: Manifest,
    pub(crate) plan: Plan,
}

/// Reads a manifest (the built-in one if there is none), puts the settings on top and checks it all.
pub(crate) fn prepare(manifest: Option<&Path>, settings: &Settings) -> Result<Prepared, ManifestError> {
    let mut manifest = match manifest {
        Some(path) => Manifest::load(path)?,
        None => Manifest::built_in(),
    };
    // Mistakes in settings and mistakes in the manifest are told together.
    let set = manifest.set(settings.set.iter().cloned());
    let plan = manifest.plan(&built_in::registry());
    let plan = match (set, plan) {
        (Ok(()), plan) => plan?,
        (Err(settings), Ok(_)) => return Err(settings),
        (Err(settings), Err(manifest)) => return Err(manifest.and(settings)),
    };
    Ok(Prepared { manifest, plan })
}
