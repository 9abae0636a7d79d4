//! Random operations of every kind on several dispatchers, checked against the promises after each run.
//!
//! The foreground runtime makes each run a function of its seed, which is printed when a run fails. After each step the
//! counters add up; at the end of each run everything that was accepted has ended exactly once, in the order that the
//! promises give where one is promised.

mod common;

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fuchsine_dispatcher::testing::{ForegroundRuntime, sim};
use fuchsine_dispatcher::{
    Canceled, Channel, Dispatcher, DispatcherBuilder, DispatcherState, Interest, Lane, Message, Status, TaskHandle,
    current, sleep,
};
use fuchsine_tests::random::Random;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Ran,
    Canceled,
    TakenBack,
}

#[derive(Default)]
struct Book {
    ends: HashMap<usize, Vec<End>>,
    /// For each synchronized dispatcher: the tasks in the order in which they ran.
    tasks: HashMap<usize, Vec<usize>>,
    /// For each dispatcher: whether a callback is inside.
    inside: HashMap<usize, bool>,
    observed: HashMap<usize, usize>,
    accepted: usize,
    refused: usize,
}

#[derive(Clone)]
struct Ledger(Arc<Mutex<Book>>);

impl Ledger {
    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn end(&self, operation: usize, dispatcher: usize, end: End) {
        let mut book = self.book();
        assert!(!book.observed.contains_key(&dispatcher), "a callback after the observer");
        book.ends.entry(operation).or_default().push(end);
    }
}

struct World {
    runtime: ForegroundRuntime,
    dispatchers: Vec<Dispatcher>,
    ledger: Ledger,
    handles: Vec<(usize, TaskHandle)>,
    streams: Vec<(sim::Stream, sim::Stream)>,
    channels: Vec<(Channel, Channel)>,
    next: usize,
}

fn outcome_of<T, E>(outcome: Result<T, E>) -> End {
    if outcome.is_ok() { End::Ran } else { End::Canceled }
}

impl World {
    fn new(random: &mut Random) -> World {
        let runtime = ForegroundRuntime::new();
        let ledger = Ledger(Arc::default());
        let drivers: Vec<_> = (0..3).map(|nth| runtime.new_driver(format!("driver {nth}"))).collect();
        let dispatchers = (0..6)
            .map(|nth| {
                let seen = ledger.clone();
                let builder = DispatcherBuilder::new().name(format!("{nth}")).shutdown_observer(move || {
                    assert_eq!(current().expect("current").name(), format!("{nth}"));
                    *seen.book().observed.entry(nth).or_default() += 1;
                });
                let builder = match random.below(3) {
                    0 => builder.unsynchronized(),
                    1 => builder.allow_sync_calls(),
                    _ => builder,
                };
                drivers[nth % 3].new_dispatcher(builder).expect("created")
            })
            .collect();
        let net = runtime.sim_net().expect("descriptors are simulated");
        let listener = net.listen("127.0.0.1:1").expect("free");
        let streams = (0..4)
            .map(|_| (net.connect("127.0.0.1:1").expect("it listens"), listener.accept().expect("it is there")))
            .collect();
        let channels = (0..4).map(|_| Channel::pair()).collect();
        World { runtime, dispatchers, ledger, handles: Vec::new(), streams, channels, next: 0 }
    }

