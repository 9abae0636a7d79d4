//! Which manifest runs when none is named: that of the environment, the user's, the system's, or the built-in one.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The variable that names a manifest; `none` for the built-in one.
const VARIABLE: &str = "FUCHSINE_MANIFEST";

/// Below a folder of configuration.
const FILE: &str = "fuchsine/host.toml";

/// The manifest that was named, or the one that is found; `None`: the built-in one.
pub(crate) fn manifest(named: Option<&Path>) -> Option<PathBuf> {
    if let Some(named) = named {
        return Some(named.to_owned());
    }
    find(|name| env::var_os(name).filter(|value| !value.is_empty()), Path::is_file)
}

fn find(variable: impl Fn(&str) -> Option<OsString>, is_file: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    if let Some(path) = variable(VARIABLE) {
        // One that is not there is a mistake, which whoever reads it tells.
        return (path != "none").then(|| PathBuf::from(path));
    }
    let absolute = |folder: OsString| Some(PathBuf::from(folder)).filter(|folder| folder.is_absolute());
    let home = || variable("HOME").and_then(absolute).map(|home| home.join(".config"));
    let user = variable("XDG_CONFIG_HOME").and_then(absolute).or_else(home);
    let folders = user.into_iter().chain([PathBuf::from("/etc")]);
    folders.map(|folder| folder.join(FILE)).find(|path| is_file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found with these variables and these files.
    fn found(variables: &[(&str, &str)], files: &[&str]) -> Option<String> {
        let variable = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        let path = find(variable, |path| files.iter().any(|file| Path::new(file) == path));
        path.map(|path| path.to_str().unwrap().to_owned())
    }

    #[test]
    fn the_environment_comes_before_the_user_and_the_user_before_the_system() {
        let files = ["/c/fuchsine/host.toml", "/h/.config/fuchsine/host.toml", "/etc/fuchsine/host.toml"];
        let all = [(VARIABLE, "m.toml"), ("XDG_CONFIG_HOME", "/c"), ("HOME", "/h")];
        assert_eq!(found(&all, &files).as_deref(), Some("m.toml"));
        assert_eq!(found(&all, &[]).as_deref(), Some("m.toml"), "also if it is not there");
        assert_eq!(found(&all[1..], &files).as_deref(), Some(files[0]));
        assert_eq!(found(&all[2..], &files).as_deref(), Some(files[1]));
        assert_eq!(found(&[], &files).as_deref(), Some(files[2]));
        assert_eq!(found(&all[1..], &files[2..]).as_deref(), Some(files[2]));
        assert_eq!(found(&[(VARIABLE, "none"), ("HOME", "/h")], &files), None);
        assert_eq!(found(&[("XDG_CONFIG_HOME", "relative")], &["relative/fuchsine/host.toml"]), None);
        assert_eq!(found(&all[1..], &[]), None);
    }
}
