//! Tasks: posting, and taking back what was posted.

use std::fmt;

use super::callback_queue::{Callback, Invoke, Kind, OpId, Outcome};
use super::dispatcher::DispatcherInner;
use super::handle::DispatcherHandle;
use crate::site::Site;
use crate::status::{Canceled, Status, gives_back};
use crate::sync::probe::{self, Point};
use crate::sync::{Arc, Weak};

/// A user's task as a callback.
pub(super) struct TaskFn<F>(pub(super) F);

impl<F: FnOnce(Result<(), Canceled>) + Send + 'static> Invoke for TaskFn<F> {
    fn invoke(self, outcome: Outcome) {
        probe::point(Point::Begin);
        (self.0)(match outcome {
            Outcome::Done(_) => Ok(()),
            Outcome::Failed(_) | Outcome::Canceled => Err(Canceled),
        });
    }
}

impl DispatcherHandle {
    /// Posts a task. It runs on this dispatcher after this call has returned, with `Ok(())`, or with `Err(Canceled)`
    /// when the dispatcher shuts down first; one of the two happens exactly once.
    ///
    /// # Errors
    /// [`PostError`] with the task, unrun, when the dispatcher shuts down or has shut down.
    ///
    /// # Thread requirements
    /// Any thread. A post never runs its own task before it returns.
    ///
    /// # Examples
    /// ```
    /// # use fuchsine_dispatcher::*;
    /// fn remember(store: &DispatcherHandle, value: u32) -> Result<(), Status> {
    ///     store.post_task(move |outcome| match outcome {
    ///         Ok(()) => println!("stored {value}"),
    ///         Err(Canceled) => println!("{value} is lost: the store shuts down"),
    ///     })?;
    ///     Ok(())
    /// }
    /// ```
    #[track_caller]
    pub fn post_task<F>(&self, task: F) -> Result<(), PostError<F>>
    where
        F: FnOnce(Result<(), Canceled>) + Send + 'static,
    {
        self.post_task_from(Site::caller(), task)
    }

    /// As [`post_task`](DispatcherHandle::post_task), for code of others: the task is listed as posted at `site`.
    ///
    /// # Errors
    /// As [`post_task`](DispatcherHandle::post_task).
    #[inline]
    pub fn post_task_from<F>(&self, site: Site, task: F) -> Result<(), PostError<F>>
    where
        F: FnOnce(Result<(), Canceled>) + Send + 'static,
    {
        probe::point(Point::Post);
        let inner = self.inner();
        if inner.takes_own(self.flavour()) {
            inner.accept_own(site, std::any::type_name::<TaskFn<F>>, || Callback::new(TaskFn(task)));
            return Ok(());
        }
        if Callback::fits::<TaskFn<F>>()
            && let Some(mut place) = inner.begin_post(self.flavour(), site)
        {
            place.fill(TaskFn(task));
            inner.end_post(place);
            return Ok(());
        }
        let accepted = inner.accept_posted(self.flavour(), site, Callback::new(TaskFn(task)));
        accepted.map_err(|refused| {
            let TaskFn(task) = refused.into_inner().expect("what is refused is what was posted");
            PostError::new(task)
        })
    }

    /// Posts a task that can be taken back.
    ///
    /// # Errors
    /// As [`post_task`](DispatcherHandle::post_task).
    #[track_caller]
    pub fn post_cancelable<F>(&self, task: F) -> Result<TaskHandle, PostError<F>>
    where
        F: FnOnce(Result<(), Canceled>) + Send + 'static,
    {
        self.post_cancelable_from(Site::caller(), task)
    }

    /// As [`post_cancelable`](DispatcherHandle::post_cancelable), for code of others: the task is listed as posted at
    /// `site`.
    ///
    /// # Errors
    /// As [`post_task`](DispatcherHandle::post_task).
    pub fn post_cancelable_from<F>(&self, site: Site, task: F) -> Result<TaskHandle, PostError<F>>
    where
        F: FnOnce(Result<(), Canceled>) + Send + 'static,
    {
        self.accept(site, task).map(|id| TaskHandle::new(self.inner(), id))
    }

    /// Posts a callback of this crate's own that stands for a closure of a user. `make` is called only if it is accepted,
    /// so a refused closure is still the caller's.
    #[track_caller]
    pub(crate) fn post_made<C: Invoke>(&self, make: impl FnOnce() -> C) -> Result<TaskHandle, Status> {
        self.post_made_from(Site::caller(), make)
    }

