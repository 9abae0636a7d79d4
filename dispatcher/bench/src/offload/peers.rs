//! The blocking pools of tokio and smol, and two threads at a channel.

use std::thread;

use crossbeam_channel::unbounded;
use tokio::task::JoinSet;

use super::{Plan, work};
use crate::peers::{AsyncExecutor, Peer, tokio_runtime};
use crate::sample::{Sample, Stopwatch};

/// One task asks and takes all results.
pub(super) fn tokio(plan: Plan) -> Sample {
    let runtime = tokio_runtime(2);
    let body = async move {
        let mut flights = JoinSet::new();
        let mut calls = 0..plan.calls;
        let watch = Stopwatch::start();
        for nth in calls.by_ref().take(plan.flights as usize) {
            flights.spawn_blocking(move || work(nth));
        }
        let mut sum = 0;
        while let Some(result) = flights.join_next().await {
            sum += result.expect("it does not panic");
            if let Some(nth) = calls.next() {
                flights.spawn_blocking(move || work(nth));
            }
        }
        watch.stop(plan.calls, sum == plan.sum())
    };
    runtime.block_on(runtime.spawn(body)).expect("it does not panic")
}

/// A task for each flight, which asks for one after the other.
pub(super) fn smol(plan: Plan) -> Sample {
    let pool = AsyncExecutor::with_reactor(2);
    let executor = pool.executor();
    let watch = Stopwatch::start();
    let lines: Vec<_> = (0..plan.flights)
        .map(|line| {
            executor.spawn(async move {
                let mut sum = 0;
                for nth in (line..plan.calls).step_by(plan.flights as usize) {
                    sum += smol::unblock(move || work(nth)).await;
                }
                sum
            })
        })
        .collect();
    let sum = pool.run(async {
        let mut sum = 0;
        for line in lines {
            sum += line.await;
        }
        sum
    });
    watch.stop(plan.calls, sum == plan.sum()).if_also(pool.stop())
}

type Job = Box<dyn FnOnce() + Send>;

/// Closures in boxes to two threads, results by another channel.
pub(super) fn crossbeam(plan: Plan) -> Sample {
    let (jobs, todo) = unbounded::<Job>();
    for _ in 0..2 {
        let todo = todo.clone();
        thread::spawn(move || todo.into_iter().for_each(|job| job()));
    }
    let (results, home) = unbounded::<u64>();
    let send = |nth: u64| {
        let results = results.clone();
        let job = Box::new(move || results.send(work(nth)).expect("it is awaited"));
        jobs.send(job).expect("the threads wait");
    };
    let mut calls = 0..plan.calls;
    let watch = Stopwatch::start();
    calls.by_ref().take(plan.flights as usize).for_each(send);
    let mut sum = 0;
    for _ in 0..plan.calls {
        sum += home.recv().expect("there are senders");
        if let Some(nth) = calls.next() {
            send(nth);
        }
    }
    watch.stop(plan.calls, sum == plan.sum())
}
