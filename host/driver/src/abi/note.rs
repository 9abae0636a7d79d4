//! What a module says about itself without being loaded: a note in its file (`.note.fuchsine`).
//!
//! The note is an ordinary ELF note, with the name `Fuchsine` and the type [`NOTE_TYPE`], so `readelf -n` finds it. A
//! host reads it from the file before any of the module's code is mapped: which interface it was built for, and which
//! drivers it has, with their configuration. Its writer runs when the module is compiled; its reader ([`ModuleNote`])
//! takes nothing for granted, as the file may be anything.
//!
//! # Layout of the description
//! Numbers have the byte order of the file. A *text* is a `u32` length and so many bytes of UTF-8.
//!
//! | what | type |
//! |---|---|
//! | [`NOTE_FORMAT`] | `u32` |
//! | `ABI_VERSION`, `ABI_REVISION` | `u32`, `u32` |
//! | number of drivers | `u32` |
//! | size of the table and of an entry that it was built with | `u64`, `u64` |
//! | version of `fuchsine-driver` | text |
//! | for each driver: name, version, sentence | texts |
//! | … number of keys, each: kind, whether it is required; name, default, sentence | `u32`; `u32`, `u32`; texts |
//! | … number of properties that it binds to, each: key, value | `u32`; texts |
//!
//! # Invariants
//! - The writer reads entries that a compiler has in its hands: their pointers are those of constants.

use std::mem::size_of;
use std::slice;

use super::entry::{ConfigKey, ConfigKind, DriverEntry};
use super::table::Table;
use super::types::{ABI_REVISION, ABI_VERSION, Property, Str};

/// The name of the note.
pub const NOTE_NAME: &str = "Fuchsine";

/// The type of the note: a module whose drivers are [`DriverEntry`]s.
pub const NOTE_TYPE: u32 = 1;

/// The layout of what the note says. The fields up to the version of `fuchsine-driver` stay in all of them.
pub const NOTE_FORMAT: u32 = 1;

/// The most of anything that a note counts: drivers, keys, properties.
const MAX_COUNT: u32 = 4096;

/// The note as it stands in the file; `N` is [`Note::size`] of its drivers.
#[repr(C, align(4))]
#[derive(Debug)]
pub struct Note<const N: usize> {
    name_size: u32,
    size: u32,
    kind: u32,
    name: [u8; 12],
    description: [u8; N],
}

impl Note<0> {
    /// How long the description of `drivers` is.
    pub const fn size(drivers: &[DriverEntry]) -> usize {
        let mut counted = Writer { bytes: [], at: 0 };
        counted.describe(drivers);
        counted.at.next_multiple_of(4)
    }
}

impl<const N: usize> Note<N> {
    /// The note about `drivers`.
    ///
    /// # Panics
    /// If `N` is not [`Note::size`] of them, at the time of compiling.
    pub const fn new(drivers: &[DriverEntry]) -> Note<N> {
        let mut written = Writer { bytes: [0; N], at: 0 };
        written.describe(drivers);
        assert!(written.at.next_multiple_of(4) == N, "the size of a note is that of its drivers");
        let mut name = [0; 12];
        let (mut at, text) = (0, NOTE_NAME.as_bytes());
        while at < text.len() {
            name[at] = text[at];
            at += 1;
        }
        Note { name_size: text.len() as u32 + 1, size: N as u32, kind: NOTE_TYPE, name, description: written.bytes }
    }
}

/// Writes what fits and counts everything.
struct Writer<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Writer<N> {
    const fn describe(&mut self, drivers: &[DriverEntry]) {
        self.number(NOTE_FORMAT);
        self.number(ABI_VERSION);
        self.number(ABI_REVISION);
        self.number(drivers.len() as u32);
        self.put(&(size_of::<Table>() as u64).to_ne_bytes());
        self.put(&(size_of::<DriverEntry>() as u64).to_ne_bytes());
        self.text(Str::new(env!("CARGO_PKG_VERSION")));
        let mut n = 0;
        while n < drivers.len() {
            self.driver(&drivers[n]);
            n += 1;
        }
    }

