//! What Fuchsine's event loops do with many things at once: batches of posts, work and timers that are taken back, whole
//! loops that come and go.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use fuchsine_dispatcher::event_loop::{EventLoop, Lane, LoopHandle, LoopManager, WorkError};

use super::counts::{self, POSTS};
use super::fuchsine::{Done, many_timers, two_loops};
use crate::random::Random;
use crate::sample::{Sample, Stopwatch};

/// What posted callbacks count. Written by one loop only; a reference count a post would cost more than the post.
static SEEN: AtomicU64 = AtomicU64::new(0);

fn see() {
    SEEN.store(SEEN.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

fn seen() -> u64 {
    SEEN.load(Ordering::Relaxed)
}

/// The callbacks are those of any thread, so what they share on the loop is kept by it.
pub(super) fn post_batches(event_loop: &EventLoop, done: Done) {
    thread_local! { static DONE: RefCell<Option<Done>> = const { RefCell::new(None) } }
    fn batch(event_loop: &EventLoop, handle: LoopHandle, left: u64) {
        if left == 0 {
            let done = DONE.take().expect("it was put there");
            return done.end(event_loop, seen(), true);
        }
        (1..POSTS).for_each(|_| handle.async_run(|_| see()).expect("the loop runs"));
        let next = handle.clone();
        let last = move |event_loop: &EventLoop| {
            see();
            batch(event_loop, next, left - 1);
        };
        handle.async_run(last).expect("the loop runs");
    }
    DONE.set(Some(done));
    batch(event_loop, event_loop.handle(), counts::post_batches());
}

pub(super) fn posts_from_outside() -> Sample {
    let running = LoopManager::builder().loops(1).handle_signals(false).build().and_then(LoopManager::spawn);
    let running = running.expect("the loop runs");
    let there = running.handle().event_loop(0).expect("there is one");
    let (done, finished) = channel();
    let watch = Stopwatch::start();
    (0..counts::outside_posts()).for_each(|_| there.async_run(|_| see()).expect("the loop runs"));
    there.async_run(move |_| done.send(()).expect("it is awaited")).expect("the loop runs");
    let ended = finished.recv().is_ok();
    let sample = watch.stop(counts::outside_posts(), ended && seen() == counts::outside_posts());
    running.handle().shutdown();
    running.join();
    sample
}

pub(super) fn cancel_work(event_loop: &EventLoop, done: Done) {
    let ((entered, is_entered), (go, goes)) = (channel(), channel::<()>());
    let hold = move || {
        entered.send(()).expect("it is awaited");
        // Sent or dropped: both let it go on.
        let _ = goes.recv();
    };
    event_loop.work(Lane::Fast, hold, |_, _| {}).expect("the loop runs");
    is_entered.recv().expect("the worker begins");
    let told = Rc::new(Cell::new(0));
    let mut items = Vec::with_capacity(counts::canceled_items() as usize);
    done.begin();
    let mut go = Some(go);
    for nth in 1..=counts::canceled_items() {
        let (told, done) = (Rc::clone(&told), done.clone());
        let go = go.take_if(|_| nth == counts::canceled_items());
        let is_told = move |event_loop: &EventLoop, result: Result<(), WorkError>| {
            told.set(told.get() + u64::from(result == Err(WorkError::Canceled)));
            if nth == counts::canceled_items() {
                drop(go);
                done.end(event_loop, told.get(), true);
            }
        };
        items.push(event_loop.work(Lane::Fast, || (), is_told).expect("the loop runs"));
    }
    for item in items {
        assert!(item.cancel(), "the worker is busy");
    }
}

/// Numbers below `count`, each once, in no order.
pub(super) fn scrambled(count: u64) -> Vec<u64> {
    let (mut numbers, mut random): (Vec<u64>, _) = ((0..count).collect(), Random::new());
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, (random.next() % (last as u64 + 1)) as usize);
    }
    numbers
}

pub(super) fn remove_timers(event_loop: &EventLoop, done: Done) {
    let timers = many_timers(event_loop, |_| unreachable!("it is never due"));
    for (nth, timer) in timers.iter().enumerate() {
        timer.once(Duration::from_millis(1_000_000 + nth as u64)).expect("the loop runs");
    }
    let order = scrambled(counts::timers());
    let mut stopped = 0;
    done.begin();
    for nth in order {
        stopped += u64::from(timers[nth as usize].stop());
    }
    done.end(event_loop, stopped, true);
}

pub(super) fn lives() -> Sample {
    let mut answers = 0;
    let watch = Stopwatch::start();
    for _ in 0..counts::lives() {
        let (running, one, other) = two_loops();
        let (answer, answered) = channel();
        for event_loop in [one, other] {
            let answer = answer.clone();
            event_loop.async_run(move |_| answer.send(1).expect("it is awaited")).expect("the loop runs");
        }
        answers += answered.recv().expect("it answers") + answered.recv().expect("it answers");
        running.handle().shutdown();
        running.join();
    }
    watch.stop(counts::lives(), answers == 2 * counts::lives())
}
