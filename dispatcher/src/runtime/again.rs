//! Callbacks that wait again: when one returns, it is accepted anew, in one step with its end.
//!
//! To the dispatcher each call is a callback of its own, with an id of its own: it has been accepted, and it runs or is
//! canceled. What is had for it is that the closure stays in one piece, and that its end, the next acceptance, and
//! the thread's leaving or its next callback need one lock.
//!
//! 1. Whoever owns what is waited for locks that, and finds out whether it is there ([`Stay::wait_again`]).
//! 2. Under that lock the dispatcher is locked, and accepts or refuses: a dispatcher that shuts down accepts nothing.
//! 3. The other lock is released. The callback is put into its place in the table, and the caller goes on with the
//!    dispatcher locked.
//!
//! In a turn that is not over, what it waits for may be there already, and nothing else be ready that would come first.
//! Then it would be put into the table and taken out again in the same step. So it is not put there: it is accepted and has
//! *begun again* when both locks are released, and counts as having gone through the row.
//!
//! What is refused, or has been told not to wait again, is dropped with the dispatcher current and no lock held. A
//! callback that panics does not wait again.

use std::mem;

use super::active::{ActiveId, ActiveWhat};
use super::callback_queue::{Callback, Entry, OpId, Outcome, Stage};
use super::core::Core;
use super::dispatcher::DispatcherInner;
use super::state::DispatcherState;
use crate::sync::probe::{self, Note};
use crate::sync::{Arc, MutexGuard};
use crate::time::Instant;

/// What its operation is told when what a callback waits for is there.
const IS_THERE: Outcome = Outcome::Done(0);
/// What a callback is told that has begun again.
pub(crate) const BEGUN_AGAIN: Outcome = Outcome::Done(1);

/// What has become of a callback that waits again.
pub(crate) enum Accepted {
    /// It is armed, or ready.
    Waits(OpId),
    /// It has begun again.
    HasBegun,
}

/// How a thread goes on when a callback has returned that waits again.
pub(super) enum GoesOn<'a> {
    /// By whatever is next.
    Elsewhere(MutexGuard<'a, Core>),
    /// By the same callback, which has begun again under this name.
    Here(OpId),
}

/// What a callback that waits again is accepted by.
pub(crate) struct Again<'a> {
    dispatcher: &'a Arc<DispatcherInner>,
    /// What it is listed as while it runs.
    active: ActiveId,
    /// The dispatcher, from when it has accepted on, and what it has accepted.
    accepted: Option<(MutexGuard<'a, Core>, OpId)>,
    /// What is to be told already.
    there: Option<Outcome>,
    is_refused: bool,
    /// Whether the turn has room for one more.
    may_begin: bool,
    begun: Option<OpId>,
}

impl Again<'_> {
    /// Has it accepted: armed, or ready if an outcome is there. `None`: it is refused. To be called at most once, under the
    /// lock of what is waited for.
    #[inline(always)]
    pub(crate) fn accept(&mut self, there: Option<Outcome>) -> Option<Accepted> {
        let mut core = self.dispatcher.lock();
        if self.may_begin && there == Some(IS_THERE) && core.has_nothing_else() {
            self.begun = core.begin_again(self.dispatcher, self.active);
            return self.begun.map(|_| Accepted::HasBegun);
        }
        let Some(id) = core.accept_again(self.dispatcher, self.active, there) else {
            self.is_refused = true;
            return None;
        };
        self.there = there;
        self.accepted = Some((core, id));
        Some(Accepted::Waits(id))
    }

    /// The dispatcher that accepts.
    pub(crate) fn dispatcher(&self) -> &Arc<DispatcherInner> {
        self.dispatcher
    }
}

