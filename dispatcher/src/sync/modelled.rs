//! The same face over a model checker: loom or shuttle.
//!
//! Under loom [`UnsafeCell`] is loom's, which reports every pair of accesses that nothing orders.
//!
//! Not covered: timeouts (a wait with a deadline ends only when notified), thread names, fairness of locks.
#![allow(dead_code, unused_imports, reason = "a facade is whole, whatever the crate uses of it at a time")]

use std::fmt;
use std::ops::{Deref, DerefMut};

#[cfg(loom)]
use loom as model;
#[cfg(shuttle)]
use shuttle as model;

use crate::sync::Wakeup;
use crate::time::Instant;

#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell;
pub(crate) use model::sync::Arc;
#[cfg(shuttle)]
pub(crate) use shuttle::{sync::Weak, thread_local};

pub(crate) mod atomic {
    //! Atomics of the model.
    pub(crate) use super::model::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
}

pub(crate) mod hint {
    //! What a thread says while it spins; the model lets another thread run.
    pub(crate) use super::model::hint::spin_loop;
}

/// A lock without poisoning.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(model::sync::Mutex<T>);

/// The right to the data of a [`Mutex`]; empty only inside [`Condvar::wait`].
#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T>(Option<model::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(model::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())))
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().expect("a guard is empty only while its condition variable waits")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("a guard is empty only while its condition variable waits")
    }
}

/// A lock for many readers or one writer, without poisoning.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(model::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        RwLock(model::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> model::sync::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn write(&self) -> model::sync::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A condition variable whose waits borrow the guard.
pub(crate) struct Condvar {
    inner: model::sync::Condvar,
}

impl Condvar {
    pub(crate) fn new() -> Self {
        Condvar { inner: model::sync::Condvar::new() }
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("a guard is empty only while its condition variable waits");
        guard.0 = Some(self.inner.wait(held).unwrap_or_else(|poisoned| poisoned.into_inner()));
    }

    /// Waits as if `deadline` never came.
    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, deadline: Instant) -> Wakeup {
        let _ = deadline;
        self.wait(guard);
        Wakeup::Notified
    }

    pub(crate) fn notify_one(&self) {
        self.inner.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.inner.notify_all();
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar")
    }
}

/// Memory that several threads reach through raw pointers (shuttle does not watch it).
#[cfg(shuttle)]
#[derive(Debug, Default)]
pub(crate) struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

#[cfg(shuttle)]
impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }

    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}

pub(crate) mod thread {
    //! Threads of the model.

    use std::io;

    use super::model;

    pub(crate) use model::thread::{ThreadId, yield_now};

    pub(crate) fn current_id() -> ThreadId {
        model::thread::current().id()
    }

    /// Waits for a spawned thread.
    #[derive(Debug)]
    #[must_use = "a thread whose handle is dropped is never joined"]
    pub(crate) struct JoinHandle<T>(model::thread::JoinHandle<T>);

    impl<T> JoinHandle<T> {
        pub(crate) fn join(self) -> std::thread::Result<T> {
            self.0.join()
        }

        #[cfg(shuttle)]
        pub(crate) fn id(&self) -> ThreadId {
            self.0.thread().id()
        }

        /// Never known in a model.
        #[cfg(shuttle)]
        pub(crate) fn is_finished(&self) -> bool {
            false
        }
    }

    pub(crate) fn spawn<T, F>(name: &str, body: F) -> io::Result<JoinHandle<T>>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let _ = name;
        Ok(JoinHandle(model::thread::spawn(body)))
    }
}
