//! `SmallFn<A>`: a `FnOnce(&A) + Send` that needs no box as long as it captures no more than three words.
//!
//! Posting a closure is the commonest thing that a loop does, and the allocator is a third of its price. So the closure
//! is moved into three words of storage, with a table of two functions beside it that know its type; only a bigger one
//! (or one with an unusual alignment) is boxed, and then the box is what lies in the storage.
//!
//! Invariant kept by the unsafe code here: `storage` holds a valid value of the type that `table` was made for, until
//! exactly one of `call`, `into_closure` or `drop` takes it out.
#![expect(unsafe_code, reason = "a value of unknown type is kept in fixed storage")]

use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit, align_of, size_of};

type Storage = MaybeUninit<[usize; 3]>;

/// A closure to be called once with a reference to `A`, on whichever thread holds it.
pub(crate) struct SmallFn<A: ?Sized + 'static> {
    storage: Storage,
    table: &'static Table<A>,
    /// The closure may be neither `Sync` nor free of interior pointers; only `Send` is asked of it.
    marker: PhantomData<*mut ()>,
}

struct Table<A: ?Sized> {
    /// Takes the closure out of the storage and calls it.
    call: unsafe fn(*mut Storage, &A),
    /// Drops the closure where it lies.
    drop: unsafe fn(*mut Storage),
}

// SAFETY: `new` accepts only closures that are `Send`, and nothing else is inside.
unsafe impl<A: ?Sized> Send for SmallFn<A> {}

/// Names the table of one closure type; each is a constant, so its address is static.
struct TableOf<A: ?Sized, F>(PhantomData<fn(&A, F)>);

impl<A: ?Sized + 'static, F: FnOnce(&A) + Send + 'static> TableOf<A, F> {
    const INLINE: Table<A> = Table { call: call_inline::<A, F>, drop: drop_inline::<F> };
    const BOXED: Table<A> = Table { call: call_boxed::<A, F>, drop: drop_inline::<Box<F>> };
}

const fn fits_inline<F>() -> bool {
    size_of::<F>() <= size_of::<Storage>() && align_of::<F>() <= align_of::<Storage>()
}

unsafe fn call_inline<A: ?Sized, F: FnOnce(&A)>(storage: *mut Storage, argument: &A) {
    // SAFETY: the caller guarantees that a valid `F` lies here and that it is taken out only this once.
    let closure = unsafe { storage.cast::<F>().read() };
    closure(argument);
}

unsafe fn call_boxed<A: ?Sized, F: FnOnce(&A)>(storage: *mut Storage, argument: &A) {
    // SAFETY: the caller guarantees that a valid `Box<F>` lies here and that it is taken out only this once.
    let closure = unsafe { storage.cast::<Box<F>>().read() };
    closure(argument);
}

unsafe fn drop_inline<T>(storage: *mut Storage) {
    // SAFETY: the caller guarantees that a valid `T` lies here and that nobody uses it afterwards.
    unsafe { storage.cast::<T>().drop_in_place() }
}

impl<A: ?Sized + 'static> SmallFn<A> {
    /// Moves `closure` into the storage, or into a box if it is too big for it.
    pub(crate) fn new<F: FnOnce(&A) + Send + 'static>(closure: F) -> Self {
        let mut storage = Storage::uninit();
        if fits_inline::<F>() {
            // SAFETY: size and alignment were checked just now, and the storage is fresh.
            unsafe { storage.as_mut_ptr().cast::<F>().write(closure) };
            return SmallFn { storage, table: &TableOf::<A, F>::INLINE, marker: PhantomData };
        }
        // SAFETY: a box is one word, aligned like one, and the storage is fresh.
        unsafe { storage.as_mut_ptr().cast::<Box<F>>().write(Box::new(closure)) };
        SmallFn { storage, table: &TableOf::<A, F>::BOXED, marker: PhantomData }
    }

    /// Calls the closure. A panic of it passes through; its captures are dropped either way.
    pub(crate) fn call(self, argument: &A) {
        let mut this = ManuallyDrop::new(self);
        let call = this.table.call;
        // SAFETY: the storage holds what the table was made for, and `this` is never dropped, so it is taken out once.
        unsafe { call(&mut this.storage, argument) }
    }

    /// Gives the closure back as what it was.
    ///
    /// # Safety
    /// This value must have been made by [`SmallFn::new`] from a closure of this very type.
    pub(crate) unsafe fn into_closure<F: FnOnce(&A) + Send + 'static>(self) -> F {
        let mut this = ManuallyDrop::new(self);
        let storage = this.storage.as_mut_ptr();
        if fits_inline::<F>() {
            // SAFETY: the caller says that an `F` was stored, which was stored inline as it fits; taken out once.
            return unsafe { storage.cast::<F>().read() };
        }
        // SAFETY: as above, in a box as it does not fit.
        *unsafe { storage.cast::<Box<F>>().read() }
    }
}

impl<A: ?Sized + 'static> Drop for SmallFn<A> {
    fn drop(&mut self) {
        // SAFETY: `call` and `into_closure` never run this, so the value is still there.
        unsafe { (self.table.drop)(&mut self.storage) }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::Arc;
    use crate::sync::atomic::{AtomicUsize, Ordering};

    struct CountsDrop(Arc<AtomicUsize>);
    impl Drop for CountsDrop {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn small(drops: &Arc<AtomicUsize>) -> impl FnOnce(&AtomicUsize) + Send + use<> {
        let counts = CountsDrop(drops.clone());
        move |sum| {
            let _counts = counts;
            sum.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn big(drops: &Arc<AtomicUsize>) -> impl FnOnce(&AtomicUsize) + Send + use<> {
        let counts = CountsDrop(drops.clone());
        let ballast = [7usize; 16];
        move |sum| {
            let _counts = counts;
            sum.fetch_add(ballast[3], Ordering::Relaxed);
        }
    }

    #[test]
    fn called_closures_run_once_and_drop_their_captures_once() {
        let (drops, sum) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
        SmallFn::new(small(&drops)).call(&sum);
        SmallFn::new(big(&drops)).call(&sum);
        assert_eq!((sum.into_inner(), drops.load(Ordering::Relaxed)), (8, 2));
    }

    #[test]
    fn dropped_closures_drop_their_captures_and_do_not_run() {
        let drops = Arc::new(AtomicUsize::new(0));
        drop(SmallFn::new(small(&drops)));
        drop(SmallFn::new(big(&drops)));
        assert_eq!(drops.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_panicking_closure_still_drops_its_captures_once() {
        let drops = Arc::new(AtomicUsize::new(0));
        let counts = CountsDrop(drops.clone());
        let closure = SmallFn::<()>::new(move |_| {
            let _counts = counts;
            panic!("on purpose");
        });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| closure.call(&()))).is_err());
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn over_aligned_captures_are_boxed_and_keep_their_alignment() {
        #[repr(align(64))]
        struct Aligned(u8);
        let aligned = Aligned(9);
        let sum = AtomicUsize::new(0);
        SmallFn::<AtomicUsize>::new(move |sum| {
            let aligned = aligned;
            assert_eq!(std::ptr::from_ref(&aligned).addr() % 64, 0);
            sum.store(usize::from(aligned.0), Ordering::Relaxed);
        })
        .call(&sum);
        assert_eq!(sum.into_inner(), 9);
    }
}
