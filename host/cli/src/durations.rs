//! Times on the command line: `500ms`, `10s`, `2min`, `1h`; a number alone is seconds.

use std::time::Duration;

pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shape = || format!("`{text}` is no time; write `500ms`, `10s`, `2min` or `1h`");
    let second = match unit.trim() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "min" | "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(shape()),
    };
    let seconds = number.parse::<f64>().map_err(|_| shape())? * second;
    Duration::try_from_secs_f64(seconds).map_err(|_| shape())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_or_are_seconds() {
        for (text, ms) in
            [("500ms", 500), ("10s", 10_000), ("1.5", 1500), ("2min", 120_000), ("1h", 3_600_000), ("0", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "ten", "-1s", "1d", "1.2.3s", "99999999999999999999h"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
