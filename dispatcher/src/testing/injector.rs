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
use super::director::{Broken, Director, Listener};
use super::explorer::{Explorer, Ran};
use super::failure::Failure;
use super::random::Random;
use super::schedule::{Schedule, given_by_environment};
use super::strategy::Picker;
use super::target::{Injection, Target};
use super::trace::point_text;
use super::watch::{Scene, Watch};
use crate::runtime::Runtime;
use crate::sync::probe::{self, Point, Scarce};
use crate::sync::{Arc, Mutex};

/// What [`fail_every`] refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fallible {
    /// The creation of a dispatcher: no resources.
    Dispatcher,
    /// A thread, for a dispatcher that allows sync calls or for work on a lane: no resources.
    Thread,
    /// The registration of a wait or an irq: no memory.
    Registration,
    /// The write of a message: the queue is full.
    Write,
}

impl Fallible {
    fn as_scarce(self) -> Scarce {
        match self {
            Fallible::Dispatcher => Scarce::Dispatcher,
            Fallible::Thread => Scarce::Thread,
            Fallible::Registration => Scarce::Registration,
            Fallible::Write => Scarce::Write,
        }
    }
}

impl fmt::Display for Fallible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fallible::Dispatcher => "a refused dispatcher",
            Fallible::Thread => "a refused thread",
            Fallible::Registration => "a refused registration",
            Fallible::Write => "a refused write",
        })
    }
}

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
/// Callbacks, polls of futures, and observers are counted alike. The panic is handled by the policy of the runtime: unless
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
/// were short.
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

/// What was injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Injected {
    /// How many schedules were run, each once or more.
    pub schedules: u64,
    /// How many runs had something injected.
    pub injections: u64,
    /// How many had not, because there was no such target at their moment: it did not exist yet, or had ended.
    pub missed: u64,
    /// How many steps all runs had together.
    pub steps: u64,
}

/// Settings of injections.
pub struct Injector {
    explorer: Explorer,
    one_a_seed: bool,
    bound: u64,
}

/// What is injected.
#[derive(Clone)]
enum What {
    Shutdown(Target),
    Panic,
    Refusal(Fallible),
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
        let mut most = 0;
        if let Some((schedule, moment)) = given_by_environment().or_else(|| Some((self.explorer.given()?, None))) {
            injected.schedules = 1;
            match moment {
                Some(moment) => drop(self.go(what, &schedule, moment, scenario, &mut injected)?),
                None => {
                    self.every_moment(what, &schedule, scenario, &mut injected)?;
                    self.was_there(what, &schedule, scenario, &injected)?;
                }
            }
            return Ok(injected);
        }
        for seed in self.explorer.seed_range() {
            injected.schedules += 1;
            let schedule = Schedule::from(seed);
            if !self.one_a_seed {
                self.every_moment(what, &schedule, scenario, &mut injected)?;
                continue;
            }
            if most == 0 {
                most = self.go(what, &schedule, 0, scenario, &mut injected)?;
            }
            if most > 0 {
                // Schedules differ in length: now and then the moment is after the end, which is a run as well.
                let moment = 1 + Random::new(seed).below(most as usize) as u64;
                most = most.max(self.go(what, &schedule, moment, scenario, &mut injected)?);
            }
        }
        self.was_there(what, &Schedule::from(self.explorer.seed_range().start), scenario, &injected)?;
        Ok(injected)
    }

    /// A target that is there at no moment at all is a name that is spelt wrong: the runs have shown nothing.
    fn was_there(
        &self,
        what: &What,
        schedule: &Schedule,
        scenario: &dyn Fn(&ForegroundRuntime),
        injected: &Injected,
    ) -> Result<(), Box<Failure>> {
        let What::Shutdown(target) = what else { return Ok(()) };
        if injected.injections > 0 || injected.missed == 0 {
            return Ok(());
        }
        let ran = self.run(what, 0, &Arc::default(), self.explorer.picker(schedule), true, scenario);
        let message = format!(
            "{target} never begins: {} moments were tried, and there was no such thing at any of them; look for a name \
             that is spelt in another way, or for a scenario that does not call `on_injection`",
            injected.missed
        );
        let broken = Broken { step: ran.steps, message };
        Err(Box::new(self.explorer.failure(schedule, injected.schedules, broken, ran)))
    }

    fn every_moment(
        &self,
        what: &What,
        schedule: &Schedule,
        scenario: &dyn Fn(&ForegroundRuntime),
        injected: &mut Injected,
    ) -> Result<(), Box<Failure>> {
        let moments = self.go(what, schedule, 0, scenario, injected)?;
        for moment in 1..=moments {
            self.go(what, schedule, moment, scenario, injected)?;
        }
        Ok(())
    }

    /// One run with something injected at a moment, at none if that is 0; how many moments there were.
    fn go(
        &self,
        what: &What,
        schedule: &Schedule,
        moment: u64,
        scenario: &dyn Fn(&ForegroundRuntime),
        injected: &mut Injected,
    ) -> Result<u64, Box<Failure>> {
        let last = RefCell::new(Arc::default());
        let run = |picker: Box<dyn Picker>, is_traced: bool| -> Ran {
            let scene = last.replace(Arc::<Mutex<Scene>>::default());
            drop(scene);
            let scene = Arc::clone(&last.borrow());
            self.run(what, moment, &scene, picker, is_traced, scenario)
        };
        let ran = run(self.explorer.picker(schedule), false);
        let passed = injected.injections;
        let moments = {
            let scene = Arc::clone(&last.borrow());
            let scene = scene.lock();
            injected.steps += ran.steps;
            injected.injections += u64::from(scene.injected.is_some() && !scene.is_missed);
            injected.missed += u64::from(scene.is_missed);
            scene.opportunities
        };
        let judged = self.explorer.judge(schedule, &ran, passed, &run);
        judged.map(|()| moments).map_err(|mut failure| {
            let scene = Arc::clone(&last.borrow());
            let described = scene.lock().injected.take().map(|(step, what)| format!("{what} at step {step}"));
            failure.moment = (moment > 0).then_some(moment);
            failure.injected = described;
            failure
        })
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
        let is_panic = matches!(what, What::Panic) && !self.explorer.allows_panics();
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
        lenient.as_ref().unwrap_or(&self.explorer).run(picker, is_traced, &prepare, &to_its_end)
    }
}

