//! Accepting: how what is posted or registered gets into a dispatcher, or is refused.
//!
//! - What a callback posts to its own dispatcher goes onto the tray of its thread ([`DispatcherInner::accept_own`]).
//! - A task that nobody has a handle to is made in its place, in the row or in the inbox: [`DispatcherInner::begin_post`] gives
//!   the place, with the lock around it. If it is too large for that, or is to be refused or parked, it comes made
//!   ([`DispatcherInner::accept_posted`]).
//! - Everything else has a name, and is made in its place in the table.

use super::call_stack;
use super::callback_queue::{
    Callback, Details, Entry, EventSource, Invoke, Kind, Label, Manner, OpId, Outcome, Posted, Stage, TypeNameOf,
    with_lent,
};
use super::core::Core;
use super::dispatcher::{DispatcherInner, NotAccepted};
use super::flavour::Flavour;
use super::inbox::{Contents, Inbox};
use crate::site::Site;
use crate::sync::{Arc, MutexGuard};
use crate::time::Instant;

/// Where a task is to be put that is as good as accepted.
#[must_use = "what counts as accepted has to be put there"]
pub(crate) enum PostPlace<'a> {
    Row(MutexGuard<'a, Core>),
    Inbox(MutexGuard<'a, Contents>),
}

impl PostPlace<'_> {
    /// Makes the task where it is going to lie.
    #[inline(always)]
    pub(crate) fn fill<C: Invoke>(&mut self, callback: C) {
        let newest = match self {
            PostPlace::Row(core) => core.queue.newest_mut(),
            PostPlace::Inbox(contents) => contents.newest_mut(),
        };
        if let Some(newest) = newest {
            newest.callback.fill(callback);
        }
    }
}

