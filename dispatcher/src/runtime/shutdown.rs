//! The shutdown of a dispatcher, in steps.
//!
//! 1. *Begin* (any thread, any number of times; [`DispatcherInner::begin_shutdown`]): from here on posts are refused.
//!    All that is armed is put behind what is ready, in this order: reads, waits, delayed tasks by deadline, what is
//!    parked, delayed tasks that are always on, work that no worker has started, irqs, tokens. Everything is marked
//!    `Canceled`, except what already has an outcome of its own: a peer that closed, a finished worker's result, a reply.
//!    Timers and descriptors are given back at once; no deadline is waited for.
//! 2. *Callbacks that run finish*, work that a worker runs included. Whoever leaves last schedules one more turn.
//! 3. *Cancel* ([`DispatcherInner::cancel_pending`]): one thread of the pool invokes all of it serially, with the
//!    dispatcher current. What such a callback takes back ends taken back; what it posts here is refused.
//! 4. *Futures*: each live one is woken, which hands it over, and it is dropped here. A waker that fires on another
//!    thread at this moment hands it over too; the turn ends and the next one goes on until none is left.
//! 5. *Observer*, once, last, with nothing pending. Then the dispatcher leaves its driver.
//!
//! Work that arrives meanwhile: a post or a registration is refused in every step (`BadState`); a timer, wait or message
//! that fires finds its operation already marked and changes nothing; a worker that finishes delivers its result in
//! step 2; a wake is taken until step 5, in which there is no future left to wake.

use std::collections::HashSet;

use super::active::{ActiveId, ActiveWhat};
use super::call_stack;
use super::callback_queue::{Entry, EventSource, OpId, Outcome, Stage, Then, with_free};
use super::core::Core;
use super::dispatcher::DispatcherInner;
use super::flavour::Flavour;
use super::ids::DispatcherId;
use super::state::{BeginShutdown, DispatcherState};
use crate::pool::{Task, Turn};
use crate::sync::probe::{self, Note, Point};
use crate::sync::{Arc, MutexGuard};

impl DispatcherInner {
    /// Begins the shutdown. Calls no user code.
    pub(crate) fn begin_shutdown(self: &Arc<Self>) {
        let mut core = self.lock();
        if core.state.begin_shutdown() == BeginShutdown::BegunBefore {
            return;
        }
        probe::note(|| Note::ShutdownBegan { dispatcher: self.id().as_raw() });
        self.close_inbox(&mut core);
        let Leftovers { sources, triggers } = core.mark_canceled(self.id());
        let stop = core.seldom.stop();
        let schedule = core.wants_schedule(self.options().synchronized);
        drop(core);
        if let Some(stop) = stop {
            stop.stop();
        }
        drop(triggers);
        for source in sources {
            self.take_down(source);
        }
        if schedule {
            self.schedule();
        }
    }

    /// Steps 3 to 5. The calling turn has entered, and nobody else is inside.
    pub(crate) fn cancel_pending(self: &Arc<Self>) -> Turn {
        let active = match call_stack::within_dispatcher(self, || self.cancel_and_observe()) {
            Ok(active) => active,
            Err(turn) => return turn,
        };
        let mut core = self.lock();
        core.active.exit(active, self.coarse_now());
        core.inside.callbacks -= 1;
        core.state.observer_returned();
        self.tell_if_idle(&core);
        drop(core);
        self.give_back();
        self.owner().dispatcher_is_gone(self);
        Turn::Done
    }

    /// Steps 3 to 5 as far as they call the code of others. `Err`: another turn is to go on, or nobody yet.
    fn cancel_and_observe(self: &Arc<Self>) -> Result<ActiveId, Turn> {
        self.cancel_ready();
        if self.wake_futures() {
            self.cancel_ready();
        }
        let mut core = self.lock();
        if core.futures.len() > 0 {
            // Some waker is on its way here on another thread.
            core.inside.callbacks -= 1;
            let again = !core.queue.is_ready_empty() && core.wants_schedule(self.options().synchronized);
            return Err(if again { Turn::Again(Arc::clone(self) as Task) } else { Turn::Done });
        }
        core.state.pending_is_over();
        let irqs = core.seldom.irqs_mut().map(std::mem::take);
        let observer = core.seldom.take_observer();
        let active = core.active.enter(ActiveWhat::ShutdownObserver, Flavour::ALWAYS_ON, self.coarse_now());
        drop(core);
        // What triggered them may be the caller's, and nobody else's.
        self.guard_panic(|| drop(irqs));
        probe::note(|| Note::ObserverBegun { dispatcher: self.id().as_raw() });
        if let Some(observer) = observer {
            self.guard_panic(|| {
                probe::point(Point::Begin);
                observer();
            });
        }
        probe::note(|| Note::ObserverEnded { dispatcher: self.id().as_raw() });
        Ok(active)
    }

    /// Invokes what is ready until nothing is.
    fn cancel_ready(self: &Arc<Self>) {
        let mut active = None;
        loop {
            let mut core = self.lock_as_it_is();
            if let Some(active) = active.take() {
                core = self.exit(core, active, self.coarse_now());
            }
            if core.queue.is_for_tray(false) {
                core = self.cancel_off_tray(core);
            }
            let Some((id, mut entry, location)) = core.queue.pop_ready() else { return };
            core.count_end(entry.kind, entry.outcome);
            active = Some(core.enter(&entry, location, self.coarse_now()));
            drop(core);
            self.note_begun(id, entry.outcome, false);
            // What is told an end does not wait again.
            let then = self.invoke(id, &mut entry.callback, entry.outcome);
            debug_assert_eq!(then, Then::Ended);
        }
    }

