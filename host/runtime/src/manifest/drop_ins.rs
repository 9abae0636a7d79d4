//! A manifest in several files: a folder of them, or one file with a folder of further ones beside it.
//!
//! The files are read in the order of their names, each as a manifest of its own whose relative paths count from its own
//! folder, and are put together. Nothing overrides anything: what two of them say is a mistake that names both, so that the
//! order decides nothing but the order of the drivers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::diagnostic::{Diagnostic, ManifestError};
use super::parse::read;
use super::source::Place;
use super::spec::Manifest;

/// What files of a folder end in that are read.
const EXTENSION: &str = "toml";

/// The folder that belongs to a file: `host.d` to `host.toml`.
const FOLDER: &str = "d";

/// Settings that add up.
const LISTS: &[&str] = &["[host] module_path"];

/// The files that a manifest at `path` consists of.
///
/// # Errors
/// A folder cannot be read, or there is none of them in it.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>, ManifestError> {
    if path.is_dir() {
        let files = in_folder(path)?;
        if files.is_empty() {
            let message = format!("the folder `{}` has no manifest", path.display());
            return Err(Diagnostic::general(message).help("what it has must end in `.toml`").into());
        }
        return Ok(files);
    }
    let beside = path.with_extension(FOLDER);
    let mut files = vec![path.to_owned()];
    if path.extension().is_some() && beside != path && beside.is_dir() {
        files.extend(in_folder(&beside)?);
    }
    Ok(files)
}

/// The manifests of a folder, by name. What editors and packages leave behind does not end so, or begins with a dot.
fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, ManifestError> {
    let failed = |error: std::io::Error| {
        Diagnostic::general(format!("cannot read the folder `{}` of manifests: {error}", folder.display()))
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.extension().is_some_and(|extension| extension == EXTENSION) && !is_hidden && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads these files as one manifest.
///
/// # Errors
/// All that is wrong with each, and what two of them say.
pub(super) fn load(files: &[PathBuf]) -> Result<Manifest, ManifestError> {
    let mut errors: Option<ManifestError> = None;
    let mut whole: Option<Manifest> = None;
    for path in files {
        match read(path).and_then(Manifest::part) {
            Ok(part) => match &mut whole {
                None => whole = Some(part),
                Some(whole) => {
                    if let Err(error) = whole.add(part) {
                        errors = Some(ManifestError::joined(errors, error));
                    }
                }
            },
            Err(error) => errors = Some(ManifestError::joined(errors, error)),
        }
    }
    match (errors, whole) {
        (None, Some(whole)) => whole.checked(),
        (Some(errors), _) => Err(errors),
        (None, None) => Err(Diagnostic::general("there is no manifest to read").into()),
    }
}

impl Manifest {
    /// Puts what another file says beside what is there.
    fn add(&mut self, part: Manifest) -> Result<(), ManifestError> {
        let mut twice = Vec::new();
        let said: BTreeMap<&str, &Place> = self.settings.iter().map(|(key, place)| (key.as_str(), place)).collect();
        for (key, place) in part.settings.iter().filter(|(key, _)| !LISTS.contains(&key.as_str())) {
            if let Some(first) = said.get(key.as_str()) {
                let message = format!("`{key}` is said in two files");
                twice.push(Diagnostic::at(place.clone(), message).help(format!("the other one is at {first}")));
            }
        }
        for driver in &part.drivers {
            if let Some(first) = self.drivers.iter().find(|first| first.name == driver.name) {
                let message = format!("driver `{}` is in two files", driver.name);
                let help = format!("the other one is at {}; a name is for one driver", first.name_place);
                twice.push(Diagnostic::at(driver.name_place.clone(), message).help(help));
            }
        }
        ManifestError::unless_empty(twice, ())?;
        let says = |key: &str| part.settings.iter().any(|(said, _)| said == key);
        if says("[host] stop_timeout_ms") {
            self.stop_timeout = part.stop_timeout;
        }
        self.threads = self.threads.or(part.threads);
        self.control = self.control.take().or(part.control);
        self.log.level = self.log.level.take().or(part.log.level);
        self.log.format = self.log.format.or(part.log.format);
        self.module_path.extend(part.module_path);
        self.drivers.extend(part.drivers);
        self.settings.extend(part.settings);
        Ok(())
    }
}