    const fn driver(&mut self, driver: &DriverEntry) {
        self.text(driver.name);
        self.text(driver.version);
        self.text(driver.doc);
        self.number(driver.config_count as u32);
        let mut n = 0;
        while n < driver.config_count {
            // SAFETY: the entry says that so many keys stand there, and it is a constant.
            let key: &ConfigKey = unsafe { &*driver.config.add(n) };
            self.number(key.kind);
            self.number(key.required);
            self.text(key.name);
            self.text(key.default);
            self.text(key.doc);
            n += 1;
        }
        self.number(driver.bind_count as u32);
        let mut n = 0;
        while n < driver.bind_count {
            // SAFETY: as above.
            let property: &Property = unsafe { &*driver.bind.add(n) };
            self.text(property.key);
            self.text(property.value);
            n += 1;
        }
    }

    const fn text(&mut self, text: Str) {
        self.number(text.len as u32);
        if text.len > 0 {
            // SAFETY: the strings of an entry are constants.
            self.put(unsafe { slice::from_raw_parts(text.ptr, text.len) });
        }
    }

    const fn number(&mut self, number: u32) {
        self.put(&number.to_ne_bytes());
    }

    const fn put(&mut self, bytes: &[u8]) {
        let mut n = 0;
        while n < bytes.len() {
            if self.at < N {
                self.bytes[self.at] = bytes[n];
            }
            self.at += 1;
            n += 1;
        }
    }
}

/// What a module says about itself in its file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModuleNote {
    /// The version of the driver interface that it was built for.
    pub abi_version: u32,
    /// The revision of it.
    pub abi_revision: u32,
    /// The size of the table that it needs.
    pub table_size: u64,
    /// The size of its entries.
    pub entry_size: u64,
    /// The version of `fuchsine-driver` that it was built with.
    pub driver_crate: String,
    /// Its drivers; empty if it was built for another version of the interface, whose drivers this build cannot read.
    pub drivers: Vec<DriverNote>,
}

/// One driver of a module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DriverNote {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it does, in a sentence.
    pub doc: String,
    /// The keys of its configuration.
    pub config: Vec<KeyNote>,
    /// The properties that a node must all have for it to be bound to it.
    pub bind: Vec<(String, String)>,
}

/// One key of a driver's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyNote {
    /// The key.
    pub name: String,
    /// What its value may be.
    pub kind: ConfigKind,
    /// Whether it must be given.
    pub is_required: bool,
    /// The value it has when it is left out, as text; `None` when there is none.
    pub default: Option<String>,
    /// What it does, in a sentence.
    pub doc: String,
}

impl From<&DriverEntry> for DriverNote {
    fn from(entry: &DriverEntry) -> DriverNote {
        let key = |key: &ConfigKey| KeyNote {
            name: key.name().to_owned(),
            kind: key.kind(),
            is_required: key.is_required(),
            default: key.default().map(str::to_owned),
            doc: key.doc().to_owned(),
        };
        DriverNote {
            name: entry.name().to_owned(),
            version: entry.version().to_owned(),
            doc: entry.doc().to_owned(),
            config: entry.config().iter().map(key).collect(),
            bind: entry.bind().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        }
    }
}

/// Text that stays for as long as the process.
fn kept(text: &str) -> Str {
    Str::new(String::leak(text.to_owned()))
}

impl DriverEntry {
    /// The entry of an adapter, under the name of a driver that it is for: what a host knows a driver by whose own interface is
    /// another one. The hooks are those of this entry; all else is what `note` says, and is never freed.
    ///
    /// # Examples
    /// ```
    /// # use fuchsine_driver::{Driver, DriverContext, DriverEntry, StartError, abi::DriverNote};
    /// # struct Adapter;
    /// # impl Driver for Adapter {
    /// #     const NAME: &'static str = "adapter";
    /// #     async fn start(_cx: DriverContext) -> Result<Self, StartError> { Ok(Adapter) }
    /// # }
    /// let mut note = DriverNote::default();
    /// note.name = "lamp".to_owned();
    /// assert_eq!(DriverEntry::of::<Adapter>().described(&note).name(), "lamp");
    /// ```
    #[must_use]
    pub fn described(self, note: &DriverNote) -> DriverEntry {
        let key = |key: &KeyNote| ConfigKey {
            name: kept(&key.name),
            default: kept(key.default.as_deref().unwrap_or_default()),
            doc: kept(&key.doc),
            kind: key.kind.to_raw(),
            required: u32::from(key.is_required),
        };
        let config: &'static [ConfigKey] = note.config.iter().map(key).collect::<Vec<_>>().leak();
        let property = |(key, value): &(String, String)| Property { key: kept(key), value: kept(value) };
        let bind: &'static [Property] = note.bind.iter().map(property).collect::<Vec<_>>().leak();
        DriverEntry {
            name: kept(&note.name),
            version: kept(&note.version),
            doc: kept(&note.doc),
            config: config.as_ptr(),
            config_count: config.len(),
            bind: bind.as_ptr(),
            bind_count: bind.len(),
            ..self
        }
    }
}

