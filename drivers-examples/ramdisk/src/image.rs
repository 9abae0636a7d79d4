//! The image file: what the device is filled with at start, and where its contents go at stop.
//!
//! Saving never leaves a half-written image behind: the contents go to a new file in the same folder, which is forced
//! to the medium and then renamed over the old one; the folder is forced too, since it holds the name. If any step
//! fails, the old image is as it was and the new file is deleted. Pages of zeroes become holes of the file, and take no
//! memory when loaded.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, fchown};
use std::path::{Path, PathBuf};

use fuchsine_driver::Status;

use crate::store::{OutOfMemory, PAGE, Store};

/// Why an image could not be loaded or saved; the text says what to do where there is something to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    #[error("cannot read the image {path}: {source}", path = path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the image {path} is not a regular file", path = path.display())]
    NotAFile { path: PathBuf },
    #[error(
        "the image {path} has {found} bytes and does not fit the device of {size} bytes; set `size` to at least that",
        path = path.display()
    )]
    TooBig { path: PathBuf, found: u64, size: u64 },
    #[error("the folder of the image {path} does not exist; create it, or the image cannot be saved at stop", path = path.display())]
    NoFolder { path: PathBuf },
    #[error(
        "the image {path} could not be saved at stop: cannot create a file beside it: {source}; make that possible, or \
         use a copy of it elsewhere",
        path = path.display()
    )]
    CannotBeSaved { path: PathBuf, source: io::Error },
    #[error("out of memory while loading the image {path}", path = path.display())]
    OutOfMemory { path: PathBuf },
    #[error("{work} the image {path} was given up: the driver is being stopped", path = path.display())]
    Interrupted { work: &'static str, path: PathBuf },
    #[error("cannot save the image {path}, the old one is untouched: {step}: {source}", path = path.display())]
    Save { path: PathBuf, step: &'static str, source: io::Error },
}

impl ImageError {
    /// The condition behind it.
    pub(crate) fn status(&self) -> Status {
        match self {
            ImageError::Read { source, .. }
            | ImageError::Save { source, .. }
            | ImageError::CannotBeSaved { source, .. } => Status::from(source),
            ImageError::NotAFile { .. } => Status::NotFile,
            ImageError::TooBig { .. } => Status::FileBig,
            ImageError::NoFolder { .. } => Status::NotFound,
            ImageError::OutOfMemory { .. } => Status::NoMemory,
            ImageError::Interrupted { .. } => Status::Canceled,
        }
    }
}

/// What loading did, for the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Loaded {
    /// The file had this many bytes.
    Bytes(u64),
    /// There is no such file yet: the device starts empty and the stop creates it.
    Absent,
}

/// Fills the store from the file at `path`. `given_up` is asked between pages.
///
/// # Errors
/// [`ImageError`]; the store may be filled in part then, and the driver does not start.
pub(crate) fn load(path: &Path, store: &Store, given_up: &dyn Fn() -> bool) -> Result<Loaded, ImageError> {
    let read_error = |source| ImageError::Read { path: path.to_owned(), source };
    // To open a pipe would wait until somebody writes into it.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(ImageError::NotAFile { path: path.to_owned() });
    }
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return if folder_of(path).is_dir() {
                Ok(Loaded::Absent)
            } else {
                Err(ImageError::NoFolder { path: path.to_owned() })
            };
        }
        Err(error) => return Err(read_error(error)),
    };
    let metadata = file.metadata().map_err(read_error)?;
    if !metadata.is_file() {
        return Err(ImageError::NotAFile { path: path.to_owned() });
    }
    if metadata.len() > store.size() {
        return Err(ImageError::TooBig { path: path.to_owned(), found: metadata.len(), size: store.size() });
    }
    let mut page = vec![0; PAGE];
    let mut offset = 0;
    loop {
        if given_up() {
            return Err(ImageError::Interrupted { work: "loading", path: path.to_owned() });
        }
        let len = read_full(&mut file, &mut page).map_err(read_error)?;
        if len == 0 {
            return Ok(Loaded::Bytes(offset));
        }
        if offset + len as u64 > store.size() {
            // The file grew while it was read.
            return Err(ImageError::TooBig { path: path.to_owned(), found: offset + len as u64, size: store.size() });
        }
        if !is_zero(&page[..len]) {
            store
                .write(offset, &page[..len])
                .map_err(|OutOfMemory| ImageError::OutOfMemory { path: path.to_owned() })?;
        }
        offset += len as u64;
    }
}

