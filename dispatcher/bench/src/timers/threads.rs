//! A component with a thread of its own, which waits at its channel with a deadline.

use std::thread;
use std::time::Instant;

use crossbeam_channel::{RecvTimeoutError, unbounded};

use super::{SHORT, lateness, shorts};
use crate::latency::Latencies;
use crate::sample::{Sample, Stopwatch};

pub(super) fn short() -> Vec<Sample> {
    let (_sender, receiver) = unbounded::<()>();
    let watch = Stopwatch::start();
    let waiting = thread::spawn(move || {
        let mut late = Latencies::default();
        for _ in 0..shorts() {
            let due = Instant::now() + SHORT;
            assert_eq!(receiver.recv_deadline(due), Err(RecvTimeoutError::Timeout), "nothing is ever sent");
            late.add(due.elapsed());
        }
        late
    });
    let late = waiting.join().expect("it does not panic");
    lateness(late, &watch, true)
}
