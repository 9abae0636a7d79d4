//! Model checks of waiting until something is at rest or gone, and of the order of the last observers.
//!
//! What is real and what is modelled is said in `shuttle_dispatcher.rs`, whose helpers these models use. Waits have no
//! deadline in a model, so a notification that is lost shows as a deadlock.

use std::time::Duration;

use super::shuttle_dispatcher::{conclude, explore, set_up};
use super::{DispatcherBuilder, DispatcherHandle, RuntimeBuilder};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, thread};

/// A thread waits while another posts, one callback runs and one is taken back: the wait ends, and not before what was
/// posted first has ended.
#[test]
fn shuttle_a_wait_for_idle_ends_however_the_last_callback_ends() {
    explore(|| {
        let (runtime, _driver, dispatcher, seen) = set_up(1);
        let visited = Arc::clone(&seen);
        dispatcher.post_task(move |outcome| visited.visit("first", outcome)).expect("it runs");
        let poster = dispatcher.handle();
        let visited = Arc::clone(&seen);
        let canceler = thread::spawn("canceler", move || {
            let second = poster.post_cancelable(move |outcome| visited.visit("second", outcome)).expect("it runs");
            second.cancel().is_ok()
        })
        .expect("a thread");
        dispatcher.wait_until_idle(Duration::MAX).expect("it becomes idle");
        assert!(seen.ended.lock().contains_key("first"), "idle before it ran");
        let taken_back = canceler.join().expect("it ends");
        dispatcher.wait_until_idle(Duration::MAX).expect("it becomes idle");
        assert_eq!(seen.ended.lock().contains_key("second"), !taken_back);
        conclude(&runtime, &seen, &["first"]);
    });
}

/// Work goes back and forth between two dispatchers while a thread waits for the runtime: it is idle when all of it is
/// done, not when each of the two has been idle at some time, nor at two times. Between the two stand others, so that the
/// thread is on its way from one to the other for about as long as the work is.
#[test]
fn shuttle_a_runtime_is_idle_when_all_are_at_one_moment() {
    const HOPS: usize = 24;
    const BETWEEN: usize = 8;
    fn hop(from: DispatcherHandle, to: DispatcherHandle, left: usize, hops: Arc<AtomicUsize>) {
        let here = from.clone();
        let task = move |_| {
            hops.fetch_add(1, Ordering::AcqRel);
            if left > 1 {
                hop(to, from, left - 1, hops);
            }
        };
        here.post_task(task).expect("it runs");
    }
    explore(|| {
        let (runtime, driver, first, seen) = set_up(1);
        let create = || driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
        let _others: Vec<_> = (0..BETWEEN).map(|_| create()).collect();
        let second = create();
        let _others: Vec<_> = (0..BETWEEN).map(|_| create()).collect();
        let hops = Arc::new(AtomicUsize::new(0));
        hop(first.handle(), second.handle(), HOPS, Arc::clone(&hops));
        runtime.wait_until_idle(Duration::MAX).expect("it becomes idle");
        assert_eq!(hops.load(Ordering::Acquire), HOPS, "work was under way");
        conclude(&runtime, &seen, &[]);
    });
}

/// Two dispatchers of a driver end on two threads, one of them by itself, while the driver is shut down: its observer is
/// last, and those that wait for the driver see all three gone.
#[test]
fn shuttle_the_observer_of_a_driver_comes_after_those_of_its_dispatchers_on_any_threads() {
    explore(|| {
        let runtime = RuntimeBuilder::new().threads(2).build().expect("a model has threads");
        let driver = runtime.new_driver("driver");
        let returned = Arc::new(Mutex::new(Vec::new()));
        let all: Vec<_> = ["first", "second"]
            .map(|name| {
                let returned = Arc::clone(&returned);
                let builder = DispatcherBuilder::new().shutdown_observer(move || {
                    thread::yield_now();
                    returned.lock().push(name);
                });
                driver.new_dispatcher(builder).expect("created").release()
            })
            .into();
        let (waits, seen) = (driver.clone(), Arc::clone(&returned));
        let waiter = thread::spawn("waiter", move || {
            waits.wait_until_destroyed(Duration::MAX).expect("it ends");
            // The driver's own may be missing: the dispatchers may have gone before its shutdown began. None is half done.
            let observers = seen.lock().len();
            assert!(observers >= 2, "{observers} of the observers have returned");
        })
        .expect("a thread");
        all[0].shutdown_async();
        let last = Arc::clone(&returned);
        driver.shutdown(move || last.lock().push("driver")).expect("it begins");
        driver.wait_until_destroyed(Duration::MAX).expect("it ends");
        let returned = returned.lock().clone();
        assert_eq!((returned.len(), returned.last()), (3, Some(&"driver")), "{returned:?}");
        waiter.join().expect("it ends");
        runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
    });
}

/// All drivers are shut down while one of them begins by itself and another thread waits: all return, and a driver that
/// comes after is as good as new.
#[test]
fn shuttle_drivers_that_are_shut_down_leave_the_runtime_as_it_was() {
    explore(|| {
        let (runtime, driver, _dispatcher, seen) = set_up(1);
        let beside = thread::spawn("beside", move || drop(driver.shutdown(|| ()))).expect("a thread");
        runtime.shutdown_drivers(Duration::MAX).expect("all end");
        assert_eq!(*seen.observers.lock(), ["dispatcher"]);
        beside.join().expect("it ends");
        let next = runtime.new_driver("next").new_dispatcher(DispatcherBuilder::new()).expect("created");
        let ran = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&ran);
        next.post_task(move |outcome| counts.store(usize::from(outcome.is_ok()), Ordering::Release)).expect("it runs");
        next.wait_until_idle(Duration::MAX).expect("it becomes idle");
        assert_eq!(ran.load(Ordering::Acquire), 1);
        conclude(&runtime, &seen, &[]);
    });
}
