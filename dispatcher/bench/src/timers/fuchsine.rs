//! Ours: delayed tasks of a dispatcher.

use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use fuchsine_dispatcher::{DispatcherBuilder, DispatcherHandle};

use super::{Due, FAR, SHORT, armings, lateness, shorts};
use crate::gate::leak;
use crate::latency::Latencies;
use crate::peers::{Fuchsine, Peer};
use crate::sample::{Sample, Stopwatch};

/// A pool of 2 and a dispatcher.
fn started() -> (Fuchsine, DispatcherHandle) {
    let fuchsine = <Fuchsine as Peer>::start(2);
    let dispatcher = fuchsine.dispatcher(DispatcherBuilder::new());
    (fuchsine, dispatcher)
}

pub(super) fn arm_and_cancel() -> Vec<Sample> {
    let (fuchsine, dispatcher) = started();
    let (done, finished) = channel();
    let armings = armings();
    let own = dispatcher.clone();
    let body = move |_| {
        let watch = Stopwatch::start();
        let mut given_back = 0;
        for _ in 0..armings {
            let timer = own.post_after(FAR, |_| unreachable!("it is canceled")).expect("accepted");
            given_back += u64::from(timer.cancel().is_ok());
        }
        done.send(watch.stop(armings, given_back == armings)).expect("it is awaited");
    };
    dispatcher.post_task(body).expect("accepted");
    let sample = finished.recv().expect("it ends");
    vec![sample.if_also(fuchsine.stop())]
}

pub(super) fn many_due() -> Vec<Sample> {
    let (fuchsine, dispatcher) = started();
    let due: &Due = leak(Due::new());
    let watch = Stopwatch::start();
    let start = dispatcher.now();
    for nth in 0..due.many {
        let armed = dispatcher.post_at(start + due.after(nth), move |_| due.fire(nth));
        assert!(armed.is_ok(), "accepted");
    }
    let samples = due.finish(watch);
    let right = fuchsine.stop();
    samples.into_iter().map(|sample| sample.if_also(right)).collect()
}

fn arm(own: DispatcherHandle, mut late: Box<Latencies>, done: Sender<Box<Latencies>>) {
    let due = Instant::now() + SHORT;
    let handle = own.clone();
    let timer = handle.post_after(SHORT, move |_| {
        late.add(due.elapsed());
        if late.len() == shorts() { done.send(late).expect("it is awaited") } else { arm(own, late, done) }
    });
    assert!(timer.is_ok(), "accepted");
}

pub(super) fn short() -> Vec<Sample> {
    let (fuchsine, dispatcher) = started();
    let (done, finished) = channel();
    let watch = Stopwatch::start();
    let own = dispatcher.clone();
    dispatcher.post_task(move |_| arm(own, Box::default(), done)).expect("accepted");
    let late = finished.recv().expect("it ends");
    let samples = lateness(*late, &watch, true);
    let right = fuchsine.stop();
    samples.into_iter().map(|sample| sample.if_also(right)).collect()
}
