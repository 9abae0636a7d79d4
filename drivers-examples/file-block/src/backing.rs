//! [`open`]: the file behind the device, found or made, locked, and of the right size.
//!
//! A file that is made, or made longer, is so by setting its length: what was never written is a hole, takes no space and
//! reads as zeroes. Nothing of the file is looked at before the lock is held, and an existing file is never made shorter.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use fuchsine_driver::Status;
use rustix::fs::OFlags;

use crate::config::Wanted;
use crate::lock::{self, LockError};

/// The file of a device, locked as long as it is open.
#[derive(Debug)]
pub(crate) struct Backing {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    pub(crate) origin: Origin,
}

/// What became of the file at the start, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was there, with this size.
    Found,
    /// It was made.
    Made,
    /// It had this many bytes and was made longer.
    Grown(u64),
}

/// Why the file cannot be a device; the text says what to do where there is something to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackingError {
    #[error("cannot open {path}: {source}", path = path.display())]
    Open { path: PathBuf, source: io::Error },
    #[error("there is no file {path}: set `size` to have it made, or correct `path`", path = path.display())]
    Absent { path: PathBuf },
    #[error("{path} is not a regular file", path = path.display())]
    NotAFile { path: PathBuf },
    #[error("{path} is in use by {who}: two devices on one file would spoil it", path = path.display())]
    InUse { path: PathBuf, who: String },
    #[error("cannot lock {path}, so two hosts could spoil it: {source}", path = path.display())]
    NoLock { path: PathBuf, source: io::Error },
    #[error("{path} is empty: set `size` to say how big the device is", path = path.display())]
    Empty { path: PathBuf },
    #[error(
        "{path} has {found} bytes, which is no multiple of `block_size` ({block_size}): set `size` to {up}, and it is made \
         that long",
        path = path.display(),
        up = found.next_multiple_of(u64::from(*block_size))
    )]
    Uneven { path: PathBuf, found: u64, block_size: u32 },
    #[error(
        "{path} has {found} bytes, more than the {size} of `size`, and is not cut off: set `size` to {found} or leave it out",
        path = path.display()
    )]
    TooLong { path: PathBuf, found: u64, size: u64 },
    #[error(
        "{path} has {found} bytes, fewer than the {size} of `size`, and `read_only` forbids to make it longer: leave `size` \
         out",
        path = path.display()
    )]
    TooShort { path: PathBuf, found: u64, size: u64 },
    #[error("cannot make {path} {size} bytes long: {source}", path = path.display())]
    Grow { path: PathBuf, size: u64, source: io::Error },
}

impl BackingError {
    /// The condition behind it.
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Open { source, .. } | Self::NoLock { source, .. } | Self::Grow { source, .. } => Status::from(source),
            Self::Absent { .. } => Status::NotFound,
            Self::NotAFile { .. } => Status::NotFile,
            Self::InUse { .. } => Status::AlreadyBound,
            Self::Empty { .. } | Self::Uneven { .. } | Self::TooLong { .. } | Self::TooShort { .. } => {
                Status::InvalidArgs
            }
        }
    }
}

/// Opens what is wanted.
///
/// # Errors
/// [`BackingError`]; a file that had to be made may exist then, and is empty.
pub(crate) fn open(wanted: &Wanted) -> Result<Backing, BackingError> {
    let path = wanted.path.clone();
    let (file, is_made) = open_or_make(wanted)?;
    let metadata = file.metadata().map_err(|source| BackingError::Open { path: path.clone(), source })?;
    if !metadata.is_file() {
        return Err(BackingError::NotAFile { path });
    }
    lock::take(&file, wanted.read_only).map_err(|error| match error {
        LockError::Held(Some(pid)) => BackingError::InUse { path: path.clone(), who: format!("process {pid}") },
        LockError::Held(None) => BackingError::InUse { path: path.clone(), who: "another process".to_owned() },
        LockError::Failed(source) => BackingError::NoLock { path: path.clone(), source },
    })?;
    // Only now: whoever had the lock may have changed it.
    let found = file.metadata().map_err(|source| BackingError::Open { path: path.clone(), source })?.len();
    let (size, origin) = match wanted.size {
        None if found == 0 => return Err(BackingError::Empty { path }),
        None if !found.is_multiple_of(u64::from(wanted.block_size)) => {
            return Err(BackingError::Uneven { path, found, block_size: wanted.block_size });
        }
        None => (found, Origin::Found),
        Some(size) if found == size => (size, Origin::Found),
        Some(size) if found > size => return Err(BackingError::TooLong { path, found, size }),
        Some(size) if wanted.read_only => return Err(BackingError::TooShort { path, found, size }),
        Some(size) => {
            grow(&file, &path, size).map_err(|source| BackingError::Grow { path: path.clone(), size, source })?;
            (size, if is_made { Origin::Made } else { Origin::Grown(found) })
        }
    };
    Ok(Backing { file, path, size, origin })
}

