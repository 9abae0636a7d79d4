//! [`Config`]: what the manifest may say about the port.

use std::path::PathBuf;

use serde::Deserialize;

/// How what is typed becomes what the client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    /// Lines that can be corrected.
    Canonical,
    /// Bytes as they come.
    Raw,
}

/// The driver's table of the manifest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    link: Option<PathBuf>,
    pub(crate) mode: Mode,
    pub(crate) echo: bool,
    pub(crate) baud: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { link: None, mode: Mode::Canonical, echo: true, baud: 0 }
    }
}

/// The slowest line there is.
const MIN_BAUD: u32 = 50;

/// A value that cannot be; the text names the key and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("`baud` is {0}: it must be 0, for as fast as it goes, or at least {MIN_BAUD}")]
    Baud(u32),
}

impl Config {
    /// The name by which the terminal is found, if it gets one. An empty text is none.
    pub(crate) fn link(&self) -> Option<PathBuf> {
        self.link.clone().filter(|path| !path.as_os_str().is_empty())
    }

    /// Looks for values that cannot be.
    ///
    /// # Errors
    /// [`ConfigError`] with the first of them.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if (1..MIN_BAUD).contains(&self.baud) { Err(ConfigError::Baud(self.baud)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(json: &str) -> Result<Config, String> {
        let config: Config = serde_json::from_str(json).map_err(|e| e.to_string())?;
        config.check().map_err(|e| e.to_string())?;
        Ok(config)
    }

    #[test]
    fn an_empty_table_is_a_terminal_without_a_name_as_people_expect_one() {
        let config = checked("{}").unwrap();
        assert_eq!((config.link(), config.mode, config.echo, config.baud), (None, Mode::Canonical, true, 0));
        assert_eq!(checked(r#"{"link": ""}"#).unwrap().link(), None);
    }

    #[test]
    fn values_that_cannot_be_are_refused() {
        for (json, told) in [
            (r#"{"mode": "cooked"}"#, "`canonical` or `raw`"),
            (r#"{"baud": 49}"#, "`baud` is 49"),
            (r#"{"ekho": true}"#, "`ekho`"),
        ] {
            let error = checked(json).map(|_| ()).expect_err(json);
            assert!(error.contains(told), "{json}: {error}");
        }
    }
}
