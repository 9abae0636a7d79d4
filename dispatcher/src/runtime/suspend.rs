//! Suspend and resume: how a driver stands still without losing anything.
//!
//! 1. *Suspend* (any thread): the driver counts as suspended, then each of its dispatchers *parks*, one after the
//!    other, under its own lock: what is ready moves to a list aside, in its order; timers of regular delayed tasks are
//!    disarmed; what the reactor takes from now on, and what is posted, is parked behind it. What was posted through
//!    [`always_on`](DispatcherHandle::always_on) stays and runs. Dispatchers that are made from now on start parked.
//! 2. *Complete*: when no regular callback executes any more on any of them, the completer is told, in a turn of its
//!    own. Nothing begins meanwhile, so this waits for at most one callback a thread. Work on lanes is not waited for.
//! 3. *Wake*: an event of a wake vector is parked like the others, in a list of its own, and the resume requester is
//!    called.
//! 4. *Resume* (any thread): what wake vectors told comes to the front of the queue, what was parked to its end, then
//!    delayed tasks whose time has come, by deadline; other timers are armed again. A suspend that was not complete
//!    ends `Canceled`.
//!
//! The shutdown of a dispatcher ends its parking: everything is told `Canceled` as ever. So the shutdown of a suspended
//! driver completes. The driver's observer waits for the completer and for a requester that is being called.
//!
//! Suspends and resumes of one driver take turns under its `transition` lock, under which nobody's code is called.

use std::fmt;

use super::active::ActiveId;
use super::call_stack;
use super::callback_queue::{EventSource, OpId, Outcome, Stage};
use super::core::Core;
use super::dispatcher::DispatcherInner;
use super::driver::Driver;
use super::driver_inner::DriverInner;
use super::flavour::Flavour;
#[cfg(doc)]
use super::handle::DispatcherHandle;
use super::ids::DispatcherId;
use super::power::{CallDue, Completer, DueCall, Power, Requester};
use crate::pool::{Runnable, Turn};
use crate::status::{Canceled, Status};
use crate::sync::probe::{self, Actor, Note, Point};
use crate::sync::{Arc, MutexGuard};
use crate::sys::Readiness;
use crate::time::Instant;

/// What of a suspend stands with each dispatcher, under its lock.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Parking {
    /// Whether regular callbacks are parked. Ends with the shutdown of the dispatcher.
    pub(crate) is_on: bool,
    /// Whether the driver's suspend waits for something that executes here.
    is_waited_for: bool,
    /// Whether a wake vector has had something to tell, for which a turn is to be scheduled.
    call_is_due: bool,
}

impl Parking {
    /// Whether the driver's suspend waits for something that executes here.
    pub(super) fn is_waited_for(self) -> bool {
        self.is_waited_for
    }

    /// Where something that is ready by itself goes, such as a task.
    pub(crate) fn stage_of_task(self, flavour: Flavour) -> Stage {
        if self.is_on && !flavour.is_always_on() { Stage::Parked } else { Stage::Ready }
    }
}

impl Core {
    /// Where a callback goes whose event has come.
    pub(super) fn stage_of_event(&mut self, owner: &DriverInner, flavour: Flavour, outcome: Outcome) -> Stage {
        let stage = self.parking.stage_of_task(flavour);
        let (Stage::Parked, Some(source), Outcome::Done(bits)) = (stage, flavour.source(), outcome) else {
            return stage;
        };
        let mut power = owner.power().lock();
        if !power.is_wake(source, Readiness::from_bits(bits as u8)) {
            return Stage::Parked;
        }
        self.parking.call_is_due |= power.wake() == CallDue::Yes;
        Stage::ParkedWake
    }

    /// Whether a call became due since the last time that somebody asked.
    pub(super) fn take_call_due(&mut self) -> CallDue {
        if std::mem::take(&mut self.parking.call_is_due) { CallDue::Yes } else { CallDue::No }
    }

    /// Whether a regular callback executes.
    fn executes_regular(&self) -> bool {
        // On a tray there are regular ones only.
        self.queue.has_tray() || self.active.iter().any(|active| !active.flavour.is_always_on())
    }

    /// Whether this is a timer that a parked dispatcher sleeps through: it is looked at again on resume.
    pub(super) fn sleeps_through(&mut self, id: OpId) -> bool {
        if !self.parking.is_on || self.queue.stage(id) != Some(Stage::Delayed) || self.flavour(id).is_always_on() {
            return false;
        }
        if let Some(details) = self.queue.details_mut(id) {
            details.source = EventSource::None;
        }
        true
    }

