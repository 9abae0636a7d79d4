//! [`Seats`]: who is connected, how many may be, and the order to leave.
//!
//! Each connection holds a [`Seat`] for as long as it lives. A stop sets a flag and wakes every seat's connection; who
//! stops the server waits until the last seat has been given back. Wakers are called with no lock held.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::session::slab::{Key, Slab};

/// Why a connection got no seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoSeat {
    /// All seats are taken.
    Full,
    /// The server is stopping.
    Stopping,
}

/// The seats of a server.
#[derive(Debug)]
pub(crate) struct Seats {
    limit: usize,
    /// Set once, under the lock; read without it by connections, to which the wake-up that follows is the message.
    stopping: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// For each connection, who is to be woken at a stop.
    taken: Slab<Option<Waker>>,
    /// Who waits for the last one to leave.
    on_empty: Option<Waker>,
}

impl Seats {
    pub(crate) fn new(limit: usize) -> Self {
        let inner = Inner { taken: Slab::new(), on_empty: None };
        Self { limit, stopping: AtomicBool::new(false), inner: Mutex::new(inner) }
    }

    /// Takes a seat.
    ///
    /// # Errors
    /// [`NoSeat`] with the reason.
    pub(crate) fn take(self: &Arc<Self>) -> Result<Seat, NoSeat> {
        let mut inner = self.lock();
        if self.is_stopping() {
            return Err(NoSeat::Stopping);
        }
        if inner.taken.len() >= self.limit {
            return Err(NoSeat::Full);
        }
        let key = inner.taken.insert(None);
        Ok(Seat { seats: self.clone(), key, waker: None })
    }

    /// How many seats are taken.
    pub(crate) fn taken(&self) -> usize {
        self.lock().taken.len()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release in `stop`; whoever sees the flag sees what was set before it.
        self.stopping.load(Ordering::Acquire)
    }

    /// Tells all connections to leave, and lets nobody in any more.
    pub(crate) fn stop(&self) {
        let mut inner = self.lock();
        // ORDERING: Release, pairs with the Acquire in `is_stopping`.
        self.stopping.store(true, Ordering::Release);
        let keys = inner.taken.keys();
        let wakers: Vec<Waker> =
            keys.into_iter().filter_map(|key| inner.taken.get_mut(key).and_then(Option::take)).collect();
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until no seat is taken. One waiter at a time.
    pub(crate) async fn empty(&self) {
        poll_fn(|cx| {
            let mut inner = self.lock();
            if inner.taken.is_empty() {
                return Poll::Ready(());
            }
            inner.on_empty = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing that runs under the lock panics half-way.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to be connected; given back when dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
    key: Key,
    /// What is registered, so that an unchanged waker costs no lock.
    waker: Option<Waker>,
}

impl Seat {
    /// Whether the connection has to leave; if not, its task is woken when it has to.
    pub(crate) fn poll_stop(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            let mut inner = self.seats.lock();
            // Under the lock the flag cannot be set between this look and the registration.
            if !self.seats.is_stopping()
                && let Some(place) = inner.taken.get_mut(self.key)
            {
                *place = Some(cx.waker().clone());
                self.waker = Some(cx.waker().clone());
            }
        }
        if self.seats.is_stopping() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut inner = self.seats.lock();
        let own = inner.taken.remove(self.key);
        let on_empty = if inner.taken.is_empty() { inner.on_empty.take() } else { None };
        drop(inner);
        drop(own);
        if let Some(waker) = on_empty {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn counting() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (count.clone(), Waker::from(count))
    }

    #[test]
    fn beyond_the_limit_nobody_gets_a_seat_until_one_is_given_back() {
        let seats = Arc::new(Seats::new(2));
        let first = seats.take().unwrap();
        let _second = seats.take().unwrap();
        assert_eq!(seats.take().unwrap_err(), NoSeat::Full);
        drop(first);
        let _third = seats.take().unwrap();
        assert_eq!(seats.taken(), 2);
    }

    #[test]
    fn a_stop_wakes_every_connection_once_and_lets_nobody_in() {
        let seats = Arc::new(Seats::new(2));
        let (mut one, mut other) = (seats.take().unwrap(), seats.take().unwrap());
        let (woken, waker) = counting();
        for _ in 0..3 {
            assert!(one.poll_stop(&Context::from_waker(&waker)).is_pending());
            assert!(other.poll_stop(&Context::from_waker(&waker)).is_pending());
        }
        seats.stop();
        seats.stop();
        assert_eq!(woken.0.load(Ordering::Relaxed), 2);
        assert!(one.poll_stop(&Context::from_waker(&waker)).is_ready());
        assert_eq!(seats.take().unwrap_err(), NoSeat::Stopping);
    }

    #[test]
    fn a_connection_that_looks_after_the_stop_learns_of_it() {
        let seats = Arc::new(Seats::new(1));
        let mut seat = seats.take().unwrap();
        seats.stop();
        assert!(seat.poll_stop(&Context::from_waker(Waker::noop())).is_ready());
    }

    #[test]
    fn the_last_one_to_leave_wakes_who_waits_for_it() {
        let seats = Arc::new(Seats::new(2));
        let (one, other) = (seats.take().unwrap(), seats.take().unwrap());
        let (woken, waker) = counting();
        let mut cx = Context::from_waker(&waker);
        let mut empty = std::pin::pin!(seats.empty());
        assert!(empty.as_mut().poll(&mut cx).is_pending());
        drop(one);
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
        drop(other);
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(empty.as_mut().poll(&mut cx).is_ready());
    }
}
