//! Ours: offloaded from a dispatcher, done there.

use std::sync::atomic::{AtomicU64, Ordering};

use fuchsine_dispatcher::{DispatcherBuilder, DispatcherHandle, Lane, OffloadError};

use super::{Plan, work};
use crate::gate::{Gate, leak};
use crate::peers::{Fuchsine, Peer};
use crate::sample::{Sample, Stopwatch};

/// Touched by the callbacks of one synchronized dispatcher, by plain reads and writes: two at once would lose counts.
struct Flights {
    origin: DispatcherHandle,
    calls: u64,
    sent: AtomicU64,
    back: AtomicU64,
    sum: AtomicU64,
    done: Gate,
}

fn send(flights: &'static Flights) {
    let nth = flights.sent.load(Ordering::Relaxed);
    if nth == flights.calls {
        return;
    }
    flights.sent.store(nth + 1, Ordering::Relaxed);
    let landed = move |result: Result<u64, OffloadError>| {
        let back = flights.back.load(Ordering::Relaxed) + 1;
        flights.back.store(back, Ordering::Relaxed);
        flights.sum.store(flights.sum.load(Ordering::Relaxed) + result.unwrap_or(0), Ordering::Relaxed);
        if back == flights.calls { flights.done.open() } else { send(flights) }
    };
    flights.origin.offload(Lane::Fast, move |_| work(nth), landed).expect("accepted");
}

pub(super) fn calls(plan: Plan) -> Sample {
    let fuchsine = <Fuchsine as Peer>::start(2);
    let origin = fuchsine.dispatcher(DispatcherBuilder::new());
    let [sent, back, sum] = Default::default();
    let flights: &Flights = leak(Flights { origin, calls: plan.calls, sent, back, sum, done: Gate::default() });
    let watch = Stopwatch::start();
    let start = move |_| (0..plan.flights).for_each(|_| send(flights));
    flights.origin.post_task(start).expect("accepted");
    let ended = flights.done.pass();
    let sample = watch.stop(plan.calls, ended && flights.sum.load(Ordering::Relaxed) == plan.sum());
    sample.if_also(fuchsine.stop())
}
