//! What becomes of the cost of an operation when there is more of something: it should not grow with it.

mod endpoints;
mod timers;

use crate::peers::{AsyncExecutor, Crossbeam, Fuchsine, Peer, TokioMessages};
use crate::queues::{ring, throughput};
use crate::sample::Sample;
use crate::workload::{Run, Workload, by, scaled};

/// Measures with each count, which becomes the metric.
fn with_each<C: Copy + std::fmt::Display>(counts: &[C], measure: impl Fn(C) -> Sample) -> Vec<Sample> {
    counts.iter().map(|&count| measure(count).named(count.to_string())).collect()
}

/// The workloads and who does them.
pub(crate) fn workloads() -> Vec<Workload> {
    let timers = [1_000, 10_000, 100_000, 1_000_000];
    vec![
        Workload::new(
            "S1-producers",
            "W1 by 1 to 8 outside threads",
            by!(P: Peer in [Fuchsine, TokioMessages, AsyncExecutor, Crossbeam] =>
                with_each(&[1, 2, 4, 8], throughput::from_outside::<P>)),
        ),
        Workload::new(
            "S1-dispatchers",
            "W4 with 10 to 100,000 dispatchers",
            by!(P: Peer in [Fuchsine, TokioMessages, AsyncExecutor] =>
                           with_each(&[10, 100, 1_000, 10_000, 100_000], |queues| {
            ring::round::<P>(ring::of(scaled(queues) as u32))
            })),
        ),
        Workload::new(
            "S1-timers",
            "one of 1,000 to 1,000,000 far timers is canceled, and another armed in its place",
            vec![
                Run::new("fuchsine", move || with_each(&timers, timers::fuchsine)),
                Run::new("tokio", move || with_each(&timers, timers::tokio)),
            ],
        ),
        Workload::new(
            "S1-endpoints",
            "a message to a random one of 100 to 1,000,000 ends of channels, each with a registered read",
            vec![Run::new("fuchsine", || with_each(&[100, 1_000, 10_000, 100_000, 1_000_000], endpoints::inline))],
        ),
    ]
}
