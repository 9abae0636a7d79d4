//! What the manifest says about the process of a driver.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::process::Sandbox;

/// Which process a driver is to run in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProcessName {
    /// One for each of its instances.
    Own,
    /// The one of this name, which others may be in too.
    Named(String),
}

/// A driver that runs in another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Apart {
    pub(crate) process: ProcessName,
    /// The driver to run there.
    pub(crate) driver: String,
    /// The module that it is from; `None` for one that is linked in.
    pub(crate) module: Option<ModuleFile>,
    /// What its process may do, if that is less than the host may.
    pub(crate) sandbox: Option<Sandbox>,
}

/// The file of a module as it was when it was looked at: a file that was replaced is another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModuleFile {
    pub(crate) path: PathBuf,
    /// Device, number, size, and the time of the last change; all zero for one that is gone already.
    stamp: [i128; 4],
}

impl ModuleFile {
    pub(crate) fn of(path: &Path) -> ModuleFile {
        let stamp = std::fs::metadata(path).map_or([0; 4], |found| {
            let changed = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
            [i128::from(found.dev()), i128::from(found.ino()), i128::from(found.size()), changed]
        });
        ModuleFile { path: path.to_owned(), stamp }
    }
}

impl Apart {
    /// How its process is called in the log, by the name of the driver in the manifest.
    pub(crate) fn title<'a>(&'a self, driver: &'a str) -> &'a str {
        match &self.process {
            ProcessName::Own => driver,
            ProcessName::Named(name) => name,
        }
    }

    /// As the manifest has it.
    pub(crate) fn process_name(&self) -> &str {
        match &self.process {
            ProcessName::Own => "own",
            ProcessName::Named(name) => name,
        }
    }
}
