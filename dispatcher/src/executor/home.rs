//! Where a value lives that is bound to one dispatcher.
//!
//! A value that is `Send` lives behind a lock, which no two threads ever want at once. One that is not stays in a
//! thread-local table of the thread that the dispatcher is pinned to, and what travels is its number; so it takes no
//! `unsafe` to reach it from closures that are `Send`.
//!
//! # Invariants
//! - The value is taken out while code of the user has it, so no lock and no borrow is held then, and it is put back
//!   also when that code panics.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::marker::PhantomData;

use crate::sync::unmodelled::{AtomicU64, Ordering};
use crate::sync::{Mutex, thread_local};

/// A place for one value, which may be empty.
pub(super) trait Home<T>: Send + Sync {
    /// Takes the value out. `None`: there is none (any more), or it is on another thread.
    fn take(&self) -> Option<Box<T>>;

    /// Puts a value in.
    fn put(&self, value: Box<T>);
}

impl<T> dyn Home<T> {
    /// Lends the value to `f`; false if there is none, and then `f` is dropped.
    pub(super) fn lend(&self, f: impl FnOnce(&mut T)) -> bool {
        struct PutBack<'a, T>(&'a dyn Home<T>, Option<Box<T>>);
        impl<T> Drop for PutBack<'_, T> {
            fn drop(&mut self) {
                if let Some(value) = self.1.take() {
                    self.0.put(value);
                }
            }
        }
        let mut lent = PutBack(self, self.take());
        match lent.1.as_deref_mut() {
            Some(value) => {
                f(value);
                true
            }
            None => false,
        }
    }
}

/// A home for what may be sent from thread to thread.
pub(super) struct SharedHome<T>(Mutex<Option<Box<T>>>);

impl<T> SharedHome<T> {
    pub(super) fn new() -> Self {
        SharedHome(Mutex::new(None))
    }
}

impl<T: Send> Home<T> for SharedHome<T> {
    fn take(&self) -> Option<Box<T>> {
        self.0.lock().take()
    }

    fn put(&self, value: Box<T>) {
        *self.0.lock() = Some(value);
    }
}

thread_local! {
    /// The values that live on this thread, by number.
    static VALUES: RefCell<HashMap<u64, Box<dyn Any>>> = RefCell::new(HashMap::new());
}

/// A home for what stays on the thread that puts it in.
pub(super) struct LocalHome<T> {
    number: u64,
    /// Only named, never held: it is on its own thread.
    of: PhantomData<fn() -> T>,
}

impl<T> LocalHome<T> {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        LocalHome { number: NEXT.fetch_add(1, Ordering::Relaxed), of: PhantomData }
    }
}

impl<T: 'static> Home<T> for LocalHome<T> {
    fn take(&self) -> Option<Box<T>> {
        // A thread that ends has dropped what was on it.
        let value = VALUES.try_with(|values| values.borrow_mut().remove(&self.number)).ok().flatten()?;
        value.downcast().ok()
    }

    fn put(&self, value: Box<T>) {
        let mut value = Some(value as Box<dyn Any>);
        let _ = VALUES.try_with(|values| {
            if let Some(value) = value.take() {
                values.borrow_mut().insert(self.number, value);
            }
        });
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::sync::Arc;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    #[test]
    fn a_value_is_lent_until_it_is_taken_and_survives_a_panic() {
        let homes: [Arc<dyn Home<u32>>; 2] = [Arc::new(SharedHome::new()), Arc::new(LocalHome::new())];
        for home in homes {
            assert!(!home.lend(|_| unreachable!("it is empty")));
            home.put(Box::new(1));
            assert!(home.lend(|value| *value += 1));
            let lending = catch_unwind(AssertUnwindSafe(|| home.lend(|_| panic!("on purpose"))));
            assert!(lending.is_err());
            assert_eq!(home.take().as_deref(), Some(&2));
            assert!(home.take().is_none());
        }
    }

    #[test]
    fn what_a_value_does_while_it_is_lent_may_look_for_it() {
        let home: Arc<dyn Home<u32>> = Arc::new(LocalHome::new());
        home.put(Box::new(1));
        let again = Arc::clone(&home);
        assert!(home.lend(|_| assert!(!again.lend(|_| ()), "it is lent")));
        assert!(home.lend(|_| ()));
    }

    #[test]
    fn a_local_value_is_found_on_its_own_thread_only() {
        let home: Arc<dyn Home<Rc<u32>>> = Arc::new(LocalHome::new());
        let (value, there) = (Rc::new(7), Arc::clone(&home));
        home.put(Box::new(Rc::clone(&value)));
        let elsewhere = crate::sync::thread::spawn("elsewhere", move || there.take().is_none()).expect("a thread");
        assert!(elsewhere.join().expect("it ends"));
        assert_eq!(home.take().as_deref(), Some(&value));
    }
}
