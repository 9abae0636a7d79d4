//! Where control sockets are: `$XDG_RUNTIME_DIR/fuchsine/NAME.sock`, for root without one `/run/fuchsine/NAME.sock`.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The variable that names the socket, for hosts and clients.
const VARIABLE: &str = "FUCHSINE_CONTROL";

/// Where the control socket of a host is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControlPlace {
    path: PathBuf,
    /// Whether somebody has said it; else it is the usual one, in a folder that is made where it is missing.
    is_given: bool,
}

/// A socket in the usual folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSocket {
    /// The name of the host.
    pub name: String,
    /// The socket.
    pub path: PathBuf,
}

impl ControlPlace {
    /// A socket at this path.
    pub fn at(path: impl Into<PathBuf>) -> ControlPlace {
        ControlPlace { path: path.into(), is_given: true }
    }

    /// The socket that the environment names by `FUCHSINE_CONTROL`. It may be [none](Self::is_none).
    pub fn of_environment() -> Option<ControlPlace> {
        env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(ControlPlace::at)
    }

    /// The usual socket of a host of this name. `None` where there is no folder for it: no `XDG_RUNTIME_DIR`, and the user
    /// is not root.
    pub fn usual(name: &str) -> Option<ControlPlace> {
        Some(ControlPlace { path: folder()?.join(format!("{}.sock", plain(name))), is_given: false })
    }

    /// Whether the word `none` was given, for no socket at all.
    pub fn is_none(&self) -> bool {
        self.is_given && self.path == Path::new("none")
    }

    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether somebody has said it, so that a host which cannot have it is not what was wanted.
    pub fn is_given(&self) -> bool {
        self.is_given
    }

    /// The sockets in the usual folder behind which a host is, by name.
    pub fn hosts() -> Vec<HostSocket> {
        let files = folder().and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten();
        let sockets = files.flatten().filter_map(|file| {
            let path = file.path();
            let is_socket = file.file_type().is_ok_and(|kind| kind.is_socket());
            let name = path.file_stem().and_then(OsStr::to_str)?.to_owned();
            let is_live =
                is_socket && path.extension() == Some(OsStr::new("sock")) && UnixStream::connect(&path).is_ok();
            is_live.then_some(HostSocket { name, path })
        });
        let mut sockets: Vec<_> = sockets.collect();
        sockets.sort_by(|one, other| one.name.cmp(&other.name));
        sockets
    }

    /// The folder of the usual sockets, for messages.
    pub fn folder() -> Option<PathBuf> {
        folder()
    }
}

fn folder() -> Option<PathBuf> {
    folder_of(env::var_os("XDG_RUNTIME_DIR").as_deref(), rustix::process::geteuid().is_root())
}

fn folder_of(runtime_folder: Option<&OsStr>, is_root: bool) -> Option<PathBuf> {
    let given = runtime_folder.map(Path::new).filter(|folder| folder.is_absolute());
    let folder = given.or(is_root.then_some(Path::new("/run")))?;
    Some(folder.join("fuchsine"))
}

/// A name that makes a file name.
fn plain(name: &str) -> String {
    let allowed = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let plain: String = name.chars().map(|c| if allowed(c) { c } else { '-' }).collect();
    match plain.trim_start_matches('.') {
        "" => "default".to_owned(),
        name => name.to_owned(),
    }
}

/// Makes the folder of a usual socket, for this user alone, and looks whether it is a folder that can be trusted.
///
/// # Errors
/// Why it cannot be used.
pub(super) fn prepare_folder(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new().mode(0o700).create(folder);
    if let Err(error) = made
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(format!("the folder `{}` cannot be made: {error}", folder.display()));
    }
    let found = std::fs::symlink_metadata(folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
    let user = rustix::process::geteuid().as_raw();
    match () {
        () if !found.is_dir() => Err(format!("`{}` is no folder; remove it", folder.display())),
        () if found.uid() != user && found.uid() != 0 => {
            Err(format!("the folder `{}` belongs to another user ({})", folder.display(), found.uid()))
        }
        () if found.mode() & 0o022 != 0 => {
            Err(format!("others may write to the folder `{}`; take that right away", folder.display()))
        }
        () => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_runtime_folder_of_the_user_comes_before_that_of_the_system_which_is_roots() {
        let of = |folder: Option<&str>, is_root| folder_of(folder.map(OsStr::new), is_root);
        assert_eq!(of(Some("/run/user/7"), false), Some(PathBuf::from("/run/user/7/fuchsine")));
        assert_eq!(of(Some("/run/user/0"), true), Some(PathBuf::from("/run/user/0/fuchsine")));
        assert_eq!(of(None, true), Some(PathBuf::from("/run/fuchsine")));
        assert_eq!(of(Some("relative"), true), Some(PathBuf::from("/run/fuchsine")));
        assert_eq!(of(None, false), None);
    }

    #[test]
    fn names_stay_inside_of_their_folder() {
        for (name, file) in [("disk", "disk"), ("../x", "-x"), ("", "default"), ("..", "default"), ("a b/c", "a-b-c")] {
            assert_eq!(plain(name), file, "{name}");
        }
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("fuchsine");
        prepare_folder(&folder).unwrap();
        assert_eq!(std::fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        prepare_folder(&folder).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(prepare_folder(&folder).unwrap_err().contains("others may write"));
        let file = parent.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(prepare_folder(&file).unwrap_err().contains("is no folder"));
    }
}
