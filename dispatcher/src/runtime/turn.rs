//! Turns: how a pool thread runs what a dispatcher has ready, and how a thread leaves a dispatcher.
//!
//! 1. The thread takes the dispatcher off the run queue, enters it (a synchronized one admits one thread), and invokes
//!    up to `batch` callbacks, each taken from the queue under the lock and invoked without it.
//! 2. When it leaves, and something is ready, the dispatcher goes to the back of the run queue.
//! 3. An unsynchronized dispatcher is put back before its callback is invoked if more is ready, so that another thread
//!    can claim the next one meanwhile.
//! 4. While a shutdown is under way, whoever leaves last makes the turn that cancels (`shutdown.rs`).
//!
//! A panic is caught at each invocation and never unwinds through another callback; the closure's own drop included.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::active::{ActiveId, ActiveWhat};
use super::again::{BEGUN_AGAIN, GoesOn};
use super::call_stack;
use super::callback_queue::{Callback, OpId, Outcome, OwnTray, Posted, Stage, Taken, Then, with_free};
use super::core::Core;
use super::dispatcher::DispatcherInner;
use super::panic::{PanicReport, message_of};
use super::state::{DispatcherState, NextTurn};
use super::trace;
use crate::pool::{Place, Runnable, Turn};
use crate::sync::probe::{self, Actor, Choice, Note};
use crate::sync::{Arc, MutexGuard};
use crate::time::Instant;

impl Runnable for DispatcherInner {
    fn place(&self) -> Place {
        match self.pinned_to() {
            Some(host) => Place::On(host),
            None if self.allows_sync_calls() => Place::MayBlock,
            None => Place::Anywhere,
        }
    }

    fn actor(&self) -> Actor {
        Actor::Dispatcher(self.id().as_raw())
    }

    fn run_turn(self: Arc<Self>) -> Turn {
        let mut core = self.lock_as_it_is();
        core.scheduled = false;
        match core.state.next_turn(core.inside) {
            NextTurn::Nothing => Turn::Done,
            NextTurn::CancelPending => {
                core.inside.callbacks += 1;
                drop(core);
                self.cancel_pending()
            }
            NextTurn::RunCallbacks => {
                if self.options().synchronized && core.inside.callbacks > 0 {
                    // The thread inside looks at the queue when it leaves.
                    return Turn::Done;
                }
                core.inside.callbacks += 1;
                match self.run_ready(core) {
                    true => Turn::Again(self),
                    false => Turn::Done,
                }
            }
        }
    }
}

