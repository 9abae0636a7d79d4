//! What can be a wake vector, and how a driver says so.

use std::fmt;

use super::driver::Driver;
use super::driver_inner::DriverInner;
use super::flavour::SourceIdentity;
use crate::event_loop::{Source, Waitable, source::sealed};
use crate::status::Status;
use crate::sync::{Arc, Weak};
use crate::sys::Interest;

/// Something that can be waited on, with an identity of its own, so that it can be a
/// [wake vector](Driver::register_wake_vector). Clones are the same source; it keeps what it was made of open.
///
/// A plain descriptor has no identity: its number may be that of something else tomorrow. Irqs and the objects of the
/// simulated system have one by themselves.
///
/// # Examples
/// ```
/// # use fuchsine_dispatcher::*;
/// fn wake_on(driver: &Driver, socket: std::net::UdpSocket) -> Result<WakeSource, Status> {
///     let source = WakeSource::over(socket);
///     driver.register_wake_vector(&source, Interest::READABLE)?.keep();
///     Ok(source)
/// }
/// ```
#[derive(Clone)]
pub struct WakeSource {
    source: Arc<dyn Waitable + Send + Sync>,
    identity: Option<SourceIdentity>,
}

impl WakeSource {
    /// A source over something that can be waited on, such as a socket or an `Arc` of one.
    pub fn over(source: impl Waitable + Send + Sync + 'static) -> Self {
        WakeSource { source: Arc::new(source), identity: SourceIdentity::fresh() }
    }
}

impl sealed::Sealed for WakeSource {}

impl Waitable for WakeSource {
    fn as_source(&self) -> Source<'_> {
        self.source.as_source()
    }

    fn identity(&self) -> Option<u64> {
        self.identity.map(SourceIdentity::to_bits)
    }
}

impl fmt::Debug for WakeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeSource").field("source", &self.as_source()).finish_non_exhaustive()
    }
}

impl Driver {
    /// Makes a source a wake vector: when it becomes ready for `interest` while the driver is suspended, the resume
    /// requester is called, and its callback is the first to run after the resume. That goes for waits and irqs on it
    /// that are there already, and for later ones. Registrations of a source add up.
    ///
    /// Waits through the always-on view run at once and request nothing; channel reads cannot be wake vectors.
    ///
    /// # Errors
    /// [`WakeVectorError`]: [`Status::BadState`] while the driver is suspended, and when it shuts down or has shut down;
    /// [`Status::InvalidArgs`] when the source has no identity, for which [`WakeSource`] is the way.
    ///
    /// # Thread requirements
    /// Any thread.
    pub fn register_wake_vector<S: Waitable + ?Sized>(
        &self,
        source: &S,
        interest: Interest,
    ) -> Result<WakeVector, WakeVectorError> {
        let identity = identity_of(source)?;
        if !self.inner().add_wake_vector(identity, interest) {
            return Err(WakeVectorError(Status::BadState));
        }
        Ok(WakeVector { driver: Arc::downgrade(self.inner()), identity, interest, is_kept: false })
    }

    /// Takes `interest` away from a wake vector, which goes with the last one. What it has told already keeps its
    /// place. Also while the driver is suspended.
    ///
    /// # Errors
    /// [`WakeVectorError`]: [`Status::NotFound`] when the source is no wake vector; [`Status::InvalidArgs`] when it has
    /// no identity.
    ///
    /// # Thread requirements
    /// Any thread.
    pub fn unregister_wake_vector<S: Waitable + ?Sized>(
        &self,
        source: &S,
        interest: Interest,
    ) -> Result<(), WakeVectorError> {
        let identity = identity_of(source)?;
        let was_there = self.inner().power().lock().remove_vector(identity, interest);
        if was_there { Ok(()) } else { Err(WakeVectorError(Status::NotFound)) }
    }
}

fn identity_of<S: Waitable + ?Sized>(source: &S) -> Result<SourceIdentity, WakeVectorError> {
    source.identity().and_then(SourceIdentity::from_bits).ok_or(WakeVectorError(SourceIdentity::MISSING))
}

/// A registered wake vector. Dropping it takes the registration back.
#[must_use = "dropping it takes the registration back; `keep` leaves it to the driver"]
pub struct WakeVector {
    driver: Weak<DriverInner>,
    identity: SourceIdentity,
    interest: Interest,
    is_kept: bool,
}

impl WakeVector {
    /// Leaves it registered until [`Driver::unregister_wake_vector`].
    pub fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for WakeVector {
    fn drop(&mut self) {
        if !self.is_kept
            && let Some(driver) = self.driver.upgrade()
        {
            driver.power().lock().remove_vector(self.identity, self.interest);
        }
    }
}

impl fmt::Debug for WakeVector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WakeVector").field("interest", &self.interest).finish_non_exhaustive()
    }
}

/// A wake vector was not registered, or not unregistered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the wake vector: {}", match self.0 {
    Status::BadState => "none is registered while the driver is suspended or once it shuts down",
    Status::NotFound => "the source is none",
    _ => "the source has no identity; wait on a `WakeSource` over it",
})]
pub struct WakeVectorError(Status);

impl WakeVectorError {
    /// The condition as a status.
    pub fn status(&self) -> Status {
        self.0
    }
}

impl From<WakeVectorError> for Status {
    fn from(error: WakeVectorError) -> Status {
        error.0
    }
}
