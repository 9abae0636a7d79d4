//! The record by which a host knows a driver: its name, what it wants, and its hooks.
//!
//! # Invariants
//! - All pointers in an entry are to memory that lives as long as the image that holds the entry: the constructor takes
//!   `'static` references only, and the authors of entries in other languages promise it.
//! - The counts match the arrays, for the same reason.

use std::ffi::c_void;
use std::slice;

use super::calls::Completion;
use super::table::Table;
use super::types::{Header, Panic, Property, RawContext, RawDispatcher, Str};

/// What a driver crate exposes as `pub const DRIVER`, and what a loadable module exports.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DriverEntry {
    /// Version and size of this struct.
    pub(crate) header: Header,
    pub(crate) name: Str,
    pub(crate) version: Str,
    pub(crate) doc: Str,
    pub(crate) config: *const ConfigKey,
    pub(crate) config_count: usize,
    pub(crate) bind: *const Property,
    pub(crate) bind_count: usize,
    /// Where the entry was made, for the image that made it alone; null in C.
    pub(crate) made_at: *const c_void,
    /// Makes an instance. Called with `dispatcher`, the default dispatcher of the instance, as the current one or not;
    /// the hook runs on it. `entry` is this one, or a copy of it, lent for the call; so it is to all hooks.
    pub(crate) start: unsafe extern "C" fn(
        entry: *const DriverEntry,
        table: *const Table,
        context: *const RawContext,
        dispatcher: *const RawDispatcher,
        completion: Completion,
    ),
    /// Called at most once, after a `start` that succeeded, before the dispatchers are shut down; runs on `dispatcher`.
    pub(crate) prepare_stop: unsafe extern "C" fn(
        entry: *const DriverEntry,
        instance: *mut c_void,
        dispatcher: *const RawDispatcher,
        completion: Completion,
    ),
    /// Consumes the instance; called once for each that `start` made (unless `destroy` is), after all its dispatchers
    /// are shut down; runs on `dispatcher`, which is one of the host's.
    pub(crate) stop: unsafe extern "C" fn(
        entry: *const DriverEntry,
        instance: *mut c_void,
        dispatcher: *const RawDispatcher,
        completion: Completion,
    ),
    /// Consumes the instance without its stop hook, before it returns: for a driver that has panicked. Called instead
    /// of `stop`, after all dispatchers of the instance are shut down.
    pub(crate) destroy: unsafe extern "C" fn(instance: *mut c_void) -> *mut Panic,
}

// SAFETY: an entry is constant; all pointers are to constants (see the invariants).
unsafe impl Send for DriverEntry {}
// SAFETY: as above.
unsafe impl Sync for DriverEntry {}

/// One key of a driver's configuration, for help texts and for checks of a manifest.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ConfigKey {
    pub(crate) name: Str,
    pub(crate) default: Str,
    pub(crate) doc: Str,
    pub(crate) kind: u32,
    pub(crate) required: u32,
}

// SAFETY: as `DriverEntry`.
unsafe impl Send for ConfigKey {}
// SAFETY: as above.
unsafe impl Sync for ConfigKey {}

/// What a configuration value may be. The default of a key and a `--set` value are texts of this kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigKind {
    /// Any text.
    #[default]
    Text,
    /// A whole number.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// A number of bytes: a whole number, or a text such as `64MiB`, which arrives as a number.
    Size,
    /// A length of time: a text such as `250ms` or `5s`, which arrives as a number of milliseconds.
    Duration,
    /// The path of a file; a relative one arrives as the host has resolved it.
    Path,
    /// Several texts: one text or an array of them, which arrive as an array. A default or a `--set` value that is no
    /// array is split at its commas.
    TextList,
}

impl ConfigKind {
    pub(super) const fn to_raw(self) -> u32 {
        match self {
            ConfigKind::Text => 0,
            ConfigKind::Integer => 1,
            ConfigKind::Boolean => 2,
            ConfigKind::Size => 3,
            ConfigKind::Duration => 4,
            ConfigKind::Path => 5,
            ConfigKind::TextList => 6,
        }
    }

