//! The explorer: runs a scenario under many schedules.
//!
//! 1. Each schedule has a fresh runtime, and a [`Director`] that the thread and its helpers ask.
//! 2. The scenario runs, then the runtime is shut down under the same schedule, and the numbers are checked.
//! 3. A schedule that fails is run again. If it takes another course then, the scenario is not deterministic, and that is
//!    the report. Otherwise it is shrunk, and the report has the trace of the shortest one that fails so. The first schedule
//!    is run twice in any case.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use super::determinism::{difference, not_deterministic};
use super::director::{Broken, Decision, Director};
use super::exhaustive::{self, Along};
use super::explored::Explored;
use super::failure::Failure;
use super::run::{Ran, Run};
use super::schedule::{Named, Schedule, Seeds, given_by_environment};
use super::strategy::{Picker, Replay, Strategy};
use super::watch::Watch;
use super::{ForegroundRuntime, shrink, watchdog};
use crate::runtime::RuntimeBuilder;
use crate::sync::Arc;

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

/// Settings of an exploration.
#[derive(Clone)]
pub struct Explorer {
    seeds: Range<u64>,
    only: Option<Schedule>,
    strategy: Strategy,
    pub(super) inline_choices: bool,
    pub(super) overlaps: bool,
    pub(super) slow_time: bool,
    pub(super) allows_panics: bool,
    pub(super) allows_foreign_threads: bool,
    pub(super) max_steps: u64,
    pub(super) hang_limit: Duration,
    run_twice: RunTwice,
    shrinks: bool,
    pub(super) builder: Arc<dyn Fn() -> RuntimeBuilder + Send + Sync>,
}

