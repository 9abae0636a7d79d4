//! Model checks of the inbox: posters that wait for the lock, others that find the inbox open, the thread that runs what
//! they post, and whoever else takes the lock meanwhile.
//!
//! What is real and what is modelled is said in `shuttle_dispatcher.rs`. That the inbox is opened at all is checked over
//! all schedules of a model together: most have no poster that waits.

use std::sync::atomic::{AtomicUsize as Unmodelled, Ordering::Relaxed};
use std::time::Duration;

use super::RuntimeBuilder;
use super::shuttle_dispatcher::{Seen, conclude, explore, set_up};
use super::{DispatcherBuilder, DispatcherHandle};
use crate::sync::{Arc, Mutex, thread};

/// In how many schedules of a model an inbox was made.
struct Opened(Unmodelled);

impl Opened {
    const fn never() -> Self {
        Opened(Unmodelled::new(0))
    }

    fn note(&self, dispatcher: &DispatcherHandle) {
        self.0.fetch_add(usize::from(dispatcher.inner().inbox().is_some()), Relaxed);
    }

    fn explore(&self, model: fn()) {
        explore(model);
        assert_ne!(self.0.load(Relaxed), 0, "no schedule has opened an inbox");
    }
}

type Order = Arc<Mutex<Vec<(usize, usize)>>>;

/// Posts `count` callbacks that write down who posted them, with one that can be taken back in their midst.
fn post(handle: &DispatcherHandle, who: usize, count: usize, order: &Order) {
    for number in 0..count {
        let order = Arc::clone(order);
        let task = move |_| order.lock().push((who, number));
        match number == 1 {
            true => drop(handle.post_cancelable(task).expect("it runs")),
            false => handle.post_task(task).expect("it runs"),
        }
    }
}

/// Two threads post three callbacks each, and one of the dispatcher's own posts two: each runs, in the order of its poster,
/// and the counters add up at every moment.
#[test]
fn shuttle_what_several_threads_post_runs_in_the_order_of_each() {
    static OPENED: Opened = Opened::never();
    OPENED.explore(|| {
        let runtime = RuntimeBuilder::new().threads(1).build().expect("a model has threads");
        let dispatcher = runtime.new_driver("driver").new_dispatcher(DispatcherBuilder::new()).expect("created");
        let order = Order::default();
        let (own, own_order) = (dispatcher.handle(), Arc::clone(&order));
        dispatcher.post_task(move |_| post(&own, 0, 2, &own_order)).expect("it runs");
        let posters: Vec<_> = [1, 2]
            .into_iter()
            .map(|who| {
                let (handle, order) = (dispatcher.handle(), Arc::clone(&order));
                thread::spawn("poster", move || post(&handle, who, 3, &order)).expect("a thread")
            })
            .collect();
        assert!(dispatcher.counters().add_up());
        for poster in posters {
            poster.join().expect("it ends");
        }
        let counters = dispatcher.counters();
        assert!(counters.add_up() && (7..=9).contains(&counters.accepted), "{counters:?}");
        dispatcher.wait_until_idle(Duration::MAX).expect("it becomes idle");
        OPENED.note(&dispatcher);
        for who in 0..3 {
            let numbers: Vec<_> = order.lock().iter().filter(|ran| ran.0 == who).map(|ran| ran.1).collect();
            assert_eq!(numbers, (0..if who == 0 { 2 } else { 3 }).collect::<Vec<_>>());
        }
        assert_eq!(dispatcher.counters().ran, 9);
        runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
    });
}

/// Two threads post while a third shuts down: what was accepted is told, what comes later is refused, and whoever was
/// refused once is refused from then on.
#[test]
fn shuttle_a_shutdown_beside_several_posters_is_one_moment() {
    static OPENED: Opened = Opened::never();
    OPENED.explore(|| {
        let (runtime, _driver, dispatcher, seen) = set_up(1);
        let post = |name: &'static str, handle: &DispatcherHandle, seen: &Arc<Seen>| {
            let seen = Arc::clone(seen);
            handle.post_task(move |outcome| seen.visit(name, outcome)).is_ok()
        };
        let posters: Vec<_> = [["a", "b", "c"], ["d", "e", "f"]]
            .into_iter()
            .map(|names| {
                let (handle, seen) = (dispatcher.handle(), Arc::clone(&seen));
                let poster = move || {
                    let accepted: Vec<_> = names.into_iter().map(|name| (name, post(name, &handle, &seen))).collect();
                    assert!(accepted.is_sorted_by_key(|(_, accepted)| !accepted), "accepted after a refusal");
                    accepted.into_iter().filter_map(|(name, accepted)| accepted.then_some(name)).collect::<Vec<_>>()
                };
                thread::spawn("poster", poster).expect("a thread")
            })
            .collect();
        thread::yield_now();
        dispatcher.shutdown_async();
        assert!(!post("late", &dispatcher, &seen), "the shutdown has begun");
        OPENED.note(&dispatcher);
        let accepted: Vec<_> = posters.into_iter().flat_map(|poster| poster.join().expect("it ends")).collect();
        conclude(&runtime, &seen, &accepted);
        assert_eq!(seen.ended.lock().len(), accepted.len());
    });
}

/// Two threads post while a third suspends and resumes the driver: nothing is lost, and each poster's order is kept.
#[test]
fn shuttle_what_is_posted_beside_a_suspend_runs_after_the_resume_in_its_order() {
    static OPENED: Opened = Opened::never();
    OPENED.explore(|| {
        let runtime = RuntimeBuilder::new().threads(1).build().expect("a model has threads");
        let driver = runtime.new_driver("driver");
        let dispatcher = driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
        let order = Order::default();
        let posters: Vec<_> = [0, 1]
            .into_iter()
            .map(|who| {
                let (handle, order) = (dispatcher.handle(), Arc::clone(&order));
                thread::spawn("poster", move || post(&handle, who, 3, &order)).expect("a thread")
            })
            .collect();
        driver.suspend(|_| ()).expect("it runs");
        assert!(driver.resume());
        for poster in posters {
            poster.join().expect("it ends");
        }
        dispatcher.wait_until_idle(Duration::MAX).expect("it becomes idle");
        OPENED.note(&dispatcher);
        for who in 0..2 {
            let numbers: Vec<_> = order.lock().iter().filter(|ran| ran.0 == who).map(|ran| ran.1).collect();
            assert_eq!(numbers, [0, 1, 2]);
        }
        runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
    });
}
