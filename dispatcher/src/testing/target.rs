//! What is shut down in the middle of a run, and how.

use std::fmt;

use crate::runtime::Runtime;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex};

/// What [`shutdown_at_every_step`](super::shutdown_at_every_step) shuts down.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Target(Kind);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Kind {
    Runtime,
    Driver(String),
    Dispatcher(String),
    Custom(String),
}

impl Target {
    /// The runtime with all its drivers.
    pub fn runtime() -> Self {
        Target(Kind::Runtime)
    }

    /// The drivers of this name.
    pub fn driver(name: impl Into<String>) -> Self {
        Target(Kind::Driver(name.into()))
    }

    /// The dispatchers of this name.
    pub fn dispatcher(name: impl Into<String>) -> Self {
        Target(Kind::Dispatcher(name.into()))
    }

    /// What the scenario has said by [`on_injection`](super::ForegroundRuntime::on_injection); reports call it by this
    /// name, such as "stop the host".
    pub fn custom(name: impl Into<String>) -> Self {
        Target(Kind::Custom(name.into()))
    }

    /// Begins the shutdown; false if there is no such thing (yet, or any more).
    pub(super) fn begin(&self, runtime: &Runtime, injection: &Injection) -> bool {
        let drivers = || runtime.inner().drivers().into_iter();
        match &self.0 {
            Kind::Runtime => {
                injection.mark();
                runtime.shutdown_async();
                true
            }
            Kind::Driver(name) => {
                let found: Vec<_> = drivers().filter(|driver| driver.name() == name && driver.is_open()).collect();
                if !found.is_empty() {
                    injection.mark();
                }
                found.iter().for_each(|driver| driver.begin_shutdown());
                !found.is_empty()
            }
            Kind::Dispatcher(name) => {
                let all = drivers().flat_map(|driver| driver.dispatchers());
                let is_it = |name_of: &str| name_of == name;
                let found: Vec<_> =
                    all.filter(|one| is_it(&one.options().name) && one.lock().state.accepts()).collect();
                if !found.is_empty() {
                    injection.mark();
                }
                found.iter().for_each(|dispatcher| dispatcher.begin_shutdown());
                !found.is_empty()
            }
            Kind::Custom(_) => injection.act(),
        }
    }

    /// The drivers and dispatchers that have to end, by name; both `None` if that is not known.
    pub(super) fn names(&self) -> (Option<&str>, Option<&str>) {
        match &self.0 {
            Kind::Driver(name) => (Some(name), None),
            Kind::Dispatcher(name) => (None, Some(name)),
            Kind::Runtime | Kind::Custom(_) => (None, None),
        }
    }

    /// Whether it is the scenario's own action.
    pub(super) fn is_custom(&self) -> bool {
        matches!(self.0, Kind::Custom(_))
    }

    /// Whether everything has to end.
    pub(super) fn is_runtime(&self) -> bool {
        self.0 == Kind::Runtime
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Runtime => f.write_str("the shutdown of the runtime"),
            Kind::Driver(name) => write!(f, "the shutdown of driver {name:?}"),
            Kind::Dispatcher(name) => write!(f, "the shutdown of dispatcher {name:?}"),
            Kind::Custom(name) => write!(f, "{name:?}"),
        }
    }
}

type Action = Box<dyn FnOnce() + Send>;

/// What a scenario and whoever injects something into it share.
#[derive(Default)]
pub(super) struct Injection {
    was_made: AtomicBool,
    action: Mutex<Option<Action>>,
}

impl Injection {
    /// Has `action` done by the next injection, in place of the one before.
    pub(super) fn set_action(&self, action: Action) {
        let before = self.action.lock().replace(action);
        drop(before);
    }

    /// The scenario is over: what it holds goes.
    pub(super) fn clear(&self) {
        let action = self.action.lock().take();
        drop(action);
    }

    /// Does what the scenario has said; false if that is nothing.
    fn act(&self) -> bool {
        let action = self.action.lock().take();
        let Some(action) = action else { return false };
        self.mark();
        action();
        true
    }

    pub(super) fn mark(&self) {
        // Whoever looks does so on a thread that moves after this one.
        self.was_made.store(true, Ordering::Relaxed);
    }

    pub(super) fn was_made(&self) -> bool {
        self.was_made.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Injection").field("was_made", &self.was_made()).finish_non_exhaustive()
    }
}

impl super::ForegroundRuntime {
    /// Says what [`Target::custom`] does when its moment has come: ask a host to stop, say. It is called once, on
    /// whatever thread moves then, in the middle of a callback as likely as not: it must not block, nor want a lock that a
    /// callback holds while it posts.
    ///
    /// Outside of an injecting run nothing ever calls it.
    pub fn on_injection(&self, action: impl FnOnce() + Send + 'static) {
        self.injection().set_action(Box::new(action));
    }

    /// Whether something was injected into this run: a scenario that looks at outcomes looks here first, as from then on
    /// posts may be refused and results are missing for a reason. Never outside of an injecting run.
    pub fn was_injected(&self) -> bool {
        self.injection().was_made()
    }

    pub(super) fn injection(&self) -> &Arc<Injection> {
        &self.injection
    }
}
