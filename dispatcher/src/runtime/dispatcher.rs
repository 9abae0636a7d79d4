//! A dispatcher as the rest of the runtime sees it: who it is, what is pending, and how callbacks enter and leave.
//!
//! All that changes is in [`Core`], under one lock, which is held for a few instructions at a time and never while user
//! code runs. Turns are made in `turn.rs`, the shutdown in `shutdown.rs`, the public handles are in `handle.rs`.
//!
//! # Invariants
//! - A synchronized dispatcher has at most one thread inside: `inside.callbacks <= 1`.
//!
//! Those of [`Core`] stand in `core.rs`.

use std::any::Any;
use std::num::NonZeroU32;
use std::sync::OnceLock;

use super::active::{ActiveId, WaitsFor};
use super::again::GoesOn;
use super::callback_queue::{Callback, EventSource, OpId, Outcome, Stage, Then, with_lent};
use super::core::{Core, ShutdownObserver};
use super::counters::Counters;
use super::driver_inner::DriverInner;
use super::inbox::Inbox;
use super::inline::{self, Caller, Decision, Origin, Reason, Target};
use super::stop_token::StopState;
use super::{call_stack, ids::DispatcherId};
use crate::event_loop::Told;
use crate::pool::{Pool, Runnable as _, Task, ThreadIndex};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::probe::{self, Choice, Note};
use crate::sync::{Arc, Mutex, MutexGuard, thread};
use crate::time::Instant;

/// What a dispatcher is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) name: Box<str>,
    pub(crate) synchronized: bool,
    pub(crate) allow_sync_calls: bool,
    pub(crate) no_thread_migration: bool,
}

/// A dispatcher.
pub(crate) struct DispatcherInner {
    id: DispatcherId,
    options: Options,
    owner: Arc<DriverInner>,
    pool: Arc<Pool>,
    /// One more than the number of the base thread that everything of it runs on, if it is pinned.
    pinned_to: Option<NonZeroU32>,
    /// Whether callbacks may block: as it was made, until it is sealed. Written under the lock of `core`.
    allows_sync_calls: AtomicBool,
    core: Mutex<Core>,
    /// Made when it is opened for the first time.
    inbox: OnceLock<Box<Inbox>>,
}

/// An inline call that is still to be made: this thread is inside of the dispatcher, and the callback has left the table.
#[must_use = "a dispatcher that is entered has to be left"]
pub(crate) struct Claimed {
    dispatcher: Arc<DispatcherInner>,
    id: OpId,
    callback: Callback,
    active: ActiveId,
}

impl Claimed {
    /// Hands the callback what it waited for.
    pub(crate) fn hand(&mut self, what: &mut dyn Any) {
        self.callback.hand(what);
    }

    /// Makes the call. No lock is held.
    #[inline]
    pub(crate) fn run(mut self, outcome: Outcome) {
        let Claimed { dispatcher, id, callback, active } = &mut self;
        let (id, active) = (*id, *active);
        let locked = call_stack::within_dispatcher(dispatcher, || {
            dispatcher.note_begun(id, outcome, true);
            match dispatcher.invoke(id, callback, outcome) {
                Then::Ended => None,
                // It is called anew in its turn: the caller has waited long enough.
                Then::WaitsAgain => match dispatcher.wait_again(callback, active, false) {
                    GoesOn::Elsewhere(locked) => Some(locked),
                    GoesOn::Here(_) => unreachable!("an inline call is one"),
                },
            }
        });
        dispatcher.leave(locked.unwrap_or_else(|| dispatcher.lock()), active);
    }
}

/// Why a callback was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotAccepted;

impl DispatcherInner {
    pub(crate) fn new(
        id: DispatcherId,
        options: Options,
        owner: Arc<DriverInner>,
        pool: Arc<Pool>,
        pinned_to: Option<ThreadIndex>,
        observer: Option<ShutdownObserver>,
    ) -> Arc<Self> {
        let allows_sync_calls = options.allow_sync_calls;
        probe::note(|| Note::DispatcherMade {
            dispatcher: id.as_raw(),
            driver: owner.id().as_raw(),
            name: probe::intern(&options.name),
            synchronized: options.synchronized,
        });
        Arc::new(DispatcherInner {
            id,
            options,
            owner,
            core: Mutex::new(Core::new(observer)),
            inbox: OnceLock::new(),
            pool,
            pinned_to: pinned_to.map(|host| {
                let one_more = u32::try_from(host + 1).ok().and_then(NonZeroU32::new);
                one_more.expect("a pool has fewer threads")
            }),
            allows_sync_calls: AtomicBool::new(allows_sync_calls),
        })
    }

