//! Dispatchers: where the callbacks and futures of a driver run.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use thiserror::Error;

use crate::abi::{
    ALLOW_SYNC_CALLS, ALWAYS_ON, CallSite, ContextObject, DispatcherObject, NO_THREAD_MIGRATION, Observer, TaskObject,
    UNSYNCHRONIZED, here,
};
use crate::offload::{Lane, OffloadError, OffloadHandle, StopToken};
use crate::{Canceled, Instant, JoinHandle, Status, offload, task};

/// A handle to a dispatcher. Cheap to clone, usable from any thread; it does not keep the dispatcher running, and after
/// the shutdown every operation answers `BadState`.
///
/// An accepted callback ends in exactly one way: it runs with its outcome, it runs with `Canceled` at the shutdown, or
/// it is taken back by a successful cancel. A refused one comes back inside the error.
#[derive(Clone)]
pub struct Dispatcher {
    object: DispatcherObject,
}

/// The dispatcher whose callback or future runs on this thread; `None` on threads that run none.
pub fn current() -> Option<Dispatcher> {
    DispatcherObject::current().map(Dispatcher::from_object)
}

impl Dispatcher {
    pub(crate) fn from_object(object: DispatcherObject) -> Self {
        Dispatcher { object }
    }

    pub(crate) fn object(&self) -> &DispatcherObject {
        &self.object
    }

    /// Posts `f`, to run when its turn comes; never before this returns. It learns whether it runs for real or because
    /// the dispatcher shuts down.
    ///
    /// # Errors
    /// The dispatcher is shut down (`BadState`); the closure is inside the error.
    #[track_caller]
    pub fn post_task<F>(&self, f: F) -> Result<(), PostError<F>>
    where
        F: FnOnce(Result<(), Canceled>) + Send + 'static,
    {
        self.object.post(here::<F>(), f).map_err(PostError::new)
    }

    /// As [`post_task`](Self::post_task), with a handle that can take the task back.
    ///
    /// # Errors
    /// As [`post_task`](Self::post_task).
    #[track_caller]
    pub fn post_cancelable<F>(&self, f: F) -> Result<TaskHandle, PostError<F>>
    where
        F: FnOnce(Result<(), Canceled>) + Send + 'static,
    {
        self.object.post_at(here::<F>(), 0, f).map(TaskHandle).map_err(PostError::new)
    }

    /// Posts `f` for a time on the monotonic clock; a past one means now.
    ///
    /// # Errors
    /// As [`post_task`](Self::post_task); an infinite deadline is `InvalidArgs`.
    #[track_caller]
    pub fn post_at<F>(&self, deadline: Instant, f: F) -> Result<TaskHandle, PostError<F>>
    where
        F: FnOnce(Result<(), Canceled>) + Send + 'static,
    {
        // The start of time is "no deadline" to the host, which comes to the same: it has passed.
        self.object.post_at(here::<F>(), deadline.as_nanos(), f).map(TaskHandle).map_err(PostError::new)
    }

    /// Posts `f` to run after `delay`.
    ///
    /// # Errors
    /// As [`post_at`](Self::post_at).
    #[track_caller]
    pub fn post_after<F>(&self, delay: Duration, f: F) -> Result<TaskHandle, PostError<F>>
    where
        F: FnOnce(Result<(), Canceled>) + Send + 'static,
    {
        self.post_at(self.now() + delay, f)
    }