    /// Takes as many as it holds of what is next onto the tray of this thread and tells each that it is canceled, again and again
    /// as long as tasks follow each other. Most often that is one lock for all on a tray.
    #[inline(never)]
    fn cancel_off_tray<'a>(self: &'a Arc<Self>, mut core: MutexGuard<'a, Core>) -> MutexGuard<'a, Core> {
        with_free(|own| {
            let Some(own) = own else { return core };
            while core.queue.is_for_tray(true) && core.borrow_tray(own, self.id(), u32::MAX) {
                let mut now = self.coarse_now();
                while let Some(mut piece) = own.begin(now) {
                    drop(core);
                    let since = loop {
                        let id = own.name(piece.at());
                        self.note_begun(id, Outcome::Canceled, false);
                        let then = piece.work(|callback| self.invoke(id, callback, Outcome::Canceled));
                        debug_assert_eq!(then, Then::Ended, "what is told an end does not wait again");
                        let since = std::mem::replace(&mut now, self.coarse_now());
                        if since != now || own.is_listed() {
                            break since;
                        }
                        match own.begin(now) {
                            Some(next) => piece = next,
                            None => break since,
                        }
                    };
                    core = self.lock_as_it_is();
                    core.settle();
                    core.note_end(own, since, now);
                }
                core.give_tray_back(own, self.id());
                core = self.has_returned(core);
            }
            core
        })
    }

    /// Wakes every live future, which hands it over; false when there is none.
    fn wake_futures(&self) -> bool {
        let wakers = self.lock().futures.wakers();
        let any = !wakers.is_empty();
        for waker in wakers {
            waker.wake();
        }
        any
    }
}

/// What a shutdown leaves to be done without the lock.
#[derive(Default)]
struct Leftovers {
    /// To be disarmed.
    sources: Vec<EventSource>,
    /// Deliveries of irqs that are told `Canceled` instead; to be dropped.
    triggers: Vec<Entry>,
}

impl Core {
    /// Puts all that is pending into the order of cancellation.
    fn mark_canceled(&mut self, dispatcher: DispatcherId) -> Leftovers {
        let mut left = Leftovers::default();
        let parks_tray = self.parking.is_on && !self.queue.is_tray_empty();
        if self.queue.has_only_row() {
            if parks_tray {
                self.seldom.note_tray_is_parked(Vec::new());
            }
            self.parking.is_on = false;
            self.queue.cancel_row();
            return left;
        }
        let irqs: Vec<_> = self.queue.ids(Stage::Bound).collect();
        for &id in &irqs {
            let (source, trigger) = self.close_irq(dispatcher, id);
            left.sources.extend(source);
            left.triggers.extend(trigger);
        }
        self.parking.is_on = false;
        self.queue.cancel_row();
        let ready: Vec<_> = self.queue.ids(Stage::Ready).collect();
        for id in ready {
            self.cancel_unless_decided(id);
        }
        let (delayed, always_on_delayed) = self.delayed_by_deadline();
        let parked: Vec<_> = self.queue.ids(Stage::Parked).chain(self.queue.ids(Stage::ParkedWake)).collect();
        let mut order: Vec<_> = self.queue.ids(Stage::Reading).chain(self.queue.ids(Stage::Waiting)).collect();
        order.extend(delayed);
        let before_parked = order.len();
        order.extend(&parked);
        order.extend(always_on_delayed);
        order.extend(self.queue.ids(Stage::Offloaded));
        order.extend(irqs);
        order.extend(self.queue.ids(Stage::Token));
        if parks_tray {
            self.seldom.note_tray_is_parked(order[before_parked..].to_vec());
        }
        for id in parked {
            self.cancel_unless_decided(id);
        }
        for id in order {
            if self.queue.stage(id).is_some_and(Stage::is_armed) {
                let source = self.queue.decide(id, Outcome::Canceled);
                if !matches!(source, EventSource::None) {
                    left.sources.push(source);
                }
            }
            self.queue.move_to(id, Stage::Ready);
        }
        debug_assert_eq!(self.state, DispatcherState::ShuttingDown);
        left
    }

    /// Puts what a tray has given back where it would stand if it had been parked when the suspend came: a shutdown that came
    /// after that has put all that is parked behind what was ready and armed. `on_tray` of them are first in the queue now;
    /// `parked` and what comes after it is what the shutdown has put there.
    #[cold]
    pub(super) fn cancel_as_parked(&mut self, on_tray: usize, parked: &[OpId]) {
        self.queue.empty_row();
        // There may be many of both.
        let parked: HashSet<_> = parked.iter().collect();
        let ready: Vec<_> = self.queue.ids(Stage::Ready).collect();
        let (were_on_tray, others) = ready.split_at(on_tray.min(ready.len()));
        let behind = others.iter().position(|id| parked.contains(id)).unwrap_or(others.len());
        for &id in were_on_tray.iter().chain(&others[behind..]) {
            self.queue.move_to(id, Stage::Ready);
        }
    }

    /// Marks something that is ready or parked `Canceled`, unless it has an outcome of its own.
    fn cancel_unless_decided(&mut self, id: OpId) {
        if let Some(entry) = self.queue.entry_mut(id) {
            let is_decided = matches!(entry.outcome, Outcome::Failed(_)) || entry.kind.keeps_result();
            if !is_decided {
                entry.outcome = Outcome::Canceled;
            }
        }
    }

    /// Delayed tasks by deadline: regular ones, and those that are always on.
    fn delayed_by_deadline(&mut self) -> (Vec<OpId>, Vec<OpId>) {
        let mut delayed: Vec<_> = self.queue.ids(Stage::Delayed).collect();
        // Stable: equal deadlines keep the order in which they were posted.
        delayed.sort_by_key(|id| self.queue.details_mut(*id).map(|details| details.deadline));
        delayed.into_iter().partition(|id| !self.flavour(*id).is_always_on())
    }
}
