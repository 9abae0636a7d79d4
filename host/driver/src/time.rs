//! Time: the monotonic clock of the runtime, `sleep` and `timeout`.

use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::{Add, Sub};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::abi::{CallSite, TaskObject, current_time, here};
use crate::slot::Slot;
use crate::{Canceled, Status, current};

/// A time on the monotonic clock of the runtime, which a test may have made a virtual one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// Never.
    pub const INFINITE: Instant = Instant(u64::MAX);

    /// The time now, by the clock of the current dispatcher.
    pub fn now() -> Instant {
        Instant(current_time())
    }

    /// From nanoseconds since an arbitrary start.
    pub const fn from_nanos(nanos: u64) -> Instant {
        Instant(nanos)
    }

    /// Nanoseconds since that start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How much later this is than `earlier`; zero if it is not.
    pub const fn duration_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// How long ago this was; zero for the future.
    pub fn elapsed(self) -> Duration {
        Instant::now().duration_since(self)
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// The later time; [`Instant::INFINITE`] if there is none.
    fn add(self, duration: Duration) -> Instant {
        Instant(u64::try_from(duration.as_nanos()).map_or(u64::MAX, |nanos| self.0.saturating_add(nanos)))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Duration::from_nanos(self.0).fmt(f)
    }
}

/// Completes after `duration`. The time runs from the first poll; the timer is one of the dispatcher that polls first.
///
/// # Errors
/// `Canceled`: that dispatcher shuts down. `BadState`: polled outside of any dispatcher. `InvalidArgs`: a duration
/// without end.
///
/// # Cancel safety
/// Dropping the future takes the timer back.
#[track_caller]
pub fn sleep(duration: Duration) -> Sleep {
    Sleep::new(here::<Sleep>(), Wake::After(duration))
}

/// Completes at `deadline`; as [`sleep`].
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep::new(here::<Sleep>(), Wake::At(deadline))
}

/// The future of [`sleep`] and [`sleep_until`].
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Sleep {
    site: &'static CallSite,
    state: SleepState,
}

#[derive(Debug, Clone, Copy)]
enum Wake {
    After(Duration),
    At(Instant),
}

#[derive(Debug)]
enum SleepState {
    New(Wake),
    Armed(Arc<Slot<Result<(), Canceled>>>, TaskObject),
    Done,
}

impl Sleep {
    fn new(site: &'static CallSite, wake: Wake) -> Self {
        Sleep { site, state: SleepState::New(wake) }
    }

    /// Makes it complete after `duration` from its next poll, whatever it was waiting for; also after it completed.
    pub fn reset(&mut self, duration: Duration) {
        self.rearm(Wake::After(duration));
    }

    /// Makes it complete at `deadline`, whatever it was waiting for; also after it completed.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.rearm(Wake::At(deadline));
    }

    fn rearm(&mut self, wake: Wake) {
        self.disarm();
        self.state = SleepState::New(wake);
    }

    fn disarm(&self) {
        if let SleepState::Armed(_, task) = &self.state {
            // Too late is as good: the slot has nobody to wake.
            let _ = task.cancel();
        }
    }
}

impl Future for Sleep {
    type Output = Result<(), Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let SleepState::New(wake) = self.state {
            let Some(dispatcher) = current() else { return Poll::Ready(Err(Status::BadState)) };
            let deadline = match wake {
                Wake::After(duration) => dispatcher.now() + duration,
                Wake::At(deadline) => deadline,
            };
            let slot = Arc::new(Slot::new());
            let filled = Arc::clone(&slot);
            let fill = move |result: Result<(), Canceled>| filled.fill(result);
            match dispatcher.object().post_at(self.site, deadline.as_nanos(), fill) {
                Ok(task) => self.state = SleepState::Armed(slot, task),
                Err((_, status)) => return Poll::Ready(Err(status)),
            }
        }
        let SleepState::Armed(slot, _) = &self.state else { return Poll::Pending };
        let result = std::task::ready!(slot.poll_take(cx));
        self.state = SleepState::Done;
        Poll::Ready(result.map_err(Status::from))
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.disarm();
    }
}

/// Gives `future` until `duration` from now.
///
/// # Errors
/// `TimedOut`: it was not complete in time and was dropped. Otherwise as [`sleep`].
///
/// # Cancel safety
/// As that of `future`.
#[track_caller]
pub fn timeout<F: Future>(duration: Duration, future: F) -> impl Future<Output = Result<F::Output, Status>> {
    let sleep = sleep(duration);
    async move {
        let mut future = pin!(future);
        let mut sleep = pin!(sleep);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            sleep.as_mut().poll(cx).map(|end| Err(end.err().unwrap_or(Status::TimedOut)))
        })
        .await
    }
}
