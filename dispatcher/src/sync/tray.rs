//! `Tray<L, B>`: what a thread has taken upon itself, to be worked off piece by piece in the sight of others.
//!
//! A tray belongs to one thread, its *owner*, which puts pieces on it and works them off in their order. For that it needs
//! no lock and no read-modify-write: it alone writes how many there are and how many have begun. Each piece has a *label*,
//! which others may read, and a body, which nobody but the owner touches.
//!
//! Whoever wants to look needs the [`View`] of the tray. There is one, and it is no copy: the owner lends it, and has to
//! have it back before it clears the tray. While it is out, what is on the tray only grows, and what others have seen of
//! it stays true. Through it they can also *ask* something of the owner, which it sees before the next piece.
//!
//! # Invariants
//! - Only the thread of the owner writes `count`, labels and bodies. [`Tray`] cannot be shared between threads, and no
//!   clone of it exists.
//! - The label of each piece below `put` is written, and is not written again before the view has come back, which no
//!   reader has at that moment.
//! - The body of each piece from `begun` to below `put` is there and nobody has it; that of the piece that is at work
//!   belongs to its [`Piece`], of which there is one at a time; the places of all others are empty.
#![expect(unsafe_code, reason = "the memory of the pieces, which is shared as the invariants above say")]

use std::cell::Cell;
use std::fmt;
use std::mem::MaybeUninit;

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::thread::{self, ThreadId};
use crate::sync::{Arc, UnsafeCell};

/// How many pieces a tray has room for. In a model there are few, so that it is full soon.
pub(crate) const ROOM: usize = if cfg!(any(loom, shuttle)) { 3 } else { 16 };

const PUT_ONE: u64 = 1;
const BEGUN_ONE: u64 = 1 << 32;

/// How many pieces there are, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count(u64);

impl Count {
    /// Pieces that were put on the tray since it was clear.
    #[inline]
    pub(crate) fn put(self) -> usize {
        self.0 as u32 as usize
    }

    /// Those of them that have begun. The last of these is at work, or was a moment ago.
    #[inline]
    pub(crate) fn begun(self) -> usize {
        (self.0 >> 32) as usize
    }
}

struct Place<L, B> {
    label: UnsafeCell<MaybeUninit<L>>,
    body: UnsafeCell<MaybeUninit<B>>,
}

/// What others write, away from what the owner writes all the time.
#[repr(align(128))]
struct Asked(AtomicU32);

struct Shared<L, B> {
    asked: Asked,
    owner: ThreadId,
    count: AtomicU64,
    /// The most that had not begun at any moment, if more than those that were put there before it was lent.
    most: AtomicU32,
    /// When the piece at work has begun.
    since: AtomicU64,
    places: [Place<L, B>; ROOM],
}

// SAFETY: a body is touched by the owner's thread only, which is where it was put here; a label is read by others, as a copy,
// so it has to be `Send`, and never while it is written.
unsafe impl<L: Send, B> Send for Shared<L, B> {}
// SAFETY: as above.
unsafe impl<L: Send, B> Sync for Shared<L, B> {}

/// The owner's end.
pub(crate) struct Tray<L, B> {
    shared: Arc<Shared<L, B>>,
    /// While it is not lent.
    view: Cell<Option<View<L, B>>>,
    is_at_work: Cell<bool>,
}

/// The right to look at a tray.
pub(crate) struct View<L, B>(Arc<Shared<L, B>>);

/// The piece that is at work.
#[must_use = "a piece that has begun is to be worked off"]
pub(crate) struct Piece<'a, L, B> {
    tray: &'a Tray<L, B>,
    at: usize,
}

impl<L: Copy, B> Tray<L, B> {
    /// An empty one, of the calling thread.
    pub(crate) fn new() -> Self {
        let place =
            |_| Place { label: UnsafeCell::new(MaybeUninit::uninit()), body: UnsafeCell::new(MaybeUninit::uninit()) };
        let shared = Arc::new(Shared {
            asked: Asked(AtomicU32::new(0)),
            owner: thread::current_id(),
            count: AtomicU64::new(0),
            most: AtomicU32::new(0),
            since: AtomicU64::new(0),
            places: std::array::from_fn(place),
        });
        Tray { view: Cell::new(Some(View(Arc::clone(&shared)))), shared, is_at_work: Cell::new(false) }
    }

    /// What is on it.
    #[inline]
    pub(crate) fn count(&self) -> Count {
        Count(self.shared.count.load(Ordering::Relaxed))
    }

