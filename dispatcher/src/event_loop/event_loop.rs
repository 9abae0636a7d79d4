//! [`EventLoop`]: one thread's loop, as its own callbacks see it.
//!
//! What an iteration does is in `iteration.rs`, how a loop ends in `loop_end.rs`, how others make it stand still in
//! `pause_gate.rs`.
//!
//! | phase | means | left when |
//! |---|---|---|
//! | `Running` | all is served | a shutdown is asked for |
//! | `Draining` | teardown callbacks run, and whatever they lead to; everything is still accepted | nothing is left to do, or the time to linger has passed |
//! | `Closing` | nothing is accepted any more; what was accepted before is still run | nothing is left to do |
//! | `Ended` | everything is refused, all that users left behind has been dropped | |
//!
//! Between `Draining` and `Closing` the inbox closes in one step: each post is either run or refused. A panic of a
//! callback is caught, reported and counted; the loop goes on. No table is borrowed while user code runs, but for what
//! `job_table.rs` tells of.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use crate::event_loop::current;
use crate::event_loop::deferred::Deferred;
use crate::event_loop::handle::{LoopEvent, LoopHandle, LoopShared, Refused};
use crate::event_loop::hook::HookTable;
use crate::event_loop::job_table::JobTable;
use crate::event_loop::loop_local::LocalTable;
use crate::event_loop::loop_manager::{ManagerHandle, ManagerShared};
use crate::event_loop::loop_timers::LoopTimers;
use crate::event_loop::net::NetTable;
use crate::event_loop::panics::{LoopPanic, LoopPanicPolicy, PanicObserver, caught};
use crate::event_loop::parker::{Parker, Workload};
use crate::event_loop::pause::AtGate;
use crate::event_loop::rate_limiter::Limiters;
use crate::event_loop::reactor::{OwnPoll, Reactor};
use crate::event_loop::slots::Slots;
use crate::event_loop::summary::{Holder, LoopSummary};
use crate::event_loop::timer::TimerSlot;
use crate::event_loop::timers::TimerId;
use crate::event_loop::wait::WaitSlot;
use crate::event_loop::work::{WorkPolicies, WorkTable};
use crate::sync::{Arc, Chain, Inbox, SmallFn, Weak};
use crate::time::Instant;

/// Set in the keys under which waits are armed in the reactor; not set in those of timers.
pub(crate) const WAIT_KEY: u64 = 1 << 63;
pub(crate) const TIMER_KEY: u64 = 0;
/// A timer's key that no timer has: firing it only wakes the loop.
pub(super) const NOBODY: u64 = TIMER_KEY | (u64::MAX >> 1);

/// What a loop is made of before it has a thread. May be sent to the thread that is to run it; handles to the loop work
/// from the first moment.
pub(crate) struct LoopSeed {
    pub(crate) shared: Arc<LoopShared>,
    pub(crate) reactor: Arc<Reactor>,
    /// The reactor is looked at in each so many-th iteration while the loop does not sleep.
    pub(crate) poll_every: u32,
    pub(crate) policy: LoopPolicy,
    pub(crate) manager: Weak<ManagerShared>,
    /// Where the loop stands still when others of its manager want it to.
    pub(crate) at_gate: Option<AtGate>,
    closer: Closer,
}

/// Closes the queues of a loop when it goes, also when it never ran: a handle that outlives it is refused then.
struct Closer(Arc<LoopShared>);

impl Drop for Closer {
    fn drop(&mut self) {
        let left = (self.0.inbox.close(), self.0.events.close());
        if let Err(message) = caught(move || drop(left)) {
            tracing::error!(message, "a callback that a loop never ran panicked when it was dropped");
        }
    }
}

/// How a loop behaves at its end and on panics.
#[derive(Clone)]
pub(crate) struct LoopPolicy {
    /// How long, after the last teardown callback, whatever goes on may go on.
    pub(crate) linger: Duration,
    pub(crate) work: WorkPolicies,
    pub(crate) on_panic: LoopPanicPolicy,
    pub(crate) observer: Option<PanicObserver>,
}

