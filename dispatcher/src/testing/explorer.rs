//! The explorer: runs a scenario under many schedules.
//!
//! 1. Each schedule has a fresh runtime, and a [`Director`] that the thread and its helpers ask.
//! 2. The scenario runs, then the runtime is shut down under the same schedule, and the numbers are checked.
//! 3. A schedule that fails is run again. If it takes another course then, the scenario is not deterministic, and that is
//!    the report. Otherwise it is shrunk, and the report has the trace of the shortest one that fails so.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::deadlock::Waits;
use super::director::{Broken, Decision, Directed, Direction, Director, is_stop};
use super::exhaustive::{self, Along};
use super::failure::Failure;
use super::pending::pending_of;
use super::schedule::{Named, Schedule, Seeds, given_by_environment};
use super::strategy::{Picker, Replay, Strategy};
use super::trace::Trace;
use super::watch::Watch;
use super::{ForegroundRuntime, panics, shrink};
use crate::runtime::RuntimeBuilder;
use crate::sync::{Arc, message_of, probe};

/// Runs `scenario` under as many schedules as `seeds` says, each with a fresh runtime.
///
/// Each seed is another legal order of things: which dispatcher is next, which event is taken first, whether an inline
/// call that is allowed is made, and how far callbacks overlap that may. What the scenario must not rely on differs
/// from seed to seed, so an assertion that holds in all of them holds for a reason. The settings are those of
/// [`Explorer::new`].
///
/// # Panics
/// With the report when a schedule fails: when the scenario or a callback panics, or when it does not come to its end.
/// Setting `FUCHSINE_SEED` to the schedule that the report names runs that one alone.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::DispatcherBuilder;
/// use fuchsine_dispatcher::testing::explore;
/// use std::sync::{Arc, Mutex};
///
/// let explored = explore(100, |runtime| {
///     let driver = runtime.new_driver("scribe");
///     let dispatcher = driver.new_dispatcher(DispatcherBuilder::new()).expect("it has what it needs");
///     let log = Arc::new(Mutex::new(Vec::new()));
///     for word in ["first", "second"] {
///         let log = Arc::clone(&log);
///         dispatcher.post_task(move |_| log.lock().unwrap().push(word)).expect("it is running");
///     }
///     runtime.run_until_idle();
///     // A synchronized dispatcher keeps the order of its posts, whatever the schedule.
///     assert_eq!(*log.lock().unwrap(), ["first", "second"]);
/// });
/// assert_eq!(explored.schedules, 100);
/// ```
#[track_caller]
pub fn explore(seeds: impl Into<Seeds>, scenario: impl Fn(&ForegroundRuntime)) -> Explored {
    Explorer::new().seeds(seeds).explore(scenario)
}

/// What was explored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explored {
    /// How many schedules were run.
    pub schedules: u64,
    /// How many steps they had together.
    pub steps: u64,
    /// Whether there is no other schedule: an exhaustive search came to its end.
    pub is_complete: bool,
}

/// Settings of an exploration.
#[derive(Clone)]
pub struct Explorer {
    seeds: Range<u64>,
    only: Option<Schedule>,
    strategy: Strategy,
    inline_choices: bool,
    overlaps: bool,
    slow_time: bool,
    allows_panics: bool,
    max_steps: u64,
    checks_determinism: bool,
    shrinks: bool,
    builder: Arc<dyn Fn() -> RuntimeBuilder + Send + Sync>,
}

/// Runs the scenario once: who picks, and whether a trace is wanted.
pub(super) type Run<'a> = &'a dyn Fn(Box<dyn Picker>, bool) -> Ran;

impl Explored {
    fn count(&mut self, ran: &Ran) {
        self.schedules += 1;
        self.steps += ran.steps;
    }
}

/// One run.
pub(super) struct Ran {
    pub(super) steps: u64,
    pub(super) decisions: Vec<Decision>,
    pub(super) broken: Option<Broken>,
    pub(super) trace: Trace,
    pub(super) pending: String,
}

impl Explorer {
    /// A hundred seeds, strategies mixed, inline calls made or not, no panic allowed, 100,000 steps at most.
    pub fn new() -> Self {
        Explorer {
            seeds: 0..100,
            only: None,
            strategy: Strategy::default(),
            inline_choices: true,
            overlaps: true,
            slow_time: false,
            allows_panics: false,
            max_steps: 100_000,
            checks_determinism: false,
            shrinks: true,
            builder: Arc::new(RuntimeBuilder::new),
        }
    }