    /// Whether there is room for one more.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.count().put() < ROOM
    }

    /// Puts a piece behind the others. It is written where it stays.
    ///
    /// # Panics
    /// If there is no room.
    #[inline(always)]
    pub(crate) fn put(&self, label: L, body: impl FnOnce() -> B) {
        let shared = &*self.shared;
        let count = self.count();
        self.write(count.put(), label, body);
        debug_assert_eq!(self.count(), count, "what makes a body touches no tray");
        // ORDERING: Release, pairs with `View::count`: who counts it may read its label.
        shared.count.store(count.0 + PUT_ONE, Ordering::Release);
        let waiting = (count.put() + 1 - count.begun()) as u32;
        if waiting > shared.most.load(Ordering::Relaxed) {
            shared.most.store(waiting, Ordering::Relaxed);
        }
    }

    /// Puts up to `most` pieces on a tray that is clear, as long as `next` gives some; how many.
    #[inline(always)]
    pub(crate) fn fill(&self, most: usize, mut next: impl FnMut() -> Option<(L, B)>) -> usize {
        debug_assert_eq!(self.count(), Count::default(), "a clear tray is filled");
        let most = most.min(ROOM);
        let mut put = 0;
        while put < most
            && let Some((label, body)) = next()
        {
            self.write(put, label, || body);
            put += 1;
        }
        // ORDERING: Release, as in `put`. The view has not been lent yet.
        self.shared.count.store(put as u64 * PUT_ONE, Ordering::Release);
        put
    }

    #[inline(always)]
    fn write(&self, at: usize, label: L, body: impl FnOnce() -> B) {
        let place = &self.shared.places[at];
        // SAFETY: the place is empty, and this thread is the owner's.
        place.body.with_mut(|at| unsafe { (*at).write(body()) });
        // SAFETY: as above; nobody reads a label that is not counted yet.
        place.label.with_mut(|at| unsafe { (*at).write(label) });
    }

    /// Lends the view.
    ///
    /// # Panics
    /// If it is lent.
    #[inline(always)]
    pub(crate) fn lend(&self) -> View<L, B> {
        self.view.take().expect("a tray is lent once at a time")
    }

    /// Begins the next piece, at the moment `now`; `None` if there is none.
    ///
    /// # Panics
    /// If one is at work.
    #[inline]
    pub(crate) fn begin(&self, now: u64) -> Option<Piece<'_, L, B>> {
        let count = self.count();
        if count.begun() == count.put() {
            return None;
        }
        assert!(!self.is_at_work.replace(true), "one piece is at work at a time");
        self.shared.since.store(now, Ordering::Relaxed);
        // ORDERING: Release, so that who counts it sees when it began.
        self.shared.count.store(count.0 + BEGUN_ONE, Ordering::Release);
        Some(Piece { tray: self, at: count.begun() })
    }

    /// What was asked of the owner and not answered yet.
    #[inline]
    pub(crate) fn asked(&self) -> u32 {
        // ORDERING: Acquire, pairs with `View::ask`: what was done before it is seen by who sees that it was asked.
        self.shared.asked.0.load(Ordering::Acquire)
    }

    /// Takes the view back, and hands over all pieces that have not begun, the last one first. The tray is clear then.
    ///
    /// # Panics
    /// If a piece is at work, or the view is that of another tray.
    #[inline]
    pub(crate) fn take_back(&self, view: View<L, B>, mut hand_over: impl FnMut(usize, L, B)) {
        assert!(Arc::ptr_eq(&view.0, &self.shared) && !self.is_at_work.get(), "a tray at rest takes its own view back");
        let shared = &*self.shared;
        let count = self.count();
        shared.count.store(0, Ordering::Relaxed);
        shared.most.store(0, Ordering::Relaxed);
        if shared.asked.0.load(Ordering::Relaxed) != 0 {
            shared.asked.0.store(0, Ordering::Relaxed);
        }
        for at in (count.begun()..count.put()).rev() {
            let place = &shared.places[at];
            // SAFETY: it was put there and has not begun; it counts no more, so this is the only time. The view is here, so
            // nobody reads.
            let label = place.label.with(|at| unsafe { (*at).assume_init_read() });
            // SAFETY: as above.
            let body = place.body.with_mut(|at| unsafe { (*at).assume_init_read() });
            hand_over(at, label, body);
        }
        self.view.set(Some(view));
    }
}

impl<L, B> Piece<'_, L, B> {
    /// Its number on the tray.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Works it off, where it lies. Nothing is left of it.
    #[inline(always)]
    pub(crate) fn work<R>(self, work: impl FnOnce(&mut B) -> R) -> R {
        let body = &self.tray.shared.places[self.at].body;
        // SAFETY: a piece has its body for itself until it is dropped, which is at the end of this.
        body.with_mut(|at| work(unsafe { (*at).assume_init_mut() }))
    }
}

impl<L, B> Drop for Piece<'_, L, B> {
    #[inline]
    fn drop(&mut self) {
        let body = &self.tray.shared.places[self.at].body;
        // SAFETY: the piece has its body for itself, and this is the last that it does.
        body.with_mut(|at| unsafe { (*at).assume_init_drop() });
        self.tray.is_at_work.set(false);
    }
}

impl<L: Copy, B> View<L, B> {
    /// The thread whose tray it is.
    pub(crate) fn owner(&self) -> ThreadId {
        self.0.owner
    }

    /// What is on it.
    #[inline]
    pub(crate) fn count(&self) -> Count {
        // ORDERING: Acquire, pairs with `Tray::put` and `Tray::begin`.
        Count(self.0.count.load(Ordering::Acquire))
    }

