//! How long an idle pool takes to run what an outside thread posts.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::calm;
use crate::gate::{Gate, leak};
use crate::latency::Latencies;
use crate::peers::{Message, Peer};
use crate::sample::{Sample, Stopwatch};
use crate::workload::scaled;

const POSTS: u64 = 1_000;
const EVERY: Duration = Duration::from_millis(1);

struct Seen {
    late: Mutex<Latencies>,
    posts: usize,
    done: Gate,
}

struct Stamp {
    seen: &'static Seen,
    posted: Instant,
}

impl Message for Stamp {
    fn run(self) {
        let late = self.posted.elapsed();
        let mut all = self.seen.late.lock().expect("nobody panics with it");
        all.add(late);
        if all.len() == self.seen.posts {
            self.seen.done.open();
        }
    }
}

pub(crate) fn each_millisecond<P: Peer>() -> Vec<Sample> {
    let peer = P::start(2);
    let queue = peer.queue::<Stamp>();
    calm();
    let posts = scaled(POSTS).max(20) as usize;
    let seen = leak(Seen { late: Mutex::new(Latencies::with_capacity(posts)), posts, done: Gate::default() });
    let watch = Stopwatch::start();
    let mut next = Instant::now();
    for _ in 0..posts {
        next += EVERY;
        thread::sleep(next.saturating_duration_since(Instant::now()));
        P::post(&queue, Stamp { seen, posted: Instant::now() });
    }
    let ended = seen.done.pass();
    let took = watch.took();
    drop(queue);
    let ok = peer.stop() && ended;
    let late = std::mem::take(&mut *seen.late.lock().expect("nobody panics with it"));
    late.quantiles(took, &[("p50", 0.5), ("p99", 0.99)], ok)
}
