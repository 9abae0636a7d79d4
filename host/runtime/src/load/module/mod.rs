//! Loadable modules: from a path to drivers.
//!
//! 1. `place`: walk the path and open the file, with no link followed, and check what was opened: nobody but root and
//!    this user may be able to change it.
//! 2. `copy`: copy it into a sealed memory file, which is what everything below is about.
//! 3. `image`: read its head and its note, with nothing mapped: the right machine, the right version of the interface.
//! 4. `link`: load that very copy, for ever, and find the module's entry.
//! 5. `introduce`: give it the host's log for its events and its panics; `scribe` writes those of threads that cannot.
//!
//! A module in C has no such entry: `c_module` reads its registration and its note, and gives its library the table of C functions.
//!
//! `search` finds a module by the name of a driver, `threads` finds which threads one has left behind.
//!
//! # Invariants
//! - Nothing of a module is unmapped, ever: destructors of thread-locals and threads that it left behind run its code at
//!   any time. A module is not unloaded; its drivers are stopped. A newer file is a module of its own, beside the old one.

mod c_module;
mod copy;
mod image;
mod introduce;
mod link;
mod place;
mod problem;
mod scribe;
mod search;
mod threads;

use std::path::{Path, PathBuf};

use fuchsine_abi::types::DriverRegistration;
use fuchsine_driver::DriverEntry;
use fuchsine_driver::abi::ModuleNote;
use parking_lot::Mutex;

pub(super) use introduce::instance_here;
pub(crate) use introduce::{ran_as, runs_as};
pub use problem::{ModuleError, ModuleProblem, Writers};
pub(crate) use scribe::flush;
pub(crate) use search::Missed;
pub use search::{FoundModule, ModulePath};

/// A module that is loaded, and stays so.
///
/// # What loading one means
/// Its code runs with all the rights of this process, from the moment of the load: a module is trusted as much as the
/// program itself. What the checks see to is that it is the code that this user or root has put there.
///
/// # Examples
/// ```no_run
/// use fuchsine_host::{Module, Registry};
/// use std::path::Path;
///
/// let module = Module::load(Path::new("/usr/lib/fuchsine/modules/libramdisk.so"))?;
/// let registry = Registry::new(module.drivers().iter().copied())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Module(&'static Loaded);

#[derive(Debug)]
struct Loaded {
    path: PathBuf,
    identity: place::Identity,
    drivers: Vec<&'static DriverEntry>,
    /// Of a module in C.
    registration: Option<&'static DriverRegistration>,
}

/// Every module of this process, the newest last.
static LOADED: Mutex<Vec<&'static Loaded>> = Mutex::new(Vec::new());

impl Module {
    /// Loads a copy of the module at `path` as it is now, whether or not it has been loaded before.
    ///
    /// # Errors
    /// Why it is not used; [`ModuleError::help`] says what to do. Nothing of its code has run then, unless the problem is
    /// [`NotLoadable`](ModuleProblem::NotLoadable) or [`Disagrees`](ModuleProblem::Disagrees).
    pub fn load(path: &Path) -> Result<Module, ModuleError> {
        load(place::open(path)?)
    }

    /// The module at `path`: the one that was loaded from this very file before, or else as [`load`](Self::load).
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn get(path: &Path) -> Result<Module, ModuleError> {
        let opened = place::open(path)?;
        let known = |loaded: &&&Loaded| loaded.identity == opened.identity && loaded.path == opened.path;
        let found = LOADED.lock().iter().rev().find(known).copied();
        match found {
            Some(loaded) => Ok(Module(loaded)),
            None => load(opened),
        }
    }

    /// What the module at `path` says about itself, after all checks but without loading it.
    ///
    /// # Errors
    /// Why it would not be loaded.
    pub fn inspect(path: &Path) -> Result<ModuleNote, ModuleError> {
        let opened = place::open(path)?;
        let image = image::read(&opened.file, &opened.path);
        image.map(|image| image.note).map_err(|problem| ModuleError::new(&opened.path, problem))
    }

    /// The module that a driver is from; `None` for one that is linked in.
    pub fn of(entry: &'static DriverEntry) -> Option<Module> {
        let has = |loaded: &&&Loaded| loaded.drivers.iter().any(|&driver| std::ptr::eq(driver, entry));
        LOADED.lock().iter().find(has).copied().map(Module)
    }

    /// What it has registered, if it is one in C.
    pub(super) fn registration(&self) -> Option<&'static DriverRegistration> {
        self.0.registration
    }

    /// The file that it was loaded from, as an absolute path; another one may be there by now.
    pub fn path(&self) -> &'static Path {
        &self.0.path
    }

    /// Its drivers.
    pub fn drivers(&self) -> &'static [&'static DriverEntry] {
        &self.0.drivers
    }

    /// Its driver of this name.
    pub fn driver(&self, name: &str) -> Option<&'static DriverEntry> {
        self.0.drivers.iter().copied().find(|driver| driver.name() == name)
    }
}

fn load(opened: place::Opened) -> Result<Module, ModuleError> {
    let fail = |problem| ModuleError::new(&opened.path, problem);
    if !cfg!(target_os = "linux") {
        return Err(fail(ModuleProblem::NotSupported));
    }
    let copied = copy::of(&opened)?;
    let image = image::read(&copied.file, &opened.path).map_err(fail)?;
    let note = &image.note;
    let (drivers, registration) = if image.is_c {
        let (drivers, registration) = link::link_c(copied.file, note).map_err(fail)?;
        (drivers, Some(registration))
    } else {
        let names: Vec<String> = note.drivers.iter().map(|driver| driver.name.clone()).collect();
        (link::link(copied.file, note, introduce::host_for(names)).map_err(fail)?, None)
    };
    let path = opened.path.display();
    tracing::debug!(module = %path, private = copied.is_private, drivers = drivers.len(), "loaded");
    let loaded: &'static Loaded =
        Box::leak(Box::new(Loaded { path: opened.path, identity: opened.identity, drivers, registration }));
    LOADED.lock().push(loaded);
    Ok(Module(loaded))
}