    /// One random operation from outside of any callback.
    fn step(&mut self, random: &mut Random) {
        let at = random.below(self.dispatchers.len());
        let operation = self.next;
        self.next += 1;
        let (ledger, target) = (self.ledger.clone(), self.dispatchers[at].handle());
        let told = ledger.clone();
        let accepted = match random.below(12) {
            0 | 1 => {
                let depth = random.below(3);
                target.post_task(move |outcome| told.task(operation, at, outcome, depth)).is_ok()
            }
            2 => match target.post_cancelable(move |outcome| told.end(operation, at, outcome_of(outcome))) {
                Ok(handle) => {
                    self.handles.push((operation, handle));
                    true
                }
                Err(_) => false,
            },
            3 => {
                let delay = Duration::from_millis(random.below(50) as u64);
                match target.post_after(delay, move |outcome| told.end(operation, at, outcome_of(outcome))) {
                    Ok(handle) => {
                        self.handles.push((operation, handle));
                        true
                    }
                    Err(_) => false,
                }
            }
            4 => {
                let (near, _) = &self.streams[random.below(4)];
                target
                    .begin_wait(near, Interest::READABLE, move |outcome| told.end(operation, at, outcome_of(outcome)))
                    .is_ok()
            }
            5 => {
                target.offload(Lane::Fast, |_| (), move |outcome| told.end(operation, at, outcome_of(outcome))).is_ok()
            }
            // Nothing runs between the look and the call, so the guard of a future that is refused need not be made.
            6 if target.state() != DispatcherState::Running => target.spawn(async {}).is_ok(),
            6 => {
                let delay = Duration::from_millis(random.below(20) as u64);
                let guard = EndsWhenDropped { ledger: told, operation, at, finished: false };
                target
                    .spawn(async move {
                        let mut guard = guard;
                        if sleep(delay).await.is_ok() {
                            guard.finished = true;
                        }
                    })
                    .map(drop)
                    .is_ok()
            }
            7 => {
                let (near, _) = &self.channels[random.below(4)];
                let registered = near.begin_read(&target, move |outcome| told.end(operation, at, outcome_of(outcome)));
                match registered.map_err(Status::from) {
                    Ok(()) => true,
                    // Refused by the channel, not by the dispatcher.
                    Err(Status::BadState) => return,
                    Err(_) => false,
                }
            }
            8 => {
                let (near, far) = &self.channels[random.below(4)];
                let _ = near.try_read();
                return far.write(Message::from_bytes(b"message")).expect("the peer is there");
            }
            9 => {
                let (_, far) = &self.streams[random.below(4)];
                // A full pipe is fine: it is readable already.
                let _ = far.write(b"bytes");
                return;
            }
            10 if !self.handles.is_empty() => {
                let nth = random.below(self.handles.len());
                let (canceled, handle) = self.handles.swap_remove(nth);
                if handle.cancel().is_ok() {
                    ledger.book().ends.entry(canceled).or_default().push(End::TakenBack);
                }
                return;
            }
            11 if random.below(20) == 0 => return target.shutdown_async(),
            _ => {
                for _ in 0..random.below(8) {
                    self.runtime.run_once();
                }
                if random.below(4) == 0 {
                    self.runtime.advance(Duration::from_millis(random.below(10) as u64));
                }
                return;
            }
        };
        let mut book = self.ledger.book();
        if accepted {
            book.accepted += 1;
            book.ends.entry(operation).or_default();
        } else {
            book.refused += 1;
        }
    }
}

impl Ledger {
    fn task(&self, operation: usize, at: usize, outcome: Result<(), Canceled>, depth: usize) {
        let here = current().expect("a dispatcher is current");
        if here.is_synchronized() {
            assert!(self.book().inside.insert(at, true) != Some(true), "two at once");
            self.book().tasks.entry(at).or_default().push(operation);
        }
        if depth > 0 {
            // What a task posts to its own dispatcher is part of the dispatcher's own numbers, and of nothing here.
            let again = self.clone();
            let posted = here.post_task(move |_| drop(again));
            assert_eq!(posted.is_ok(), outcome.is_ok() && here.state() == DispatcherState::Running);
        }
        self.end(operation, at, outcome_of(outcome));
        self.book().inside.insert(at, false);
    }
}

struct EndsWhenDropped {
    ledger: Ledger,
    operation: usize,
    at: usize,
    finished: bool,
}

impl Drop for EndsWhenDropped {
    fn drop(&mut self) {
        assert_eq!(current().expect("dropped in context").name(), format!("{}", self.at));
        self.ledger.end(self.operation, self.at, if self.finished { End::Ran } else { End::Canceled });
    }
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let mut world = World::new(&mut random);
    for _ in 0..200 {
        world.step(&mut random);
        let counters = world.runtime.counters();
        assert!(counters.add_up(), "{counters:?}");
    }
    world.runtime.shutdown().expect("everything ends");
    let counters = world.runtime.counters();
    assert!(counters.add_up() && counters.pending == 0, "{counters:?}");
    let book = world.ledger.book();
    for (operation, ends) in &book.ends {
        assert_eq!(ends.len(), 1, "operation {operation} ended {ends:?}");
    }
    assert_eq!(book.ends.len(), book.accepted);
    for nth in 0..6 {
        assert_eq!(book.observed.get(&nth), Some(&1), "observers run once");
        let order = book.tasks.get(&nth).cloned().unwrap_or_default();
        assert!(order.is_sorted(), "tasks of dispatcher {nth} ran out of order: {order:?}");
        assert_eq!(world.dispatchers[nth].state(), DispatcherState::Destroyed);
    }
}

#[test]
fn every_promise_holds_under_random_operations() {
    for seed in 0..400 {
        if std::panic::catch_unwind(|| run(seed)).is_err() {
            let _ = writeln!(std::io::stderr(), "failed with seed {seed}");
            panic!("seed {seed} failed; see above");
        }
    }
}
