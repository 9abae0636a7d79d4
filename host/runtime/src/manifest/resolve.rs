//! Which driver a table of the manifest means: one that is linked in, or one of a module, which is loaded for that.

use std::path::{Path, PathBuf};

use fuchsine_driver::abi::{DriverEntry, DriverNote};

use super::diagnostic::Diagnostic;
use super::source::Place;
use super::spec::{DriverSpec, Manifest};
use super::suggest::{did_you_mean, list};
use crate::apart::{Apart, ModuleFile, ProcessName, entry_for};
use crate::load::{Missed, Module, ModuleError, ModulePath};
use crate::registry::{Registry, check_entry};

/// A module that a table names by its file.
#[derive(Debug, Clone)]
pub(crate) struct ModuleSpec {
    /// As it is written, or relative to the folder of the manifest.
    pub(crate) path: PathBuf,
    pub(crate) place: Place,
}

impl Manifest {
    /// Where this manifest has modules looked for: the folders of its own `module_path`, and `modules` beside it.
    fn modules(&self, registry: &Registry) -> ModulePath {
        registry.modules().with(self.module_path.iter().cloned().chain(self.source.beside("modules")))
    }
}

/// The driver that a table means.
pub(super) fn driver(
    spec: &DriverSpec,
    manifest: &Manifest,
    registry: &Registry,
) -> Result<&'static DriverEntry, Diagnostic> {
    if let Some(module) = &spec.module {
        return of_module(spec, module);
    }
    if let Some(entry) = registry.get(&spec.driver) {
        return Ok(entry);
    }
    let (file, path) = found(spec, manifest, registry)?;
    let module = Module::get(&file).map_err(|error| refused(&error, &spec.driver_place))?;
    let entry = module.driver(&spec.driver).ok_or_else(|| nowhere(spec, registry, &path, &[]))?;
    checked(entry, &file, &spec.driver_place)
}

/// The stand-in of the driver that a table means, which runs in another process. Of a module the note is read, and nothing
/// of it is loaded here.
pub(super) fn apart(
    spec: &DriverSpec,
    process: &ProcessName,
    manifest: &Manifest,
    registry: &Registry,
) -> Result<(&'static DriverEntry, Apart), Diagnostic> {
    let (note, file) = match (&spec.module, registry.get(&spec.driver)) {
        (Some(named), _) => (noted(spec, &named.path, &named.place, !spec.driver_is_given)?, Some(named.path.clone())),
        (None, Some(entry)) => (DriverNote::from(entry), None),
        (None, None) => {
            let (file, _) = found(spec, manifest, registry)?;
            (noted(spec, &file, &spec.driver_place, false)?, Some(file))
        }
    };
    let entry = entry_for(&note);
    if let Some(file) = &file {
        checked(entry, file, &spec.driver_place)?;
    }
    let module = file.as_deref().map(ModuleFile::of);
    Ok((entry, Apart { process: process.clone(), driver: note.name, module, sandbox: None }))
}

/// What the note of a module says about the driver that a table means.
fn noted(spec: &DriverSpec, file: &Path, place: &Place, takes_only_one: bool) -> Result<DriverNote, Diagnostic> {
    let note = Module::inspect(file).map_err(|error| refused(&error, place))?;
    match note.drivers.as_slice() {
        [only] if takes_only_one => Ok(only.clone()),
        drivers => match drivers.iter().find(|driver| driver.name == spec.driver) {
            Some(driver) => Ok(driver.clone()),
            None => Err(not_in(spec, file, drivers.iter().map(|driver| driver.name.as_str()))),
        },
    }
}

/// The file of the module that has the driver, and where it was looked for.
fn found(spec: &DriverSpec, manifest: &Manifest, registry: &Registry) -> Result<(PathBuf, ModulePath), Diagnostic> {
    let path = if registry.takes_modules() { manifest.modules(registry) } else { ModulePath::default() };
    match path.find(&spec.driver) {
        Ok(file) => Ok((file, path)),
        Err(Missed::Nowhere { refused }) => Err(nowhere(spec, registry, &path, &refused)),
        Err(Missed::Several { first, second }) => {
            let (first, second) = (first.display(), second.display());
            let message = format!("two modules have a driver `{}`: `{first}` and `{second}`", spec.driver);
            let help = format!("say which: `module = \"{first}\"`");
            Err(Diagnostic::at(spec.driver_place.clone(), message).help(help))
        }
    }
}

fn of_module(spec: &DriverSpec, named: &ModuleSpec) -> Result<&'static DriverEntry, Diagnostic> {
    let module = Module::get(&named.path).map_err(|error| refused(&error, &named.place))?;
    let names = || module.drivers().iter().map(|driver| driver.name());
    let found = match (spec.driver_is_given, module.drivers()) {
        (false, [only]) => Some(*only),
        _ => module.driver(&spec.driver),
    };
    if let Some(entry) = found {
        return checked(entry, module.path(), &named.place);
    }
    Err(not_in(spec, module.path(), names()))
}

fn not_in<'a>(spec: &DriverSpec, file: &Path, names: impl Iterator<Item = &'a str> + Clone) -> Diagnostic {
    let hint = did_you_mean(&spec.driver, names.clone());
    let message = format!("module `{}` has no driver `{}`{hint}", file.display(), spec.driver);
    let help = format!("its drivers: {}; say which with `driver = …`", list(names));
    Diagnostic::at(spec.driver_place.clone(), message).help(help)
}

fn checked(entry: &'static DriverEntry, file: &Path, place: &Place) -> Result<&'static DriverEntry, Diagnostic> {
    match check_entry(entry) {
        Ok(()) => Ok(entry),
        Err(reason) => {
            let message = format!("driver `{}` of module `{}` cannot be used: {reason}", entry.name(), file.display());
            Err(Diagnostic::at(place.clone(), message).help("a mistake of the driver, for its author to repair"))
        }
    }
}

fn refused(error: &ModuleError, place: &Place) -> Diagnostic {
    Diagnostic::at(place.clone(), error.to_string()).help(error.help())
}

fn nowhere(spec: &DriverSpec, registry: &Registry, path: &ModulePath, refused: &[ModuleError]) -> Diagnostic {
    let hint = did_you_mean(&spec.driver, registry.names());
    let message = format!("there is no driver `{}`{hint}", spec.driver);
    let help = format!("the drivers of this program: {}", list(registry.names()));
    let mut diagnostic = Diagnostic::at(spec.driver_place.clone(), message).help(help);
    let folders = path.folders();
    if !folders.is_empty() {
        let folders: Vec<_> = folders.iter().map(|folder| format!("`{}`", folder.display())).collect();
        diagnostic = diagnostic.help(format!("no module in {} has it", folders.join(", ")));
    }
    for error in refused {
        diagnostic = diagnostic.help(format!("not used: {error}; {}", error.help()));
    }
    diagnostic
}
