//! Model checks of suspend and resume against posts, turns, inline calls and shutdown.
//!
//! What is real and what is modelled is said in `shuttle_dispatcher.rs`.

use std::time::Duration;

use super::flavour::Flavour;
use super::shuttle_dispatcher::{Seen, conclude, explore, set_up};
use super::{Driver, Runtime};
use crate::runtime::callback_queue::{Callback, Kind, Outcome, Stage, WithOutcome};
use crate::status::Canceled;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex, thread};
use crate::time::Instant;

/// What the completers of a model were told.
type Told = Arc<Mutex<Vec<Result<(), Canceled>>>>;

fn suspend(driver: &Driver, told: &Told) {
    let told = Arc::clone(told);
    driver.suspend(move |outcome| told.lock().push(outcome)).expect("one at a time, before the shutdown");
}

/// A post, a suspend with its resume, and a shutdown: the task ends once, and the completer is told once, before the
/// end of the driver.
#[test]
fn shuttle_a_post_a_suspend_a_resume_and_a_shutdown_end_everything_once() {
    explore(|| {
        let (runtime, driver, dispatcher, seen): (_, _, _, Arc<Seen>) = set_up(1);
        let told = Told::default();
        let suspended = driver.clone();
        let by_completer = Arc::clone(&told);
        let power = thread::spawn("power", move || {
            let completer = move |outcome| by_completer.lock().push(outcome);
            let is_begun = suspended.suspend(completer).is_ok();
            suspended.resume();
            is_begun
        })
        .expect("a thread");
        let visited = Arc::clone(&seen);
        dispatcher.post_task(move |outcome| visited.visit("task", outcome)).expect("it runs");
        let at_the_end = Arc::clone(&told);
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        driver
            .shutdown(move || drop(counted.fetch_add(1 + at_the_end.lock().len(), Ordering::AcqRel)))
            .expect("the first");
        let is_begun = power.join().expect("it ends");
        conclude(&runtime, &seen, &["task"]);
        assert_eq!(told.lock().len(), usize::from(is_begun));
        assert_eq!(calls.load(Ordering::Acquire), 1 + usize::from(is_begun), "the driver's observer is the last");
    });
}

/// Once the completer has been told, nothing regular runs until the resume; then everything does.
#[test]
fn shuttle_nothing_regular_runs_between_the_completer_and_the_resume() {
    explore(|| {
        let (runtime, driver, dispatcher, seen): (_, _, _, Arc<Seen>) = set_up(1);
        let (ran, at_completion) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(None)));
        let (handle, count) = (dispatcher.handle(), Arc::clone(&ran));
        let poster = thread::spawn("poster", move || {
            for _ in 0..2 {
                let count = Arc::clone(&count);
                let task = move |_| {
                    thread::yield_now();
                    count.fetch_add(1, Ordering::AcqRel);
                };
                handle.post_task(task).expect("it is accepted");
            }
        })
        .expect("a thread");
        let (count, noted) = (Arc::clone(&ran), Arc::clone(&at_completion));
        let completer = move |outcome: Result<(), Canceled>| {
            outcome.expect("nobody resumes first");
            *noted.lock() = Some(count.load(Ordering::Acquire));
        };
        driver.suspend(completer).expect("it runs");
        poster.join().expect("it ends");
        // Something always-on after the completer: all that could run by then has.
        let flushed = Arc::new(AtomicUsize::new(0));
        while at_completion.lock().is_none() {
            thread::yield_now();
        }
        let done = Arc::clone(&flushed);
        let flush = move |_| {
            done.fetch_add(1, Ordering::AcqRel);
        };
        dispatcher.always_on().post_task(flush).expect("it is accepted");
        while flushed.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        assert_eq!(Some(ran.load(Ordering::Acquire)), *at_completion.lock());
        assert!(driver.resume());
        conclude(&runtime, &seen, &[]);
        assert_eq!(runtime.counters().ran + runtime.counters().canceled, 3);
    });
}

/// Two suspends in a row, with a callback that ends meanwhile: its report never counts for the wrong one.
#[test]
fn shuttle_each_suspend_is_told_of_its_own_end() {
    explore(|| {
        let (runtime, driver, dispatcher, seen): (_, _, _, Arc<Seen>) = set_up(2);
        let told = Told::default();
        let visited = Arc::clone(&seen);
        dispatcher.post_task(move |outcome| visited.visit("task", outcome)).expect("it runs");
        for _ in 0..2 {
            suspend(&driver, &told);
            driver.resume();
        }
        conclude(&runtime, &seen, &["task"]);
        // The driver's end has waited for both.
        assert_eq!(told.lock().len(), 2);
    });
}

/// A message that would run inline, from two threads of the pool's kind, against a suspend: it runs or is parked, once.
#[test]
fn shuttle_an_event_that_races_with_a_suspend_runs_or_is_parked() {
    explore(|| {
        let (runtime, driver, dispatcher, seen): (_, _, _, Arc<Seen>) = set_up(2);
        let visited = Arc::clone(&seen);
        arm(&runtime, &dispatcher, move |outcome| {
            visited.visit("event", if outcome == Outcome::Canceled { Err(Canceled) } else { Ok(()) });
        });
        let told = Told::default();
        suspend(&driver, &told);
        thread::yield_now();
        driver.resume();
        conclude(&runtime, &seen, &["event"]);
        assert_eq!(told.lock().len(), 1);
    });
}

/// Arms something on a dispatcher that comes to pass in a poll of its pool.
fn arm(runtime: &Runtime, on: &super::Dispatcher, callback: impl FnOnce(Outcome) + Send + 'static) {
    let location = crate::site::Site::caller();
    let make = || Callback::new(WithOutcome(callback));
    let inner = on.inner();
    let armed = inner.accept_armed(Stage::Waiting, Kind::Wait, Flavour::REGULAR, Instant::INFINITE, location, make);
    let id = armed.expect("the dispatcher runs");
    let reactor = runtime.inner().default_pool().reactor();
    let target = Arc::clone(inner) as Arc<dyn crate::event_loop::EventTarget>;
    let wait = reactor.arm_wait(target, id.as_key());
    let _ = inner.set_source(id, super::callback_queue::EventSource::Wait(wait));
    reactor.fire_all();
}

/// A runtime that shuts down while its driver is suspended ends.
#[test]
fn shuttle_a_runtime_with_a_suspended_driver_shuts_down() {
    explore(|| {
        let (runtime, driver, dispatcher, seen): (_, _, _, Arc<Seen>) = set_up(1);
        let told = Told::default();
        let visited = Arc::clone(&seen);
        suspend(&driver, &told);
        dispatcher.post_task(move |outcome| visited.visit("parked", outcome)).expect("it is accepted");
        runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
        conclude(&runtime, &seen, &["parked"]);
        assert_eq!((told.lock().len(), seen.ended.lock().get("parked").copied()), (1, Some(Err(Canceled))));
    });
}
