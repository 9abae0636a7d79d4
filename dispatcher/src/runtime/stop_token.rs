//! Stop tokens: how running code sees that its dispatcher begins to shut down.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use crate::status::Status;
use crate::sync::{Arc, Condvar, Mutex, Wakeup};
use crate::time::Clock;

/// What the tokens of one dispatcher share.
pub(crate) struct StopState {
    stopping: Mutex<bool>,
    changed: Condvar,
    /// Made when somebody wants to poll.
    event: OnceLock<OwnedFd>,
}

impl StopState {
    pub(crate) fn new(stopping: bool) -> Self {
        StopState { stopping: Mutex::new(stopping), changed: Condvar::new(), event: OnceLock::new() }
    }

    /// The dispatcher begins to shut down.
    pub(crate) fn stop(&self) {
        let mut stopping = self.stopping.lock();
        *stopping = true;
        if let Some(event) = self.event.get() {
            signal(event);
        }
        drop(stopping);
        self.changed.notify_all();
    }
}

fn signal(event: &OwnedFd) {
    // An eventfd refuses a write only when its counter is full, and then it is readable already.
    let _ = rustix::io::write(event, &1u64.to_ne_bytes());
}

/// Tells whether a dispatcher has begun to shut down, for code that runs long or waits.
///
/// # Examples
/// ```
/// # use fuchsine_dispatcher::StopToken;
/// fn count_to(limit: u64, stop: &StopToken) -> u64 {
///     (0..limit).take_while(|_| !stop.is_stopping()).count() as u64
/// }
/// ```
#[derive(Clone)]
pub struct StopToken(Arc<StopState>);

impl StopToken {
    pub(crate) fn new(state: Arc<StopState>) -> Self {
        StopToken(state)
    }

    /// Whether the shutdown has begun. It never ends.
    pub fn is_stopping(&self) -> bool {
        *self.0.stopping.lock()
    }

    /// Waits until the shutdown begins, but no longer than `timeout`; true when it has begun.
    ///
    /// # Thread requirements
    /// It blocks, so it belongs on a work lane or on a dispatcher that allows sync calls.
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        let deadline = Clock::real().now() + timeout;
        let mut stopping = self.0.stopping.lock();
        while !*stopping {
            if self.0.changed.wait_until(&mut stopping, deadline) == Wakeup::TimedOut {
                return *stopping;
            }
        }
        true
    }

    /// A descriptor that becomes readable when the shutdown begins, to be polled beside others. Never read from it.
    ///
    /// # Errors
    /// [`Status::NoResources`] and the like when the system gives no descriptor.
    pub fn as_fd(&self) -> Result<BorrowedFd<'_>, Status> {
        if self.0.event.get().is_none() {
            let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)
                .map_err(|error| Status::from(std::io::Error::from(error)))?;
            let stopping = self.0.stopping.lock();
            // Under the lock `stop` either has set the flag, which is seen here, or will see the descriptor.
            let event = self.0.event.get_or_init(|| event);
            if *stopping {
                signal(event);
            }
        }
        match self.0.event.get() {
            Some(event) => Ok(event.as_fd()),
            None => Err(Status::Internal),
        }
    }
}

impl fmt::Debug for StopToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopToken").field("is_stopping", &self.is_stopping()).finish()
    }
}
