//! What changes of a dispatcher: all of it is in [`Core`], under the dispatcher's one lock.
//!
//! Nothing here calls user code, takes another lock or schedules; callers do that with what they are told, after they
//! have let the lock go.
//!
//! # Invariants
//! - `scheduled` is true exactly while the dispatcher is in a run queue of its pool (or about to be put there).
//! - While something is ready, the dispatcher is scheduled, or a thread is inside and will look when it leaves.

use std::ops::{Index, IndexMut};

use super::active::{Active, ActiveId, ActiveWhat, Actives};
use super::callback_queue::{
    AtWork, Blocks, CallbackQueue, Entry, EventSource, Kind, LOOKS_FIRST, OpId, Outcome, OwnTray, Posted, Progress,
    STANDS_BEHIND, Stage,
};
use super::counters::{Counters, Counts};
use super::dispatcher::DispatcherInner;
use super::flavour::Flavour;
use super::ids::DispatcherId;
use super::inline::Reason;
use super::live_futures::LiveFutures;
use super::seldom::Seldom;
use super::state::{DispatcherState, Inside};
use super::suspend::Parking;
use crate::site::Site;
use crate::sync::thread;
use crate::time::Instant;

/// How callbacks came to run.
#[derive(Debug, Default)]
pub(crate) struct InlineCounts {
    pub(crate) inlined: u64,
    /// By [`Reason`], in its order.
    pub(crate) deferred: Deferred,
    /// Posted tasks, which never run inline.
    pub(crate) posted: u64,
}

/// A number for each [`Reason`], in its order. Made with the first that is counted: most dispatchers count none.
#[derive(Debug, Default)]
pub(crate) struct Deferred(Option<Box<[u64; Reason::ALL.len()]>>);

impl Index<usize> for Deferred {
    type Output = u64;

    fn index(&self, reason: usize) -> &u64 {
        self.0.as_ref().map_or(&0, |counts| &counts[reason])
    }
}

impl IndexMut<usize> for Deferred {
    fn index_mut(&mut self, reason: usize) -> &mut u64 {
        &mut self.0.get_or_insert_default()[reason]
    }
}

/// Called once, last.
pub(crate) type ShutdownObserver = Box<dyn FnOnce() + Send>;

/// What changes.
pub(crate) struct Core {
    pub(crate) state: DispatcherState,
    pub(crate) scheduled: bool,
    pub(crate) inside: Inside,
    pub(crate) queue: CallbackQueue,
    pub(crate) futures: LiveFutures,
    pub(crate) seldom: Seldom,
    pub(super) parking: Parking,
    pub(crate) counts: Counts,
    pub(crate) inline_counts: InlineCounts,
    pub(crate) active: Actives,
    /// Whether posts may be in the inbox (`inbox.rs`).
    pub(super) inbox_is_open: bool,
    /// How many threads sleep until it is idle.
    pub(super) idle_waiters: u32,
    /// Whether the driver has taken the final numbers over; refusals are counted there from then on.
    pub(super) is_retired: bool,
}

impl Core {
    pub(super) fn new(observer: Option<ShutdownObserver>) -> Self {
        Core {
            state: DispatcherState::Running,
            scheduled: false,
            inside: Inside::default(),
            queue: CallbackQueue::new(),
            futures: LiveFutures::new(),
            seldom: Seldom::new(observer),
            parking: Parking::default(),
            counts: Counts::default(),
            inline_counts: InlineCounts::default(),
            active: Actives::default(),
            inbox_is_open: false,
            idle_waiters: 0,
            is_retired: false,
        }
    }

    /// Puts an armed operation that has its outcome at the end of the queue, or aside if the driver is suspended; of an
    /// irq, its delivery. The source of its event comes back, to be taken down if the event did not come from there.
    pub(super) fn make_ready(&mut self, dispatcher: &DispatcherInner, id: OpId, outcome: Outcome) -> EventSource {
        if self.queue.stage(id) == Some(Stage::Bound) && matches!(outcome, Outcome::Done(_)) {
            self.trigger_irq(dispatcher, id, outcome);
            return EventSource::None;
        }
        let stage = match self.parking.is_on {
            true => {
                let flavour = self.flavour(id);
                self.stage_of_event(dispatcher.owner(), flavour, outcome)
            }
            false => Stage::Ready,
        };
        let source = self.queue.decide_and_move(id, outcome, stage);
        self.note_ready(dispatcher.id(), id);
        source
    }

