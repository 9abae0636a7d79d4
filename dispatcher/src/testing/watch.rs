//! Watching a run: the oracle and the list of leaks, as a listener of its director.

use super::director::{Director, Listener};
use super::leaks::Leaks;
use super::ledger::{Life, Progress, Stage};
use super::promises::Oracle;
use super::target::Target;
use crate::runtime::{Counters, Runtime};
use crate::sync::probe::Note;
use crate::sync::thread::{self, ThreadId};
use crate::sync::{Arc, Mutex};

/// What is known of a run that something may be injected into.
#[derive(Debug, Default)]
pub(super) struct Scene {
    pub(super) oracle: Oracle,
    leaks: Leaks,
    /// How often there was an opportunity to inject something.
    pub(super) opportunities: u64,
    /// The step of the moment at which something was to be injected.
    pub(super) due: Option<u64>,
    /// The step at which it was, and what, in words; `None` if there was nothing to inject into, or if it was put off to the
    /// end.
    pub(super) injected: Option<(u64, String)>,
    /// Whether the scenario has returned.
    pub(super) is_scenario_over: bool,
    /// A panic that was not injected.
    panic: Option<String>,
    panics: u64,
    broken: Option<String>,
}

/// Tells a scene what happens, and looks whether all is well.
pub(super) struct Watch {
    scene: Arc<Mutex<Scene>>,
    runtime: Runtime,
    /// What has to end within so many steps after its shutdown was injected.
    awaited: Option<(Target, u64)>,
    /// Who knows what a panic said, if one panic is injected and no other is allowed.
    panics: Option<Arc<Director>>,
}

impl Watch {
    pub(super) fn new(scene: &Arc<Mutex<Scene>>, runtime: &Runtime) -> Self {
        Watch { scene: Arc::clone(scene), runtime: runtime.clone(), awaited: None, panics: None }
    }

    /// The target has to end within so many steps.
    pub(super) fn await_end(mut self, target: Target, bound: u64) -> Self {
        self.awaited = Some((target, bound));
        self
    }

    /// One panic, and no other, is allowed.
    pub(super) fn allow_one_panic(mut self, director: &Arc<Director>) -> Self {
        self.panics = Some(Arc::clone(director));
        self
    }
}

impl Scene {
    /// Whether everything that is shut down has come to its end.
    fn has_ended(&self, target: &Target) -> bool {
        let ledger = self.oracle.ledger();
        let (driver, dispatcher) = target.names();
        let quoted = |name: &str| format!("{name:?}");
        let is_of = |name: &str, wanted: &str| name == wanted || name.starts_with(&format!("{wanted} (no. "));
        let drivers = ledger.drivers.values().filter(|book| match driver {
            Some(wanted) => is_of(&book.name, &quoted(wanted)),
            None => target.is_runtime(),
        });
        let dispatchers = ledger
            .dispatchers
            .values()
            .filter(|book| dispatcher.is_some_and(|wanted| is_of(&book.name, &quoted(wanted)) && book.shuts_down));
        let is_over = |progress: Progress| progress == Progress::Over;
        drivers.into_iter().all(|book| is_over(book.observer) || !book.shuts_down)
            && dispatchers.into_iter().all(|book| is_over(book.observer))
    }

    fn first_pending(&self) -> String {
        let ledger = self.oracle.ledger();
        let running = ledger.lives.iter().find(|(_, life)| matches!(life.stage, Stage::Running | Stage::Working));
        let first = running.or_else(|| ledger.lives.iter().next());
        match first {
            Some((_, life)) => format!("not at its end: {}", Life::describe(life)),
            None => "nothing is pending".to_owned(),
        }
    }
}

impl Listener for Watch {
    fn turn(&mut self, step: u64) {
        let Some((target, bound)) = &self.awaited else { return };
        let mut scene = self.scene.lock();
        let Some((injected, _)) = scene.injected else { return };
        if step > injected + bound && scene.broken.is_none() && !scene.has_ended(target) {
            let pending = scene.first_pending();
            scene.broken = Some(format!("{target} is not over after {bound} steps; {pending}"));
        }
    }

    fn note(&mut self, step: u64, note: &Note) {
        let mut scene = self.scene.lock();
        if let (Note::Panicked { .. }, Some(director)) = (note, &self.panics) {
            scene.panics += 1;
            // The first one is on purpose.
            if scene.panics > u64::from(scene.injected.is_some()) {
                let said = director.last_panic().unwrap_or_else(|| "somewhere".to_owned());
                scene.panic.get_or_insert(format!("a callback panicked: {said}"));
            }
        }
        scene.leaks.hear(note);
        scene.oracle.hear(step, thread::current_id(), note);
    }

    fn end(&mut self, step: u64) {
        let counters = self.runtime.counters();
        let mut scene = self.scene.lock();
        scene.oracle.is_over(step);
        let seen = Counters { refused: counters.refused, ..scene.oracle.ledger().tally() };
        let runtimes = &scene.oracle.ledger().runtimes;
        // A scenario may have runtimes of its own; their numbers are not asked for.
        let is_partial = scene.oracle.ledger().partial().is_some();
        let is_all = !is_partial && runtimes.iter().all(|&runtime| runtime == Arc::as_ptr(self.runtime.inner()).addr());
        if is_all && seen != counters && scene.broken.is_none() {
            scene.broken = Some(format!("the runtime counts {counters:?}, but what happened adds up to {seen:?}"));
        }
        // What a thread that is not part of the run has ended looks as if it were left.
        if scene.broken.is_none() && !is_partial {
            scene.broken = scene.leaks.report().or_else(|| scene.leaks.armed_timer(&self.runtime));
        }
    }

    fn began_at(&self, dispatcher: u64) -> Option<u64> {
        let scene = self.scene.lock();
        let ledger = scene.oracle.ledger();
        let running = ledger.dispatchers.get(&dispatcher)?.running.last()?;
        ledger.lives.get(running)?.begun_at
    }

    fn running_on(&self, thread: ThreadId) -> Option<String> {
        let scene = self.scene.lock();
        let ticket = scene.oracle.running_on(thread)?;
        let since = scene.oracle.ledger().lives.get(&ticket).and_then(|life| life.begun_at);
        let since = since.map_or_else(String::new, |step| format!(", since step {step}"));
        Some(format!("{}{since}", scene.oracle.describe(ticket)))
    }

    fn partial(&mut self) -> Option<String> {
        self.scene.lock().oracle.ledger().partial().map(str::to_owned)
    }

    fn broken(&mut self) -> Option<String> {
        let scene = self.scene.lock();
        let promise = scene.oracle.first_broken().map(ToString::to_string);
        promise.or_else(|| scene.panic.clone()).or_else(|| scene.broken.clone())
    }
}
