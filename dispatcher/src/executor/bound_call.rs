//! The result of a call on its way back to whoever awaits it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::join::JoinError;
use crate::runtime::active::Whom;
use crate::runtime::blocked::{WaitEnd, wait_blocked};
use crate::runtime::{DispatcherId, call_stack};
use crate::status::Status;
use crate::sync::{Arc, Mutex, guard_waker};
use crate::time::Instant;

enum Place<R> {
    /// Nobody has told; with who is to be woken then.
    Open(Option<Waker>),
    Told(Result<R, JoinError>),
    Taken,
}

impl<R> Place<R> {
    /// The result, if it is there; once.
    fn take(&mut self) -> Option<Result<R, JoinError>> {
        match std::mem::replace(self, Place::Taken) {
            Place::Told(result) => Some(result),
            other => {
                *self = other;
                None
            }
        }
    }
}

/// Tells the result, once; told or not, its drop ends the wait.
pub(super) struct Teller<R>(Option<Arc<Mutex<Place<R>>>>);

impl<R> Teller<R> {
    pub(super) fn tell(mut self, result: Result<R, JoinError>) {
        self.put(result);
    }

    fn put(&mut self, result: Result<R, JoinError>) {
        let Some(place) = self.0.take() else { return };
        let before = std::mem::replace(&mut *place.lock(), Place::Told(result));
        if let Place::Open(Some(waker)) = before {
            guard_waker(|| waker.wake());
        }
    }
}

impl<R> Drop for Teller<R> {
    fn drop(&mut self) {
        self.put(Err(JoinError::canceled()));
    }
}

/// Becomes ready with the result of a call. Made by [`DispatcherBound::call_for`](super::DispatcherBound::call_for).
///
/// Dropping it changes nothing: the call is made, and its result dropped.
///
/// # Cancel safety
/// Awaiting it can be given up and begun again. After it was ready once it is [`JoinError`] with
/// [`Status::Canceled`].
#[must_use = "the result of a call is wanted, or `async_call` would do"]
pub struct BoundCall<R> {
    place: Arc<Mutex<Place<R>>>,
    /// Where the call is made.
    target: DispatcherId,
}

/// Both ends of a call that is made on `target`.
pub(super) fn bound_call<R>(target: DispatcherId) -> (Teller<R>, BoundCall<R>) {
    let place = Arc::new(Mutex::new(Place::Open(None)));
    (Teller(Some(Arc::clone(&place))), BoundCall { place, target })
}

impl<R> BoundCall<R> {
    /// The result, if it is there; once.
    pub fn try_take(&mut self) -> Option<Result<R, JoinError>> {
        self.place.lock().take()
    }

    /// Waits for the result, until `deadline` by the clock of the runtime; a deadline that has passed just looks.
    ///
    /// # Errors
    /// - [`Status::BadState`] where blocking is not allowed: on a dispatcher that does not allow sync calls, and on the one
    ///   that makes the call, or in a call that came from there, as it would wait for itself.
    /// - [`Status::Canceled`] when the dispatcher that makes the call shuts down first, or the one that waits.
    /// - [`Status::TimedOut`] at the deadline; the result may be waited for again.
    /// - [`Status::Internal`] when the call panicked.
    ///
    /// # Thread requirements
    /// A dispatcher that allows sync calls, or a thread that belongs to no pool.
    pub fn wait(&mut self, deadline: Instant) -> Result<R, Status> {
        if call_stack::is_inside(self.target) {
            return Err(Status::BadState);
        }
        let target = self.target;
        let whom = || Some(Arc::new(move || Some(target)) as Whom);
        let told = wait_blocked("the result of a call", whom, deadline, |cx| self.poll_place(cx));
        told.map_err(WaitEnd::status)?.map_err(|error| error.status())
    }

    fn poll_place(&self, cx: &mut Context<'_>) -> Poll<Result<R, JoinError>> {
        // Made before the lock is taken, and the old one dropped after it is free: wakers are code of others.
        let waker = cx.waker().clone();
        let mut place = self.place.lock();
        match &mut *place {
            Place::Open(waiting) => {
                let old = waiting.replace(waker);
                drop(place);
                drop(old);
                Poll::Pending
            }
            told => Poll::Ready(told.take().unwrap_or(Err(JoinError::canceled()))),
        }
    }
}

impl<R> Future for BoundCall<R> {
    type Output = Result<R, JoinError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_place(cx)
    }
}

impl<R> fmt::Debug for BoundCall<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_there = matches!(*self.place.lock(), Place::Told(_));
        f.debug_struct("BoundCall").field("is_there", &is_there).finish()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn poll<R>(reply: &mut BoundCall<R>) -> Poll<Result<R, JoinError>> {
        Pin::new(reply).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_result_is_given_out_once() {
        let (teller, mut reply) = bound_call(DispatcherId::fresh());
        assert!(poll(&mut reply).is_pending() && reply.try_take().is_none());
        teller.tell(Ok(7));
        assert_eq!(poll(&mut reply), Poll::Ready(Ok(7)));
        assert_eq!(reply.try_take(), None);
        assert!(matches!(poll(&mut reply), Poll::Ready(Err(error)) if error.is_canceled()));
    }

    #[test]
    fn a_teller_that_is_dropped_ends_the_wait() {
        let (teller, mut reply) = bound_call::<()>(DispatcherId::fresh());
        drop(teller);
        assert!(matches!(reply.try_take(), Some(Err(error)) if error.is_canceled()));
    }
}
