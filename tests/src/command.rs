//! The one place that knows where the programs under test are: the `fuchsine` command, examples, and loadable modules.
//!
//! Purpose: a test must never meet a missing or a stale binary, and must not guess a path under the target folder
//! (its name depends on the profile, the target triple and the environment). So the command is built by Cargo,
//! once a test process, and Cargo's own machine-readable output says where it is.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, OnceLock, PoisonError},
};

use serde_json::Value;

/// The path of the `fuchsine` command, built from the present sources.
///
/// The first call in a process runs Cargo; the others answer from memory. The profile is the one that the tests
/// themselves were built with.
///
/// # Panics
/// When the build fails or names no executable: no test that needs the command can say anything then.
pub fn fuchsine() -> &'static Path {
    static COMMAND: OnceLock<PathBuf> = OnceLock::new();
    COMMAND.get_or_init(|| build("fuchsine", &[], "bin", "fuchsine"))
}

/// The path of the example `loop_echo`, a server on event loops alone; as [`fuchsine`].
///
/// # Panics
/// As [`fuchsine`].
pub fn loop_echo() -> &'static Path {
    static EXAMPLE: OnceLock<PathBuf> = OnceLock::new();
    EXAMPLE.get_or_init(|| build("fuchsine-dispatcher", &["--example", "loop_echo"], "example", "loop_echo"))
}

/// The path of the example `loop_epoch`; as [`fuchsine`].
///
/// # Panics
/// As [`fuchsine`].
pub fn loop_epoch() -> &'static Path {
    static EXAMPLE: OnceLock<PathBuf> = OnceLock::new();
    EXAMPLE.get_or_init(|| build("fuchsine-dispatcher", &["--example", "loop_epoch"], "example", "loop_epoch"))
}

/// The path of `fuchsine-instructions`, which does each hot path so many times; as [`fuchsine`].
///
/// # Panics
/// As [`fuchsine`].
pub fn hot_paths() -> &'static Path {
    static COMMAND: OnceLock<PathBuf> = OnceLock::new();
    let name = "fuchsine-instructions";
    COMMAND.get_or_init(|| build("fuchsine-bench", &["--bin", name], "bin", name))
}

/// The path of the shared library `fuchsine` that programs in C link; as [`fuchsine`].
///
/// # Panics
/// As [`fuchsine`].
pub fn c_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| build("fuchsine-c", &["--lib"], "cdylib", "fuchsine"))
}

/// The path of the loadable module of an example driver, `libNAME.so` with `_` for `-`; as [`fuchsine`].
///
/// # Panics
/// As [`fuchsine`].
pub fn module(name: &str) -> PathBuf {
    static MODULES: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut modules = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    let build = || build(&format!("fuchsine-{name}-module"), &["--lib"], "cdylib", &name.replace('-', "_"));
    modules.entry(name.to_owned()).or_insert_with(build).clone()
}

/// Builds what `target` says of `package`, and returns the file that Cargo reports for the target `name`.
fn build(package: &str, target: &[&str], kind: &str, name: &str) -> PathBuf {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into()));
    cargo.args(["build", "-p", package, "--message-format=json-render-diagnostics"]).args(target);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .unwrap_or_else(|error| panic!("cargo cannot be started to build {package}: {error}"));
    assert!(output.status.success(), "cargo build -p {package} failed: {}", output.status);
    let messages = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|message| file_of(&message, kind, name))
        .unwrap_or_else(|| panic!("cargo built {package} but named no file for it"))
}

/// The executable or the shared library that one message of Cargo names, if the message is about the target `name` of this
/// kind.
fn file_of(message: &Value, kind: &str, name: &str) -> Option<PathBuf> {
    let target = message.get("target")?;
    let is_kind = target["kind"].as_array()?.iter().any(|one| one == kind);
    if message["reason"] != "compiler-artifact" || target["name"] != name || !is_kind {
        return None;
    }
    let files = if kind == "cdylib" { &message["filenames"][0] } else { &message["executable"] };
    files.as_str().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_artifact_message_of_that_target_names_its_file() {
        let artifact = serde_json::json!({
            "reason": "compiler-artifact",
            "target": { "name": "fuchsine", "kind": ["bin"] },
            "executable": "/somewhere/fuchsine",
        });
        assert_eq!(file_of(&artifact, "bin", "fuchsine"), Some(PathBuf::from("/somewhere/fuchsine")));
        assert_eq!(file_of(&artifact, "bin", "other"), None);
        assert_eq!(file_of(&artifact, "example", "fuchsine"), None);

        let library = serde_json::json!({
            "reason": "compiler-artifact",
            "target": { "name": "fuchsine", "kind": ["lib"] },
            "executable": null,
        });
        assert_eq!(file_of(&library, "bin", "fuchsine"), None);
        let shared = serde_json::json!({
            "reason": "compiler-artifact",
            "target": { "name": "fuchsine", "kind": ["cdylib"] },
            "filenames": ["/somewhere/libfuchsine.so"],
            "executable": null,
        });
        assert_eq!(file_of(&shared, "cdylib", "fuchsine"), Some(PathBuf::from("/somewhere/libfuchsine.so")));
        assert_eq!(file_of(&serde_json::json!({ "reason": "build-finished" }), "bin", "fuchsine"), None);
    }
}