    pub(super) fn flavour(&mut self, id: OpId) -> Flavour {
        self.queue.entry_mut(id).map_or(Flavour::REGULAR, |entry| entry.flavour)
    }

    /// Step 1 here. What is to be disarmed comes back.
    fn park(&mut self, dispatcher: DispatcherId, power: &mut Power) -> (Vec<EventSource>, CallDue) {
        let wake_executes = self.active.iter().any(|active| {
            let source = active.flavour.source();
            source.is_some_and(|source| power.is_wake_source(source))
        });
        if !self.state.accepts() {
            return (Vec::new(), CallDue::No);
        }
        self.parking.is_on = true;
        let mut wake_is_queued = false;
        self.queue.empty_row();
        let ready: Vec<_> = self.queue.ids(Stage::Ready).collect();
        for id in ready {
            let Some(entry) = self.queue.entry_mut(id) else { continue };
            let (flavour, outcome) = (entry.flavour, entry.outcome);
            if flavour.is_always_on() {
                continue;
            }
            let is_wake = match (flavour.source(), outcome) {
                (Some(source), Outcome::Done(bits)) => power.is_wake(source, Readiness::from_bits(bits as u8)),
                _ => false,
            };
            wake_is_queued |= is_wake;
            self.queue.move_to(id, if is_wake { Stage::ParkedWake } else { Stage::Parked });
            self.note_ready(dispatcher, id);
        }
        let delayed: Vec<_> = self.queue.ids(Stage::Delayed).collect();
        let mut timers = Vec::new();
        for id in delayed {
            if !self.flavour(id).is_always_on()
                && let Some(details) = self.queue.details_mut(id)
            {
                timers.push(std::mem::replace(&mut details.source, EventSource::None));
            }
        }
        let due = if wake_executes || wake_is_queued { power.wake() } else { CallDue::No };
        (timers, due)
    }

    /// Parks what was on a tray while its dispatcher was parked: it comes before what was parked then.
    #[cold]
    pub(super) fn park_in_front(&mut self, dispatcher: DispatcherId) {
        let parked: Vec<_> = self.queue.ids(Stage::Parked).collect();
        self.queue.empty_row();
        let ready: Vec<_> = self.queue.ids(Stage::Ready).collect();
        let were_on_tray: Vec<_> = ready.into_iter().filter(|&id| !self.flavour(id).is_always_on()).collect();
        for id in were_on_tray.into_iter().chain(parked) {
            self.queue.move_to(id, Stage::Parked);
            self.note_ready(dispatcher, id);
        }
    }

    /// Step 4 here: what has to be disarmed, and which timers have to be armed.
    fn unpark(&mut self, dispatcher: DispatcherId, now: Instant) -> (Vec<EventSource>, Vec<(OpId, Instant)>) {
        self.parking.is_on = false;
        probe::note(|| Note::Unparked { dispatcher: dispatcher.as_raw() });
        self.queue.move_all_to_front(Stage::ParkedWake, Stage::Ready);
        let parked: Vec<_> = self.queue.ids(Stage::Parked).collect();
        for id in parked {
            self.queue.move_to(id, Stage::Ready);
        }
        let (mut due, mut later) = (Vec::new(), Vec::new());
        let delayed: Vec<_> = self.queue.ids(Stage::Delayed).collect();
        for id in delayed {
            let is_always_on = self.flavour(id).is_always_on();
            match self.queue.details_mut(id) {
                Some(details) if !is_always_on && details.deadline <= now => due.push((details.deadline, id)),
                Some(details) if !is_always_on && matches!(details.source, EventSource::None) => {
                    later.push((id, details.deadline));
                }
                _ => {}
            }
        }
        // Stable: equal deadlines keep the order in which they were posted.
        due.sort_by_key(|(deadline, _)| *deadline);
        let mut sources = Vec::new();
        for (_, id) in due {
            sources.push(self.queue.decide(id, Outcome::Done(0)));
            self.queue.move_to(id, Stage::Ready);
            self.note_ready(dispatcher, id);
        }
        (sources, later)
    }
}

impl DispatcherInner {
    /// Starts parked: its driver is suspended.
    pub(super) fn start_parked(&self) {
        self.lock().parking.is_on = true;
    }

