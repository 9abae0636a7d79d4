//! The three builds of the program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::hooks;
use crate::source::{SourceFile, files, root};

const PROBE: &str = "dispatcher/src/sync/probe.rs";
/// Methods that call hooks and do nothing else.
const NOTES: &str = "dispatcher/src/runtime/notes.rs";
/// By this line `probe.rs` says which hooks its callers see.
const EXPORTED: &str = "pub(crate) use current::*;";

/// What becomes of the hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hooks {
    /// As they are.
    Plain,
    /// Their calls are deleted from the text.
    Deleted,
    /// They count.
    Counting,
    /// As they are with the feature `testing`, and nobody attached.
    Unattached,
}

/// Builds the program in a folder of the target folder; gives its path, and how many hooks were deleted.
///
/// # Errors
/// A sentence.
pub fn build(hooks: Hooks) -> Result<(PathBuf, usize), String> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let folder = target.join("no-cost").join(format!("{hooks:?}").to_lowercase());
    let tree = folder.join("tree");
    let mut deleted = 0;
    let files = files();
    let notes = files.iter().find(|file| file.path == NOTES).map(|file| hooks::functions(&file.text));
    let mut methods = notes.ok_or_else(|| format!("{NOTES} is missing"))?;
    methods.retain(|name| name.starts_with("note_"));
    for mut file in files.into_iter().filter(|file| is_used(&file.path)) {
        match hooks {
            Hooks::Deleted if file.path == PROBE => file.text = replaced(&file, ""),
            Hooks::Counting if file.path == PROBE => {
                file.text = replaced(&file, include_str!("../../no-cost/counting.rs"))
            }
            Hooks::Deleted if has_hooks(&file.path) => {
                let (text, count) = hooks::delete(&file.text, &methods);
                file.text = text;
                deleted += count;
            }
            _ => {}
        }
        write(&tree.join(&file.path), &file.text)?;
    }
    write(&tree.join("program/src/main.rs"), include_str!("../../no-cost/main.rs"))?;
    write(&tree.join("program/Cargo.toml"), PROGRAM)?;
    write(&tree.join("Cargo.toml"), &workspace()?)?;
    compile(&tree, &folder.join("target"), hooks == Hooks::Unattached)?;
    Ok((folder.join("target/release/program"), deleted))
}

const PROGRAM: &str = "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
    [features]\ntesting = [\"fuchsine-dispatcher/testing\"]\n\n[dependencies]\nfuchsine-dispatcher.workspace = true\n";

fn is_used(path: &str) -> bool {
    path == "Cargo.lock" || path.starts_with("dispatcher/src/") || path == "dispatcher/Cargo.toml"
}

/// Whether the calls in this file are to be deleted: what the kit itself does is built with its feature only.
fn has_hooks(path: &str) -> bool {
    path.ends_with(".rs") && path != PROBE && !path.starts_with("dispatcher/src/testing/")
}

/// A hook that was not deleted does not compile then, as there is none to be called.
fn replaced(file: &SourceFile, exports: &str) -> String {
    assert_eq!(file.text.matches(EXPORTED).count(), 1, "{PROBE} exports its hooks by `{EXPORTED}`");
    file.text.replace(EXPORTED, exports)
}

/// The manifest of this workspace with other members.
fn workspace() -> Result<String, String> {
    let text = fs::read_to_string(root().join("Cargo.toml")).map_err(|error| error.to_string())?;
    let mut manifest: toml::Table = text.parse().map_err(|error| format!("Cargo.toml: {error}"))?;
    let workspace =
        manifest.get_mut("workspace").and_then(toml::Value::as_table_mut).ok_or("Cargo.toml: no workspace")?;
    workspace.insert("members".into(), vec!["dispatcher", "program"].into());
    workspace.remove("default-members");
    Ok(manifest.to_string())
}

/// A file that is right already keeps its time, so that it is not compiled again.
fn write(path: &Path, text: &str) -> Result<(), String> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

fn compile(tree: &Path, target: &Path, with_testing: bool) -> Result<(), String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(tree).args(["build", "--release", "--quiet", "--package", "program"]);
    if with_testing {
        cargo.args(["--features", "testing"]);
    }
    // What is compared is code; line tables would only take time. What calls are deleted from has things unused.
    cargo.env("CARGO_TARGET_DIR", target).env("CARGO_PROFILE_RELEASE_DEBUG", "0").env("RUSTFLAGS", FLAGS);
    match cargo.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cargo build in {}: {status}", tree.display())),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

/// The same for all builds, whatever the environment asks for.
const FLAGS: &str = "--cap-lints=allow";