    /// Whether a task that has just been put at the end of what is ready is the reason to put the dispatcher into the run queue
    /// now; if so it counts as scheduled from here on. The dispatcher runs.
    #[inline(always)]
    pub(super) fn wants_schedule_for_one_more(&mut self, synchronized: bool) -> bool {
        let nobody_will_look = !self.scheduled & (!synchronized | (self.inside.callbacks == 0));
        self.scheduled |= nobody_will_look;
        nobody_will_look
    }

    /// Puts something that is ready in its place: at the end of the queue, or aside if the driver is suspended.
    #[inline(always)]
    pub(super) fn push(&mut self, dispatcher: DispatcherId, posted: Posted) {
        match self.parking.stage_of_task(posted.manner.flavour()) {
            Stage::Ready => self.push_ready(dispatcher, posted),
            stage => self.push_aside(dispatcher, posted, stage),
        }
    }

    /// Puts something at the end of what is ready.
    #[inline(always)]
    pub(super) fn push_ready(&mut self, dispatcher: DispatcherId, posted: Posted) {
        let id = self.queue.push(posted);
        self.note_posted(dispatcher, id);
    }

    /// Puts something that is ready aside, as the driver is suspended.
    #[cold]
    #[inline(never)]
    pub(super) fn push_aside(&mut self, dispatcher: DispatcherId, posted: Posted, stage: Stage) {
        let id = self.queue.insert_posted(posted, stage);
        self.note_accepted(dispatcher, id);
    }

    /// Like [`push`](Core::push) for all of these.
    pub(super) fn append(&mut self, dispatcher: DispatcherId, posted: &mut Blocks) {
        if !self.parking.is_on {
            return self.queue.append(posted);
        }
        while let Some(block) = posted.take_first() {
            block.into_iter().for_each(|posted| self.push(dispatcher, posted));
        }
    }

    /// Whether some of what is ready may be in the inbox, or on a tray: what there is has to be looked at first.
    #[inline(always)]
    pub(super) fn is_elsewhere(&self) -> bool {
        self.inbox_is_open | self.queue.has_tray()
    }

    /// Somebody is going to change something, or to look: the owner of the tray is asked to see to it, and what it has done
    /// is counted.
    pub(super) fn look_at_tray(&mut self) {
        self.queue.ask(LOOKS_FIRST);
        self.settle();
    }

    /// Somebody is going to put something at the end of what is ready: what the owner of the tray posts comes behind it.
    pub(super) fn stand_behind_tray(&mut self) {
        // If something stands there already, the owner puts nothing on its tray, so there is nothing to count.
        if self.queue.ask(STANDS_BEHIND) {
            self.settle();
        }
    }

    /// Counts what has happened on a tray since the last time.
    #[inline(always)]
    pub(super) fn settle(&mut self) {
        let Progress { accepted, ran, canceled } = self.queue.settle();
        self.counts.accepted += accepted;
        self.inline_counts.posted += accepted;
        self.counts.ran += ran;
        self.counts.canceled += canceled;
    }

    /// Takes up to `most` of what is next onto the tray of the calling thread, which is inside; false if that cannot be.
    #[inline(always)]
    pub(super) fn borrow_tray(&mut self, own: &OwnTray, dispatcher: DispatcherId, most: u32) -> bool {
        let is_lent = !self.parking.is_on && self.queue.borrow(own, dispatcher.as_raw(), most);
        if is_lent && self.inbox_is_open {
            self.queue.ask(STANDS_BEHIND);
        }
        is_lent
    }

    /// Whether the owner of the tray may go on with it after it was asked to look.
    pub(super) fn goes_on(&self) -> bool {
        let is_as_before =
            self.state == DispatcherState::Running && !self.parking.is_on && !self.parking.is_waited_for();
        is_as_before && self.queue.tray_comes_first()
    }

    /// What was asked of the owner of the tray has been looked at.
    pub(super) fn answer(&self) {
        self.queue.answer(self.inbox_is_open);
    }

    /// Gives the tray back; what has not begun is ready as it was before, or parked in front of what is parked.
    #[inline(always)]
    pub(super) fn give_tray_back(&mut self, own: &OwnTray, dispatcher: DispatcherId) {
        let on_tray = self.queue.len_of_tray();
        self.queue.give_back(own);
        if self.parking.is_on {
            self.park_in_front(dispatcher);
        }
        if let Some(parked) = self.seldom.take_tray_is_parked() {
            self.cancel_as_parked(on_tray, &parked);
        }
    }

