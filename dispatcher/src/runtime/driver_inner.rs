//! The inside of a driver: its dispatchers, its shutdown with those who observe it, its power, and its panics.
//!
//! # Invariants
//! - A dispatcher is in `dispatchers` from its creation until its shutdown observer has returned.
//! - Once `phase` has left `Open`, no dispatcher is added, ever.

use std::collections::BTreeSet;

use super::call_stack;
use super::core::ShutdownObserver;
use super::counters::Counters;
use super::dispatcher::DispatcherInner;
use super::dispatcher_list::DispatcherList;
use super::driver::DriverState;
#[cfg(not(shuttle))]
use super::flavour::SourceIdentity;
use super::ids::{DispatcherId, DriverId};
use super::panic::{PanicPolicy, PanicReport};
use super::power::{CallDue, Completer, Power};
use super::runtime_inner::RuntimeInner;
use crate::pool::{Runnable, Turn};
use crate::status::Status;
use crate::sync::probe::{self, Actor, Note, Point};
use crate::sync::thread::{self, ThreadId};
use crate::sync::{Arc, Mutex};
#[cfg(not(shuttle))]
use crate::sys::Interest;
use crate::time::Instant;

enum Phase {
    Open,
    /// Its dispatchers shut down; the observer, if any, runs when none is left.
    ShuttingDown(Vec<ShutdownObserver>),
    /// The observer is running or has returned.
    Shutdown,
}

struct Core {
    phase: Phase,
    /// Numbers are given under the lock of this.
    dispatchers: DispatcherList,
    /// The first dispatcher that it ever had.
    first: Option<FirstDispatcher>,
    /// The numbers of those that are gone.
    retired: Counters,
    /// The thread that runs its observers, and since when.
    observing: Option<(ThreadId, Instant)>,
    /// Set when the observers have returned.
    is_over: bool,
    /// Creations that were refused count nowhere; panics do.
    panics: u64,
    /// The scheduler roles that it may use where that is enforced.
    allowed_roles: BTreeSet<String>,
}

/// The first dispatcher that a driver ever had.
#[derive(Debug, Clone, Copy)]
struct FirstDispatcher {
    id: DispatcherId,
    /// Its things may be touched on its own thread only.
    is_pinned: bool,
}

impl FirstDispatcher {
    fn of(dispatcher: &DispatcherInner) -> Self {
        FirstDispatcher { id: dispatcher.id(), is_pinned: dispatcher.pinned_to().is_some() }
    }

    /// The sequence that the driver's observers count to.
    fn sequence(self) -> Option<DispatcherId> {
        (!self.is_pinned).then_some(self.id)
    }
}

/// The inside of a driver.
pub(crate) struct DriverInner {
    id: DriverId,
    name: String,
    runtime: Arc<RuntimeInner>,
    core: Mutex<Core>,
    /// Held while a suspend or a resume goes through the dispatchers.
    transition: Mutex<()>,
    power: Mutex<Power>,
}

impl DriverInner {
    pub(crate) fn new(name: String, runtime: Arc<RuntimeInner>, open: bool) -> Arc<Self> {
        let core = Core {
            phase: if open { Phase::Open } else { Phase::Shutdown },
            dispatchers: DispatcherList::default(),
            first: None,
            retired: Counters::default(),
            observing: None,
            is_over: !open,
            panics: 0,
            allowed_roles: BTreeSet::new(),
        };
        let id = DriverId::fresh();
        probe::note(|| Note::DriverMade {
            driver: id.as_raw(),
            name: probe::intern(&name),
            runtime: Arc::as_ptr(&runtime).addr(),
        });
        Arc::new(DriverInner {
            id,
            name,
            runtime,
            core: Mutex::new(core),
            transition: Mutex::new(()),
            power: Mutex::new(Power::new()),
        })
    }

    pub(crate) fn id(&self) -> DriverId {
        self.id
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn runtime(&self) -> &Arc<RuntimeInner> {
        &self.runtime
    }

    pub(crate) fn batch(&self) -> u32 {
        self.runtime.batch()
    }

    pub(crate) fn inline_depth(&self) -> u32 {
        self.runtime.inline_depth()
    }

    /// Whether its shutdown has not begun.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.core.lock().phase, Phase::Open)
    }

    /// Whether its dispatchers may have this scheduler role.
    pub(crate) fn may_use_role(&self, role: &str) -> bool {
        role.is_empty() || !self.runtime.enforces_allowed_roles() || self.core.lock().allowed_roles.contains(role)
    }

    /// Its dispatchers may have this role from now on.
    pub(super) fn allow_role(&self, role: String) {
        self.core.lock().allowed_roles.insert(role);
    }

