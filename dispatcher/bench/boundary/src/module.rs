//! Where the module is: Cargo builds it, in the profile of this program, and says so.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The module, built from the present sources.
pub(crate) fn build() -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "-p", "fuchsine-boundary-module", "--message-format=json-render-diagnostics"]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot start cargo ({error}); name the module with --module"))?;
    if !output.status.success() {
        return Err(format!("the module cannot be built: {}", output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut files = messages.filter(|message| message["target"]["name"] == "boundary").filter_map(|message| {
        let files = message["filenames"].as_array()?;
        files.iter().filter_map(Value::as_str).find(|file| file.ends_with(".so")).map(PathBuf::from)
    });
    files.next().ok_or_else(|| "cargo built the module but named no file for it".to_owned())
}
