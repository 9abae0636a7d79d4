//! Model checks of values and scopes that are bound to a dispatcher, on the real pool: calls, the drop of the owner and a
//! shutdown in every order. What is real and what is not is said in `runtime/shuttle_dispatcher.rs`.

use std::rc::Rc;
use std::time::Duration;

use super::{DispatcherBound, TaskScope};
use crate::runtime::{Dispatcher, DispatcherBuilder, Runtime, RuntimeBuilder, current};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, thread};

fn iterations() -> usize {
    std::env::var("SHUTTLE_ITERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

fn explore(model: fn()) {
    shuttle::check_random(model, iterations());
    shuttle::check_pct(model, iterations(), 3);
}

/// What became of the value and its calls.
#[derive(Default)]
struct Seen {
    inside: AtomicUsize,
    made: AtomicUsize,
    called: AtomicUsize,
    calls_dropped: AtomicUsize,
    dropped: AtomicUsize,
    observed: AtomicUsize,
}

struct Value(Arc<Seen>);

impl Value {
    fn new(seen: Arc<Seen>) -> Self {
        seen.made.fetch_add(1, Ordering::AcqRel);
        Value(seen)
    }

    fn call(&mut self) {
        assert_eq!(self.0.dropped.load(Ordering::Acquire), 0, "a call after the drop");
        assert_eq!(self.0.inside.fetch_add(1, Ordering::AcqRel), 0, "two calls at once");
        thread::yield_now();
        self.0.called.fetch_add(1, Ordering::AcqRel);
        self.0.inside.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        assert!(current().is_some(), "dropped outside of its dispatcher");
        assert_eq!(self.0.inside.load(Ordering::Acquire), 0, "dropped under a call");
        assert_eq!(self.0.observed.load(Ordering::Acquire), 0, "dropped after the observer");
        self.0.dropped.fetch_add(1, Ordering::AcqRel);
    }
}

/// Counts a closure of a call when it is dropped, called or not.
struct Counted(Arc<Seen>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.calls_dropped.fetch_add(1, Ordering::AcqRel);
    }
}

fn set_up(pinned: bool) -> (Runtime, Dispatcher, Arc<Seen>) {
    let runtime = RuntimeBuilder::new().threads(2).build().expect("a model has threads");
    let seen = Arc::new(Seen::default());
    let observed = Arc::clone(&seen);
    let builder = DispatcherBuilder::new().shutdown_observer(move || {
        observed.observed.fetch_add(1, Ordering::AcqRel);
    });
    let builder = if pinned { builder.no_thread_migration() } else { builder };
    let dispatcher = runtime.new_driver("driver").new_dispatcher(builder).expect("created");
    (runtime, dispatcher, seen)
}

fn race(dispatcher: &Dispatcher, seen: &Arc<Seen>, bound: DispatcherBound<impl Callable>) -> bool {
    let bound = Arc::new(bound);
    let (calling, counting) = (Arc::clone(&bound), Arc::clone(seen));
    let caller = thread::spawn("caller", move || {
        let counted = Counted(counting);
        let call = move |value: &mut _| {
            let _counted = counted;
            Callable::call(value);
        };
        // The refused call is dropped here.
        calling.async_call(call).is_ok()
    })
    .expect("a thread");
    let shutting = dispatcher.handle();
    let stopper = thread::spawn("stopper", move || shutting.shutdown_async()).expect("a thread");
    // The last of the two drops the owner.
    drop(bound);
    stopper.join().expect("it ends");
    caller.join().expect("it ends")
}

trait Callable: 'static {
    fn call(&mut self);
}

impl Callable for Value {
    fn call(&mut self) {
        Value::call(self);
    }
}

/// A value that cannot leave its thread.
struct Local(Value, #[expect(dead_code, reason = "it makes the value local")] Rc<()>);

impl Callable for Local {
    fn call(&mut self) {
        self.0.call();
    }
}

fn conclude(runtime: &Runtime, seen: &Seen, accepted: bool) {
    runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
    let counters = runtime.counters();
    assert!(counters.add_up() && counters.pending == 0, "{counters:?}");
    let count = |which: &AtomicUsize| which.load(Ordering::Acquire);
    assert_eq!(count(&seen.made), count(&seen.dropped), "made and dropped");
    assert_eq!(count(&seen.calls_dropped), 1, "the call ends once");
    assert!(count(&seen.called) <= usize::from(accepted));
    assert_eq!(count(&seen.observed), 1);
}

#[test]
fn shuttle_a_bound_value_is_dropped_once_whoever_comes_first() {
    explore(|| {
        let (runtime, dispatcher, seen) = set_up(false);
        let making = Arc::clone(&seen);
        let bound = DispatcherBound::new(&dispatcher, move || Value::new(making)).expect("it runs");
        let accepted = race(&dispatcher, &seen, bound);
        conclude(&runtime, &seen, accepted);
    });
}

#[test]
fn shuttle_a_bound_local_value_is_dropped_once_on_its_thread() {
    explore(|| {
        let (runtime, dispatcher, seen) = set_up(true);
        let making = Arc::clone(&seen);
        let make = move || Local(Value::new(making), Rc::new(()));
        let bound = DispatcherBound::new_local(&dispatcher, make).expect("it runs");
        let accepted = race(&dispatcher, &seen, bound);
        conclude(&runtime, &seen, accepted);
    });
}

/// A task of a scope runs on the pool while the scope is dropped and the dispatcher shuts down: it is called or dropped,
/// once, and its entry goes.
#[test]
fn shuttle_the_end_of_a_scope_that_races_with_its_task_and_a_shutdown_has_one_winner() {
    explore(|| {
        let (runtime, dispatcher, seen) = set_up(false);
        let scope = TaskScope::new(&dispatcher);
        let (counted, called) = (Counted(Arc::clone(&seen)), Arc::clone(&seen));
        let task = move || {
            let _counted = counted;
            called.called.fetch_add(1, Ordering::AcqRel);
        };
        scope.post(task).expect("it runs");
        let (held, polled) = (Counted(Arc::clone(&seen)), Arc::clone(&seen));
        let future = async move {
            let _held = held;
            polled.made.fetch_add(1, Ordering::AcqRel);
        };
        // Spawned before or refused after the shutdown has begun; dropped in any case.
        let shutting = dispatcher.handle();
        let stopper = thread::spawn("stopper", move || shutting.shutdown_async()).expect("a thread");
        let spawned = scope.spawn(future).is_ok();
        let ender = thread::spawn("ender", move || drop(scope)).expect("a thread");
        stopper.join().expect("it ends");
        ender.join().expect("it ends");
        runtime.shutdown(Duration::MAX).expect("the runtime shuts down");
        let counters = runtime.counters();
        assert!(counters.add_up() && counters.pending == 0, "{counters:?}");
        assert_eq!(counters.accepted, 1 + u64::from(spawned));
        let count = |which: &AtomicUsize| which.load(Ordering::Acquire);
        assert_eq!(count(&seen.calls_dropped), 2, "each is dropped once");
        let ran = count(&seen.called) + count(&seen.made);
        assert_eq!(ran as u64, counters.ran, "what ran, ran to its end");
        assert_eq!(count(&seen.observed), 1);
    });
}
