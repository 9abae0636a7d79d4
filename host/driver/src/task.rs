//! Spawned futures: the handle that awaits or cancels one.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::abi::{CallSite, DispatcherObject, JoinObject};
use crate::slot::Slot;
use crate::{SpawnError, Status, current};

pub(crate) fn spawn_on<F>(
    site: &'static CallSite,
    dispatcher: &DispatcherObject,
    future: F,
) -> Result<JoinHandle<F::Output>, (F, Status)>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let slot = Arc::new(Slot::new());
    let join = dispatcher.spawn_into(site, future, Arc::clone(&slot))?;
    Ok(JoinHandle { slot, join })
}

/// Spawns `future` on the current dispatcher.
///
/// # Errors
/// There is none, or it shuts down (`BadState`); the future is inside the error.
#[track_caller]
pub fn spawn<F>(future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match current() {
        Some(dispatcher) => dispatcher.spawn(future),
        None => Err(SpawnError::new((future, Status::BadState))),
    }
}

/// A spawned future. Awaiting it gives its output; dropping it lets the future go on alone.
#[derive(Debug)]
pub struct JoinHandle<T> {
    slot: Arc<Slot<Result<T, JoinError>>>,
    join: JoinObject,
}

impl<T> JoinHandle<T> {
    /// Asks that the future be dropped, which happens on its dispatcher, soon. A complete one is not affected.
    pub fn cancel(&self) {
        self.join.cancel();
    }

    /// Whether the future is complete or gone.
    pub fn is_finished(&self) -> bool {
        self.slot.is_filled()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.slot.poll_take(cx)
    }
}

/// Why a spawned future has no output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinError {
    panic: Option<String>,
}

impl JoinError {
    pub(crate) fn canceled() -> Self {
        JoinError { panic: None }
    }

    pub(crate) fn panicked(message: String) -> Self {
        JoinError { panic: Some(message) }
    }

    /// Whether it was dropped before its end: canceled, or its dispatcher shut down.
    pub fn is_canceled(&self) -> bool {
        self.panic.is_none()
    }

    /// Whether it panicked.
    pub fn is_panic(&self) -> bool {
        self.panic.is_some()
    }

    /// What the panic said.
    pub fn panic_message(&self) -> Option<&str> {
        self.panic.as_deref()
    }

    /// `Canceled`, or `Internal` for a panic.
    pub fn status(&self) -> Status {
        if self.is_panic() { Status::Internal } else { Status::Canceled }
    }

    /// The status alone.
    pub fn into_status(self) -> Status {
        self.status()
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.panic {
            None => f.write_str("the task was canceled"),
            Some(message) => write!(f, "the task panicked: {message}"),
        }
    }
}

impl std::error::Error for JoinError {}

impl From<JoinError> for Status {
    fn from(error: JoinError) -> Self {
        error.status()
    }
}
