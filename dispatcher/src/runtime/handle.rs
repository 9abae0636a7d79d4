//! The handles to a dispatcher: owner, clonable handle, weak handle, and what is current.

use std::fmt;
use std::ops::Deref;

use super::call_stack;
use super::counters::Counters;
use super::dispatcher::DispatcherInner;
use super::driver::Driver;
use super::driver_inner::DriverInner;
use super::dump::DispatcherDump;
use super::flavour::Flavour;
use super::ids::DispatcherId;
use super::state::DispatcherState;
use super::stop_token::StopToken;
use crate::status::Status;
use crate::sync::probe::{self, Point};
use crate::sync::{Arc, Weak};
use crate::time::Instant;

/// The owner of a dispatcher. Dropping it begins the shutdown, which tells everything pending `Canceled`.
#[must_use = "dropping the owner begins the shutdown; `release` leaves the dispatcher to its driver"]
pub struct Dispatcher {
    handle: DispatcherHandle,
    released: bool,
}

impl Dispatcher {
    pub(super) fn new(inner: Arc<DispatcherInner>) -> Self {
        Dispatcher { handle: DispatcherHandle(inner, Flavour::REGULAR), released: false }
    }

    /// A handle that can be cloned and sent.
    pub fn handle(&self) -> DispatcherHandle {
        self.handle.clone()
    }

    /// Leaves the dispatcher to its driver, which shuts it down with all its others.
    pub fn release(mut self) -> DispatcherHandle {
        self.released = true;
        self.handle.clone()
    }
}

impl Deref for Dispatcher {
    type Target = DispatcherHandle;

    fn deref(&self) -> &DispatcherHandle {
        &self.handle
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        if !self.released {
            self.handle.shutdown_async();
        }
    }
}

impl fmt::Debug for Dispatcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

/// A cheap handle to a dispatcher: clone it, send it, keep it. It keeps the memory alive, not the dispatcher: after
/// the shutdown every operation answers [`Status::BadState`].
#[derive(Clone)]
pub struct DispatcherHandle(Arc<DispatcherInner>, Flavour);

impl DispatcherHandle {
    pub(crate) fn from_inner(inner: Arc<DispatcherInner>) -> Self {
        DispatcherHandle(inner, Flavour::REGULAR)
    }

    /// The same dispatcher, with what is posted by the handle behaving in this way while the driver is suspended.
    pub(super) fn with_flavour(&self, flavour: Flavour) -> Self {
        DispatcherHandle(Arc::clone(&self.0), flavour)
    }

    /// As [`with_flavour`](DispatcherHandle::with_flavour), for a handle that is given up.
    #[cfg(not(shuttle))]
    pub(super) fn into_flavour(self, flavour: Flavour) -> Self {
        DispatcherHandle(self.0, flavour)
    }

    #[cfg(not(shuttle))]
    pub(super) fn into_inner(self) -> Arc<DispatcherInner> {
        self.0
    }

    /// How what is posted by this handle behaves while the driver is suspended.
    pub(crate) fn flavour(&self) -> Flavour {
        self.1
    }

    pub(crate) fn inner(&self) -> &Arc<DispatcherInner> {
        &self.0
    }

    /// The name that it was made with.
    pub fn name(&self) -> &str {
        &self.0.options().name
    }

    /// A number that no other dispatcher of this process ever has.
    pub fn id(&self) -> DispatcherId {
        self.0.id()
    }

    /// The driver that owns it.
    pub fn owner(&self) -> Driver {
        Driver::from_inner(Arc::clone(self.0.owner()))
    }

    /// Whether its callbacks never run in parallel.
    pub fn is_synchronized(&self) -> bool {
        self.0.options().synchronized
    }

    /// Whether its callbacks may block; not any more once that is
    /// [sealed](DispatcherHandle::seal_allow_sync_calls).
    pub fn allows_sync_calls(&self) -> bool {
        self.0.allows_sync_calls()
    }

    /// Whether its callbacks may run on different threads of its pool.
    pub fn allows_thread_migration(&self) -> bool {
        !self.0.options().no_thread_migration
    }

    /// The role whose pool it runs on.
    pub fn scheduler_role(&self) -> &str {
        self.0.pool().role()
    }

    /// Where it stands in its life.
    pub fn state(&self) -> DispatcherState {
        self.0.lock().state
    }

    /// Whether a callback of it runs on this thread, innermost.
    pub fn is_current(&self) -> bool {
        call_stack::is_current(&self.0) || call_stack::default_dispatcher().is_some_and(|it| Arc::ptr_eq(&it, &self.0))
    }

    /// The time of the runtime's clock.
    pub fn now(&self) -> Instant {
        self.0.now()
    }

    /// What became of its callbacks.
    pub fn counters(&self) -> Counters {
        self.0.counters()
    }

    /// What it does and holds at this moment. It never waits for a callback, so it works on one that is stuck.
    pub fn dump(&self) -> DispatcherDump {
        DispatcherDump::of(&self.0)
    }

    /// Begins the shutdown: posts are refused from here on, running callbacks finish, everything pending is told
    /// `Canceled`, then the shutdown observer runs.
    ///
    /// # Thread requirements
    /// Any thread, its own callbacks included, any number of times. Never calls back before it returns.
    pub fn shutdown_async(&self) {
        probe::point(Point::Shutdown);
        self.0.begin_shutdown();
    }

    /// A token that tells running code of the shutdown.
    pub fn stop_token(&self) -> StopToken {
        StopToken::new(self.0.stop_state())
    }

    /// The simulated network of its runtime; `None` where descriptors are real.
    #[cfg(feature = "testing")]
    pub fn sim_net(&self) -> Option<crate::sys::sim::Net> {
        self.0.owner().runtime().sim_net().cloned()
    }

    /// A handle that does not keep the memory alive.
    pub fn downgrade(&self) -> WeakDispatcher {
        WeakDispatcher(Arc::downgrade(&self.0))
    }
}

impl fmt::Debug for DispatcherHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispatcher").field("id", &self.id()).field("name", &self.name()).finish_non_exhaustive()
    }
}

impl PartialEq for DispatcherHandle {
    fn eq(&self, other: &DispatcherHandle) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for DispatcherHandle {}

/// A handle that keeps nothing alive.
#[derive(Debug, Clone)]
pub struct WeakDispatcher(Weak<DispatcherInner>);

impl WeakDispatcher {
    /// The handle again.
    ///
    /// # Errors
    /// [`Status::BadState`] when the dispatcher is gone.
    pub fn upgrade(&self) -> Result<DispatcherHandle, Status> {
        self.0.upgrade().map(DispatcherHandle::from_inner).ok_or(Status::BadState)
    }
}

/// The dispatcher whose callback runs on this thread, innermost. `None` on foreign threads, on workers of lanes, and
/// directly inside [`Driver::enter`].
/// A test can make one the default of a thread that is inside of nothing.
pub fn current() -> Option<DispatcherHandle> {
    call_stack::current_dispatcher().or_else(call_stack::default_dispatcher).map(DispatcherHandle::from_inner)
}

/// The driver that this thread is inside of, innermost.
pub fn current_driver() -> Option<Driver> {
    driver_of_this_thread().map(Driver::from_inner)
}

/// The driver of the innermost frame, else that of the default dispatcher.
pub(super) fn driver_of_this_thread() -> Option<Arc<DriverInner>> {
    let of_default = || call_stack::default_dispatcher().map(|dispatcher| Arc::clone(dispatcher.owner()));
    call_stack::current_driver().or_else(of_default)
}
