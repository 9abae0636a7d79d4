//! How a thread waits for something while it is inside of a callback or of work.
//!
//! A [`Waiter`] gives a waker, which whatever is waited for calls, and lets the thread sleep until that has happened or
//! a deadline has come. It may return for no reason: who waits looks at its condition again. Whoever waits runs nobody
//! else's callbacks on its stack, so a thread that waits is lost to its pool for so long.

use std::task::{Wake, Waker};

#[cfg(any(feature = "testing", all(test, shuttle)))]
use super::{batons, batons::Baton, by_hand};
use crate::sync::{Arc, Condvar, Mutex};
use crate::time::{Clock, Instant};

/// The way in which the calling thread waits.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// The thread sleeps; deadlines are those of the real clock.
    Thread(Arc<Sleeper>),
    /// The thread gives way to the others of its foreground runtime; deadlines are those of the runtime's clock.
    #[cfg(any(feature = "testing", all(test, shuttle)))]
    Baton(Arc<Baton>),
    /// The thread turns the crank of a foreground runtime: while it waited nothing could happen.
    #[cfg(any(feature = "testing", all(test, shuttle)))]
    Crank,
}

impl Waiter {
    /// How the calling thread waits. To be used on this thread only.
    pub(crate) fn of_this_thread() -> Self {
        #[cfg(any(feature = "testing", all(test, shuttle)))]
        if let Some(baton) = batons::current() {
            return Waiter::Baton(baton);
        }
        #[cfg(any(feature = "testing", all(test, shuttle)))]
        if by_hand::is_crank_here() {
            return Waiter::Crank;
        }
        Waiter::Thread(Arc::new(Sleeper { woken: Mutex::new(false), changed: Condvar::new() }))
    }

    /// What ends the wait, from any thread and at any time, also before it begins.
    pub(crate) fn waker(&self) -> Waker {
        match self {
            Waiter::Thread(sleeper) => Waker::from(Arc::clone(sleeper)),
            #[cfg(any(feature = "testing", all(test, shuttle)))]
            Waiter::Baton(baton) => Waker::from(Arc::clone(baton)),
            #[cfg(any(feature = "testing", all(test, shuttle)))]
            Waiter::Crank => Waker::noop().clone(),
        }
    }

    /// The time by the clock that deadlines are of.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Waiter::Thread(_) => Clock::real().exact(),
            #[cfg(any(feature = "testing", all(test, shuttle)))]
            Waiter::Baton(baton) => baton.now(),
            // Whatever the deadline is, it has come.
            #[cfg(any(feature = "testing", all(test, shuttle)))]
            Waiter::Crank => Instant::INFINITE,
        }
    }

    /// Whether what is waited for is not going to happen, so that nobody should wait.
    pub(crate) fn is_given_up(&self) -> bool {
        match self {
            Waiter::Thread(_) => false,
            #[cfg(any(feature = "testing", all(test, shuttle)))]
            Waiter::Baton(baton) => baton.is_given_up(),
            #[cfg(any(feature = "testing", all(test, shuttle)))]
            Waiter::Crank => false,
        }
    }

    /// Sleeps until the waker is called or `deadline` comes. A call of the waker since the last sleep counts.
    pub(crate) fn wait(&self, deadline: Instant) {
        match self {
            Waiter::Thread(sleeper) => sleeper.sleep(deadline),
            #[cfg(any(feature = "testing", all(test, shuttle)))]
            Waiter::Baton(baton) => baton.sleep(deadline),
            #[cfg(any(feature = "testing", all(test, shuttle)))]
            Waiter::Crank => {}
        }
    }
}

/// A thread that may sleep.
#[derive(Debug)]
pub(crate) struct Sleeper {
    /// Whether somebody has woken it since it woke last.
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Sleeper {
    fn sleep(&self, deadline: Instant) {
        let mut woken = self.woken.lock();
        if !*woken {
            // Why it ended is for the caller to find out.
            let _ = self.changed.wait_until(&mut woken, deadline);
        }
        *woken = false;
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        *self.woken.lock() = true;
        self.changed.notify_one();
    }
}
