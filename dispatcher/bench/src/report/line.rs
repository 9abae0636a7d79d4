//! One figure of one pair over all rounds.

use serde::Serialize;

use super::goal::Goal;
use super::spread::{Interval, Spread};
use crate::sample::{Histogram, Unit};

/// The first subject's figure, usually ours, over that of this one: the median of the rounds.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Ratio {
    /// The subject whose figure is divided by this one's.
    #[serde(rename = "of")]
    pub(crate) to: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wall: Option<Interval>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu: Option<Interval>,
}

/// One line of a report.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Line {
    pub(crate) workload: String,
    #[serde(skip)]
    pub(crate) description: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) metric: String,
    pub(crate) subject: &'static str,
    pub(crate) unit: Unit,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) wall: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cpu: Option<Spread>,
    /// What was measured, where that is no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Spread>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<Ratio>,
    /// What is aimed at, where something is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) goal: Option<Goal>,
    /// How many processors other programs kept busy meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) others: Option<f64>,
    pub(crate) rounds: usize,
    pub(crate) ops: u64,
    pub(crate) ok: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) histogram: Histogram,
}

impl Line {
    /// Workload and metric.
    pub(crate) fn title(&self) -> String {
        if self.metric.is_empty() { self.workload.clone() } else { format!("{}, {}", self.workload, self.metric) }
    }

    /// The wall time, or what stands in its place.
    pub(super) fn figure(&self) -> Option<Spread> {
        self.wall.or(self.value)
    }
}

/// A ratio, and the range that it is in with a certainty of 95 %.
pub(super) fn ratio(interval: Option<Interval>) -> String {
    match interval {
        None => String::new(),
        Some(Interval { median, within: None }) => number(median),
        Some(Interval { median, within: Some((low, high)) }) => {
            format!("{} ({} to {})", number(median), number(low), number(high))
        }
    }
}

/// A number with as many digits as mean something.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => thousands(value.round() as i64),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn thousands(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_mean_something() {
        let written = [0.256, 2.5, 25.04, 250.4, 2_504.0, 1_234_567.0, -1_000.0].map(number);
        assert_eq!(written, ["0.26", "2.50", "25.0", "250", "2,504", "1,234,567", "-1,000"]);
    }
}