impl DispatcherInner {
    /// Has a callback wait again that has returned. `active` is what it is listed as while it runs; `may_begin` says whether
    /// it may begin again at once.
    #[inline(never)]
    pub(super) fn wait_again<'a>(
        self: &'a Arc<Self>,
        callback: &mut Callback,
        active: ActiveId,
        may_begin: bool,
    ) -> GoesOn<'a> {
        let mut again =
            Again { dispatcher: self, active, accepted: None, there: None, is_refused: false, may_begin, begun: None };
        callback.wait_again(&mut again);
        if let Some(id) = again.begun {
            return GoesOn::Here(id);
        }
        GoesOn::Elsewhere(match again.accepted {
            Some((core, id)) => self.put_back(core, id, callback, again.there),
            None => self.waits_no_more(callback, again.is_refused),
        })
    }

    /// Puts a callback into its place that was accepted anew.
    #[inline(always)]
    fn put_back<'a>(
        self: &'a Arc<Self>,
        mut core: MutexGuard<'a, Core>,
        id: OpId,
        callback: &mut Callback,
        there: Option<Outcome>,
    ) -> MutexGuard<'a, Core> {
        core.queue.put_callback(id, callback);
        core.note_accepted(self.id(), id);
        if let Some(outcome) = there.filter(|&outcome| outcome != IS_THERE) {
            core.tell_end(self, id, outcome);
        }
        core
    }

    /// Drops a callback that was refused or has no place any more.
    #[cold]
    fn waits_no_more<'a>(self: &'a Arc<Self>, callback: &mut Callback, is_refused: bool) -> MutexGuard<'a, Core> {
        self.guard_panic(|| drop(mem::replace(callback, Callback::spent())));
        if is_refused {
            self.count_refusal();
        }
        self.lock_as_it_is()
    }
}

impl Core {
    /// Accepts what runs as `active` anew, armed or ready; the callback itself is still to be put there. `None`: it is
    /// refused.
    #[inline(always)]
    fn accept_again(&mut self, dispatcher: &DispatcherInner, active: ActiveId, there: Option<Outcome>) -> Option<OpId> {
        if !self.state.accepts() {
            return None;
        }
        let running = self.active.newest_of(active)?;
        let ActiveWhat::Callback { kind, location, .. } = running.what else { return None };
        let flavour = running.flavour;
        self.counts.accepted += 1;
        let stage = match there {
            Some(IS_THERE) => {
                self.count_ready(kind);
                self.parking.stage_of_task(flavour)
            }
            _ => Stage::Reading,
        };
        let details = dispatcher.details(location, Instant::INFINITE);
        let entry = Entry { callback: Callback::spent(), kind, flavour, outcome: IS_THERE };
        Some(self.queue.insert(entry, details, stage))
    }

    /// Whether what becomes ready now comes next: it runs, and nothing else is ready.
    #[inline(always)]
    fn has_nothing_else(&self) -> bool {
        self.state == DispatcherState::Running
            && !self.parking.is_on
            && !self.parking.is_waited_for()
            && self.queue.is_ready_empty()
    }

    /// Accepts what runs as `active` anew, ready, and begins it.
    #[inline(always)]
    fn begin_again(&mut self, dispatcher: &DispatcherInner, active: ActiveId) -> Option<OpId> {
        let running = self.active.begin_again(active, dispatcher.coarse_now())?;
        let ActiveWhat::Callback { kind, location, type_name } = running.what else { return None };
        let flavour = running.flavour;
        self.counts.accepted += 1;
        self.count_ready(kind);
        self.count_end(kind, IS_THERE);
        let id = self.queue.pass_through();
        Self::note_passed(dispatcher.id(), id, kind, flavour, location, type_name);
        Some(id)
    }

    /// What was accepted is told an end: there is nothing to wait for any more.
    #[cold]
    fn tell_end(&mut self, dispatcher: &DispatcherInner, id: OpId, outcome: Outcome) {
        if outcome == Outcome::Canceled {
            probe::note(|| Note::CancelAsked { ticket: id.ticket(dispatcher.id()) });
        }
        // What waits for a channel has no source that would have to be taken down.
        let _none = self.make_ready(dispatcher, id, outcome);
    }
}
