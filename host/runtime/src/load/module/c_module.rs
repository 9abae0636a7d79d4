//! Modules in C: what their file says, and the way to their registration.
//!
//! Such a module exports one object of data, `__fuchsia_driver_registration__`, and is linked with the library `fuchsine`, the C
//! interface. It may describe its driver in a note; without one, the driver has the name of the file.
//!
//! # Invariants
//! - The library that a module brings along is given the table of this host before any code of the driver is called, so that
//!   it works on this host's runtime and never on one of its own.

use std::path::Path;

use fuchsine_abi::status::{ZX_ERR_BAD_STATE, ZX_ERR_NOT_SUPPORTED, ZX_OK};
use fuchsine_abi::table::Table;
use fuchsine_abi::types::{DRIVER_REGISTRATION_VERSION_1, DriverRegistration, zx_status_t};
use fuchsine_driver::abi::{ABI_REVISION, ABI_VERSION, ConfigKind, DriverNote, KeyNote, ModuleNote};
use libloading::os::unix::Library;
use toml::{Table as Toml, Value};

use super::problem::ModuleProblem;
use crate::manifest::kind_name;

/// What such a module exports.
pub(super) const REGISTRATION: &str = "__fuchsia_driver_registration__";

const ATTACH: &[u8] = b"fuchsine_abi_attach\0";

/// Every kind that a key can have, in the words that are used for them everywhere.
const KINDS: [ConfigKind; 7] = [
    ConfigKind::Text,
    ConfigKind::Integer,
    ConfigKind::Boolean,
    ConfigKind::Size,
    ConfigKind::Duration,
    ConfigKind::Path,
    ConfigKind::TextList,
];

/// The driver of a file without a note: it has the name of the file, without `lib` and `.so`.
pub(super) fn unnamed(path: &Path) -> ModuleNote {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = stem.strip_prefix("lib").filter(|rest| !rest.is_empty()).unwrap_or(&stem);
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let mut driver = DriverNote::default();
    driver.name = name.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect();
    driver.doc = "a driver in C that says nothing about itself".to_owned();
    note_of(driver)
}

fn note_of(driver: DriverNote) -> ModuleNote {
    let mut note = ModuleNote::default();
    // Nothing of a module in C depends on the interface of drivers in Rust.
    (note.abi_version, note.abi_revision) = (ABI_VERSION, ABI_REVISION);
    note.drivers = vec![driver];
    note
}

/// What the note of such a module says: TOML.
pub(super) fn read_note(description: &[u8]) -> Result<ModuleNote, String> {
    let text = description.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = std::str::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned())?;
    let table: Toml = text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?;
    known(&table, &["name", "version", "doc", "bind", "config"], "the note")?;
    let mut driver = DriverNote::default();
    driver.name = text_of(&table, "name")?.ok_or("it has no `name`")?;
    driver.version = text_of(&table, "version")?.unwrap_or_default();
    driver.doc = text_of(&table, "doc")?.unwrap_or_default();
    for (key, value) in table_of(&table, "bind")? {
        let value = value.as_str().ok_or_else(|| format!("`bind.{key}` has to be a text"))?;
        driver.bind.push((key.clone(), value.to_owned()));
    }
    for (name, value) in table_of(&table, "config")? {
        let table = value.as_table().ok_or_else(|| format!("`config.{name}` has to be a table"))?;
        driver.config.push(key_of(name, table)?);
    }
    Ok(note_of(driver))
}

fn key_of(name: &str, table: &Toml) -> Result<KeyNote, String> {
    known(table, &["kind", "required", "default", "doc"], &format!("`config.{name}`"))?;
    let mut key = KeyNote::default();
    key.name = name.to_owned();
    key.doc = text_of(table, "doc")?.unwrap_or_default();
    key.default = text_of(table, "default")?.filter(|text| !text.is_empty());
    key.is_required = match table.get("required") {
        None => false,
        Some(value) => value.as_bool().ok_or_else(|| format!("`config.{name}.required` has to be true or false"))?,
    };
    if let Some(kind) = text_of(table, "kind")? {
        let found = KINDS.into_iter().find(|one| kind_name(*one) == kind);
        key.kind = found.ok_or_else(|| {
            let names: Vec<_> = KINDS.iter().map(|kind| kind_name(*kind)).collect();
            format!("`config.{name}.kind` is {kind:?}, and has to be one of {}", names.join(", "))
        })?;
    }
    Ok(key)
}

fn known(table: &Toml, keys: &[&str], of: &str) -> Result<(), String> {
    match table.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("{of} has no key `{key}`; there are {}", keys.join(", "))),
        None => Ok(()),
    }
}