    /// All that runs, in the order in which it began.
    pub(super) fn running(&self) -> impl Iterator<Item = Active> + '_ {
        let at_work = self.queue.at_work().map(|at_work| {
            let AtWork { thread, since, .. } = at_work;
            Active { thread, what: at_work.what(), flavour: Flavour::REGULAR, since, waits_for: None }
        });
        self.active.iter().cloned().chain(at_work)
    }

    /// Where what this thread runs was posted.
    pub(super) fn site_here(&self) -> Option<Site> {
        let here = thread::current_id();
        match self.running().filter(|active| active.thread == here).last()?.what {
            ActiveWhat::Callback { location, .. } => Some(location),
            ActiveWhat::ShutdownObserver => None,
        }
    }

    /// Lists what runs off this tray among what runs otherwise, where what it waits for can be noted.
    pub(super) fn list(&mut self, own: &OwnTray) {
        let Some(at_work) = self.queue.at_work() else { return };
        // It is taken off by the same thread when it has returned.
        let _: ActiveId = self.active.enter(at_work.what(), Flavour::REGULAR, at_work.since);
        self.queue.set_listed(own, true);
    }

    /// Notes the end of what ran off the tray, if it was listed or took time by the coarse clock.
    pub(super) fn note_end(&mut self, own: &OwnTray, since: Instant, now: Instant) {
        if own.is_listed() {
            self.queue.set_listed(own, false);
            self.active.exit(ActiveId::of_this_thread(), now);
        } else if since != now
            && let Some(at_work) = self.queue.at_work()
        {
            self.active.note_longest(at_work.what(), now.duration_since(since));
        }
    }

    /// Counts the end of a callback that is about to be invoked.
    pub(crate) fn count_end(&mut self, kind: Kind, outcome: Outcome) {
        if !kind.is_callback() {
            return;
        }
        match outcome {
            Outcome::Canceled => self.counts.canceled += 1,
            Outcome::Done(_) | Outcome::Failed(_) => self.counts.ran += 1,
        }
    }

    /// All numbers, with `pending` enumerated.
    pub(crate) fn counters(&self) -> Counters {
        self.counts.with_pending(self.queue.enumerate_pending() + self.futures.len() as u64)
    }

    /// Whether it runs, and there is nothing that only few dispatchers have at a time: posts beside those in the queue, a
    /// suspend that waits for it, somebody who sleeps until it is idle.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        (self.state == DispatcherState::Running)
            & !self.inbox_is_open
            & !self.parking.is_waited_for()
            & (self.idle_waiters == 0)
    }

    /// Whether nobody is inside or on the way here, so that its pool may be asleep.
    #[inline]
    pub(super) fn is_at_rest(&self) -> bool {
        !self.scheduled && self.inside.callbacks == 0
    }

    /// Whether the dispatcher has to be put into the run queue now; if so it counts as scheduled from here on.
    pub(crate) fn wants_schedule(&mut self, synchronized: bool) -> bool {
        let somebody_will_look = self.scheduled || synchronized && self.inside.callbacks > 0;
        if somebody_will_look {
            return false;
        }
        let wanted = match self.state {
            DispatcherState::Running => !self.queue.is_ready_empty(),
            DispatcherState::ShuttingDown => self.inside == Inside::default(),
            DispatcherState::Shutdown | DispatcherState::Destroyed => false,
        };
        self.scheduled = wanted;
        wanted
    }

    /// Notes that a callback begins to run on this thread, so that it can be listed; the answer is its place. `since` is by
    /// the coarse clock.
    #[inline]
    pub(crate) fn enter(&mut self, entry: &Entry, location: Site, since: Instant) -> ActiveId {
        self.active.enter(Self::what_runs(entry, location), entry.flavour, since)
    }

    /// As what a callback is listed while it runs.
    #[inline]
    pub(super) fn what_runs(entry: &Entry, location: Site) -> ActiveWhat {
        ActiveWhat::Callback { kind: entry.kind, type_name: entry.callback.type_name_of(), location }
    }

    /// Counts what is accepted as ready, and of which no inline decision is made.
    pub(super) fn count_ready(&mut self, kind: Kind) {
        match kind {
            Kind::Task => self.inline_counts.posted += 1,
            // No decision is made of them either.
            Kind::Read => self.seldom.count_late_read(),
            _ => {}
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle)), target_pointer_width = "64"))]
mod tests {
    use super::*;

    /// Goal: very many dispatchers that do nothing take little memory. What few of them need stands in boxes.
    #[test]
    fn a_dispatcher_that_does_nothing_is_small() {
        assert_eq!(std::mem::size_of::<CallbackQueue>(), 72, "where callbacks wait");
        assert_eq!(std::mem::size_of::<Actives>(), 72, "what runs");
        assert!(std::mem::size_of::<DispatcherInner>() <= 328, "all of it: {}", std::mem::size_of::<DispatcherInner>());
    }
}