impl DispatcherInner {
    /// Locks for a post. A poster that has to wait opens the inbox for those that come after it.
    #[inline(always)]
    fn lock_to_post(&self) -> MutexGuard<'_, Core> {
        match self.try_lock_as_it_is() {
            Some(core) if !core.is_elsewhere() => core,
            core => self.lock_behind_others(core),
        }
    }

    /// Locks for a post that has to stand behind what is elsewhere, or whose poster has to wait.
    #[cold]
    fn lock_behind_others<'a>(&'a self, core: Option<MutexGuard<'a, Core>>) -> MutexGuard<'a, Core> {
        let has_to_wait = core.is_none();
        let mut core = core.unwrap_or_else(|| self.lock_as_it_is());
        core.stand_behind_tray();
        if core.inbox_is_open {
            self.take_in(&mut core);
        }
        if has_to_wait {
            self.open_inbox(&mut core);
        }
        core
    }

    /// What is known of a callback that is about to be accepted.
    #[inline]
    pub(super) fn details(&self, location: Site, deadline: Instant) -> Details {
        let (poster, accepted_at) = (call_stack::poster(), self.pool().coarse_now());
        Details { deadline, source: EventSource::None, poster, location, accepted_at }
    }

    /// Whether a task that is posted here and now can be accepted without the lock, by [`accept_own`](Self::accept_own).
    #[inline(always)]
    pub(crate) fn takes_own(&self, flavour: Flavour) -> bool {
        with_lent(self.id().as_raw(), |own| flavour == Flavour::REGULAR && own.is_open()).unwrap_or_default()
    }

    /// Accepts a task that the running callback posts to its own dispatcher, without the lock. Nothing has come in between
    /// since it was said that this can be.
    #[inline(always)]
    pub(crate) fn accept_own(&self, location: Site, type_name: TypeNameOf, make: impl FnOnce() -> Callback) {
        let (poster, accepted_at) = (call_stack::poster(), self.pool().coarse_now());
        let accepted = with_lent(self.id().as_raw(), |own| {
            let id = own.put(Label { type_name, location, poster, accepted_at }, make);
            Self::note_put(self.id(), id, location, type_name);
        });
        debug_assert!(accepted.is_some(), "the tray is lent to it, as it was said");
    }

    /// Begins to accept a task that is ready and that nobody is given a name of: it counts as posted, and has a place where it is
    /// to be made before [`end_post`](Self::end_post). `None` if it has to go another way
    /// ([`accept_posted`](Self::accept_posted)).
    #[inline(never)]
    pub(crate) fn begin_post(&self, flavour: Flavour, location: Site) -> Option<PostPlace<'_>> {
        let manner = Manner::task(flavour);
        if let Some(mut contents) = self.inbox().and_then(Inbox::lock_if_open) {
            let accepted_at = self.pool().coarse_now();
            contents.push(Posted::signed(location, call_stack::poster(), accepted_at, manner));
            return Some(PostPlace::Inbox(contents));
        }
        let mut core = self.lock_to_post();
        if !core.state.accepts() || core.parking.stage_of_task(flavour) != Stage::Ready {
            return None;
        }
        core.counts.accepted += 1;
        core.inline_counts.posted += 1;
        let accepted_at = if core.is_at_rest() { self.pool().time_after_rest() } else { self.pool().coarse_now() };
        core.queue.push(Posted::signed(location, call_stack::poster(), accepted_at, manner));
        Some(PostPlace::Row(core))
    }

    /// Ends what [`begin_post`](Self::begin_post) has begun: the task is there.
    #[inline(never)]
    pub(crate) fn end_post(self: &Arc<Self>, place: PostPlace<'_>) {
        let mut core = match place {
            PostPlace::Row(core) => core,
            PostPlace::Inbox(contents) => return self.inbox_or_new().end_post(contents),
        };
        core.note_posted(self.id(), core.queue.newest_id());
        let schedule = core.wants_schedule_for_one_more(self.options().synchronized);
        drop(core);
        if schedule {
            self.schedule();
        }
    }

    /// Accepts a task that is ready and that nobody is given a name of; it comes back if it is refused.
    #[inline(never)]
    pub(crate) fn accept_posted(
        self: &Arc<Self>,
        flavour: Flavour,
        location: Site,
        callback: Callback,
    ) -> Result<(), Callback> {
        let poster = call_stack::poster();
        if let Some(mut inbox) = self.inbox().and_then(Inbox::lock_if_open) {
            let accepted_at = self.pool().coarse_now();
            inbox.push(Posted { callback, location, poster, accepted_at, manner: Manner::task(flavour) });
            return Ok(());
        }
        let mut core = self.lock_to_post();
        if !core.state.accepts() {
            drop(core);
            self.count_refusal();
            return Err(callback);
        }
        core.counts.accepted += 1;
        core.inline_counts.posted += 1;
        let accepted_at = if core.is_at_rest() { self.pool().time_after_rest() } else { self.pool().coarse_now() };
        core.push(self.id(), Posted { callback, location, poster, accepted_at, manner: Manner::task(flavour) });
        let schedule = core.wants_schedule(self.options().synchronized);
        drop(core);
        if schedule {
            self.schedule();
        }
        Ok(())
    }

    /// Accepts a callback that is ready. `make` is called only if it is accepted.
    pub(crate) fn accept_ready(
        self: &Arc<Self>,
        kind: Kind,
        flavour: Flavour,
        location: Site,
        make: impl FnOnce() -> Callback,
    ) -> Result<OpId, NotAccepted> {
        let mut details = self.details(location, Instant::INFINITE);
        let mut core = self.admit()?;
        if core.is_at_rest() {
            details.accepted_at = self.pool().time_after_rest();
        }
        core.count_ready(kind);
        let entry = Entry { callback: make(), kind, flavour, outcome: Outcome::Done(0) };
        let stage = core.parking.stage_of_task(flavour);
        let id = core.queue.insert(entry, details, stage);
        core.note_accepted(self.id(), id);
        let schedule = core.wants_schedule(self.options().synchronized);
        drop(core);
        if schedule {
            self.schedule();
        }
        Ok(id)
    }

    /// Accepts a callback that waits for something. `make` is called only if it is accepted.
    ///
    /// Part of its caller, so that the callback is made where it is going to lie.
    #[inline]
    pub(crate) fn accept_armed(
        &self,
        stage: Stage,
        kind: Kind,
        flavour: Flavour,
        deadline: Instant,
        location: Site,
        make: impl FnOnce() -> Callback,
    ) -> Result<OpId, NotAccepted> {
        let details = Details { accepted_at: self.pool().time_after_rest(), ..self.details(location, deadline) };
        let mut core = self.admit()?;
        let entry = Entry { callback: make(), kind, flavour, outcome: Outcome::Done(0) };
        let id = core.queue.insert(entry, details, stage);
        core.note_accepted(self.id(), id);
        Ok(id)
    }

    /// Takes the wake of a future, in whatever state.
    pub(crate) fn accept_wake(self: &Arc<Self>, callback: Callback, flavour: Flavour, location: Site) {
        let poster = call_stack::poster();
        let accepted_at = self.pool().coarse_now();
        let mut posted = Posted { callback, location, poster, accepted_at, manner: Manner::wake(flavour) };
        if let Some(mut inbox) = self.inbox().and_then(Inbox::lock_if_open) {
            inbox.push(posted);
            return;
        }
        let mut core = self.lock_to_post();
        if core.is_at_rest() {
            posted.accepted_at = self.pool().time_after_rest();
        }
        core.push(self.id(), posted);
        let schedule = core.wants_schedule(self.options().synchronized);
        drop(core);
        if schedule {
            self.schedule();
        }
    }
}
