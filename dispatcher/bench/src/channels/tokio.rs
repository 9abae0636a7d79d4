//! The same round trips by tokio: two tasks, each with an unbounded channel of owned buffers.

use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::{lines_are, trips, write_lines};
use crate::peers::tokio_runtime;
use crate::sample::{Sample, Stopwatch};

fn echo(runtime: &Runtime, reply_to: UnboundedSender<Vec<u8>>) -> UnboundedSender<Vec<u8>> {
    let (sender, mut receiver) = unbounded_channel::<Vec<u8>>();
    runtime.spawn(async move {
        let mut stamp = 0_u8;
        while let Some(message) = receiver.recv().await {
            assert!(lines_are(&message, stamp), "the request is whole");
            stamp = stamp.wrapping_add(1);
            if reply_to.send(message).is_err() {
                return;
            }
        }
    });
    sender
}

pub(super) fn round_trips(threads: usize, all: u64, size: usize) -> Sample {
    let runtime = tokio_runtime(threads);
    let trips = trips(all, size);
    let (replies, mut reply) = unbounded_channel::<Vec<u8>>();
    let requests = echo(&runtime, replies);
    let (done, finished) = std::sync::mpsc::channel();
    let first = requests.clone();
    runtime.spawn(async move {
        let mut seen = 0;
        while let Some(mut message) = reply.recv().await {
            assert!(lines_are(&message, seen as u8), "the reply is whole");
            seen += 1;
            if seen == trips {
                done.send(seen).expect("it is awaited");
                return;
            }
            write_lines(&mut message, seen as u8);
            requests.send(message).expect("the echo runs");
        }
    });
    let watch = Stopwatch::start();
    first.send(vec![0; size]).expect("the echo runs");
    let seen = finished.recv();
    watch.stop(trips, seen == Ok(trips))
}