/// Whether an image at `path` could be saved now, as far as one can tell beforehand.
///
/// # Errors
/// [`ImageError::CannotBeSaved`].
pub(crate) fn check_that_it_can_be_saved(path: &Path) -> Result<(), ImageError> {
    let draft = target_of(path).and_then(|target| Draft::create(folder_of(&target), &target));
    draft.map(drop).map_err(|source| ImageError::CannotBeSaved { path: path.to_owned(), source })
}

/// Writes the store to the file at `path`, in one step as others see it. Nobody may write to the store meanwhile.
/// `given_up` is asked between pages.
///
/// # Errors
/// [`ImageError::Save`] with the step that failed; the old image is untouched then.
pub(crate) fn save(path: &Path, store: &Store, given_up: &dyn Fn() -> bool) -> Result<(), ImageError> {
    let failed = |step| move |source| ImageError::Save { path: path.to_owned(), step, source };
    let target = target_of(path).map_err(failed("cannot look at the old file"))?;
    let folder = folder_of(&target);
    let draft = Draft::create(folder, &target).map_err(failed("cannot create a file beside it"))?;
    if let Ok(old) = fs::metadata(&target) {
        // Not everybody may give files away; then it is ours.
        let _ = fchown(&draft.file, Some(old.uid()), Some(old.gid()));
        draft.file.set_permissions(old.permissions()).map_err(failed("cannot give the new file the old one's mode"))?;
    }
    draft.file.set_len(store.size()).map_err(failed("cannot set the length of the new file"))?;
    store.try_for_each_page(|offset, bytes| {
        if given_up() {
            return Err(ImageError::Interrupted { work: "saving", path: path.to_owned() });
        }
        // The file has its length already: what is not written is a hole.
        if is_zero(bytes) {
            Ok(())
        } else {
            draft.file.write_all_at(bytes, offset).map_err(failed("cannot write the new file"))
        }
    })?;
    draft.file.sync_all().map_err(failed("cannot force the new file to the medium"))?;
    draft.rename_to(&target).map_err(failed("cannot rename the new file"))?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("cannot force the folder to the medium"))
}

/// The new file until it has its final name; deleted if it never gets it.
struct Draft {
    file: File,
    path: Option<PathBuf>,
}

impl Draft {
    fn create(folder: &Path, target: &Path) -> io::Result<Self> {
        let name = target.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        for attempt in 0u32.. {
            // The process id keeps two hosts apart, the number what an earlier process with this id left behind.
            let path = folder.join(format!(".{}.{}-{attempt}.new", name.to_string_lossy(), std::process::id()));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { file, path: Some(path) }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1000 => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("the loop ends with a file or an error")
    }

    fn rename_to(mut self, target: &Path) -> io::Result<()> {
        if let Some(path) = &self.path {
            fs::rename(path, target)?;
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Best effort: the error that led here is the one to report.
            let _ = fs::remove_file(path);
        }
    }
}

/// The file that is replaced. A symbolic link stays one: what it points to is replaced.
fn target_of(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(path.to_owned()),
        target => target,
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

/// Reads until the buffer is full or the file ends.
fn read_full(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    const SIZE: u64 = 4 * PAGE as u64;
    const GO_ON: &dyn Fn() -> bool = &|| false;

    fn files_in(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_saved_is_what_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let store = Store::new(SIZE);
        assert_eq!(load(&path, &store, GO_ON).unwrap(), Loaded::Absent);
        store.write(PAGE as u64 - 2, b"across").unwrap();
        store.write(SIZE - 3, b"end").unwrap();
        save(&path, &store, GO_ON).unwrap();
        assert_eq!(files_in(folder.path()), ["disk.img"]);
        assert_eq!(fs::metadata(&path).unwrap().len(), SIZE);

        let again = Store::new(SIZE);
        assert_eq!(load(&path, &again, GO_ON).unwrap(), Loaded::Bytes(SIZE));
        let (mut before, mut after) = (vec![0; SIZE as usize], vec![1; SIZE as usize]);
        store.read(0, &mut before);
        again.read(0, &mut after);
        assert!(before == after);
        assert_eq!(again.allocated_bytes(), store.allocated_bytes(), "zero pages of the image must take no memory");
    }

    #[test]
    fn an_image_shorter_than_the_device_fills_its_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("short.img");
        fs::write(&path, b"short").unwrap();
        let store = Store::new(SIZE);
        assert_eq!(load(&path, &store, GO_ON).unwrap(), Loaded::Bytes(5));
        let mut out = [1; 8];
        store.read(0, &mut out);
        assert_eq!(&out, b"short\0\0\0");
    }

    #[test]
    fn an_image_that_cannot_be_used_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::new(512);
        let big = folder.path().join("big.img");
        fs::write(&big, [0; 513]).unwrap();
        let text = |path: &Path| load(path, &store, GO_ON).unwrap_err().to_string();
        assert!(text(&big).contains("513 bytes") && text(&big).contains("`size`"));
        assert!(text(folder.path()).contains("not a regular file"));
        assert!(text(&folder.path().join("no/such/folder.img")).contains("does not exist"));
    }

