//! [`Config`]: what the manifest may say about the server, and what of it makes sense.

use std::time::Duration;

use serde::Deserialize;

/// The driver's table of the manifest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Where to listen: `HOST:PORT`, or `unix:/path`.
    pub(crate) listen: Vec<String>,
    /// The name of the export; that of the node when it is left out.
    pub(crate) export: Option<String>,
    pub(crate) max_connections: usize,
    pub(crate) handshake_timeout_ms: u64,
    pub(crate) idle_timeout_ms: u64,
    pub(crate) stall_timeout_ms: u64,
    pub(crate) buffer_size: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: vec!["127.0.0.1:10809".into()],
            export: None,
            max_connections: 1024,
            handshake_timeout_ms: 10_000,
            idle_timeout_ms: 3_600_000,
            stall_timeout_ms: 30_000,
            buffer_size: 64 << 20,
        }
    }
}

/// How long a connection may keep the server waiting. `None`: for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// From the connection to the first byte of the transmission phase.
    pub(crate) handshake: Option<Duration>,
    /// Between requests.
    pub(crate) idle: Option<Duration>,
    /// In the middle of a request, or with a reply to be read.
    pub(crate) stall: Option<Duration>,
}

/// A value that cannot be; the text names the key and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("`listen` is empty: name at least one address, such as \"127.0.0.1:10809\" or \"unix:/run/disk.sock\"")]
    NoAddress,
    #[error("`max_connections` is 0: nobody could connect")]
    NoConnections,
}

impl Config {
    /// Looks for values that cannot be.
    ///
    /// # Errors
    /// [`ConfigError`] with the first of them.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.listen.is_empty() {
            return Err(ConfigError::NoAddress);
        }
        if self.max_connections == 0 {
            return Err(ConfigError::NoConnections);
        }
        Ok(())
    }

    /// The timeouts; 0 in the manifest stands for none.
    pub(crate) fn timeouts(&self) -> Timeouts {
        let timeout = |ms: u64| (ms > 0).then(|| Duration::from_millis(ms));
        Timeouts {
            handshake: timeout(self.handshake_timeout_ms),
            idle: timeout(self.idle_timeout_ms),
            stall: timeout(self.stall_timeout_ms),
        }
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
    fn an_empty_table_gives_the_documented_defaults() {
        let config = checked("{}").unwrap();
        assert_eq!(config.listen, ["127.0.0.1:10809"]);
        assert_eq!(config.max_connections, 1024);
        assert_eq!(config.timeouts().handshake, Some(Duration::from_secs(10)));
    }

    #[test]
    fn a_timeout_of_zero_is_none() {
        let timeouts = checked(r#"{"idle_timeout_ms": 0, "stall_timeout_ms": 5}"#).unwrap().timeouts();
        assert_eq!((timeouts.idle, timeouts.stall), (None, Some(Duration::from_millis(5))));
    }

    #[test]
    fn values_that_cannot_be_are_refused_by_the_name_of_their_key() {
        for (json, key) in [
            (r#"{"listen": []}"#, "`listen`"),
            (r#"{"max_connections": 0}"#, "`max_connections`"),
            (r#"{"lissen": []}"#, "`lissen`"),
        ] {
            let error = checked(json).map(|_| ()).expect_err(json);
            assert!(error.contains(key), "{json}: {error}");
        }
    }
}
