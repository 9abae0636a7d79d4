//! Where a test looks into a run: what it decides, where it may step in, and what it is told.
//!
//! A [`Probe`] belongs to a thread, not to a runtime: the thread that turns a crank has it, and so has each helper that the
//! crank waits for. So code of any layer asks it without being handed anything, and threads that no crank waits for are
//! left alone.
//!
//! Without the feature `testing`, and in builds for a model checker, the functions here are empty and their arguments are
//! never made: the machine code of a build for production is that of a build in which the calls are deleted.

use std::panic::Location;

use crate::site::Site;
#[cfg(not(loom))]
use crate::sync::Weak;

/// What is decided. Always legal ways to go on, of which production takes the one that comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Choice {
    /// Which of all that can go on does: a runnable, a helper, a piece of lane work, an event that is due. Asked by
    /// [`Probe::next`].
    Next,
    /// Which of several events that are due is taken.
    Event,
    /// Which of the ready callbacks of an unsynchronized dispatcher is taken. Threads that took them in order may be
    /// overtaken before they call them, so every order of the calls is legal.
    Claim,
    /// Whether an inline call that is allowed is made (0) or deferred (1).
    Inline,
    /// Whether a turn is made where it cannot (0) or can (1) let others go first.
    Apart,
    /// Whether a callback goes on (0) or lets others go first (1) at a [`Point`].
    Overlap,
}

/// Where in a callback another thread could come in between. No lock is held there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Point {
    /// Before something is posted, spawned or armed.
    Post,
    /// Before something is canceled.
    Cancel,
    /// Before a channel is written.
    Write,
    /// Before a channel is read, or a read of it registered.
    Read,
    /// Before an end of a channel is closed.
    Close,
    /// Before and after a future is polled.
    Await,
    /// Before a future that is woken is queued.
    Wake,
    /// Before a shutdown begins.
    Shutdown,
    /// In a callback, a poll or an observer, before the code of the user is called.
    Begin,
}

/// Something that goes on by itself, by names that live as long as what they name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Actor {
    /// A dispatcher, by its number: its turn, or the rest of one that was interrupted.
    Dispatcher(u64),
    /// A driver, by its number: its observer, or what its suspend and resume call.
    Driver(u64),
    /// The first item of a lane.
    Work { pool: usize, lane: usize },
    /// What is due of timers and descriptors of a pool.
    Events { pool: usize },
    /// A call that a test makes on a thread of its own.
    Call,
    /// The clock, which is advanced to the next timer.
    Time,
}

/// What can be short. A request for it may be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scarce {
    /// A dispatcher.
    Dispatcher,
    /// A thread.
    Thread,
    /// The registration of a wait with the system.
    Registration,
    /// Room in the queue of a channel.
    Write,
}

/// The name of one accepted callback: dispatcher and operation, or future. No other one of this process has it at the
/// same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ticket {
    pub(crate) dispatcher: u64,
    pub(crate) operation: u64,
    /// Futures are numbered apart.
    pub(crate) is_future: bool,
}

/// What a callback is told, or will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    /// What it waited for has come about.
    Outcome,
    /// What it waited for has ended in a way of its own, such as a peer that closed.
    Failure,
    /// `Canceled`.
    Canceled,
}

/// How a future ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    /// It finished, or panicked.
    Ran,
    /// Its dispatcher shut down.
    Canceled,
    /// Its handle ended it.
    TakenBack,
}

