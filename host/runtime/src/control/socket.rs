//! Making the socket, so that a path has one host, and who may talk to it.
//!
//! A lock file beside the socket decides: whoever holds its lock has the path, for as long as the process lives. So a socket
//! that is there without the lock is left over from a host that was killed, and is replaced; and of two hosts that start at
//! once one gets the path and the other an error. The socket and the lock file are removed at the end, if they still are
//! the ones that were made.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};

use super::place::{ControlPlace, prepare_folder};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// Why a host does not get its control socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Another host has it.
    #[error("another host serves the control socket `{}`{}", .path.display(), .pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    Taken {
        /// The socket.
        path: PathBuf,
        /// The process that has it, if that is known.
        pid: Option<i32>,
    },
    /// Something is there that is no socket.
    #[error("`{}` is there and is no socket; remove it, or name another path", .0.display())]
    NoSocket(PathBuf),
    /// The path cannot be used.
    #[error("the control socket `{}` cannot be made: {reason}", .path.display())]
    Refused {
        /// The socket.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// A socket that listens. Dropping it removes it from its path.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) listener: UnixListener,
    path: PathBuf,
    identity: (u64, u64),
    lock: (File, PathBuf),
}

impl Bound {
    pub(super) fn new(place: &ControlPlace) -> Result<Bound, BindError> {
        let path = std::path::absolute(place.path()).unwrap_or_else(|_| place.path().to_owned());
        let refused = |reason: String| BindError::Refused { path: path.clone(), reason };
        if !place.is_given()
            && let Some(folder) = path.parent()
        {
            prepare_folder(folder).map_err(refused)?;
        }
        let address = SocketAddrUnix::new(&path)
            .map_err(|_| refused(format!("its path has {} bytes, and may have 107", path.as_os_str().len())))?;
        let lock = lock(&path)?;
        remove_stale(&path)?;
        let made = || -> io::Result<UnixListener> {
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            // Before it has a path, so that nobody else can come in between; Linux gives the path this mode.
            rustix::fs::fchmod(&socket, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
            bind(&socket, &address)?;
            rustix::fs::chmod(&path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
            listen(&socket, BACKLOG)?;
            Ok(UnixListener::from(socket))
        };
        let listener = made().map_err(|error| refused(error.to_string()))?;
        listener.set_nonblocking(true).map_err(|error| refused(error.to_string()))?;
        let identity = identity(&path).ok_or_else(|| refused("it is gone already".to_owned()))?;
        Ok(Bound { listener, path, identity, lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if identity(&self.path) == Some(self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
        // Under the lock: who waits for it finds that the file which it has opened is no longer the one of the path.
        if identity(&self.lock.1) == identity_of(&self.lock.0) {
            let _ = std::fs::remove_file(&self.lock.1);
        }
    }
}

/// Which file this is.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

fn identity_of(file: &File) -> Option<(u64, u64)> {
    file.metadata().ok().map(|found| (found.dev(), found.ino()))
}

/// Locks the file beside the socket.
fn lock(path: &Path) -> Result<(File, PathBuf), BindError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let beside = PathBuf::from(beside);
    let refused = |error: io::Error| BindError::Refused {
        path: path.to_owned(),
        reason: format!("the lock file `{}`: {error}", beside.display()),
    };
    loop {
        let no_link = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let mut options = File::options();
        options.read(true).write(true).create(true).mode(0o600).custom_flags(no_link);
        let file = options.open(&beside).map_err(refused)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(BindError::Taken { path: path.to_owned(), pid: owner(path) }),
            Err(TryLockError::Error(error)) => return Err(refused(error)),
        }
        // Its owner of before may have removed it in between; then the path has another one now, or none.
        if identity(&beside) == identity_of(&file) {
            return Ok((file, beside));
        }
    }
}

/// The process behind a socket.
fn owner(path: &Path) -> Option<i32> {
    peer(&UnixStream::connect(path).ok()?).ok()?.pid
}

/// Removes a socket that nobody listens to.
fn remove_stale(path: &Path) -> Result<(), BindError> {
    let refused = |error: io::Error| BindError::Refused { path: path.to_owned(), reason: error.to_string() };
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(BindError::NoSocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        // Somebody who knows nothing of the lock file.
        Ok(stream) => {
            Err(BindError::Taken { path: path.to_owned(), pid: peer(&stream).ok().and_then(|peer| peer.pid) })
        }
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path).map_err(refused),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // Nothing says that nobody listens: it may be somebody's whom this user cannot reach, or one who is busy.
        Err(error) => Err(refused(error)),
    }
}

/// Who is at the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) uid: u32,
    pub(super) pid: Option<i32>,
}

impl Peer {
    /// Whether it may talk to a host of this user.
    pub(super) fn is_allowed(self) -> bool {
        self.uid == 0 || self.uid == rustix::process::geteuid().as_raw()
    }
}

#[cfg(target_os = "linux")]
pub(super) fn peer(stream: &UnixStream) -> io::Result<Peer> {
    let found = rustix::net::sockopt::socket_peercred(stream)?;
    Ok(Peer { uid: found.uid.as_raw(), pid: Some(found.pid.as_raw_nonzero().get()) })
}

/// Where the kernel does not tell, the mode of the socket has to be enough.
#[cfg(not(target_os = "linux"))]
pub(super) fn peer(_: &UnixStream) -> io::Result<Peer> {
    Ok(Peer { uid: rustix::process::geteuid().as_raw(), pid: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(folder: &tempfile::TempDir) -> ControlPlace {
        ControlPlace::at(folder.path().join("host.sock"))
    }

    #[test]
    fn a_socket_is_its_users_alone_and_gone_at_the_end_with_its_lock_file() {
        let folder = tempfile::tempdir().unwrap();
        let bound = Bound::new(&place(&folder)).unwrap();
        let found = std::fs::symlink_metadata(bound.path()).unwrap();
        assert!(found.file_type().is_socket());
        assert_eq!(found.mode() & 0o777, 0o600);
        drop(bound);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_path_that_somebody_serves_is_refused_and_says_who() {
        let folder = tempfile::tempdir().unwrap();
        let bound = Bound::new(&place(&folder)).unwrap();
        let text = Bound::new(&place(&folder)).unwrap_err().to_string();
        assert!(text.starts_with("another host serves the control socket `"), "{text}");
        if cfg!(target_os = "linux") {
            assert!(text.contains(&format!("process {}", std::process::id())), "{text}");
        }
        drop(bound);
        // Of somebody who does not lock.
        let other = UnixListener::bind(place(&folder).path()).unwrap();
        assert!(matches!(Bound::new(&place(&folder)), Err(BindError::Taken { .. })));
        drop(other);
    }

    #[test]
    fn a_socket_that_was_left_over_is_replaced_and_what_is_no_socket_is_not() {
        let folder = tempfile::tempdir().unwrap();
        drop(UnixListener::bind(place(&folder).path()).unwrap());
        drop(Bound::new(&place(&folder)).unwrap());
        std::fs::write(place(&folder).path(), "precious").unwrap();
        assert!(matches!(Bound::new(&place(&folder)), Err(BindError::NoSocket(_))));
        assert_eq!(std::fs::read(place(&folder).path()).unwrap(), b"precious");
    }

    #[test]
    fn somebody_elses_socket_at_the_path_is_left_alone_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let bound = Bound::new(&place(&folder)).unwrap();
        std::fs::remove_file(bound.path()).unwrap();
        let _other = UnixListener::bind(bound.path()).unwrap();
        drop(bound);
        assert!(place(&folder).path().exists());
    }

    #[test]
    fn a_path_that_is_too_long_is_told_with_its_length() {
        let text = Bound::new(&ControlPlace::at(format!("/{}", "x".repeat(200)))).unwrap_err().to_string();
        assert!(text.ends_with("its path has 201 bytes, and may have 107"), "{text}");
    }

    #[test]
    fn of_hosts_that_start_at_once_one_gets_the_path() {
        let folder = tempfile::tempdir().unwrap();
        for _ in 0..20 {
            let gate = std::sync::Barrier::new(4);
            let got = std::thread::scope(|scope| {
                let start = || {
                    gate.wait();
                    Bound::new(&place(&folder)).ok()
                };
                let all: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
                all.into_iter().filter_map(|one| one.join().unwrap()).collect::<Vec<_>>()
            });
            assert_eq!(got.len(), 1);
        }
    }
}
