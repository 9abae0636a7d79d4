//! Many values of one kind: their quantiles and their histogram.

use std::time::Duration;

use crate::sample::{Histogram, Sample, Took, Unit};

/// Bounds of a histogram grow by the fourth root of two.
const BUCKETS_AN_OCTAVE: f64 = 4.0;

/// How late each of many operations was, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<u64>);

impl Latencies {
    pub(crate) fn with_capacity(many: usize) -> Self {
        Latencies(Vec::with_capacity(many))
    }

    pub(crate) fn add(&mut self, late: Duration) {
        self.0.push(late.as_nanos() as u64);
    }

    pub(crate) fn append(&mut self, mut other: Latencies) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Quantiles in microseconds, each beside the CPU time of one operation. The first one has the histogram.
    pub(crate) fn quantiles(mut self, took: Took, wanted: &[(&str, f64)], ok: bool) -> Vec<Sample> {
        self.0.sort_unstable();
        let ops = self.0.len() as u64;
        let cpu = took.cpu.as_nanos() as f64 / 1e3 / ops.max(1) as f64;
        let mut samples: Vec<_> = wanted
            .iter()
            .map(|&(name, part)| {
                let figure = quantile(&self.0, part) as f64 / 1e3;
                Sample { cpu: Some(cpu), ..Sample::of(name, Unit::Microseconds, figure, ops, ok) }
            })
            .collect();
        if let Some(first) = samples.first_mut() {
            first.histogram = histogram(&self.0);
        }
        samples
    }
}

/// Of sorted values the one that `part` of them do not exceed; 0 if there are none.
pub(crate) fn quantile(sorted: &[u64], part: f64) -> u64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * part).round() as usize).copied().unwrap_or(0)
}

/// Counts sorted nanoseconds in microseconds, in steps that grow with the value.
fn histogram(sorted: &[u64]) -> Histogram {
    let mut counts = Histogram::new();
    for &nanoseconds in sorted {
        let microseconds = (nanoseconds as f64 / 1e3).max(0.125);
        let step = (microseconds.log2() * BUCKETS_AN_OCTAVE).ceil();
        let bound = (step / BUCKETS_AN_OCTAVE).exp2();
        match counts.last_mut() {
            Some((last, count)) if *last >= bound => *count += 1,
            _ => counts.push((bound, 1)),
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_hundred_values_are_those_values() {
        let mut latencies = Latencies::default();
        (1..=101).rev().for_each(|value| latencies.add(Duration::from_micros(value)));
        let took = Took { wall: Duration::ZERO, cpu: Duration::from_micros(202) };
        let samples = latencies.quantiles(took, &[("p50", 0.5), ("p99", 0.99)], true);
        assert_eq!(samples.iter().map(|sample| sample.figure).collect::<Vec<_>>(), [51.0, 100.0]);
        assert_eq!(samples[0].cpu, Some(2.0));
        assert_eq!(samples[0].histogram.iter().map(|&(_, count)| count).sum::<u64>(), 101);
        assert!(samples[1].histogram.is_empty());
    }

    #[test]
    fn a_histogram_has_each_value_below_its_bound_and_above_the_one_before() {
        let values = [0, 1, 999, 1_000, 1_001, 2_000, 4_000_000];
        let counts = histogram(&values);
        let mut seen = 0;
        let mut below = 0.0;
        for (bound, count) in counts {
            for &value in &values[seen..seen + count as usize] {
                let microseconds = (value as f64 / 1e3).max(0.125);
                assert!(microseconds <= bound && microseconds > below, "{value} in ({below}, {bound}]");
            }
            seen += count as usize;
            below = bound;
        }
        assert_eq!(seen, values.len());
    }

    #[test]
    fn nothing_measured_is_zero_and_no_panic() {
        assert_eq!(quantile(&[], 0.5), 0);
        assert!(histogram(&[]).is_empty());
    }
}
