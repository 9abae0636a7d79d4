//! From a path to an open file that nobody else can change.
//!
//! Whoever can write to a module, or to a folder on the way to it, decides what runs in the host. So the path is walked
//! folder by folder, from the root, with each step taken relative to the descriptor of the step before and no link
//! followed, and what was opened is what is checked: nothing can be exchanged in between. What comes out is a
//! descriptor, and nobody uses the path again.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::problem::{ModuleError, ModuleProblem, Writers};

/// The file of a module, opened for reading and checked.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) file: File,
    /// Absolute, for messages.
    pub(super) path: PathBuf,
    pub(super) identity: Identity,
}

/// What is another one when the file was exchanged or written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Identity {
    #[allow(clippy::unnecessary_cast, reason = "these types differ between systems")]
    fn of(stat: &Stat) -> Identity {
        Identity {
            device: stat.st_dev as u64,
            inode: stat.st_ino as u64,
            size: stat.st_size as u64,
            // The time of the last change of anything, which no program sets by itself.
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}

impl Opened {
    /// Whether nobody has written to the file since it was opened.
    pub(super) fn is_unchanged(&self) -> bool {
        fstat(&self.file).is_ok_and(|stat| Identity::of(&stat) == self.identity)
    }
}

/// Opens the module at `path`, and checks it and all folders on the way.
pub(super) fn open(path: &Path) -> Result<Opened, ModuleError> {
    let path = std::path::absolute(path)
        .map_err(|error| ModuleError::new(path, ModuleProblem::Unreadable(error.to_string())))?;
    let (folder, name) = open_folder_of(&path)?;
    let fail = |problem| ModuleError::new(&path, problem);
    // First only looked at: to open a pipe or a device for reading may wait for ever, or do something.
    let seen = openat(&folder, &name, LOOK, Mode::empty()).map_err(|error| fail(refused(error)))?;
    check_file(&seen, &path).map_err(fail)?;
    let file = openat(&folder, &name, READ, Mode::empty()).map_err(|error| fail(refused(error)))?;
    let identity = check_file(&file, &path).map_err(fail)?;
    Ok(Opened { file: File::from(file), path, identity })
}

/// Checks a folder that is searched for modules, and those above it; with the names of all that is in it, sorted.
pub(super) fn list(folder: &Path) -> Result<Vec<OsString>, ModuleError> {
    let folder = &std::path::absolute(folder)
        .map_err(|error| ModuleError::new(folder, ModuleProblem::Unreadable(error.to_string())))?;
    let any = folder.join("*");
    let (opened, _) = open_folder_of(&any).map_err(|error| ModuleError::new(error.at(), error.problem().clone()))?;
    let unreadable = |error: Errno| ModuleError::new(folder, ModuleProblem::Unreadable(error.to_string()));
    let opened = openat(&opened, ".", READ | OFlags::DIRECTORY, Mode::empty()).map_err(unreadable)?;
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(&opened).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        names.push(OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
    }
    names.sort();
    Ok(names)
}

#[cfg(target_os = "linux")]
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const LOOK: OFlags = READ;
const READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Opens the folder that an absolute path is in, and returns the last part of the path beside it.
fn open_folder_of(path: &Path) -> Result<(OwnedFd, OsString), ModuleError> {
    let Some(name) = path.file_name() else {
        return Err(ModuleError::new(path, ModuleProblem::NotAFile));
    };
    let above = path.parent().unwrap_or(Path::new("/"));
    let mut walked = PathBuf::from("/");
    let fail = |at: &Path, problem| ModuleError::in_folder(path, at, problem);
    let mut folder =
        openat(rustix::fs::CWD, "/", LOOK, Mode::empty()).map_err(|error| fail(&walked, refused(error)))?;
    let mut parts = above.components().skip(1).peekable();
    check_folder(&folder, parts.peek().is_none()).map_err(|problem| fail(&walked, problem))?;
    while let Some(part) = parts.next() {
        let step: &OsStr = match part {
            Component::Normal(name) => name,
            Component::ParentDir => OsStr::new(".."),
            _ => continue,
        };
        walked.push(step);
        folder = openat(&folder, step, LOOK, Mode::empty()).map_err(|error| fail(&walked, refused(error)))?;
        check_folder(&folder, parts.peek().is_none()).map_err(|problem| match problem {
            ModuleProblem::Link { .. } => fail(&walked, ModuleProblem::Link { real: path.canonicalize().ok() }),
            other => fail(&walked, other),
        })?;
    }
    Ok((folder, name.to_owned()))
}

/// `holds_it`: whether the module itself is in it, and not only a folder.
fn check_folder(folder: &OwnedFd, holds_it: bool) -> Result<(), ModuleProblem> {
    let stat = stat(folder)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {}
        FileType::Symlink => return Err(ModuleProblem::Link { real: None }),
        _ => return Err(ModuleProblem::NotAFolder),
    }
    // In a folder such as /tmp nobody can rename or remove what belongs to others, so what is below is as safe as it
    // is itself; but anybody can put a further file there.
    let is_sticky = Mode::from_raw_mode(stat.st_mode).contains(Mode::SVTX);
    check_rights(&stat, is_sticky && !holds_it)
}

fn check_file(file: &impl AsFd, path: &Path) -> Result<Identity, ModuleProblem> {
    let stat = stat(file)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Symlink => return Err(ModuleProblem::Link { real: path.canonicalize().ok() }),
        _ => return Err(ModuleProblem::NotAFile),
    }
    check_rights(&stat, false)?;
    if Mode::from_raw_mode(stat.st_mode).intersects(Mode::SUID | Mode::SGID) {
        return Err(ModuleProblem::SetId);
    }
    Ok(Identity::of(&stat))
}

fn check_rights(stat: &Stat, others_may_write: bool) -> Result<(), ModuleProblem> {
    if stat.st_uid != 0 && stat.st_uid != geteuid().as_raw() {
        return Err(ModuleProblem::Owner { owner: stat.st_uid });
    }
    let mode = Mode::from_raw_mode(stat.st_mode);
    match (mode.contains(Mode::WOTH), mode.contains(Mode::WGRP)) {
        _ if others_may_write => Ok(()),
        (true, _) => Err(ModuleProblem::Writable { by: Writers::Everybody }),
        (false, true) => Err(ModuleProblem::Writable { by: Writers::Group }),
        (false, false) => Ok(()),
    }
}

fn stat(file: &impl AsFd) -> Result<Stat, ModuleProblem> {
    fstat(file).map_err(|error| ModuleProblem::Unreadable(error.to_string()))
}

fn refused(error: Errno) -> ModuleProblem {
    match error {
        Errno::NOENT => ModuleProblem::Missing,
        Errno::NOTDIR => ModuleProblem::NotAFolder,
        Errno::LOOP => ModuleProblem::Link { real: None },
        other => ModuleProblem::Unreadable(std::io::Error::from(other).to_string()),
    }
}
