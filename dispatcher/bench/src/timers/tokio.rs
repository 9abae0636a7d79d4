//! tokio: `sleep` in tasks.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Instant;

use tokio::time::{sleep, sleep_until};

use super::{Due, FAR, SHORT, armings, lateness, shorts};
use crate::gate::leak;
use crate::latency::Latencies;
use crate::peers::tokio_runtime;
use crate::sample::{Sample, Stopwatch};

pub(super) fn arm_and_cancel() -> Vec<Sample> {
    let runtime = tokio_runtime(2);
    let body = async {
        let armings = armings();
        let watch = Stopwatch::start();
        let mut armed = 0;
        for _ in 0..armings {
            let timer = pin!(sleep(FAR));
            armed += u64::from(timer.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        watch.stop(armings, armed == armings)
    };
    vec![runtime.block_on(runtime.spawn(body)).expect("it does not panic")]
}

pub(super) fn many_due() -> Vec<Sample> {
    let runtime = tokio_runtime(2);
    let due: &Due = leak(Due::new());
    let watch = Stopwatch::start();
    let start = tokio::time::Instant::now();
    for nth in 0..due.many {
        let at = start + due.after(nth);
        runtime.spawn(async move {
            sleep_until(at).await;
            due.fire(nth);
        });
    }
    due.finish(watch)
}

pub(super) fn short() -> Vec<Sample> {
    let runtime = tokio_runtime(2);
    let watch = Stopwatch::start();
    let body = async {
        let mut late = Latencies::default();
        for _ in 0..shorts() {
            let due = Instant::now() + SHORT;
            sleep(SHORT).await;
            late.add(due.elapsed());
        }
        late
    };
    let late = runtime.block_on(runtime.spawn(body)).expect("it does not panic");
    lateness(late, &watch, true)
}