fn text_of(table: &Toml, key: &str) -> Result<Option<String>, String> {
    match table.get(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{key}` has to be a text")),
    }
}

fn table_of<'a>(table: &'a Toml, key: &str) -> Result<Box<dyn Iterator<Item = (&'a String, &'a Value)> + 'a>, String> {
    match table.get(key) {
        None => Ok(Box::new(std::iter::empty())),
        Some(Value::Table(inner)) => Ok(Box::new(inner.iter())),
        Some(_) => Err(format!("`{key}` has to be a table")),
    }
}

/// Whether this host can use a registration of this version.
pub(super) fn check_version(version: u64) -> Result<(), ModuleProblem> {
    match version == DRIVER_REGISTRATION_VERSION_1 {
        true => Ok(()),
        false => Err(ModuleProblem::Registration { theirs: version }),
    }
}

/// Gives the library that came with a module the table of this host, and returns what the module has registered.
pub(super) fn attach(library: &Library) -> Result<&'static DriverRegistration, ModuleProblem> {
    type Attach = unsafe extern "C" fn(*const Table) -> zx_status_t;
    let disagrees = |what: &str| ModuleProblem::Disagrees(what.to_owned());
    // SAFETY: the library has the function with this type in all of its releases.
    let attach = unsafe { library.get::<Attach>(ATTACH) }.map(|symbol| *symbol);
    let attach = attach.map_err(|_| ModuleProblem::Unlinked)?;
    // SAFETY: the table is a static of this host.
    match unsafe { attach(fuchsine_abi::host::table()) } {
        ZX_OK => {}
        ZX_ERR_NOT_SUPPORTED => return Err(ModuleProblem::OtherLibrary),
        ZX_ERR_BAD_STATE => {
            return Err(disagrees("its constructors have called the C interface, before there is a host"));
        }
        other => return Err(disagrees(&format!("its library does not take this host: {other}"))),
    }
    // SAFETY: it is an object of this type, by the header; the module stays loaded.
    let found = unsafe { library.get::<*const DriverRegistration>(REGISTRATION.as_bytes()) }.map(|symbol| *symbol);
    let found = found.map_err(|_| disagrees("it has no registration"))?;
    // SAFETY: as above.
    let registration: &'static DriverRegistration = unsafe { &*found };
    check_version(registration.version)?;
    if registration.v1.initialize.is_none() || registration.v1.destroy.is_none() {
        return Err(disagrees("its registration lacks a function"));
    }
    Ok(registration)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTE: &str = "name = 'thermometer'\nversion = '1.2'\ndoc = 'measures'\n[bind]\nclass = 'sensor'\n[config]\n\
                        interval = { kind = 'duration', default = '1s', doc = 'how often' }\n\
                        source = { kind = 'path', required = true }\n\0\0\0";

    #[test]
    fn a_note_describes_the_driver() {
        let note = read_note(NOTE.as_bytes()).expect("it is one");
        let [driver] = note.drivers.as_slice() else { panic!("{note:?}") };
        assert_eq!((&*driver.name, &*driver.version, &*driver.doc), ("thermometer", "1.2", "measures"));
        assert_eq!(driver.bind, [("class".to_owned(), "sensor".to_owned())]);
        let keys: Vec<_> = driver.config.iter().map(|key| (&*key.name, key.kind, key.is_required)).collect();
        assert_eq!(keys, [("interval", ConfigKind::Duration, false), ("source", ConfigKind::Path, true)]);
        assert_eq!(driver.config[0].default.as_deref(), Some("1s"));
    }

    #[test]
    fn a_note_that_makes_no_sense_says_what_is_wrong() {
        for (text, why) in [
            ("", "no `name`"),
            ("name = 7", "`name` has to be a text"),
            ("name = 'a'\nnmae = 'b'", "no key `nmae`"),
            ("name = 'a'\n[config]\nx = 1", "`config.x` has to be a table"),
            ("name = 'a'\n[config.x]\nkind = 'number'", "one of text, integer"),
            ("name = 'a'\n[config.x]\nrequired = 'yes'", "true or false"),
            ("name = 'a'\nbind = 'b'", "`bind` has to be a table"),
            ("name = 'a", "string"),
        ] {
            let error = read_note(text.as_bytes()).expect_err(text);
            assert!(error.contains(why), "{text:?}: {error}");
        }
        assert!(read_note(b"\xff").is_err());
    }

    #[test]
    fn without_a_note_the_name_is_that_of_the_file() {
        for (path, name) in [("/a/libthermo_meter.so", "thermo_meter"), ("lib.so", "lib"), ("x.1 y.so", "x_1_y")] {
            assert_eq!(unnamed(Path::new(path)).drivers[0].name, name);
        }
    }
}