impl ModuleNote {
    /// Reads the description of a note, of a file with this machine's byte order.
    ///
    /// # Errors
    /// What about it makes no sense.
    pub fn read(description: &[u8]) -> Result<ModuleNote, String> {
        let mut reader = Reader(description);
        let format = reader.number()?;
        let (abi_version, abi_revision, count) = (reader.number()?, reader.number()?, reader.number()?);
        let (table_size, entry_size) = (reader.long()?, reader.long()?);
        let driver_crate = reader.text()?;
        let mut note =
            ModuleNote { abi_version, abi_revision, table_size, entry_size, driver_crate, drivers: Vec::new() };
        if abi_version != ABI_VERSION {
            return Ok(note);
        }
        if format != NOTE_FORMAT {
            return Err(format!("it has the layout {format}, and this host reads {NOTE_FORMAT}"));
        }
        note.drivers = reader.list(count, Reader::driver)?;
        Ok(note)
    }
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn driver(&mut self) -> Result<DriverNote, String> {
        let (name, version, doc) = (self.text()?, self.text()?, self.text()?);
        let keys = self.number()?;
        let config = self.list(keys, Reader::key)?;
        let properties = self.number()?;
        let bind = self.list(properties, |reader| Ok((reader.text()?, reader.text()?)))?;
        Ok(DriverNote { name, version, doc, config, bind })
    }

    fn key(&mut self) -> Result<KeyNote, String> {
        let (kind, required) = (self.number()?, self.number()?);
        let (name, default, doc) = (self.text()?, self.text()?, self.text()?);
        let default = Some(default).filter(|text| !text.is_empty());
        Ok(KeyNote { name, kind: ConfigKind::from_raw(kind), is_required: required != 0, default, doc })
    }

    fn list<T>(&mut self, count: u32, mut item: impl FnMut(&mut Self) -> Result<T, String>) -> Result<Vec<T>, String> {
        if count > MAX_COUNT {
            return Err(format!("it counts {count} of something, and {MAX_COUNT} is the most"));
        }
        (0..count).map(|_| item(self)).collect()
    }

    fn text(&mut self) -> Result<String, String> {
        let length = self.number()? as usize;
        let bytes = self.take(length)?.to_vec();
        String::from_utf8(bytes).map_err(|_| String::from("a text in it is not UTF-8"))
    }

    fn number(&mut self) -> Result<u32, String> {
        let bytes = self.take(4)?;
        Ok(u32::from_ne_bytes(bytes.try_into().map_err(|_| Self::short())?))
    }