    pub(super) fn post_made_from<C: Invoke>(
        &self,
        location: Site,
        make: impl FnOnce() -> C,
    ) -> Result<TaskHandle, Status> {
        let inner = self.inner();
        probe::point(Point::Post);
        let accepted = inner.accept_ready(Kind::Task, self.flavour(), location, || Callback::new(make()));
        accepted.map(|id| TaskHandle::new(inner, id)).map_err(|_| Status::BadState)
    }

    pub(super) fn accept<F>(&self, location: Site, task: F) -> Result<OpId, PostError<F>>
    where
        F: FnOnce(Result<(), Canceled>) + Send + 'static,
    {
        let mut task = Some(task);
        let inner = self.inner();
        probe::point(Point::Post);
        let accepted = inner.accept_ready(Kind::Task, self.flavour(), location, || {
            let task = task.take().expect("an accepted task is made once");
            Callback::new(TaskFn(task))
        });
        accepted.map_err(|_| PostError::new(task.take().expect("a refused task was not made")))
    }
}

/// A handle to a posted task, a delayed task, or anything else that can be taken back. Dropping it changes nothing.
#[derive(Clone)]
#[must_use = "without its handle a task cannot be taken back; use `post_task` if that is never wanted"]
pub struct TaskHandle {
    dispatcher: Weak<DispatcherInner>,
    id: OpId,
}

impl TaskHandle {
    pub(crate) fn new(dispatcher: &Arc<DispatcherInner>, id: OpId) -> Self {
        TaskHandle { dispatcher: Arc::downgrade(dispatcher), id }
    }

    /// Takes the task back: it will never be called, and it belongs to the caller, who drops it.
    ///
    /// It works until the task begins, also while the dispatcher shuts down and it waits for its `Canceled`. It takes
    /// the same time however much is pending.
    ///
    /// # Errors
    /// [`CancelError`] when the task has begun or has ended.
    ///
    /// # Thread requirements
    /// Any thread. On the synchronized dispatcher's own callbacks the answer is certain: `Ok` before the task has
    /// begun.
    pub fn cancel(&self) -> Result<TakenBack, CancelError> {
        let dispatcher = self.dispatcher.upgrade().ok_or(CancelError)?;
        probe::point(Point::Cancel);
        dispatcher.take_back(self.id).map(|callback| TakenBack { callback }).ok_or(CancelError)
    }
}

impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("id", &self.id).finish_non_exhaustive()
    }
}

/// A closure that a successful cancel took back. It is dropped with this value, on the thread of the caller.
#[derive(Debug)]
pub struct TakenBack {
    #[expect(dead_code, reason = "held to be dropped where the caller drops it")]
    callback: Callback,
}

impl TakenBack {
    pub(crate) fn new(callback: Callback) -> Self {
        TakenBack { callback }
    }
}

/// Nothing was canceled: the callback has begun or has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("nothing to cancel: the callback has begun or has ended")]
pub struct CancelError;

impl CancelError {
    /// [`Status::NotFound`].
    pub fn status(&self) -> Status {
        Status::NotFound
    }
}

impl From<CancelError> for Status {
    fn from(error: CancelError) -> Status {
        error.status()
    }
}

/// A post was refused because the dispatcher shuts down or has shut down, or because its deadline is infinite. It
/// carries what was posted, unrun.
pub struct PostError<F> {
    given: F,
    status: Status,
}

impl<F> PostError<F> {
    pub(crate) fn new(given: F) -> Self {
        PostError { given, status: Status::BadState }
    }

    pub(crate) fn with_status(given: F, status: Status) -> Self {
        PostError { given, status }
    }

    /// [`Status::BadState`] when the dispatcher shuts down, [`Status::InvalidArgs`] for an infinite deadline,
    /// [`Status::NoResources`] when no worker could be started.
    pub fn status(&self) -> Status {
        self.status
    }
}

gives_back!(PostError);

impl<F> fmt::Display for PostError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Status::InvalidArgs => f.write_str("the post was refused: its deadline is infinite"),
            Status::WrongType => f.write_str("the post was refused: the dispatcher is unsynchronized"),
            Status::NotSupported => {
                f.write_str("the post was refused: the dispatcher is not one without thread migration")
            }
            Status::BadState => f.write_str("the post was refused: the dispatcher shuts down"),
            status => write!(f, "the post was refused: {status}"),
        }
    }
}
