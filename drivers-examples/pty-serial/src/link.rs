//! [`Link`]: a symbolic link of a fixed name to a terminal, whose own name is another each time.
//!
//! A link that a killed host has left behind is replaced: its terminal is not held by a port any more, whoever may have it
//! now. Everything else that stands in the place is left alone.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fuchsine_driver::Status;

use crate::pty;

/// Where the system has its terminals.
const TERMINALS: &str = "/dev/pts/";

/// The link could not be made; the text says what to do where there is something to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("{path} is there and is no link to a terminal: remove it, or name another in `link`", path = path.display())]
    Taken { path: PathBuf },
    #[error("{path} is the link of another port, which is in use: name another in `link`", path = path.display())]
    InUse { path: PathBuf },
    #[error("cannot make the link {path}: {source}", path = path.display())]
    Failed { path: PathBuf, source: io::Error },
}

impl LinkError {
    /// The condition behind it.
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Taken { .. } => Status::AlreadyExists,
            Self::InUse { .. } => Status::AlreadyBound,
            Self::Failed { source, .. } => Status::from(source),
        }
    }
}

/// A link that was made; it stays when this is dropped, see [`remove`](Link::remove).
#[derive(Debug)]
pub(crate) struct Link {
    path: PathBuf,
    terminal: PathBuf,
}

impl Link {
    /// Makes the link.
    ///
    /// # Errors
    /// [`LinkError`]; what is there is as it was.
    pub(crate) fn make(path: &Path, terminal: &Path) -> Result<Self, LinkError> {
        let failed = |source| LinkError::Failed { path: path.to_owned(), source };
        match symlink(terminal, path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match fs::read_link(path) {
                    Ok(old) if !old.starts_with(TERMINALS) => return Err(LinkError::Taken { path: path.to_owned() }),
                    // The system gives the name of a terminal that is gone to the next one; so this was left behind.
                    Ok(old) if old == terminal => {}
                    Ok(old) if pty::is_held(&old) => return Err(LinkError::InUse { path: path.to_owned() }),
                    Ok(_) => {}
                    Err(_) => return Err(LinkError::Taken { path: path.to_owned() }),
                }
                // In one step, so that whoever looks finds one or the other.
                let mut name = path.file_name().map(ToOwned::to_owned).unwrap_or_default();
                name.push(format!(".{}.new", std::process::id()));
                let draft = path.with_file_name(name);
                symlink(terminal, &draft).map_err(failed)?;
                if let Err(error) = fs::rename(&draft, path) {
                    // Best effort: the error that led here is the one to report.
                    let _ = fs::remove_file(&draft);
                    return Err(failed(error));
                }
            }
            Err(error) => return Err(failed(error)),
        }
        Ok(Self { path: path.to_owned(), terminal: terminal.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, if it still leads to that terminal.
    ///
    /// # Errors
    /// It is there and cannot be removed.
    pub(crate) fn remove(&self) -> io::Result<()> {
        if fs::read_link(&self.path).is_ok_and(|terminal| terminal == self.terminal) {
            fs::remove_file(&self.path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pty::Pty;

    #[test]
    fn a_link_is_made_replaced_when_its_port_is_gone_and_removed_by_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tty");
        let first = Pty::open().unwrap();
        let link = Link::make(&path, first.path()).unwrap();
        assert_eq!(fs::read_link(&path).unwrap(), first.path());
        let second = Pty::open().unwrap();
        let error = Link::make(&path, second.path()).unwrap_err();
        assert!(matches!(error, LinkError::InUse { .. }), "{error}");
        drop(first);
        let newer = Link::make(&path, second.path()).unwrap();
        assert_eq!(fs::read_link(&path).unwrap(), second.path());
        link.remove().unwrap();
        assert!(fs::read_link(&path).is_ok(), "it is another's by now");
        newer.remove().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        newer.remove().expect("it is no error that it is gone");
    }

    #[test]
    fn a_link_that_was_left_behind_and_leads_to_the_terminal_by_chance_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let (path, pty) = (folder.path().join("tty"), Pty::open().unwrap());
        symlink(pty.path(), &path).unwrap();
        let link = Link::make(&path, pty.path()).unwrap();
        link.remove().unwrap();
        assert!(!path.is_symlink());
    }

    #[test]
    fn what_is_no_link_to_a_terminal_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let pty = Pty::open().unwrap();
        let path = folder.path().join("tty");
        fs::write(&path, "mine").unwrap();
        assert!(matches!(Link::make(&path, pty.path()), Err(LinkError::Taken { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        let other = folder.path().join("other");
        symlink(&path, &other).unwrap();
        assert!(matches!(Link::make(&other, pty.path()), Err(LinkError::Taken { .. })));
        let nowhere = folder.path().join("no/tty");
        assert_eq!(Link::make(&nowhere, pty.path()).unwrap_err().status(), Status::NotFound);
    }
}
