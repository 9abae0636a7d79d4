//! The tray of a thread: what it has taken out of the row of the dispatcher whose turn it makes, and what callbacks of that
//! turn have posted to their own dispatcher since.
//!
//! 1. When several tasks follow each other in a turn of a synchronized dispatcher, the thread takes up to a batch out of the
//!    row onto its tray, and *lends* the view of it to the queue, all under the lock.
//! 2. It calls one after the other without the lock. Nobody else would have called them before: they come first, and only one
//!    thread is inside.
//! 3. What a callback posts to its own dispatcher goes to the end of the tray, without the lock, as long as nobody has asked
//!    for anything: then nothing else is ready that it would have to stand behind.
//! 4. Whoever takes the lock meanwhile *asks*: who only puts something at the end of what is ready, that what comes later
//!    goes there too ([`STANDS_BEHIND`]); everybody else, that the owner takes the lock before it begins anything else
//!    ([`LOOKS_FIRST`]). The queue then *settles*, which counts what the owner has done since the last time.
//! 5. What has not begun when the turn ends, or something has changed that it depends on, goes back to the front of the row.
//!    A suspend parks it there, in front of what it has parked itself; after a shutdown that comes before that it stands there
//!    all the same.
//!
//! The turn that cancels uses the tray too, for what stands in the row. Its callbacks are told `Canceled` and can post nothing,
//! so the owner is asked everything from the beginning, and needs to look at nothing.
//!
//! Only tasks that nobody has a handle to are on a tray, and only those that a suspend parks.
//!
//! # Invariants
//! - While a tray is lent, all of it comes before all else that is ready, but for what a resume has put in front.
//! - While it is lent and nobody has asked, nothing else is ready, and the dispatcher runs and is not parked.

use std::cell::{Cell, OnceCell};

use super::{Callback, CallbackQueue, Kind, Manner, OpId, Pending, Posted, Poster, Stage, TypeNameOf};
use crate::site::Site;
use crate::sync::{Piece, Tray, View, thread_local};
use crate::time::Instant;

/// Asked of the owner: what it posts to itself stands behind what others have posted.
pub(crate) const STANDS_BEHIND: u32 = 1;
/// Asked of the owner: it takes the lock before it begins anything, or accepts anything without it.
pub(crate) const LOOKS_FIRST: u32 = 2;

/// What others may know of what is on a tray.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Label {
    pub(crate) type_name: TypeNameOf,
    pub(crate) location: Site,
    pub(crate) poster: Poster,
    pub(crate) accepted_at: Instant,
}

/// The tray of the calling thread.
#[derive(Debug)]
pub(crate) struct OwnTray {
    tray: Tray<Label, Callback>,
    /// How many entered the row before the first of it.
    first: Cell<u64>,
    /// Whether what is at work is listed as running elsewhere, because it waits for something.
    is_listed: Cell<bool>,
}

thread_local! {
    static OWN: OnceCell<OwnTray> = const { OnceCell::new() };
    /// The number of the dispatcher to which the tray of this thread is lent, 0 for none.
    static LENT_TO: Cell<u64> = const { Cell::new(0) };
}

/// The number of the dispatcher to which the tray of this thread is lent, 0 for none.
#[inline(always)]
fn lent_to() -> u64 {
    LENT_TO.try_with(Cell::get).unwrap_or_default()
}

fn set_lent_to(dispatcher: u64) {
    let _ = LENT_TO.try_with(|lent_to| lent_to.set(dispatcher));
}

/// Calls `f` with the tray of this thread if it is free, else with none.
#[inline(always)]
pub(crate) fn with_free<R>(f: impl FnOnce(Option<&OwnTray>) -> R) -> R {
    if lent_to() != 0 || OWN.try_with(|_| ()).is_err() {
        // It is in use, or the thread ends.
        return f(None);
    }
    OWN.with(|own| f(Some(own.get_or_init(OwnTray::new))))
}

/// Calls `f` with the tray of this thread if it is lent to this dispatcher.
#[inline(always)]
pub(crate) fn with_lent<R>(dispatcher: u64, f: impl FnOnce(&OwnTray) -> R) -> Option<R> {
    if lent_to() != dispatcher {
        return None;
    }
    OWN.try_with(|own| own.get().map(f)).ok().flatten()
}