/// The open file, and whether there was none before.
fn open_or_make(wanted: &Wanted) -> Result<(File, bool), BackingError> {
    let Wanted { path, size, read_only, .. } = wanted;
    let mut options = OpenOptions::new();
    // To open a pipe would wait for its other side; to a regular file the flag means nothing.
    options.read(true).write(!read_only).mode(0o600).custom_flags(OFlags::NONBLOCK.bits() as i32);
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::IsADirectory => BackingError::NotAFile { path: path.clone() },
        _ => BackingError::Open { path: path.clone(), source },
    };
    match options.open(path) {
        Ok(file) => Ok((file, false)),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        Err(_) if *read_only || size.is_none() => Err(BackingError::Absent { path: path.clone() }),
        // Another host may make it at the same time; the lock tells which of the two has it.
        Err(_) => options.create(true).truncate(false).open(path).map(|file| (file, true)).map_err(failed),
    }
}

/// Sets the length, and sees to it that the file with its name and its length survives a loss of power.
fn grow(file: &File, path: &Path, size: u64) -> io::Result<()> {
    file.set_len(size)?;
    file.sync_all()?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    fn wanted(path: &Path, size: u64) -> Wanted {
        Wanted { path: path.to_owned(), size: (size > 0).then_some(size), block_size: 512, read_only: false }
    }

    #[track_caller]
    fn refused(wanted: &Wanted, words: &[&str]) -> Status {
        let error = open(wanted).map(|_| ()).expect_err("it is refused");
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        error.status()
    }

    #[test]
    fn a_file_that_is_made_takes_no_space_and_is_its_owner_s_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let backing = open(&wanted(&path, 1 << 40)).expect("a sparse file of a tebibyte");
        assert_eq!((backing.size, backing.origin), (1 << 40, Origin::Made));
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((metadata.len(), metadata.permissions().mode() & 0o777), (1 << 40, 0o600));
        assert!(metadata.blocks() < 64, "{} blocks", metadata.blocks());
    }

    #[test]
    fn a_file_that_is_there_gives_the_size_or_is_made_longer_and_never_shorter() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        fs::write(&path, [7; 1024]).unwrap();
        assert_eq!(open(&wanted(&path, 0)).unwrap().size, 1024);
        assert_eq!(open(&wanted(&path, 1024)).unwrap().origin, Origin::Found);
        assert_eq!(refused(&wanted(&path, 512), &["1024 bytes", "set `size` to 1024"]), Status::InvalidArgs);
        let grown = open(&wanted(&path, 4096)).unwrap();
        assert_eq!((grown.size, grown.origin), (4096, Origin::Grown(1024)));
        let bytes = fs::read(&path).unwrap();
        assert!(bytes[..1024].iter().all(|&byte| byte == 7) && bytes[1024..] == [0; 3072]);
    }

    #[test]
    fn what_cannot_be_a_device_is_refused_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        assert_eq!(refused(&wanted(&path, 0), &["there is no file", "set `size`"]), Status::NotFound);
        fs::write(&path, []).unwrap();
        refused(&wanted(&path, 0), &["is empty", "set `size`"]);
        fs::write(&path, [0; 700]).unwrap();
        refused(&wanted(&path, 0), &["700 bytes", "set `size` to 1024"]);
        let fixed = Wanted { read_only: true, ..wanted(&path, 1024) };
        refused(&fixed, &["700 bytes", "`read_only`"]);
        refused(&Wanted { read_only: true, ..wanted(&folder.path().join("none"), 1024) }, &["there is no file"]);
        assert_eq!(refused(&wanted(folder.path(), 1024), &["not a regular file"]), Status::NotFile);
        let read_only = Wanted { read_only: true, ..wanted(folder.path(), 0) };
        assert_eq!(refused(&read_only, &["not a regular file"]), Status::NotFile);
        assert_eq!(refused(&wanted(&folder.path().join("no/disk.img"), 512), &["cannot open"]), Status::NotFound);
        assert_eq!(fs::read(&path).unwrap(), [0; 700], "it was left as it was");
    }

    #[test]
    fn a_pipe_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for read_only in [false, true] {
            refused(&Wanted { read_only, ..wanted(&path, 0) }, &["not a regular file"]);
        }
    }

    #[test]
    fn a_file_has_one_device_or_several_that_only_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let first = open(&wanted(&path, 1024)).unwrap();
        assert_eq!(refused(&wanted(&path, 2048), &["in use by"]), Status::AlreadyBound);
        assert_eq!(fs::metadata(&path).unwrap().len(), 1024, "who has no lock changes nothing");
        drop(first);
        let read_only = Wanted { read_only: true, ..wanted(&path, 0) };
        let (_one, _other) = (open(&read_only).unwrap(), open(&read_only).unwrap());
        refused(&wanted(&path, 0), &["in use by"]);
    }
}
