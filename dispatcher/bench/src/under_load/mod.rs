//! A pool of 2 on which one dispatcher floods and one blocks, and a thousand light ones want their turns.

mod light;
mod turns;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::gate::{Gate, leak};
use crate::latency::Latencies;
use crate::peers::{AsyncExecutor, Desync, Fuchsine, Message, Peer, TokioMessages};
use crate::sample::{Sample, Stopwatch};
use crate::workload::{Workload, by, scaled};
use light::Light;

const LIGHT: u64 = 1_000;
/// Each light one posts so often, so far apart.
const POSTS: u64 = 200;
const EVERY: Duration = Duration::from_millis(10);
/// How long the blocking one blocks at a time.
const BLOCKED: Duration = Duration::from_millis(50);

/// Whether whoever blocks says so, in the way of its runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blocking {
    Declared,
    Undeclared,
}

/// What all of one run share.
#[derive(Debug)]
struct Load {
    posts: u64,
    /// How long each of the light ones took, once it has ended.
    late: Mutex<Latencies>,
    left: AtomicUsize,
    all_ended: Gate,
    /// The others stop at their next turn.
    over: AtomicBool,
}

impl Load {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// One of the light ones has ended.
    fn end(&self, late: Latencies) {
        self.late.lock().expect("nobody panics with it").append(late);
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.all_ended.open();
        }
    }
}

/// Posts itself again and again.
struct Flood<P: Peer> {
    queue: P::Queue<Flood<P>>,
    load: &'static Load,
}

impl<P: Peer> Message for Flood<P> {
    fn run(self) {
        if !self.load.is_over() {
            let queue = self.queue.clone();
            P::post(&queue, self);
        }
    }
}

/// Blocks, and posts itself again.
struct Block<P: Light> {
    queue: P::Queue<Block<P>>,
    load: &'static Load,
    how: Blocking,
}

impl<P: Light> Message for Block<P> {
    fn run(self) {
        P::block(self.how, || thread::sleep(BLOCKED));
        if !self.load.is_over() {
            let queue = self.queue.clone();
            P::post(&queue, self);
        }
    }
}

/// How long posts of the light ones take until they run.
fn latency<P: Light>(how: Blocking) -> Vec<Sample> {
    let peer = P::start(2);
    let (light, posts) = (scaled(LIGHT), scaled(POSTS));
    let load: &Load = leak(Load {
        posts,
        late: Mutex::default(),
        left: AtomicUsize::new(light as usize),
        all_ended: Gate::default(),
        over: AtomicBool::new(false),
    });
    let watch = Stopwatch::start();
    let flood = peer.queue::<Flood<P>>();
    P::post(&flood, Flood { queue: flood.clone(), load });
    let block = peer.blocking_queue(how);
    P::post(&block, Block { queue: block.clone(), load, how });
    for nth in 0..light {
        // All at different times of their period.
        peer.light(EVERY.mul_f64(nth as f64 / light as f64), load);
    }
    let ended = load.all_ended.pass();
    let took = watch.took();
    load.over.store(true, Ordering::Relaxed);
    let late = std::mem::take(&mut *load.late.lock().expect("nobody panics with it"));
    let ok = late.len() as u64 == light * posts && ended && peer.stop();
    late.quantiles(took, &[("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)], ok)
}

/// The workloads and who does them.
pub(crate) fn workloads() -> Vec<Workload> {
    vec![
        Workload::new(
            "W12",
            "pool of 2, one dispatcher floods, one blocks 50 ms at a time without saying so, 1,000 post each 10 ms: from \
             post to run",
            by!(P: Peer in [Fuchsine, TokioMessages] => latency::<P>(Blocking::Undeclared)),
        ),
        Workload::new(
            "W12-declared",
            "the same, and the one that blocks says so (allow_sync_calls, block_in_place)",
            by!(P: Peer in [Fuchsine, TokioMessages] => latency::<P>(Blocking::Declared)),
        ),
        Workload::new(
            "W12-turns",
            "pool of 1, eight dispatchers flood: how many callbacks of one run before those of another do",
            by!(P: Peer in [Fuchsine, TokioMessages, AsyncExecutor, Desync] => turns::lengths::<P>()),
        ),
    ]
}