impl DispatcherInner {
    /// Runs a batch of what is ready; the thread has entered, and leaves. Whether it is to be put into the run queue.
    fn run_ready<'a>(self: &'a Arc<Self>, core: MutexGuard<'a, Core>) -> bool {
        let mut core = call_stack::within_dispatcher(self, || self.run_batch(core));
        self.has_left(&mut core)
    }

    /// Most turns of a synchronized dispatcher have one task, and nothing comes while it runs: this is their way, on which each
    /// question is asked once. Every other turn goes on with what it has left, or goes the long way from the beginning.
    #[inline(always)]
    fn run_batch<'a>(self: &'a Arc<Self>, mut core: MutexGuard<'a, Core>) -> MutexGuard<'a, Core> {
        let now = self.coarse_now();
        if !self.options().synchronized || !core.is_plain() {
            return self.run_several(core, self.owner().batch(), now);
        }
        let id = core.queue.first_of_row();
        let Some(mut posted) = core.queue.pop_alone() else {
            return self.run_several(core, self.owner().batch(), now);
        };
        let Posted { manner, location, .. } = posted;
        let (kind, flavour) = (manner.kind(), manner.flavour());
        core.count_end(kind, Outcome::Done(0));
        let what = ActiveWhat::Callback { kind, type_name: posted.callback.type_name_of(), location };
        let active = core.active.enter(what, flavour, now);
        drop(core);
        self.note_begun(id, Outcome::Done(0), false);
        let then = self.invoke(id, &mut posted.callback, Outcome::Done(0));
        debug_assert_eq!(then, Then::Ended, "what stands in the row does not wait again");
        let mut core = self.lock_as_it_is();
        let now = self.coarse_now();
        core.active.exit(active, now);
        if core.is_plain() && core.queue.is_ready_empty() {
            return core;
        }
        self.run_several(self.has_returned(core), self.owner().batch() - 1, now)
    }

    /// Where several tasks of a synchronized dispatcher follow each other they are called off the tray of this thread. For all
    /// others the lock is taken once a callback: the end of one and the beginning of the next are one step. `left` is what is
    /// left of the batch, at `now` by the coarse clock.
    #[inline(never)]
    fn run_several<'a>(
        self: &'a Arc<Self>,
        mut core: MutexGuard<'a, Core>,
        mut left: u32,
        mut now: Instant,
    ) -> MutexGuard<'a, Core> {
        let batch = self.owner().batch();
        while left > 0 && core.state == DispatcherState::Running {
            if core.queue.is_ready_empty() {
                if !core.inbox_is_open {
                    break;
                }
                self.take_in(&mut core);
            }
            // One that is alone is called quicker from where it is put here; what follows it may be more.
            if self.options().synchronized && core.queue.is_for_tray(left < batch) {
                let ran;
                (core, ran, now) = self.run_tray(core, left, now);
                left -= ran;
                if ran > 0 {
                    continue;
                }
            }
            left -= 1;
            // What stands in the row is called from where it is put here, without a move in between.
            let nth = self.choose_next(&core);
            let posted = if nth == 0 { core.queue.pop_posted() } else { None };
            (core, now) = match posted {
                Some((id, mut posted)) => {
                    let Posted { manner, location, .. } = posted;
                    let (kind, flavour) = (manner.kind(), manner.flavour());
                    let outcome = core.queue.row_outcome();
                    let taken = Taken { id, kind, flavour, location, outcome };
                    self.run(core, taken, &mut posted.callback, now, &mut left)
                }
                None => self.run_listed(core, nth, now, &mut left),
            };
        }
        core
    }

    /// Takes up to `most` of what is next onto the tray of this thread, and calls them and what they post here. How many were
    /// called, and what time it is; none, if the tray is in use or what is next cannot be put there.
    #[inline(never)]
    fn run_tray<'a>(
        self: &'a Arc<Self>,
        mut core: MutexGuard<'a, Core>,
        most: u32,
        now: Instant,
    ) -> (MutexGuard<'a, Core>, u32, Instant) {
        with_free(|own| match own {
            Some(own) if core.borrow_tray(own, self.id(), most) => self.work_off(core, own, most, now),
            _ => (core, 0, now),
        })
    }

    /// Calls up to `most` off the tray, on which there is something, and gives it back.
    #[inline(always)]
    fn work_off<'a>(
        self: &'a Arc<Self>,
        mut core: MutexGuard<'a, Core>,
        own: &OwnTray,
        most: u32,
        mut now: Instant,
    ) -> (MutexGuard<'a, Core>, u32, Instant) {
        let mut ran = 0;
        while let Some(mut piece) = own.begin(now) {
            drop(core);
            let since = loop {
                let id = own.name(piece.at());
                self.note_begun(id, Outcome::Done(0), false);
                let then = piece.work(|callback| self.invoke(id, callback, Outcome::Done(0)));
                debug_assert_eq!(then, Then::Ended, "a task does not wait again");
                ran += 1;
                let since = std::mem::replace(&mut now, self.coarse_now());
                if ran == most || since != now || own.has_to_look() || own.is_listed() {
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
            if core.queue.is_tray_empty() || ran == most || !core.goes_on() {
                break;
            }
            core.answer();
        }
        core.give_tray_back(own, self.id());
        (self.has_returned(core), ran, now)
    }

    /// Calls what is next and stands in the table.
    #[inline(never)]
    fn run_listed<'a>(
        self: &'a Arc<Self>,
        mut core: MutexGuard<'a, Core>,
        nth: usize,
        now: Instant,
        left: &mut u32,
    ) -> (MutexGuard<'a, Core>, Instant) {
        let Some((id, mut entry, location)) = core.queue.pop_nth_ready(nth) else { return (core, now) };
        let taken = Taken { id, kind: entry.kind, flavour: entry.flavour, location, outcome: entry.outcome };
        self.run(core, taken, &mut entry.callback, now, left)
    }

    /// Calls something that has been taken out, which begins `now` by the coarse clock. Its end is noted when the lock is
    /// taken again; then comes back what time it is. One that waits again, and begins again at once, counts against what is
    /// `left` of the batch.
    #[inline(always)]
    fn run<'a>(
        self: &'a Arc<Self>,
        mut core: MutexGuard<'a, Core>,
        taken: Taken,
        callback: &mut Callback,
        now: Instant,
        left: &mut u32,
    ) -> (MutexGuard<'a, Core>, Instant) {
        let synchronized = self.options().synchronized;
        core.count_end(taken.kind, taken.outcome);
        let type_name = callback.type_name_of();
        let active = ActiveWhat::Callback { kind: taken.kind, type_name, location: taken.location };
        let active = core.active.enter(active, taken.flavour, now);
        let share = !synchronized && core.wants_schedule(false);
        drop(core);
        if share {
            self.schedule_beside();
        }
        let (mut id, mut outcome) = (taken.id, taken.outcome);
        let core = loop {
            self.note_begun(id, outcome, false);
            match self.invoke(id, callback, outcome) {
                Then::Ended => break self.lock_as_it_is(),
                Then::WaitsAgain => match self.wait_again(callback, active, synchronized && *left > 0) {
                    GoesOn::Elsewhere(core) => break core,
                    GoesOn::Here(next) => (id, outcome) = (next, BEGUN_AGAIN),
                },
            }
            *left -= 1;
        };
        let now = self.coarse_now();
        (self.exit(core, active, now), now)
    }

    /// A thread leaves. Whether the dispatcher is to be put into the run queue.
    #[inline]
    fn has_left(&self, core: &mut Core) -> bool {
        core.inside.callbacks -= 1;
        core.queue.trim(core.inbox_is_open);
        if core.is_plain() && core.queue.is_ready_empty() {
            return false;
        }
        self.has_left_more(core)
    }

    /// A thread leaves, and there is more to be seen to.
    #[inline(never)]
    fn has_left_more(&self, core: &mut Core) -> bool {
        if core.inbox_is_open {
            self.leave_inbox(core);
            core.queue.trim(core.inbox_is_open);
        }
        self.tell_if_idle(core);
        core.wants_schedule(self.options().synchronized)
    }

    /// Which of what is ready is called next: the first, or any of it if several threads could have taken some each and one
    /// of them has come before the others.
    #[inline(always)]
    fn choose_next(&self, core: &Core) -> usize {
        match self.options().synchronized {
            true => 0,
            false => probe::choose(Choice::Claim, core.queue.len_of(Stage::Ready)),
        }
    }

    /// Runs the inline call that this thread has claimed: it is inside already, and what it claimed is first in the
    /// queue, unless it was taken back or a shutdown has begun. What is ready then is run as in a turn, up to a batch: in the
    /// run queue it would stand behind all that was told before the last event of a poll.
    pub(crate) fn run_claimed(self: &Arc<Self>) {
        let mut core = call_stack::within_dispatcher(self, || {
            let mut core = self.lock();
            let claimed = if core.state == DispatcherState::Running { core.queue.pop_ready() } else { None };
            let Some((id, mut entry, location)) = claimed else { return core };
            core.count_end(entry.kind, entry.outcome);
            let active = core.enter(&entry, location, self.coarse_now());
            drop(core);
            self.note_begun(id, entry.outcome, true);
            // Events have no handlers that wait again.
            let then = self.invoke(id, &mut entry.callback, entry.outcome);
            debug_assert_eq!(then, Then::Ended);
            drop(entry);
            let core = self.lock();
            let now = self.coarse_now();
            self.run_several(self.exit(core, active, now), self.owner().batch() - 1, now)
        });
        let schedule = self.has_left(&mut core);
        drop(core);
        if schedule {
            self.schedule();
        }
    }

    /// A thread leaves after an inline call.
    #[inline]
    pub(crate) fn leave<'a>(self: &'a Arc<Self>, core: MutexGuard<'a, Core>, active: ActiveId) {
        let mut core = self.exit(core, active, self.coarse_now());
        let schedule = self.has_left(&mut core);
        drop(core);
        if schedule {
            self.schedule();
        }
    }

    /// Calls a callback and catches its panic. The dispatcher is current and no lock is held.
    #[inline]
    pub(crate) fn invoke(self: &Arc<Self>, id: OpId, callback: &mut Callback, outcome: Outcome) -> Then {
        // One word is handed through the guard; several would be moved on right after they have been written.
        let mut call = (self, callback, &outcome);
        let call = &mut call;
        let then = self.catch(move || trace::invoke(call.0, call.1, call.2)).unwrap_or(Then::Ended);
        probe::note(|| Note::Ended { ticket: id.ticket(self.id()) });
        then
    }

    /// Runs user code and reports its panic.
    #[inline]
    pub(crate) fn guard_panic(self: &Arc<Self>, user_code: impl FnOnce()) {
        self.catch(user_code);
    }

    /// Runs user code; after a panic, which is reported, there is no answer.
    #[inline]
    fn catch<R>(self: &Arc<Self>, user_code: impl FnOnce() -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(user_code)) {
            Ok(value) => Some(value),
            Err(payload) => {
                let message = message_of(payload);
                self.report_panic(message);
                None
            }
        }
    }

    /// Reports a panic of this dispatcher's code and carries the policy out.
    pub(crate) fn report_panic(&self, message: String) {
        let owner = self.owner();
        owner.panicked(PanicReport {
            driver: owner.name().to_owned(),
            driver_id: owner.id(),
            dispatcher: self.options().name.to_string(),
            dispatcher_id: Some(self.id()),
            message,
        });
    }
}
