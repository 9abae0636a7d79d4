//! tokio as a serial queue: one task a queue, which receives messages from an unbounded channel.

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::{CROSSINGS, HOPS, PAYLOAD, POSTS};
use crate::report::{Sample, Stopwatch};
use crate::workload::Workload;

pub(crate) fn measure(workload: Workload) -> Sample {
    match workload {
        Workload::PostThroughput => throughput(),
        Workload::SelfPost => self_post(),
        Workload::PingPongOneThread => ping_pong(1, HOPS, 0),
        Workload::PingPongTwoThreads => ping_pong(2, CROSSINGS, 0),
        // tokio has no inline calls: its nearest is the round trip on one thread, with the same payload.
        Workload::ChannelInline => ping_pong(1, HOPS, PAYLOAD),
        Workload::ChannelHop => ping_pong(2, CROSSINGS, PAYLOAD),
        _ => unreachable!("the other workloads are not those of dispatchers"),
    }
}

fn runtime(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).build().expect("the system has threads")
}

fn throughput() -> Sample {
    let runtime = runtime(2);
    let (sender, mut receiver) = unbounded_channel::<u64>();
    let (done, finished) = std::sync::mpsc::channel();
    runtime.spawn(async move {
        let mut seen = 0;
        while let Some(value) = receiver.recv().await {
            seen += value;
            if seen == POSTS {
                done.send(seen).expect("it is awaited");
            }
        }
    });
    let watch = Stopwatch::start();
    for _ in 0..POSTS {
        sender.send(1).expect("the task runs");
    }
    let seen = finished.recv().expect("all are seen");
    watch.stop(POSTS, seen == POSTS)
}

fn self_post() -> Sample {
    let runtime = runtime(2);
    let (sender, mut receiver) = unbounded_channel::<u64>();
    let (done, finished) = std::sync::mpsc::channel();
    let own = sender.clone();
    runtime.spawn(async move {
        let mut hops = 0;
        while let Some(value) = receiver.recv().await {
            hops += 1;
            if hops == HOPS {
                done.send(hops).expect("it is awaited");
                return;
            }
            own.send(value).expect("the task runs");
        }
    });
    let watch = Stopwatch::start();
    sender.send(1).expect("the task runs");
    let hops = finished.recv().expect("all are seen");
    watch.stop(HOPS, hops == HOPS)
}

fn echo(runtime: &Runtime, reply_to: UnboundedSender<Vec<u8>>) -> UnboundedSender<Vec<u8>> {
    let (sender, mut receiver) = unbounded_channel::<Vec<u8>>();
    runtime.spawn(async move {
        while let Some(message) = receiver.recv().await {
            if reply_to.send(message).is_err() {
                return;
            }
        }
    });
    sender
}

fn ping_pong(threads: usize, trips: u64, payload: usize) -> Sample {
    let runtime = runtime(threads);
    let (replies, mut reply) = unbounded_channel::<Vec<u8>>();
    let requests = echo(&runtime, replies);
    let (done, finished) = std::sync::mpsc::channel();
    let first = requests.clone();
    runtime.spawn(async move {
        let mut seen = 0;
        while let Some(message) = reply.recv().await {
            seen += 1;
            if seen == trips {
                done.send(seen).expect("it is awaited");
                return;
            }
            requests.send(message).expect("the echo runs");
        }
    });
    let watch = Stopwatch::start();
    first.send(vec![1; payload]).expect("the echo runs");
    let seen = finished.recv().expect("all are seen");
    watch.stop(trips, seen == trips)
}
