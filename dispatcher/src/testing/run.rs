//! One run of a scenario under a director: from a fresh runtime to what its shutdown leaves.

use std::any::Any;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::deadlock::Waits;
use super::director::{Broken, Decision, Directed, Direction, Director, is_stop};
use super::explorer::Explorer;
use super::out_of_sight::OutOfSight;
use super::pending::pending_of;
use super::strategy::Picker;
use super::trace::Recorder;
use super::watchdog::{Suspect, Watched};
use super::{ForegroundRuntime, panics};
use crate::runtime::RuntimeInner;
use crate::sync::thread::{self, ThreadId};
use crate::sync::{Arc, Weak, message_of, probe};

/// Runs the scenario once: who picks, and whether it is to be reported on.
pub(super) type Run<'a> = &'a dyn Fn(Box<dyn Picker>, bool) -> Ran;

/// One run.
pub(super) struct Ran {
    pub(super) steps: u64,
    pub(super) decisions: Vec<Decision>,
    pub(super) broken: Option<Broken>,
    pub(super) recorder: Recorder,
    /// What was left, if the run is to be reported on.
    pub(super) pending: String,
    /// What kept it from being judged in full.
    pub(super) partial: Option<String>,
    /// Whether something blocked out of sight, if only for a while: which thread is quicker then no schedule decides.
    pub(super) had_outside: bool,
    /// Whether something was left that blocks out of sight: another run of it takes seconds, and leaves as much again.
    pub(super) is_stuck: bool,
}

/// A run, for the watchdog.
struct Standing {
    thread: ThreadId,
    director: Arc<Director>,
    runtime: Weak<RuntimeInner>,
}

impl Suspect for Standing {
    fn beat(&self) -> u64 {
        self.director.beats()
    }

    fn report(&self, to: &mut dyn Write) {
        // There is nobody left to tell that it cannot be written.
        let _ = self.director.report(self.thread, to);
        if let Some(runtime) = self.runtime.upgrade() {
            let _ = write!(to, "left at that moment:\n{}", pending_of(&runtime));
        }
    }
}

impl Explorer {
    /// Runs the scenario once; `prepare` may add listeners.
    pub(super) fn run(
        &self,
        picker: Box<dyn Picker>,
        is_reported: bool,
        moment: Option<u64>,
        prepare: &impl Fn(&ForegroundRuntime, &Arc<Director>),
        scenario: &impl Fn(&ForegroundRuntime),
    ) -> Ran {
        panics::tell_probes();
        let director = Director::new(Direction {
            picker,
            allows_panics: self.allows_panics,
            max_steps: self.max_steps,
            inline_choices: self.inline_choices,
            overlaps: self.overlaps,
            slow_time: self.slow_time,
            moment,
        });
        let attached = probe::attach(Some(Arc::clone(&director) as Arc<dyn probe::Probe>));
        let runtime = match ForegroundRuntime::with((self.builder)().batch(1)) {
            Ok(runtime) => runtime,
            Err(error) => panic!("the builder of an exploration makes no runtime: {error}"),
        };
        prepare(&runtime, &director);
        let standing = Standing {
            thread: thread::current_id(),
            director: Arc::clone(&director),
            runtime: Arc::downgrade(runtime.inner()),
        };
        let watched = Watched::new(runtime.patience(), standing);
        watched.set_limit(self.hang_limit);
        let watching = watched.watch();
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            scenario(&runtime);
            finish(&runtime, &director);
        }));
        if let Err(payload) = outcome {
            note_panic(&director, payload);
        }
        let blocking = OutOfSight::of(runtime.inner(), &|dispatcher| director.began_at(dispatcher));
        let is_stuck = !blocking.is_empty();
        if is_stuck {
            director.fail_or_add(format!("what follows blocks out of sight of the testing kit:\n{blocking}"));
        }
        let pending = if is_reported || is_stuck { pending_of(runtime.inner()) } else { String::new() };
        let Directed { steps, decisions, broken, recorder, partial, had_outside } = director.close();
        // What is left when a run has failed goes on in the usual order; nobody looks at what becomes of it.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            if is_stuck {
                // It was waited for in vain before.
                runtime.set_patience(Duration::from_millis(20));
            }
            let _ = runtime.shutdown();
            drop(runtime);
        }));
        drop(watching);
        drop(attached);
        let unwanted = partial.as_ref().filter(|_| !self.allows_foreign_threads);
        let broken = broken.or_else(|| unwanted.map(|why| Broken { step: steps, message: seen_in_part(why) }));
        Ran { steps, decisions, broken, recorder, pending, partial, had_outside, is_stuck }
    }
}

fn seen_in_part(why: &str) -> String {
    format!(
        "the run can be judged in part only: {why}; have callbacks, futures or `run_blocking` do that, or say \
         `allow_foreign_threads`"
    )
}

/// Shuts the runtime down under the same schedule, and checks what it leaves.
fn finish(runtime: &ForegroundRuntime, director: &Director) {
    let waits = Waits::of(runtime);
    if waits.is_deadlock() {
        director.fail(format!("callbacks wait for each other when the scenario returns:\n{waits}"));
        return;
    }
    if runtime.shutdown().is_err() {
        // Whoever looks next says who it is.
        director.fail("the shutdown does not come to its end".to_owned());
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
