//! The normal build: `parking_lot` locks, everything else from `std`.
#![expect(clippy::disallowed_types, reason = "the facade itself")]
#![allow(dead_code, unused_imports, reason = "a facade is whole, whatever the crate uses of it at a time")]

use std::fmt;

use crate::sync::Wakeup;
use crate::time::{Clock, Instant};

pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock};
pub(crate) use std::sync::{Arc, Weak};
pub(crate) use std::thread_local;

pub(crate) mod atomic {
    //! Atomics of the normal build.
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

pub(crate) mod hint {
    //! What a thread says while it spins.
    pub(crate) use std::hint::spin_loop;
}

/// A condition variable whose waits borrow the guard.
#[derive(Default)]
pub(crate) struct Condvar {
    inner: parking_lot::Condvar,
}

impl Condvar {
    pub(crate) const fn new() -> Self {
        Condvar { inner: parking_lot::Condvar::new() }
    }

    /// Releases the lock, sleeps until notified, takes the lock again. May wake for no reason.
    pub(crate) fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.inner.wait(guard);
    }

    /// Like [`Condvar::wait`], but not beyond `deadline`, which is one of the real clock.
    pub(crate) fn wait_until<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, deadline: Instant) -> Wakeup {
        if deadline.is_infinite() {
            self.wait(guard);
            return Wakeup::Notified;
        }
        let remaining = deadline.duration_since(Clock::real().now());
        if remaining.is_zero() || self.inner.wait_for(guard, remaining).timed_out() {
            return Wakeup::TimedOut;
        }
        Wakeup::Notified
    }

    pub(crate) fn notify_one(&self) {
        self.inner.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.inner.notify_all();
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar")
    }
}

/// Memory that several threads reach through raw pointers; who may do so when is the business of its user.
#[derive(Debug, Default)]
#[repr(transparent)]
pub(crate) struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> UnsafeCell<T> {
    /// Gives the closure a pointer to read through. Nobody may write meanwhile.
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// Gives the closure a pointer to write through. Nobody else may read or write meanwhile.
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

pub(crate) mod thread {
    //! Threads of the normal build: every one has a name.

    use std::cell::Cell;
    use std::io;

    pub(crate) use std::thread::{ThreadId, yield_now};

    /// The running thread's identity.
    pub(crate) fn current_id() -> ThreadId {
        super::thread_local! {
            /// Kept, because the library counts a reference to the thread up and down to tell it.
            static ID: Cell<Option<ThreadId>> = const { Cell::new(None) };
        }
        ID.with(|id| id.get().unwrap_or_else(|| ask_for_id(id)))
    }

    #[cold]
    fn ask_for_id(kept: &Cell<Option<ThreadId>>) -> ThreadId {
        let id = std::thread::current().id();
        kept.set(Some(id));
        id
    }

    /// Waits for a spawned thread.
    #[derive(Debug)]
    #[must_use = "a thread whose handle is dropped is never joined"]
    pub(crate) struct JoinHandle<T>(std::thread::JoinHandle<T>);

    impl<T> JoinHandle<T> {
        /// Waits for the thread to end; `Err` carries the panic that ended it.
        pub(crate) fn join(self) -> std::thread::Result<T> {
            self.0.join()
        }

        pub(crate) fn is_finished(&self) -> bool {
            self.0.is_finished()
        }

        pub(crate) fn id(&self) -> ThreadId {
            self.0.thread().id()
        }
    }

    /// Starts a thread under `name`.
    ///
    /// # Errors
    /// What the kernel says when it gives no further thread.
    pub(crate) fn spawn<T, F>(name: &str, body: F) -> io::Result<JoinHandle<T>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        #[cfg(feature = "testing")]
        crate::sync::refused_threads::admit()?;
        // The kernel's names end at a zero byte, and the library panics at one.
        let name = name.replace('\0', "\u{fffd}");
        let starting = crate::sync::own_threads::Starting::new();
        let listed = move || {
            let _runs = starting.runs();
            body()
        };
        std::thread::Builder::new().name(name).spawn(listed).map(JoinHandle)
    }
}
