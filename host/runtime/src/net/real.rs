//! Sockets of the operating system. All are non-blocking, and closed on exec.

use std::fs;
use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SendAncillaryBuffer, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use super::address::{Address, unix_text};

/// How many connections may wait to be accepted, as far as the kernel allows: a burst of clients that finds the queue
/// full would wait a second and more before it tries again.
const BACKLOG: i32 = 4096;

/// A listener.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathGuard),
}

/// A connection.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    pub(super) fn bind(address: &Address) -> io::Result<Listener> {
        match address {
            Address::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                // Listening once more only changes the length of the queue.
                rustix::net::listen(&listener, BACKLOG)?;
                Ok(Listener::Tcp(listener))
            }
            Address::Unix(path) => {
                let listener = bind_unix(path)?;
                let guard = PathGuard::new(path)?;
                listener.set_nonblocking(true)?;
                rustix::net::listen(&listener, BACKLOG)?;
                Ok(Listener::Unix(listener, guard))
            }
        }
    }

    pub(super) fn local_address(&self) -> io::Result<String> {
        match self {
            Listener::Tcp(listener) => Ok(listener.local_addr()?.to_string()),
            Listener::Unix(_, guard) => Ok(unix_text(Some(&guard.path))),
        }
    }

    /// A connection that waits, and the address of its other side.
    pub(super) fn accept(&self) -> io::Result<(Stream, String)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, peer) = uninterrupted(|| listener.accept())?;
                stream.set_nonblocking(true)?;
                // Drivers write whole replies; holding the last packet back would only add latency.
                stream.set_nodelay(true)?;
                Ok((Stream::Tcp(stream), peer.to_string()))
            }
            Listener::Unix(listener, _) => {
                let (stream, peer) = uninterrupted(|| listener.accept())?;
                stream.set_nonblocking(true)?;
                Ok((Stream::Unix(stream), unix_text(peer.as_pathname())))
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl Stream {
    /// Begins to connect; the stream becomes writable when the attempt has ended.
    pub(super) fn connect(address: &Address) -> io::Result<Stream> {
        let open = |family| -> io::Result<OwnedFd> {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
        };
        match address {
            Address::Tcp(address) => {
                let socket = open(match address {
                    SocketAddr::V4(_) => AddressFamily::INET,
                    SocketAddr::V6(_) => AddressFamily::INET6,
                })?;
                begun(rustix::net::connect(&socket, address))?;
                let stream = TcpStream::from(socket);
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Address::Unix(path) => {
                let socket = open(AddressFamily::UNIX)?;
                begun(rustix::net::connect(&socket, &SocketAddrUnix::new(path)?))?;
                Ok(Stream::Unix(UnixStream::from(socket)))
            }
        }
    }

    pub(super) fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Stream::Tcp(stream) => stream.take_error(),
            Stream::Unix(stream) => stream.take_error(),
        }
    }

    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => uninterrupted(|| (&mut &*stream).read(into)),
            Stream::Unix(stream) => uninterrupted(|| (&mut &*stream).read(into)),
        }
    }

    pub(super) fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut nothing: [MaybeUninit<u8>; 0] = [];
        let mut ancillary = SendAncillaryBuffer::new(&mut nothing);
        // Not `write`: a reader that has gone is an error here, and not a signal to the whole process.
        uninterrupted(|| Ok(rustix::net::sendmsg(self, slices, &mut ancillary, SendFlags::NOSIGNAL)?))
    }

    pub(super) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(how),
            Stream::Unix(stream) => stream.shutdown(how),
        }
    }

    pub(super) fn local_address(&self) -> io::Result<String> {
        match self {
            Stream::Tcp(stream) => Ok(stream.local_addr()?.to_string()),
            Stream::Unix(stream) => Ok(unix_text(stream.local_addr()?.as_pathname())),
        }
    }

    pub(super) fn peer_address(&self) -> io::Result<String> {
        match self {
            Stream::Tcp(stream) => Ok(stream.peer_addr()?.to_string()),
            Stream::Unix(stream) => Ok(unix_text(stream.peer_addr()?.as_pathname())),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

/// Tries again when a signal came in between: none of these calls blocks, so that is no reason to give up.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn begun(result: rustix::io::Result<()>) -> io::Result<()> {
    match result {
        Err(rustix::io::Errno::INPROGRESS) => Ok(()),
        other => Ok(other?),
    }
}

/// Binds a path. One that a dead process has left behind is replaced; one that somebody listens on, or that is no
/// socket, is not touched.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
        other => return other,
    }
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file of that name, which is no socket"));
    }
    // Does not wait: an owner whose queue of connections is full is alive.
    match Stream::connect(&Address::Unix(path.to_owned())) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        _ => Err(io::Error::from(io::ErrorKind::AddrInUse)),
    }
}

/// Removes the path of a listener, unless somebody else has put something there meanwhile.
#[derive(Debug)]
pub(super) struct PathGuard {
    path: PathBuf,
    device_and_inode: (u64, u64),
}

impl PathGuard {
    fn new(path: &Path) -> io::Result<PathGuard> {
        Ok(PathGuard { path: path.to_owned(), device_and_inode: identity(path)? })
    }
}

impl Drop for PathGuard {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|now| now == self.device_and_inode) {
            // If it cannot be removed, the next listener finds it dead and replaces it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod interruption {
    use super::*;

    #[test]
    fn a_call_that_a_signal_interrupts_is_made_again() {
        let mut calls = 0;
        let result = uninterrupted(|| {
            calls += 1;
            if calls < 3 { Err(io::ErrorKind::Interrupted.into()) } else { Ok(calls) }
        });
        assert_eq!(result.expect("the third one succeeds"), 3);
        let refused = uninterrupted(|| -> io::Result<()> { Err(io::ErrorKind::WouldBlock.into()) });
        assert_eq!(refused.expect_err("told at once").kind(), io::ErrorKind::WouldBlock);
    }
}
