//! What the file of a module says before any of it is loaded: whether it can be, and its note.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use fuchsine_driver::abi::{ABI_VERSION, DriverEntry, ModuleNote, NOTE_NAME, NOTE_TYPE, Table};
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};

use super::problem::ModuleProblem;

#[cfg(target_pointer_width = "64")]
type NativeHeader = elf::FileHeader64<Endianness>;
#[cfg(target_pointer_width = "32")]
type NativeHeader = elf::FileHeader32<Endianness>;

/// The class of this machine's files, as their fifth byte has it.
const NATIVE_CLASS: u8 = if cfg!(target_pointer_width = "64") { 2 } else { 1 };
/// Their byte order, as their sixth byte has it.
const NATIVE_ORDER: u8 = if cfg!(target_endian = "little") { 1 } else { 2 };

/// Reads the note of a module, and checks that it fits this host.
pub(super) fn read_note(file: &File) -> Result<ModuleNote, ModuleProblem> {
    let note = note_of(file)?;
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
    Ok(note)
}

#[allow(clippy::useless_conversion, reason = "numbers of 64 bits are what they are on machines with 32")]
fn note_of(mut file: &File) -> Result<ModuleNote, ModuleProblem> {
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
    for part in parts {
        let Some(mut notes) = part.notes(order, &cache).map_err(damaged)? else { continue };
        while let Some(note) = notes.next().map_err(damaged)? {
            if note.name() == NOTE_NAME.as_bytes() && note.n_type(order) == elf::NoteType(NOTE_TYPE) {
                return ModuleNote::read(note.desc()).map_err(ModuleProblem::BadNote);
            }
        }
    }
    Err(ModuleProblem::NoNote)
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
