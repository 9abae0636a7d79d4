//! [`DispatcherBound`]: a value that lives on one dispatcher, owned by somebody anywhere.
//!
//! 1. Its construction is a task of the dispatcher: it makes the value, puts it into its home, and spawns the *keeper*, a
//!    future that does nothing but hold the home.
//! 2. Each call is a task too, so calls, posts and everything else of the dispatcher keep their order. It takes the value
//!    out of its home and puts it back.
//! 3. The drop of the owner posts one more task, which drops the value and ends the keeper.
//! 4. When the dispatcher shuts down first, calls that wait are canceled, and the keeper is dropped as all futures are: on
//!    the dispatcher, after what was canceled, before the observer. It drops the value.

use std::fmt;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::bound_call::{BoundCall, Teller, bound_call};
use super::home::{Home, LocalHome, SharedHome};
use super::join::{JoinError, JoinHandle};
use crate::runtime::callback_queue::{Invoke, Outcome};
use crate::runtime::{DispatcherHandle, PostError, current, message_of};
use crate::status::Status;
use crate::sync::probe::{self, Point};
use crate::sync::{Arc, Mutex};

/// Owns a `T` that lives on one synchronized dispatcher: it is made there, used there, and dropped there. So it needs
/// neither a lock nor `Sync`, and on a dispatcher [without thread
/// migration](crate::DispatcherBuilder::no_thread_migration) not even `Send`.
///
/// Calls are tasks of the dispatcher: they run in the order in which they were made, and in order with everything else of
/// it. Each is given `&mut T` and never overlaps another. When the owner is dropped, the value is dropped on the
/// dispatcher, after all calls that were made before. When the dispatcher shuts down first, calls that wait are dropped,
/// unmade, then the value, both on the dispatcher and before its shutdown observer.
///
/// A call that panics is handled as any callback that panics; the value stays as the call left it. If the construction
/// panics there is no value, and calls are dropped unmade.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::{DispatcherBound, DispatcherBuilder, RuntimeBuilder};
/// use std::time::Duration;
///
/// let runtime = RuntimeBuilder::new().build()?;
/// let driver = runtime.new_driver("counter");
/// let dispatcher = driver.new_dispatcher(DispatcherBuilder::new())?;
///
/// let words = DispatcherBound::new(&dispatcher, Vec::new)?;
/// words.async_call(|words| words.push("one"))?;
/// words.async_call(|words| words.push("two"))?;
/// let count = words.call_for(|words| words.len())?;
///
/// let (sender, receiver) = std::sync::mpsc::channel();
/// let _waiting = dispatcher.spawn(async move { sender.send(count.await).expect("it is awaited") })?;
/// assert_eq!(receiver.recv()?, Ok(2));
/// drop(words);
/// runtime.shutdown(Duration::from_secs(5))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping the owner drops the value, on its dispatcher"]
pub struct DispatcherBound<T: 'static> {
    dispatcher: DispatcherHandle,
    bound: Arc<Bound<T>>,
}

/// What the owner shares with its tasks.
struct Bound<T> {
    home: Arc<dyn Home<T>>,
    /// Written by the construction, taken by the release; both are tasks of the dispatcher.
    keeper: Mutex<Option<JoinHandle<()>>>,
}

impl<T> Bound<T> {
    /// Drops the value.
    fn release(&self) {
        let value = self.home.take();
        let keeper = self.keeper.lock().take();
        if let Some(keeper) = keeper {
            keeper.cancel();
        }
        // Last, as it may panic.
        drop(value);
    }
}

/// Drops the value that is in a home, with itself.
struct Keeper<T: 'static>(Arc<dyn Home<T>>);

impl<T> Drop for Keeper<T> {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

/// The construction.
struct MakeFn<T: 'static, F> {
    bound: Arc<Bound<T>>,
    make: F,
}

impl<T: 'static, F: FnOnce() -> T + Send + 'static> Invoke for MakeFn<T, F> {
    fn invoke(self, outcome: Outcome) {
        let (Outcome::Done(_), Some(dispatcher)) = (outcome, current()) else { return };
        let MakeFn { bound, make } = self;
        let value = Box::new(make());
        let keeper = Keeper(Arc::clone(&bound.home));
        let keeping = dispatcher.spawn(async move {
            let _keeper = keeper;
            pending::<()>().await;
        });
        // Refused: a shutdown began meanwhile, and the value ends here, on the dispatcher.
        if let Ok(keeping) = keeping {
            bound.home.put(value);
            *bound.keeper.lock() = Some(keeping);
        }
    }
}

/// A call without a result.
struct CallFn<T: 'static, F> {
    bound: Arc<Bound<T>>,
    call: F,
}

impl<T: 'static, F: FnOnce(&mut T) + Send + 'static> Invoke for CallFn<T, F> {
    fn invoke(self, outcome: Outcome) {
        if let Outcome::Done(_) = outcome {
            self.bound.home.lend(|value| {
                probe::point(Point::Begin);
                (self.call)(value);
            });
        }
    }
}

/// A call with a result.
struct CallForFn<T: 'static, F, R> {
    bound: Arc<Bound<T>>,
    call: F,
    /// Dropped after the call, when that is dropped unmade.
    teller: Teller<R>,
}

