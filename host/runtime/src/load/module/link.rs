//! The step from a file to code: the system's loader, and the module's entry.
//!
//! # Invariants
//! - What is loaded is never unloaded, so what an entry points to is valid for ever.
//! - The descriptor that it was loaded from stays open for ever. The loader knows a library by its name too, and the
//!   name has the number of the descriptor in it: with that number used again, it would return the wrong library.
//! - Nothing is loaded but files that only root or this user can change; that such a module may do what it likes is
//!   what loading it means.

use std::error::Error;
use std::fs::File;
use std::os::fd::IntoRawFd;

use fuchsine_abi::types::DriverRegistration;
use fuchsine_driver::DriverEntry;
use fuchsine_driver::abi::{MODULE_SYMBOL, ModuleEntry, ModuleHost, ModuleNote};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::super::c_driver;
use super::c_module;
use super::problem::ModuleProblem;

/// Loads the library, for ever, and returns its drivers.
pub(super) fn link(
    file: File,
    note: &ModuleNote,
    host: &'static ModuleHost,
) -> Result<Vec<&'static DriverEntry>, ModuleProblem> {
    let library = open(file)?;
    // SAFETY: the module's note says that this symbol is such an entry.
    let found = unsafe { library.get::<*const ModuleEntry>(MODULE_SYMBOL) }.map(|symbol| *symbol);
    std::mem::forget(library);
    let disagrees = ModuleProblem::Disagrees;
    let entry = found.map_err(|error| disagrees(format!("it has no entry ({})", in_full(&error))))?;
    // SAFETY: it is a static of the module, which stays loaded.
    let entry: &'static ModuleEntry = unsafe { &*entry };
    entry.check().map_err(disagrees)?;
    let drivers = entry.drivers();
    for driver in &drivers {
        driver.check().map_err(disagrees)?;
    }
    let (coded, noted): (Vec<_>, Vec<_>) = (
        drivers.iter().map(|driver| driver.name()).collect(),
        note.drivers.iter().map(|driver| &driver.name).collect(),
    );
    if coded.iter().ne(noted.iter()) {
        return Err(disagrees(format!("the drivers of the code are {coded:?}, and those of the note {noted:?}")));
    }
    entry.init(host).map_err(|status| disagrees(format!("it does not take this host: {status}")))?;
    Ok(drivers)
}

/// Loads the library of a module in C, for ever; returns its driver, and what it has registered.
pub(super) fn link_c(
    file: File,
    note: &ModuleNote,
) -> Result<(Vec<&'static DriverEntry>, &'static DriverRegistration), ModuleProblem> {
    let library = open(file)?;
    let registration = c_module::attach(&library);
    std::mem::forget(library);
    let registration = registration?;
    let entry = |driver| -> &'static DriverEntry { Box::leak(Box::new(c_driver::ENTRY.described(driver))) };
    Ok((note.drivers.iter().map(entry).collect(), registration))
}

fn open(file: File) -> Result<Library, ModuleProblem> {
    let path = format!("/proc/self/fd/{}", file.into_raw_fd());
    // SAFETY: its constructors run here, which is what the user asked for (see the invariants).
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
    library.map_err(|error| ModuleProblem::NotLoadable(in_full(&error)))
}

/// What the system's loader says is the source of what the crate says.
fn in_full(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}