impl Default for LoopPolicy {
    fn default() -> Self {
        LoopPolicy {
            linger: Duration::from_secs(5),
            work: WorkPolicies::default(),
            on_panic: LoopPanicPolicy::default(),
            observer: None,
        }
    }
}

impl LoopSeed {
    /// A loop to be, with its two seams: whose events it serves and how it sleeps.
    pub(crate) fn new(name: &str, tid: Option<u32>, reactor: Arc<Reactor>, parker: Arc<dyn Parker>) -> Self {
        let shared = LoopShared { tid, name: name.to_owned(), inbox: Inbox::new(), events: Inbox::new(), parker };
        let shared = Arc::new(shared);
        LoopSeed {
            closer: Closer(shared.clone()),
            shared,
            reactor,
            poll_every: 1,
            policy: LoopPolicy::default(),
            manager: Weak::new(),
            at_gate: None,
        }
    }

    pub(crate) fn handle(&self) -> LoopHandle {
        LoopHandle { shared: self.shared.clone() }
    }
}

/// See the table in the module's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Running,
    Draining,
    Closing,
    Ended,
}

type Teardown = Box<dyn FnOnce(&EventLoop)>;

/// What a loop keeps on its own thread. No part of it is borrowed while user code runs: see
/// `job_table.rs` for the one exception.
pub(crate) struct Local {
    pub(crate) shared: Arc<LoopShared>,
    pub(crate) reactor: Arc<Reactor>,
    /// The right to poll, if no other thread ever looks at the reactor.
    pub(super) own_poll: RefCell<Option<OwnPoll>>,
    pub(crate) jobs: JobTable,
    pub(crate) timers: RefCell<Slots<TimerSlot>>,
    pub(crate) loop_timers: LoopTimers,
    pub(crate) waits: RefCell<Slots<WaitSlot>>,
    pub(crate) work: RefCell<WorkTable>,
    pub(crate) hooks: RefCell<HookTable>,
    pub(crate) locals: RefCell<LocalTable>,
    pub(super) limiters: RefCell<Limiters>,
    pub(crate) net: RefCell<NetTable>,
    pub(crate) deferred: RefCell<Deferred>,
    pub(super) workload: RefCell<Box<dyn Workload>>,
    /// Taken from the inbox, not run yet. Those taken when the inbox was closed come after.
    pub(super) tasks: RefCell<Chain<SmallFn<EventLoop>>>,
    pub(super) last_tasks: RefCell<Chain<SmallFn<EventLoop>>>,
    pub(super) events: RefCell<VecDeque<LoopEvent>>,
    pub(super) teardown: RefCell<Vec<Teardown>>,
    /// Dropped when the shutdown begins.
    pub(super) until_shutdown: RefCell<Vec<Box<dyn std::any::Any>>>,
    pub(super) phase: Cell<Phase>,
    /// Set when the last teardown callback has returned: how long whatever goes on may go on.
    pub(super) linger_until: Cell<Option<(Instant, TimerId)>>,
    /// How many iterations are to come before the next that looks at the reactor.
    pub(super) until_poll: Cell<u32>,
    /// The loop has slept since its last look at the reactor, and sleeping looks at it.
    pub(super) has_slept: Cell<bool>,
    pub(super) poll_every: u32,
    pub(super) policy: LoopPolicy,
    pub(crate) manager: Weak<ManagerShared>,
    pub(crate) at_gate: Option<AtGate>,
    /// Callbacks called so far.
    pub(super) callbacks: Cell<u64>,
    pub(super) summary: RefCell<LoopSummary>,
    _closer: Closer,
}

impl Local {
    /// Whether timers, waits and work can still be given to the loop.
    pub(crate) fn accepts_arming(&self) -> bool {
        matches!(self.phase.get(), Phase::Running | Phase::Draining)
    }

    pub(super) fn has_own_poll(&self) -> bool {
        self.own_poll.borrow().is_some()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.phase.get() == Phase::Ended
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.phase.get() != Phase::Running
    }
}