/// What has happened.
///
/// Kinds are what dumps call them. `future` (a wake) and `irq trigger` are no callbacks of their own: they are deliveries
/// to one that is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Note {
    /// A driver was made. `runtime` is the address of its runtime, for comparison only.
    DriverMade { driver: u64, name: &'static str, runtime: usize },
    /// A dispatcher was made.
    DispatcherMade { dispatcher: u64, driver: u64, name: &'static str, synchronized: bool },
    /// A callback was accepted. `type_name` is that of what holds its closure.
    Accepted {
        ticket: Ticket,
        kind: &'static str,
        type_name: &'static str,
        location: Site,
        /// Nanoseconds on the clock of the runtime; `u64::MAX` for none.
        deadline: u64,
        always_on: bool,
    },
    /// A callback, an observer or a destructor panicked, and the runtime has caught it.
    Panicked { dispatcher: Option<u64> },
    /// A callback was not accepted.
    Refused { dispatcher: u64 },
    /// A callback that was accepted is refused after all: what it waits for could not be armed.
    RefusedAfterAll { ticket: Ticket },
    /// What it waits for has happened, and it is queued; or it is about to be called inside of the call that made it ready.
    Ready { ticket: Ticket, told: Told },
    /// As `Ready`, but its driver is suspended; whether it is among those that come first on resume.
    Parked { ticket: Ticket, told: Told, comes_first: bool },
    /// What was parked is queued: those that come first in front of all that is, the others behind.
    Unparked { dispatcher: u64 },
    /// A worker has begun the work that it waits for.
    WorkBegun { ticket: Ticket },
    /// It is to be told `Canceled` in its turn, although nothing shuts down.
    CancelAsked { ticket: Ticket },
    /// It is about to be called; whether inside of the call that made it ready.
    Begun { ticket: Ticket, told: Told, inline: bool },
    /// It has returned, or panicked, and its closure is dropped.
    Ended { ticket: Ticket },
    /// It was taken back by a cancel; a delivery, by the end of what it is delivered to.
    TakenBack { ticket: Ticket },
    /// A future is about to be dropped.
    FutureDropped { ticket: Ticket },
    /// A future has ended, and is dropped.
    FutureEnded { ticket: Ticket, fate: Fate },
    /// The calling thread is inside of this driver from here on, and of this dispatcher unless it is 0. 0 for both: of
    /// nothing, whatever was before.
    Entered { driver: u64, dispatcher: u64 },
    /// It is where it was before the last `Entered`.
    Left,
    /// A shutdown of a dispatcher has begun.
    ShutdownBegan { dispatcher: u64 },
    /// The shutdown observer of a dispatcher is about to be called, if it has one.
    ObserverBegun { dispatcher: u64 },
    /// It has returned: nothing of the dispatcher runs any more.
    ObserverEnded { dispatcher: u64 },
    /// A shutdown of a driver has begun.
    DriverShutdownBegan { driver: u64 },
    /// The observers of a driver's shutdown are about to be called, if it has any.
    DriverObserverBegun { driver: u64 },
    /// They have returned.
    DriverObserverEnded { driver: u64 },
    /// Something that has an end was made. `what` is what people call it: arena, channel end, irq, token.
    Made { what: &'static str, id: u64, location: Site },
    /// It is gone.
    Gone { what: &'static str, id: u64 },
}

/// All that goes on by one crank.
pub(crate) trait Others: Send + Sync {
    /// Whether anything could go on besides what runs at this moment.
    fn can_go_on(&self) -> bool;
}

impl Note {
    /// The callback that it is about.
    pub(crate) fn ticket(&self) -> Option<Ticket> {
        match *self {
            Note::Accepted { ticket, .. }
            | Note::RefusedAfterAll { ticket }
            | Note::Ready { ticket, .. }
            | Note::Parked { ticket, .. }
            | Note::WorkBegun { ticket }
            | Note::CancelAsked { ticket }
            | Note::Begun { ticket, .. }
            | Note::Ended { ticket }
            | Note::TakenBack { ticket }
            | Note::FutureDropped { ticket }
            | Note::FutureEnded { ticket, .. } => Some(ticket),
            _ => None,
        }
    }
}

/// Who decides and is told.
pub(crate) trait Probe: Send + Sync {
    /// Which of `of` ways it goes on; `of` is at least 2 and the answer is less. Locks may be held: nothing of the runtime
    /// may be called.
    fn choose(&self, choice: Choice, of: usize) -> usize;

    /// Whoever turns the crank is about to; `others` is what goes on then. No lock is held, and no callback runs on this
    /// thread.
    #[cfg(not(loom))]
    fn turn(&self, others: Weak<dyn Others>);

    /// Whether a callback has been interrupted at a point and has not gone on. It may hold a lock of its own, so nobody
    /// who must not wait for that may run code of users.
    fn is_interrupted(&self) -> bool {
        false
    }

    /// Whether the clock may be advanced while something else can go on.
    fn lets_time_pass(&self) -> bool {
        false
    }

    /// Which of `actors` makes this turn; there is at least one.
    fn next(&self, actors: &[Actor]) -> usize;

    /// A callback has come to a point. No lock is held: whatever another thread could do may be done here.
    fn point(&self, point: Point);

    /// Something has happened. Locks may be held: nothing of the runtime may be called.
    fn note(&self, note: Note);

    /// Whether what was asked for is refused, as if there were none left. Locks may be held: nothing of the runtime may be
    /// called.
    fn refuses(&self, what: Scarce) -> bool {
        let _ = what;
        false
    }

    /// The crank goes on without a callback that blocks out of sight: from here on the schedule alone does not decide the
    /// order of things. Locks are held: nothing of the runtime may be called.
    fn went_outside(&self) {}

    /// A panic has begun on this thread. Locks of its own may be held by whoever panics.
    fn panicked(&self, message: &str, location: Option<&Location<'_>>);
}

#[cfg(all(feature = "testing", not(any(loom, shuttle))))]
mod current {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeSet;

    use super::{Choice, Note, Point, Probe, Scarce};
    use crate::sync::{Arc, Mutex, thread_local};

    thread_local! {
        static CURRENT: RefCell<Option<Arc<dyn Probe>>> = const { RefCell::new(None) };
        /// Whether there is one. It has nothing to be made or dropped, so to ask takes one load; everything else of a
        /// hook stands apart, out of the way of a thread that has none.
        static IS_ATTACHED: Cell<bool> = const { Cell::new(false) };
    }

    /// The calling thread has this probe, or none, until the answer is dropped.
    #[must_use = "the probe is taken away again when this is dropped"]
    pub(crate) fn attach(probe: Option<Arc<dyn Probe>>) -> Attached {
        IS_ATTACHED.set(probe.is_some());
        Attached(CURRENT.with(|current| current.replace(probe)))
    }

    /// The probe that the thread had before comes back when this is dropped.
    pub(crate) struct Attached(Option<Arc<dyn Probe>>);

    impl Drop for Attached {
        fn drop(&mut self) {
            IS_ATTACHED.set(self.0.is_some());
            let _ = CURRENT.try_with(|current| current.replace(self.0.take()));
        }
    }

    /// The probe of the calling thread.
    #[inline]
    pub(crate) fn current() -> Option<Arc<dyn Probe>> {
        if is_attached() { look() } else { None }
    }

    /// See [`Probe::is_interrupted`].
    #[inline]
    pub(crate) fn is_interrupted() -> bool {
        is_attached() && look().is_some_and(|probe| probe.is_interrupted())
    }

    #[inline(always)]
    fn is_attached() -> bool {
        IS_ATTACHED.get()
    }

    /// While the thread ends there may be none any more.
    #[cold]
    #[inline(never)]
    fn look() -> Option<Arc<dyn Probe>> {
        CURRENT.try_with(|current| current.borrow().clone()).unwrap_or_default()
    }

    /// Calls with the probe, out of line.
    #[cold]
    #[inline(never)]
    fn told(tell: impl FnOnce(&dyn Probe)) {
        if let Some(probe) = look() {
            tell(&*probe);
        }
    }

    /// See [`Probe::choose`]. 0 where there is nothing to choose, or nobody who does.
    #[inline]
    pub(crate) fn choose(choice: Choice, of: usize) -> usize {
        if !is_attached() || of < 2 {
            return 0;
        }
        look().map_or(0, |probe| probe.choose(choice, of))
    }

    /// See [`Probe::point`].
    #[inline]
    pub(crate) fn point(point: Point) {
        if is_attached() {
            told(|probe| probe.point(point));
        }
    }

    /// See [`Probe::note`].
    #[inline]
    pub(crate) fn note(note: impl FnOnce() -> Note) {
        if is_attached() {
            told(|probe| probe.note(note()));
        }
    }

    /// See [`Probe::refuses`].
    #[inline]
    pub(crate) fn refuses(what: Scarce) -> bool {
        is_attached() && look().is_some_and(|probe| probe.refuses(what))
    }

    /// Like [`note`], if it is a note at all.
    #[inline]
    pub(crate) fn note_some(note: impl FnOnce() -> Option<Note>) {
        if is_attached() {
            told(|probe| {
                if let Some(note) = note() {
                    probe.note(note);
                }
            });
        }
    }

    /// A name that a note can hold. Tests use few different ones, so they are kept for ever.
    pub(crate) fn intern(name: &str) -> &'static str {
        static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        let mut names = NAMES.lock();
        if let Some(known) = names.get(name) {
            return known;
        }
        let kept: &'static str = Box::leak(name.into());
        names.insert(kept);
        kept
    }
}

#[cfg(not(all(feature = "testing", not(any(loom, shuttle)))))]
mod current {
    use super::{Choice, Note, Point, Probe, Scarce};
    use crate::sync::Arc;

    /// Nobody has a probe.
    pub(crate) fn attach(_probe: Option<Arc<dyn Probe>>) -> Attached {
        Attached
    }

    /// See [`attach`].
    pub(crate) struct Attached;

    impl Drop for Attached {
        fn drop(&mut self) {}
    }

    pub(crate) fn current() -> Option<Arc<dyn Probe>> {
        None
    }

    pub(crate) fn is_interrupted() -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn choose(_choice: Choice, _of: usize) -> usize {
        0
    }

    #[inline(always)]
    pub(crate) fn point(_point: Point) {}

    #[inline(always)]
    pub(crate) fn note(_note: impl FnOnce() -> Note) {}

    #[inline(always)]
    pub(crate) fn refuses(_what: Scarce) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) fn note_some(_note: impl FnOnce() -> Option<Note>) {}

    #[inline(always)]
    pub(crate) fn intern(_name: &str) -> &'static str {
        ""
    }
}

pub(crate) use current::*;

#[cfg(all(test, feature = "testing", not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::{Arc, Mutex};

    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);

    impl Probe for Recorder {
        fn choose(&self, choice: Choice, of: usize) -> usize {
            self.0.lock().push(format!("{choice:?} of {of}"));
            of - 1
        }

        fn point(&self, point: Point) {
            // It may ask for itself, as whatever is called here may.
            assert!(current().is_some());
            self.0.lock().push(format!("{point:?}"));
        }

        fn note(&self, note: Note) {
            self.0.lock().push(format!("{note:?}"));
        }

        fn turn(&self, _others: Weak<dyn Others>) {}

        fn next(&self, _actors: &[Actor]) -> usize {
            0
        }

        fn panicked(&self, _message: &str, _location: Option<&Location<'_>>) {}
    }

    #[test]
    fn a_thread_asks_its_probe_and_no_other_thread_does() {
        let recorder = Arc::new(Recorder::default());
        assert_eq!(choose(Choice::Next, 3), 0);
        let attached = attach(Some(Arc::clone(&recorder) as Arc<dyn Probe>));
        assert_eq!(choose(Choice::Next, 3), 2);
        assert_eq!(choose(Choice::Next, 1), 0, "there is nothing to choose");
        point(Point::Post);
        note(|| Note::Refused { dispatcher: 7 });
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(current().is_none()));
        });
        drop(attached);
        point(Point::Cancel);
        assert_eq!(*recorder.0.lock(), ["Next of 3", "Post", "Refused { dispatcher: 7 }"]);
    }
}
