//! A callback, type-erased and stored in place.
//!
//! A closure of up to [`INLINE_WORDS`] words lives in the callback itself, so that accepting a post allocates
//! nothing; a larger one is boxed and the box lives in its place. What a callback is told is an [`Outcome`]; the
//! typed argument that a user's closure sees is made from it by an [`Invoke`] implementation, one a kind of operation.
//!
//! # Invariants
//! - `storage` holds a valid value of the type for which `vtable` was made, from [`Callback::new`] or
//!   [`Callback::staying`] until the value is moved out or dropped by [`Callback::invoke`], which leaves the table of
//!   nothing ([`SPENT`]) there, or moved out by [`Callback::into_inner`], which forgets the callback, or dropped in
//!   `Drop`. One that stays and waits again is called where it is, and is there afterwards.
//! - The stored type is `Send`, because [`Callback::new`] asks for it; that is what makes the callback `Send`.
#![allow(unsafe_code, reason = "type erasure without an allocation; the invariants above are kept by this file alone")]

use std::any::{Any, TypeId};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit, align_of, size_of};

use crate::runtime::again::Again;
use crate::status::Status;
use crate::sync::probe::Told;

/// What gives the name of a type, for when somebody asks.
pub(crate) type TypeNameOf = fn() -> &'static str;

/// How many words a closure may have and still be stored in place.
pub(crate) const INLINE_WORDS: usize = 6;

/// What a callback is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// What it waited for happened. The number is the kind's own: readiness bits for a wait, otherwise 0.
    Done(u64),
    /// What it waited for ended in its own way, such as a peer that closed.
    Failed(Status),
    /// Its dispatcher shuts down, or the operation was canceled with notice.
    Canceled,
}

impl Outcome {
    /// The outcome as a result, with `Canceled` as a status among others.
    pub(crate) fn into_result(self) -> Result<u64, Status> {
        match self {
            Outcome::Done(payload) => Ok(payload),
            Outcome::Failed(status) => Err(status),
            Outcome::Canceled => Err(Status::Canceled),
        }
    }

    /// What a test is told of it.
    pub(crate) fn as_told(self) -> Told {
        match self {
            Outcome::Done(_) => Told::Outcome,
            Outcome::Failed(_) => Told::Failure,
            Outcome::Canceled => Told::Canceled,
        }
    }
}

/// Something that can be told an outcome, once.
pub(crate) trait Invoke: Send + 'static {
    /// Consumes the callback.
    fn invoke(self, outcome: Outcome);
}

/// What becomes of a callback that has been called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "what waits again is to be accepted anew"]
pub(crate) enum Then {
    /// Nothing is left of it.
    Ended,
    /// It is still there, and waits for the next time ([`Stay::wait_again`]).
    WaitsAgain,
}

/// Something that is told an outcome again and again, each time as a callback of its own.
pub(crate) trait Stay: Send + 'static {
    /// Calls it. After [`Then::Ended`], and after a panic, it is dropped.
    fn invoke(&mut self, outcome: Outcome) -> Then;

    /// Registers it anew. `again` has it accepted by its dispatcher.
    fn wait_again(&mut self, again: &mut Again<'_>);

    /// It has begun, and is handed what it waited for before it is called: an `Option` of that, out of which it takes it.
    /// Called under the lock of what it waits for; nobody else's code runs.
    fn hand(&mut self, _what: &mut dyn Any) {}
}

/// Adapter for closures of tests that take the outcome as it is.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct WithOutcome<F>(pub(crate) F);

#[cfg(test)]
impl<F: FnOnce(Outcome) + Send + 'static> Invoke for WithOutcome<F> {
    fn invoke(self, outcome: Outcome) {
        (self.0)(outcome);
    }
}

type Storage = MaybeUninit<[usize; INLINE_WORDS]>;