/// The loop that runs on this thread, as it is lent to its callbacks. It cannot leave its thread; from elsewhere a
/// loop is reached by its [`LoopHandle`].
///
/// # Examples
/// ```compile_fail,E0277
/// # // Shows E1, D3.
/// use fuchsine_dispatcher::event_loop::EventLoop;
/// fn to_another_thread(event_loop: EventLoop) {
///     std::thread::spawn(move || event_loop.job(|_| {}));
/// }
/// ```
#[derive(Clone)]
pub struct EventLoop {
    local: Rc<Local>,
}

impl EventLoop {
    /// Makes a seed into a loop, on the thread that is to run it.
    pub(crate) fn with(seed: LoopSeed, workload: Box<dyn Workload>) -> EventLoop {
        let LoopSeed { shared, reactor, poll_every, policy, manager, at_gate, closer } = seed;
        let now = reactor.clock().now();
        let local = Rc::new(Local {
            shared,
            own_poll: RefCell::new(reactor.own_poll()),
            reactor,
            jobs: JobTable::new(),
            timers: RefCell::new(Slots::new()),
            loop_timers: LoopTimers::new(now),
            waits: RefCell::new(Slots::new()),
            work: RefCell::new(WorkTable::new()),
            hooks: RefCell::new(HookTable::default()),
            locals: RefCell::new(LocalTable::default()),
            limiters: RefCell::default(),
            net: RefCell::new(NetTable::new()),
            deferred: RefCell::default(),
            workload: RefCell::new(workload),
            tasks: RefCell::new(Chain::empty()),
            last_tasks: RefCell::new(Chain::empty()),
            events: RefCell::new(VecDeque::new()),
            teardown: RefCell::new(Vec::new()),
            until_shutdown: RefCell::new(Vec::new()),
            phase: Cell::new(Phase::Running),
            linger_until: Cell::new(None),
            until_poll: Cell::new(poll_every - 1),
            has_slept: Cell::new(false),
            poll_every,
            policy,
            manager,
            at_gate,
            callbacks: Cell::new(0),
            summary: RefCell::new(LoopSummary::default()),
            _closer: closer,
        });
        EventLoop { local }
    }

    /// The loop that runs on this thread; `None` on workers and on foreign threads.
    pub fn current() -> Option<EventLoop> {
        current::current()
    }

    /// The number of this loop in its manager.
    pub fn tid(&self) -> Option<u32> {
        self.local.shared.tid
    }

    /// A handle by which any thread reaches this loop.
    pub fn handle(&self) -> LoopHandle {
        LoopHandle { shared: self.local.shared.clone() }
    }

    /// The manager of this loop, as long as it exists; `None` for a loop that has none.
    pub fn manager(&self) -> Option<ManagerHandle> {
        self.local.manager.upgrade().map(ManagerHandle::new)
    }

    /// The time: exact, and on the clock that this loop's timers use.
    ///
    /// It is not the time of day, and cannot be mistaken for it:
    /// ```compile_fail,E0308
    /// # // Shows E31, L21.
    /// # use fuchsine_dispatcher::event_loop::EventLoop;
    /// fn time_of_day(event_loop: &EventLoop) -> std::time::SystemTime {
    ///     event_loop.now()
    /// }
    /// ```
    pub fn now(&self) -> Instant {
        self.local.reactor.clock().exact()
    }

    /// Whether a shutdown has begun. True from before the first teardown callback.
    pub fn is_shutting_down(&self) -> bool {
        self.local.is_shutting_down()
    }

    /// Runs `callback` on this loop, in a later iteration, after everything that was posted before.
    ///
    /// # Errors
    /// [`Refused`] with the callback in it, once the loop accepts nothing any more.
    pub fn async_run<F>(&self, callback: F) -> Result<(), Refused<F>>
    where
        F: FnOnce(&EventLoop) + Send + 'static,
    {
        self.handle().async_run(callback)
    }

