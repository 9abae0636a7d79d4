//! Programs of others that talk to our drivers, and what to do when they are not installed.
//!
//! Purpose: a test against a real client is worth most, and must never be skipped unnoticed. Without the program a
//! test says on the terminal what it did not test and which package to install. With `FUCHSINE_REQUIRE_CLIENTS` set
//! (the CI script sets it) the missing program is a failure.

use std::{
    env,
    io::Write,
    path::{Path, PathBuf},
};

/// The Debian package that each client comes from.
const PACKAGES: &[(&str, &str)] = &[
    ("cc", "gcc"),
    ("c++", "g++"),
    ("e2fsck", "e2fsprogs"),
    ("fio", "fio"),
    ("ip", "iproute2"),
    ("losetup", "mount"),
    ("mkfs.ext4", "e2fsprogs"),
    ("nbdfuse", "libnbd-bin"),
    ("nsenter", "util-linux"),
    ("ping", "iputils-ping"),
    ("pkg-config", "pkgconf"),
    ("qemu-img", "qemu-utils"),
    ("qemu-io", "qemu-utils"),
    ("qemu-nbd", "qemu-utils"),
    ("setpriv", "util-linux"),
    ("socat", "socat"),
    ("strace", "strace"),
    ("unshare", "util-linux"),
    ("valgrind", "valgrind"),
];

/// Set (to anything) where every client has to be there.
pub const REQUIRE: &str = "FUCHSINE_REQUIRE_CLIENTS";

/// The path of the client `name`, or `None` after a loud line that the test is skipped.
///
/// # Panics
/// When it is missing and [`REQUIRE`] is set in the environment.
#[track_caller]
pub fn require_client(name: &str) -> Option<PathBuf> {
    let found = find(name);
    if found.is_none() {
        let package = PACKAGES.iter().find(|(client, _)| *client == name).map_or("?", |(_, package)| package);
        missing(&format!("{name} is not installed (Debian package {package})"));
    }
    found
}

/// Says on the terminal that the test is skipped, because of what is missing.
///
/// # Panics
/// When [`REQUIRE`] is set in the environment.
#[track_caller]
pub fn missing(what: &str) {
    assert!(env::var_os(REQUIRE).is_none(), "{what}, and {REQUIRE} forbids to skip");
    skipped(what);
}

/// Says on the terminal that the test is skipped, for a reason that no installation can change.
#[track_caller]
pub fn skipped(reason: &str) {
    // Straight to the terminal: what goes through eprintln! is kept from it while the test passes.
    let _ = writeln!(std::io::stderr(), "\nSKIPPED {}: {reason}", std::panic::Location::caller());
}

/// The first executable of that name on the search path.
fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| is_executable(candidate))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_on_the_search_path_is_found_and_a_missing_one_is_not() {
        assert!(find("sh").is_some());
        assert_eq!(find("no-program-has-this-name"), None);
    }
}