    /// Steps 1 and 2 for this dispatcher.
    fn suspend(&self) -> CallDue {
        let mut core = self.lock();
        let (timers, due) = {
            let mut power = self.owner().power().lock();
            let parked = core.park(self.id(), &mut power);
            if core.executes_regular() {
                core.parking.is_waited_for = true;
                power.wait_for_one_more();
            }
            parked
        };
        self.tell_if_idle(&core);
        drop(core);
        for timer in timers {
            self.take_down(timer);
        }
        due
    }

    /// Step 4 for this dispatcher.
    fn resume(self: &Arc<Self>) {
        let now = self.now();
        let mut core = self.lock();
        core.parking.is_waited_for = false;
        if !core.parking.is_on {
            return;
        }
        let (sources, timers) = core.unpark(self.id(), now);
        let schedule = core.wants_schedule(self.options().synchronized);
        drop(core);
        for source in sources {
            self.take_down(source);
        }
        for (id, deadline) in timers {
            self.arm_timer(id, deadline);
        }
        if schedule {
            self.schedule();
        }
    }

    /// A callback has returned. If the driver's suspend waits for it, the driver is told so, for which the lock is let
    /// go for a moment; this thread still counts as inside. `now` is by the coarse clock.
    #[inline(always)]
    pub(crate) fn exit<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
        active: ActiveId,
        now: Instant,
    ) -> MutexGuard<'a, Core> {
        core.active.exit(active, now);
        self.has_returned(core)
    }

    /// Like [`exit`](DispatcherInner::exit) for a callback that was not listed.
    #[inline]
    pub(super) fn has_returned<'a>(&'a self, core: MutexGuard<'a, Core>) -> MutexGuard<'a, Core> {
        if core.parking.is_waited_for { self.report_if_quiet(core) } else { core }
    }

    #[cold]
    fn report_if_quiet<'a>(&'a self, mut core: MutexGuard<'a, Core>) -> MutexGuard<'a, Core> {
        if core.executes_regular() {
            return core;
        }
        core.parking.is_waited_for = false;
        let due = self.owner().power().lock().one_is_quiet();
        drop(core);
        self.owner().schedule_call(due);
        self.lock()
    }
}

impl DriverInner {
    /// Suspends; the completer comes back with the reason if that cannot be.
    pub(crate) fn suspend(self: &Arc<Self>, completer: Completer) -> Result<(), (Completer, Status)> {
        let transition = self.transition().lock();
        let dispatchers = self.begin_suspend(completer)?;
        for dispatcher in &dispatchers {
            let due = dispatcher.suspend();
            self.schedule_call(due);
        }
        let due = self.power().lock().one_is_quiet();
        self.schedule_call(due);
        // Before the dispatchers, of which this may hold the last ones.
        drop(transition);
        drop(dispatchers);
        Ok(())
    }

    /// Resumes; false if it is not suspended.
    pub(crate) fn resume(self: &Arc<Self>) -> bool {
        let transition = self.transition().lock();
        let Some((dispatchers, due)) = self.end_suspend() else { return false };
        for dispatcher in &dispatchers {
            dispatcher.resume();
        }
        self.schedule_call(due);
        drop(transition);
        drop(dispatchers);
        true
    }

    fn set_requester(self: &Arc<Self>, requester: Option<Requester>) {
        let (old, due) = self.power().lock().set_requester(requester);
        self.schedule_call(due);
        drop(old);
    }

    /// Schedules the turn that makes a call that is due.
    pub(crate) fn schedule_call(self: &Arc<Self>, due: CallDue) {
        if due == CallDue::Yes {
            self.runtime().default_pool().schedule(Arc::new(CallTurn(Arc::clone(self))));
        }
    }
}

/// The turn in which a completer or a requester is called, inside of the driver and of no dispatcher.
struct CallTurn(Arc<DriverInner>);

impl Runnable for CallTurn {
    fn actor(&self) -> Actor {
        Actor::Driver(self.0.id().as_raw())
    }

    fn run_turn(self: Arc<Self>) -> Turn {
        let driver = &self.0;
        let due = driver.power().lock().begin_call();
        call_stack::within_driver(driver, || {
            driver.guard_panic(|| {
                probe::point(Point::Begin);
                match due {
                    DueCall::Complete(completer, outcome) => completer(outcome),
                    DueCall::Request(requester) => requester(&Driver::from_inner(Arc::clone(driver))),
                    DueCall::Nothing => {}
                }
            });
        });
        driver.power().lock().end_call();
        driver.finish_if_due();
        Turn::Done
    }
}