impl OwnTray {
    fn new() -> Self {
        OwnTray { tray: Tray::new(), first: Cell::new(0), is_listed: Cell::new(false) }
    }

    /// Whether a task that the running callback posts to its own dispatcher may be put here.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.tray.asked() == 0 && self.tray.has_room()
    }

    /// Puts it here. The answer is only to be told of.
    #[inline(always)]
    pub(crate) fn put(&self, label: Label, callback: impl FnOnce() -> Callback) -> OpId {
        let id = OpId::of_row(self.first.get() + self.tray.count().put() as u64);
        self.tray.put(label, callback);
        id
    }

    /// Whether the owner has to take the lock before it begins anything.
    #[inline]
    pub(crate) fn has_to_look(&self) -> bool {
        self.tray.asked() & LOOKS_FIRST != 0
    }

    /// Begins the next one.
    #[inline]
    pub(crate) fn begin(&self, now: Instant) -> Option<Piece<'_, Label, Callback>> {
        self.tray.begin(now.as_nanos())
    }

    /// The name of one that has begun.
    #[inline]
    pub(crate) fn name(&self, at: usize) -> OpId {
        OpId::of_row(self.first.get() + at as u64)
    }

    /// Whether anything has begun since it was clear.
    #[cfg(test)]
    pub(super) fn has_begun(&self) -> bool {
        self.tray.count().begun() > 0
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed.get()
    }
}

/// What the queue holds of a tray that is lent to it.
#[derive(Debug)]
pub(super) struct Out {
    view: View<Label, Callback>,
    /// How many of what was put there have been counted.
    put: u16,
    /// How many of what has begun.
    begun: u16,
    /// Whether what is at work is listed as running elsewhere.
    is_listed: bool,
    /// Whether those on the tray are told `Canceled`.
    is_canceled: bool,
}

/// What the owner of a tray has done since the queue was settled the last time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// What callbacks have posted to their own dispatcher.
    pub(crate) accepted: u64,
    /// What has begun, to be told that it runs.
    pub(crate) ran: u64,
    /// What has begun, to be told `Canceled`.
    pub(crate) canceled: u64,
}

/// What runs off a tray.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtWork {
    pub(crate) label: Label,
    pub(crate) thread: crate::sync::thread::ThreadId,
    pub(crate) since: Instant,
}

impl CallbackQueue {
    /// Takes up to `most` of what is next and stands in the row onto the tray, and has the view of it; false if what is next
    /// cannot be put there.
    #[inline(always)]
    pub(crate) fn borrow(&mut self, own: &OwnTray, dispatcher: u64, most: u32) -> bool {
        let first = self.row.left();
        let put = own.tray.fill(most as usize, || {
            if !self.is_next_plain() {
                return None;
            }
            let (_, posted) = self.pop_posted()?;
            let Posted { callback, location, poster, accepted_at, .. } = posted;
            Some((Label { type_name: callback.type_name_of(), location, poster, accepted_at }, callback))
        });
        if put == 0 {
            return false;
        }
        own.first.set(first);
        set_lent_to(dispatcher);
        let is_canceled = self.row_is_canceled;
        let out = Out { view: own.tray.lend(), put: put as u16, begun: 0, is_listed: false, is_canceled };
        if is_canceled {
            out.view.ask(STANDS_BEHIND | LOOKS_FIRST);
        } else if !self.is_behind_empty() {
            out.view.ask(STANDS_BEHIND);
        }
        self.out = Some(out);
        true
    }

    /// Whether what is next is worth a tray: a task of the row that others follow, or whose turn it is after others.
    #[inline(always)]
    pub(crate) fn is_for_tray(&self, is_after_others: bool) -> bool {
        self.is_next_plain() && (is_after_others || self.row.len() > 1)
    }

    /// Whether nothing is ready that stands on no tray.
    #[inline(always)]
    pub(super) fn is_behind_empty(&self) -> bool {
        self.row.is_empty() && self.table.as_ref().is_none_or(|table| table.is_empty_of(Stage::Ready))
    }

    /// Whether what is next stands in the row and may be put onto a tray.
    #[inline(always)]
    fn is_next_plain(&self) -> bool {
        self.row.oldest().is_some_and(|next| next.manner == Manner::PLAIN)
    }

