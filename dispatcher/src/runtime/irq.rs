//! Bound irqs: a handler that a dispatcher calls once for each trigger, until it is unbound.
//!
//! 1. *Bind*: the irq becomes an operation of the dispatcher, in [`Stage::Bound`], and its wait is armed.
//! 2. *Trigger*: the reactor takes the event. A [`Kind::Trigger`] is queued, or run inline, as for any other event.
//! 3. *Delivery*: the handler is lent out of the binding and called. It acknowledges the trigger, then or later by the
//!    handle; only then, and after the handler has returned, is the wait armed again. Triggers that come meanwhile are
//!    counted by the irq, and their level is looked at when the wait is armed: none is lost.
//! 4. *End*, once: `unbind` takes the operation out, with a delivery that is queued; or the shutdown of the dispatcher
//!    drops such a delivery and tells the handler `Canceled`, after everything else; or the irq cannot be armed again,
//!    and the handler is told why.
//!
//! A binding counts as one accepted callback: taken back when it is unbound, canceled at shutdown. Deliveries are
//! counted nowhere, as the wakes of a future are not.
//!
//! A panic of the handler is reported like any other; the handler stays bound, if the policy leaves it its dispatcher,
//! and the trigger counts as acknowledged only if it was.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;

use super::call_stack;
use super::callback_queue::{Callback, Entry, EventSource, Invoke, Kind, OpId, Outcome, Stage};
use super::core::Core;
use super::dispatcher::DispatcherInner;
use super::flavour::{Flavour, SourceIdentity};
use super::ids::DispatcherId;
use super::irq_state::{Ack, Arming, IrqState, Leftover};
use super::task::{CancelError, TakenBack};
use crate::event_loop::{EventTarget, Reactor, WaitId};
use crate::site::Site;
use crate::status::Status;
use crate::sync::probe::{self, Note, Point};
use crate::sync::{Arc, Mutex, Weak};
use crate::sys::Readiness;
use crate::time::Instant;

/// Why an irq could not be armed.
#[cfg(not(shuttle))]
pub(crate) type LineRefused = crate::event_loop::WaitRefused;
#[cfg(shuttle)]
pub(crate) type LineRefused = Status;

/// What triggers an irq.
pub(crate) trait Line: Send + Sync + 'static {
    /// Has `target` told once of a trigger; one that has not been taken counts.
    fn arm(&self, reactor: &Reactor, target: Arc<dyn EventTarget>, key: u64) -> Result<WaitId, LineRefused>;

    /// Takes all triggers since the last time. 0: there was none after all.
    fn take(&self) -> u64;

    /// What wake vectors know it by.
    fn identity(&self) -> Option<SourceIdentity>;

    /// The binding has ended: somebody else may bind it.
    fn release(&self);
}

/// A trigger, as the handler sees it.
#[derive(Debug)]
pub struct IrqEvent<'a> {
    count: u64,
    readiness: Readiness,
    acknowledged: &'a Cell<bool>,
}

impl IrqEvent<'_> {
    /// How often the irq was triggered since the last delivery, at least 1. Always 1 for an irq
    /// [over](crate::Irq::over) something else, which counts by itself.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What the source of the irq is ready for.
    pub fn readiness(&self) -> Readiness {
        self.readiness
    }

    /// Acknowledges the trigger: the next one is delivered when the handler has returned. Without it the irq stays
    /// silent until [`IrqHandle::ack`].
    pub fn ack(self) {
        self.acknowledged.set(true);
    }
}

/// A binding, without the type of its handler.
pub(crate) trait AnyIrq: Send + Sync + 'static {
    fn line(&self) -> &dyn Line;

    /// Calls the handler; whether it acknowledged.
    fn deliver(&self, dispatcher: &Arc<DispatcherInner>, count: u64, readiness: Readiness) -> bool;

    /// Calls the handler for the last time and drops it.
    fn end(&self, status: Status);
}

struct Binding<F> {
    line: Arc<dyn Line>,
    /// `None` while it is called, and when it has been told the end.
    handler: Mutex<Option<F>>,
}