struct VTable {
    /// Moves the value out or drops it, unless it waits again.
    ///
    /// The outcome is lent: a copy would be read in one piece right after it has been written in two.
    invoke: unsafe fn(*mut Storage, &Outcome) -> Then,
    drop: unsafe fn(*mut Storage),
    /// Registers the value anew, if it is one that stays; it is not moved.
    wait_again: unsafe fn(*mut Storage, &mut Again<'_>),
    /// Hands it what it waited for.
    hand: unsafe fn(*mut Storage, &mut dyn Any),
    type_id: fn() -> TypeId,
    type_name: TypeNameOf,
}

/// A type-erased [`Invoke`].
pub(crate) struct Callback {
    storage: Storage,
    vtable: &'static VTable,
}

// SAFETY: the stored value is `Send` (bound of `Invoke`, asked for by `new`); nothing else in a callback is shared.
unsafe impl Send for Callback {}

/// What a callback is that has been called: nothing.
static SPENT: VTable = VTable {
    invoke: |_, _| Then::Ended,
    drop: |_| {},
    wait_again: |_, _| {},
    hand: |_, _| {},
    type_id: TypeId::of::<()>,
    type_name: || "",
};

struct Inline<C>(C);
struct Boxed<C>(C);
struct Staying<C>(C);

impl<C: Invoke> Inline<C> {
    const VTABLE: VTable = VTable {
        invoke: |storage, outcome| {
            // SAFETY: by the invariant the storage holds a `C`, which is moved out here and not touched again.
            let callback = unsafe { storage.cast::<C>().read() };
            callback.invoke(*outcome);
            Then::Ended
        },
        drop: |storage| {
            // SAFETY: by the invariant the storage holds a `C`, which nobody uses after `Drop`.
            unsafe { storage.cast::<C>().drop_in_place() }
        },
        wait_again: |_, _| {},
        hand: |_, _| {},
        type_id: TypeId::of::<C>,
        type_name: std::any::type_name::<C>,
    };
}

impl<C: Invoke> Boxed<C> {
    const VTABLE: VTable = VTable {
        invoke: |storage, outcome| {
            // SAFETY: by the invariant the storage holds a `Box<C>`, which is moved out here and not touched again.
            let callback = unsafe { storage.cast::<Box<C>>().read() };
            (*callback).invoke(*outcome);
            Then::Ended
        },
        drop: |storage| {
            // SAFETY: by the invariant the storage holds a `Box<C>`, which nobody uses after `Drop`.
            unsafe { storage.cast::<Box<C>>().drop_in_place() }
        },
        wait_again: |_, _| {},
        hand: |_, _| {},
        type_id: TypeId::of::<C>,
        type_name: std::any::type_name::<C>,
    };
}

impl<C: Stay> Staying<C> {
    const VTABLE: VTable = VTable {
        invoke: |storage, outcome| {
            /// Drops the value in context, also when its call panics.
            struct Ends<C>(*mut Storage, PhantomData<C>);
            impl<C> Drop for Ends<C> {
                fn drop(&mut self) {
                    // SAFETY: made below, of storage that holds a `C` or its box, which nobody touches again.
                    unsafe { drop_stored::<C>(self.0) }
                }
            }
            let ends = Ends(storage, PhantomData::<C>);
            // SAFETY: by the invariant the storage holds a `C` or its box.
            let callback = unsafe { stored::<C>(storage) };
            // SAFETY: whoever calls a callback owns it, so nobody else reaches the value meanwhile.
            let then = unsafe { &mut *callback }.invoke(*outcome);
            if then == Then::WaitsAgain {
                std::mem::forget(ends);
            }
            then
        },
        drop: |storage| {
            // SAFETY: by the invariant the storage holds a `C` or its box, which nobody uses after `Drop`.
            unsafe { drop_stored::<C>(storage) }
        },
        wait_again: |storage, again| {
            // SAFETY: by the invariant the storage holds a `C` or its box.
            let callback = unsafe { stored::<C>(storage) };
            // SAFETY: whoever has called a callback owns it, so nobody else reaches the value meanwhile.
            unsafe { &mut *callback }.wait_again(again);
        },
        hand: |storage, what| {
            // SAFETY: by the invariant the storage holds a `C` or its box.
            let callback = unsafe { stored::<C>(storage) };
            // SAFETY: whoever has taken a callback out to call it owns it, so nobody else reaches the value meanwhile.
            unsafe { &mut *callback }.hand(what);
        },
        type_id: TypeId::of::<C>,
        type_name: std::any::type_name::<C>,
    };
}

/// Where the value is.
///
/// # Safety
/// The storage holds a `C`, or its box if a `C` does not fit.
unsafe fn stored<C>(storage: *mut Storage) -> *mut C {
    if fits::<C>() {
        return storage.cast();
    }
    // SAFETY: it does not fit, so the storage holds a box, which is neither moved nor dropped here.
    unsafe { &raw mut **storage.cast::<Box<C>>() }
}

/// Drops the value.
///
/// # Safety
/// As for [`stored`], and nobody uses the value afterwards.
unsafe fn drop_stored<C>(storage: *mut Storage) {
    if fits::<C>() {
        // SAFETY: it fits, so the storage holds a `C`, and this is its last use.
        return unsafe { storage.cast::<C>().drop_in_place() };
    }
    // SAFETY: it does not fit, so the storage holds a box, and this is its last use.
    unsafe { storage.cast::<Box<C>>().drop_in_place() }
}

const fn fits<C>() -> bool {
    size_of::<C>() <= size_of::<Storage>() && align_of::<C>() <= align_of::<Storage>()
}

impl Callback {
    /// Whether a `C` is stored in place, so that to make a callback of it allocates nothing.
    pub(crate) const fn fits<C>() -> bool {
        fits::<C>()
    }

