//! Fairness: how many callbacks of one queue run in a row while others have some too.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::gate::{Gate, leak};
use crate::latency::quantile;
use crate::peers::{Message, Peer};
use crate::sample::{Histogram, Sample, Unit};
use crate::workload::scaled;

const FLOODS: u32 = 8;
const CALLBACKS: u64 = 1_000_000;

/// Written by the one thread of the pool.
struct Turns {
    left: AtomicU64,
    current: AtomicU32,
    length: AtomicU64,
    lengths: Mutex<Vec<u64>>,
    done: Gate,
}

struct Flood<P: Peer> {
    queue: P::Queue<Flood<P>>,
    own: u32,
    turns: &'static Turns,
}

impl<P: Peer> Message for Flood<P> {
    fn run(self) {
        let turns = self.turns;
        if turns.current.load(Ordering::Relaxed) == self.own {
            turns.length.store(turns.length.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            turns.current.store(self.own, Ordering::Relaxed);
            let length = turns.length.swap(1, Ordering::Relaxed);
            if length > 0 {
                turns.lengths.lock().expect("nobody panics with it").push(length);
            }
        }
        let Some(left) = turns.left.load(Ordering::Relaxed).checked_sub(1) else { return };
        turns.left.store(left, Ordering::Relaxed);
        if left == 0 {
            turns.lengths.lock().expect("nobody panics with it").push(turns.length.load(Ordering::Relaxed));
            return turns.done.open();
        }
        let queue = self.queue.clone();
        P::post(&queue, self);
    }
}

pub(super) fn lengths<P: Peer>() -> Vec<Sample> {
    let peer = P::start(1);
    let callbacks = scaled(CALLBACKS);
    let turns: &Turns = leak(Turns {
        left: AtomicU64::new(callbacks),
        current: AtomicU32::new(u32::MAX),
        length: AtomicU64::new(0),
        lengths: Mutex::default(),
        done: Gate::default(),
    });
    let floods: Vec<_> = (0..FLOODS)
        .map(|own| {
            let queue = peer.queue::<Flood<P>>();
            (queue.clone(), Flood { queue, own, turns })
        })
        .collect();
    // On the one thread of the pool, so that all have something to do before any of them runs.
    peer.aside(move || floods.into_iter().for_each(|(queue, flood)| P::post(&queue, flood)));
    let ended = turns.done.pass();
    let ok = peer.stop() && ended;
    let mut lengths = std::mem::take(&mut *turns.lengths.lock().expect("nobody panics with it"));
    lengths.sort_unstable();
    let sample =
        |metric, part| Sample::of(metric, Unit::Callbacks, quantile(&lengths, part) as f64, lengths.len() as u64, ok);
    vec![Sample { histogram: histogram(&lengths), ..sample("median", 0.5) }, sample("longest", 1.0)]
}

fn histogram(sorted: &[u64]) -> Histogram {
    sorted.chunk_by(|one, other| one == other).map(|equal| (equal[0] as f64, equal.len() as u64)).collect()
}
