//! The end of a pool on one of whose queues very much is pending.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::calm;
use crate::gate::{Gate, leak};
use crate::peers::{Message, Peer};
use crate::sample::{Sample, Stopwatch};
use crate::workload::scaled;

const PENDING: u64 = 1_000_000;
/// So often, and so many times, it is looked whether the last one has ended.
const LOOK: Duration = Duration::from_millis(1);
const LOOKS: u32 = 5_000;

#[derive(Default)]
struct Ends {
    entered: Gate,
    go: Gate,
    ran: AtomicU64,
    told: AtomicU64,
    dropped: AtomicU64,
}

impl Ends {
    fn all(&self) -> u64 {
        [&self.ran, &self.told, &self.dropped].iter().map(|ends| ends.load(Ordering::Acquire)).sum()
    }
}

enum Pending {
    /// Keeps the queue until all is posted.
    Holds(&'static Ends),
    One(Guard),
}

/// Ends in one way: it runs, or it is told, or it is dropped unrun.
struct Guard {
    ends: &'static Ends,
    ended: bool,
}

impl Guard {
    fn end(mut self, how: &AtomicU64) {
        self.ended = true;
        // Only one thread at a time, and whoever looks waits for it.
        how.store(how.load(Ordering::Relaxed) + 1, Ordering::Release);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.ended {
            let dropped = &self.ends.dropped;
            dropped.store(dropped.load(Ordering::Relaxed) + 1, Ordering::Release);
        }
    }
}

impl Message for Pending {
    fn run(self) {
        match self {
            Pending::Holds(ends) => {
                ends.entered.open();
                ends.go.pass();
            }
            Pending::One(guard) => {
                let ends = guard.ends;
                guard.end(&ends.ran);
            }
        }
    }

    fn canceled(self) {
        if let Pending::One(guard) = self {
            let ends = guard.ends;
            guard.end(&ends.told);
        }
    }
}

pub(crate) fn stopped<P: Peer>() -> Sample {
    let peer = P::start(2);
    let queue = peer.queue::<Pending>();
    calm();
    let ends: &Ends = leak(Ends::default());
    let many = scaled(PENDING);
    P::post(&queue, Pending::Holds(ends));
    let entered = ends.entered.pass();
    for _ in 0..many {
        P::post(&queue, Pending::One(Guard { ends, ended: false }));
    }
    let watch = Stopwatch::start();
    peer.close();
    ends.go.open();
    drop(queue);
    let stopped = peer.stop();
    let mut looks = 0;
    while ends.all() < many && looks < LOOKS {
        thread::sleep(LOOK);
        looks += 1;
    }
    let all_ended = ends.all() == many;
    let told = ends.told.load(Ordering::Acquire);
    // Who tells at all tells all.
    watch.stop(many, entered && stopped && all_ended && (told == 0 || told == many))
}
