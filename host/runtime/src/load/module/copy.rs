//! The private copy of a module that is loaded.
//!
//! A file that is mapped must not change: whoever overwrites it in place changes the code that runs, or ends the process
//! when the file gets shorter. So what is loaded is a copy in memory (a sealed memfd), which nobody can write to any
//! more. The checks are made on that copy, so what was checked is what runs; and each load has a file of its own, so that
//! the system's loader does not take it for one that it has already.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use super::place::Opened;
use super::problem::{ModuleError, ModuleProblem};

/// The copy, or the file itself where the system allows no executable memory files.
#[derive(Debug)]
pub(super) struct Loadable {
    pub(super) file: File,
    /// Whether it is a copy.
    pub(super) is_private: bool,
}

pub(super) fn of(opened: &Opened) -> Result<Loadable, ModuleError> {
    let fail = |problem| ModuleError::new(&opened.path, problem);
    let unreadable = |error: io::Error| fail(ModuleProblem::Unreadable(error.to_string()));
    let copied = match sealed(opened).map_err(unreadable)? {
        Some(copy) => Loadable { file: copy, is_private: true },
        None => Loadable { file: opened.file.try_clone().map_err(unreadable)?, is_private: false },
    };
    if opened.is_unchanged() { Ok(copied) } else { Err(fail(ModuleProblem::Changed)) }
}

#[cfg(target_os = "linux")]
fn sealed(opened: &Opened) -> io::Result<Option<File>> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    let name = opened.path.file_name().unwrap_or_default().to_string_lossy();
    // The system's limit is 249 bytes.
    let name: String = format!("fuchsine:{}", name.replace('\0', "?")).chars().take(60).collect();
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Kernels before 6.3 do not know the flag, and later ones may want it.
    let Ok(copy) =
        memfd_create(name.as_str(), flags | MemfdFlags::EXEC).or_else(|_| memfd_create(name.as_str(), flags))
    else {
        return Ok(None);
    };
    let mut copy = File::from(copy);
    let mut from = &opened.file;
    from.seek(SeekFrom::Start(0))?;
    io::copy(&mut from, &mut copy)?;
    fcntl_add_seals(&copy, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(Some(copy))
}

#[cfg(not(target_os = "linux"))]
fn sealed(_: &Opened) -> io::Result<Option<File>> {
    Ok(None)
}