    /// The seeds to run: a count, or a range.
    #[must_use = "a builder does nothing until `explore` is called"]
    pub fn seeds(mut self, seeds: impl Into<Seeds>) -> Self {
        self.seeds = seeds.into().0;
        self
    }

    /// Runs this schedule and no other, as if `FUCHSINE_SEED` named it.
    #[must_use = "a builder does nothing until `explore` is called"]
    pub fn only(mut self, schedule: Schedule) -> Self {
        self.only = Some(schedule);
        self
    }

    /// How schedules are picked.
    #[must_use = "a builder does nothing until `explore` is called"]
    pub fn strategy(mut self, strategy: Strategy) -> Self {
        self.strategy = strategy;
        self
    }

    /// Whether inline calls that are allowed are sometimes deferred. If not, each is made.
    #[must_use = "a builder does nothing until `explore` is called"]
    pub fn inline_choices(mut self, whether: bool) -> Self {
        self.inline_choices = whether;
        self
    }

    /// Whether callbacks that may overlap do so: those of an unsynchronized dispatcher, and those of different
    /// dispatchers. They run on threads of their own then, of which one moves at a time, and let each other go first where
    /// they post, use a channel or await. If not, each callback runs to its end.
    #[must_use = "a builder does nothing until `explore` is called"]
    pub fn overlap(mut self, whether: bool) -> Self {
        self.overlaps = whether;
        self
    }

    /// Whether a timer may come while other work is still waiting, as on a machine that is busy. If not, the clock stands
    /// still until nothing else can go on. It is only ever advanced where the scenario waits for time to pass.
    #[must_use = "a builder does nothing until `explore` is called"]
    pub fn slow_time(mut self, whether: bool) -> Self {
        self.slow_time = whether;
        self
    }

    /// Lets callbacks panic: what then happens is what the runtime's policy says. A panic of the scenario itself still
    /// fails.
    #[must_use = "a builder does nothing until `explore` is called"]
    pub fn allow_panics(mut self) -> Self {
        self.allows_panics = true;
        self
    }

    /// How runtimes are built: inline depth, panic policy. Batches have one callback each, whatever it says.
    #[must_use = "a builder does nothing until `explore` is called"]
    pub fn builder(mut self, builder: impl Fn() -> RuntimeBuilder + Send + Sync + 'static) -> Self {
        self.builder = Arc::new(builder);
        self
    }

    /// A run with more steps fails.
    #[must_use = "a builder does nothing until `explore` is called"]
    pub fn max_steps(mut self, steps: u64) -> Self {
        self.max_steps = steps;
        self
    }

    /// Whether each schedule is run twice, and fails if it takes another course the second time. One that fails for
    /// another reason is run twice in any case.
    #[must_use = "a builder does nothing until `explore` is called"]
    pub fn check_determinism(mut self, whether: bool) -> Self {
        self.checks_determinism = whether;
        self
    }

    /// Whether a schedule that fails is shrunk to a short one, which takes some more runs. It is unless this was called.
    #[must_use = "a builder does nothing until `explore` is called"]
    pub fn shrink(mut self, whether: bool) -> Self {
        self.shrinks = whether;
        self
    }

    /// Explores.
    ///
    /// # Panics
    /// With the report when a schedule fails, and when `FUCHSINE_SEED` names none.
    #[track_caller]
    pub fn explore(&self, scenario: impl Fn(&ForegroundRuntime)) -> Explored {
        match self.try_explore(scenario) {
            Ok(explored) => explored,
            Err(failure) => panic!("{failure}"),
        }
    }

    /// Explores, and returns the first schedule that fails.
    ///
    /// # Errors
    /// The [`Failure`].
    ///
    /// # Panics
    /// When `FUCHSINE_SEED` names no schedule.
    pub fn try_explore(&self, scenario: impl Fn(&ForegroundRuntime)) -> Result<Explored, Box<Failure>> {
        let watch = |runtime: &ForegroundRuntime, director: &Arc<Director>| {
            director.listen(Box::new(Watch::new(&Arc::default(), runtime)));
        };
        self.search(&|picker, is_traced| self.run(picker, is_traced, &watch, &scenario))
    }

