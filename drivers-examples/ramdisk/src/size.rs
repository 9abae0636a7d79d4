//! [`ByteSize`]: a number of bytes as people write it in a manifest, `67108864` or `"64MiB"`.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// A number of bytes; reads from a plain number or from a string with a unit.
///
/// `KiB`, `MiB`, `GiB`, `TiB` and the short forms `K`, `M`, `G`, `T` count in steps of 1024; `kB`, `MB`, `GB`, `TB`
/// in steps of 1000. Upper and lower case of the letters do not matter; a space before the unit is allowed.
///
/// # Examples
/// ```
/// use fuchsine_ramdisk::ByteSize;
/// assert_eq!("64MiB".parse(), Ok(ByteSize(64 << 20)));
/// assert_eq!("4 kB".parse(), Ok(ByteSize(4000)));
/// assert!("64 parsecs".parse::<ByteSize>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// Why a text is no [`ByteSize`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseSizeError {
    text: String,
    reason: &'static str,
}

impl fmt::Display for ParseSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not a size: {}", self.text, self.reason)
    }
}

impl std::error::Error for ParseSizeError {}

const FORM: &str = "write a whole number of bytes, or one with KiB, MiB, GiB, TiB (steps of 1024) or kB, MB, GB, TB (steps \
                    of 1000), such as \"64MiB\"";

impl FromStr for ByteSize {
    type Err = ParseSizeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fail = |reason| ParseSizeError { text: text.to_owned(), reason };
        let trimmed = text.trim();
        let unit_at = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
        let (digits, unit) = trimmed.split_at(unit_at);
        if digits.is_empty() {
            return Err(fail(FORM));
        }
        let factor = factor_of(unit.trim_start()).ok_or_else(|| fail(FORM))?;
        // Only digits are left, so the only way to fail is to be too big.
        let number: u64 = digits.parse().map_err(|_| fail("the number does not fit 64 bits"))?;
        number.checked_mul(factor).map(ByteSize).ok_or_else(|| fail("the number of bytes does not fit 64 bits"))
    }
}

fn factor_of(unit: &str) -> Option<u64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    })
}

/// The biggest unit that divides the number: what a person would have written.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        for (unit, shift) in units {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{} {unit}", self.0 >> shift);
            }
        }
        write!(f, "{} bytes", self.0)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;

        impl Visitor<'_> for SizeVisitor {
            type Value = ByteSize;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, or a text such as \"64MiB\"")
            }

            fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
                Ok(ByteSize(bytes))
            }

            fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<ByteSize, E> {
                u64::try_from(bytes)
                    .map(ByteSize)
                    .map_err(|_| E::custom(format_args!("{bytes} is not a size: it is negative")))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(SizeVisitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_read_from_numbers_and_from_texts_with_units() {
        let parsed = |json: &str| serde_json::from_str::<ByteSize>(json).map(|size| size.0).map_err(|e| e.to_string());
        assert_eq!(parsed("67108864"), Ok(64 << 20));
        assert_eq!(parsed("\"64MiB\""), Ok(64 << 20));
        assert_eq!(parsed("\" 64 mib \""), Ok(64 << 20));
        assert_eq!(parsed("\"2M\""), Ok(2 << 20));
        assert_eq!(parsed("\"3kB\""), Ok(3000));
        assert_eq!(parsed("\"512\""), Ok(512));
        assert_eq!(parsed("\"1 TB\""), Ok(1_000_000_000_000));
    }

    #[test]
    fn what_is_no_size_is_refused_with_the_text_and_the_form() {
        for bad in ["", "MiB", "1.5GiB", "-1", "64 parsecs", "0x10", "1_000"] {
            let error = bad.parse::<ByteSize>().expect_err(bad).to_string();
            assert!(error.contains(&format!("`{bad}`")) && error.contains("64MiB"), "{error}");
        }
        assert!("99999999999999999999".parse::<ByteSize>().unwrap_err().to_string().contains("64 bits"));
        assert!("99999999999TiB".parse::<ByteSize>().unwrap_err().to_string().contains("64 bits"));
        assert!(serde_json::from_str::<ByteSize>("-5").unwrap_err().to_string().contains("negative"));
        assert!(serde_json::from_str::<ByteSize>("true").unwrap_err().to_string().contains("64MiB"));
    }

    proptest! {
        #[test]
        fn a_size_survives_being_written_and_read(bytes in any::<u64>(), shift in 0u32..50) {
            let size = ByteSize((bytes >> shift) << (shift.min(40)));
            let text = size.to_string().replace(" bytes", "");
            prop_assert_eq!(text.parse::<ByteSize>(), Ok(size));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,40}") {
            let _ = text.parse::<ByteSize>();
        }
    }
}
