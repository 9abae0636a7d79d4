//! Benchmarks of Fuchsine, with its peers beside it in the same run.
//!
//! Each pair of a workload and a subject is measured in a process of its own, all pairs in turn, round after round, so
//! that a slow minute of the machine hits everybody alike. Quote ratios and medians; absolute numbers of a shared
//! machine say little. What is timed counts only if every operation was seen to happen.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "peers start threads and read clocks as their users do, and no model checker looks at a bench"
)]

mod channels;
mod command;
mod gate;
mod graph;
mod growth;
mod latency;
mod loops;
mod machine;
mod micro;
mod offload;
mod peers;
mod queues;
mod random;
mod report;
mod rounds;
mod sample;
mod timers;
mod under_load;
mod workload;

use std::process::ExitCode;

use workload::Workload;

/// Everything that is measured, in the order of the report.
fn workloads() -> Vec<Workload> {
    [
        queues::workloads(),
        timers::workloads(),
        offload::workloads(),
        under_load::workloads(),
        channels::workloads(),
        growth::workloads(),
        loops::workloads(),
        micro::workloads(),
    ]
    .concat()
}

fn main() -> ExitCode {
    match command::main() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("fuchsine-bench: {message}");
            ExitCode::FAILURE
        }
    }
}
