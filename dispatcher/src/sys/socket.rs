//! Sockets that never block: streams, listeners and datagram sockets, over `mio`, `std` and `rustix`.
//!
//! What cannot be done at this moment is `WouldBlock`; whoever gets that waits for readiness. No call here raises
//! SIGPIPE, whatever the program does with that signal.

use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketType, sockopt};

/// One end of a stream, TCP or Unix.
pub(crate) struct Socket {
    fd: OwnedFd,
}

impl Socket {
    fn tcp(stream: mio::net::TcpStream) -> Self {
        // What is small goes out at once: whoever wants it gathered writes it in one piece. A socket that refuses this
        // is about to fail anyway.
        let _ = stream.set_nodelay(true);
        Socket { fd: stream.into() }
    }

    /// Starts to connect. The outcome is there once the socket is writable: see [`Socket::take_error`].
    ///
    /// # Errors
    /// What the operating system says at once.
    pub(crate) fn connect_tcp(to: SocketAddr) -> io::Result<Socket> {
        mio::net::TcpStream::connect(to).map(Socket::tcp)
    }

    /// [`Socket::connect_tcp`] for Unix sockets.
    ///
    /// # Errors
    /// What the operating system says at once.
    pub(crate) fn connect_unix(to: &Path) -> io::Result<Socket> {
        Ok(Socket { fd: mio::net::UnixStream::connect(to)?.into() })
    }

    /// Reads what is there; zero at the end of the stream.
    pub(crate) fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        retry(|| rustix::net::recv(&self.fd, &mut *buffer, RecvFlags::empty()).map(|(_, count)| count))
    }

    /// Hands the kernel as much as it takes.
    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        retry(|| rustix::net::send(&self.fd, bytes, SendFlags::NOSIGNAL))
    }

    /// Says that no more bytes will come from here.
    pub(crate) fn shutdown_write(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.fd, Shutdown::Write)?)
    }

    /// The error that is pending, such as the failure of a connect. It is told once.
    pub(crate) fn take_error(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(&self.fd)??)
    }

    /// The address of this end, if it is one of TCP.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        SocketAddr::try_from(rustix::net::getsockname(&self.fd).ok()?).ok()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Socket({:?})", self.fd)
    }
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// A socket that others connect to.
#[derive(Debug)]
pub(crate) enum Acceptor {
    Tcp(mio::net::TcpListener),
    /// With the path that goes when it is closed, if it still leads to what was bound there.
    Unix(mio::net::UnixListener, PathBuf, Option<Identity>),
}

impl Acceptor {
    /// Listens on a TCP address, which may have port 0.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn tcp(address: SocketAddr) -> io::Result<Acceptor> {
        mio::net::TcpListener::bind(address).map(Acceptor::Tcp)
    }

    /// How many connections the kernel keeps that have not been accepted; it has a limit of its own besides. (`mio`, like
    /// the standard library, asks for 128.)
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn set_backlog(&self, backlog: u32) -> io::Result<()> {
        // Listening again changes nothing but this.
        Ok(rustix::net::listen(self, i32::try_from(backlog).unwrap_or(i32::MAX))?)
    }

    /// Listens on a path. A socket that a dead process left there is replaced.
    ///
    /// # Errors
    /// What the operating system says; `AddrInUse` while somebody listens there, or when the path is no socket.
    pub(crate) fn unix(path: &Path) -> io::Result<Acceptor> {
        let bound = match mio::net::UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_over(path) => {
                std::fs::remove_file(path)?;
                mio::net::UnixListener::bind(path)
            }
            bound => bound,
        };
        Ok(Acceptor::Unix(bound?, path.to_owned(), Identity::of(path)))
    }

    /// The next connection, and the address of its other end if it is one of TCP.
    pub(crate) fn accept(&self) -> io::Result<(Socket, Option<SocketAddr>)> {
        match self {
            Acceptor::Tcp(listener) => listener.accept().map(|(stream, peer)| (Socket::tcp(stream), Some(peer))),
            Acceptor::Unix(listener, ..) => listener.accept().map(|(stream, _)| (Socket { fd: stream.into() }, None)),
        }
    }

    /// The address that was bound, if it is one of TCP.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match self {
            Acceptor::Tcp(listener) => listener.local_addr().ok(),
            Acceptor::Unix(..) => None,
        }
    }
}

/// What a path leads to: the device and the number of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity(u64, u64);

impl Identity {
    fn of(path: &Path) -> Option<Identity> {
        path.symlink_metadata().ok().map(|found| Identity(found.dev(), found.ino()))
    }
}

/// Whether there is a socket at this path on which nobody listens.
fn is_left_over(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = path.symlink_metadata().is_ok_and(|data| data.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && mio::net::UnixStream::connect(path).is_err_and(refused)
}

impl AsFd for Acceptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Acceptor::Tcp(listener) => listener.as_fd(),
            Acceptor::Unix(listener, ..) => listener.as_fd(),
        }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        if let Acceptor::Unix(_, path, bound) = self
            && *bound == Identity::of(path)
        {
            // One that cannot be removed is found dead by the next listener, and replaced.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether an accept failed because of a limit of the process or the system, so that it fails again until something is
/// closed elsewhere.
pub(crate) fn is_out_of_resources(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

/// A datagram socket. `shared` lets several sockets have the same port; the kernel spreads the senders over them.
///
/// # Errors
/// What the operating system says.
pub(crate) fn bind_udp(address: SocketAddr, shared: bool) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = rustix::net::socket(family, SocketType::DGRAM, None)?;
    rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&fd, true)?;
    if shared {
        sockopt::set_socket_reuseport(&fd, true)?;
    }
    rustix::net::bind(&fd, &address)?;
    Ok(UdpSocket::from(fd))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_a_dead_listener_left_is_replaced_and_a_living_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "std leaves the path behind");
        let living = Acceptor::unix(&path).unwrap();
        assert_eq!(Acceptor::unix(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(living);
        assert!(!path.exists());
    }

    #[test]
    fn a_path_that_somebody_else_has_taken_meanwhile_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = Acceptor::unix(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = Acceptor::unix(&path).unwrap();
        drop(first);
        assert!(path.exists(), "it is the second one's");
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_is_no_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("letter");
        std::fs::write(&path, "dear").unwrap();
        assert_eq!(Acceptor::unix(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear");
    }

    #[test]
    fn nothing_blocks() {
        let acceptor = Acceptor::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        assert_eq!(acceptor.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let socket = Socket::connect_tcp(acceptor.local_address().unwrap()).unwrap();
        assert_eq!(socket.receive(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let one = bind_udp("127.0.0.1:0".parse().unwrap(), true).unwrap();
        let two = bind_udp(one.local_addr().unwrap(), true).unwrap();
        assert_eq!(two.recv_from(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