    /// Runs `callback` when the loop shuts down: as an ordinary asynchronous callback, after the teardown callbacks
    /// registered before, on a loop that still accepts everything.
    ///
    /// # Errors
    /// [`Refused`] with the callback in it, once the shutdown has begun.
    pub fn teardown<F: FnOnce(&EventLoop) + 'static>(&self, callback: F) -> Result<(), Refused<F>> {
        if self.is_shutting_down() {
            return Err(Refused::new(callback));
        }
        self.local.teardown.borrow_mut().push(Box::new(callback));
        Ok(())
    }

    pub(crate) fn local(&self) -> &Rc<Local> {
        &self.local
    }

    pub(crate) fn shared(&self) -> &Arc<LoopShared> {
        &self.local.shared
    }

    pub(crate) fn accepts_arming(&self) -> bool {
        self.local.accepts_arming()
    }

    /// What keeps the loop from ending once a shutdown has begun: timers, waits and signal handlers that were armed since
    /// then, and all work that has not come to its end. Of what kind each is, and where it was made. Empty until then,
    /// as nothing that was armed before holds a loop.
    pub fn holders(&self) -> Vec<Holder> {
        let local = &*self.local;
        if !local.is_shutting_down() {
            return Vec::new();
        }
        let (timers, waits, work) = (local.timers.borrow(), local.waits.borrow(), local.work.borrow());
        let timers = timers.iter().filter_map(TimerSlot::holder);
        timers.chain(waits.iter().filter_map(WaitSlot::holder)).chain(work.holders()).collect()
    }

    /// Keeps a value until the shutdown begins.
    pub(crate) fn keep_until_shutdown(&self, value: impl std::any::Any) {
        self.local.until_shutdown.borrow_mut().push(Box::new(value));
    }

    /// Calls user code: counts it, and reports its panic.
    pub(crate) fn call(&self, kind: &'static str, body: impl FnOnce()) {
        self.before_callbacks();
        self.call_next(kind, body);
    }

    /// Callbacks are about to be called, by [`EventLoop::call_next`].
    pub(crate) fn before_callbacks(&self) {
        self.local.shared.parker.before_callback();
    }

    /// [`EventLoop::call`] for one of several in a row.
    pub(crate) fn call_next(&self, kind: &'static str, body: impl FnOnce()) {
        self.count_callback();
        self.guarded(kind, body);
    }

    /// A callback is about to be called, under a guard that is there already.
    pub(crate) fn count_callback(&self) {
        self.local.callbacks.set(self.local.callbacks.get() + 1);
    }

    /// Calls user code that counts as no callback, or that counts itself, and reports its panic. `None`: it panicked.
    pub(crate) fn guarded<R>(&self, kind: &'static str, body: impl FnOnce() -> R) -> Option<R> {
        caught(body).map_err(|message| self.report(kind, message)).ok()
    }

    #[cold]
    fn report(&self, callback: &'static str, message: String) {
        self.local.summary.borrow_mut().panics += 1;
        let policy = &self.local.policy;
        let panic = LoopPanic { loop_name: self.local.shared.name.clone(), callback, message };
        tracing::error!(%panic, policy = ?policy.on_panic, "a callback panicked");
        if let Some(observer) = &policy.observer
            && let Err(message) = caught(|| observer(&panic))
        {
            tracing::error!(message, "the panic observer of a loop panicked in its turn");
        }
        if policy.on_panic == LoopPanicPolicy::Shutdown {
            match self.manager() {
                Some(manager) => manager.shutdown(),
                None => self.handle().begin_shutdown(),
            }
        }
    }

    /// Puts an event aside that arose on this very thread.
    pub(crate) fn take_event(&self, event: &mut Option<LoopEvent>) {
        self.local.events.borrow_mut().extend(event.take());
    }
}

impl fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = &*self.local;
        f.debug_struct("EventLoop").field("name", &local.shared.name).field("phase", &local.phase.get()).finish()
    }
}

#[cfg(test)]
#[path = "loop_tests.rs"]
mod tests;