    /// Polls `future` on this dispatcher and nowhere else. At the shutdown it is dropped, on the dispatcher.
    ///
    /// # Errors
    /// The dispatcher is shut down (`BadState`); the future is inside the error.
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        task::spawn_on(here::<F>(), &self.object, future).map_err(PostError::new)
    }

    /// Runs `work` on a worker thread of `lane`, then `done` here with what it returned. A panic of `work` arrives as
    /// [`OffloadError::Panicked`].
    ///
    /// # Errors
    /// The dispatcher is shut down (`BadState`); both closures are inside the error.
    #[track_caller]
    pub fn offload<T, W, D>(&self, lane: Lane, work: W, done: D) -> Result<OffloadHandle, PostError<(W, D)>>
    where
        T: Send + 'static,
        W: FnOnce(&StopToken) -> T + Send + 'static,
        D: FnOnce(Result<T, OffloadError>) + Send + 'static,
    {
        offload::offload_on(here::<W>(), &self.object, lane, work, done).map_err(PostError::new)
    }

    /// As [`offload`](Self::offload), for futures.
    ///
    /// # Errors
    /// `work` panicked, was canceled, or was refused.
    ///
    /// # Cancel safety
    /// Dropping the future cancels work that has not begun; work that runs sees its stop token.
    #[track_caller]
    pub fn offload_async<T, W>(&self, lane: Lane, work: W) -> impl Future<Output = Result<T, OffloadError>>
    where
        T: Send + 'static,
        W: FnOnce(&StopToken) -> T + Send + 'static,
    {
        offload::offload_future(here::<W>(), &self.object, lane, work)
    }

    /// Begins the shutdown: posts are refused from now on, what is pending is told `Canceled`. Asynchronous; a second
    /// call does nothing. The driver's stop does this for every dispatcher that is left.
    pub fn shutdown(&self) {
        self.object.shutdown();
    }

    /// The name.
    pub fn name(&self) -> String {
        self.object.name()
    }

    /// Whether the shutdown has begun.
    pub fn is_stopping(&self) -> bool {
        self.object.is_stopping()
    }

    /// Whether the innermost callback on this thread is one of this dispatcher.
    pub fn is_current(&self) -> bool {
        self.object.is_current()
    }

    /// Whether callbacks may block.
    pub fn allows_sync_calls(&self) -> bool {
        self.object.flags() & ALLOW_SYNC_CALLS != 0
    }

    /// Whether its callbacks may run on different threads.
    pub fn allows_thread_migration(&self) -> bool {
        self.object.flags() & NO_THREAD_MIGRATION == 0
    }

    /// Gives up, for good, that callbacks of this dispatcher may block, and with it the thread that was reserved for that;
    /// for a driver that blocks while it sets itself up, and never again.
    ///
    /// # Errors
    /// It is not the current dispatcher, or its shutdown has begun (`BadState`); it does not allow sync calls, because it
    /// was sealed before or never did (`AlreadyExists`).
    pub fn seal_allow_sync_calls(&self) -> Result<(), Status> {
        self.object.seal(ALLOW_SYNC_CALLS)
    }

    /// Whether no two callbacks run at once.
    pub fn is_synchronized(&self) -> bool {
        self.object.flags() & UNSYNCHRONIZED == 0
    }

    /// A handle to the same dispatcher by which tasks, timers, waits, reads, calls, work and futures are *always on*: they
    /// run also while the driver is [suspended](crate::DriverContext::suspend), such as what is to resume it. Irqs that
    /// are bound by it are parked like others. Inside of a callback [`current`] is the plain handle.
    ///
    /// # Examples
    /// ```no_run
    /// use fuchsine_driver::{Dispatcher, Status};
    /// use std::time::Duration;
    ///
    /// fn look_again_later(dispatcher: &Dispatcher) -> Result<(), Status> {
    ///     let always_on = dispatcher.always_on();
    ///     always_on.post_after(Duration::from_secs(1), |_| println!("whatever the driver does"))?;
    ///     Ok(())
    /// }
    /// ```
    pub fn always_on(&self) -> Dispatcher {
        Dispatcher::from_object(self.object.always_on())
    }

    /// Whether this is the [always-on](Self::always_on) view.
    pub fn is_always_on(&self) -> bool {
        self.object.flags() & ALWAYS_ON != 0
    }

    /// The time of the runtime that the dispatcher belongs to.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.object.now())
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").field("name", &self.name()).finish()
    }
}

