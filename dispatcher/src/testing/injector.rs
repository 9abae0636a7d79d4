//! The injector: runs a scenario again and again, and each time something goes wrong at another moment.
//!
//! 1. The scenario runs once as it is, which counts the moments: the steps, the callbacks that begin, the times that
//!    something was asked for that can be refused.
//! 2. It runs once for each moment, with the shutdown, the panic or the refusal there. Up to that moment the run is the
//!    same one, because the schedule is.
//! 3. Each run is watched ([`Watch`]) and judged as in an exploration: the promises, the leaks, the panics.

use std::cell::RefCell;
use std::fmt;

use super::ForegroundRuntime;
use super::determinism::difference_before;
use super::director::{Broken, Decision, Director};
use super::explorer::Explorer;
use super::failure::Failure;
use super::fallible::Fallible;
use super::injected::Injected;
use super::random::Random;
use super::run::Ran;
use super::schedule::{Schedule, given_by_environment};
use super::strategy::Picker;
use super::target::Target;
use super::trigger::{Trigger, What};
use super::watch::{Scene, Watch};
use crate::sync::{Arc, Mutex};

/// Runs `scenario` once for each of its steps, and shuts `target` down there. The settings are those of
/// [`Injector::new`].
///
/// A step is every moment at which something could come in between: each turn of the crank, and each post, channel
/// operation and begin of a callback, in the middle of callbacks. Each run is checked: every accepted callback is told how
/// it ended, once; nothing runs that should not; observers come last; closures are dropped where they belong; nothing
/// leaks; the shutdown comes to its end.
///
/// The scenario goes on after the injection, with posts that may be refused: where it asserts, it asks
/// [`was_injected`](ForegroundRuntime::was_injected) first.
///
/// # Panics
/// With the report when a run fails, and when there is no such target at any step. `FUCHSINE_SEED` as in the report, such as
/// `0@17`, runs that one alone.
///
/// Up to its injection each run has to be the one without: a scenario that takes another course is not deterministic, which
/// is a failure too.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::DispatcherBuilder;
/// use fuchsine_dispatcher::testing::{Target, shutdown_at_every_step};
/// use std::sync::mpsc::channel;
///
/// let injected = shutdown_at_every_step(
///     |runtime| {
///         let driver = runtime.new_driver("printer");
///         let Ok(dispatcher) = driver.new_dispatcher(DispatcherBuilder::new().name("spool")) else { return };
///         let (sender, printed) = channel();
///         for page in 1..=3 {
///             let sender = sender.clone();
///             let _ = dispatcher.post_task(move |outcome| sender.send((page, outcome.is_ok())).unwrap());
///         }
///         drop(sender);
///         runtime.run_until_idle();
///         if !runtime.was_injected() {
///             assert_eq!(printed.iter().collect::<Vec<_>>(), [(1, true), (2, true), (3, true)]);
///         }
///     },
///     Target::driver("printer"),
/// );
/// assert!(injected.injections > 5);
/// ```
#[track_caller]
pub fn shutdown_at_every_step(scenario: impl Fn(&ForegroundRuntime), target: Target) -> Injected {
    Injector::new().shutdown(target, scenario)
}

/// Runs `scenario` once for each callback that begins in it, which panics then instead of running.
///
/// Callbacks, polls of futures, and observers are counted alike; a scenario without any fails. The panic is handled by the policy of the runtime: unless
/// the [`Explorer`] of an [`Injector`] says otherwise, the driver of the callback shuts down. Another panic that follows from it
/// is a failure.
///
/// # Panics
/// With the report when a run fails, as [`shutdown_at_every_step`].
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::DispatcherBuilder;
/// use fuchsine_dispatcher::testing::panic_at_every_callback;
///
/// let injected = panic_at_every_callback(|runtime| {
///     let driver = runtime.new_driver("printer");
///     let dispatcher = driver.new_dispatcher(DispatcherBuilder::new()).expect("nothing is injected before a callback");
///     dispatcher.post_task(|_| ()).expect("as above");
///     dispatcher.post_task(|_| ()).expect("as above");
///     runtime.run_until_idle();
/// });
/// assert_eq!(injected.injections, 2);
/// ```
#[track_caller]
pub fn panic_at_every_callback(scenario: impl Fn(&ForegroundRuntime)) -> Injected {
    Injector::new().panics(scenario)
}

