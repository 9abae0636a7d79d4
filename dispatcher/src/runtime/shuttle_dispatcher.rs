//! Model checks of the dispatcher on its real pool: random schedules of posters, pool threads, cancels, inline calls,
//! foreign wakes and shutdowns, each with every lock and atomic of the crate as a switching point.
//!
//! Everything of the pool and the runtime is the real code; the reactor is a stand-in (`event_loop/modelled.rs`), and
//! crossbeam's deque and async-task are real but run without switching points inside. Each model runs
//! `SHUTTLE_ITERATIONS` schedules (default 2,000) by each of two strategies: random, and PCT of depth 3. What it checks
//! at the end of each: the counters add up, nothing is pending, callbacks never overlapped, each accepted one ended
//! once, and the observers ran once and last. A lost wake-up shows as a deadlock.

use std::collections::HashMap;
use std::time::Duration;

use super::callback_queue::{Callback, Invoke, Kind, Outcome, Stage};
use super::flavour::Flavour;
use super::inline::Origin;
use super::{Dispatcher, DispatcherBuilder, Driver, Runtime, RuntimeBuilder};
use crate::executor::JoinHandle;
use crate::status::Canceled;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, thread};
use crate::time::Instant;

fn iterations() -> usize {
    std::env::var("SHUTTLE_ITERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

pub(super) fn explore(model: fn()) {
    shuttle::check_random(model, iterations());
    shuttle::check_pct(model, iterations(), 3);
}

/// What a model saw.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) inside: AtomicUsize,
    pub(super) ended: Mutex<HashMap<&'static str, Result<(), Canceled>>>,
    pub(super) observers: Mutex<Vec<&'static str>>,
}

impl Seen {
    /// A callback of a synchronized dispatcher.
    pub(super) fn visit(&self, name: &'static str, outcome: Result<(), Canceled>) {
        assert_eq!(self.inside.fetch_add(1, Ordering::AcqRel), 0, "two callbacks at once");
        self.end(name, outcome);
    }

    /// A callback that may run beside others.
    pub(super) fn visit_beside_others(&self, name: &'static str, outcome: Result<(), Canceled>) {
        self.inside.fetch_add(1, Ordering::AcqRel);
        self.end(name, outcome);
    }

    fn end(&self, name: &'static str, outcome: Result<(), Canceled>) {
        thread::yield_now();
        assert!(self.observers.lock().is_empty(), "{name} after an observer");
        assert!(self.ended.lock().insert(name, outcome).is_none(), "{name} ended twice");
        self.inside.fetch_sub(1, Ordering::AcqRel);
    }
}

pub(super) fn set_up(threads: usize) -> (Runtime, Driver, Dispatcher, Arc<Seen>) {
    let runtime = RuntimeBuilder::new().threads(threads).build().expect("a model has threads");
    let driver = runtime.new_driver("driver");
    let seen = Arc::new(Seen::default());
    let observed = Arc::clone(&seen);
    let builder = DispatcherBuilder::new().shutdown_observer(move || observed.observers.lock().push("dispatcher"));
    let dispatcher = driver.new_dispatcher(builder).expect("created");
    (runtime, driver, dispatcher, seen)
}

/// Shuts down, and checks what must hold however it went.
pub(super) fn conclude(runtime: &Runtime, seen: &Seen, accepted: &[&'static str]) {
    runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
    let counters = runtime.counters();
    assert!(counters.add_up(), "{counters:?}");
    assert_eq!(counters.pending, 0);
    let ended = seen.ended.lock();
    for name in accepted {
        assert!(ended.contains_key(name), "{name} was accepted and never told");
    }
    assert_eq!(*seen.observers.lock(), ["dispatcher"]);
}

/// A post races with shutdown: refused, run or told, and nothing in between.
#[test]
fn shuttle_a_post_that_races_with_shutdown_is_refused_run_or_told() {
    explore(|| {
        let (runtime, _driver, dispatcher, seen) = set_up(2);
        let (handle, by_poster) = (dispatcher.handle(), Arc::clone(&seen));
        let poster = thread::spawn("poster", move || {
            ["first", "second"]
                .into_iter()
                .filter(|name| {
                    let (name, seen) = (*name, Arc::clone(&by_poster));
                    handle.post_task(move |outcome| seen.visit(name, outcome)).is_ok()
                })
                .collect::<Vec<_>>()
        })
        .expect("a thread");
        let by_main = Arc::clone(&seen);
        dispatcher.post_task(move |outcome| by_main.visit("main", outcome)).expect("it runs");
        dispatcher.shutdown_async();
        let mut accepted = poster.join().expect("it ends");
        accepted.push("main");
        conclude(&runtime, &seen, &accepted);
        assert_eq!(seen.ended.lock().len(), accepted.len());
    });
}

/// A cancel races with the run and with shutdown: the winner owns the callback.
#[test]
fn shuttle_a_cancel_that_races_with_run_and_shutdown_has_one_winner() {
    explore(|| {
        let (runtime, _driver, dispatcher, seen) = set_up(1);
        let visited = Arc::clone(&seen);
        let task = dispatcher.post_cancelable(move |outcome| visited.visit("task", outcome)).expect("it runs");
        let twin = task.clone();
        let canceler = thread::spawn("canceler", move || twin.cancel().is_ok()).expect("a thread");
        dispatcher.shutdown_async();
        let here = task.cancel().is_ok();
        let there = canceler.join().expect("it ends");
        assert!(!(here && there), "both cancels won");
        conclude(&runtime, &seen, &[]);
        let told = seen.ended.lock().contains_key("task");
        assert_eq!(told, !(here || there), "told and taken back exclude each other, and one of them happens");
    });
}

/// A callback that is told an outcome.
pub(super) struct Event {
    seen: Arc<Seen>,
    name: &'static str,
    beside_others: bool,
}

impl Event {
    fn new(seen: &Arc<Seen>, name: &'static str) -> Self {
        Event { seen: Arc::clone(seen), name, beside_others: false }
    }

    /// Of an unsynchronized dispatcher.
    pub(super) fn beside_others(seen: &Arc<Seen>, name: &'static str) -> Self {
        Event { beside_others: true, ..Event::new(seen, name) }
    }
}

impl Invoke for Event {
    fn invoke(self, outcome: Outcome) {
        let outcome = outcome.into_result().map(|_| ()).map_err(|_| Canceled);
        match self.beside_others {
            true => self.seen.visit_beside_others(self.name, outcome),
            false => self.seen.visit(self.name, outcome),
        }
    }
}

/// An inline call from another driver's callback, a queued task, and shutdown meet at one synchronized dispatcher.
#[test]
fn shuttle_an_inline_call_a_queued_task_and_shutdown_never_overlap() {
    explore(|| {
        let (runtime, _driver, dispatcher, seen) = set_up(2);
        let caller = runtime.new_driver("caller").new_dispatcher(DispatcherBuilder::new()).expect("created");
        let inner = Arc::clone(dispatcher.inner());
        let callback = Callback::new(Event::new(&seen, "message"));
        let location = crate::site::Site::caller();
        let accepted =
            inner.accept_armed(Stage::Reading, Kind::Read, Flavour::REGULAR, Instant::INFINITE, location, || callback);
        let id = accepted.unwrap_or_else(|_| panic!("it runs"));
        let target = Arc::clone(&inner);
        caller
            .post_task(move |outcome| {
                if outcome.is_ok() {
                    target.complete(id, Outcome::Done(0), Origin::Message);
                }
            })
            .expect("it runs");
        let visited = Arc::clone(&seen);
        dispatcher.post_task(move |outcome| visited.visit("task", outcome)).expect("it runs");
        dispatcher.shutdown_async();
        conclude(&runtime, &seen, &["message", "task"]);
    });
}

/// A timer that fires races with its cancel and with shutdown.
#[test]
fn shuttle_a_timer_that_fires_races_with_cancel_and_shutdown() {
    explore(|| {
        let (runtime, _driver, dispatcher, seen) = set_up(1);
        let visited = Arc::clone(&seen);
        let timer = dispatcher
            .post_after(Duration::from_secs(1), move |outcome| visited.visit("timer", outcome))
            .expect("it runs");
        let pool = Arc::clone(runtime.inner().default_pool());
        let firing = thread::spawn("firing", move || pool.reactor().fire_all()).expect("a thread");
        let taken_back = timer.cancel().is_ok();
        dispatcher.shutdown_async();
        firing.join().expect("it ends");
        conclude(&runtime, &seen, &[]);
        assert_eq!(seen.ended.lock().contains_key("timer"), !taken_back);
    });
}

/// A future is woken from a foreign thread while its dispatcher shuts down; it is dropped before the observer.
#[test]
fn shuttle_a_foreign_wake_that_races_with_shutdown_leaves_no_future_behind() {
    struct Held(Arc<Seen>);
    impl Drop for Held {
        fn drop(&mut self) {
            self.0.visit("dropped", Err(Canceled));
        }
    }
    explore(|| {
        let (runtime, _driver, dispatcher, seen) = set_up(1);
        let held = Held(Arc::clone(&seen));
        let waker = Arc::new(Mutex::new(None::<std::task::Waker>));
        let shared = Arc::clone(&waker);
        let mut polls = 0;
        let future = std::future::poll_fn(move |cx| {
            let _held = &held;
            polls += 1;
            *shared.lock() = Some(cx.waker().clone());
            if polls < 3 { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
        });
        let join: JoinHandle<()> = dispatcher.spawn(future).expect("it runs");
        let waking = thread::spawn("waking", move || {
            for _ in 0..2 {
                let waker = waker.lock().clone();
                if let Some(waker) = waker {
                    waker.wake();
                }
                thread::yield_now();
            }
        })
        .expect("a thread");
        dispatcher.shutdown_async();
        waking.join().expect("it ends");
        conclude(&runtime, &seen, &["dropped"]);
        drop(join);
    });
}

/// The driver's observer runs after the observers of both its dispatchers, whichever thread ends last.
#[test]
fn shuttle_the_driver_observer_is_last() {
    explore(|| {
        let (runtime, driver, _dispatcher, seen) = set_up(2);
        let observed = Arc::clone(&seen);
        let builder = DispatcherBuilder::new().shutdown_observer(move || observed.observers.lock().push("dispatcher"));
        let _second = driver.new_dispatcher(builder).expect("created");
        let observed = Arc::clone(&seen);
        driver.shutdown(move || observed.observers.lock().push("driver")).expect("the first");
        runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
        assert_eq!(*seen.observers.lock(), ["dispatcher", "dispatcher", "driver"]);
    });
}

/// Work on a lane races with its cancel and with shutdown: run, canceled or taken back, once.
#[test]
fn shuttle_offloaded_work_ends_once_whatever_races() {
    explore(|| {
        let (runtime, _driver, dispatcher, seen) = set_up(1);
        let visited = Arc::clone(&seen);
        let ran = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&ran);
        let work = dispatcher
            .offload(
                crate::event_loop::Lane::Fast,
                move |_| {
                    counting.fetch_add(1, Ordering::AcqRel);
                },
                move |outcome| visited.visit("done", outcome.map_err(|_| Canceled)),
            )
            .expect("it runs");
        let canceler = thread::spawn("canceler", move || work.cancel().is_ok()).expect("a thread");
        dispatcher.shutdown_async();
        let taken_back = canceler.join().expect("it ends");
        conclude(&runtime, &seen, &[]);
        let done = seen.ended.lock().get("done").copied();
        assert_eq!(done.is_some(), !taken_back);
        if done == Some(Ok(())) {
            assert_eq!(ran.load(Ordering::Acquire), 1);
        }
        if done == Some(Err(Canceled)) {
            assert_eq!(ran.load(Ordering::Acquire), 0, "canceled work ran");
        }
    });
}