    pub(crate) fn id(&self) -> DispatcherId {
        self.id
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn owner(&self) -> &Arc<DriverInner> {
        &self.owner
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Whether its callbacks may block, at this moment.
    pub(crate) fn allows_sync_calls(&self) -> bool {
        // A change is made by a callback of its own, so its own callbacks see it; a decision about it is made under the
        // lock, under which it is changed.
        self.allows_sync_calls.load(Ordering::Relaxed)
    }

    /// Ends the right of its callbacks to block; false if they had none. The thread is to be given back then.
    pub(super) fn end_sync_calls(&self, _core: &mut Core) -> bool {
        self.allows_sync_calls.swap(false, Ordering::Relaxed)
    }

    /// The base thread of its pool that everything of it runs on, if it is pinned.
    pub(crate) fn pinned_to(&self) -> Option<ThreadIndex> {
        self.pinned_to.map(|one_more| one_more.get() as ThreadIndex - 1)
    }

    /// Locks, with everything that was posted before taken in, and what was done off a tray counted.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        let mut core = self.core.lock();
        if core.is_elsewhere() {
            self.look_elsewhere(&mut core);
        }
        core
    }

    #[cold]
    fn look_elsewhere(&self, core: &mut Core) {
        core.look_at_tray();
        if core.inbox_is_open {
            self.take_in(core);
        }
    }

    /// Locks for the next callback that is ready: what is in the inbox comes after it, and is left there.
    #[inline]
    pub(super) fn lock_as_it_is(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    #[inline(always)]
    pub(super) fn try_lock_as_it_is(&self) -> Option<MutexGuard<'_, Core>> {
        self.core.try_lock()
    }

    pub(super) fn inbox(&self) -> Option<&Inbox> {
        self.inbox.get().map(|inbox| &**inbox)
    }

    pub(super) fn inbox_or_new(&self) -> &Inbox {
        self.inbox.get_or_init(Box::default)
    }

    /// The time by the coarse clock.
    #[inline]
    pub(super) fn coarse_now(&self) -> Instant {
        self.pool.coarse_now()
    }

    pub(crate) fn now(&self) -> Instant {
        self.pool.reactor().clock().now()
    }

    /// The same time, without an atomic operation to make the coarse clock show it.
    pub(super) fn exact_now(&self) -> Instant {
        self.pool.reactor().clock().exact()
    }

    /// The state behind stop tokens, made when the first one is asked for.
    pub(crate) fn stop_state(&self) -> Arc<StopState> {
        // Made under the lock, so that a shutdown that begins at this moment either finds it or is seen by it.
        let mut core = self.lock();
        let is_stopping = !core.state.accepts();
        core.seldom.stop_or_new(is_stopping)
    }

    /// The numbers of this moment.
    pub(crate) fn counters(&self) -> Counters {
        self.lock().counters()
    }

    /// The numbers of this moment for the last time: what is refused later is the driver's to count.
    pub(crate) fn retire(&self) -> Counters {
        let mut core = self.lock();
        core.is_retired = true;
        core.counters()
    }

    /// Locks, and counts an acceptance that the caller carries out; or counts a refusal.
    #[inline]
    pub(crate) fn admit(&self) -> Result<MutexGuard<'_, Core>, NotAccepted> {
        let mut core = self.lock();
        if core.state.accepts() {
            core.counts.accepted += 1;
            return Ok(core);
        }
        drop(core);
        self.count_refusal();
        Err(NotAccepted)
    }

    /// Counts something that was not accepted.
    pub(crate) fn count_refusal(&self) {
        probe::note(|| Note::Refused { dispatcher: self.id.as_raw() });
        let mut core = self.core.lock();
        if !core.is_retired {
            core.counts.refused += 1;
            return;
        }
        drop(core);
        self.owner.count_late_refusal();
    }

    /// Turns an acceptance into a refusal, because what the callback waits for could not be armed. `None`: it has
    /// ended meanwhile (a shutdown told it), so it stays accepted.
    pub(crate) fn refuse_after_all(&self, id: OpId) -> Option<Callback> {
        let mut core = self.lock();
        let (entry, _) = core.queue.remove(id)?;
        core.counts.accepted -= 1;
        core.counts.refused += 1;
        probe::note(|| Note::RefusedAfterAll { ticket: id.ticket(self.id) });
        self.tell_if_idle(&core);
        Some(entry.callback)
    }

