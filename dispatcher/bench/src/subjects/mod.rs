//! Who does the workloads.

mod fuchsine;
mod tokio_msg;

use crate::report::Sample;
use crate::workload::{Subject, Workload};

/// Posts of the throughput workload.
const POSTS: u64 = 2_000_000;
/// Hops and round trips of the others.
const HOPS: u64 = 1_000_000;
/// Round trips that cross threads.
const CROSSINGS: u64 = 200_000;
/// The size of a request and of a reply by channel.
const PAYLOAD: usize = 64;

/// Measures one pair.
pub(crate) fn measure(workload: Workload, subject: Subject) -> Sample {
    match subject {
        Subject::Fuchsine => fuchsine::measure(workload),
        Subject::TokioMsg => tokio_msg::measure(workload),
    }
}
