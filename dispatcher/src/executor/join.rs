//! Handles to spawned futures.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use async_task::FallibleTask;

use super::caught_waker::caught;

use crate::runtime::dispatcher::DispatcherInner;
use crate::status::Status;
use crate::sync::Arc;

/// The result of a future, on its way to whoever joins. If nobody does, it is dropped where the last of the future goes,
/// and a panic of that drop is caught and reported like one of the future.
pub(super) struct Joined<T> {
    result: Option<Result<T, JoinError>>,
    dispatcher: Arc<DispatcherInner>,
}

impl<T> Joined<T> {
    pub(super) fn new(result: Result<T, JoinError>, dispatcher: &Arc<DispatcherInner>) -> Self {
        Joined { result: Some(result), dispatcher: Arc::clone(dispatcher) }
    }

    fn into_result(mut self) -> Result<T, JoinError> {
        self.result.take().unwrap_or(Err(JoinError(Cause::Canceled)))
    }
}

impl<T> Drop for Joined<T> {
    fn drop(&mut self) {
        if let Some(result) = self.result.take() {
            self.dispatcher.guard_panic(|| drop(result));
        }
    }
}

/// Gives the result of a spawned future. Dropping it lets the future run on.
///
/// # Cancel safety
/// Awaiting it can be given up and begun again.
#[must_use = "dropping the handle lets the future run on with nobody to see its result; bind it to `_` if that is meant"]
pub struct JoinHandle<T> {
    /// `None` once it was detached by `drop`.
    task: Option<FallibleTask<Joined<T>>>,
    /// The waker of the last poll, and what the task was given for it.
    waker: Option<(Waker, Waker)>,
}

impl<T> JoinHandle<T> {
    pub(super) fn new(task: async_task::Task<Joined<T>>) -> Self {
        JoinHandle { task: Some(task.fallible()), waker: None }
    }

    /// Cancels the future: it is not polled again, and is dropped on its dispatcher, soon. It counts as taken back,
    /// unless it has finished.
    pub fn cancel(mut self) {
        // Dropping the inner task cancels it, and has its runnable scheduled once more to drop the future there.
        drop(self.task.take());
    }

    /// Whether the future has finished or was canceled.
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().is_none_or(FallibleTask::is_finished)
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let JoinHandle { task, waker } = &mut *self;
        let Some(task) = task else { return Poll::Ready(Err(JoinError(Cause::Canceled))) };
        let caught = match waker {
            Some((known, caught)) if known.will_wake(cx.waker()) => caught,
            _ => &mut waker.insert((cx.waker().clone(), caught(cx.waker()))).1,
        };
        Pin::new(task).poll(&mut Context::from_waker(caught)).map(|joined| match joined {
            Some(joined) => joined.into_result(),
            None => Err(JoinError(Cause::Canceled)),
        })
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.detach();
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("is_finished", &self.is_finished()).finish()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Cause {
    Canceled,
    Panicked(String),
}

/// A future gave no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinError(Cause);

impl JoinError {
    pub(super) fn panicked(message: String) -> Self {
        JoinError(Cause::Panicked(message))
    }

    pub(super) fn canceled() -> Self {
        JoinError(Cause::Canceled)
    }

    /// Whether the dispatcher shut down first.
    pub fn is_canceled(&self) -> bool {
        self.0 == Cause::Canceled
    }

    /// What the panic of the future said, if it panicked.
    pub fn panic_message(&self) -> Option<&str> {
        match &self.0 {
            Cause::Canceled => None,
            Cause::Panicked(message) => Some(message),
        }
    }

    /// [`Status::Canceled`], or [`Status::Internal`] for a panic.
    pub fn status(&self) -> Status {
        match self.0 {
            Cause::Canceled => Status::Canceled,
            Cause::Panicked(_) => Status::Internal,
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Cause::Canceled => f.write_str("the future was canceled: its dispatcher shut down"),
            Cause::Panicked(message) => write!(f, "the future panicked: {message}"),
        }
    }
}

impl std::error::Error for JoinError {}

impl From<JoinError> for Status {
    fn from(error: JoinError) -> Status {
        error.status()
    }
}
