//! The inbox of a dispatcher that is flooded: where posters put callbacks while a thread is at work on those before.
//!
//! A post takes the lock of the dispatcher, and so does the thread that runs what was posted, for each callback. When both
//! do so all the time they wait for each other more than they work, and the memory behind the lock goes to and fro between
//! their processors. So:
//!
//! 1. A poster that had to wait for the lock *opens* the inbox, if somebody will look here in any case: the dispatcher is
//!    in a run queue, or a thread is inside. Only synchronized dispatchers have one; of the others each post may be a
//!    reason to get one more thread.
//! 2. While the inbox is open, a post takes the lock of the inbox, which posters share with nobody but each other.
//! 3. Whoever takes the lock of the dispatcher, for whatever reason, takes all that is in the inbox in first, to the end of
//!    the queue. The thread that runs what is queued does so only when nothing is ready any more; nothing that it takes
//!    out before could have come after what is in the inbox.
//! 4. The last one that leaves the dispatcher closes the inbox if it is empty; so does a shutdown, which has taken it in.
//!
//! So order, listing and the exact beginning of a shutdown are what they would be with one lock.
//!
//! # Invariants
//! - `Core::inbox_is_open` and `Contents::is_open` are equal. They change with both locks held.
//! - While the inbox is open the dispatcher runs, and is scheduled or a thread is inside of it.

use super::callback_queue::{Blocks, Kind, Posted, new_block};
use super::core::Core;
use super::dispatcher::DispatcherInner;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// What is behind the lock of an inbox.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    is_open: bool,
    posted: Blocks,
    /// How many of them are callbacks that count.
    tasks: u64,
}

impl Contents {
    pub(super) fn push(&mut self, posted: Posted) {
        self.tasks += u64::from(posted.manner.kind() == Kind::Task);
        self.posted.push(posted);
    }

    /// What was put in last.
    #[inline(always)]
    pub(super) fn newest_mut(&mut self) -> Option<&mut Posted> {
        self.posted.newest_mut()
    }
}

/// The inbox of one dispatcher, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Inbox {
    contents: Mutex<Contents>,
    /// What `Contents::is_open` was a moment ago.
    looks_open: AtomicBool,
}

impl Inbox {
    /// What is in it, to put something in; `None` if it is closed.
    #[inline]
    pub(super) fn lock_if_open(&self) -> Option<MutexGuard<'_, Contents>> {
        // Who sees an older state takes the lock of the dispatcher instead, which is always right.
        if !self.looks_open.load(Ordering::Relaxed) {
            return None;
        }
        let contents = self.contents.lock();
        contents.is_open.then_some(contents)
    }

    /// A poster has put something in and gives the lock back. If there is hardly room for those that come next, it makes some,
    /// without having them wait for that.
    #[inline(always)]
    pub(super) fn end_post(&self, contents: MutexGuard<'_, Contents>) {
        let is_short = contents.posted.is_short();
        drop(contents);
        if is_short {
            self.make_room();
        }
    }

    #[cold]
    #[inline(never)]
    fn make_room(&self) {
        let block = new_block();
        self.contents.lock().posted.give(block);
    }

    fn open(&self) {
        self.contents.lock().is_open = true;
        self.looks_open.store(true, Ordering::Relaxed);
    }

    /// Closes it if it is empty; whether it was.
    fn close_if_empty(&self) -> bool {
        let mut contents = self.contents.lock();
        if !contents.posted.is_empty() {
            return false;
        }
        contents.posted.trim();
        contents.is_open = false;
        self.looks_open.store(false, Ordering::Relaxed);
        true
    }
}

impl DispatcherInner {
    /// Opens the inbox, if there is to be one and somebody will look here. The caller had to wait for the lock.
    #[cold]
    pub(super) fn open_inbox(&self, core: &mut Core) {
        let is_wanted = self.options().synchronized && core.state.accepts() && !core.is_at_rest();
        if is_wanted && !core.inbox_is_open {
            self.inbox_or_new().open();
            core.inbox_is_open = true;
        }
    }

    /// Takes in what is in the inbox, to the end of what is ready.
    #[cold]
    pub(super) fn take_in(&self, core: &mut Core) {
        let Some(inbox) = self.inbox() else { return };
        let mut contents = inbox.contents.lock();
        let tasks = std::mem::take(&mut contents.tasks);
        core.counts.accepted += tasks;
        core.inline_counts.posted += tasks;
        core.append(self.id(), &mut contents.posted);
    }

    /// Closes the inbox after the caller has taken in what was there. What has come since is taken in as well.
    #[cold]
    pub(super) fn close_inbox(&self, core: &mut Core) {
        while core.inbox_is_open {
            self.take_in(core);
            core.inbox_is_open = !self.inbox().is_none_or(Inbox::close_if_empty);
        }
    }

    /// Closes the inbox if there is nothing in it, nothing is ready, and nobody will look here any more. If nothing is ready,
    /// what is in it is taken in; otherwise somebody will look, and it is worth more to take over much at once.
    #[cold]
    pub(super) fn leave_inbox(&self, core: &mut Core) {
        if !core.queue.is_ready_empty() {
            return;
        }
        self.take_in(core);
        while core.inbox_is_open && core.is_at_rest() && core.queue.is_ready_empty() {
            core.inbox_is_open = !self.inbox().is_none_or(Inbox::close_if_empty);
            self.take_in(core);
        }
    }
}