    /// Erases the type of `callback`.
    pub(crate) fn new<C: Invoke>(callback: C) -> Self {
        Callback::store(callback, if fits::<C>() { &Inline::<C>::VTABLE } else { &Boxed::<C>::VTABLE })
    }

    /// Like [`new`](Callback::new), for something that may wait again.
    pub(crate) fn staying<C: Stay>(callback: C) -> Self {
        Callback::store(callback, &Staying::<C>::VTABLE)
    }

    /// Puts a value where there is nothing, so that it is made where it is going to lie.
    #[inline(always)]
    pub(crate) fn fill<C: Invoke>(&mut self, callback: C) {
        debug_assert!(std::ptr::eq(self.vtable, &raw const SPENT), "nothing is here that would be forgotten");
        if !fits::<C>() {
            *self = Callback::new(callback);
            return;
        }
        // SAFETY: size and alignment of `C` fit the storage, as just checked.
        unsafe { self.storage.as_mut_ptr().cast::<C>().write(callback) };
        self.vtable = &Inline::<C>::VTABLE;
    }

    /// Nothing: what stands in the place of a callback that is elsewhere at the moment.
    pub(crate) const fn spent() -> Self {
        Callback { storage: Storage::uninit(), vtable: &SPENT }
    }

    /// Stores a value in place or in a box, whichever `vtable` is made for.
    #[inline(always)]
    fn store<C: Send + 'static>(callback: C, vtable: &'static VTable) -> Self {
        let mut storage = Storage::uninit();
        if fits::<C>() {
            // SAFETY: size and alignment of `C` fit the storage, as just checked.
            unsafe { storage.as_mut_ptr().cast::<C>().write(callback) };
        } else {
            // SAFETY: a box is one word and the storage is aligned for words.
            unsafe { storage.as_mut_ptr().cast::<Box<C>>().write(Box::new(callback)) };
        }
        Callback { storage, vtable }
    }

    /// Calls it, from where it stands. Nothing is left of it unless it waits again.
    #[inline]
    pub(crate) fn invoke(&mut self, outcome: &Outcome) -> Then {
        let vtable = std::mem::replace(&mut self.vtable, &SPENT);
        // SAFETY: this was the table of the value, which nobody can reach any more once the value is moved out.
        let then = unsafe { (vtable.invoke)(&raw mut self.storage, outcome) };
        if then == Then::WaitsAgain {
            self.vtable = vtable;
        }
        then
    }

