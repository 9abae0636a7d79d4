//! The middle of a few values, and how sure it is.

use serde::Serialize;

/// Smallest, middle and largest of a few values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Spread {
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        Some(Spread { min: *values.first()?, median: median(&values), max: *values.last()? })
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// A median, and where the true one is with a certainty of 95 %: between two of the values themselves, whatever their
/// distribution. With fewer than six values nothing that sure can be said.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Interval {
    pub(crate) median: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) within: Option<(f64, f64)>,
}

impl Interval {
    pub(super) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let within = outside(values.len()).map(|out| (values[out], values[values.len() - 1 - out]));
        (!values.is_empty()).then(|| Interval { median: median(&values), within })
    }
}

/// How many of so many sorted values can be left out at each end. The true median is beyond the `n`th value with the
/// probability that a coin falls on one side fewer than `n` times.
fn outside(count: usize) -> Option<usize> {
    let mut ways = 0.5_f64.powi(i32::try_from(count).ok()?);
    let mut beyond = ways;
    let mut out = None;
    let mut nth = 0;
    while beyond <= 0.025 && nth < count {
        out = Some(nth);
        ways *= (count - nth) as f64 / (nth + 1) as f64;
        beyond += ways;
        nth += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_between_the_two_in_the_middle() {
        let spread = Spread::of(vec![4.0, 1.0, 2.0, 9.0]).expect("there are values");
        assert_eq!(spread, Spread { min: 1.0, median: 3.0, max: 9.0 });
        assert_eq!(Spread::of(Vec::new()), None);
    }

    /// The ranks stand in tables of statistics: 1 of 6, 2 of 9, 4 of 15, 6 of 20.
    #[test]
    fn the_interval_is_that_of_the_tables() {
        assert_eq!(outside(5), None);
        assert_eq!(outside(6), Some(0));
        assert_eq!(outside(9), Some(1));
        assert_eq!(outside(15), Some(3));
        assert_eq!(outside(20), Some(5));
        let interval = Interval::of((1..=15).map(f64::from).collect()).expect("there are values");
        assert_eq!(interval, Interval { median: 8.0, within: Some((4.0, 12.0)) });
    }
}
