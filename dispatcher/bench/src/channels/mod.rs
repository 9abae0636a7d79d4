//! Messages by channel between components. Payloads are written by who sends them and read by who gets them, one byte a
//! cache line: what goes nowhere costs nothing, and would prove nothing.

pub(crate) mod fuchsine;
pub(crate) mod one_way;
mod tokio;

use std::hint::black_box;

use crate::sample::{Sample, Stopwatch};
use crate::workload::{Run, Workload, scaled};

/// The sizes of a payload.
const SMALL: usize = 64;
const LARGE: usize = 64 * 1024;
/// How far cache lines are apart.
const LINE: usize = 64;
/// Round trips on one thread, and across threads.
const TRIPS: u64 = 1_000_000;
const CROSSINGS: u64 = 200_000;

/// Round trips of so large a payload; to touch a large one takes longer than its trip, so fewer are enough.
fn trips(all: u64, size: usize) -> u64 {
    scaled(if size > SMALL { all / 5 } else { all })
}

/// Writes one byte of each cache line.
fn write_lines(bytes: &mut [u8], stamp: u8) {
    bytes.iter_mut().step_by(LINE).for_each(|byte| *byte = stamp);
}

/// Reads one byte of each cache line, and says whether all are right.
fn lines_are(bytes: &[u8], stamp: u8) -> bool {
    bytes.iter().step_by(LINE).fold(0, |wrong, byte| wrong | (byte ^ stamp)) == 0
}

/// What the same writing and reading takes without anybody to send it to: the request is written, read on both sides.
fn touching(size: usize) -> Sample {
    let trips = trips(TRIPS, size);
    let mut bytes = vec![0; size];
    let mut ok = true;
    let watch = Stopwatch::start();
    for nth in 0..trips {
        write_lines(black_box(&mut bytes), nth as u8);
        ok &= lines_are(black_box(&bytes), nth as u8);
        ok &= lines_are(black_box(&bytes), nth as u8);
    }
    watch.stop(trips, ok).named("touching alone")
}

/// The workloads and who does them.
pub(crate) fn workloads() -> Vec<Workload> {
    let mut all = vec![
        Workload::new(
            "C1",
            "round trip of 64 B by channel between two idle drivers, inline (tokio: on one thread)",
            vec![
                Run::new("fuchsine", || {
                    vec![
                        fuchsine::round_trips(SMALL, false),
                        fuchsine::standing_round_trips(SMALL),
                        fuchsine::handed_round_trips(SMALL),
                        touching(SMALL),
                    ]
                }),
                Run::new("tokio-msg", || vec![tokio::round_trips(1, TRIPS, SMALL)]),
            ],
        ),
        Workload::new(
            "C1-64k",
            "the same with 64 KiB, one byte a cache line written and read",
            vec![
                Run::new("fuchsine", || vec![fuchsine::round_trips(LARGE, false), touching(LARGE)]),
                Run::new("tokio-msg", || vec![tokio::round_trips(1, TRIPS, LARGE)]),
            ],
        ),
        Workload::new(
            "C2",
            "round trip of 64 B by channel with a server that allows sync calls: a hop each way",
            vec![
                Run::new("fuchsine", || vec![fuchsine::round_trips(SMALL, true)]),
                Run::new("tokio-msg", || vec![tokio::round_trips(2, CROSSINGS, SMALL)]),
            ],
        ),
    ];
    all.extend(one_way::workloads());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_that_is_wrong_is_seen() {
        let mut bytes = vec![0; 10 * LINE + 1];
        write_lines(&mut bytes, 7);
        assert!(lines_are(&bytes, 7) && !lines_are(&bytes, 6));
        for line in 0..=10 {
            bytes[line * LINE] ^= 1;
            assert!(!lines_are(&bytes, 7), "line {line}");
            bytes[line * LINE] ^= 1;
        }
    }
}