    /// Notes where an armed operation's event comes from; the source comes back if it is not wanted, so that the caller
    /// takes it down: the operation has ended, is about to be canceled, sleeps, or has another source by now.
    pub(crate) fn set_source(&self, id: OpId, source: EventSource) -> Result<(), EventSource> {
        let mut core = self.lock();
        match core.queue.stage(id) {
            Some(stage) if stage.is_armed() && !core.sleeps_through(id) => {
                match core.queue.details_mut(id) {
                    Some(details) if matches!(details.source, EventSource::None) => details.source = source,
                    _ => return Err(source),
                }
                Ok(())
            }
            _ => Err(source),
        }
    }

    /// What an armed operation waited for has happened: it is queued, or run here. Nothing happens if it ended before.
    pub(crate) fn complete(self: &Arc<Self>, id: OpId, outcome: Outcome, origin: Origin) {
        let mut claimed = None;
        let deferred = Arc::clone(self).claim(id, outcome, origin, |it| claimed = Some(it));
        if let Some(claimed) = claimed {
            claimed.run(outcome);
        }
        if let Some((dispatcher, true)) = deferred {
            dispatcher.schedule();
        }
    }

    /// The part of [`complete`](DispatcherInner::complete) that runs nothing, so that it can be done under a lock: what is
    /// left to do without is either to run what `inline` is given, or, if that is said, to schedule.
    #[inline]
    pub(crate) fn claim(
        self: Arc<Self>,
        id: OpId,
        outcome: Outcome,
        origin: Origin,
        inline: impl FnOnce(Claimed),
    ) -> Option<(Arc<Self>, bool)> {
        let caller = self.caller(origin);
        let mut core = self.lock();
        match self.decide(&mut core, id, origin, caller) {
            Some(Decision::Inline) => {
                core.inline_counts.inlined += 1;
                core.inside.callbacks += 1;
                let Some((entry, location, source)) = core.queue.to_be_called(id) else {
                    unreachable!("what is decided about is there")
                };
                probe::note(|| Note::Ready { ticket: id.ticket(self.id), told: outcome.as_told() });
                let (what, kind, flavour) = (Core::what_runs(entry, location), entry.kind, entry.flavour);
                core.count_end(kind, outcome);
                let active = core.active.enter(what, flavour, self.coarse_now());
                let callback = core.queue.take_callback(id).expect("it is there");
                drop(core);
                self.take_down(source);
                inline(Claimed { dispatcher: self, id, callback, active });
                None
            }
            Some(Decision::Deferred(reason)) => {
                core.inline_counts.deferred[reason as usize] += 1;
                let source = core.make_ready(&self, id, outcome);
                let schedule = core.wants_schedule(self.options.synchronized);
                drop(core);
                self.take_down(source);
                Some((self, schedule))
            }
            None => {
                drop(core);
                Some((self, false))
            }
        }
    }

    /// Like [`complete`](DispatcherInner::complete) for an event of the reactor, on a thread that leads and may not run
    /// anything yet. An inline call is *claimed*: the callback is ready, alone, and this thread is inside, so it is the
    /// next one whatever comes after it; [`run_claimed`](DispatcherInner::run_claimed) runs it.
    pub(crate) fn take_event(self: &Arc<Self>, id: OpId, outcome: Outcome, last: bool) -> Told {
        let origin = if last { Origin::Event } else { Origin::Queued };
        let caller = self.caller(origin);
        let mut core = self.lock();
        if core.sleeps_through(id) {
            return Told::All;
        }
        let Some(decision) = self.decide(&mut core, id, origin, caller) else { return Told::All };
        core.make_ready(self, id, outcome);
        match decision {
            Decision::Inline => {
                core.inline_counts.inlined += 1;
                core.inside.callbacks += 1;
                Told::RunHere
            }
            Decision::Deferred(reason) => {
                core.inline_counts.deferred[reason as usize] += 1;
                let schedule = core.wants_schedule(self.options.synchronized);
                let call_due = core.take_call_due();
                drop(core);
                if schedule {
                    self.schedule();
                }
                self.owner.schedule_call(call_due);
                Told::All
            }
        }
    }

    /// Notes what the callback waits for that this thread is inside of; what it waited for before comes back.
    pub(super) fn note_wait(&self, waits_for: Option<Box<WaitsFor>>) -> Option<Box<WaitsFor>> {
        let mut core = self.lock();
        with_lent(self.id.as_raw(), |own| core.list(own));
        core.active.note_wait(thread::current_id(), waits_for)
    }

