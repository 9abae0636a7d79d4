//! Graphs of what was measured.

mod axis;
mod chart;

use std::path::Path;

use chart::{Chart, Series};

use crate::report::Line;
use crate::sample::Histogram;

/// The graphs about one operation while there is more and more of something: workload, what there is more of.
const GROWTH: [(&str, &str, &str); 4] = [
    ("S1-producers", "Posts to one dispatcher", "threads that post"),
    ("S1-dispatchers", "Hops around a ring", "dispatchers in the ring"),
    ("S1-timers", "A timer canceled and another armed", "timers that are armed"),
    ("S1-endpoints", "Messages to random channels, inline", "ends of channels"),
];

/// The graphs about how values are distributed: workload, what is shown of it, what the values are.
const DISTRIBUTIONS: [(&str, &str, &str); 4] = [
    ("W11", "Idle pool, from a post until it runs", "microseconds"),
    ("W12", "Under load, from a post until it runs", "microseconds"),
    ("W12-declared", "Under load where blocking is declared, from a post until it runs", "microseconds"),
    ("W12-turns", "Callbacks of one dispatcher in a row while others have some too", "callbacks"),
];

/// Writes those graphs into a folder for which there are figures.
pub(crate) fn draw(lines: &[Line], folder: &Path) -> Result<(), String> {
    let growth = GROWTH.iter().map(|&(workload, title, x)| {
        let chart = Chart { title, x, y: "ns of CPU an operation", series: growth_of(lines, workload) };
        (workload, chart)
    });
    let distributions = DISTRIBUTIONS.iter().map(|&(workload, title, x)| {
        let chart = Chart { title, x, y: "percent at or below", series: distributions_of(lines, workload) };
        (workload, chart)
    });
    for (workload, chart) in growth.chain(distributions) {
        if chart.series.is_empty() {
            continue;
        }
        let path = folder.join(format!("{workload}.svg"));
        std::fs::write(&path, chart.svg()).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

/// The CPU cost of each subject by count, which is the metric.
fn growth_of(lines: &[Line], workload: &str) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    for line in lines.iter().filter(|line| line.workload == workload) {
        let (Ok(count), Some(cpu)) = (line.metric.parse(), line.cpu) else { continue };
        let place = series.iter().position(|series| series.name == line.subject).unwrap_or_else(|| {
            series.push(Series { name: line.subject, points: Vec::new() });
            series.len() - 1
        });
        series[place].points.push((count, cpu.median));
    }
    series
}

fn distributions_of(lines: &[Line], workload: &str) -> Vec<Series> {
    let with_values = lines.iter().filter(|line| line.workload == workload && !line.histogram.is_empty());
    with_values.map(|line| Series { name: line.subject, points: cumulated(&line.histogram) }).collect()
}

/// How many percent of the values are at or below each bound.
fn cumulated(histogram: &Histogram) -> Vec<(f64, f64)> {
    let all: u64 = histogram.iter().map(|&(_, count)| count).sum();
    let mut seen = 0;
    let point = |&(bound, count): &(f64, u64)| {
        seen += count;
        (bound, seen as f64 / all as f64 * 100.0)
    };
    histogram.iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bound_has_all_values_below_it() {
        assert_eq!(cumulated(&vec![(1.0, 1), (2.0, 2), (8.0, 1)]), [(1.0, 25.0), (2.0, 75.0), (8.0, 100.0)]);
    }
}