impl Driver {
    /// Suspends the driver: its regular callbacks are parked until [`resume`](Driver::resume), and `completer` is
    /// called when none executes any more. What comes in meanwhile is accepted and parked behind them. What was posted
    /// through [`always_on`](crate::DispatcherHandle::always_on) runs as ever, and so does what a shutdown cancels.
    ///
    /// `completer` is called once, inside of the driver, on a thread of the default role's pool: with `Ok` when all is
    /// quiet, with `Err(Canceled)` when the driver was resumed first. Work on lanes is not waited for.
    ///
    /// # Errors
    /// [`SuspendError`] with the completer: [`Status::AlreadyExists`] when the driver is suspended or about to be,
    /// [`Status::BadState`] when it shuts down or has shut down.
    ///
    /// # Thread requirements
    /// Any thread, its own callbacks included. Never calls `completer` before it returns; a callback that suspends its
    /// own driver is one of those that are waited for.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::{DispatcherBuilder, RuntimeBuilder};
    /// use std::sync::mpsc::channel;
    /// use std::time::Duration;
    ///
    /// let runtime = RuntimeBuilder::new().build()?;
    /// let driver = runtime.new_driver("camera");
    /// let dispatcher = driver.new_dispatcher(DispatcherBuilder::new())?;
    /// let (sender, receiver) = channel();
    /// let suspended = sender.clone();
    /// driver.suspend(move |outcome| suspended.send(format!("{outcome:?}")).expect("it is awaited"))?;
    /// assert_eq!(receiver.recv()?, "Ok(())");
    ///
    /// dispatcher.post_task(move |_| sender.send("a frame".to_owned()).expect("it is awaited"))?;
    /// assert!(receiver.try_recv().is_err(), "it is parked");
    /// assert!(driver.resume());
    /// assert_eq!(receiver.recv()?, "a frame");
    /// runtime.shutdown(Duration::from_secs(5))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn suspend<F>(&self, completer: F) -> Result<(), SuspendError>
    where
        F: FnOnce(Result<(), Canceled>) + Send + 'static,
    {
        probe::point(Point::Post);
        let suspended = self.inner().suspend(Box::new(completer));
        suspended.map_err(|(completer, status)| SuspendError { completer, status })
    }

    /// Resumes the driver: what wake vectors told runs first, then what was parked, in its order, then delayed tasks
    /// whose time has come. False, and nothing happens, if it is not suspended.
    ///
    /// # Thread requirements
    /// Any thread, its own callbacks included.
    pub fn resume(&self) -> bool {
        self.inner().resume()
    }

    /// Whether it is suspended, or about to be.
    pub fn is_suspended(&self) -> bool {
        self.inner().power().lock().is_suspended()
    }

    /// Has `requester` called whenever a wake vector becomes ready while the driver is suspended, in place of the one
    /// before; at once, if that has happened already. It usually asks somebody who knows, or calls
    /// [`resume`](Driver::resume). Events that come together may be told by one call.
    ///
    /// It is called inside of the driver, on a thread of the default role's pool, and kept until the driver has shut
    /// down. It is given the driver, so that it need not hold it.
    ///
    /// # Thread requirements
    /// Any thread. Never calls `requester` before it returns.
    pub fn set_resume_requester(&self, requester: impl Fn(&Driver) + Send + Sync + 'static) {
        self.inner().set_requester(Some(Arc::new(requester)));
    }

    /// Takes the resume requester away. A call of it that is under way on another thread is not waited for.
    pub fn clear_resume_requester(&self) {
        self.inner().set_requester(None);
    }
}

/// A driver could not be suspended. It carries the completer.
pub struct SuspendError {
    completer: Completer,
    status: Status,
}

impl SuspendError {
    /// [`Status::AlreadyExists`] when it is suspended, [`Status::BadState`] when it shuts down.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The completer, which was not called.
    pub fn into_completer(self) -> Box<dyn FnOnce(Result<(), Canceled>) + Send> {
        self.completer
    }

    /// Drops the completer and keeps the status.
    pub fn into_status(self) -> Status {
        self.status
    }
}

impl fmt::Debug for SuspendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SuspendError").field(&self.status).finish()
    }
}

impl fmt::Display for SuspendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.status {
            Status::AlreadyExists => "the driver is suspended already; resume it first",
            _ => "the driver cannot be suspended: it shuts down",
        })
    }
}

impl std::error::Error for SuspendError {}

impl From<SuspendError> for Status {
    fn from(error: SuspendError) -> Status {
        error.status
    }
}
