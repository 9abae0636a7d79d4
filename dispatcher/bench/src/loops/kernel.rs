//! The kernel alone: two threads, each of which waits in a read of an event counter that the other one writes. No loop on
//! two threads can answer faster, as each answer is one such wake-up.

use std::thread;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use crate::sample::{Sample, Stopwatch};

fn counter() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).expect("the kernel gives an event counter")
}

fn wait(on: &OwnedFd) -> u64 {
    let mut bytes = [0; 8];
    let count = rustix::io::read(on, &mut bytes).expect("the counter can be read");
    assert_eq!(count, 8);
    u64::from_ne_bytes(bytes)
}

fn signal(to: &OwnedFd) {
    rustix::io::write(to, &1u64.to_ne_bytes()).expect("the counter has room");
}

pub(crate) fn ping_pong(trips: u64) -> Sample {
    let (ping, pong) = (counter(), counter());
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..trips {
                wait(&ping);
                signal(&pong);
            }
        });
        let watch = Stopwatch::start();
        let mut seen = 0;
        for _ in 0..trips {
            signal(&ping);
            seen += wait(&pong);
        }
        watch.stop(trips, seen == trips)
    })
}
