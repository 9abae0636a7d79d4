//! Timers of a pool of 2: armed and canceled, many due, and how late a short one is.

mod fuchsine;
mod smol;
mod threads;
mod tokio;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::gate::Gate;
use crate::latency::Latencies;
use crate::loops::with_libuv;
use crate::sample::{Sample, Stopwatch};
use crate::workload::{Run, Workload, scaled};

/// One that is never due.
const FAR: Duration = Duration::from_secs(3_600);
const ARMINGS: u64 = 500_000;
/// Timers that are due within a second, and when the first one is.
const DUE: u64 = 100_000;
const LEAD: Duration = Duration::from_millis(300);
const WITHIN: Duration = Duration::from_secs(1);
/// A short one, armed so often, one after the other.
const SHORT: Duration = Duration::from_millis(1);
const SHORTS: u64 = 1_000;

fn armings() -> u64 {
    scaled(ARMINGS)
}

fn shorts() -> usize {
    scaled(SHORTS).max(20) as usize
}

/// Many timers that are due, counted by whatever threads they fire on.
#[derive(Debug)]
struct Due {
    many: u64,
    left: AtomicU64,
    /// The sum of their numbers, which tells one that fired twice while another did not.
    sum: AtomicU64,
    done: Gate,
}

impl Due {
    fn new() -> Self {
        let many = scaled(DUE);
        Due { many, left: AtomicU64::new(many), sum: AtomicU64::new(0), done: Gate::default() }
    }

    /// How long after the first possible moment the `nth` is due: all at different times, in scrambled order.
    fn after(&self, nth: u64) -> Duration {
        // The factor has no divisor in common with the number of timers.
        LEAD + WITHIN.mul_f64((nth * 7_919 % self.many) as f64 / self.many as f64)
    }

    fn fire(&self, nth: u64) {
        self.sum.fetch_add(nth, Ordering::Relaxed);
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.done.open();
        }
    }

    fn finish(&self, watch: Stopwatch) -> Vec<Sample> {
        let ended = self.done.pass();
        let each_once = self.sum.load(Ordering::Relaxed) == self.many * (self.many - 1) / 2;
        vec![watch.stop(self.many, ended && each_once)]
    }
}

fn lateness(late: Latencies, watch: &Stopwatch, ok: bool) -> Vec<Sample> {
    let ok = ok && late.len() == shorts();
    late.quantiles(watch.took(), &[("p50", 0.5), ("p99", 0.99)], ok)
}

/// The workloads and who does them.
pub(crate) fn workloads() -> Vec<Workload> {
    vec![
        Workload::new(
            "W8a",
            "a far timer is armed and canceled (ours gives its callback back)",
            with_libuv(
                "W8a",
                vec![
                    Run::new("fuchsine", fuchsine::arm_and_cancel),
                    Run::new("tokio", tokio::arm_and_cancel),
                    Run::new("smol", smol::arm_and_cancel),
                ],
            ),
        ),
        Workload::new(
            "W8b",
            "100,000 timers fall due within a second, armed in scrambled order: look at the CPU column",
            with_libuv(
                "W8b",
                vec![
                    Run::new("fuchsine", fuchsine::many_due),
                    Run::new("tokio", tokio::many_due),
                    Run::new("smol", smol::many_due),
                ],
            ),
        ),
        Workload::new(
            "W8c",
            "how late a timer of 1 ms is",
            vec![
                Run::new("fuchsine", fuchsine::short),
                Run::new("smol", smol::short),
                Run::new("tokio", tokio::short),
                Run::new("crossbeam", threads::short),
            ],
        ),
    ]
}
