//! Readiness of a descriptor as a future.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::told::Told;
use crate::event_loop::{Source, Waitable};
use crate::runtime::flavour::SourceIdentity;
use crate::runtime::{WaitHandle, current_as_running};
use crate::status::Status;
use crate::sys::{Interest, Readiness};

/// Becomes ready with what a source is ready for. Made by [`ready`].
///
/// # Cancel safety
/// Dropping it disarms the wait. Readiness is a level, so nothing is lost.
#[must_use = "a wait does nothing until it is awaited"]
pub struct Ready<'a> {
    source: Source<'a>,
    identity: Option<SourceIdentity>,
    interest: Interest,
    armed: Option<(Told<Result<Readiness, Status>>, WaitHandle)>,
}

/// Waits until `source` is ready for `interest`.
///
/// # Errors
/// [`Status::Canceled`] when the dispatcher shuts down first; [`Status::BadState`] when it is polled outside of a
/// dispatcher or on one that shuts down; [`Status::NotSupported`] when the source cannot be polled, for which
/// [`offload`](crate::DispatcherHandle::offload) is the way.
pub fn ready(source: &impl Waitable, interest: Interest) -> Ready<'_> {
    let identity = source.identity().and_then(SourceIdentity::from_bits);
    Ready { source: source.as_source(), identity, interest, armed: None }
}

impl Ready<'_> {
    fn arm(&mut self, waker: &Waker) -> Result<(), Status> {
        let dispatcher = current_as_running().ok_or(Status::BadState)?;
        let told = Told::new(waker);
        let telling = told.clone();
        let wait = dispatcher
            .begin_wait_on(self.source.clone(), self.identity, self.interest, move |outcome| telling.tell(outcome))?;
        self.armed = Some((told, wait));
        Ok(())
    }
}

impl Future for Ready<'_> {
    type Output = Result<Readiness, Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.armed.is_none() {
            return match self.arm(cx.waker()) {
                Ok(()) => Poll::Pending,
                Err(status) => Poll::Ready(Err(status)),
            };
        }
        let Some((told, _)) = &self.armed else { return Poll::Pending };
        told.poll(cx)
    }
}

impl Drop for Ready<'_> {
    fn drop(&mut self) {
        if let Some((_, wait)) = self.armed.take() {
            // Nothing to cancel is fine: it has fired.
            let _ = wait.cancel();
        }
    }
}

impl fmt::Debug for Ready<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("interest", &self.interest).finish_non_exhaustive()
    }
}
