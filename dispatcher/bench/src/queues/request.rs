//! Requests and replies by posts. Each side fills a buffer of its own, and gives it away with the message.

use std::sync::atomic::{AtomicU64, Ordering};

use super::calm;
use crate::gate::{Gate, leak};
use crate::peers::{AsyncExecutor, Crossbeam, Desync, Fuchsine, Message, Peer, TokioMessages};
use crate::sample::{Sample, Stopwatch};
use crate::workload::{Workload, by, scaled};

const TRIPS: u64 = 100_000;
/// Of large buffers fewer are enough: filling them is most of the time.
const LARGE: usize = 32 * 1024;

/// The workload for one size, which its name and description say in their ways.
fn of(name: &str, size: &str, bytes: usize) -> Workload {
    let runs = by!(P: Peer in [Fuchsine, TokioMessages, AsyncExecutor, Crossbeam, Desync] => vec![trips::<P>(bytes)]);
    Workload::new(name, format!("request and reply of {size} by posts: both buffers filled and moved, pool of 2"), runs)
}

/// The workloads and who does them.
pub(super) fn workloads() -> [Workload; 3] {
    [of("W5-64", "64 B", 64), of("W5-4k", "4 KiB", 4_096), of("W5-64k", "64 KiB", 65_536)]
}

struct Pair<P: Peer> {
    client: P::Queue<Parcel<P>>,
    server: P::Queue<Parcel<P>>,
    size: usize,
    wrong: AtomicU64,
    done: Gate,
}

struct Parcel<P: Peer> {
    pair: &'static Pair<P>,
    left: u32,
    is_reply: bool,
    bytes: Box<[u8]>,
}

impl<P: Peer> Message for Parcel<P> {
    fn run(self) {
        let Parcel { pair, left, is_reply, bytes } = self;
        if !is_reply {
            let reply = bytes.clone();
            P::post(&pair.client, Parcel { pair, left, is_reply: true, bytes: reply });
            return;
        }
        let (first, last) = (bytes.first(), bytes.last());
        if bytes.len() != pair.size || first != Some(&(left as u8)) || first != last {
            pair.wrong.fetch_add(1, Ordering::Relaxed);
        }
        drop(bytes);
        match left.checked_sub(1) {
            Some(left) => ask(pair, left),
            None => pair.done.open(),
        }
    }
}

fn ask<P: Peer>(pair: &'static Pair<P>, left: u32) {
    let bytes = vec![left as u8; pair.size].into_boxed_slice();
    P::post(&pair.server, Parcel { pair, left, is_reply: false, bytes });
}

fn trips<P: Peer>(size: usize) -> Sample {
    let peer = P::start(2);
    let (client, server) = (peer.queue(), peer.queue());
    let pair = leak(Pair::<P> { client, server, size, wrong: AtomicU64::new(0), done: Gate::default() });
    calm();
    let trips = scaled(if size < LARGE { TRIPS } else { TRIPS / 4 });
    let watch = Stopwatch::start();
    ask(pair, trips as u32 - 1);
    let ended = pair.done.pass();
    let sample = watch.stop(trips, ended && pair.wrong.load(Ordering::Relaxed) == 0);
    sample.if_also(peer.stop())
}
