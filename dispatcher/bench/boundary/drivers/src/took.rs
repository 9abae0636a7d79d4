//! [`Took`]: what a stretch took, as a word that a host can read: an address has no spaces in it.

use std::fmt;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Times a stretch, in wall time and in the CPU time of the process.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    wall: Instant,
    cpu: Duration,
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { cpu: cpu(), wall: Instant::now() }
    }

    /// `seen` of `ops` operations were seen to happen.
    pub(crate) fn stop(&self, ops: u64, seen: u64) -> Took {
        let (wall, cpu) = (self.wall.elapsed(), cpu() - self.cpu);
        Took { wall, cpu, ops, seen }
    }
}

/// What so many operations took.
#[derive(Debug)]
pub(crate) struct Took {
    wall: Duration,
    cpu: Duration,
    ops: u64,
    seen: u64,
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wall, cpu, ops, seen } = self;
        write!(f, "{},{},{ops},{seen}", wall.as_nanos(), cpu.as_nanos())
    }
}
