//! [`Config`]: what the manifest may say about the device, and what of it makes sense.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::Deserialize;

/// The smallest and the biggest block size; both are powers of two.
const BLOCK_SIZES: RangeInclusive<u64> = 512..=64 << 10;

/// The driver's table of the manifest. Sizes arrive as numbers of bytes: a text such as `64MiB` has been read by then.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    path: PathBuf,
    #[serde(default)]
    size: u64,
    #[serde(default = "smallest_block")]
    block_size: u64,
    #[serde(default)]
    read_only: bool,
}

fn smallest_block() -> u64 {
    *BLOCK_SIZES.start()
}

/// What is wanted of the file, checked as far as the file need not be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) path: PathBuf,
    /// `None`: as long as the file is.
    pub(crate) size: Option<u64>,
    pub(crate) block_size: u32,
    pub(crate) read_only: bool,
}

/// A value that the device cannot have; the text names the key and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("`path` is empty: it must name a file")]
    NoPath,
    #[error("`block_size` is {0} bytes: it must be a power of two from 512 bytes to 64 KiB")]
    BlockSize(u64),
    #[error("`size` is {0} bytes: no file can be so long")]
    TooBig(u64),
    #[error("`size` is {size} bytes: it must be a multiple of `block_size`, which is {block_size}")]
    Uneven { size: u64, block_size: u64 },
}

impl Config {
    /// What is wanted.
    ///
    /// # Errors
    /// [`ConfigError`] with the first value that cannot be.
    pub(crate) fn wanted(self) -> Result<Wanted, ConfigError> {
        let Self { path, size, block_size, read_only } = self;
        if path.as_os_str().is_empty() {
            return Err(ConfigError::NoPath);
        }
        if !BLOCK_SIZES.contains(&block_size) || !block_size.is_power_of_two() {
            return Err(ConfigError::BlockSize(block_size));
        }
        if i64::try_from(size).is_err() {
            return Err(ConfigError::TooBig(size));
        }
        if !size.is_multiple_of(block_size) {
            return Err(ConfigError::Uneven { size, block_size });
        }
        Ok(Wanted { path, size: (size > 0).then_some(size), block_size: block_size as u32, read_only })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(json: &str) -> Result<Wanted, String> {
        serde_json::from_str::<Config>(json).map_err(|e| e.to_string())?.wanted().map_err(|e| e.to_string())
    }

    #[test]
    fn a_path_alone_is_a_device_as_long_as_the_file_in_blocks_of_512_bytes() {
        let expected = Wanted { path: "disk.img".into(), size: None, block_size: 512, read_only: false };
        assert_eq!(wanted(r#"{"path": "disk.img"}"#), Ok(expected.clone()));
        assert_eq!(wanted(r#"{"path": "disk.img", "size": 0}"#), Ok(expected));
    }

    #[test]
    fn what_is_given_is_taken() {
        let expected = Wanted { path: "disk.img".into(), size: Some(1 << 30), block_size: 4096, read_only: true };
        let json = r#"{"path": "disk.img", "size": 1073741824, "block_size": 4096, "read_only": true}"#;
        assert_eq!(wanted(json), Ok(expected));
    }

    #[test]
    fn values_that_cannot_be_are_refused_by_the_name_of_their_key() {
        for (json, key) in [
            (r#"{}"#, "`path`"),
            (r#"{"path": ""}"#, "`path`"),
            (r#"{"path": "a", "block_size": 256}"#, "`block_size`"),
            (r#"{"path": "a", "block_size": 131072}"#, "`block_size`"),
            (r#"{"path": "a", "block_size": 1000}"#, "`block_size`"),
            (r#"{"path": "a", "size": 9223372036854775808}"#, "no file can be so long"),
            (r#"{"path": "a", "size": 1000}"#, "multiple of `block_size`"),
            (r#"{"path": "a", "sise": 1000}"#, "`sise`"),
        ] {
            let error = wanted(json).expect_err(json);
            assert!(error.contains(key), "{json}: {error}");
        }
    }
}
