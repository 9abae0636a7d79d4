//! Samples, and the table that is made of them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::workload::{Subject, Workload};

/// One measurement: so many operations took so long.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// How many operations.
    pub(crate) ops: u64,
    /// Wall time in nanoseconds.
    pub(crate) wall_ns: u64,
    /// CPU time of the process, user and system, in nanoseconds.
    pub(crate) cpu_ns: u64,
    /// Whether every operation was seen to happen.
    pub(crate) ok: bool,
}

/// Times a stretch: wall and CPU.
pub(crate) struct Stopwatch {
    wall: Duration,
    cpu: Duration,
}

fn read(clock: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Stopwatch { cpu: read(rustix::time::ClockId::ProcessCPUTime), wall: read(rustix::time::ClockId::Monotonic) }
    }

    pub(crate) fn stop(self, ops: u64, ok: bool) -> Sample {
        let wall = read(rustix::time::ClockId::Monotonic) - self.wall;
        let cpu = read(rustix::time::ClockId::ProcessCPUTime) - self.cpu;
        Sample { ops, wall_ns: wall.as_nanos() as u64, cpu_ns: cpu.as_nanos() as u64, ok }
    }
}

#[derive(Debug, Serialize, Clone, Copy)]
struct Spread {
    min: f64,
    median: f64,
    max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Spread { min: values[0], median: values[values.len() / 2], max: values[values.len() - 1] }
    }
}

#[derive(Debug, Serialize)]
struct Line {
    workload: &'static str,
    subject: &'static str,
    unit: &'static str,
    wall: Spread,
    cpu: Spread,
    ops: u64,
    ok: bool,
}

/// All samples of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    samples: BTreeMap<(&'static str, &'static str), Vec<Sample>>,
    order: Vec<(Workload, Subject)>,
}

impl Report {
    pub(crate) fn add(&mut self, workload: Workload, subject: Subject, sample: Sample) {
        if !self.order.contains(&(workload, subject)) {
            self.order.push((workload, subject));
        }
        self.samples.entry((workload.name(), subject.name())).or_default().push(sample);
    }

    fn line(&self, workload: Workload, subject: Subject) -> Line {
        let samples = &self.samples[&(workload.name(), subject.name())];
        let per_op = |time: fn(&Sample) -> u64| {
            Spread::of(samples.iter().map(|sample| time(sample) as f64 / sample.ops as f64).collect())
        };
        Line {
            workload: workload.name(),
            subject: subject.name(),
            unit: "ns",
            wall: per_op(|sample| sample.wall_ns),
            cpu: per_op(|sample| sample.cpu_ns),
            ops: samples[0].ops,
            ok: samples.iter().all(|sample| sample.ok),
        }
    }

    /// Median of the ratios round by round: ours to the peer's.
    fn ratio(&self, workload: Workload, peer: Subject, time: fn(&Sample) -> u64) -> Option<f64> {
        let ours = self.samples.get(&(workload.name(), workload.subjects()[0].name()))?;
        let theirs = self.samples.get(&(workload.name(), peer.name()))?;
        let per_op = |sample: &Sample| time(sample) as f64 / sample.ops as f64;
        let ratios: Vec<_> = ours.iter().zip(theirs).map(|(ours, theirs)| per_op(ours) / per_op(theirs)).collect();
        (!ratios.is_empty()).then(|| Spread::of(ratios).median)
    }

    /// One JSON object a line and result.
    pub(crate) fn json_lines(&self) -> String {
        self.order
            .iter()
            .map(|&(workload, subject)| match serde_json::to_string(&self.line(workload, subject)) {
                Ok(line) => line + "\n",
                Err(error) => unreachable!("a line of numbers is always JSON: {error}"),
            })
            .collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ns per operation: median (min to max); ratio = fuchsine to that peer, median of the rounds")?;
        writeln!(f, "{:<5}{:<12}{:>28}{:>28}{:>8}{:>8}", "", "", "wall", "cpu", "wall x", "cpu x")?;
        for &(workload, subject) in &self.order {
            let line = self.line(workload, subject);
            let spread = |spread: Spread| format!("{:.1} ({:.1} to {:.1})", spread.median, spread.min, spread.max);
            write!(f, "{:<5}{:<12}{:>28}{:>28}", line.workload, line.subject, spread(line.wall), spread(line.cpu))?;
            if subject != workload.subjects()[0]
                && let (Some(wall), Some(cpu)) = (
                    self.ratio(workload, subject, |sample| sample.wall_ns),
                    self.ratio(workload, subject, |sample| sample.cpu_ns),
                )
            {
                write!(f, "{wall:>8.2}{cpu:>8.2}")?;
            }
            writeln!(f, "{}", if line.ok { "" } else { "  NOT VERIFIED" })?;
        }
        Ok(())
    }
}
