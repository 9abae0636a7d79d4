//! `Settings`: what can be changed while the server runs.

use std::path::Path;
use std::time::Duration;

/// See the usage text for the names.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// How heavy a `hash` is.
    pub(crate) hash_rounds: u64,
    /// For connections that begin from now on.
    pub(crate) idle_timeout: Option<Duration>,
    /// Bytes that may wait to be sent to one client. Read at the start only.
    pub(crate) write_limit: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { hash_rounds: 100_000, idle_timeout: Some(Duration::from_secs(300)), write_limit: 256 * 1024 }
    }
}

impl Settings {
    /// Reads a file of lines `NAME = VALUE`; what it does not name is as by default. `#` begins a comment.
    pub(crate) fn read(path: &Path) -> Result<Settings, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let mut settings = Settings::default();
        for (nth, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                settings.set(line).map_err(|why| format!("{}:{}: {why}", path.display(), nth + 1))?;
            }
        }
        Ok(settings)
    }

    fn set(&mut self, line: &str) -> Result<(), String> {
        let (name, value) = line.split_once('=').ok_or(format!("expected NAME = VALUE, found `{line}`"))?;
        let (name, value) = (name.trim(), value.trim());
        let number: u64 = value.parse().map_err(|_| format!("{name} takes a whole number, not `{value}`"))?;
        match name {
            "hash_rounds" => self.hash_rounds = number,
            "idle_timeout_ms" => self.idle_timeout = (number > 0).then(|| Duration::from_millis(number)),
            "write_limit" => self.write_limit = usize::try_from(number).unwrap_or(usize::MAX),
            _ => return Err(format!("`{name}` is no setting: there are hash_rounds, idle_timeout_ms and write_limit")),
        }
        Ok(())
    }
}
