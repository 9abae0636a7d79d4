//! What tokio's single-threaded runtime does with many things at once, as `bulk` has it for our loops.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc::unbounded_channel;
use tokio::task::{spawn_blocking, yield_now};
use tokio::time::sleep;

use super::bulk::scrambled;
use super::counts::{self, POSTS};
use super::tokio_loop::{arm, runtime};
use crate::sample::{Sample, Stopwatch};

pub(super) async fn message_batches() -> Sample {
    let (sender, mut receiver) = unbounded_channel();
    let watch = Stopwatch::start();
    let mut seen = 0;
    for _ in 0..counts::post_batches() {
        (0..POSTS).for_each(|_| sender.send(1).expect("the receiver is here"));
        // A turn of the runtime for each batch, as the others take.
        yield_now().await;
        for _ in 0..POSTS {
            seen += receiver.recv().await.expect("the sender is here");
        }
    }
    watch.stop(POSTS * counts::post_batches(), seen == POSTS * counts::post_batches())
}

pub(super) fn messages_from_outside() -> Sample {
    let (sender, mut receiver) = unbounded_channel::<u64>();
    let (done, finished) = channel();
    let thread = thread::spawn(move || {
        runtime().block_on(async {
            let mut seen = 0;
            while seen < counts::outside_posts() {
                seen += receiver.recv().await.expect("all are sent");
            }
            done.send(seen).expect("it is awaited");
        });
    });
    let watch = Stopwatch::start();
    (0..counts::outside_posts()).for_each(|_| sender.send(1).expect("the other thread runs"));
    let seen = finished.recv().expect("all are seen");
    let sample = watch.stop(counts::outside_posts(), seen == counts::outside_posts());
    thread.join().expect("the other thread ends");
    sample
}

pub(super) async fn cancel_work() -> Sample {
    let ((entered, is_entered), (go, goes)) = (channel(), channel::<()>());
    let holding = spawn_blocking(move || {
        entered.send(()).expect("it is awaited");
        // Sent or dropped: both let it go on.
        let _ = goes.recv();
    });
    is_entered.recv().expect("the worker begins");
    let watch = Stopwatch::start();
    let items: Vec<_> = (0..counts::canceled_items()).map(|_| spawn_blocking(|| ())).collect();
    items.iter().for_each(tokio::task::JoinHandle::abort);
    // It is the worker that finds what was aborted.
    drop(go);
    let mut told = 0;
    for item in items {
        told += u64::from(item.await.is_err_and(|error| error.is_cancelled()));
    }
    let sample = watch.stop(counts::canceled_items(), told == counts::canceled_items());
    holding.await.expect("it does not panic");
    sample
}

pub(super) async fn remove_timers() -> Sample {
    let mut timers: Vec<_> =
        (0..counts::timers()).map(|nth| Some(Box::pin(sleep(Duration::from_millis(1_000_000 + nth))))).collect();
    timers.iter_mut().flatten().for_each(|timer| arm(timer.as_mut()));
    let order = scrambled(counts::timers());
    let watch = Stopwatch::start();
    for nth in order {
        drop(timers[nth as usize].take());
    }
    watch.stop(counts::timers(), timers.iter().all(Option::is_none))
}

pub(super) fn lives() -> Sample {
    let mut answers = 0;
    let watch = Stopwatch::start();
    for _ in 0..counts::lives() {
        let (answer, answered) = channel();
        let loops = [answer.clone(), answer].map(|answer| {
            let (sender, mut receiver) = unbounded_channel::<()>();
            let thread = thread::spawn(move || {
                runtime().block_on(async {
                    while receiver.recv().await.is_some() {
                        answer.send(1).expect("it is awaited");
                    }
                });
            });
            sender.send(()).expect("the thread runs");
            (sender, thread)
        });
        answers += answered.recv().expect("it answers") + answered.recv().expect("it answers");
        for (sender, thread) in loops {
            drop(sender);
            thread.join().expect("it ends");
        }
    }
    watch.stop(counts::lives(), answers == 2 * counts::lives())
}
