//! smol: timers of its reactor, in which the threads of its executor wait.

use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Instant;

use smol::Timer;

use super::{Due, FAR, SHORT, armings, lateness, shorts};
use crate::gate::leak;
use crate::latency::Latencies;
use crate::peers::{AsyncExecutor, Peer};
use crate::sample::{Sample, Stopwatch};

pub(super) fn arm_and_cancel() -> Vec<Sample> {
    let pool = AsyncExecutor::with_reactor(2);
    let sample = pool.run(async {
        let armings = armings();
        let watch = Stopwatch::start();
        let mut armed = 0;
        for _ in 0..armings {
            let timer = pin!(Timer::after(FAR));
            armed += u64::from(timer.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        watch.stop(armings, armed == armings)
    });
    vec![sample.if_also(pool.stop())]
}

pub(super) fn many_due() -> Vec<Sample> {
    let pool = AsyncExecutor::with_reactor(2);
    let due: &Due = leak(Due::new());
    let watch = Stopwatch::start();
    let start = Instant::now();
    let executor = pool.executor();
    for nth in 0..due.many {
        let at = start + due.after(nth);
        let body = async move {
            Timer::at(at).await;
            due.fire(nth);
        };
        executor.spawn(body).detach();
    }
    due.finish(watch)
}

pub(super) fn short() -> Vec<Sample> {
    let pool = AsyncExecutor::with_reactor(2);
    let watch = Stopwatch::start();
    let late = pool.run(async {
        let mut late = Latencies::default();
        for _ in 0..shorts() {
            let due = Instant::now() + SHORT;
            Timer::after(SHORT).await;
            late.add(due.elapsed());
        }
        late
    });
    lateness(late, &watch, pool.stop())
}
