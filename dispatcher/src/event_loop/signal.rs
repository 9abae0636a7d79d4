//! [`SignalHandler`]: a callback of a loop when a signal of the operating system arrives.

use std::fmt;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::rc::Rc;

use crate::event_loop::event_loop::EventLoop;
use crate::event_loop::summary::HolderKind;
use crate::event_loop::wait::Wait;
use crate::status::Status;
use crate::sys::Interest;
use crate::sys::signals::SignalWatch;

/// Why a signal is not handled.
#[derive(Debug, thiserror::Error)]
#[error("signal {signal} cannot be handled: {source}")]
pub struct SignalError {
    signal: i32,
    source: io::Error,
}

impl SignalError {
    /// The condition as a status.
    pub fn status(&self) -> Status {
        Status::from(&self.source)
    }
}

/// Calls a callback on its loop when a signal arrives. As long as it lives the signal's default action is not taken;
/// once no handler of a signal lives in the process, it is again.
///
/// # Thread requirements
/// It stays on its loop's thread, which its type makes sure of:
/// ```compile_fail,E0277
/// # // Shows E26, S2.
/// # use fuchsine_dispatcher::event_loop::SignalHandler;
/// fn from_another_thread(handler: SignalHandler) {
///     std::thread::spawn(move || drop(handler));
/// }
/// ```
#[must_use = "dropping a signal handler stops it"]
pub struct SignalHandler {
    signal: i32,
    _watch: SignalWatch,
    _wait: Wait,
}

impl EventLoop {
    /// Calls `callback` with the signal's number when it arrives. Arrivals in quick succession may be told as one.
    ///
    /// # Errors
    /// [`SignalError`] for a signal that cannot be handled (such as SIGKILL), and when the operating system gives no
    /// further descriptor.
    ///
    /// # Examples
    /// ```no_run
    /// # use fuchsine_dispatcher::event_loop::{EventLoop, SignalError, SignalHandler};
    /// fn reload_on_hangup(event_loop: &EventLoop) -> Result<SignalHandler, SignalError> {
    ///     const SIGHUP: i32 = 1;
    ///     event_loop.signal(SIGHUP, |_, _| println!("reading the settings again"))
    /// }
    /// ```
    #[track_caller]
    pub fn signal(
        &self,
        signal: i32,
        callback: impl FnMut(&EventLoop, i32) + 'static,
    ) -> Result<SignalHandler, SignalError> {
        let (watch, socket) = SignalWatch::new(signal).map_err(|source| SignalError { signal, source })?;
        self.signal_from(signal, watch, socket, callback)
    }

    /// [`EventLoop::signal`] for a signal that is watched already, maybe since before the loop had a thread.
    #[track_caller]
    pub(crate) fn signal_from(
        &self,
        signal: i32,
        watch: SignalWatch,
        socket: UnixStream,
        mut callback: impl FnMut(&EventLoop, i32) + 'static,
    ) -> Result<SignalHandler, SignalError> {
        let socket = Rc::new(socket);
        let readable = socket.clone();
        let waited = self.wait_for(HolderKind::Signal, &*socket, Interest::READABLE, move |event_loop, _| {
            if drain(&readable) {
                callback(event_loop, signal);
            }
        });
        match waited {
            Ok(wait) => Ok(SignalHandler { signal, _watch: watch, _wait: wait }),
            Err(error) => Err(SignalError { signal, source: io::Error::other(error.reason().to_string()) }),
        }
    }
}

/// Reads all that is there. Answers whether there was anything.
fn drain(mut socket: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    let mut any = false;
    while matches!(socket.read(&mut bytes), Ok(count) if count > 0) {
        any = true;
    }
    any
}

impl SignalHandler {
    /// The number of the signal.
    pub fn signal(&self) -> i32 {
        self.signal
    }
}

impl fmt::Debug for SignalHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignalHandler({})", self.signal)
    }
}
