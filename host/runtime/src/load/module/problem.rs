//! Why a module is not used: [`ModuleError`], which says what to do as well.

use std::fmt;
use std::path::{Path, PathBuf};

use fuchsine_driver::abi::{ABI_REVISION, ABI_VERSION};
use rustix::process::geteuid;

/// Why a module is not used.
///
/// Displays as one sentence; [`help`](ModuleError::help) says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleError {
    module: PathBuf,
    at: PathBuf,
    problem: ModuleProblem,
}

/// What can be wrong with a module.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleProblem {
    /// There is no such file, or a folder of its path is missing.
    #[error("does not exist")]
    Missing,
    /// The system refuses to open or to read it.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// The file or a folder of its path is a symbolic link.
    #[error("is a symbolic link, and links are not followed")]
    Link {
        /// What the whole path is without links, as far as that can be told.
        real: Option<PathBuf>,
    },
    /// It is a folder, a device, a pipe or a socket.
    #[error("is no regular file")]
    NotAFile,
    /// A part of the path that should be a folder is none.
    #[error("is no folder")]
    NotAFolder,
    /// The file or a folder belongs to somebody who is neither root nor the user that the host runs as.
    #[error("belongs to user {owner}, who could change what runs in this host")]
    Owner {
        /// The owner's number.
        owner: u32,
    },
    /// Somebody else could put other code there.
    #[error("can be changed by {}, so anybody of them could change what runs in this host", .by)]
    Writable {
        /// Who can.
        by: Writers,
    },
    /// A program that takes on rights of its owner is no module.
    #[error("has a set-user or set-group bit")]
    SetId,
    /// It does not begin like a file of this system's kind.
    #[error("is no ELF file, so no shared library of this system")]
    NotElf,
    /// The file ends before what its own head speaks of.
    #[error("is cut off: it has {has} bytes, and its head speaks of {needs}")]
    Truncated {
        /// How many bytes there are.
        has: u64,
        /// How many there should be, at least.
        needs: u64,
    },
    /// It was built for another processor.
    #[error("was built for {theirs}, and this host runs on {ours}")]
    Machine {
        /// What it was built for.
        theirs: String,
        /// What this host was built for.
        ours: &'static str,
    },
    /// An ELF file of another type: a program that is linked to a place, an object file, a core dump.
    #[error("is an ELF file, but no shared library")]
    NotShared,
    /// Its head makes no sense.
    #[error("is a damaged ELF file: {0}")]
    Damaged(String),
    /// A shared library without the note that makes it a module.
    #[error("is a shared library, but no module of Fuchsine: it has no note that says so")]
    NoNote,
    /// The note makes no sense.
    #[error("has a note that cannot be read: {0}")]
    BadNote(String),
    /// It was built for another version of the driver interface.
    #[error(
        "was built for version {theirs} of the driver interface (fuchsine-driver {driver_crate}), and this host has \
         version {ABI_VERSION}"
    )]
    Version {
        /// The version that it was built for.
        theirs: u32,
        /// The version of `fuchsine-driver` that it was built with.
        driver_crate: String,
    },
    /// It was built for a later revision of the same version, with functions that this host does not have.
    #[error(
        "needs revision {theirs} of the driver interface (fuchsine-driver {driver_crate}), and this host has revision \
         {ABI_REVISION}"
    )]
    Revision {
        /// The revision that it was built for.
        theirs: u32,
        /// The version of `fuchsine-driver` that it was built with.
        driver_crate: String,
    },
    /// Its description of drivers is older, and lacks what this host wants to know.
    #[error(
        "describes its drivers as revision {theirs} of the driver interface did (fuchsine-driver {driver_crate}), and \
         this host needs revision {ABI_REVISION}"
    )]
    Older {
        /// The revision that it was built for.
        theirs: u32,
        /// The version of `fuchsine-driver` that it was built with.
        driver_crate: String,
    },
    /// A driver in C with a registration of another version.
    #[error("registers its driver as version {theirs} of fdf does, and this host knows version 1")]
    Registration {
        /// The version that it says.
        theirs: u64,
    },
    /// A driver in C without the library of the C interface.
    #[error("has a driver in C, but is not linked with the library `fuchsine`")]
    Unlinked,
    /// A driver in C with that library of another release.
    #[error("is linked with a library `fuchsine` that does not take the table of this host")]
    OtherLibrary,
    /// Somebody wrote to the file while it was read.
    #[error("was changed while it was read")]
    Changed,
    /// The system's loader refuses it.
    #[error("cannot be loaded: {0}")]
    NotLoadable(String),
    /// It is loaded, and does not agree with what its note says.
    #[error("does not say in its code what it says in its note: {0}")]
    Disagrees(String),
    /// This system has no modules.
    #[error("cannot be loaded: modules are for Linux only")]
    NotSupported,
}