    /// Adds a dispatcher that `make` makes, unless the driver shuts down.
    pub(crate) fn add_dispatcher(
        &self,
        make: impl FnOnce() -> Arc<DispatcherInner>,
    ) -> Result<Arc<DispatcherInner>, Status> {
        let mut core = self.core.lock();
        if !matches!(core.phase, Phase::Open) {
            return Err(Status::BadState);
        }
        let dispatcher = make();
        core.first.get_or_insert_with(|| FirstDispatcher::of(&dispatcher));
        if self.power.lock().is_suspended() {
            dispatcher.start_parked();
        }
        core.dispatchers.push(Arc::clone(&dispatcher));
        Ok(dispatcher)
    }

    /// Whether it has no dispatcher that is not gone.
    pub(super) fn has_no_dispatcher(&self) -> bool {
        self.core.lock().dispatchers.is_empty()
    }

    /// The dispatchers that are not gone, oldest first.
    pub(crate) fn dispatchers(&self) -> Vec<Arc<DispatcherInner>> {
        self.core.lock().all()
    }

    pub(super) fn transition(&self) -> &Mutex<()> {
        &self.transition
    }

    pub(super) fn power(&self) -> &Mutex<Power> {
        &self.power
    }

    /// Counts as suspended from here on. Under the driver's lock, so that a dispatcher that is made meanwhile is among those
    /// that come back, or starts parked.
    pub(super) fn begin_suspend(&self, completer: Completer) -> Result<Vec<Arc<DispatcherInner>>, (Completer, Status)> {
        let core = self.core.lock();
        if !matches!(core.phase, Phase::Open) {
            return Err((completer, Status::BadState));
        }
        let begun = self.power.lock().begin_suspend(completer);
        begun.map(|()| core.all()).map_err(|completer| (completer, Status::AlreadyExists))
    }

    /// Counts as running again, if it was suspended; as above.
    pub(super) fn end_suspend(&self) -> Option<(Vec<Arc<DispatcherInner>>, CallDue)> {
        let core = self.core.lock();
        let due = self.power.lock().resume()?;
        Some((core.all(), due))
    }

    /// Adds a wake vector; false while it is suspended, and from the beginning of its shutdown on.
    #[cfg(not(shuttle))]
    pub(super) fn add_wake_vector(&self, source: SourceIdentity, interest: Interest) -> bool {
        let core = self.core.lock();
        matches!(core.phase, Phase::Open) && self.power.lock().add_vector(source, interest)
    }

    /// Runs the observers of a shutdown, if it has only waited for this moment.
    pub(super) fn finish_if_due(self: &Arc<Self>) {
        let observers = self.core.lock().observers_if_due(&self.power);
        if let Some(observers) = observers {
            self.run_observers(observers);
        }
    }

    /// A dispatcher's shutdown observer has returned.
    pub(crate) fn dispatcher_is_gone(self: &Arc<Self>, dispatcher: &Arc<DispatcherInner>) {
        let mut core = self.core.lock();
        let Some(gone) = core.dispatchers.remove(dispatcher.id()) else { return };
        core.retired += gone.retire();
        let observers = core.observers_if_due(&self.power);
        let was_last = core.dispatchers.is_empty();
        drop(core);
        drop(gone);
        match observers {
            Some(observers) => self.run_observers(observers),
            // Nobody waits for one of several.
            None if was_last => self.runtime.something_is_gone(),
            None => {}
        }
    }

    /// Begins the shutdown of all dispatchers, newest first, before it returns. The observer comes back if the driver
    /// is shutting down already.
    pub(crate) fn shutdown(self: &Arc<Self>, observer: ShutdownObserver) -> Result<(), ShutdownObserver> {
        let mut core = self.core.lock();
        if !matches!(core.phase, Phase::Open) {
            return Err(observer);
        }
        core.phase = Phase::ShuttingDown(vec![observer]);
        probe::note(|| Note::DriverShutdownBegan { driver: self.id.as_raw() });
        let dispatchers = core.all();
        drop(core);
        self.close_all(dispatchers);
        Ok(())
    }

    /// Like [`shutdown`](DriverInner::shutdown), with nobody to tell; nothing happens if it has begun.
    pub(crate) fn begin_shutdown(self: &Arc<Self>) {
        let mut core = self.core.lock();
        if !matches!(core.phase, Phase::Open) {
            return;
        }
        core.phase = Phase::ShuttingDown(Vec::new());
        probe::note(|| Note::DriverShutdownBegan { driver: self.id.as_raw() });
        let dispatchers = core.all();
        drop(core);
        self.close_all(dispatchers);
    }

    /// Adds an observer to a shutdown that was begun without one, such as by a panic; `Err` if it is over.
    pub(crate) fn observe_shutdown(self: &Arc<Self>, observer: ShutdownObserver) -> Result<(), ShutdownObserver> {
        let mut core = self.core.lock();
        match &mut core.phase {
            Phase::Open | Phase::Shutdown => Err(observer),
            Phase::ShuttingDown(observers) => {
                observers.push(observer);
                Ok(())
            }
        }
    }