impl<T, F, R> Invoke for CallForFn<T, F, R>
where
    T: 'static,
    F: FnOnce(&mut T) -> R + Send + 'static,
    R: Send + 'static,
{
    fn invoke(self, outcome: Outcome) {
        let (Outcome::Done(_), Some(dispatcher)) = (outcome, current()) else { return };
        let CallForFn { bound, call, teller } = self;
        bound.home.lend(|value| {
            let called = catch_unwind(AssertUnwindSafe(|| {
                probe::point(Point::Begin);
                call(value)
            }));
            teller.tell(called.map_err(|payload| {
                let message = message_of(payload);
                dispatcher.inner().report_panic(message.clone());
                JoinError::panicked(message)
            }));
        });
    }
}

/// The release.
struct ReleaseFn<T: 'static>(Arc<Bound<T>>);

impl<T: 'static> Invoke for ReleaseFn<T> {
    fn invoke(self, _outcome: Outcome) {
        self.0.release();
    }
}

impl<T: Send + 'static> DispatcherBound<T> {
    /// Binds the value that `make` makes, on the dispatcher.
    ///
    /// # Errors
    /// [`PostError`] with `make`: [`Status::WrongType`] for an unsynchronized dispatcher, [`Status::BadState`] when the
    /// dispatcher shuts down or has shut down.
    ///
    /// # Thread requirements
    /// Any thread.
    #[track_caller]
    pub fn new<F>(dispatcher: &DispatcherHandle, make: F) -> Result<Self, PostError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        Self::bind(dispatcher, Arc::new(SharedHome::new()), make)
    }
}

impl<T: 'static> DispatcherBound<T> {
    /// Like [`new`](DispatcherBound::new) for a value that need not be `Send`, on a dispatcher [without thread
    /// migration](crate::DispatcherBuilder::no_thread_migration).
    ///
    /// # Errors
    /// As [`new`](DispatcherBound::new), and [`Status::NotSupported`] for a dispatcher that may migrate.
    ///
    /// # Thread requirements
    /// Any thread.
    #[track_caller]
    pub fn new_local<F>(dispatcher: &DispatcherHandle, make: F) -> Result<Self, PostError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        if dispatcher.allows_thread_migration() {
            return Err(PostError::with_status(make, Status::NotSupported));
        }
        Self::bind(dispatcher, Arc::new(LocalHome::new()), make)
    }

    #[track_caller]
    fn bind<F>(dispatcher: &DispatcherHandle, home: Arc<dyn Home<T>>, make: F) -> Result<Self, PostError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        if !dispatcher.is_synchronized() {
            return Err(PostError::with_status(make, Status::WrongType));
        }
        let bound = Arc::new(Bound { home, keeper: Mutex::new(None) });
        post(dispatcher, make, |make| MakeFn { bound: Arc::clone(&bound), make })?;
        Ok(DispatcherBound { dispatcher: dispatcher.clone(), bound })
    }

    /// The dispatcher that the value lives on.
    pub fn dispatcher(&self) -> &DispatcherHandle {
        &self.dispatcher
    }

    /// Calls `call` with the value, on the dispatcher, with nobody to wait for it.
    ///
    /// # Errors
    /// [`PostError`] with `call` when the dispatcher shuts down or has shut down.
    ///
    /// # Thread requirements
    /// Any thread. The call is never made before this returns.
    #[track_caller]
    pub fn async_call<F>(&self, call: F) -> Result<(), PostError<F>>
    where
        F: FnOnce(&mut T) + Send + 'static,
    {
        post(&self.dispatcher, call, |call| CallFn { bound: Arc::clone(&self.bound), call })
    }

    /// Like [`async_call`](DispatcherBound::async_call), with a result to be awaited, or waited for. It is [`JoinError`] when the
    /// dispatcher shuts down before the call is made, or when the call panics.
    ///
    /// # Errors
    /// As [`async_call`](DispatcherBound::async_call).
    ///
    /// # Thread requirements
    /// Any thread. To await it is no matter of threads either; [`BoundCall::wait`] has the rules for who blocks.
    #[track_caller]
    pub fn call_for<R, F>(&self, call: F) -> Result<BoundCall<R>, PostError<F>>
    where
        F: FnOnce(&mut T) -> R + Send + 'static,
        R: Send + 'static,
    {
        let (teller, reply) = bound_call(self.dispatcher.id());
        post(&self.dispatcher, call, |call| CallForFn { bound: Arc::clone(&self.bound), call, teller })?;
        Ok(reply)
    }
}

/// Posts what `wrap` makes of a closure of the user, which comes back if it is refused.
#[track_caller]
fn post<F, C: Invoke>(dispatcher: &DispatcherHandle, given: F, wrap: impl FnOnce(F) -> C) -> Result<(), PostError<F>> {
    let mut given = Some(given);
    let accepted = dispatcher.post_made(|| wrap(given.take().expect("an accepted closure is wrapped once")));
    match accepted {
        Ok(_) => Ok(()),
        Err(status) => Err(PostError::with_status(given.take().expect("a refused closure was not wrapped"), status)),
    }
}

impl<T: 'static> Drop for DispatcherBound<T> {
    fn drop(&mut self) {
        // Refused: the keeper drops the value in the shutdown that is under way, or has done so.
        let _ = self.dispatcher.post_made(|| ReleaseFn(Arc::clone(&self.bound)));
    }
}

impl<T: 'static> fmt::Debug for DispatcherBound<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatcherBound").field("dispatcher", &self.dispatcher).finish_non_exhaustive()
    }
}