    fn long(&mut self) -> Result<u64, String> {
        let bytes = self.take(8)?;
        Ok(u64::from_ne_bytes(bytes.try_into().map_err(|_| Self::short())?))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(Self::short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn short() -> String {
        String::from("it ends in the middle")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BindProperty, Driver, DriverContext, StartError};

    struct Lamp;

    impl Driver for Lamp {
        const NAME: &'static str = "lamp";
        const VERSION: &'static str = "1.2";
        const DOC: &'static str = "gives light";
        const CONFIG: &'static [ConfigKey] = &[
            ConfigKey::optional("colour", ConfigKind::Text, "blue", "which light"),
            ConfigKey::optional("since", ConfigKind::Duration, "", "for how long"),
            ConfigKey::required("watts", ConfigKind::Integer, "how much"),
        ];
        const BIND: &'static [BindProperty] = &[BindProperty::new("socket", "e27")];

        async fn start(_: DriverContext) -> Result<Self, StartError> {
            Ok(Lamp)
        }
    }

    const DRIVERS: &[DriverEntry] = &[DriverEntry::of::<Lamp>(), DriverEntry::of::<Lamp>()];
    static NOTE: Note<{ Note::size(DRIVERS) }> = Note::new(DRIVERS);

    #[test]
    fn a_note_tells_what_the_entries_say() {
        let read = ModuleNote::read(&NOTE.description).unwrap();
        assert_eq!((read.abi_version, read.abi_revision), (ABI_VERSION, ABI_REVISION));
        assert_eq!((read.table_size, read.entry_size), (size_of::<Table>() as u64, size_of::<DriverEntry>() as u64));
        assert_eq!(read.driver_crate, env!("CARGO_PKG_VERSION"));
        assert_eq!(read.drivers.len(), 2);
        let key = |name: &str, kind, is_required, default: Option<&str>, doc: &str| KeyNote {
            name: name.to_owned(),
            kind,
            is_required,
            default: default.map(str::to_owned),
            doc: doc.to_owned(),
        };
        let lamp = DriverNote {
            name: "lamp".to_owned(),
            version: "1.2".to_owned(),
            doc: "gives light".to_owned(),
            config: vec![
                key("colour", ConfigKind::Text, false, Some("blue"), "which light"),
                key("since", ConfigKind::Duration, false, None, "for how long"),
                key("watts", ConfigKind::Integer, true, None, "how much"),
            ],
            bind: vec![("socket".to_owned(), "e27".to_owned())],
        };
        assert_eq!(DriverNote::from(&DRIVERS[0]), lamp);
        assert_eq!(read.drivers, [lamp.clone(), lamp]);
    }

    #[test]
    fn an_entry_that_is_described_by_a_note_says_what_the_note_says() {
        let lamp = DriverNote::from(&DRIVERS[0]);
        let mut other = lamp.clone();
        other.name = "torch".to_owned();
        other.config.truncate(1);
        other.bind.clear();
        // What is never freed is held by somebody, or it would be a leak.
        static HELD: std::sync::OnceLock<[DriverEntry; 2]> = std::sync::OnceLock::new();
        let [entry, same] = HELD.get_or_init(|| [DRIVERS[0].described(&other), DRIVERS[0].described(&lamp)]);
        assert!(entry.check().is_ok());
        assert_eq!(DriverNote::from(entry), other);
        assert_eq!(DriverNote::from(same), lamp);
    }

    #[test]
    fn a_note_has_the_head_of_an_elf_note() {
        assert_eq!((NOTE.name_size, NOTE.kind), (9, NOTE_TYPE));
        assert_eq!(&NOTE.name, b"Fuchsine\0\0\0\0");
        assert_eq!(NOTE.size as usize, NOTE.description.len());
        assert_eq!(size_of_val(&NOTE), 24 + NOTE.description.len());
    }

    #[test]
    fn of_another_version_only_the_versions_are_read() {
        let mut bytes = NOTE.description.to_vec();
        bytes[0..4].copy_from_slice(&7u32.to_ne_bytes());
        bytes[4..8].copy_from_slice(&99u32.to_ne_bytes());
        let read = ModuleNote::read(&bytes).unwrap();
        assert_eq!((read.abi_version, read.drivers.len()), (99, 0));
        bytes[4..8].copy_from_slice(&ABI_VERSION.to_ne_bytes());
        assert_eq!(ModuleNote::read(&bytes).unwrap_err(), "it has the layout 7, and this host reads 1");
    }

    #[test]
    fn what_is_no_note_is_refused_wherever_it_ends_and_whatever_it_says() {
        for length in 0..NOTE.description.len() - 3 {
            let cut = ModuleNote::read(&NOTE.description[..length]);
            assert!(cut.is_err() || length + 4 > NOTE.description.len(), "{length}: {cut:?}");
        }
        let mut bytes = NOTE.description.to_vec();
        bytes[12..16].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(ModuleNote::read(&bytes).unwrap_err().contains("4294967295"));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_note_or_are_refused(
            noise in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
            at in 0..200usize,
        ) {
            let _ = ModuleNote::read(&noise);
            let mut bytes = NOTE.description.to_vec();
            for (place, byte) in bytes.iter_mut().skip(at).zip(noise) {
                *place = byte;
            }
            let _ = ModuleNote::read(&bytes);
        }
    }
}
