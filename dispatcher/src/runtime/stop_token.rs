//! Stop tokens: how running code sees that its dispatcher begins to shut down.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::task::{Poll, Waker};
use std::time::Duration;

use super::blocked;
use crate::status::Status;
use crate::sync::{Arc, Mutex};

/// What the tokens of one dispatcher share.
pub(crate) struct StopState {
    stopping: Mutex<Stopping>,
    /// Made when somebody wants to poll.
    event: OnceLock<OwnedFd>,
}

struct Stopping {
    has_begun: bool,
    /// Who waits for it, by number, oldest first.
    waiting: Vec<(u64, Waker)>,
    next_number: u64,
}

impl StopState {
    pub(crate) fn new(has_begun: bool) -> Self {
        let stopping = Stopping { has_begun, waiting: Vec::new(), next_number: 0 };
        StopState { stopping: Mutex::new(stopping), event: OnceLock::new() }
    }

    /// A way to wait for the beginning, together with other things.
    pub(super) fn listen(&self) -> Listener<'_> {
        Listener { stop: self, number: None }
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.stopping.lock().waiting.len()
    }

    /// The dispatcher begins to shut down.
    pub(crate) fn stop(&self) {
        let mut stopping = self.stopping.lock();
        stopping.has_begun = true;
        let waiting = std::mem::take(&mut stopping.waiting);
        if let Some(event) = self.event.get() {
            signal(event);
        }
        drop(stopping);
        for (_, waker) in waiting {
            waker.wake();
        }
    }
}

/// Somebody who waits for the beginning of a shutdown, until this is dropped.
pub(super) struct Listener<'a> {
    stop: &'a StopState,
    number: Option<u64>,
}

impl Listener<'_> {
    /// Whether it has begun; otherwise `waker` is called when it does. One waker is kept, the first.
    pub(super) fn poll(&mut self, waker: &Waker) -> Poll<()> {
        let mut stopping = self.stop.stopping.lock();
        if stopping.has_begun {
            return Poll::Ready(());
        }
        if self.number.is_none() {
            let number = stopping.next_number;
            stopping.next_number += 1;
            stopping.waiting.push((number, waker.clone()));
            self.number = Some(number);
        }
        Poll::Pending
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let mut stopping = self.stop.stopping.lock();
        let at = stopping.waiting.iter().position(|(waiting, _)| *waiting == number);
        let waker = at.map(|at| stopping.waiting.remove(at));
        drop(stopping);
        drop(waker);
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
        self.0.stopping.lock().has_begun
    }

    /// Waits until the shutdown begins, but no longer than `timeout`; true when it has begun.
    ///
    /// # Thread requirements
    /// It blocks, so it belongs on a work lane or on a dispatcher that allows sync calls. There it also ends, with `false`,
    /// when the dispatcher that it blocks shuts down, which need not be the token's. In a foreground runtime the time is that
    /// of its clock; on the thread that turns the crank it does not wait at all.
    pub fn wait_timeout(&self, timeout: Duration) -> bool {
        let mut listener = self.0.listen();
        let deadline = blocked::now() + timeout;
        // It also ends when the dispatcher that waits shuts down, which need not be the token's.
        blocked::wait_anywhere("a shutdown", || None, deadline, |context| listener.poll(context.waker())).is_ok()
            || self.is_stopping()
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
            if stopping.has_begun {
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
