//! Many far timers, of which one is canceled and another armed, at random.

use std::pin::Pin;
use std::sync::mpsc::channel;
use std::task::{Context, Waker};
use std::time::Duration;

use fuchsine_dispatcher::{DispatcherBuilder, DispatcherHandle, TaskHandle};
use tokio::time::{Sleep, sleep};

use crate::peers::{Fuchsine, Peer, tokio_runtime};
use crate::random::Random;
use crate::sample::{Sample, Stopwatch};
use crate::workload::scaled;

const MOVES: u64 = 200_000;

/// Later than any run lasts, and each at another time.
fn far(number: u64) -> Duration {
    Duration::from_millis(1_000_000 + number % 1_000_000)
}

fn arm(dispatcher: &DispatcherHandle, number: u64) -> TaskHandle {
    dispatcher.post_after(far(number), |outcome| assert!(outcome.is_err(), "never due")).expect("accepted")
}

pub(super) fn fuchsine(timers: u64) -> Sample {
    let fuchsine = <Fuchsine as Peer>::start(2);
    let dispatcher = fuchsine.dispatcher(DispatcherBuilder::new());
    let (done, finished) = channel();
    let own = dispatcher.clone();
    let body = move |_| {
        let mut armed: Vec<_> = (0..scaled(timers)).map(|number| arm(&own, number)).collect();
        let (mut random, moves) = (Random::new(), scaled(MOVES));
        let mut taken_back = 0;
        let watch = Stopwatch::start();
        for _ in 0..moves {
            let number = random.next();
            let place = (number % armed.len() as u64) as usize;
            taken_back += u64::from(armed[place].cancel().is_ok());
            armed[place] = arm(&own, number);
        }
        done.send(watch.stop(moves, taken_back == moves)).expect("it is awaited");
    };
    dispatcher.post_task(body).expect("accepted");
    let sample = finished.recv().expect("it ends");
    sample.if_also(fuchsine.stop())
}

fn sleeping(number: u64) -> Pin<Box<Sleep>> {
    let mut timer = Box::pin(sleep(far(number)));
    let armed = timer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(armed.is_pending(), "never due");
    timer
}

pub(super) fn tokio(timers: u64) -> Sample {
    let runtime = tokio_runtime(2);
    let body = async move {
        let mut armed: Vec<_> = (0..scaled(timers)).map(sleeping).collect();
        let (mut random, moves) = (Random::new(), scaled(MOVES));
        let watch = Stopwatch::start();
        for _ in 0..moves {
            let number = random.next();
            let place = (number % armed.len() as u64) as usize;
            armed[place] = sleeping(number);
        }
        watch.stop(moves, true)
    };
    runtime.block_on(runtime.spawn(body)).expect("it does not panic")
}
