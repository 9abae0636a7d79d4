//! Waiting for readiness, of sockets and of descriptors.

use std::future::Future;
use std::ops::BitOr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::abi::{self, CallSite, DispatcherObject, FromReady, SocketObject, WaitObject, here};
use crate::slot::Slot;
use crate::{Status, current};

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Interest(u32);

impl Interest {
    /// Reading will not block.
    pub const READABLE: Interest = Interest(abi::READABLE);
    /// Writing will not block.
    pub const WRITABLE: Interest = Interest(abi::WRITABLE);

    pub(crate) fn to_raw(self) -> u32 {
        self.0
    }
}

impl BitOr for Interest {
    type Output = Interest;

    fn bitor(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }
}

/// What something is ready for. Errors and hang-ups are reported whether asked for or not; a read or write then tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Readiness(u32);

impl FromReady for Result<Readiness, Status> {
    fn from_ready(ready: Result<u32, Status>) -> Self {
        ready.map(Readiness)
    }
}

impl Readiness {
    pub(crate) fn from_raw(bits: u32) -> Self {
        Readiness(bits)
    }

    /// Reading will not block.
    pub fn is_readable(self) -> bool {
        self.0 & abi::READABLE != 0
    }

    /// Writing will not block.
    pub fn is_writable(self) -> bool {
        self.0 & abi::WRITABLE != 0
    }

    /// An error is pending.
    pub fn is_error(self) -> bool {
        self.0 & abi::ERROR != 0
    }

    /// The other side has hung up.
    pub fn is_hangup(self) -> bool {
        self.0 & abi::HANGUP != 0
    }
}

/// The right to take a wait back. Dropping it leaves the wait.
#[derive(Debug)]
pub struct WaitHandle(WaitObject);

impl WaitHandle {
    pub(crate) fn from_object(object: WaitObject) -> Self {
        WaitHandle(object)
    }

    /// Takes the wait back: its callback will not run and was dropped on this thread.
    ///
    /// # Errors
    /// `NotFound`: it runs, has run, or was taken back before.
    pub fn cancel(&self) -> Result<(), Status> {
        self.0.cancel()
    }
}

/// Completes when `fd` is ready. What cannot be polled, such as a regular file, is `NotSupported`: use
/// [`offload`](crate::offload()) for that.
///
/// # Errors
/// `Canceled`: the dispatcher that awaits shuts down. `BadState`: polled outside of any dispatcher.
///
/// # Cancel safety
/// Dropping the future takes the wait back.
#[track_caller]
pub fn ready<S: AsFd + ?Sized>(fd: &S, interest: Interest) -> Ready<'_> {
    Ready { site: here::<S>(), on: On::Fd(fd.as_fd()), interest, armed: Armed::default() }
}

/// A future that completes with what a socket or descriptor is ready for.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Ready<'a> {
    site: &'static CallSite,
    on: On<'a>,
    interest: Interest,
    armed: Armed,
}

/// What is waited for.
#[derive(Debug)]
pub(super) enum On<'a> {
    Socket(&'a SocketObject),
    Fd(BorrowedFd<'a>),
}

impl<'a> Ready<'a> {
    pub(super) fn on_socket(site: &'static CallSite, socket: &'a SocketObject, interest: Interest) -> Self {
        Ready { site, on: On::Socket(socket), interest, armed: Armed::default() }
    }
}

impl Future for Ready<'_> {
    type Output = Result<Readiness, Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Ready { site, on, interest, armed } = &mut *self;
        armed.poll(site, on, *interest, cx)
    }
}

/// A wait that is registered at the first poll, and taken back when it is dropped before its end.
#[derive(Debug, Default)]
pub(super) struct Armed(Option<ArmedWait>);

impl Armed {
    /// Completes when the thing is ready; then the next poll registers anew.
    pub(super) fn poll(
        &mut self,
        site: &'static CallSite,
        on: &On<'_>,
        interest: Interest,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Readiness, Status>> {
        let (slot, _) = match &self.0 {
            Some(armed) => armed,
            None => {
                let Some(dispatcher) = current() else { return Poll::Ready(Err(Status::BadState)) };
                match arm(site, on, interest, dispatcher.object()) {
                    Ok(armed) => self.0.insert(armed),
                    Err(status) => return Poll::Ready(Err(status)),
                }
            }
        };
        let result = std::task::ready!(slot.poll_take(cx));
        self.0 = None;
        Poll::Ready(result)
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        if let Some((_, wait)) = &self.0 {
            // Too late is as good: the slot has nobody to wake.
            let _ = wait.cancel();
        }
    }
}

type ArmedWait = (Arc<Slot<Result<Readiness, Status>>>, WaitObject);

fn arm(
    site: &'static CallSite,
    on: &On<'_>,
    interest: Interest,
    dispatcher: &DispatcherObject,
) -> Result<ArmedWait, Status> {
    let slot = Arc::new(Slot::new());
    let filled = Arc::clone(&slot);
    let fill = move |result: Result<Readiness, Status>| filled.fill(result);
    let wait = match on {
        On::Socket(socket) => socket.begin_wait(site, dispatcher, interest.to_raw(), fill),
        On::Fd(fd) => abi::begin_wait_fd(site, *fd, dispatcher, interest.to_raw(), fill),
    };
    Ok((slot, wait.map_err(|(_, status)| status)?))
}
