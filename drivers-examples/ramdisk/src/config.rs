//! [`Config`]: what the manifest may say about the device, and what of it makes sense.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use serde::Deserialize;

use crate::store::MAX_SIZE;

/// The smallest and the biggest block size; both are powers of two.
const BLOCK_SIZES: RangeInclusive<u64> = 512..=64 << 10;

/// The driver's table of the manifest. Sizes arrive as numbers of bytes: a text such as `64MiB` has been read by then.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub(crate) size: u64,
    pub(crate) block_size: u64,
    pub(crate) image: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self { size: 64 << 20, block_size: 512, image: None }
    }
}

/// The shape of the device after the check: `size` is a multiple of `block_size`, and neither is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) size: u64,
    pub(crate) block_size: u32,
}

/// A value that the device cannot have; the text names the key and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("`block_size` is {0} bytes: it must be a power of two from 512 bytes to 64 KiB")]
    BlockSize(u64),
    #[error("`size` is 0: the device must have at least one block")]
    Empty,
    #[error("`size` is {0} bytes: it can be {limit} TiB at most", limit = MAX_SIZE >> 40)]
    TooBig(u64),
    #[error("`size` is {size} bytes: it must be a multiple of `block_size`, which is {block_size}")]
    Uneven { size: u64, block_size: u64 },
}

impl Config {
    /// The image, if there is one. An empty text is none, so that `--set` can take away that of a manifest.
    pub(crate) fn image(&self) -> Option<PathBuf> {
        self.image.clone().filter(|path| !path.as_os_str().is_empty())
    }

    /// The device's shape.
    ///
    /// # Errors
    /// [`ConfigError`] with the first value that cannot be.
    pub(crate) fn geometry(&self) -> Result<Geometry, ConfigError> {
        let Self { size, block_size, .. } = *self;
        if !BLOCK_SIZES.contains(&block_size) || !block_size.is_power_of_two() {
            return Err(ConfigError::BlockSize(block_size));
        }
        if size == 0 {
            return Err(ConfigError::Empty);
        }
        if size > MAX_SIZE {
            return Err(ConfigError::TooBig(size));
        }
        if !size.is_multiple_of(block_size) {
            return Err(ConfigError::Uneven { size, block_size });
        }
        Ok(Geometry { size, block_size: block_size as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(json: &str) -> Result<Geometry, String> {
        serde_json::from_str::<Config>(json).map_err(|e| e.to_string())?.geometry().map_err(|e| e.to_string())
    }

    #[test]
    fn an_empty_table_gives_64_mib_in_blocks_of_512_bytes() {
        assert_eq!(geometry("{}"), Ok(Geometry { size: 64 << 20, block_size: 512 }));
    }

    #[test]
    fn an_empty_image_is_none() {
        let image = |json: &str| serde_json::from_str::<Config>(json).unwrap().image();
        assert_eq!(image(r#"{"image": ""}"#), None);
        assert_eq!(image(r#"{"image": "disk.img"}"#), Some(PathBuf::from("disk.img")));
        assert_eq!(image("{}"), None);
    }

    #[test]
    fn what_is_given_is_taken() {
        let expected = Ok(Geometry { size: 1 << 30, block_size: 4096 });
        assert_eq!(geometry(r#"{"size": 1073741824, "block_size": 4096, "image": "disk.img"}"#), expected);
    }

    #[test]
    fn values_that_cannot_be_are_refused_by_the_name_of_their_key() {
        for (json, key) in [
            (r#"{"block_size": 256}"#, "`block_size`"),
            (r#"{"block_size": 131072}"#, "`block_size`"),
            (r#"{"block_size": 1000}"#, "`block_size`"),
            (r#"{"size": 0}"#, "`size`"),
            (r#"{"size": 20000000000000}"#, "16 TiB"),
            (r#"{"size": 1000}"#, "multiple of `block_size`"),
            (r#"{"sise": 1000}"#, "`sise`"),
        ] {
            let error = geometry(json).expect_err(json);
            assert!(error.contains(key), "{json}: {error}");
        }
    }
}
