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
//! What is refused, or has been told not to wait again, is dropped with the dispatcher current and no lock held. A
//! callback that panics does not wait again.

use std::mem;

use super::active::{ActiveId, ActiveWhat};
use super::callback_queue::{Callback, Entry, OpId, Outcome, Stage};
use super::core::Core;
use super::dispatcher::DispatcherInner;
use crate::sync::probe::{self, Note};
use crate::sync::{Arc, MutexGuard};
use crate::time::Instant;

/// What its operation is told when what a callback waits for is there.
const IS_THERE: Outcome = Outcome::Done(0);

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
}

impl Again<'_> {
    /// Has it accepted: armed, or ready if an outcome is there. `None`: it is refused. To be called at most once, under the
    /// lock of what is waited for.
    #[inline(always)]
    pub(crate) fn accept(&mut self, there: Option<Outcome>) -> Option<OpId> {
        let mut core = self.dispatcher.lock();
        let Some(id) = core.accept_again(self.dispatcher, self.active, there) else {
            self.is_refused = true;
            return None;
        };
        self.there = there;
        self.accepted = Some((core, id));
        Some(id)
    }

    /// The dispatcher that accepts.
    pub(crate) fn dispatcher(&self) -> &Arc<DispatcherInner> {
        self.dispatcher
    }
}

impl DispatcherInner {
    /// Locks, after a callback has returned that waits again. `active` is what it is listed as while it runs.
    #[inline(never)]
    pub(super) fn wait_again<'a>(
        self: &'a Arc<Self>,
        callback: &mut Callback,
        active: ActiveId,
    ) -> MutexGuard<'a, Core> {
        let mut again = Again { dispatcher: self, active, accepted: None, there: None, is_refused: false };
        callback.wait_again(&mut again);
        let Some((mut core, id)) = again.accepted else { return self.waits_no_more(callback, again.is_refused) };
        core.queue.put_callback(id, callback);
        core.note_accepted(self.id(), id);
        if let Some(outcome) = again.there.filter(|&outcome| outcome != IS_THERE) {
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
