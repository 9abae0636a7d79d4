//! A driver: an identity that owns dispatchers.
//!
//! Drivers own no threads. A thread is inside a driver while a callback of one of its dispatchers runs, or while it is
//! in [`Driver::enter`]; that is what no re-entrancy is judged by.

use std::fmt;

use super::builder::{CreateError, DispatcherBuilder};
use super::core::ShutdownObserver;
use super::counters::Counters;
use super::driver_inner::DriverInner;
use super::handle::{Dispatcher, DispatcherHandle};
use super::ids::DriverId;
use super::{call_stack, dump::DriverDump};
use crate::status::Status;
use crate::sync::Arc;
use crate::sync::probe::{self, Point};

/// Where a driver stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DriverState {
    /// It may create dispatchers.
    Running,
    /// Its dispatchers shut down, or its observers run.
    ShuttingDown,
    /// Its observers have returned.
    Shutdown,
}

impl DriverState {
    /// The state's name in dumps.
    pub const fn as_str(self) -> &'static str {
        match self {
            DriverState::Running => "running",
            DriverState::ShuttingDown => "shutting down",
            DriverState::Shutdown => "shut down",
        }
    }
}

impl fmt::Display for DriverState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A driver: an owner of dispatchers. Clones name the same driver.
///
/// Dropping the handles does not end the driver: its dispatchers live on, and a running callback finds it by
/// [`current_driver`](crate::current_driver). [`Driver::shutdown`] ends it.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::{DispatcherBuilder, RuntimeBuilder};
/// use std::time::Duration;
///
/// let runtime = RuntimeBuilder::new().build()?;
/// let driver = runtime.new_driver("thermometer");
/// let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().name("sampling"))?;
/// let (sender, receiver) = std::sync::mpsc::channel();
/// dispatcher.post_task(move |outcome| {
///     outcome.expect("the dispatcher runs");
///     sender.send("measured").expect("the receiver waits");
/// })?;
/// assert_eq!(receiver.recv()?, "measured");
/// runtime.shutdown(Duration::from_secs(5))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Driver(Arc<DriverInner>);

impl Driver {
    pub(crate) fn from_inner(inner: Arc<DriverInner>) -> Self {
        Driver(inner)
    }

    pub(crate) fn inner(&self) -> &Arc<DriverInner> {
        &self.0
    }

    /// The driver's name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// A number that no other driver of this process ever has.
    pub fn id(&self) -> DriverId {
        self.0.id()
    }