/// Which schedules are run twice although they pass, to see whether they take the same course.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunTwice {
    None,
    First,
    Each,
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
            allows_foreign_threads: false,
            max_steps: 100_000,
            hang_limit: watchdog::LIMIT,
            run_twice: RunTwice::First,
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

    /// Lets threads that are no part of a run use its dispatchers. Nothing can be said about such a dispatcher from then on:
    /// no schedule decides what these threads do, and nobody is told of it. Such runs are judged in part, and counted as
    /// [`partial`](Explored::partial). Without this they fail.
    #[must_use = "a builder does nothing until `explore` is called"]
    pub fn allow_foreign_threads(mut self) -> Self {
        self.allows_foreign_threads = true;
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

    /// For how long the thread of the test may sleep without a step. It does when a callback that cannot let others go first,
    /// or the scenario itself, blocks out of sight of this crate: on a channel of the standard library, a lock, in the
    /// kernel. Nothing can end that, so the test would hang; after this time, or six times as much of processor time, a report
    /// says who it is, at which step of which schedule, and the process ends. Ten seconds unless this was called;
    /// `Duration::MAX` for as long as it takes.
    #[must_use = "a builder does nothing until `explore` is called"]
    pub fn hang_limit(mut self, limit: Duration) -> Self {
        self.hang_limit = limit;
        self
    }

    /// Whether each schedule is run twice, and fails if it takes another course the second time, or none is. Unless this was
    /// called the first one is. One that fails for another reason is run twice in any case, and one in which something blocked out
    /// of sight is not by itself: which of several threads is quicker then no schedule decides.
    #[must_use = "a builder does nothing until `explore` is called"]
    pub fn check_determinism(mut self, whether: bool) -> Self {
        self.run_twice = if whether { RunTwice::Each } else { RunTwice::None };
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
        self.search(&|picker, is_traced| self.run(picker, is_traced, None, &watch, &scenario))
    }

    /// Runs all schedules that the settings ask for by `run`, which is told who picks and whether a trace is wanted.
    pub(super) fn search(&self, run: Run<'_>) -> Result<Explored, Box<Failure>> {
        let only = self.only.clone().or_else(|| given_by_environment().map(|(schedule, _)| schedule));
        let mut explored = Explored::default();
        match (only, self.strategy) {
            (Some(schedule), _) => self.run_one(&schedule, &mut explored, run)?,
            (None, Strategy::Exhaustive { limit }) => self.run_all(limit, &mut explored, run)?,
            (None, _) => {
                self.seeds_or_failure()?;
                for seed in self.seeds.clone() {
                    self.run_one(&Schedule::from(seed), &mut explored, run)?;
                }
            }
        }
        Ok(explored)
    }

    /// No schedule at all would pass, and show nothing.
    pub(super) fn seeds_or_failure(&self) -> Result<(), Box<Failure>> {
        if self.seeds.is_empty() {
            let Range { start, end } = self.seeds;
            return Err(Box::new(Failure::without_runs(format!(
                "nothing was explored: there is no seed in {start}..{end}; give a count above 0, or a range whose end is \
                 above its start"
            ))));
        }
        Ok(())
    }

    fn run_one(&self, schedule: &Schedule, explored: &mut Explored, run: Run<'_>) -> Result<(), Box<Failure>> {
        let ran = run(self.picker(schedule), false);
        self.judge(schedule, &ran, explored.schedules, self.runs_twice(explored.schedules), run)?;
        explored.count(&ran);
        Ok(())
    }

    /// Runs one schedule after the other until there is no other one.
    fn run_all(&self, limit: u64, explored: &mut Explored, run: Run<'_>) -> Result<(), Box<Failure>> {
        if limit == 0 {
            let message = "nothing was explored: the limit of the exhaustive search is 0; give it one above that";
            return Err(Box::new(Failure::without_runs(message.to_owned())));
        }
        let mut path = Vec::new();
        let mut before: Vec<Decision> = Vec::new();
        while explored.schedules < limit {
            let ran = run(Box::new(Along::new(path.clone())), false);
            let schedule = Schedule::of_picks(picks_of(&ran));
            if !exhaustive::is_along(&before, &path, &ran.decisions) {
                let broken = not_deterministic(ran.steps, "what was decided before is not asked again");
                return Err(Box::new(self.failure(&schedule, explored.schedules, broken, &ran)));
            }
            self.judge(&schedule, &ran, explored.schedules, self.runs_twice(explored.schedules), run)?;
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
        runs_twice: bool,
        run: Run<'_>,
    ) -> Result<(), Box<Failure>> {
        let is_compared = runs_twice && (!first.had_outside || self.runs_each_twice());
        if first.broken.is_none() && !is_compared {
            return Ok(());
        }
        if let (true, Some(broken)) = (first.is_stuck, first.broken.clone()) {
            return Err(Box::new(self.failure(schedule, passed, broken, first)));
        }
        let again = run(self.picker(schedule), true);
        if let Some(broken) = difference(first, &again) {
            return Err(Box::new(self.failure(schedule, passed, broken, &again)));
        }
        let Some(broken) = again.broken.clone() else { return Ok(()) };
        let failure = self.failure(schedule, passed, broken, &again);
        // Somebody who asks for picks wants to see these.
        let is_given = self.only.is_some() && matches!(schedule.0, Named::Picks(_));
        if !self.shrinks || is_given {
            return Err(Box::new(failure));
        }
        Err(Box::new(shrunk(failure, picks_of(first), run)))
    }

    /// Whether a schedule that passes is run twice, if so many were before it.
    pub(super) fn runs_twice(&self, passed: u64) -> bool {
        match self.run_twice {
            RunTwice::None => false,
            RunTwice::First => passed == 0,
            RunTwice::Each => true,
        }
    }

    /// Whether the schedule of this number (from 1) is one of the sample that is run twice, where few are: their number grows
    /// as the logarithm of how many there are.
    pub(super) fn samples_twice(&self, number: u64) -> bool {
        match self.run_twice {
            RunTwice::None => false,
            RunTwice::First => number.is_power_of_two(),
            RunTwice::Each => true,
        }
    }

    /// Whether all of them are.
    pub(super) fn runs_each_twice(&self) -> bool {
        self.run_twice == RunTwice::Each
    }

    pub(super) fn failure(&self, schedule: &Schedule, passed: u64, broken: Broken, ran: &Ran) -> Failure {
        let Broken { step, message } = broken;
        let (schedule, shrunk) = (schedule.clone(), schedule.clone());
        let (trace, pending) = (ran.recorder.trace(), ran.pending.clone());
        Failure {
            schedule,
            passed,
            step,
            message,
            shrunk,
            trace,
            pending,
            is_of_a_run: true,
            ..Failure::without_runs(String::new())
        }
    }

    /// The one schedule that it is to run.
    pub(super) fn given(&self) -> Option<Schedule> {
        self.only.clone()
    }

    pub(super) fn seed_range(&self) -> Range<u64> {
        self.seeds.clone()
    }

    pub(super) fn picker(&self, schedule: &Schedule) -> Box<dyn Picker> {
        match &schedule.0 {
            Named::Seed(seed) => self.strategy.picker(*seed),
            Named::Picks(picks) => Box::new(Replay::new(picks.clone())),
        }
    }
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
            Failure { step, message, shrunk, trace: ran.recorder.trace(), pending: ran.pending, ..failure }
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
