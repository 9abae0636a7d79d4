//! Tokens that go from queue to queue around a ring; a ring of one is a self-post, one of two a ping-pong.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::calm;
use crate::gate::{Gate, leak};
use crate::peers::{Message, Peer};
use crate::sample::{Sample, Stopwatch};
use crate::workload::scaled;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) threads: usize,
    pub(crate) queues: u32,
    pub(crate) tokens: u32,
    /// Hops of all tokens.
    pub(crate) hops: u64,
    /// So many of them are one operation.
    pub(crate) hops_an_op: u64,
}

pub(crate) const SELF_POST: Shape = Shape { threads: 2, queues: 1, tokens: 1, hops: 1_000_000, hops_an_op: 1 };
pub(crate) const PING_PONG_ON_ONE: Shape = Shape { threads: 1, queues: 2, tokens: 1, hops: 2_000_000, hops_an_op: 2 };
pub(crate) const PING_PONG_ON_TWO: Shape = Shape { threads: 2, queues: 2, tokens: 1, hops: 200_000, hops_an_op: 2 };

/// A ring of so many with up to a hundred tokens, pool of 2.
pub(crate) const fn of(queues: u32) -> Shape {
    let tokens = if queues < 100 { queues } else { 100 };
    Shape { threads: 2, queues, tokens, hops: 2_000_000, hops_an_op: 1 }
}

struct Ring<P: Peer> {
    stations: Vec<Station<P>>,
    tokens: AtomicU32,
    done: Gate,
}

struct Station<P: Peer> {
    queue: P::Queue<Hop<P>>,
    /// Counted by plain reads and writes: two callbacks of a queue at once would lose counts.
    seen: AtomicU64,
}

struct Hop<P: Peer> {
    ring: &'static Ring<P>,
    at: u32,
    left: u32,
}

impl<P: Peer> Message for Hop<P> {
    fn run(self) {
        let Hop { ring, at, left } = self;
        let seen = &ring.stations[at as usize].seen;
        seen.store(seen.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if left == 1 {
            if ring.tokens.fetch_sub(1, Ordering::AcqRel) == 1 {
                ring.done.open();
            }
            return;
        }
        let next = if at as usize + 1 == ring.stations.len() { 0 } else { at + 1 };
        P::post(&ring.stations[next as usize].queue, Hop { ring, at: next, left: left - 1 });
    }
}

pub(crate) fn round<P: Peer>(shape: Shape) -> Sample {
    let Shape { threads, queues, tokens, hops, hops_an_op } = shape;
    let peer = P::start(threads);
    let stations = (0..queues).map(|_| Station { queue: peer.queue(), seen: AtomicU64::new(0) }).collect();
    let ring = leak(Ring::<P> { stations, tokens: AtomicU32::new(tokens), done: Gate::default() });
    calm();
    let each = (scaled(hops) / u64::from(tokens)).max(1);
    let made = each * u64::from(tokens);
    let watch = Stopwatch::start();
    for token in 0..tokens {
        let at = (u64::from(token) * u64::from(queues) / u64::from(tokens)) as u32;
        P::post(&ring.stations[at as usize].queue, Hop { ring, at, left: each as u32 });
    }
    let ended = ring.done.pass();
    let took = watch.took();
    let seen: u64 = ring.stations.iter().map(|station| station.seen.load(Ordering::Relaxed)).sum();
    took.each(made / hops_an_op, ended && seen == made).if_also(peer.stop())
}