    /// The most that had not begun at any moment, if more than those that were put there before it was lent.
    pub(crate) fn most(&self) -> u32 {
        self.0.most.load(Ordering::Relaxed)
    }

    /// When the piece at work has begun, or the next one.
    pub(crate) fn since(&self) -> u64 {
        self.0.since.load(Ordering::Relaxed)
    }

    /// The label of the piece of this number.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn label(&self, at: usize) -> L {
        assert!(at < self.count().put(), "there is such a piece");
        // SAFETY: it is counted, so its label is written, and stays while this view is out.
        self.0.places[at].label.with(|at| unsafe { (*at).assume_init() })
    }

    /// Asks something of the owner, one bit for each thing. Those who ask take turns, and the owner with them when it
    /// [answers](View::answer). False if all of it was asked already.
    #[inline]
    pub(crate) fn ask(&self, what: u32) -> bool {
        let asked = self.0.asked.0.load(Ordering::Relaxed);
        let is_new = asked & what != what;
        if is_new {
            // ORDERING: Release, pairs with `Tray::asked`.
            self.0.asked.0.store(asked | what, Ordering::Release);
        }
        is_new
    }

    /// Leaves of what was asked only this.
    #[inline]
    pub(crate) fn answer(&self, left: u32) {
        self.0.asked.0.store(left, Ordering::Relaxed);
    }
}

impl<L, B> fmt::Debug for Tray<L, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tray").field("is_at_work", &self.is_at_work.get()).finish_non_exhaustive()
    }
}

impl<L, B> fmt::Debug for View<L, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("View").field(&self.0.owner).finish()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    #[test]
    fn pieces_are_worked_off_in_their_order_and_the_rest_is_handed_over() {
        let tray = Tray::new();
        let held = Rc::new(());
        let put = |label| {
            let held = Rc::clone(&held);
            tray.put(label, || (label, held));
        };
        let mut filled = 0..2;
        assert_eq!(tray.fill(9, || filled.next().map(|label| (label, (label, Rc::clone(&held))))), 2);
        put(2);
        let view = tray.lend();
        for expected in 0..2 {
            let piece = tray.begin(10 + expected).expect("three were put");
            assert_eq!((piece.at() as u64, view.since()), (expected, 10 + expected));
            piece.work(|(label, _)| {
                assert_eq!(*label, expected);
                put(3 + expected);
            });
            assert_eq!(Rc::strong_count(&held), 4, "what was worked off is gone");
        }
        let count = view.count();
        assert_eq!((count.put(), count.begun(), view.most()), (5, 2, 3));
        assert_eq!((0..5).map(|at| view.label(at)).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        let mut left = Vec::new();
        tray.take_back(view, |at, label, (body, _)| left.push((at, label, body)));
        assert_eq!(left, [(4, 4, 4), (3, 3, 3), (2, 2, 2)]);
        assert_eq!((Rc::strong_count(&held), tray.count()), (1, Count::default()));
        assert!(tray.begin(0).is_none());
    }

    #[test]
    fn a_full_tray_says_so_and_has_room_again_when_it_is_clear() {
        let tray = Tray::new();
        (0..ROOM).for_each(|label| tray.put(label, || ()));
        assert!(!tray.has_room());
        let put = AssertUnwindSafe(|| tray.put(ROOM, || ()));
        assert!(catch_unwind(put).is_err());
        tray.take_back(tray.lend(), |_, _, ()| ());
        assert!(tray.has_room());
    }

    #[test]
    fn what_is_asked_stays_until_it_is_answered_or_the_tray_is_clear() {
        let tray = Tray::<(), ()>::new();
        let view = tray.lend();
        assert!(view.ask(1) && view.ask(2) && !view.ask(3));
        assert_eq!(tray.asked(), 3);
        view.answer(2);
        assert_eq!(tray.asked(), 2);
        tray.take_back(view, |_, (), ()| ());
        assert_eq!(tray.asked(), 0);
    }

    #[test]
    fn a_piece_that_panics_is_gone_and_the_next_one_can_begin() {
        let tray = Tray::new();
        let held = Rc::new(());
        (0..2).for_each(|label| tray.put(label, || Rc::clone(&held)));
        let work = AssertUnwindSafe(|| tray.begin(0).expect("two were put").work(|_| panic!("on purpose")));
        assert!(catch_unwind(work).is_err());
        assert_eq!(Rc::strong_count(&held), 2);
        drop(tray.begin(0).expect("one is left"));
        assert_eq!(Rc::strong_count(&held), 1);
    }

    #[test]
    fn a_tray_is_not_cleared_while_a_piece_is_at_work_nor_by_the_view_of_another() {
        let (tray, other) = (Tray::<(), ()>::new(), Tray::new());
        let wrong = AssertUnwindSafe(|| tray.take_back(other.lend(), |_, (), ()| ()));
        assert!(catch_unwind(wrong).is_err());
        tray.put((), || ());
        let piece = tray.begin(0);
        let early = AssertUnwindSafe(|| tray.take_back(tray.lend(), |_, (), ()| ()));
        assert!(catch_unwind(early).is_err());
        drop(piece);
    }
}
