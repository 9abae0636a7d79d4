//! Posts to one queue, as fast as producers can.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::calm;
use crate::gate::{Gate, leak};
use crate::peers::{Message, Peer};
use crate::sample::{Sample, Stopwatch};
use crate::workload::scaled;

const POSTS: u64 = 2_000_000;

/// What a serial queue counts by plain reads and writes: two callbacks at once would lose counts.
struct Tally {
    left: AtomicU64,
    /// What is expected next of each producer.
    next: Vec<AtomicU64>,
    out_of_order: AtomicU64,
    done: Gate,
}

impl Tally {
    fn of(producers: u64, each: u64) -> &'static Tally {
        leak(Tally {
            left: AtomicU64::new(producers * each),
            next: (0..producers).map(|_| AtomicU64::new(0)).collect(),
            out_of_order: AtomicU64::new(0),
            done: Gate::default(),
        })
    }

    fn is_right(&self, each: u64) -> bool {
        let all_came = self.next.iter().all(|next| next.load(Ordering::Relaxed) == each);
        all_came && self.out_of_order.load(Ordering::Relaxed) == 0
    }
}

struct Count {
    tally: &'static Tally,
    producer: u32,
    nth: u32,
}

impl Message for Count {
    fn run(self) {
        let Count { tally, producer, nth } = self;
        let next = &tally.next[producer as usize];
        if next.load(Ordering::Relaxed) != u64::from(nth) {
            tally.out_of_order.store(1, Ordering::Relaxed);
        }
        next.store(u64::from(nth) + 1, Ordering::Relaxed);
        let left = tally.left.load(Ordering::Relaxed) - 1;
        tally.left.store(left, Ordering::Relaxed);
        if left == 0 {
            tally.done.open();
        }
    }
}

fn produce<P: Peer>(queue: &P::Queue<Count>, tally: &'static Tally, producer: u64, posts: u64) {
    for nth in 0..posts {
        P::post(queue, Count { tally, producer: producer as u32, nth: nth as u32 });
    }
}

/// By so many threads that are none of the pool's.
pub(crate) fn from_outside<P: Peer>(producers: u64) -> Sample {
    let peer = P::start(2);
    let queue = peer.queue::<Count>();
    calm();
    let each = scaled(POSTS) / producers;
    let warm = Tally::of(1, each / 20 + 1);
    produce::<P>(&queue, warm, 0, each / 20 + 1);
    let warmed = warm.done.pass();
    let tally = Tally::of(producers, each);
    let watch = Stopwatch::start();
    thread::scope(|scope| {
        for producer in 1..producers {
            let queue = queue.clone();
            scope.spawn(move || produce::<P>(&queue, tally, producer, each));
        }
        produce::<P>(&queue, tally, 0, each);
    });
    let ended = tally.done.pass();
    let sample = watch.stop(each * producers, warmed && ended && tally.is_right(each));
    drop(queue);
    sample.if_also(peer.stop())
}

/// By two threads of the pool, one of which then also runs what is posted.
pub(crate) fn from_the_pool<P: Peer>() -> Vec<Sample> {
    let peer = P::start(2);
    let queue = peer.queue::<Count>();
    calm();
    let each = scaled(POSTS) / 2;
    let tally = Tally::of(2, each);
    let watch = Stopwatch::start();
    for producer in 0..2 {
        let queue = queue.clone();
        peer.aside(move || produce::<P>(&queue, tally, producer, each));
    }
    let ended = tally.done.pass();
    let sample = watch.stop(each * 2, ended && tally.is_right(each));
    drop(queue);
    vec![sample.if_also(peer.stop())]
}
