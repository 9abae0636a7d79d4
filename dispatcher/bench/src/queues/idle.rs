//! Queues that do nothing: what they take of memory, and of time to be made.

use std::thread;
use std::time::Duration;

use super::calm;
use crate::gate::{Gate, leak};
use crate::machine::resident_bytes;
use crate::peers::{Message, Peer};
use crate::sample::{Sample, Stopwatch, Unit};
use crate::workload::scaled;

/// For tasks and threads to have their first turn, after which they wait.
const FIRST_TURNS: Duration = Duration::from_millis(500);

struct Knock(&'static Gate);

impl Message for Knock {
    fn run(self) {
        self.0.open();
    }
}

pub(crate) fn many<P: Peer>() -> Vec<Sample> {
    let peer = P::start(2);
    let first = peer.queue::<Knock>();
    calm();
    let many = scaled(P::MANY);
    // Written before memory is looked at, so that the list itself does not count.
    let mut all = vec![first; many as usize];
    let before = resident_bytes();
    let watch = Stopwatch::start();
    all.iter_mut().for_each(|place| *place = peer.queue());
    let took = watch.took();
    thread::sleep(FIRST_TURNS);
    let taken = resident_bytes().saturating_sub(before);
    let gate = leak(Gate::default());
    P::post(&all[many as usize - 1], Knock(gate));
    let mut ok = gate.pass();
    drop(all);
    ok &= peer.stop();
    vec![Sample::of("memory", Unit::Bytes, taken as f64 / many as f64, many, ok), took.each(many, ok).named("creation")]
}
