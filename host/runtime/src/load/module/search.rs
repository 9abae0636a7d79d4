//! Where modules are looked for, and which of them has a driver of some name.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use fuchsine_driver::abi::ModuleNote;

use super::problem::{ModuleError, ModuleProblem};
use super::{Module, place};

/// The variable whose folders come first.
const VARIABLE: &str = "FUCHSINE_MODULE_PATH";
/// Below the folder of the user's data, and of the system's libraries.
const PLACE: &str = "fuchsine/modules";

/// The folders that modules are looked for in, in this order. The first module that has a driver of the wanted name is
/// taken; which drivers one has, its note says, whatever the name of its file.
///
/// # Examples
/// ```
/// use fuchsine_host::ModulePath;
/// use std::path::Path;
///
/// let path = ModulePath::new(["/srv/drivers"]);
/// assert_eq!(path.folders(), [Path::new("/srv/drivers")]);
/// assert!(path.modules().is_empty());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModulePath(Vec<PathBuf>);

/// A file of a folder that is searched.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FoundModule {
    /// The file, or the folder if that is not searched.
    pub path: PathBuf,
    /// What it says about itself, or why it is not used.
    pub note: Result<ModuleNote, ModuleError>,
}

/// Why no module of a name was found.
#[derive(Debug)]
pub(crate) enum Missed {
    /// None has it. What was refused on the way may have been meant.
    Nowhere { refused: Vec<ModuleError> },
    /// Two of one folder have it.
    Several { first: PathBuf, second: PathBuf },
}

impl FoundModule {
    /// What the file at `path` says about itself; as [`Module::inspect`].
    pub fn inspect(path: &Path) -> FoundModule {
        FoundModule { path: path.to_owned(), note: Module::inspect(path) }
    }
}

impl ModulePath {
    /// These folders. One that does not exist is as good as empty.
    pub fn new<P: Into<PathBuf>>(folders: impl IntoIterator<Item = P>) -> ModulePath {
        ModulePath(folders.into_iter().map(Into::into).collect())
    }

    /// Those of `FUCHSINE_MODULE_PATH` (separated by colons), then those of this user and of the system:
    /// `$XDG_DATA_HOME/fuchsine/modules` (`~/.local/share/fuchsine/modules`), `/usr/local/lib/fuchsine/modules` and
    /// `/usr/lib/fuchsine/modules`.
    pub fn from_environment() -> ModulePath {
        from_variables(|name| env::var_os(name).filter(|value| !value.is_empty()))
    }

    /// The same with further folders, which come after those of `FUCHSINE_MODULE_PATH` and before the others, if this
    /// is [from the environment](Self::from_environment).
    #[must_use]
    pub fn with<P: Into<PathBuf>>(&self, folders: impl IntoIterator<Item = P>) -> ModulePath {
        let own = env::var_os(VARIABLE)
            .map_or(0, |value| env::split_paths(&value).filter(|folder| is_absolute(folder)).count());
        let mut all = self.0.clone();
        let at = own.min(all.len());
        all.splice(at..at, folders.into_iter().map(Into::into));
        ModulePath(all)
    }

    /// The folders.
    pub fn folders(&self) -> Vec<&Path> {
        self.0.iter().map(PathBuf::as_path).collect()
    }

    /// Everything in them that has the name of a shared library, in the order in which it is looked at. Nothing is loaded.
    pub fn modules(&self) -> Vec<FoundModule> {
        self.0.iter().flat_map(|folder| modules_in(folder)).collect()
    }

    /// The file of the module with this driver.
    pub(crate) fn find(&self, driver: &str) -> Result<PathBuf, Missed> {
        let mut refused = Vec::new();
        for folder in &self.0 {
            let mut found: Option<PathBuf> = None;
            for module in modules_in(folder) {
                match (module.note, found.take()) {
                    (Err(error), before) => {
                        refused.push(error);
                        found = before;
                    }
                    (Ok(note), before) if !note.drivers.iter().any(|one| one.name == driver) => found = before,
                    (Ok(_), Some(first)) => return Err(Missed::Several { first, second: module.path }),
                    (Ok(_), None) => found = Some(module.path),
                }
            }
            if let Some(found) = found {
                return Ok(found);
            }
        }
        Err(Missed::Nowhere { refused })
    }
}

fn modules_in(folder: &Path) -> Vec<FoundModule> {
    let names = match place::list(folder) {
        Ok(names) => names,
        Err(error) if *error.problem() == ModuleProblem::Missing => return Vec::new(),
        Err(error) => return vec![FoundModule { path: folder.to_owned(), note: Err(error) }],
    };
    let modules = names.iter().filter(|name| Path::new(name).extension() == Some(OsStr::new("so")));
    modules
        .map(|name| FoundModule::inspect(&folder.join(name)))
        // Other libraries may well lie beside.
        .filter(|found| !matches!(&found.note, Err(error) if *error.problem() == ModuleProblem::NoNote))
        .collect()
}

/// A relative folder would depend on where the host was started: whoever can have it started somewhere else would
/// decide what it loads.
fn is_absolute(folder: &Path) -> bool {
    folder.is_absolute()
}

fn from_variables(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> ModulePath {
    let mut folders: Vec<PathBuf> = Vec::new();
    if let Some(value) = variable(VARIABLE) {
        folders.extend(env::split_paths(&value).filter(|folder| is_absolute(folder)));
    }
    let of_user = variable("XDG_DATA_HOME")
        .map(PathBuf::from)
        .filter(|folder| is_absolute(folder))
        .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/share")).filter(|folder| is_absolute(folder)));
    folders.extend(of_user.map(|data| data.join(PLACE)));
    folders.extend([Path::new("/usr/local/lib").join(PLACE), Path::new("/usr/lib").join(PLACE)]);
    ModulePath(folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(set: &[(&str, &str)]) -> Vec<String> {
        let path = from_variables(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()));
        path.folders().iter().map(|folder| folder.display().to_string()).collect()
    }

    #[test]
    fn the_variable_comes_first_then_the_user_then_the_system() {
        let system = ["/usr/local/lib/fuchsine/modules", "/usr/lib/fuchsine/modules"];
        assert_eq!(folders(&[]), system);
        let all = folders(&[("FUCHSINE_MODULE_PATH", "/a:/b"), ("XDG_DATA_HOME", "/data"), ("HOME", "/h")]);
        assert_eq!(all, ["/a", "/b", "/data/fuchsine/modules", system[0], system[1]]);
        assert_eq!(folders(&[("HOME", "/h")])[0], "/h/.local/share/fuchsine/modules");
    }

    #[test]
    fn a_folder_that_depends_on_where_the_host_was_started_is_none() {
        let all = folders(&[("FUCHSINE_MODULE_PATH", ".:a::/b"), ("XDG_DATA_HOME", "data"), ("HOME", "h")]);
        assert_eq!(all, ["/b", "/usr/local/lib/fuchsine/modules", "/usr/lib/fuchsine/modules"]);
    }
}