    /// Runs all schedules that the settings ask for by `run`, which is told who picks and whether a trace is wanted.
    pub(super) fn search(&self, run: Run<'_>) -> Result<Explored, Box<Failure>> {
        let only = self.only.clone().or_else(|| given_by_environment().map(|(schedule, _)| schedule));
        let mut explored = Explored { schedules: 0, steps: 0, is_complete: false };
        match (only, self.strategy) {
            (Some(schedule), _) => self.run_one(&schedule, &mut explored, run)?,
            (None, Strategy::Exhaustive { limit }) => self.run_all(limit, &mut explored, run)?,
            (None, _) => {
                for seed in self.seeds.clone() {
                    self.run_one(&Schedule::from(seed), &mut explored, run)?;
                }
            }
        }
        Ok(explored)
    }

    fn run_one(&self, schedule: &Schedule, explored: &mut Explored, run: Run<'_>) -> Result<(), Box<Failure>> {
        let ran = run(self.picker(schedule), false);
        self.judge(schedule, &ran, explored.schedules, run)?;
        explored.count(&ran);
        Ok(())
    }

    /// Runs one schedule after the other until there is no other one.
    fn run_all(&self, limit: u64, explored: &mut Explored, run: Run<'_>) -> Result<(), Box<Failure>> {
        let mut path = Vec::new();
        let mut before: Vec<Decision> = Vec::new();
        while explored.schedules < limit {
            let ran = run(Box::new(Along::new(path.clone())), false);
            let schedule = Schedule::of_picks(picks_of(&ran));
            if !exhaustive::is_along(&before, &path, &ran.decisions) {
                let broken = not_deterministic(ran.steps, "what was decided before is not asked again");
                return Err(Box::new(self.failure(&schedule, explored.schedules, broken, ran)));
            }
            self.judge(&schedule, &ran, explored.schedules, run)?;
            explored.count(&ran);
            match exhaustive::next_path(&ran.decisions) {
                Some(next) => path = next,
                None => {
                    explored.is_complete = true;
                    break;
                }
            }
            before = ran.decisions;
        }
        Ok(())
    }

    /// Looks again at a schedule that failed: whether it fails again, and by how little of it.
    pub(super) fn judge(
        &self,
        schedule: &Schedule,
        first: &Ran,
        passed: u64,
        run: Run<'_>,
    ) -> Result<(), Box<Failure>> {
        if first.broken.is_none() && !self.checks_determinism {
            return Ok(());
        }
        let again = run(self.picker(schedule), true);
        if let Some(broken) = difference(first, &again) {
            return Err(Box::new(self.failure(schedule, passed, broken, again)));
        }
        let Some(broken) = again.broken.clone() else { return Ok(()) };
        let failure = self.failure(schedule, passed, broken, again);
        // Somebody who asks for picks wants to see these.
        let is_given = self.only.is_some() && matches!(schedule.0, Named::Picks(_));
        if !self.shrinks || is_given {
            return Err(Box::new(failure));
        }
        Err(Box::new(shrunk(failure, picks_of(first), run)))
    }

    pub(super) fn failure(&self, schedule: &Schedule, passed: u64, broken: Broken, ran: Ran) -> Failure {
        let Broken { step, message } = broken;
        let (schedule, shrunk) = (schedule.clone(), schedule.clone());
        let (trace, pending) = (ran.trace, ran.pending);
        Failure { schedule, passed, step, message, shrunk, trace, pending, moment: None, injected: None }
    }

    /// The one schedule that it is to run.
    pub(super) fn given(&self) -> Option<Schedule> {
        self.only.clone()
    }

    pub(super) fn seed_range(&self) -> Range<u64> {
        self.seeds.clone()
    }

    pub(super) fn allows_panics(&self) -> bool {
        self.allows_panics
    }

    pub(super) fn picker(&self, schedule: &Schedule) -> Box<dyn Picker> {
        match &schedule.0 {
            Named::Seed(seed) => self.strategy.picker(*seed),
            Named::Picks(picks) => Box::new(Replay::new(picks.clone())),
        }
    }

    /// Runs the scenario once; `prepare` may add listeners.
    pub(super) fn run(
        &self,
        picker: Box<dyn Picker>,
        is_traced: bool,
        prepare: &impl Fn(&ForegroundRuntime, &Arc<Director>),
        scenario: &impl Fn(&ForegroundRuntime),
    ) -> Ran {
        panics::tell_probes();
        let director = Director::new(Direction {
            picker,
            is_traced,
            allows_panics: self.allows_panics,
            max_steps: self.max_steps,
            inline_choices: self.inline_choices,
            overlaps: self.overlaps,
            slow_time: self.slow_time,
        });
        let attached = probe::attach(Some(Arc::clone(&director) as Arc<dyn probe::Probe>));
        let runtime = match ForegroundRuntime::with((self.builder)().batch(1)) {
            Ok(runtime) => runtime,
            Err(error) => panic!("the builder of an exploration makes no runtime: {error}"),
        };
        prepare(&runtime, &director);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            scenario(&runtime);
            finish(&runtime, &director);
        }));
        if let Err(payload) = outcome {
            note_panic(&director, payload);
        }
        let pending = if is_traced { pending_of(&runtime) } else { String::new() };
        let Directed { steps, decisions, broken, recorder } = director.close();
        // What is left when a run has failed goes on in the usual order; nobody looks at what becomes of it.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let _ = runtime.shutdown();
            drop(runtime);
        }));
        drop(attached);
        let trace = recorder.map(super::trace::Recorder::into_trace).unwrap_or_default();
        Ran { steps, decisions, broken, trace, pending }
    }
}

