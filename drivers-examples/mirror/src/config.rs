//! [`Config`]: what the manifest may say about the mirror.

use std::time::Duration;

use serde::Deserialize;

/// The driver's table of the manifest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub(crate) legs: Vec<String>,
    wait: u64,
    look: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { legs: vec!["left".to_owned(), "right".to_owned()], wait: 2000, look: 500 }
    }
}

/// How many legs there may be.
const MAX_LEGS: usize = 8;

/// A value that cannot be; the text names the key and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("`legs` has {0}: name 2 to {MAX_LEGS} parents of this driver")]
    Count(usize),
    #[error("`legs` has {0:?} twice")]
    Twice(String),
    #[error("`look` is 0: at least 1 ms has to pass between two looks")]
    Look,
}

impl Config {
    /// Looks for values that cannot be.
    ///
    /// # Errors
    /// [`ConfigError`] with the first of them.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if !(2..=MAX_LEGS).contains(&self.legs.len()) {
            return Err(ConfigError::Count(self.legs.len()));
        }
        let twice = self.legs.iter().enumerate().find(|(at, leg)| self.legs[..*at].contains(leg));
        if let Some((_, leg)) = twice {
            return Err(ConfigError::Twice(leg.clone()));
        }
        if self.look == 0 { Err(ConfigError::Look) } else { Ok(()) }
    }

    /// How long a start waits for legs that are not there.
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_millis(self.wait)
    }

    /// How often legs are looked for that are away.
    pub(crate) fn look(&self) -> Duration {
        Duration::from_millis(self.look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_cannot_be_are_refused_by_the_name_of_their_key() {
        let checked = |json: &str| {
            let config: Config = serde_json::from_str(json).map_err(|e| e.to_string())?;
            config.check().map_err(|e| e.to_string())
        };
        assert_eq!(checked("{}"), Ok(()));
        for (json, told) in [
            (r#"{"legs": ["left"]}"#, "`legs` has 1"),
            (r#"{"legs": ["a", "b", "a"]}"#, "`legs` has \"a\" twice"),
            (r#"{"look": 0}"#, "`look`"),
            (r#"{"leg": 1}"#, "`leg`"),
        ] {
            let error = checked(json).expect_err(json);
            assert!(error.contains(told), "{json}: {error}");
        }
    }
}
