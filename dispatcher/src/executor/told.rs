//! A place into which a callback puts its outcome, for the future that waits for it.

use std::task::{Context, Poll, Waker};

use crate::sync::{Arc, Mutex};

struct Place<T> {
    outcome: Option<T>,
    waker: Option<Waker>,
}

/// What the callback and the future share.
pub(super) struct Told<T>(Arc<Mutex<Place<T>>>);

impl<T> Clone for Told<T> {
    fn clone(&self) -> Self {
        Told(Arc::clone(&self.0))
    }
}

impl<T: Copy> Told<T> {
    /// An empty place; `waker` is who waits for it first.
    pub(super) fn new(waker: &Waker) -> Self {
        Told(Arc::new(Mutex::new(Place { outcome: None, waker: Some(waker.clone()) })))
    }

    /// Puts the outcome in and wakes who waits, without the lock.
    pub(super) fn tell(&self, outcome: T) {
        let waker = {
            let mut place = self.0.lock();
            place.outcome = Some(outcome);
            place.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The outcome, once it is there.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<T> {
        // Made before the lock is taken, and the old one dropped after it is free: wakers are code of others.
        let waker = cx.waker().clone();
        let mut place = self.0.lock();
        let Some(outcome) = place.outcome else {
            let old = place.waker.replace(waker);
            drop(place);
            drop(old);
            return Poll::Pending;
        };
        Poll::Ready(outcome)
    }
}
