//! A trivial call that may block, made by a worker, its result taken where it was asked for.

mod fuchsine;
mod peers;

use std::hint::black_box;

use crate::workload::{Run, Workload, scaled};

const ONE_BY_ONE: u64 = 50_000;
const MANY: u64 = 300_000;
const FLIGHTS: u64 = 64;

/// The call: its result tells which one it was.
fn work(nth: u64) -> u64 {
    black_box(nth) + 1
}

/// How many calls, so many of them in flight.
#[derive(Debug, Clone, Copy)]
struct Plan {
    calls: u64,
    flights: u64,
}

impl Plan {
    fn one_by_one() -> Self {
        Plan { calls: scaled(ONE_BY_ONE), flights: 1 }
    }

    fn many() -> Self {
        Plan { calls: scaled(MANY), flights: FLIGHTS }
    }

    /// The sum of all results: each came back, and none twice.
    fn sum(self) -> u64 {
        self.calls * (self.calls + 1) / 2
    }
}

/// The workloads and who does them.
pub(crate) fn workloads() -> Vec<Workload> {
    macro_rules! by_all {
        ($plan:expr, $name:literal) => {
            vec![
                Run::new("fuchsine", || vec![fuchsine::calls($plan)]),
                #[cfg(feature = "libuv")]
                Run::new("libuv", || crate::loops::libuv::measure($name)),
                Run::new("tokio", || vec![peers::tokio($plan)]),
                Run::new("smol", || vec![peers::smol($plan)]),
                Run::new("crossbeam", || vec![peers::crossbeam($plan)]),
            ]
        };
    }
    let what = "a trivial blocking call on a work lane, its result on the dispatcher that asked";
    vec![
        Workload::new("W9-1", format!("{what}, 1 in flight"), by_all!(Plan::one_by_one(), "W9-1")),
        Workload::new("W9-64", format!("{what}, 64 in flight"), by_all!(Plan::many(), "W9-64")),
    ]
}
