//! Model checks of bound irqs: triggers, acknowledgements, unbinding and shutdown, from several threads at once.
//!
//! What is real and what is modelled is said in `shuttle_dispatcher.rs`. The line of an irq is modelled too: a counter
//! whose level is looked at when it is armed.

use std::time::Duration;

use super::flavour::SourceIdentity;
use super::irq::{IrqEvent, IrqHandle, Line, LineRefused};
use super::shuttle_dispatcher::{Seen, explore, set_up};
use super::{DispatcherBuilder, Runtime};
use crate::event_loop::{EventTarget, Reactor, WaitId};
use crate::runtime::DispatcherHandle;
use crate::site::Site;
use crate::status::Status;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, thread};

/// A line that a model triggers.
struct Counter {
    count: AtomicU64,
    runtime: Runtime,
}

impl Counter {
    fn trigger(&self) {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.runtime.inner().default_pool().reactor().fire_all();
    }
}

impl Line for Counter {
    fn arm(&self, reactor: &Reactor, target: Arc<dyn EventTarget>, key: u64) -> Result<WaitId, LineRefused> {
        let wait = reactor.arm_wait(target, key);
        if self.count.load(Ordering::Acquire) > 0 {
            reactor.fire_all();
        }
        Ok(wait)
    }

    fn take(&self) -> u64 {
        self.count.swap(0, Ordering::AcqRel)
    }

    fn identity(&self) -> Option<SourceIdentity> {
        None
    }

    fn release(&self) {}
}

/// What the handler of a model's irq was told.
#[derive(Default)]
struct Told {
    inside: AtomicUsize,
    overlaps: AtomicUsize,
    triggers: AtomicU64,
    canceled: AtomicUsize,
    is_unbound: AtomicBool,
    late: AtomicUsize,
}

impl Told {
    fn tell(&self, outcome: Result<IrqEvent<'_>, Status>) {
        self.overlaps.fetch_add(self.inside.fetch_add(1, Ordering::AcqRel), Ordering::AcqRel);
        self.late.fetch_add(usize::from(self.is_unbound.load(Ordering::Acquire)), Ordering::AcqRel);
        thread::yield_now();
        match outcome {
            Ok(event) => {
                self.triggers.fetch_add(event.count(), Ordering::AcqRel);
                event.ack();
            }
            Err(_) => drop(self.canceled.fetch_add(1, Ordering::AcqRel)),
        }
        self.inside.fetch_sub(1, Ordering::AcqRel);
    }

    fn check(&self) {
        assert_eq!(self.overlaps.load(Ordering::Acquire), 0, "two calls of one handler at once");
        assert_eq!(self.late.load(Ordering::Acquire), 0, "a call began after the end of the binding");
    }
}

fn bind(runtime: &Runtime, on: &DispatcherHandle) -> (Arc<Counter>, Arc<Told>, IrqHandle) {
    let line = Arc::new(Counter { count: AtomicU64::new(0), runtime: runtime.clone() });
    let told = Arc::new(Told::default());
    let seen = Arc::clone(&told);
    let handler = move |outcome: Result<IrqEvent<'_>, Status>| seen.tell(outcome);
    let bound = on.inner().bind_irq(Arc::clone(&line) as Arc<dyn Line>, handler, Site::caller());
    let Ok(handle) = bound else { panic!("the dispatcher runs") };
    (line, told, handle)
}

fn end(runtime: &Runtime) {
    runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
    let counters = runtime.counters();
    assert!(counters.add_up() && counters.pending == 0, "{counters:?}");
}

fn trigger_twice(line: &Arc<Counter>) -> thread::JoinHandle<()> {
    let line = Arc::clone(line);
    thread::spawn("device", move || {
        line.trigger();
        line.trigger();
    })
    .expect("a thread")
}

/// Triggers race with an unbinding and a shutdown: unbound or told of the end, one of the two; nothing afterwards.
#[test]
fn shuttle_an_irq_ends_once_and_is_not_called_afterwards() {
    explore(|| {
        let (runtime, _driver, dispatcher, _seen): (_, _, _, Arc<Seen>) = set_up(2);
        let (line, told, handle) = bind(&runtime, &dispatcher);
        let device = trigger_twice(&line);
        let ended = Arc::clone(&told);
        let unbinder = thread::spawn("unbinder", move || {
            let unbound = handle.unbind().ok()?;
            if !unbound.is_running() {
                ended.is_unbound.store(true, Ordering::Release);
            }
            Some(())
        })
        .expect("a thread");
        dispatcher.shutdown_async();
        let is_unbound = unbinder.join().expect("it ends").is_some();
        device.join().expect("it ends");
        end(&runtime);
        told.check();
        assert_eq!(told.canceled.load(Ordering::Acquire), usize::from(!is_unbound));
    });
}

/// A trigger, a suspend with its resume, and an unbinding: no call while suspended, none after the end, and the irq
/// ends once.
#[test]
fn shuttle_an_irq_that_is_parked_is_delivered_after_the_resume_or_unbound() {
    explore(|| {
        let (runtime, driver, dispatcher, _seen): (_, _, _, Arc<Seen>) = set_up(1);
        let (line, told, handle) = bind(&runtime, &dispatcher);
        let device = {
            let line = Arc::clone(&line);
            thread::spawn("device", move || line.trigger()).expect("a thread")
        };
        driver.suspend(|_| ()).expect("it runs");
        let ended = Arc::clone(&told);
        let unbinder = thread::spawn("unbinder", move || {
            let unbound = handle.unbind().expect("nobody else ends it");
            if !unbound.is_running() {
                ended.is_unbound.store(true, Ordering::Release);
            }
        })
        .expect("a thread");
        driver.resume();
        device.join().expect("it ends");
        unbinder.join().expect("it ends");
        end(&runtime);
        told.check();
        assert_eq!(told.canceled.load(Ordering::Acquire), 0, "it was unbound");
        assert_eq!(runtime.counters().taken_back, 1);
    });
}

/// Two triggers, two threads of the pool, an unsynchronized dispatcher: the calls do not overlap, and none is lost.
#[test]
fn shuttle_no_trigger_is_lost_and_calls_of_one_handler_do_not_overlap() {
    explore(|| {
        let (runtime, driver, _dispatcher, _seen): (_, _, _, Arc<Seen>) = set_up(2);
        let on = driver.new_dispatcher(DispatcherBuilder::new().unsynchronized()).expect("created");
        let (line, told, _handle) = bind(&runtime, &on);
        trigger_twice(&line).join().expect("it ends");
        while told.triggers.load(Ordering::Acquire) < 2 {
            thread::yield_now();
        }
        end(&runtime);
        told.check();
        assert_eq!(told.triggers.load(Ordering::Acquire), 2);
        assert_eq!(told.canceled.load(Ordering::Acquire), 1);
    });
}
