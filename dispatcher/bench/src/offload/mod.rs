//! A trivial call that may block, made by a worker, its result taken where it was asked for.

mod fuchsine;
mod peers;

use std::hint::black_box;

use crate::loops::with_libuv;
use crate::workload::{Run, Workload, scaled};

const ONE_BY_ONE: u64 = 25_000;
const MANY: u64 = 150_000;
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
    let by_all = |name, plan: fn() -> Plan| {
        let runs = vec![
            Run::new("fuchsine", move || vec![fuchsine::calls(plan())]),
            Run::new("tokio", move || vec![peers::tokio(plan())]),
            Run::new("smol", move || vec![peers::smol(plan())]),
            Run::new("crossbeam", move || vec![peers::crossbeam(plan())]),
        ];
        with_libuv(name, runs)
    };
    let what = "a trivial blocking call on a work lane, its result on the dispatcher that asked";
    vec![
        Workload::new("W9-1", format!("{what}, 1 in flight"), by_all("W9-1", Plan::one_by_one)),
        Workload::new("W9-64", format!("{what}, 64 in flight"), by_all("W9-64", Plan::many)),
    ]
}