    /// Whether an operation that becomes ready runs here; `None` when it has ended or is ready already.
    #[inline(always)]
    fn decide(&self, core: &mut Core, id: OpId, origin: Origin, caller: Caller) -> Option<Decision> {
        let stage = core.queue.stage(id)?;
        if !stage.is_armed() || stage == Stage::Bound && !core.irq_listens(id) {
            return None;
        }
        let target = Target {
            synchronized: self.options.synchronized,
            allows_sync_calls: self.allows_sync_calls(),
            busy: core.inside.callbacks > 0,
            queued: !core.queue.is_ready_empty(),
            parked: core.parking.is_on && !core.flavour(id).is_always_on(),
        };
        Some(match core.state.accepts() {
            true => match inline::decide(origin, target, caller) {
                Decision::Inline if probe::choose(Choice::Inline, 2) == 1 => Decision::Deferred(Reason::Explored),
                decision => decision,
            },
            false => Decision::Deferred(Reason::Queued),
        })
    }

    /// Ends a pending operation with `Canceled`, told in its turn: what is armed is queued, what is queued is told so
    /// instead of what it waited for, unless that is an end of its own, such as a peer that closed. Nothing happens if
    /// it has begun or ended. Calls no user code.
    pub(crate) fn cancel_with_notice(self: &Arc<Self>, id: OpId) {
        let mut core = self.lock();
        let Some(stage) = core.queue.stage(id) else { return };
        let Some(entry) = core.queue.entry_mut(id) else { return };
        let is_decided =
            matches!(entry.outcome, Outcome::Failed(_)) || stage == Stage::Ready && entry.kind.keeps_result();
        if stage == Stage::OffloadRunning || is_decided {
            return;
        }
        probe::note(|| Note::CancelAsked { ticket: id.ticket(self.id) });
        let source = core.queue.decide(id, Outcome::Canceled);
        if stage.is_armed() {
            let flavour = core.flavour(id);
            let ready = core.parking.stage_of_task(flavour);
            core.queue.move_to(id, ready);
            core.note_ready(self.id, id);
        }
        let schedule = core.wants_schedule(self.options.synchronized);
        drop(core);
        self.take_down(source);
        if schedule {
            self.schedule();
        }
    }

    /// Takes a pending operation back. The winner owns the callback; `None` when it has begun or ended.
    pub(crate) fn take_back(&self, id: OpId) -> Option<Callback> {
        let mut core = self.lock();
        if core.queue.stage(id) == Some(Stage::OffloadRunning) {
            return None;
        }
        let (entry, source) = core.queue.remove(id)?;
        core.counts.taken_back += 1;
        probe::note(|| Note::TakenBack { ticket: id.ticket(self.id) });
        self.tell_if_idle(&core);
        drop(core);
        self.take_down(source);
        Some(entry.callback)
    }

    /// Disarms a timer or a wait whose operation has ended.
    pub(crate) fn take_down(&self, source: EventSource) {
        match source {
            EventSource::None => {}
            EventSource::Timer(timer) => {
                self.pool.reactor().cancel_timer(timer);
            }
            EventSource::Wait(wait) => {
                self.pool.reactor().cancel_wait(wait);
            }
        }
    }

    /// Puts the dispatcher into its pool's run queue. `scheduled` has been set by the caller.
    pub(crate) fn schedule(self: &Arc<Self>) {
        let task: Task = Arc::clone(self) as Task;
        self.pool.schedule_at(task, self.place());
    }

    /// Like [`schedule`](DispatcherInner::schedule), for more callbacks to run beside the one that is about to.
    pub(crate) fn schedule_beside(self: &Arc<Self>) {
        let task: Task = Arc::clone(self) as Task;
        self.pool.schedule_beside(task);
    }

    #[inline(always)]
    fn caller(&self, origin: Origin) -> Caller {
        let depth_limit = self.owner.inline_depth();
        if origin == Origin::Queued {
            // The answer is known; spare the look at the stack.
            return Caller {
                on_own_pool: false,
                off_pinned_thread: false,
                owner_in_stack: false,
                allows_sync_calls: false,
                depth: 0,
                depth_limit,
            };
        }
        let view = call_stack::view(&self.owner);
        Caller {
            on_own_pool: self.pool.is_current(),
            off_pinned_thread: self.pinned_to().is_some_and(|host| !self.pool.is_on(host)),
            owner_in_stack: view.owner_in_stack,
            allows_sync_calls: view.allows_sync_calls,
            depth: view.depth,
            depth_limit,
        }
    }
}

impl std::fmt::Debug for DispatcherInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatcher").field("id", &self.id).field("options", &self.options).finish_non_exhaustive()
    }
}
