//! One figure of one measurement, and how it is taken.

use std::ops::AddAssign;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a figure is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Unit {
    /// Nanoseconds for each operation.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Microseconds: how late or how slow one operation was.
    #[serde(rename = "us")]
    Microseconds,
    /// Bytes for each of what was made.
    #[serde(rename = "B")]
    Bytes,
    /// Times as fast.
    #[serde(rename = "x")]
    Times,
    /// Callbacks of one dispatcher in a row.
    #[serde(rename = "callbacks")]
    Callbacks,
}

impl Unit {
    /// As it is written behind a number.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Microseconds => "us",
            Unit::Bytes => "B",
            Unit::Times => "x",
            Unit::Callbacks => "callbacks",
        }
    }

    /// Whether a CPU time can stand beside it.
    pub(crate) fn is_time(self) -> bool {
        matches!(self, Unit::Nanoseconds | Unit::Microseconds)
    }
}

/// How many of many values were at most so large, and larger than the bound before.
pub(crate) type Histogram = Vec<(f64, u64)>;

/// One figure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sample {
    /// Which figure of its workload it is; empty where there is but one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) metric: String,
    /// What `figure` and `cpu` are counted in.
    pub(crate) unit: Unit,
    /// Wall time for each operation; what was measured, where that is no time.
    pub(crate) figure: f64,
    /// CPU time of the process, user and system, for each operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cpu: Option<f64>,
    /// How many operations.
    pub(crate) ops: u64,
    /// Whether every operation was seen to happen.
    pub(crate) ok: bool,
    /// The values behind a quantile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) histogram: Histogram,
}

impl Sample {
    /// A figure that is no time for each operation.
    pub(crate) fn of(metric: &str, unit: Unit, figure: f64, ops: u64, ok: bool) -> Self {
        Sample { metric: metric.to_owned(), unit, figure, cpu: None, ops, ok, histogram: Histogram::new() }
    }

    /// The same under a name, where a workload has several.
    pub(crate) fn named(self, metric: impl Into<String>) -> Self {
        Sample { metric: metric.into(), ..self }
    }

    /// The same, and not verified unless `also` holds.
    pub(crate) fn if_also(self, also: bool) -> Self {
        Sample { ok: self.ok && also, ..self }
    }
}

/// Wall and CPU time of a stretch.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Took {
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
}

impl Took {
    /// So much for each of `ops` operations.
    pub(crate) fn each(self, ops: u64, ok: bool) -> Sample {
        let nanoseconds = |time: Duration| time.as_nanos() as f64 / ops.max(1) as f64;
        let sample = Sample::of("", Unit::Nanoseconds, nanoseconds(self.wall), ops, ok);
        Sample { cpu: Some(nanoseconds(self.cpu)), ..sample }
    }
}

impl AddAssign for Took {
    fn add_assign(&mut self, other: Took) {
        self.wall += other.wall;
        self.cpu += other.cpu;
    }
}

/// Times a stretch: wall and CPU.
#[derive(Debug)]
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

    pub(crate) fn took(&self) -> Took {
        let wall = read(rustix::time::ClockId::Monotonic) - self.wall;
        Took { wall, cpu: read(rustix::time::ClockId::ProcessCPUTime) - self.cpu }
    }

    pub(crate) fn stop(self, ops: u64, ok: bool) -> Sample {
        self.took().each(ops, ok)
    }
}