impl<F> AnyIrq for Binding<F>
where
    F: FnMut(Result<IrqEvent<'_>, Status>) + Send + 'static,
{
    fn line(&self) -> &dyn Line {
        &*self.line
    }

    fn deliver(&self, dispatcher: &Arc<DispatcherInner>, count: u64, readiness: Readiness) -> bool {
        let lent = self.handler.lock().take();
        let Some(mut handler) = lent else { return false };
        let acknowledged = Cell::new(false);
        dispatcher.guard_panic(|| {
            probe::point(Point::Begin);
            handler(Ok(IrqEvent { count, readiness, acknowledged: &acknowledged }));
        });
        *self.handler.lock() = Some(handler);
        acknowledged.get()
    }

    fn end(&self, status: Status) {
        self.line.release();
        let last = self.handler.lock().take();
        if let Some(mut handler) = last {
            probe::point(Point::Begin);
            handler(Err(status));
        }
    }
}

/// The operation of a binding: what is called when it ends with its dispatcher.
struct IrqEnd(Arc<dyn AnyIrq>);

impl Invoke for IrqEnd {
    fn invoke(self, outcome: Outcome) {
        self.0.end(match outcome {
            Outcome::Failed(status) => status,
            Outcome::Canceled | Outcome::Done(_) => Status::Canceled,
        });
    }
}

/// One delivery.
struct Trigger {
    irq: OpId,
}

impl Invoke for Trigger {
    fn invoke(self, outcome: Outcome) {
        // At shutdown the irq itself is told, once.
        if let (Outcome::Done(bits), Some(dispatcher)) = (outcome, call_stack::current_dispatcher()) {
            dispatcher.deliver_irq(self.irq, Readiness::from_bits(bits as u8));
        }
    }
}

struct Bound {
    irq: Arc<dyn AnyIrq>,
    state: IrqState,
    location: Site,
}

/// The irqs that are bound to one dispatcher. Few have any, so the table is made for the first one.
#[allow(clippy::box_collection, reason = "one word in each dispatcher, instead of six that few use")]
#[derive(Default)]
pub(crate) struct Irqs(Option<Box<HashMap<OpId, Bound>>>);

impl Irqs {
    fn get(&self, id: &OpId) -> Option<&Bound> {
        self.0.as_ref()?.get(id)
    }

    fn get_mut(&mut self, id: &OpId) -> Option<&mut Bound> {
        self.0.as_mut()?.get_mut(id)
    }

    fn insert(&mut self, id: OpId, bound: Bound) {
        self.0.get_or_insert_default().insert(id, bound);
    }

    fn remove(&mut self, id: &OpId) -> Option<Bound> {
        self.0.as_mut()?.remove(id)
    }
}

impl Core {
    fn bound_irq(&mut self, id: OpId) -> Option<&mut Bound> {
        self.seldom.irqs_mut()?.get_mut(&id)
    }

    fn unbind_irq(&mut self, id: OpId) -> Option<Bound> {
        self.seldom.irqs_mut()?.remove(&id)
    }

    /// An irq was triggered: queues its delivery.
    pub(super) fn trigger_irq(&mut self, dispatcher: &DispatcherInner, id: OpId, outcome: Outcome) {
        let flavour = self.flavour(id);
        let stage = self.stage_of_event(dispatcher.owner(), flavour, outcome);
        let Some(bound) = self.seldom.irqs_mut().and_then(|irqs| irqs.get_mut(&id)) else { return };
        let Some(details) = self.queue.details_mut(id) else { return };
        let details =
            super::callback_queue::Details { source: EventSource::None, location: bound.location, ..*details };
        let entry = Entry { callback: Callback::new(Trigger { irq: id }), kind: Kind::Trigger, flavour, outcome };
        let trigger = self.queue.insert(entry, details, stage);
        bound.state.triggered(trigger);
        self.note_accepted(dispatcher.id(), trigger);
    }

    /// Whether a trigger of this irq would be delivered.
    pub(super) fn irq_listens(&self, id: OpId) -> bool {
        self.seldom.irqs().and_then(|irqs| irqs.get(&id)).is_some_and(|bound| bound.state.listens())
    }

    /// Ends a delivery that is queued; it comes back, to be dropped without the lock.
    fn remove_trigger(&mut self, owner: DispatcherId, trigger: OpId) -> Option<Entry> {
        let (entry, _) = self.queue.remove(trigger)?;
        probe::note(|| Note::TakenBack { ticket: trigger.ticket(owner) });
        Some(entry)
    }

    /// Closes an irq whose dispatcher shuts down; its operation is left. A delivery that was queued comes back, to be
    /// dropped without the lock.
    pub(super) fn close_irq(&mut self, owner: DispatcherId, id: OpId) -> (Option<EventSource>, Option<Entry>) {
        let Some(bound) = self.bound_irq(id) else { return (None, None) };
        let Leftover { wait, trigger, is_running: _ } = bound.state.close();
        let trigger = trigger.and_then(|trigger| self.remove_trigger(owner, trigger));
        (wait.map(EventSource::Wait), trigger)
    }
}

impl DispatcherInner {
    /// Binds `handler` to a line; it comes back with the reason if that cannot be.
    pub(crate) fn bind_irq<F>(
        self: &Arc<Self>,
        line: Arc<dyn Line>,
        handler: F,
        location: Site,
    ) -> Result<IrqHandle, (Option<LineRefused>, F)>
    where
        F: FnMut(Result<IrqEvent<'_>, Status>) + Send + 'static,
    {
        let binding = Arc::new(Binding { line, handler: Mutex::new(Some(handler)) });
        let irq: Arc<dyn AnyIrq> = Arc::clone(&binding) as Arc<dyn AnyIrq>;
        let take_handler = || binding.handler.lock().take().expect("a handler that was never bound is not called");
        let (state, arming) = IrqState::new();
        let accepted = self.accept_bound(location, Bound { irq, state, location });
        let Some(id) = accepted else { return Err((None, take_handler())) };
        let handle = IrqHandle { dispatcher: Arc::downgrade(self), id };
        if let Err(refused) = self.arm_irq(id, arming, &*binding) {
            let erased = self.refuse_after_all(id);
            if erased.is_none() {
                // A shutdown began meanwhile and tells the handler, so it was bound after all.
                return Ok(handle);
            }
            let bound = self.lock().unbind_irq(id);
            drop((erased, bound));
            return Err((Some(refused), take_handler()));
        }
        Ok(handle)
    }

    fn accept_bound(&self, location: Site, bound: Bound) -> Option<OpId> {
        let details = self.details(location, Instant::INFINITE);
        let mut core = self.admit().ok()?;
        let flavour = Flavour::of_source(bound.irq.line().identity());
        let callback = Callback::new(IrqEnd(Arc::clone(&bound.irq)));
        let id = core.queue.insert(
            Entry { callback, kind: Kind::Irq, flavour, outcome: Outcome::Done(0) },
            details,
            Stage::Bound,
        );
        core.seldom.irqs_or_new().insert(id, bound);
        core.note_accepted(self.id(), id);
        Some(id)
    }

    /// Arms the wait of an irq, and notes it unless the irq has been triggered or has ended meanwhile.
    fn arm_irq(self: &Arc<Self>, id: OpId, arming: Arming, irq: &dyn AnyIrq) -> Result<(), LineRefused> {
        let target: Arc<dyn EventTarget> = Arc::clone(self) as Arc<dyn EventTarget>;
        let wait = irq.line().arm(self.pool().reactor(), target, id.as_key())?;
        let noted = match self.lock().bound_irq(id) {
            Some(bound) => bound.state.armed(arming, wait),
            None => Err(wait),
        };
        if let Err(unwanted) = noted {
            self.take_down(EventSource::Wait(unwanted));
        }
        Ok(())
    }

    /// Arms the wait of an irq again. If that fails the irq ends: its handler is told why, in its turn.
    fn rearm_irq(self: &Arc<Self>, id: OpId, arming: Arming, irq: &dyn AnyIrq) {
        let Err(refused) = self.arm_irq(id, arming, irq) else { return };
        let mut core = self.lock();
        if core.queue.stage(id) != Some(Stage::Bound) {
            return;
        }
        let bound = core.unbind_irq(id);
        core.make_ready(self, id, Outcome::Failed(Status::from(refused)));
        let schedule = core.wants_schedule(self.options().synchronized);
        drop(core);
        drop(bound);
        if schedule {
            self.schedule();
        }
    }

    /// Calls the handler of an irq, on this thread, with the dispatcher current.
    fn deliver_irq(self: &Arc<Self>, id: OpId, readiness: Readiness) {
        let irq = {
            let mut core = self.lock();
            let Some(bound) = core.bound_irq(id) else { return };
            if !bound.state.run() {
                return;
            }
            Arc::clone(&bound.irq)
        };
        let acknowledged = match irq.line().take() {
            // Somebody else has taken it. Nothing to tell, and nothing to wait for.
            0 => true,
            count => irq.deliver(self, count, readiness),
        };
        let arming = {
            let mut core = self.lock();
            core.bound_irq(id).and_then(|bound| bound.state.returned(acknowledged))
        };
        if let Some(arming) = arming {
            self.rearm_irq(id, arming, &*irq);
        }
    }
}

/// A handle to a bound irq. Dropping it changes nothing: the irq stays bound.
#[derive(Clone)]
pub struct IrqHandle {
    dispatcher: Weak<DispatcherInner>,
    id: OpId,
}

impl IrqHandle {
    /// Acknowledges the last trigger, from outside of the handler: the next one is delivered from here on, or when the
    /// handler has returned.
    ///
    /// # Errors
    /// [`Status::BadState`] when there is nothing to acknowledge: no trigger has been delivered since the last time.
    /// [`Status::NotFound`] when the irq is not bound any more.
    ///
    /// # Thread requirements
    /// Any thread.
    pub fn ack(&self) -> Result<(), Status> {
        let dispatcher = self.dispatcher.upgrade().ok_or(Status::NotFound)?;
        probe::point(Point::Post);
        let mut core = dispatcher.lock();
        if core.queue.stage(self.id) != Some(Stage::Bound) {
            return Err(Status::NotFound);
        }
        let Some(bound) = core.bound_irq(self.id) else { return Err(Status::NotFound) };
        let irq = Arc::clone(&bound.irq);
        let ack = bound.state.acknowledge();
        drop(core);
        match ack {
            Ack::Arm(arming) => {
                dispatcher.rearm_irq(self.id, arming, &*irq);
                Ok(())
            }
            Ack::WhenReturned => Ok(()),
            Ack::Nothing => Err(Status::BadState),
        }
    }

    /// Ends the binding: no call of the handler begins any more, whatever was triggered and whoever has taken the
    /// event; it is not told of a shutdown either. The handler belongs to the caller.
    ///
    /// A call that is under way on another thread is not waited for; [`Unbound::is_running`] tells. On the callbacks of
    /// the synchronized dispatcher itself there is none, except the handler's own.
    ///
    /// # Errors
    /// [`CancelError`] when the irq is not bound: it was unbound before, or its dispatcher has told it of the end.
    ///
    /// # Thread requirements
    /// Any thread, the handler included, also while the dispatcher shuts down. (Fuchsia: R94 allows the bound
    /// dispatcher only.)
    pub fn unbind(&self) -> Result<Unbound, CancelError> {
        let dispatcher = self.dispatcher.upgrade().ok_or(CancelError)?;
        probe::point(Point::Cancel);
        let mut core = dispatcher.lock();
        let (entry, _) = core.queue.remove(self.id).ok_or(CancelError)?;
        core.counts.taken_back += 1;
        probe::note(|| Note::TakenBack { ticket: self.id.ticket(dispatcher.id()) });
        let bound = core.unbind_irq(self.id);
        let (leftover, irq) = match bound {
            Some(mut bound) => (bound.state.close(), Some(bound.irq)),
            // It could not be armed, and was about to be told so.
            None => (Leftover::default(), None),
        };
        let trigger = leftover.trigger.and_then(|trigger| core.remove_trigger(dispatcher.id(), trigger));
        dispatcher.tell_if_idle(&core);
        drop(core);
        if let Some(wait) = leftover.wait {
            dispatcher.take_down(EventSource::Wait(wait));
        }
        drop(trigger);
        if let Some(irq) = irq {
            irq.line().release();
        }
        Ok(Unbound { is_running: leftover.is_running, taken: TakenBack::new(entry.callback) })
    }
}

impl fmt::Debug for IrqHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IrqHandle").field("id", &self.id).finish_non_exhaustive()
    }
}

/// An irq that was unbound, with its handler, which is dropped with this value; one that is running when it returns, if
/// that is later.
#[derive(Debug)]
pub struct Unbound {
    is_running: bool,
    #[expect(dead_code, reason = "held to be dropped where the caller drops it")]
    taken: TakenBack,
}

impl Unbound {
    /// Whether the handler was running at that moment: on another thread, or it is the caller itself.
    pub fn is_running(&self) -> bool {
        self.is_running
    }
}