/// How a further dispatcher is made.
///
/// # Examples
/// ```
/// use fuchsine_driver::DispatcherOptions;
/// let options = DispatcherOptions::new("rx").unsynchronized();
/// ```
#[derive(Default)]
#[must_use = "options do nothing until they are passed to `DriverContext::new_dispatcher`"]
pub struct DispatcherOptions {
    name: String,
    scheduler_role: String,
    flags: u32,
    observer: Option<Observer>,
}

impl DispatcherOptions {
    /// A synchronized dispatcher with this name.
    pub fn new(name: impl Into<String>) -> Self {
        DispatcherOptions { name: name.into(), ..Self::default() }
    }

    /// Callbacks may run at the same time.
    pub fn unsynchronized(mut self) -> Self {
        self.flags |= UNSYNCHRONIZED;
        self
    }

    /// Callbacks may block.
    pub fn allow_sync_calls(mut self) -> Self {
        self.flags |= ALLOW_SYNC_CALLS;
        self
    }

    /// All callbacks run on one thread.
    pub fn no_thread_migration(mut self) -> Self {
        self.flags |= NO_THREAD_MIGRATION;
        self
    }

    /// The pool that it runs in; the default one if none is given.
    pub fn scheduler_role(mut self, role: impl Into<String>) -> Self {
        self.scheduler_role = role.into();
        self
    }

    /// Runs last, when everything of the dispatcher has ended.
    #[track_caller]
    pub fn shutdown_observer<F: FnOnce() + Send + 'static>(mut self, observer: F) -> Self {
        self.observer = Some((here::<F>(), Box::new(observer)));
        self
    }

    pub(crate) fn create(self, site: &'static CallSite, context: &ContextObject) -> Result<Dispatcher, CreateError> {
        let DispatcherOptions { name, scheduler_role, flags, observer } = self;
        match context.new_dispatcher(site, &name, &scheduler_role, flags, observer) {
            Ok(object) => Ok(Dispatcher::from_object(object)),
            Err(status) => Err(CreateError { name, status }),
        }
    }
}

impl fmt::Debug for DispatcherOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, scheduler_role, flags, observer } = self;
        f.debug_struct("DispatcherOptions")
            .field("name", name)
            .field("scheduler_role", scheduler_role)
            .field("flags", flags)
            .field("observer", &observer.is_some())
            .finish()
    }
}

/// A dispatcher could not be created.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("dispatcher {name:?} cannot be created: {status}")]
pub struct CreateError {
    name: String,
    status: Status,
}

impl CreateError {
    /// Why.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Why, alone.
    pub fn into_status(self) -> Status {
        self.status
    }
}

impl From<CreateError> for Status {
    fn from(error: CreateError) -> Self {
        error.status
    }
}

/// The right to take a posted task back. Dropping it leaves the task posted.
#[derive(Debug)]
pub struct TaskHandle(TaskObject);

impl TaskHandle {
    pub(crate) fn from_object(object: TaskObject) -> Self {
        TaskHandle(object)
    }

    /// Takes the task back: it will not run, and its closure was dropped on this thread.
    ///
    /// # Errors
    /// `NotFound`: it runs, has run, or was taken back before.
    pub fn cancel(&self) -> Result<(), Status> {
        self.0.cancel()
    }
}

/// A refused post; what was to be posted is inside.
pub struct PostError<F> {
    status: Status,
    refused: F,
}

/// A refused spawn; the future is inside.
pub type SpawnError<F> = PostError<F>;

impl<F> PostError<F> {
    pub(crate) fn new((refused, status): (F, Status)) -> Self {
        PostError { status, refused }
    }

    /// Why.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Why, alone; what was refused is dropped.
    pub fn into_status(self) -> Status {
        self.status
    }

    /// What was refused.
    pub fn into_inner(self) -> F {
        self.refused
    }
}

impl<F> fmt::Debug for PostError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostError").field("status", &self.status).finish_non_exhaustive()
    }
}

impl<F> fmt::Display for PostError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused: {}", self.status)
    }
}

impl<F> std::error::Error for PostError<F> {}

impl<F> From<PostError<F>> for Status {
    fn from(error: PostError<F>) -> Self {
        error.status
    }
}