/// Injects something at its moment.
struct Trigger {
    what: What,
    moment: u64,
    scene: Arc<Mutex<Scene>>,
    runtime: Runtime,
    injection: Arc<Injection>,
    /// Whether the moment has come and the shutdown has not begun.
    is_pending: bool,
}

impl Trigger {
    /// Counts a moment; whether it is the one.
    fn is_due(&self, step: u64, describe: impl FnOnce(&Scene) -> String) -> bool {
        let mut scene = self.scene.lock();
        if scene.is_scenario_over {
            return false;
        }
        scene.opportunities += 1;
        if scene.opportunities != self.moment {
            return false;
        }
        let description = describe(&scene);
        scene.injected = Some((step, description));
        true
    }

    fn shut_down(&mut self, step: u64, describe: impl FnOnce(&Scene) -> String) {
        let What::Shutdown(target) = &self.what else { return };
        self.is_pending |= self.is_due(step, |scene| format!("{target} begins {}", describe(scene)));
        // A callback that was interrupted may hold a lock that the scenario's own action wants.
        if !self.is_pending || target.is_custom() && probe::is_interrupted() {
            return;
        }
        self.is_pending = false;
        if !target.begin(&self.runtime, &self.injection) {
            self.scene.lock().is_missed = true;
        }
    }
}

impl Listener for Trigger {
    fn turn(&mut self, step: u64) {
        self.shut_down(step, |_| "between two turns".to_owned());
    }

    fn point(&mut self, step: u64, point: Point) {
        let place = |scene: &Scene| format!("{}{}", point_text(point), in_what(scene));
        self.shut_down(step, place);
        let is_begin = point == Point::Begin && matches!(self.what, What::Panic);
        if is_begin && self.is_due(step, |scene| format!("a panic{}", in_what(scene))) {
            self.injection.mark();
            panic!("on purpose, by the testing kit");
        }
    }

    fn refuses(&mut self, step: u64, what: Scarce) -> bool {
        let What::Refusal(op) = self.what else { return false };
        let is_refused = op.as_scarce() == what && self.is_due(step, |scene| format!("{op}{}", in_what(scene)));
        if is_refused {
            self.injection.mark();
        }
        is_refused
    }
}

/// In which callback the calling thread is.
fn in_what(scene: &Scene) -> String {
    match scene.oracle.running_here() {
        Some(ticket) => format!(", in {}", scene.oracle.describe(ticket)),
        None => String::new(),
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
