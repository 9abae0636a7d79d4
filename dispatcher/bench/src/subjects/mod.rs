//! Who does the workloads.

mod fuchsine;
mod kernel;
#[cfg(feature = "libuv")]
mod libuv;
mod loops;
mod tokio_loop;
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

/// The loops' own counts; `peers/libuv.c` has those of its workloads.
mod counts {
    pub(super) const BATCH: u64 = 1_000;
    pub(super) const BATCHES: u64 = 5_000;
    pub(super) const BURST: u64 = 5_000_000;
    pub(super) const WORK_ONE: u64 = 100_000;
    pub(super) const WORK_MANY: u64 = 500_000;
    pub(super) const IN_FLIGHT: u64 = 64;
    pub(super) const ARMINGS: u64 = 5_000_000;
    pub(super) const MOVES: u64 = 2_000_000;
    pub(super) const TIMERS: u64 = 100_000;
    pub(super) const PAUSES: u64 = 20_000;
}

/// The same random numbers for everybody: xorshift.
struct Random(u64);

impl Random {
    fn new() -> Self {
        Random(88_172_645_463_325_252)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Measures one pair.
pub(crate) fn measure(workload: Workload, subject: Subject) -> Sample {
    match subject {
        Subject::Fuchsine if workload.is_of_loops() => loops::measure(workload),
        Subject::Fuchsine => fuchsine::measure(workload),
        Subject::TokioMsg => tokio_msg::measure(workload),
        Subject::TokioLoop => tokio_loop::measure(workload),
        #[cfg(feature = "libuv")]
        Subject::Libuv => libuv::measure(workload),
        Subject::Kernel => kernel::ping_pong(CROSSINGS),
    }
}