/// Runs `scenario` once for each time that it asks for something that can be refused, and refuses it then, as if resources
/// were short. A scenario that never asks for it fails.
///
/// # Panics
/// With the report when a run fails, as [`shutdown_at_every_step`].
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::{DispatcherBuilder, Status};
/// use fuchsine_dispatcher::testing::{Fallible, fail_every};
///
/// let injected = fail_every(Fallible::Dispatcher, |runtime| {
///     let driver = runtime.new_driver("printer");
///     for name in ["spool", "panel"] {
///         match driver.new_dispatcher(DispatcherBuilder::new().name(name)) {
///             Ok(dispatcher) => dispatcher.post_task(|_| ()).expect("it runs"),
///             Err(error) => assert_eq!(error.status(), Status::NoResources),
///         }
///     }
///     runtime.run_until_idle();
/// });
/// assert_eq!(injected.injections, 2);
/// ```
#[track_caller]
pub fn fail_every(op: Fallible, scenario: impl Fn(&ForegroundRuntime)) -> Injected {
    Injector::new().refusals(op, scenario)
}

/// Settings of injections.
pub struct Injector {
    explorer: Explorer,
    one_a_seed: bool,
    bound: u64,
}

/// When something is injected.
#[derive(Clone, Copy)]
struct Moment<'a> {
    /// Its number; 0 for never.
    number: u64,
    run_twice: bool,
    /// What was decided in the run without it, if that is to be the same up to there.
    without: Option<&'a [Decision]>,
}

impl Moment<'_> {
    fn of(number: u64) -> Self {
        Moment { number, run_twice: false, without: None }
    }
}

/// What a run was.
struct Gone {
    /// How many moments it had.
    moments: u64,
    decisions: Vec<Decision>,
    had_outside: bool,
}

impl Injector {
    /// One seed, every moment of it, and 10,000 steps for a shutdown to come to its end.
    pub fn new() -> Self {
        Injector { explorer: Explorer::new().seeds(1), one_a_seed: false, bound: 10_000 }
    }

    /// The schedules, and everything else that an exploration has to say about them. Every moment of each seed is tried,
    /// unless [`one_step_a_seed`](Injector::one_step_a_seed) was called.
    #[must_use = "a builder does nothing until something is injected"]
    pub fn explorer(mut self, explorer: Explorer) -> Self {
        self.explorer = explorer;
        self
    }

    /// Tries one moment of each seed, another one for each: many seeds see more that way than few seeds in full.
    ///
    /// A run is not compared with one without the injection then, as there is none of the same seed, and to make one would
    /// halve what is seen in the same time. Instead some seeds are run twice: the first, the second, the fourth, and so on
    /// with twice as many in between. A scenario that is not deterministic in few of its schedules may pass;
    /// [`check_determinism`](Explorer::check_determinism) has each of them run twice, or none.
    #[must_use = "a builder does nothing until something is injected"]
    pub fn one_step_a_seed(mut self) -> Self {
        self.one_a_seed = true;
        self
    }

    /// How many steps a shutdown may take from its injection to its end.
    #[must_use = "a builder does nothing until something is injected"]
    pub fn bound(mut self, steps: u64) -> Self {
        self.bound = steps;
        self
    }

    /// As [`shutdown_at_every_step`], with these settings.
    ///
    /// # Panics
    /// With the report when a run fails, and when there is no such target at any moment.
    #[track_caller]
    pub fn shutdown(&self, target: Target, scenario: impl Fn(&ForegroundRuntime)) -> Injected {
        or_report(self.try_shutdown(target, scenario))
    }

    /// Like [`shutdown`](Injector::shutdown).
    ///
    /// # Errors
    /// The [`Failure`] of the first run that fails, or of a target that is there at no moment.
    pub fn try_shutdown(
        &self,
        target: Target,
        scenario: impl Fn(&ForegroundRuntime),
    ) -> Result<Injected, Box<Failure>> {
        self.search(&What::Shutdown(target), &scenario)
    }

    /// As [`panic_at_every_callback`], with these settings.
    ///
    /// # Panics
    /// With the report when a run fails.
    #[track_caller]
    pub fn panics(&self, scenario: impl Fn(&ForegroundRuntime)) -> Injected {
        or_report(self.try_panics(scenario))
    }

    /// Like [`panics`](Injector::panics).
    ///
    /// # Errors
    /// The [`Failure`] of the first run that fails.
    pub fn try_panics(&self, scenario: impl Fn(&ForegroundRuntime)) -> Result<Injected, Box<Failure>> {
        self.search(&What::Panic, &scenario)
    }