    /// Whether what is next stands in the row.
    #[cfg(test)]
    pub(super) fn is_next_on_row(&self) -> bool {
        !self.row.is_empty() && !self.table.as_ref().is_some_and(|table| table.is_next(self.row.left()))
    }

    /// Whether a tray is lent to it.
    #[inline]
    pub(crate) fn has_tray(&self) -> bool {
        self.out.is_some()
    }

    /// Asks something of the owner of the tray; false if it was asked already.
    #[inline]
    pub(crate) fn ask(&self, what: u32) -> bool {
        self.out.as_ref().is_some_and(|out| out.view.ask(what))
    }

    /// Counts what the owner of the tray has done since the last time.
    #[inline(always)]
    pub(crate) fn settle(&mut self) -> Progress {
        let is_behind_empty = self.is_behind_empty();
        let Some(out) = &mut self.out else { return Progress { accepted: 0, ran: 0, canceled: 0 } };
        let (put, begun, now) = (out.put, out.begun, out.view.count());
        (out.put, out.begun) = (now.put() as u16, now.begun() as u16);
        let accepted = u64::from(out.put - put);
        let begun = u64::from(out.begun - begun);
        let (ran, canceled) = if out.is_canceled { (0, begun) } else { (begun, 0) };
        if accepted > 0 {
            if is_behind_empty {
                // They count as having entered the row and left it. If something stands there already, they came at the
                // same time; then they are not numbered, and come first all the same.
                self.row.skip(accepted);
            }
            self.longest = self.longest.max(out.view.most());
        }
        Progress { accepted, ran, canceled }
    }

    /// Whether all that was on the tray has begun. The queue has been settled.
    #[inline(always)]
    pub(crate) fn is_tray_empty(&self) -> bool {
        self.len_of_tray() == 0
    }

    /// Whether what is on the tray is still what comes next; if so, the owner may go on with it.
    #[inline]
    pub(crate) fn tray_comes_first(&self) -> bool {
        !self.table.as_ref().is_some_and(|table| table.is_in_front(self.row.left()))
    }

    /// What was asked of the owner has been looked at.
    pub(crate) fn answer(&self, is_inbox_open: bool) {
        if let Some(out) = &self.out {
            let others = is_inbox_open || !self.is_behind_empty();
            out.view.answer(if others { STANDS_BEHIND } else { 0 });
        }
    }

    /// Notes whether what is at work is listed elsewhere.
    pub(crate) fn set_listed(&mut self, own: &OwnTray, is_listed: bool) {
        own.is_listed.set(is_listed);
        if let Some(out) = &mut self.out {
            out.is_listed = is_listed;
        }
    }

    /// Gives the view back to the owner, and takes what has not begun to the front of the row. The queue has been settled.
    #[inline(always)]
    pub(crate) fn give_back(&mut self, own: &OwnTray) {
        let Some(Out { view, .. }) = self.out.take() else { return };
        set_lent_to(0);
        let row = &mut self.row;
        own.tray.take_back(view, |_, label, callback| {
            let Label { location, poster, accepted_at, .. } = label;
            row.push_front(Posted { callback, location, poster, accepted_at, manner: Manner::PLAIN });
        });
    }

    /// How many on the tray have not begun.
    #[inline]
    pub(crate) fn len_of_tray(&self) -> usize {
        self.out.as_ref().map_or(0, |out| usize::from(out.put - out.begun))
    }

    /// What is on the tray and has not begun, first to last.
    pub(super) fn pending_on_tray(&self) -> impl Iterator<Item = Pending> + '_ {
        self.out.iter().flat_map(|out| {
            (out.begun..out.put).map(|at| {
                let Label { type_name, location, poster, accepted_at } = out.view.label(at.into());
                Pending { kind: Kind::Task, type_name, location, poster, accepted_at }
            })
        })
    }

    /// What runs off the tray, unless it is listed elsewhere.
    pub(crate) fn at_work(&self) -> Option<AtWork> {
        let out = self.out.as_ref().filter(|out| !out.is_listed)?;
        let label = out.view.label(out.begun.checked_sub(1)?.into());
        let since = Instant::from_nanos(out.view.since());
        Some(AtWork { label, thread: out.view.owner(), since })
    }
}
