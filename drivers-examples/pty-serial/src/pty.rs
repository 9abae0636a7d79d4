//! [`Pty`]: a pseudo terminal, of which this driver holds the device side.
//!
//! The terminal side is raw: what a terminal does is done by the driver. The driver keeps it open too, so that the port is
//! there whether or not a program has opened it, and so that its lock tells others that it is in use.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::OptionalActions;

/// A pseudo terminal; it is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Pty {
    device: OwnedFd,
    /// Held open, and locked.
    _terminal: File,
    path: PathBuf,
}

impl Pty {
    /// A new one.
    ///
    /// # Errors
    /// What the system says, such as that there are no more of them.
    pub(crate) fn open() -> io::Result<Self> {
        let device = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        rustix::pty::grantpt(&device)?;
        rustix::pty::unlockpt(&device)?;
        rustix::fs::fcntl_setfl(&device, OFlags::RDWR | OFlags::NONBLOCK)?;
        let path = PathBuf::from(rustix::pty::ptsname(&device, Vec::new())?.to_string_lossy().into_owned());
        let terminal = open_terminal(&path)?;
        let mut settings = rustix::termios::tcgetattr(&terminal)?;
        settings.make_raw();
        rustix::termios::tcsetattr(&terminal, OptionalActions::Now, &settings)?;
        terminal.try_lock()?;
        Ok(Self { device, _terminal: terminal, path })
    }

    /// Where programs find it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes what was typed.
    ///
    /// # Errors
    /// `WouldBlock`: nothing was.
    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.device, into)?)
    }

    /// Shows something; tells how much of it there was room for.
    ///
    /// # Errors
    /// `WouldBlock`: nobody has taken what was shown before.
    pub(crate) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(&self.device, bytes)?)
    }
}

impl AsFd for Pty {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// Whether a driver of this kind holds the terminal at this path.
pub(crate) fn is_held(path: &Path) -> bool {
    // One that is gone, or is somebody else's, is held by no port.
    open_terminal(path).is_ok_and(|terminal| terminal.try_lock().is_err())
}

fn open_terminal(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn what_is_written_on_either_side_is_read_on_the_other_as_it_is() {
        let pty = Pty::open().unwrap();
        let mut terminal = open_terminal(pty.path()).unwrap();
        let mut bytes = [0; 16];
        assert_eq!(pty.read(&mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        terminal.write_all(b"a\r\x03\x04").unwrap();
        assert_eq!(pty.read(&mut bytes).unwrap(), 4);
        assert_eq!(&bytes[..4], b"a\r\x03\x04");
        assert_eq!(pty.write(b"b\n").unwrap(), 2);
        assert_eq!(terminal.read(&mut bytes).unwrap(), 2);
        assert_eq!(&bytes[..2], b"b\n");
        // Nobody echoes but the driver.
        assert_eq!(terminal.read(&mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn it_is_there_after_a_program_has_closed_it_and_held_until_it_is_gone() {
        let pty = Pty::open().unwrap();
        let path = pty.path().to_owned();
        drop(open_terminal(&path).unwrap());
        let error = pty.read(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "no hang-up");
        assert!(is_held(&path));
        drop(pty);
        assert!(!is_held(&path));
        assert!(!is_held(Path::new("/dev/null")));
    }
}
