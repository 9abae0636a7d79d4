//! One scenario on every kind of runtime: the foreground runtime, in its usual order and explored, and pools of 1, 2 and 8
//! threads.
//!
//! Purpose: a rule of the runtime holds whoever turns the crank. A scenario is written once, against [`World`], and says
//! nothing about threads. `FUCHSINE_EXPLORE_SEEDS` says under which explored schedules each runs (default 8), and
//! `FUCHSINE_REPEAT` how often each is repeated on the others (default 1), for long runs that look for flakes:
//! `tests/repeat` sets it.
//!
//! Invariants: after each scenario its runtime is shut down; nothing is pending, and the numbers add up. A scenario that
//! fails says on which runtime, and in which repetition.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use fuchsine_dispatcher::testing::{Explorer, ForegroundRuntime, Seeds};
use fuchsine_dispatcher::{Counters, DispatcherHandle, Driver, Runtime, RuntimeBuilder};

/// After this long a scenario counts as hung. It is no measure of speed.
pub const HANG_LIMIT: Duration = Duration::from_secs(30);

/// The pools with threads that scenarios run on.
pub const POOLS: &[usize] = &[1, 2, 8];

/// How long a waiting test sleeps between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_micros(100);

/// What a scenario runs in.
#[derive(Debug)]
pub struct World {
    crank: Crank,
}

#[derive(Debug)]
enum Crank {
    Foreground(Box<ForegroundRuntime>),
    Threads(Runtime, usize),
}

/// Runs `scenario` on the foreground runtime, then on pools of 1, 2 and 8 threads, and at last on foreground runtimes
/// whose schedules are explored.
///
/// # Panics
/// When the scenario does, or when it leaves something behind.
#[track_caller]
pub fn on_every_pool(scenario: impl Fn(&World)) {
    on_every_pool_with(RuntimeBuilder::new, scenario);
}

/// Like [`on_every_pool`], with a builder for each runtime; how many threads it has is not the builder's choice.
///
/// # Panics
/// As [`on_every_pool`].
#[track_caller]
pub fn on_every_pool_with(builder: impl Fn() -> RuntimeBuilder, scenario: impl Fn(&World)) {
    run_everywhere(Explorer::new(), builder, scenario);
}

/// Like [`on_every_pool`], for a scenario that shows which calls are made inline: schedules are explored in which each
/// inline call that is allowed is made, and no callback of others comes in between.
///
/// # Panics
/// As [`on_every_pool`].
#[track_caller]
pub fn on_every_pool_calling_inline(scenario: impl Fn(&World)) {
    run_everywhere(Explorer::new().inline_choices(false).overlap(false), RuntimeBuilder::new, scenario);
}

/// Like [`on_every_pool`], for a scenario with threads of its own: no schedule decides what these do, so none is explored.
///
/// # Panics
/// As [`on_every_pool`].
#[track_caller]
pub fn in_usual_order(scenario: impl Fn(&World)) {
    in_usual_order_with(RuntimeBuilder::new, scenario);
}

#[track_caller]
fn in_usual_order_with(builder: impl Fn() -> RuntimeBuilder, scenario: impl Fn(&World)) {
    for repetition in 0..repetitions() {
        World::foreground_with(builder()).run(repetition, &scenario);
    }
    on_pools_with(builder, scenario);
}

#[track_caller]
fn run_everywhere(explorer: Explorer, builder: impl Fn() -> RuntimeBuilder, scenario: impl Fn(&World)) {
    in_usual_order_with(&builder, &scenario);
    // What a callback may do, such as panic, is the scenario's business.
    let explorer = explorer.seeds(explored_seeds()).allow_panics().check_determinism(true);
    explorer.explore(|_| World::foreground_with(builder().batch(1)).run(0, &scenario));
}

/// Which schedules of each scenario are explored: those of `FUCHSINE_EXPLORE_SEEDS`, or 8.
///
/// # Panics
/// When the variable is neither a count nor a range.
pub fn explored_seeds() -> Seeds {
    Seeds::from_environment_or(8)
}

/// Runs `scenario` on the foreground runtime alone: where the order of steps is the point.
///
/// # Panics
/// As [`on_every_pool`].
#[track_caller]
pub fn in_the_foreground(scenario: impl Fn(&World)) {
    for repetition in 0..repetitions() {
        World::foreground_with(RuntimeBuilder::new()).run(repetition, &scenario);
    }
}

/// Runs `scenario` on pools of 1, 2 and 8 threads.
///
/// # Panics
/// As [`on_every_pool`].
#[track_caller]
pub fn on_pools(scenario: impl Fn(&World)) {
    on_pools_with(RuntimeBuilder::new, scenario);
}

/// Like [`on_pools`], with a builder for each runtime.
///
/// # Panics
/// As [`on_every_pool`].
#[track_caller]
pub fn on_pools_with(builder: impl Fn() -> RuntimeBuilder, scenario: impl Fn(&World)) {
    for &threads in POOLS {
        for repetition in 0..repetitions() {
            World::threads_with(builder(), threads).run(repetition, &scenario);
        }
    }
}

/// How often each scenario runs: `FUCHSINE_REPEAT`, or once.
///
/// # Panics
/// When the variable is no number.
pub fn repetitions() -> u32 {
    match std::env::var("FUCHSINE_REPEAT") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("FUCHSINE_REPEAT is a number, not {text:?}")),
        Err(_) => 1,
    }
}

impl World {
    /// A world without threads.
    ///
    /// # Panics
    /// When the builder refuses.
    #[track_caller]
    pub fn foreground_with(builder: RuntimeBuilder) -> Self {
        let runtime = ForegroundRuntime::with(builder).expect("nothing of a foreground runtime can be refused");
        World { crank: Crank::Foreground(Box::new(runtime)) }
    }