    /// As [`fail_every`], with these settings.
    ///
    /// # Panics
    /// With the report when a run fails.
    #[track_caller]
    pub fn refusals(&self, op: Fallible, scenario: impl Fn(&ForegroundRuntime)) -> Injected {
        or_report(self.try_refusals(op, scenario))
    }

    /// Like [`refusals`](Injector::refusals).
    ///
    /// # Errors
    /// The [`Failure`] of the first run that fails.
    pub fn try_refusals(&self, op: Fallible, scenario: impl Fn(&ForegroundRuntime)) -> Result<Injected, Box<Failure>> {
        self.search(&What::Refusal(op), &scenario)
    }

    fn search(&self, what: &What, scenario: &dyn Fn(&ForegroundRuntime)) -> Result<Injected, Box<Failure>> {
        let mut injected = Injected::default();
        if let Some((schedule, moment)) = given_by_environment().or_else(|| Some((self.explorer.given()?, None))) {
            injected.schedules = 1;
            match moment {
                Some(moment) => self.one_moment(what, &schedule, moment, scenario, &mut injected)?,
                None => {
                    self.every_moment(what, &schedule, scenario, &mut injected)?;
                    self.was_there(what, &schedule, scenario, &injected)?;
                }
            }
            return Ok(injected);
        }
        self.explorer.seeds_or_failure()?;
        let mut most = 0;
        for seed in self.explorer.seed_range() {
            injected.schedules += 1;
            let schedule = Schedule::from(seed);
            if !self.one_a_seed {
                self.every_moment(what, &schedule, scenario, &mut injected)?;
                continue;
            }
            let run_twice = self.explorer.runs_twice(injected.schedules - 1);
            if most == 0 {
                let at = Moment { run_twice, ..Moment::of(0) };
                most = self.go(what, &schedule, at, scenario, &mut injected)?.moments;
            }
            if most > 0 {
                // Schedules differ in length: now and then the moment is after the end, which is a run as well.
                let moment = 1 + Random::new(seed).below(most as usize) as u64;
                let run_twice = self.explorer.samples_twice(injected.schedules);
                let at = Moment { run_twice, ..Moment::of(moment) };
                most = most.max(self.go(what, &schedule, at, scenario, &mut injected)?.moments);
            }
        }
        self.was_there(what, &Schedule::from(self.explorer.seed_range().start), scenario, &injected)?;
        Ok(injected)
    }

    /// Runs that show nothing do not pass: a target whose name is spelt wrong, or nothing that could go wrong.
    fn was_there(
        &self,
        what: &What,
        schedule: &Schedule,
        scenario: &dyn Fn(&ForegroundRuntime),
        injected: &Injected,
    ) -> Result<(), Box<Failure>> {
        if injected.injections > 0 {
            return Ok(());
        }
        let message = match what {
            What::Shutdown(target) if injected.missed > 0 => format!(
                "{target} never begins: {} moments were tried, and there was no such thing at any of them; look for a \
                 name that is spelt in another way, or for a scenario that does not call `on_injection`",
                injected.missed
            ),
            What::Shutdown(target) => format!(
                "{target} never begins: the scenario has no step at which it could; make a driver, post something, and \
                 turn the crank"
            ),
            What::Panic => {
                "nothing has panicked: no callback begins in the scenario; post something, and turn the crank \
                            before the scenario returns"
                    .to_owned()
            }
            What::Refusal(op) => format!("{op} was never injected: the scenario asks for nothing of that kind"),
        };
        let ran = self.run(what, 0, &Arc::default(), self.explorer.picker(schedule), true, scenario);
        let broken = Broken { step: ran.steps, message };
        Err(Box::new(self.explorer.failure(schedule, injected.schedules, broken, &ran)))
    }

    /// The run that somebody asks for, who has its name from a report.
    fn one_moment(
        &self,
        what: &What,
        schedule: &Schedule,
        moment: u64,
        scenario: &dyn Fn(&ForegroundRuntime),
        injected: &mut Injected,
    ) -> Result<(), Box<Failure>> {
        let at = Moment { run_twice: self.explorer.runs_twice(0), ..Moment::of(moment) };
        let gone = self.go(what, schedule, at, scenario, injected)?;
        if moment > gone.moments {
            let message = format!(
                "nothing was injected: schedule {schedule} has {} moments, and FUCHSINE_SEED asks for moment {moment}; give \
                 one that a report of this very scenario names, or none, which tries all of them",
                gone.moments
            );
            return Err(Box::new(Failure::without_runs(message)));
        }
        Ok(())
    }

