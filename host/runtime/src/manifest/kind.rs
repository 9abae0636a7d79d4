//! The values that a configuration key accepts, by its kind, and the form in which the driver gets them.

use std::path::Path;
use std::time::Duration;

use fuchsine_driver::abi::{ConfigKey, ConfigKind};
use serde_json::Value;

use super::spec::Setting;

/// Units of sizes; the first spelling is the one that messages use.
const SIZES: &[(&str, u64)] = &[
    ("B", 1),
    ("", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Units of durations, in milliseconds.
const DURATIONS: &[(&str, u64)] = &[("ms", 1), ("s", 1_000), ("min", 60_000), ("h", 3_600_000)];

/// What values of a kind look like, for messages: `must be …`.
pub(crate) fn description(kind: ConfigKind) -> &'static str {
    match kind {
        ConfigKind::Integer => "a whole number",
        ConfigKind::Boolean => "`true` or `false`",
        ConfigKind::Size => "a size: a number of bytes, or text such as \"64MiB\" (B, KiB, MiB, GiB, TiB)",
        ConfigKind::Duration => "a duration: text such as \"250ms\" or \"5s\" (ms, s, min, h)",
        ConfigKind::Path => "text, the path of a file",
        ConfigKind::TextList => "text, or an array of texts",
        _ => "text",
    }
}

/// The name of a kind of values, for listings: `size`, for example.
pub fn name(kind: ConfigKind) -> &'static str {
    match kind {
        ConfigKind::Integer => "integer",
        ConfigKind::Boolean => "boolean",
        ConfigKind::Size => "size",
        ConfigKind::Duration => "duration",
        ConfigKind::Path => "path",
        ConfigKind::TextList => "list",
        _ => "text",
    }
}

/// Checks a setting against its key and brings it into the form that the driver gets.
///
/// # Errors
/// What the value must be.
pub(crate) fn accept(key: &ConfigKey, setting: &Setting) -> Result<Value, String> {
    let folder = setting.value_place.source().folder();
    // A bare `--set` text counts as what the key takes: `--set disk.name=007` is the text "007".
    match (&setting.bare, key.kind()) {
        (Some(bare), ConfigKind::Text | ConfigKind::Path) if !setting.value.is_string() => {
            convert(key.kind(), &Value::String(bare.clone()), folder)
        }
        (Some(bare), ConfigKind::TextList) if !setting.value.is_array() => {
            Some(split_at_commas(setting.value.as_str().unwrap_or(bare)))
        }
        _ => convert(key.kind(), &setting.value, folder),
    }
    .ok_or_else(|| format!("`{}` must be {}", key.name(), description(key.kind())))
}

/// The value of a key that is left out; `None` if it then has none.
///
/// # Errors
/// What the default should have been.
pub(crate) fn default_value(key: &ConfigKey) -> Result<Option<Value>, String> {
    let Some(text) = key.default() else { return Ok(None) };
    let value = match key.kind() {
        ConfigKind::Integer => text.parse::<i64>().map(Value::from).ok(),
        ConfigKind::Boolean => text.parse::<bool>().map(Value::from).ok(),
        ConfigKind::TextList => Some(split_at_commas(text)),
        kind => convert(kind, &Value::String(text.to_owned()), None),
    };
    value.map(Some).ok_or_else(|| format!("it must be {}", description(key.kind())))
}

fn convert(kind: ConfigKind, value: &Value, folder: Option<&Path>) -> Option<Value> {
    match (kind, value) {
        (ConfigKind::Integer, Value::Number(number)) => (!number.is_f64()).then(|| value.clone()),
        (ConfigKind::Boolean, Value::Bool(_)) => Some(value.clone()),
        (ConfigKind::Size, Value::Number(_)) => value.as_u64().map(Value::from),
        (ConfigKind::Size, Value::String(text)) => size(text),
        (ConfigKind::Duration, Value::String(text)) => measure(text, DURATIONS).map(Value::from),
        (ConfigKind::Path, Value::String(path)) => Some(Value::String(from_folder(path, folder))),
        (ConfigKind::TextList, Value::String(_)) => Some(Value::Array(vec![value.clone()])),
        (ConfigKind::TextList, Value::Array(items)) => items.iter().all(Value::is_string).then(|| value.clone()),
        (ConfigKind::Integer | ConfigKind::Boolean | ConfigKind::Size | ConfigKind::Duration, _) => None,
        (ConfigKind::Path | ConfigKind::TextList, _) => None,
        (_, value) => value.is_string().then(|| value.clone()),
    }
}

/// Paths in a manifest are relative to its folder, so that it means the same from wherever the host is started.
fn from_folder(path: &str, folder: Option<&Path>) -> String {
    match folder {
        Some(folder) if !path.is_empty() => folder.join(path).to_string_lossy().into_owned(),
        _ => path.to_owned(),
    }
}

fn split_at_commas(text: &str) -> Value {
    text.split(',').map(|item| Value::from(item.trim())).collect()
}

fn size(text: &str) -> Option<Value> {
    bytes(text).map(Value::from)
}

/// A size such as `64MiB`, in bytes.
pub(super) fn bytes(text: &str) -> Option<u64> {
    measure(text, SIZES)
}

/// A duration such as `250ms`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    measure(text, DURATIONS).map(Duration::from_millis)
}

/// A whole number with a unit; a unit may be spelt in any case where that is not ambiguous.
fn measure(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = (text[..digits].parse::<u64>().ok()?, text[digits..].trim_start());
    let exact = units.iter().find(|(name, _)| *name == unit);
    let (_, factor) = exact.or_else(|| units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)))?;
    number.checked_mul(*factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_all_their_units() {
        for (text, bytes) in [
            ("0B", 0),
            ("512B", 512),
            ("512", 512),
            ("4KiB", 4096),
            ("64 MiB", 64 << 20),
            ("64mib", 64 << 20),
            ("1G", 1 << 30),
            ("5MB", 5_000_000),
        ] {
            assert_eq!(size(text), Some(Value::from(bytes)), "{text}");
        }
    }

    #[test]
    fn durations_are_read_as_milliseconds() {
        for (text, ms) in [("250ms", 250), ("5s", 5_000), ("2 min", 120_000), ("1h", 3_600_000)] {
            assert_eq!(measure(text, DURATIONS), Some(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_with_a_unit_is_refused() {
        for text in ["", "MiB", "64 parsecs", "-1KiB", "1.5GiB", "18446744073709551615KiB", "99999999999999999999B"] {
            assert_eq!(measure(text, SIZES), None, "{text}");
        }
    }

    #[test]
    fn a_relative_path_is_relative_to_the_manifest() {
        assert_eq!(from_folder("disk.img", Some(Path::new("/etc/fuchsine"))), "/etc/fuchsine/disk.img");
        assert_eq!(from_folder("/srv/disk.img", Some(Path::new("/etc/fuchsine"))), "/srv/disk.img");
        assert_eq!(from_folder("disk.img", None), "disk.img");
        assert_eq!(from_folder("", Some(Path::new("/etc"))), "");
    }
}
