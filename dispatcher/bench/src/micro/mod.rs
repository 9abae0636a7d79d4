//! The microbenchmarks of Fuchsia's driver runtime, under their names, as far as they mean something here.
//!
//! Upstream times each step of a run; here a run is timed as a whole, by CPU and by wall, over many of them. The page about
//! benches lists what is left out, and why.

mod arena;
mod dispatcher;
mod message;
mod round_trip;

use crate::channels::one_way::{self, Reader, Reads};
use crate::sample::{Sample, Stopwatch};
use crate::workload::{Run, Workload, scaled};

/// How often something short is done, and something that takes threads or much memory.
const SHORT: u64 = 100_000;
const LONG: u64 = 2_000;

/// One of ours alone.
fn ours(name: impl Into<String>, description: impl Into<String>, measure: impl Fn() -> Sample + 'static) -> Workload {
    Workload::new(name, description, vec![Run::new("fuchsine", move || vec![measure()])])
}

/// Does `run` so often, a tenth of that before the time counts; it says whether all went well.
fn repeat(runs: u64, mut run: impl FnMut() -> bool) -> Sample {
    let runs = scaled(runs);
    let mut ok = (0..runs / 10).all(|_| run());
    let watch = Stopwatch::start();
    for _ in 0..runs {
        ok &= run();
    }
    watch.stop(runs, ok)
}

/// One way, a message a callback; a run is a message.
fn one_way() -> Vec<Workload> {
    let readers = [
        ("Inline_Synchronized", Reader::Synchronized, "inline"),
        ("AllowSyncCalls", Reader::AllowSyncCalls, "by a hop"),
        ("Inline_Unsynchronized", Reader::Unsynchronized, "inline, unsynchronized"),
    ];
    let mut all = Vec::new();
    for (name, reader, how) in readers {
        for burst in [1, 1_024] {
            for size in [64, 65_536] {
                let name = format!("OneWay_{name}_{burst}_{size}bytes");
                let what = format!("a message of {size} bytes one way, {how}, {burst} at once");
                // To make many large ones takes longer than to send them.
                let bursts = if burst == 1 { LONG } else { LONG / if size == 64 { 100 } else { 400 } };
                all.push(ours(name, what, move || one_way::bursts(reader, Reads::Anew, burst, scaled(bursts), size)));
            }
        }
    }
    all
}

/// The workloads.
pub(crate) fn workloads() -> Vec<Workload> {
    [arena::workloads(), message::workloads(), dispatcher::workloads(), round_trip::workloads(), one_way()].concat()
}
