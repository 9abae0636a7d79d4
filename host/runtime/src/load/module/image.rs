//! What the file of a module says before any of it is loaded: whether it can be, and its note.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use fuchsine_abi::protocol::FUCHSINE_NOTE_TYPE_C;
use fuchsine_driver::abi::{ABI_VERSION, DriverEntry, ModuleNote, NOTE_NAME, NOTE_TYPE, Table};
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use object::{Endianness, ReadCache, ReadRef};

use super::c_module;
use super::problem::ModuleProblem;

#[cfg(target_pointer_width = "64")]
type NativeHeader = elf::FileHeader64<Endianness>;
#[cfg(target_pointer_width = "32")]
type NativeHeader = elf::FileHeader32<Endianness>;

/// The class of this machine's files, as their fifth byte has it.
const NATIVE_CLASS: u8 = if cfg!(target_pointer_width = "64") { 2 } else { 1 };
/// Their byte order, as their sixth byte has it.
const NATIVE_ORDER: u8 = if cfg!(target_endian = "little") { 1 } else { 2 };

/// What a module says about itself, and what kind of module it is.
#[derive(Debug)]
pub(super) struct Image {
    pub(super) note: ModuleNote,
    /// Its drivers are those of an entry of `fuchsine-driver`, or it has one that is registered as C does it.
    pub(super) is_c: bool,
}

/// Reads the note of a module, or its registration, and checks that it fits this host. `path` is where it was.
pub(super) fn read(file: &File, path: &Path) -> Result<Image, ModuleProblem> {
    let image = image_of(file, path)?;
    let note = &image.note;
    if image.is_c {
        return Ok(image);
    }
    let (theirs, driver_crate) = (note.abi_revision, note.driver_crate.clone());
    if note.abi_version != ABI_VERSION {
        return Err(ModuleProblem::Version { theirs: note.abi_version, driver_crate });
    }
    if note.table_size > size_of::<Table>() as u64 {
        return Err(ModuleProblem::Revision { theirs, driver_crate });
    }
    if note.entry_size < size_of::<DriverEntry>() as u64 {
        return Err(ModuleProblem::Older { theirs, driver_crate });
    }
    Ok(image)
}

#[allow(clippy::useless_conversion, reason = "numbers of 64 bits are what they are on machines with 32")]
fn image_of(mut file: &File, path: &Path) -> Result<Image, ModuleProblem> {
    let unreadable = |error: std::io::Error| ModuleProblem::Unreadable(error.to_string());
    let has = file.seek(SeekFrom::End(0)).map_err(unreadable)?;
    let mut head = [0; size_of::<NativeHeader>()];
    let wanted = head.len().min(has as usize);
    file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    file.read_exact(&mut head[..wanted]).map_err(unreadable)?;
    check_head(&head, has)?;

    let cache = ReadCache::new(file);
    let damaged = |error: object::read::Error| ModuleProblem::Damaged(error.to_string());
    let header = NativeHeader::parse(&cache).map_err(damaged)?;
    let order = header.endian().map_err(damaged)?;
    if header.e_type(order) != elf::ET_DYN {
        return Err(ModuleProblem::NotShared);
    }
    check_length(header, order, has)?;
    let parts = header.program_headers(order, &cache).map_err(damaged)?;
    let end = |part: &<NativeHeader as FileHeader>::ProgramHeader| {
        let (from, length): (u64, u64) = (part.p_offset(order).into(), part.p_filesz(order).into());
        from.saturating_add(length)
    };
    if let Some(needs) = parts.iter().map(end).max().filter(|&needs| needs > has) {
        return Err(ModuleProblem::Truncated { has, needs });
    }
    let registration = registration_of(header, order, &cache, parts)?;
    for part in parts {
        let Some(mut notes) = part.notes(order, &cache).map_err(damaged)? else { continue };
        while let Some(note) = notes.next().map_err(damaged)? {
            if note.name() != NOTE_NAME.as_bytes() {
                continue;
            }
            let image = match note.n_type(order) {
                elf::NoteType(NOTE_TYPE) => ModuleNote::read(note.desc()).map(|note| Image { note, is_c: false }),
                elf::NoteType(FUCHSINE_NOTE_TYPE_C) if registration.is_none() => {
                    Err(format!("it is about a driver in C, and there is no `{}`", c_module::REGISTRATION))
                }
                elf::NoteType(FUCHSINE_NOTE_TYPE_C) => {
                    c_module::read_note(note.desc()).map(|note| Image { note, is_c: true })
                }
                _ => continue,
            };
            return image.map_err(ModuleProblem::BadNote);
        }
    }
    match registration {
        Some(()) => Ok(Image { note: c_module::unnamed(path), is_c: true }),
        None => Err(ModuleProblem::NoNote),
    }
}

