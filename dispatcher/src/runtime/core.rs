//! What changes of a dispatcher: all of it is in [`Core`], under the dispatcher's one lock.
//!
//! Nothing here calls user code, takes another lock or schedules; callers do that with what they are told, after they
//! have let the lock go.
//!
//! # Invariants
//! - `scheduled` is true exactly while the dispatcher is in a run queue of its pool (or about to be put there).
//! - While something is ready, the dispatcher is scheduled, or a thread is inside and will look when it leaves.

use std::panic::Location;
use std::time::Duration;

use super::callback_queue::{CallbackQueue, Entry, EventSource, Kind, OpId, Outcome, Stage, TypeNameOf};
use super::counters::Counters;
use super::dispatcher::DispatcherInner;
use super::flavour::Flavour;
use super::inline::Reason;
use super::irq::Irqs;
use super::live_futures::LiveFutures;
use super::state::{DispatcherState, Inside};
use super::suspend::Parking;
use crate::sync::thread;
use crate::time::Instant;

/// A callback that runs at this moment.
#[derive(Debug, Clone)]
pub(crate) struct Active {
    pub(crate) thread: thread::ThreadId,
    pub(crate) what: ActiveWhat,
    pub(crate) flavour: Flavour,
    pub(crate) since: Instant,
    /// What it waits for, if it sleeps in a blocking call.
    pub(crate) waits_for: Option<&'static str>,
}

/// What runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ActiveWhat {
    Callback { kind: Kind, type_name: TypeNameOf, location: &'static Location<'static> },
    ShutdownObserver,
}

/// How callbacks came to run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct InlineCounts {
    pub(crate) inlined: u64,
    /// By [`Reason`], in its order.
    pub(crate) deferred: [u64; Reason::ALL.len()],
    /// Posted tasks, which never run inline.
    pub(crate) posted: u64,
    /// Reads that were registered when there was something to read already: no decision is made of them either.
    pub(crate) late_reads: u64,
}

/// The callback that took longest, as far as the coarse clock tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Longest {
    pub(crate) what: ActiveWhat,
    pub(crate) ran_for: Duration,
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
    pub(super) irqs: Irqs,
    pub(super) parking: Parking,
    /// All but `pending`, which is enumerated.
    pub(crate) counts: Counters,
    pub(crate) inline_counts: InlineCounts,
    pub(crate) active: Vec<Active>,
    /// Of those that have returned.
    pub(crate) longest: Option<Longest>,
    pub(crate) observer: Option<ShutdownObserver>,
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
            irqs: Irqs::default(),
            parking: Parking::default(),
            counts: Counters::default(),
            inline_counts: InlineCounts::default(),
            active: Vec::new(),
            longest: None,
            observer,
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
        let source = self.queue.decide(id, outcome);
        self.queue.move_to(id, stage);
        self.note_ready(dispatcher.id(), id);
        source
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
        Counters { pending: self.queue.enumerate_pending() + self.futures.len() as u64, ..self.counts }
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

    /// Notes that a callback begins to run on this thread, so that it can be listed; the answer is its place.
    pub(crate) fn enter(
        &mut self,
        entry: &Entry,
        location: &'static Location<'static>,
        dispatcher: &DispatcherInner,
    ) -> ActiveId {
        let what = ActiveWhat::Callback { kind: entry.kind, type_name: entry.callback.type_name_of(), location };
        self.enter_as(what, entry.flavour, dispatcher)
    }

    /// Like [`enter`](Core::enter), for what is no callback.
    #[inline]
    pub(crate) fn enter_as(&mut self, what: ActiveWhat, flavour: Flavour, dispatcher: &DispatcherInner) -> ActiveId {
        let thread = thread::current_id();
        let since = dispatcher.pool().coarse_now();
        self.active.push(Active { thread, what, flavour, since, waits_for: None });
        ActiveId(thread)
    }

    /// Notes what the newest callback of a thread waits for.
    pub(crate) fn note_wait(&mut self, thread: thread::ThreadId, waits_for: Option<&'static str>) {
        if let Some(active) = self.active.iter_mut().rfind(|active| active.thread == thread) {
            active.waits_for = waits_for;
        }
    }

    /// How the newest callback of a thread was posted.
    pub(super) fn flavour_of(&self, id: ActiveId) -> Flavour {
        let newest = self.active.iter().rfind(|active| active.thread == id.0);
        newest.map_or(Flavour::REGULAR, |active| active.flavour)
    }

    /// The callback of [`enter`](Core::enter) has returned; `now` is by the coarse clock.
    #[inline]
    pub(crate) fn exit(&mut self, id: ActiveId, now: Instant) {
        // The newest of this thread: inline calls nest only across dispatchers, but an unsynchronized one may nest.
        let Some(at) = self.active.iter().rposition(|active| active.thread == id.0) else { return };
        let is_last = at + 1 == self.active.len();
        // Most often there is no other, and nothing to move.
        let ended = if is_last { self.active.pop() } else { Some(self.active.remove(at)) };
        let Some(Active { what, since, .. }) = ended else { return };
        // By the coarse clock most take no time at all.
        if now == since {
            return;
        }
        let ran_for = now.duration_since(since);
        if ran_for > self.longest.map_or(Duration::ZERO, |longest| longest.ran_for) {
            self.longest = Some(Longest { what, ran_for });
        }
    }

    /// Counts what is accepted as ready, and of which no inline decision is made.
    pub(super) fn count_ready(&mut self, kind: Kind) {
        match kind {
            Kind::Task => self.inline_counts.posted += 1,
            Kind::Read => self.inline_counts.late_reads += 1,
            _ => {}
        }
    }
}

/// The place of a running callback in the list of what runs.
#[derive(Debug, Clone, Copy)]
#[must_use = "a callback that is entered has to be exited"]
pub(crate) struct ActiveId(thread::ThreadId);

impl ActiveId {
    /// The newest callback of the calling thread.
    pub(crate) fn of_this_thread() -> Self {
        ActiveId(thread::current_id())
    }
}