    /// Runs `f` with this driver entered on the calling thread, without a current dispatcher.
    ///
    /// Dispatchers may be created inside with [`DispatcherBuilder::build`], and nothing calls into this driver from
    /// this thread meanwhile. The driver is left again if `f` panics.
    pub fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        call_stack::within_driver(&self.0, f)
    }

    /// Enters this driver on the calling thread, as [`enter`](Driver::enter) does, until
    /// [`register_exit`](Driver::register_exit): for code that has a begin and an end but no scope, such as that of another
    /// language. Entries may nest, also inside of callbacks. One that a callback leaves behind is a mistake, and ends with the
    /// turn of its dispatcher, which may hold further callbacks.
    ///
    /// # Examples
    /// ```
    /// # use fuchsine_dispatcher::*;
    /// # let runtime = RuntimeBuilder::new().build()?;
    /// let driver = runtime.new_driver("spoken to by C");
    /// driver.register_entry();
    /// assert_eq!(current_driver(), Some(driver));
    /// Driver::register_exit()?;
    /// assert_eq!(current_driver(), None);
    /// # runtime.shutdown(std::time::Duration::from_secs(5))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn register_entry(&self) {
        call_stack::enter(&self.0);
    }

    /// Leaves what the calling thread has entered last by [`register_entry`](Driver::register_entry).
    ///
    /// # Errors
    /// [`Status::BadState`] when that is not what the thread is inside of, innermost: nothing was entered so, or a callback
    /// or an [`enter`](Driver::enter) that came later has not ended.
    pub fn register_exit() -> Result<(), Status> {
        if call_stack::exit() { Ok(()) } else { Err(Status::BadState) }
    }

    /// Lets this driver create dispatchers of a scheduler role, in a runtime that
    /// [enforces](crate::RuntimeBuilder::enforce_allowed_roles) it; no others are allowed there but those of the default
    /// role. It is asked at each creation. Leave is not taken back.
    pub fn allow_scheduler_role(&self, role: impl Into<String>) {
        self.0.allow_role(role.into());
    }

    /// Creates a dispatcher of this driver, from any thread.
    ///
    /// # Errors
    /// Those of [`DispatcherBuilder::build`], except that the owner is given.
    pub fn new_dispatcher(&self, builder: DispatcherBuilder) -> Result<Dispatcher, CreateError> {
        builder.build_for(&self.0)
    }

    /// Shuts the driver down: closes all its dispatchers, newest first, before it returns; everything pending on them
    /// is told `Canceled`. `observer` runs once, on the pool, after the shutdown observers of all dispatchers have
    /// returned. No dispatcher is current there, but for [sequence ids](DispatcherHandle::sequence_id) it counts as a
    /// callback of the first dispatcher that the driver had. From the call on this driver creates no dispatcher ever again.
    ///
    /// # Errors
    /// [`ShutdownDriverError`] with the observer when the driver is shutting down or has shut down. If a panic began
    /// the shutdown, [`Driver::observe_shutdown`] joins it.
    ///
    /// # Thread requirements
    /// Any thread, its own callbacks included. Never calls `observer` before it returns.
    pub fn shutdown<F: FnOnce() + Send + 'static>(&self, observer: F) -> Result<(), ShutdownDriverError> {
        probe::point(Point::Shutdown);
        self.0.shutdown(Box::new(observer)).map_err(ShutdownDriverError)
    }

    /// Has `observer` called at the end of a shutdown that is under way.
    ///
    /// # Errors
    /// [`ShutdownDriverError`] with the observer when no shutdown has begun, or when it is over.
    pub fn observe_shutdown<F: FnOnce() + Send + 'static>(&self, observer: F) -> Result<(), ShutdownDriverError> {
        self.0.observe_shutdown(Box::new(observer)).map_err(ShutdownDriverError)
    }

    /// Whether the driver has shut down and its observer has returned.
    pub fn is_shut_down(&self) -> bool {
        self.0.is_over()
    }

    /// The dispatchers that are not gone, oldest first.
    pub fn dispatchers(&self) -> Vec<DispatcherHandle> {
        self.0.dispatchers().into_iter().map(DispatcherHandle::from_inner).collect()
    }

    /// What became of the callbacks of all its dispatchers, those that are gone included.
    pub fn counters(&self) -> Counters {
        self.0.counters()
    }

    /// How many of its callbacks have panicked.
    pub fn panics(&self) -> u64 {
        self.0.panics()
    }

    /// What its dispatchers do and hold at this moment.
    pub fn dump(&self) -> DriverDump {
        DriverDump::of(&self.0)
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("id", &self.id()).field("name", &self.name()).finish_non_exhaustive()
    }
}

impl PartialEq for Driver {
    fn eq(&self, other: &Driver) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Driver {}

/// A driver could not be shut down because it is shutting down or has shut down. It carries the observer.
#[derive(thiserror::Error)]
#[error("the driver is in no state for this: a shutdown begins once, and is observed only while it is under way")]
pub struct ShutdownDriverError(ShutdownObserver);

impl ShutdownDriverError {
    /// [`Status::BadState`].
    pub fn status(&self) -> Status {
        Status::BadState
    }

    /// The observer, which was not called.
    pub fn into_observer(self) -> Box<dyn FnOnce() + Send> {
        self.0
    }
}

impl fmt::Debug for ShutdownDriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShutdownDriverError(BadState)")
    }
}

impl From<ShutdownDriverError> for Status {
    fn from(error: ShutdownDriverError) -> Status {
        error.status()
    }
}