    #[test]
    fn a_pipe_is_refused_before_it_is_opened_and_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let refused = load(&pipe, &Store::new(SIZE), GO_ON).unwrap_err();
        assert!(matches!(refused, ImageError::NotAFile { .. }), "{refused}");
    }

    #[test]
    fn an_image_that_could_not_be_saved_is_known_before_and_nothing_is_left_of_the_trial() {
        let folder = tempfile::tempdir().unwrap();
        // A name that just fits, so that the longer one of the new file does not: that holds for root too.
        let (good, bad) = (folder.path().join("disk.img"), folder.path().join("x".repeat(255)));
        fs::write(&bad, b"old").unwrap();
        check_that_it_can_be_saved(&good).unwrap();
        let refused = check_that_it_can_be_saved(&bad).unwrap_err().to_string();
        assert!(refused.contains("could not be saved at stop"), "{refused}");
        assert_eq!(files_in(folder.path()), ["x".repeat(255)]);
    }

    #[test]
    fn the_owner_stays_if_we_may_give_files_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        fs::write(&path, b"old").unwrap();
        if let Err(error) = chown(&path, Some(4711), Some(4712)) {
            eprintln!("SKIPPED: files cannot be given away: {error}");
            return;
        }
        save(&path, &Store::new(SIZE), GO_ON).unwrap();
        let saved = fs::metadata(&path).unwrap();
        assert_eq!((saved.uid(), saved.gid(), saved.len()), (4711, 4712, SIZE));
    }

    #[test]
    fn a_save_that_fails_leaves_the_old_image_and_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        fs::write(&path, b"old").unwrap();
        let store = Store::new(SIZE);
        store.write(0, b"new").unwrap();
        let error = save(&path, &store, &|| true).unwrap_err();
        assert!(error.to_string().contains("given up"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(files_in(folder.path()), ["disk.img"]);

        let gone = folder.path().join("gone/disk.img");
        assert!(save(&gone, &store, GO_ON).unwrap_err().to_string().contains("cannot create a file beside it"));
    }

    #[test]
    fn a_link_stays_a_link_and_the_mode_stays() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.img"), folder.path().join("link.img"));
        fs::write(&real, b"old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        save(&link, &Store::new(SIZE), GO_ON).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&real).unwrap().len(), SIZE);
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn pages_of_zeroes_become_holes_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse.img");
        let store = Store::new(64 << 20);
        store.write(0, &[1; PAGE]).unwrap();
        store.write(1 << 20, &vec![0; 32 << 20]).unwrap();
        save(&path, &store, GO_ON).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.len(), 64 << 20);
        assert!(metadata.blocks() * 512 < 8 << 20, "{} bytes are on the medium", metadata.blocks() * 512);
    }
}