    pub(crate) const fn from_raw(raw: u32) -> ConfigKind {
        match raw {
            1 => ConfigKind::Integer,
            2 => ConfigKind::Boolean,
            3 => ConfigKind::Size,
            4 => ConfigKind::Duration,
            5 => ConfigKind::Path,
            6 => ConfigKind::TextList,
            _ => ConfigKind::Text,
        }
    }
}

impl ConfigKey {
    /// A key that may be left out, with the value it then has, as text (`"64MiB"`, `"true"`). With an empty default it is
    /// absent from the configuration when it was left out.
    pub const fn optional(name: &'static str, kind: ConfigKind, default: &'static str, doc: &'static str) -> ConfigKey {
        ConfigKey {
            name: Str::new(name),
            default: Str::new(default),
            doc: Str::new(doc),
            kind: kind.to_raw(),
            required: 0,
        }
    }

    /// A key that must be given.
    pub const fn required(name: &'static str, kind: ConfigKind, doc: &'static str) -> ConfigKey {
        ConfigKey { name: Str::new(name), default: Str::EMPTY, doc: Str::new(doc), kind: kind.to_raw(), required: 1 }
    }

    /// The key.
    pub fn name(&self) -> &'static str {
        // SAFETY: the strings of a key live as long as its image, which is never unmapped.
        unsafe { self.name.as_text() }
    }

    /// The value it has when it is left out, as text; `None` when there is none.
    pub fn default(&self) -> Option<&'static str> {
        // SAFETY: as `name`.
        Some(unsafe { self.default.as_text() }).filter(|text| !text.is_empty())
    }

    /// What it does, in a sentence.
    pub fn doc(&self) -> &'static str {
        // SAFETY: as `name`.
        unsafe { self.doc.as_text() }
    }

    /// What its value may be.
    pub fn kind(&self) -> ConfigKind {
        ConfigKind::from_raw(self.kind)
    }

    /// Whether it must be given.
    pub fn is_required(&self) -> bool {
        self.required != 0
    }
}

impl DriverEntry {
    /// Whether this build can use the entry; to be asked before anything else.
    ///
    /// # Errors
    /// A sentence that names both versions.
    pub fn check(&self) -> Result<(), String> {
        self.header.check::<DriverEntry>("driver", "host")
    }

    /// The name of the driver.
    pub fn name(&self) -> &'static str {
        // SAFETY: the strings of an entry live as long as its image, which is never unmapped.
        unsafe { self.name.as_text() }
    }

    /// The version of the driver.
    pub fn version(&self) -> &'static str {
        // SAFETY: as `name`.
        unsafe { self.version.as_text() }
    }

    /// What the driver does, in a sentence.
    pub fn doc(&self) -> &'static str {
        // SAFETY: as `name`.
        unsafe { self.doc.as_text() }
    }

    /// The keys of its configuration.
    pub fn config(&self) -> &'static [ConfigKey] {
        if self.config_count == 0 {
            return &[];
        }
        // SAFETY: the pointer and the count describe an array that lives as long as the image (see the invariants).
        unsafe { slice::from_raw_parts(self.config, self.config_count) }
    }

    /// The properties that a node must all have for the driver to be bound to it; empty for a driver that a manifest
    /// binds by name.
    pub fn bind(&self) -> impl ExactSizeIterator<Item = (&'static str, &'static str)> + use<> {
        let bind: &'static [Property] = if self.bind_count == 0 {
            &[]
        } else {
            // SAFETY: the pointer and the count describe an array that lives as long as the image.
            unsafe { slice::from_raw_parts(self.bind, self.bind_count) }
        };
        // SAFETY: as `name`.
        bind.iter().map(|property| unsafe { (property.key.as_text(), property.value.as_text()) })
    }
}