/// Who could change a file or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Writers {
    /// The members of its group.
    Group,
    /// Everybody on this machine.
    Everybody,
}

impl fmt::Display for Writers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Writers::Group => "the members of its group",
            Writers::Everybody => "every user of this machine",
        })
    }
}

impl ModuleError {
    pub(super) fn new(module: &Path, problem: ModuleProblem) -> ModuleError {
        ModuleError { module: module.to_owned(), at: module.to_owned(), problem }
    }

    /// With a folder of the module's path at fault.
    pub(super) fn in_folder(module: &Path, folder: &Path, problem: ModuleProblem) -> ModuleError {
        ModuleError { module: module.to_owned(), at: folder.to_owned(), problem }
    }

    /// The module, as an absolute path.
    pub fn module(&self) -> &Path {
        &self.module
    }

    /// What is at fault: the module, or a folder of its path.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// What is wrong.
    pub fn problem(&self) -> &ModuleProblem {
        &self.problem
    }

    /// What to do about it, in a sentence.
    pub fn help(&self) -> String {
        let at = self.at.display();
        match &self.problem {
            ModuleProblem::Missing => "check the path; a relative one in a manifest counts from its folder".into(),
            ModuleProblem::Unreadable(_) => format!("see that user {} can read it", geteuid().as_raw()),
            ModuleProblem::Link { real: Some(real) } => format!("name the real path, `{}`", real.display()),
            ModuleProblem::Link { real: None } => "name the path that it leads to".into(),
            ModuleProblem::NotAFile | ModuleProblem::NotAFolder => "check the path".into(),
            ModuleProblem::Owner { .. } => match geteuid().as_raw() {
                0 => format!("if you trust it: `chown root {at}`"),
                us => format!("it has to belong to root or to user {us}: copy it to a folder of your own"),
            },
            ModuleProblem::Writable { .. } => format!("if you trust what is there now: `chmod go-w {at}`"),
            ModuleProblem::SetId => format!("a module needs none: `chmod ug-s {at}`"),
            ModuleProblem::NotElf | ModuleProblem::NotShared => {
                "a module is a library of crate type `cdylib`, `libNAME.so`".into()
            }
            ModuleProblem::Truncated { .. } | ModuleProblem::Damaged(_) | ModuleProblem::Changed => {
                "copy it again, under another name first, then rename it".into()
            }
            ModuleProblem::Machine { ours, .. } => format!("build it for {ours}: `cargo build --target …`"),
            ModuleProblem::NoNote => {
                "a crate becomes a module by `fuchsine_driver::export!(your_driver::DRIVER);`, and a library in C by \
                 `EXPORT_FUCHSIA_DRIVER_REGISTRATION_V1(initialize, destroy);`"
                    .into()
            }
            ModuleProblem::BadNote(_) | ModuleProblem::Disagrees(_) => "build it anew with cargo".into(),
            ModuleProblem::Version { .. } => {
                format!("build the module with the release of fuchsine-driver that this host has, {VERSION}")
            }
            ModuleProblem::Revision { driver_crate, .. } => format!(
                "run a host of release {driver_crate} or later, or build the module with fuchsine-driver {VERSION}"
            ),
            ModuleProblem::Older { .. } => format!("build the module with fuchsine-driver {VERSION}"),
            ModuleProblem::Registration { .. } => "use FUCHSIA_DRIVER_REGISTRATION_V1".into(),
            ModuleProblem::Unlinked => UNLINKED.into(),
            ModuleProblem::OtherLibrary => {
                format!("have it find the library of release {VERSION}: `ldd` shows which one it finds")
            }
            ModuleProblem::NotLoadable(why) if why.contains("libfuchsine.so") => {
                "link it with `-Wl,-rpath,FOLDER`, the folder of libfuchsine.so, or name that in LD_LIBRARY_PATH".into()
            }
            ModuleProblem::NotLoadable(why) if is_of_c(why) => UNLINKED.into(),
            ModuleProblem::NotLoadable(_) => {
                "`ldd` shows which libraries it needs and which of them are missing".into()
            }
            ModuleProblem::NotSupported => "link the driver into the program".into(),
        }
    }
}

const UNLINKED: &str = "build it with what `fuchsine libs` or `pkg-config --libs fuchsine` says, after its sources";

/// Whether the loader misses a function of the C interface.
fn is_of_c(why: &str) -> bool {
    let missed = why.split_once("undefined symbol: ").map_or("", |(_, name)| name);
    ["fdf_", "async_", "zx_", "fuchsine_"].iter().any(|prefix| missed.starts_with(prefix))
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

impl fmt::Display for ModuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (module, at) = (self.module.display(), self.at.display());
        match self.module == self.at {
            true => write!(f, "module `{module}` {}", self.problem),
            false => write!(f, "module `{module}`: the folder `{at}` {}", self.problem),
        }
    }
}

impl std::error::Error for ModuleError {}