/// Shuts the runtime down under the same schedule, and checks what it leaves.
fn finish(runtime: &ForegroundRuntime, director: &Director) {
    let waits = Waits::of(runtime);
    if waits.is_deadlock() {
        director.fail(format!("callbacks wait for each other when the scenario returns:\n{waits}"));
        return;
    }
    if runtime.shutdown().is_err() {
        director.fail("the shutdown does not come to its end: something blocks out of sight".to_owned());
        return;
    }
    let counters = runtime.counters();
    if counters.pending != 0 || !counters.add_up() {
        director.fail(format!("after the shutdown the numbers do not add up: {counters:?}"));
    }
    director.tell_end();
}

fn note_panic(director: &Director, payload: Box<dyn Any + Send>) {
    if is_stop(&*payload) {
        return;
    }
    let message = message_of(payload);
    let with_place = director.last_panic().filter(|last| last.starts_with(&message));
    director.fail(format!("the scenario panicked: {}", with_place.unwrap_or(message)));
}

/// About so many steps are spent on making a schedule shorter: one that does not come to its end has very many.
const MOST_STEPS: u64 = 500_000;

/// The same failure by the shortest schedule that can be found.
fn shrunk(failure: Failure, picks: Vec<usize>, run: Run<'_>) -> Failure {
    let is_same =
        |ran: &Ran| ran.broken.as_ref().is_some_and(|broken| first_line(broken) == failure.message.lines().next());
    let most_runs = MOST_STEPS / failure.step.max(1);
    let shortest = shrink::shrink(picks, most_runs, |picks| {
        let ran = run(Box::new(Replay::new(picks)), false);
        is_same(&ran).then(|| picks_of(&ran))
    });
    let ran = run(Box::new(Replay::new(shortest)), true);
    let shrunk = Schedule::of_picks(picks_of(&ran));
    match ran.broken.clone().filter(|_| is_same(&ran)) {
        Some(Broken { step, message }) => {
            Failure { step, message, shrunk, trace: ran.trace, pending: ran.pending, ..failure }
        }
        None => failure,
    }
}

fn first_line(broken: &Broken) -> Option<&str> {
    broken.message.lines().next()
}

fn picks_of(ran: &Ran) -> Vec<usize> {
    ran.decisions.iter().map(|decision| decision.picked).collect()
}

fn not_deterministic(step: u64, how: &str) -> Broken {
    let message = format!(
        "the scenario is not deterministic: at step {step} the same schedule takes another course ({how}); look for \
         the order of a hash map, a thread of its own, or the wall clock"
    );
    Broken { step, message }
}

/// Where a second run took another course than the first.
fn difference(first: &Ran, again: &Ran) -> Option<Broken> {
    let differ = first.decisions.iter().zip(&again.decisions).find(|(one, other)| one != other);
    let (step, how) = match differ {
        Some((one, other)) => (one.step, format!("{} before, {} now", pick_text(one), pick_text(other))),
        None if first.decisions.len() != again.decisions.len() || first.steps != again.steps => {
            (first.steps.min(again.steps), format!("{} steps before, {} now", first.steps, again.steps))
        }
        None if first.broken != again.broken => match first.broken.as_ref().or(again.broken.as_ref()) {
            Some(broken) => (broken.step, "it fails only sometimes".to_owned()),
            None => return None,
        },
        None => return None,
    };
    Some(not_deterministic(step, &how))
}

fn pick_text(decision: &Decision) -> String {
    format!("{} of {} ({:?})", decision.picked + 1, decision.of, decision.choice)
}

impl Default for Explorer {
    fn default() -> Self {
        Explorer::new()
    }
}

impl fmt::Debug for Explorer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Explorer").field("seeds", &self.seeds).field("strategy", &self.strategy).finish_non_exhaustive()
    }
}
