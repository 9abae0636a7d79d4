//! tokio's single-threaded runtime as an event loop: what comes closest to each workload. A task that yields is a job,
//! a message is a post, `spawn_blocking` is work, a `sleep` is a timer.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::{LocalSet, spawn_blocking, spawn_local, yield_now};
use tokio::time::{Instant, Sleep, sleep};

use super::Doing;
use super::counts::{self, BATCH, IN_FLIGHT};
use super::tokio_bulk;
use crate::random::Random;
use crate::sample::{Sample, Stopwatch};

pub(crate) fn measure(doing: Doing) -> Sample {
    match doing {
        Doing::JobChain => run(yields(counts::hops())),
        Doing::JobBatch => run(tasks()),
        Doing::AsyncSelf => run(self_messages()),
        Doing::PingPong => ping_pong(),
        Doing::AsyncBurst => burst(),
        Doing::WorkOne => run(blocking(counts::work_one(), 1)),
        Doing::WorkMany => run(blocking(counts::work_many(), IN_FLIGHT)),
        Doing::TimerArmCancel => run(arm_and_cancel()),
        Doing::TimerMove => run(move_among_many()),
        Doing::TimersDue => run(many_due()),
        Doing::AsyncBatch => run(tokio_bulk::message_batches()),
        Doing::PostsFromOutside => tokio_bulk::messages_from_outside(),
        Doing::WorkCancel => run(tokio_bulk::cancel_work()),
        Doing::TimerRemove => run(tokio_bulk::remove_timers()),
        Doing::Life => tokio_bulk::lives(),
        Doing::PauseResume => unreachable!("tokio has nothing alike"),
    }
}

pub(super) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().max_blocking_threads(1).build().expect("the system has resources")
}

fn run(body: impl Future<Output = Sample>) -> Sample {
    LocalSet::new().block_on(&runtime(), body)
}

async fn yields(count: u64) -> Sample {
    let watch = Stopwatch::start();
    let mut seen = 0;
    for _ in 0..count {
        yield_now().await;
        seen += 1;
    }
    watch.stop(count, seen == count)
}

async fn tasks() -> Sample {
    let watch = Stopwatch::start();
    let mut seen = 0;
    for _ in 0..counts::batches() {
        let batch: Vec<_> = (0..BATCH).map(|_| spawn_local(async { 1 })).collect();
        for task in batch {
            seen += task.await.expect("it does not panic");
        }
    }
    watch.stop(BATCH * counts::batches(), seen == BATCH * counts::batches())
}

async fn self_messages() -> Sample {
    let (sender, mut receiver) = unbounded_channel();
    let watch = Stopwatch::start();
    sender.send(1).expect("the receiver is here");
    let mut seen = 0;
    while seen < counts::hops() {
        seen += receiver.recv().await.expect("the sender is here");
        sender.send(1).expect("the receiver is here");
        // A turn of the runtime for each, as the others take.
        yield_now().await;
    }
    watch.stop(counts::hops(), seen == counts::hops())
}

/// A runtime on a thread of its own, which sends each number on.
fn relay(to: UnboundedSender<u64>) -> (UnboundedSender<u64>, thread::JoinHandle<()>) {
    let (sender, mut receiver) = unbounded_channel();
    let thread = thread::spawn(move || {
        runtime().block_on(async {
            while let Some(number) = receiver.recv().await {
                if to.send(number).is_err() {
                    return;
                }
            }
        });
    });
    (sender, thread)
}

fn ping_pong() -> Sample {
    let (back, mut answers) = unbounded_channel();
    let (there, thread) = relay(back);
    let sample = run(async move {
        let watch = Stopwatch::start();
        let mut seen = 0;
        for _ in 0..counts::crossings() {
            there.send(1).expect("the other thread runs");
            seen += answers.recv().await.expect("the other thread answers");
        }
        watch.stop(counts::crossings(), seen == counts::crossings())
    });
    thread.join().expect("the other thread ends");
    sample
}

fn burst() -> Sample {
    let (sender, mut receiver) = unbounded_channel::<u64>();
    let (done, finished) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        runtime().block_on(async {
            let mut seen = 0;
            while seen < counts::burst() {
                seen += receiver.recv().await.expect("all are sent");
            }
            done.send(seen).expect("it is awaited");
        });
    });
    let sample = run(async move {
        let watch = Stopwatch::start();
        for _ in 0..counts::burst() {
            sender.send(1).expect("the other thread runs");
        }
        let seen = finished.recv().expect("all are seen");
        watch.stop(counts::burst(), seen == counts::burst())
    });
    thread.join().expect("the other thread ends");
    sample
}

async fn blocking(count: u64, flights: u64) -> Sample {
    let watch = Stopwatch::start();
    let each = move |nth: u64| count / flights + u64::from(nth < count % flights);
    let lines: Vec<_> = (0..flights)
        .map(|nth| {
            spawn_local(async move {
                let mut seen = 0;
                for _ in 0..each(nth) {
                    seen += spawn_blocking(|| 1).await.expect("it does not panic");
                }
                seen
            })
        })
        .collect();
    let mut seen = 0;
    for line in lines {
        seen += line.await.expect("it does not panic");
    }
    watch.stop(count, seen == count)
}

/// Arms a timer: tokio does that when it is polled for the first time.
pub(super) fn arm(sleep: std::pin::Pin<&mut Sleep>) {
    let pending = sleep.poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(pending, Poll::Pending);
}

async fn arm_and_cancel() -> Sample {
    let watch = Stopwatch::start();
    for nth in 0..counts::armings() {
        let mut timer = pin!(sleep(Duration::from_millis(1_000_000 + nth)));
        arm(timer.as_mut());
    }
    watch.stop(counts::armings(), true)
}

async fn move_among_many() -> Sample {
    let mut timers: Vec<_> =
        (0..counts::timers()).map(|nth| Box::pin(sleep(Duration::from_millis(1_000_000 + nth)))).collect();
    timers.iter_mut().for_each(|timer| arm(timer.as_mut()));
    let mut random = Random::new();
    let watch = Stopwatch::start();
    for _ in 0..counts::moves() {
        let number = random.next();
        let timer = &mut timers[(number % counts::timers()) as usize];
        timer.as_mut().reset(Instant::now() + Duration::from_millis(1_000_000 + number % 1_000_000));
    }
    watch.stop(counts::moves(), true)
}

async fn many_due() -> Sample {
    let mut random = Random::new();
    let watch = Stopwatch::start();
    let timers: Vec<_> = (0..counts::timers())
        .map(|_| {
            let after = Duration::from_millis(random.next() % 1_000);
            spawn_local(async move {
                sleep(after).await;
                1
            })
        })
        .collect();
    let mut seen = 0;
    for timer in timers {
        seen += timer.await.expect("it does not panic");
    }
    watch.stop(counts::timers(), seen == counts::timers())
}
