//! How a loaded module and its host get to know each other.
//!
//! A module exports one symbol, [`ModuleEntry`] under the name [`MODULE_SYMBOL`], and has a [note](super::Note) in its
//! file. A host reads the note, loads the module, finds the symbol, and calls `init` once, before it uses any of the
//! drivers.
//!
//! # Invariants
//! - An entry is a static of the module's image, and so are its drivers; the image is never unmapped.
//! - The host's part is a static, or was leaked: it is valid for ever.

use std::ffi::c_void;
use std::sync::OnceLock;

use super::entry::DriverEntry;
use super::types::{Header, OK, Property, Str};
use crate::{Status, module};

/// The name of the symbol that a module exports, a [`ModuleEntry`].
pub const MODULE_SYMBOL: &str = "fuchsine_module";

/// What a module exports.
#[repr(C)]
#[derive(Debug)]
pub struct ModuleEntry {
    header: Header,
    drivers: *const DriverEntry,
    driver_count: usize,
    /// The size of one of them, as the module sees it.
    driver_size: usize,
    init: unsafe extern "C" fn(host: *const ModuleHost) -> i32,
}

// SAFETY: an entry is constant; its pointers are to constants.
unsafe impl Sync for ModuleEntry {}
// SAFETY: as above.
unsafe impl Send for ModuleEntry {}

/// What a host gives to a module when it has loaded it.
#[repr(C)]
#[derive(Debug)]
pub struct ModuleHost {
    /// Version and size; checked before any other field is read.
    pub header: Header,
    /// Passed to the functions.
    pub data: *const c_void,
    /// Writes a line to the host's log, with the name of the driver that runs on this thread added, or, where none
    /// does, of the module. Levels as in [`log`](super::Table::log) of the table.
    pub log: unsafe extern "C" fn(
        data: *const c_void,
        level: u32,
        target: Str,
        message: Str,
        fields: *const Property,
        count: usize,
    ),
    /// 1 if a line of this level and target would be written, else 0.
    pub log_enabled: unsafe extern "C" fn(data: *const c_void, level: u32, target: Str) -> u32,
}

// SAFETY: the functions may be called from any thread, with the data that belongs to them.
unsafe impl Sync for ModuleHost {}
// SAFETY: as above.
unsafe impl Send for ModuleHost {}

impl ModuleEntry {
    /// The entry of a module with these drivers, for [`export!`](crate::export).
    pub const fn new(drivers: &'static [DriverEntry]) -> ModuleEntry {
        ModuleEntry {
            header: Header::of::<ModuleEntry>(),
            drivers: drivers.as_ptr(),
            driver_count: drivers.len(),
            driver_size: size_of::<DriverEntry>(),
            init,
        }
    }

    /// For hosts: whether this build can use the module; to be asked before anything else.
    ///
    /// # Errors
    /// A sentence that names both versions.
    pub fn check(&self) -> Result<(), String> {
        self.header.check::<ModuleEntry>("module", "host")?;
        if self.driver_size < size_of::<DriverEntry>() {
            return Err(format!(
                "the drivers of the module are described in {} bytes each, and the host needs {}; build the module with \
                 a newer fuchsine-driver",
                self.driver_size,
                size_of::<DriverEntry>()
            ));
        }
        Ok(())
    }

    /// For hosts: the drivers, once [`check`](Self::check) has agreed. Each entry is to be checked too.
    pub fn drivers(&self) -> Vec<&'static DriverEntry> {
        let at = |n: usize| {
            // SAFETY: the module says that so many entries of this size stand there, and is never unmapped; the size
            // is at least that of the entries of this build.
            unsafe { &*self.drivers.byte_add(n * self.driver_size) }
        };
        (0..self.driver_count).map(at).collect()
    }

    /// For hosts: introduces the host to the module. Its log and its panics are the host's from then on.
    ///
    /// # Errors
    /// What the module says against it.
    pub fn init(&self, host: &'static ModuleHost) -> Result<(), Status> {
        // SAFETY: the function is the module's own, whose entry was checked; the host's part lives for ever.
        Status::result_of(unsafe { (self.init)(host) })
    }
}

/// The host of this image, if it is a module that was introduced.
static HOST: OnceLock<&'static ModuleHost> = OnceLock::new();

unsafe extern "C" fn init(host: *const ModuleHost) -> i32 {
    // SAFETY: a host gives what lives for ever; the header is the first field in every version.
    if unsafe { (*host).header }.check::<ModuleHost>("host", "module").is_err() {
        return Status::NotSupported.as_raw();
    }
    // SAFETY: as above, and it has all the fields that this build knows.
    let host: &'static ModuleHost = unsafe { &*host };
    if HOST.set(host).is_err() {
        return Status::AlreadyExists.as_raw();
    }
    module::introduce();
    OK
}

/// Writes a line to the log of the host of this image; nowhere if there is none.
pub(crate) fn log_to_host(level: u32, target: &str, message: &str, fields: &[(&str, &str)]) {
    let Some(host) = HOST.get() else { return };
    let fields: Vec<Property> =
        fields.iter().map(|(key, value)| Property { key: Str::new(key), value: Str::new(value) }).collect();
    // SAFETY: the host promises that its function takes its data, and the strings are lent for the call.
    unsafe { (host.log)(host.data, level, Str::new(target), Str::new(message), fields.as_ptr(), fields.len()) };
}

/// Whether the host of this image would write a line of this level and target.
pub(crate) fn host_logs(level: u32, target: &str) -> bool {
    // SAFETY: as `log_to_host`.
    HOST.get().is_some_and(|host| unsafe { (host.log_enabled)(host.data, level, Str::new(target)) } != 0)
}
