//! The trigger: counts the moments of a run, and injects something at one of them.

use super::director::Listener;
use super::fallible::Fallible;
use super::target::{Injection, Target};
use super::trace::point_text;
use super::watch::Scene;
use crate::runtime::Runtime;
use crate::sync::probe::{self, Point, Scarce};
use crate::sync::{Arc, Mutex};

/// What is injected.
#[derive(Clone)]
pub(super) enum What {
    Shutdown(Target),
    Panic,
    Refusal(Fallible),
}

/// Injects something at its moment.
pub(super) struct Trigger {
    pub(super) what: What,
    pub(super) moment: u64,
    pub(super) scene: Arc<Mutex<Scene>>,
    pub(super) runtime: Runtime,
    pub(super) injection: Arc<Injection>,
    /// Whether the moment has come and the shutdown has not begun.
    pub(super) is_pending: bool,
}

impl Trigger {
    /// Counts a moment; whether it is the one.
    fn is_due(&self, step: u64) -> bool {
        let mut scene = self.scene.lock();
        if scene.is_scenario_over {
            return false;
        }
        scene.opportunities += 1;
        let is_due = scene.opportunities == self.moment;
        if is_due {
            scene.due = Some(step);
        }
        is_due
    }

    /// Notes that something is injected here.
    fn inject(&self, step: u64, describe: impl FnOnce(&Scene) -> String) {
        let mut scene = self.scene.lock();
        let description = describe(&scene);
        scene.injected = Some((step, description));
    }

    fn shut_down(&mut self, step: u64, describe: impl FnOnce(&Scene) -> String) {
        let What::Shutdown(target) = &self.what else { return };
        self.is_pending |= self.is_due(step);
        // A callback that was interrupted may hold a lock that the scenario's own action wants.
        if !self.is_pending || target.is_custom() && probe::is_interrupted() {
            return;
        }
        self.is_pending = false;
        self.inject(step, |scene| format!("{target} begins {}", describe(scene)));
        if !target.begin(&self.runtime, &self.injection) {
            self.scene.lock().injected = None;
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
        if is_begin && self.is_due(step) {
            self.inject(step, |scene| format!("a panic{}", in_what(scene)));
            self.injection.mark();
            panic!("on purpose, by the testing kit");
        }
    }

    fn refuses(&mut self, step: u64, what: Scarce) -> bool {
        let What::Refusal(op) = self.what else { return false };
        let is_refused = op.as_scarce() == what && self.is_due(step);
        if is_refused {
            self.inject(step, |scene| format!("{op}{}", in_what(scene)));
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
