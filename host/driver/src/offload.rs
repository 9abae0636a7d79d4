//! Work that blocks or takes long, done by worker threads, with its result back on the dispatcher.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use thiserror::Error;

pub use crate::abi::StopToken;
use crate::abi::{self, CallSite, DispatcherObject, OffloadObject, here};
use crate::dispatcher::PostError;
use crate::slot::Slot;
use crate::{Status, current};

/// Which workers do a piece of work. A slow piece never delays a fast one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lane {
    /// Milliseconds: checksums of a block, a look into a directory.
    Fast,
    /// Longer: `fsync`, name lookups, compression.
    Slow,
}

impl Lane {
    fn to_raw(self) -> u32 {
        match self {
            Lane::Fast => abi::LANE_FAST,
            Lane::Slow => abi::LANE_SLOW,
        }
    }
}

/// Why work has no result.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OffloadError {
    /// It was canceled, or its dispatcher shut down, before it began.
    #[error("the work was canceled before it began")]
    Canceled,
    /// It panicked; this is what the panic said.
    #[error("the work panicked: {0}")]
    Panicked(String),
    /// It was not accepted.
    #[error("the work was refused: {0}")]
    Refused(Status),
}

impl OffloadError {
    /// The nearest status; `Internal` for a panic.
    pub fn status(&self) -> Status {
        match self {
            OffloadError::Canceled => Status::Canceled,
            OffloadError::Panicked(_) => Status::Internal,
            OffloadError::Refused(status) => *status,
        }
    }

    /// The status alone.
    pub fn into_status(self) -> Status {
        self.status()
    }
}

impl From<OffloadError> for Status {
    fn from(error: OffloadError) -> Self {
        error.status()
    }
}

/// The right to cancel work. Dropping it lets the work go on.
#[derive(Debug)]
pub struct OffloadHandle(OffloadObject);

impl OffloadHandle {
    /// Cancels work that has not begun; `done` still runs, with `Canceled`.
    ///
    /// # Errors
    /// `NotFound`: it runs (and sees its stop token) or is done.
    pub fn cancel(&self) -> Result<(), Status> {
        self.0.cancel()
    }
}

pub(crate) fn offload_on<T, W, D>(
    site: &'static CallSite,
    dispatcher: &DispatcherObject,
    lane: Lane,
    work: W,
    done: D,
) -> Result<OffloadHandle, ((W, D), Status)>
where
    T: Send + 'static,
    W: FnOnce(&StopToken) -> T + Send + 'static,
    D: FnOnce(Result<T, OffloadError>) + Send + 'static,
{
    dispatcher.offload_job(site, lane.to_raw(), work, done).map(OffloadHandle)
}

pub(crate) async fn offload_future<T, W>(
    site: &'static CallSite,
    dispatcher: &DispatcherObject,
    lane: Lane,
    work: W,
) -> Result<T, OffloadError>
where
    T: Send + 'static,
    W: FnOnce(&StopToken) -> T + Send + 'static,
{
    let slot = Arc::new(Slot::new());
    let filled = Arc::clone(&slot);
    match offload_on(site, dispatcher, lane, work, move |result| filled.fill(result)) {
        Ok(handle) => Offloaded { slot, handle }.await,
        Err((_, status)) => Err(OffloadError::Refused(status)),
    }
}

/// Runs `work` on a worker thread of `lane` and gives its result to the task that awaits.
///
/// # Errors
/// `work` panicked, was canceled, or was refused (`BadState` outside of any dispatcher).
///
/// # Cancel safety
/// Dropping the future cancels work that has not begun; work that runs sees its stop token.
///
/// # Examples
/// ```no_run
/// # async fn example() -> Result<(), fuchsine_driver::StartError> {
/// use fuchsine_driver::{Lane, offload};
/// let image = offload(Lane::Slow, |_stop| std::fs::read("disk.img")).await??;
/// # let _ = image; Ok(()) }
/// ```
#[track_caller]
pub fn offload<T, W>(lane: Lane, work: W) -> impl Future<Output = Result<T, OffloadError>>
where
    T: Send + 'static,
    W: FnOnce(&StopToken) -> T + Send + 'static,
{
    let site = here::<W>();
    async move {
        let Some(dispatcher) = current() else { return Err(OffloadError::Refused(Status::BadState)) };
        offload_future(site, dispatcher.object(), lane, work).await
    }
}

/// Runs `f` here, marked as a stretch that may block.
///
/// # Errors
/// A dispatcher is current that does not allow sync calls (`BadState`); `f` did not run and is inside the error.
pub fn blocking<R, F: FnOnce() -> R>(f: F) -> Result<R, PostError<F>> {
    abi::blocking(f).map_err(PostError::new)
}

struct Offloaded<T> {
    slot: Arc<Slot<Result<T, OffloadError>>>,
    handle: OffloadHandle,
}

impl<T> Future for Offloaded<T> {
    type Output = Result<T, OffloadError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.slot.poll_take(cx)
    }
}

impl<T> Drop for Offloaded<T> {
    fn drop(&mut self) {
        // Work that has begun or is done is not affected.
        let _ = self.handle.cancel();
    }
}