/// Whether the library has the registration of a driver in C, which has to be of a version that this host knows.
#[allow(clippy::useless_conversion, reason = "as above")]
fn registration_of<'data, R: ReadRef<'data>>(
    header: &'data NativeHeader,
    order: Endianness,
    file: R,
    parts: &'data [<NativeHeader as FileHeader>::ProgramHeader],
) -> Result<Option<()>, ModuleProblem> {
    let damaged = |error: object::read::Error| ModuleProblem::Damaged(error.to_string());
    let sections = header.sections(order, file).map_err(damaged)?;
    let symbols = sections.symbols(order, file, elf::SHT_DYNSYM).map_err(damaged)?;
    let is_it = |symbol: &&<NativeHeader as FileHeader>::Sym| {
        !symbol.is_undefined(order)
            && symbols.symbol_name(order, symbol).is_ok_and(|name| name == c_module::REGISTRATION.as_bytes())
    };
    let Some(symbol) = symbols.iter().find(is_it) else { return Ok(None) };
    let at: u64 = symbol.st_value(order).into();
    // Its first word is plain data in the file; what follows are pointers, which a loader resolves.
    let version = parts.iter().find_map(|part| part.data_range(order, file, at, 8).ok().flatten());
    let version = version.and_then(|bytes| bytes.try_into().ok()).map(u64::from_ne_bytes);
    let outside = || ModuleProblem::Damaged(format!("`{}` lies outside of it", c_module::REGISTRATION));
    c_module::check_version(version.ok_or_else(outside)?)?;
    Ok(Some(()))
}

/// Of a file of this kind and for this machine: `head` is its beginning, filled up with zeros if it has less.
fn check_head(head: &[u8; size_of::<NativeHeader>()], has: u64) -> Result<(), ModuleProblem> {
    if !head.starts_with(b"\x7fELF") {
        return Err(ModuleProblem::NotElf);
    }
    if has < head.len() as u64 {
        return Err(ModuleProblem::Truncated { has, needs: head.len() as u64 });
    }
    let number = [head[18], head[19]];
    let machine = if head[5] == 2 { u16::from_be_bytes(number) } else { u16::from_le_bytes(number) };
    let name = machine_name(elf::Machine(machine));
    let theirs = match (head[4] == NATIVE_CLASS, head[5] == NATIVE_ORDER) {
        (true, true) if name == std::env::consts::ARCH => return Ok(()),
        (true, true) => name,
        (false, _) => format!("{name} with {} bits", if head[4] == 2 { 64 } else { 32 }),
        (true, false) => {
            format!("{name} with the {} byte order", if head[5] == 2 { "big-endian" } else { "little-endian" })
        }
    };
    Err(ModuleProblem::Machine { theirs, ours: std::env::consts::ARCH })
}

/// The tables of the head have to be there: of a file that was cut off, the one at the end is not.
#[allow(clippy::useless_conversion, reason = "as above")]
fn check_length(header: &NativeHeader, order: Endianness, has: u64) -> Result<(), ModuleProblem> {
    let (parts, sections): (u64, u64) = (header.e_phoff(order).into(), header.e_shoff(order).into());
    let parts = parts.saturating_add(u64::from(header.e_phnum(order)) * u64::from(header.e_phentsize(order)));
    let sections = sections.saturating_add(u64::from(header.e_shnum(order)) * u64::from(header.e_shentsize(order)));
    let needs = parts.max(sections);
    if needs > has { Err(ModuleProblem::Truncated { has, needs }) } else { Ok(()) }
}

fn machine_name(machine: elf::Machine) -> String {
    let known = match machine {
        elf::EM_X86_64 => "x86_64",
        elf::EM_AARCH64 => "aarch64",
        elf::EM_386 => "x86",
        elf::EM_ARM => "arm",
        elf::EM_RISCV if cfg!(target_pointer_width = "64") => "riscv64",
        elf::EM_RISCV => "riscv32",
        elf::EM_PPC64 => "powerpc64",
        elf::EM_S390 => "s390x",
        elf::EM_LOONGARCH => "loongarch64",
        elf::EM_MIPS => "mips64",
        other => return format!("machine {}", other.0),
    };
    known.to_owned()
}