    /// Registers it anew, after it has returned [`Then::WaitsAgain`].
    #[inline]
    pub(crate) fn wait_again(&mut self, again: &mut Again<'_>) {
        // SAFETY: by the invariant the storage holds a value of the type that this table is made for.
        unsafe { (self.vtable.wait_again)(&raw mut self.storage, again) }
    }

    /// Hands it what it waited for, before it is called.
    #[inline]
    pub(crate) fn hand(&mut self, what: &mut dyn Any) {
        // SAFETY: by the invariant the storage holds a value of the type that this table is made for.
        unsafe { (self.vtable.hand)(&raw mut self.storage, what) }
    }

    /// The callback as what it was before its type was erased; `self` again if that was another type.
    pub(crate) fn into_inner<C: Invoke>(self) -> Result<C, Self> {
        if (self.vtable.type_id)() != TypeId::of::<C>() {
            return Err(self);
        }
        let this = ManuallyDrop::new(self);
        let storage = &raw const this.storage;
        if fits::<C>() {
            // SAFETY: the type is `C` and it fits, so `new` stored it in place; `this` is never dropped.
            Ok(unsafe { storage.cast::<C>().read() })
        } else {
            // SAFETY: the type is `C` and it does not fit, so `new` stored a box; `this` is never dropped.
            Ok(*unsafe { storage.cast::<Box<C>>().read() })
        }
    }

    /// The name of the erased type, for dumps.
    pub(crate) fn type_name(&self) -> &'static str {
        (self.vtable.type_name)()
    }

    /// What gives the name of the erased type, for when somebody asks.
    pub(crate) fn type_name_of(&self) -> TypeNameOf {
        self.vtable.type_name
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        // SAFETY: if the value has been moved out, this is the table of nothing; otherwise this is its last use.
        unsafe { (self.vtable.drop)(&raw mut self.storage) }
    }
}

impl fmt::Debug for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Callback").field(&self.type_name()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Counted<const WORDS: usize>(Arc<AtomicUsize>, Arc<AtomicUsize>, [usize; WORDS]);

    impl<const WORDS: usize> Invoke for Counted<WORDS> {
        fn invoke(self, outcome: Outcome) {
            assert_eq!(outcome, Outcome::Done(self.2.iter().sum::<usize>() as u64));
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl<const WORDS: usize> Drop for Counted<WORDS> {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn ends_once<const WORDS: usize>() {
        let (ran, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let make = || Callback::new(Counted::<WORDS>(ran.clone(), dropped.clone(), [7; WORDS]));
        let counts = || (ran.load(Ordering::Relaxed), dropped.load(Ordering::Relaxed));
        assert_eq!(make().invoke(&Outcome::Done(7 * WORDS as u64)), Then::Ended);
        assert_eq!(counts(), (1, 1));
        drop(make());
        assert_eq!(counts(), (1, 2));
        let inner = make().into_inner::<Counted<WORDS>>().expect("the type is the same");
        assert_eq!(counts(), (1, 2));
        drop(inner);
        assert_eq!(counts(), (1, 3));
        let other = make().into_inner::<WithOutcome<fn(Outcome)>>().expect_err("the type is another");
        drop(other);
        assert_eq!(counts(), (1, 4));
    }

    #[test]
    fn a_small_callback_runs_or_drops_exactly_once() {
        ends_once::<1>();
    }

    #[test]
    fn a_callback_too_large_for_its_place_runs_or_drops_exactly_once() {
        ends_once::<40>();
    }

    #[test]
    fn a_closure_that_panics_drops_what_it_owns() {
        let dropped = Arc::new(());
        let held = Arc::clone(&dropped);
        let mut callback = Callback::new(WithOutcome(move |_| {
            let _held = held;
            panic!("on purpose");
        }));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| callback.invoke(&Outcome::Canceled)));
        assert!(result.is_err());
        assert_eq!(Arc::strong_count(&dropped), 1);
    }
}