    /// A world with this many threads.
    ///
    /// # Panics
    /// When the builder or the system refuses.
    #[track_caller]
    pub fn threads_with(builder: RuntimeBuilder, threads: usize) -> Self {
        let runtime = builder.threads(threads).build().expect("the system has threads");
        World { crank: Crank::Threads(runtime, threads) }
    }

    /// The runtime.
    pub fn runtime(&self) -> &Runtime {
        match &self.crank {
            Crank::Foreground(runtime) => runtime,
            Crank::Threads(runtime, _) => runtime,
        }
    }

    /// The foreground runtime, if this is one.
    pub fn foreground(&self) -> Option<&ForegroundRuntime> {
        match &self.crank {
            Crank::Foreground(runtime) => Some(runtime),
            Crank::Threads(..) => None,
        }
    }

    /// Whether nothing runs unless this thread turns the crank.
    pub fn is_foreground(&self) -> bool {
        self.foreground().is_some()
    }

    /// How many base threads the pool has; 0 in the foreground.
    pub fn threads(&self) -> usize {
        match &self.crank {
            Crank::Foreground(_) => 0,
            Crank::Threads(_, threads) => *threads,
        }
    }

    /// A new driver.
    pub fn driver(&self, name: &str) -> Driver {
        self.runtime().new_driver(name)
    }

    /// Lets everything that is ready run to its end. Timers that are not due and events that have not come are not
    /// waited for.
    ///
    /// # Panics
    /// When it does not come to rest before [`HANG_LIMIT`].
    #[track_caller]
    pub fn settle(&self) {
        match &self.crank {
            Crank::Foreground(runtime) => drop(runtime.run_until_idle()),
            // Two looks: what was made ready behind the back of the first is seen by the second, or has run by then,
            // and that changes the numbers.
            Crank::Threads(runtime, _) => self.wait_until("everything to come to rest", || {
                let before = runtime.counters();
                self.is_at_rest() && self.is_at_rest() && runtime.counters() == before
            }),
        }
    }

    fn is_at_rest(&self) -> bool {
        let dump = self.runtime().dump();
        let mut dispatchers = dump.drivers.iter().flat_map(|driver| &driver.dispatchers);
        dispatchers.all(|one| one.running.is_empty() && !one.pending.iter().any(|pending| pending.is_ready))
    }

    /// Lets things run until `condition` holds. In the foreground the clock is advanced when only timers are left.
    ///
    /// # Panics
    /// When it does not come about before [`HANG_LIMIT`].
    #[track_caller]
    pub fn wait_until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        match &self.crank {
            Crank::Foreground(runtime) => {
                assert!(runtime.run_until_condition(condition), "waiting for {what}: nothing is left that could do it");
            }
            Crank::Threads(runtime, _) => {
                let since = Instant::now();
                while !condition() {
                    assert!(since.elapsed() < HANG_LIMIT, "waiting for {what}:\n{}", runtime.dump());
                    std::thread::sleep(BETWEEN_LOOKS);
                }
            }
        }
    }

    /// Runs `body` as a task of `dispatcher` and returns what it returns. A panic of `body` becomes one of the caller, so
    /// it may assert.
    ///
    /// # Panics
    /// When `body` does, when the task is refused, or when it does not run before [`HANG_LIMIT`].
    #[track_caller]
    pub fn run_on<R: Send + 'static>(
        &self,
        dispatcher: &DispatcherHandle,
        body: impl FnOnce() -> R + Send + 'static,
    ) -> R {
        let (sender, receiver) = channel();
        let posted = dispatcher.post_task(move |outcome| {
            let result = catch_unwind(AssertUnwindSafe(|| {
                outcome.expect("the dispatcher runs");
                body()
            }));
            // Nobody listens when the caller has failed meanwhile.
            let _ = sender.send(result);
        });
        assert!(posted.is_ok(), "the task is refused: {posted:?}");
        self.drain();
        match receiver.recv_timeout(HANG_LIMIT) {
            Ok(Ok(value)) => value,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(RecvTimeoutError::Timeout) => panic!("the task does not run:\n{}", self.runtime().dump()),
            Err(RecvTimeoutError::Disconnected) => panic!("the task was dropped"),
        }
    }

    /// In the foreground, turns the crank; elsewhere others do.
    fn drain(&self) {
        if let Some(runtime) = self.foreground() {
            runtime.run_until_idle();
        }
    }

    /// Shuts the runtime down, and waits for it. May be called more than once.
    ///
    /// # Panics
    /// When it has not shut down before [`HANG_LIMIT`].
    #[track_caller]
    pub fn shutdown(&self) {
        match &self.crank {
            Crank::Foreground(runtime) => runtime.shutdown().expect("the crank moves everything"),
            Crank::Threads(runtime, _) => {
                if let Err(error) = runtime.shutdown(HANG_LIMIT) {
                    panic!("{error}");
                }
            }
        }
    }

    /// What became of all callbacks.
    pub fn counters(&self) -> Counters {
        self.runtime().counters()
    }

    fn run(self, repetition: u32, scenario: &impl Fn(&World)) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| scenario(&self))) {
            eprintln!("in repetition {repetition}, {}", self.place());
            resume_unwind(panic);
        }
        self.shutdown();
        let counters = self.counters();
        assert!(counters.add_up(), "{}: {counters:?}", self.place());
        assert_eq!(counters.pending, 0, "{}: something is left", self.place());
    }

    fn place(&self) -> String {
        match &self.crank {
            Crank::Foreground(_) => "on the foreground runtime".to_owned(),
            Crank::Threads(_, threads) => format!("on a pool of {threads} threads"),
        }
    }
}
