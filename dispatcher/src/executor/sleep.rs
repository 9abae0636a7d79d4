//! Timers as futures.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::told::Told;
use crate::runtime::{TaskHandle, current, current_as_running};
use crate::status::{Canceled, Status};
use crate::time::Instant;

enum When {
    After(Duration),
    At(Instant),
}

/// Becomes ready when its time has come. Made by [`sleep`] and [`sleep_until`].
///
/// # Cancel safety
/// Dropping it disarms its timer.
#[must_use = "a sleep does nothing until it is awaited"]
pub struct Sleep {
    when: When,
    armed: Option<(Told<Result<(), Canceled>>, TaskHandle)>,
}

/// Waits for `duration`, counted from the first poll, by the clock of the runtime.
///
/// # Errors
/// [`Status::Canceled`] when the dispatcher shuts down first; [`Status::BadState`] when it is polled outside of a
/// dispatcher or on one that shuts down; [`Status::InvalidArgs`] when the clock ends before the duration does.
pub fn sleep(duration: Duration) -> Sleep {
    Sleep { when: When::After(duration), armed: None }
}

/// Waits until `deadline`; ready at once if it has passed.
///
/// # Errors
/// As [`sleep`].
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep { when: When::At(deadline), armed: None }
}

impl Sleep {
    /// Whether it would end after the clock does.
    fn never_ends(&self) -> bool {
        let When::After(duration) = self.when else { return false };
        self.armed.is_none() && current().is_some_and(|dispatcher| (dispatcher.now() + duration).is_infinite())
    }

    fn arm(&mut self, waker: &Waker) -> Result<(), Status> {
        let dispatcher = current_as_running().ok_or(Status::BadState)?;
        let deadline = match self.when {
            When::After(duration) => dispatcher.now() + duration,
            When::At(deadline) => deadline,
        };
        let told = Told::new(waker);
        let telling = told.clone();
        let timer = dispatcher.post_at(deadline, move |outcome| telling.tell(outcome))?;
        self.armed = Some((told, timer));
        Ok(())
    }
}

impl Future for Sleep {
    type Output = Result<(), Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.armed.is_none() {
            let is_past = match self.when {
                When::At(deadline) => current().is_some_and(|dispatcher| deadline <= dispatcher.now()),
                When::After(duration) => duration.is_zero(),
            };
            if is_past {
                return Poll::Ready(Ok(()));
            }
            return match self.arm(cx.waker()) {
                Ok(()) => Poll::Pending,
                Err(status) => Poll::Ready(Err(status)),
            };
        }
        let Some((told, _)) = &self.armed else { return Poll::Pending };
        told.poll(cx).map(|outcome| outcome.map_err(Status::from))
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some((_, timer)) = self.armed.take() {
            // Nothing to cancel is fine: it has fired.
            let _ = timer.cancel();
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("is_armed", &self.armed.is_some()).finish_non_exhaustive()
    }
}

/// A future with a time limit. Made by [`timeout`].
#[derive(Debug)]
#[must_use = "a timeout does nothing until it is awaited"]
pub struct Timeout<F> {
    future: Pin<Box<F>>,
    sleep: Sleep,
}

/// Gives `future` at most `duration`, counted from the first poll. A duration that the clock cannot hold is no limit.
///
/// # Errors
/// [`Elapsed`] when the time is up or the dispatcher shuts down first; the future is dropped with the timeout.
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    Timeout { future: Box::pin(future), sleep: sleep(duration) }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(value) = self.future.as_mut().poll(cx) {
            return Poll::Ready(Ok(value));
        }
        if self.sleep.never_ends() {
            return Poll::Pending;
        }
        match Pin::new(&mut self.sleep).poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) => Poll::Ready(Err(Elapsed(Status::TimedOut))),
            Poll::Ready(Err(status)) => Poll::Ready(Err(Elapsed(status))),
        }
    }
}

/// A future was given up: its time was over, or the dispatcher shuts down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("gave up waiting: {0}")]
pub struct Elapsed(Status);

impl Elapsed {
    /// [`Status::TimedOut`], or why there could be no timer.
    pub fn status(&self) -> Status {
        self.0
    }
}

impl From<Elapsed> for Status {
    fn from(elapsed: Elapsed) -> Status {
        elapsed.0
    }
}
