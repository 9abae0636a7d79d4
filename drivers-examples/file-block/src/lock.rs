//! One device a file: the lock that every host asks for before it touches the file.
//!
//! It is the lock that `flock` takes. The system gives it back when its holder is gone, however that ends, so nothing is
//! left behind by a host that was killed. It keeps out who asks for it; `cp` does not.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;

/// Why the lock could not be had.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Somebody has it, with the process id where the system tells.
    Held(Option<u32>),
    /// The file system has no locks, or something else is wrong.
    Failed(io::Error),
}

/// Takes the lock of an open file without waiting: alone, or with others who only read.
///
/// # Errors
/// [`LockError`].
pub(crate) fn take(file: &File, shared: bool) -> Result<(), LockError> {
    let taken = if shared { file.try_lock_shared() } else { file.try_lock() };
    match taken {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(LockError::Held(holder_of(file))),
        Err(TryLockError::Error(error)) => Err(LockError::Failed(error)),
    }
}

/// Who has the lock, as far as the system tells.
fn holder_of(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino();
    holder_in(&fs::read_to_string("/proc/locks").ok()?, inode)
}

/// The first holder of a `flock` on this inode, in the text of `/proc/locks`. The device is not compared: what it says of
/// it differs from what `stat` says on some file systems, and the answer is only a hint in a message.
fn holder_in(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        // One that waits has an arrow in front and holds nothing.
        if fields.next()? != "FLOCK" {
            return None;
        }
        let (_advisory, _access, pid, place) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let found: u64 = place.rsplit(':').next()?.parse().ok()?;
        pid.parse().ok().filter(|pid| found == inode && *pid != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCKS: &str = "1: POSIX  ADVISORY  WRITE 11 08:02:42 0 EOF\n\
                         2: FLOCK  ADVISORY  READ 12 08:02:43 0 EOF\n\
                         3: -> FLOCK  ADVISORY  WRITE 13 08:02:42 0 EOF\n\
                         4: FLOCK  ADVISORY  WRITE 14 08:02:42 0 EOF\n\
                         5: FLOCK  ADVISORY  WRITE 0 08:02:44 0 EOF\n\
                         nonsense\n";

    #[test]
    fn the_holder_is_who_has_a_flock_on_that_file_and_not_who_waits() {
        assert_eq!(holder_in(LOCKS, 42), Some(14));
        assert_eq!(holder_in(LOCKS, 43), Some(12));
        assert_eq!(holder_in(LOCKS, 44), None, "a process of another namespace has no number here");
        assert_eq!(holder_in(LOCKS, 4), None);
    }

    #[test]
    fn one_writes_or_many_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let open = || File::open(file.path()).unwrap();
        let (first, second) = (open(), open());
        take(&first, false).expect("nobody has it");
        for shared in [false, true] {
            let Err(LockError::Held(holder)) = take(&second, shared) else { panic!("it is held") };
            assert!(holder.is_none_or(|holder| holder == std::process::id()), "{holder:?}");
        }
        drop(first);
        take(&second, true).expect("it was given back with the file");
        take(&open(), true).expect("readers share it");
        assert!(matches!(take(&open(), false), Err(LockError::Held(_))));
    }
}