    fn every_moment(
        &self,
        what: &What,
        schedule: &Schedule,
        scenario: &dyn Fn(&ForegroundRuntime),
        injected: &mut Injected,
    ) -> Result<(), Box<Failure>> {
        let run_twice = self.explorer.runs_each_twice();
        let Gone { moments, decisions, had_outside } =
            self.go(what, schedule, Moment { run_twice, ..Moment::of(0) }, scenario, injected)?;
        for moment in 1..=moments {
            let at = Moment { number: moment, run_twice, without: (!had_outside).then_some(&decisions) };
            self.go(what, schedule, at, scenario, injected)?;
        }
        Ok(())
    }

    /// One run with something injected at a moment.
    fn go(
        &self,
        what: &What,
        schedule: &Schedule,
        at: Moment<'_>,
        scenario: &dyn Fn(&ForegroundRuntime),
        injected: &mut Injected,
    ) -> Result<Gone, Box<Failure>> {
        let last = RefCell::new(Arc::default());
        let run = |picker: Box<dyn Picker>, is_traced: bool| -> Ran {
            let scene = last.replace(Arc::<Mutex<Scene>>::default());
            drop(scene);
            let scene = Arc::clone(&last.borrow());
            self.run(what, at.number, &scene, picker, is_traced, scenario)
        };
        let ran = run(self.explorer.picker(schedule), false);
        let passed = injected.injections;
        let (moments, due) = {
            let scene = Arc::clone(&last.borrow());
            let scene = scene.lock();
            injected.steps += ran.steps;
            injected.injections += u64::from(scene.injected.is_some());
            injected.missed += u64::from(scene.due.is_some() && scene.injected.is_none());
            injected.partial += u64::from(ran.partial.is_some());
            (scene.opportunities, scene.due)
        };
        let without = at.without.filter(|_| !ran.had_outside);
        if let Some(broken) = without.and_then(|without| difference_before(due, without, &ran)) {
            return Err(Box::new(self.explorer.failure(schedule, passed, broken, &ran)));
        }
        match self.explorer.judge(schedule, &ran, passed, at.run_twice, &run) {
            Ok(()) => Ok(Gone { moments, decisions: ran.decisions, had_outside: ran.had_outside }),
            Err(mut failure) => {
                let scene = Arc::clone(&last.borrow());
                let described = scene.lock().injected.take().map(|(step, what)| format!("{what} at step {step}"));
                failure.moment = (at.number > 0).then_some(at.number);
                failure.injected = described;
                Err(failure)
            }
        }
    }

    fn run(
        &self,
        what: &What,
        moment: u64,
        scene: &Arc<Mutex<Scene>>,
        picker: Box<dyn Picker>,
        is_traced: bool,
        scenario: &dyn Fn(&ForegroundRuntime),
    ) -> Ran {
        let is_panic = matches!(what, What::Panic) && !self.explorer.allows_panics;
        let lenient = is_panic.then(|| self.explorer.clone().allow_panics());
        let prepare = |runtime: &ForegroundRuntime, director: &Arc<Director>| {
            let mut watch = Watch::new(scene, runtime);
            if let What::Shutdown(target) = what {
                watch = watch.await_end(target.clone(), self.bound);
            }
            if is_panic {
                watch = watch.allow_one_panic(director);
            }
            director.listen(Box::new(watch));
            director.listen(Box::new(Trigger {
                what: what.clone(),
                moment,
                scene: Arc::clone(scene),
                runtime: (**runtime).clone(),
                injection: Arc::clone(runtime.injection()),
                is_pending: false,
            }));
        };
        let to_its_end = |runtime: &ForegroundRuntime| {
            scenario(runtime);
            scene.lock().is_scenario_over = true;
            runtime.injection().clear();
        };
        let moment = (moment > 0).then_some(moment);
        lenient.as_ref().unwrap_or(&self.explorer).run(picker, is_traced, moment, &prepare, &to_its_end)
    }
}

#[track_caller]
fn or_report(result: Result<Injected, Box<Failure>>) -> Injected {
    match result {
        Ok(injected) => injected,
        Err(failure) => panic!("{failure}"),
    }
}

impl Default for Injector {
    fn default() -> Self {
        Injector::new()
    }
}

impl fmt::Debug for Injector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Injector");
        text.field("explorer", &self.explorer).field("one_a_seed", &self.one_a_seed).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "injector_tests.rs"]
mod tests;
