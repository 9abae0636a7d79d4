//! Waits for the readiness of a descriptor, one shot each.

use std::fmt;

use super::callback_queue::{Callback, EventSource, Invoke, Kind, OpId, Outcome, Stage};
use super::dispatcher::DispatcherInner;
use super::flavour::{Flavour, SourceIdentity};
use super::handle::DispatcherHandle;
use super::task::{CancelError, TakenBack};
use crate::event_loop::{EventTarget, Source, WaitError, WaitRefused, Waitable};
use crate::site::Site;
use crate::status::Status;
use crate::sync::probe::{self, Point};
use crate::sync::{Arc, Weak};
use crate::sys::{Interest, Readiness};
use crate::time::Instant;

/// A user's wait callback as a callback.
struct WaitFn<F>(F);

impl<F: FnOnce(Result<Readiness, Status>) + Send + 'static> Invoke for WaitFn<F> {
    fn invoke(self, outcome: Outcome) {
        probe::point(Point::Begin);
        (self.0)(outcome.into_result().map(|bits| Readiness::from_bits(bits as u8)));
    }
}

impl DispatcherHandle {
    /// Waits until `source` is ready for `interest`, once. What it is ready for already counts.
    ///
    /// The callback is told what the source is ready for, or [`Status::Canceled`] when the dispatcher shuts down first.
    /// The descriptor has to stay open until then, or until the wait is canceled.
    ///
    /// # Errors
    /// [`WaitError`] with the callback: [`Status::BadState`] when the dispatcher shuts down or has shut down;
    /// [`Status::NotSupported`] when the source cannot be polled, such as a regular file, for which
    /// [`offload`](DispatcherHandle::offload) is the way; else what the system said.
    ///
    /// # Thread requirements
    /// Any thread.
    ///
    /// # Examples
    /// ```
    /// # use fuchsine_dispatcher::*;
    /// fn when_readable(dispatcher: &DispatcherHandle, socket: std::net::TcpStream) -> Result<(), Status> {
    ///     let descriptor = socket.try_clone()?;
    ///     dispatcher.begin_wait(&descriptor, Interest::READABLE, move |outcome| match outcome {
    ///         Ok(_) => println!("{socket:?} has data"),
    ///         Err(status) => println!("nothing came: {status}"),
    ///     })?;
    ///     Ok(())
    /// }
    /// ```
    #[track_caller]
    pub fn begin_wait<F>(
        &self,
        source: &impl Waitable,
        interest: Interest,
        callback: F,
    ) -> Result<WaitHandle, WaitError<F>>
    where
        F: FnOnce(Result<Readiness, Status>) + Send + 'static,
    {
        let identity = source.identity().and_then(SourceIdentity::from_bits);
        self.begin_wait_at(Site::caller(), source.as_source(), identity, interest, callback)
    }

    /// As [`begin_wait`](DispatcherHandle::begin_wait), for code of others: the callback is listed as posted at `site`.
    ///
    /// # Errors
    /// As [`begin_wait`](DispatcherHandle::begin_wait).
    pub fn begin_wait_from<F>(
        &self,
        site: Site,
        source: &impl Waitable,
        interest: Interest,
        callback: F,
    ) -> Result<WaitHandle, WaitError<F>>
    where
        F: FnOnce(Result<Readiness, Status>) + Send + 'static,
    {
        let identity = source.identity().and_then(SourceIdentity::from_bits);
        self.begin_wait_at(site, source.as_source(), identity, interest, callback)
    }

    #[track_caller]
    pub(crate) fn begin_wait_on<F>(
        &self,
        source: Source<'_>,
        identity: Option<SourceIdentity>,
        interest: Interest,
        callback: F,
    ) -> Result<WaitHandle, WaitError<F>>
    where
        F: FnOnce(Result<Readiness, Status>) + Send + 'static,
    {
        self.begin_wait_at(Site::caller(), source, identity, interest, callback)
    }

    fn begin_wait_at<F>(
        &self,
        location: Site,
        source: Source<'_>,
        identity: Option<SourceIdentity>,
        interest: Interest,
        callback: F,
    ) -> Result<WaitHandle, WaitError<F>>
    where
        F: FnOnce(Result<Readiness, Status>) + Send + 'static,
    {
        let inner = self.inner();
        let flavour = if self.is_always_on() { self.flavour() } else { Flavour::of_source(identity) };
        let mut callback = Some(callback);
        probe::point(Point::Post);
        let accepted = inner.accept_armed(Stage::Waiting, Kind::Wait, flavour, Instant::INFINITE, location, || {
            let callback = callback.take().expect("an accepted callback is made once");
            Callback::new(WaitFn(callback))
        });
        let Ok(id) = accepted else {
            let callback = callback.take().expect("a refused callback was not made");
            return Err(WaitError::new(WaitRefused::Closed, callback));
        };
        let handle = WaitHandle { dispatcher: Arc::downgrade(inner), id };
        let target: Arc<dyn EventTarget> = Arc::clone(inner) as Arc<dyn EventTarget>;
        match inner.pool().reactor().begin_wait(source, interest, target, id.as_key()) {
            Ok(wait) => {
                if let Err(source) = inner.set_source(id, EventSource::Wait(wait)) {
                    inner.take_down(source);
                }
                Ok(handle)
            }
            Err(refused) => {
                let Some(erased) = inner.refuse_after_all(id) else {
                    // A shutdown began meanwhile and tells the callback, so the wait was accepted after all.
                    return Ok(handle);
                };
                match erased.into_inner::<WaitFn<F>>() {
                    Ok(WaitFn(callback)) => Err(WaitError::new(refused, callback)),
                    Err(_) => unreachable!("the callback is of the type that was stored a moment ago"),
                }
            }
        }
    }
}

/// A handle to a wait. Dropping it changes nothing.
#[derive(Clone)]
pub struct WaitHandle {
    dispatcher: Weak<DispatcherInner>,
    id: OpId,
}

impl WaitHandle {
    /// Takes the wait back: its callback will never be called, and belongs to the caller.
    ///
    /// # Errors
    /// [`CancelError`] when the callback has begun or has ended.
    ///
    /// # Thread requirements
    /// Any thread. On the synchronized dispatcher's own callbacks it always succeeds until the callback has begun,
    /// whatever has been signaled.
    pub fn cancel(&self) -> Result<TakenBack, CancelError> {
        let dispatcher = self.dispatcher.upgrade().ok_or(CancelError)?;
        probe::point(Point::Cancel);
        dispatcher.take_back(self.id).map(TakenBack::new).ok_or(CancelError)
    }
}

impl fmt::Debug for WaitHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitHandle").field("id", &self.id).finish_non_exhaustive()
    }
}