    fn close_all(self: &Arc<Self>, dispatchers: Vec<Arc<DispatcherInner>>) {
        if dispatchers.is_empty() {
            // Nobody is there to finish last, so a turn of the default pool does it: the observer is never called
            // from inside this call.
            let last_turn: crate::pool::Task = Arc::new(ObserverTurn(Arc::clone(self)));
            self.runtime.default_pool().schedule(last_turn);
        }
        for dispatcher in dispatchers.iter().rev() {
            dispatcher.begin_shutdown();
        }
    }

    fn run_observers(self: &Arc<Self>, observers: Vec<ShutdownObserver>) {
        let first = self.core.lock().first;
        call_stack::within_observers(self, first.and_then(FirstDispatcher::sequence), || {
            let since = self.runtime.default_pool().coarse_now();
            self.core.lock().observing = Some((thread::current_id(), since));
            probe::note(|| Note::DriverObserverBegun { driver: self.id.as_raw() });
            for observer in observers {
                self.guard_panic(|| {
                    probe::point(Point::Begin);
                    observer();
                });
            }
            probe::note(|| Note::DriverObserverEnded { driver: self.id.as_raw() });
            let requester = self.power.lock().close();
            self.guard_panic(|| drop(requester));
        });
        {
            let mut core = self.core.lock();
            core.observing = None;
            core.is_over = true;
        }
        self.runtime.driver_is_over();
    }

    /// Runs user code that belongs to the driver and to no dispatcher, and reports its panic.
    pub(super) fn guard_panic(self: &Arc<Self>, user_code: impl FnOnce()) {
        if let Err(payload) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(user_code)) {
            self.panicked(PanicReport {
                driver: self.name.clone(),
                driver_id: self.id,
                dispatcher: String::new(),
                dispatcher_id: None,
                message: super::panic::message_of(payload),
            });
        }
    }

    /// Counts a refusal of a dispatcher that is gone.
    pub(crate) fn count_late_refusal(&self) {
        self.core.lock().retired.refused += 1;
    }

    /// Whether the driver has shut down, its observers included.
    pub(crate) fn is_over(&self) -> bool {
        self.core.lock().is_over
    }

    /// Where it stands in its life, and which thread runs its observers, since when.
    pub(crate) fn standing(&self) -> (DriverState, Option<(ThreadId, Instant)>) {
        let core = self.core.lock();
        let state = match core.phase {
            Phase::Open => DriverState::Running,
            _ if core.is_over => DriverState::Shutdown,
            _ => DriverState::ShuttingDown,
        };
        (state, core.observing)
    }

    /// Reports a panic, and carries the policy out.
    pub(crate) fn panicked(self: &Arc<Self>, report: PanicReport) {
        self.core.lock().panics += 1;
        probe::note(|| Note::Panicked { dispatcher: report.dispatcher_id.map(DispatcherId::as_raw) });
        tracing::error!(
            driver = report.driver,
            dispatcher = report.dispatcher,
            message = report.message,
            "a callback panicked"
        );
        self.runtime.tell_panic(&report);
        match self.runtime.panic_policy() {
            PanicPolicy::ShutdownDriver => self.begin_shutdown(),
            PanicPolicy::Abort => std::process::abort(),
            PanicPolicy::Continue => {}
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        let core = self.core.lock();
        core.retired + core.dispatchers.iter().map(|dispatcher| dispatcher.counters()).sum()
    }

    pub(crate) fn panics(&self) -> u64 {
        self.core.lock().panics
    }
}

impl Core {
    /// Its dispatchers, oldest first.
    fn all(&self) -> Vec<Arc<DispatcherInner>> {
        self.dispatchers.iter().map(Arc::clone).collect()
    }

    /// The observers, if the shutdown has begun, no dispatcher is left, and nobody is being told of a suspend. They are
    /// given out once.
    fn observers_if_due(&mut self, power: &Mutex<Power>) -> Option<Vec<ShutdownObserver>> {
        if !self.dispatchers.is_empty() || !power.lock().is_quiet() || !matches!(self.phase, Phase::ShuttingDown(_)) {
            return None;
        }
        match std::mem::replace(&mut self.phase, Phase::Shutdown) {
            Phase::ShuttingDown(observers) => Some(observers),
            Phase::Open | Phase::Shutdown => None,
        }
    }
}

impl Drop for DriverInner {
    fn drop(&mut self) {
        let (retired, is_over) = {
            let core = self.core.lock();
            (core.retired, core.is_over)
        };
        self.runtime.retire(self.id, retired);
        if !is_over {
            // Nobody is left who could use it or shut it down.
            self.runtime.driver_is_over();
        }
    }
}

/// The turn in which the observer of a driver without dispatchers runs.
struct ObserverTurn(Arc<DriverInner>);

impl Runnable for ObserverTurn {
    fn actor(&self) -> Actor {
        Actor::Driver(self.0.id.as_raw())
    }

    fn run_turn(self: Arc<Self>) -> Turn {
        self.0.finish_if_due();
        Turn::Done
    }
}
