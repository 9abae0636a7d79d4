//! The always-on view of a dispatcher: another handle to the same one, for what has to run while its driver is
//! suspended.

use super::active::ActiveId;
use super::flavour::Flavour;
use super::handle::{DispatcherHandle, current};

impl DispatcherHandle {
    /// A handle to the same dispatcher by which tasks, delayed tasks, waits, channel reads, work and futures are
    /// *always on*: they run also while the driver is suspended, such as what serves the driver's own life cycle.
    /// Everything else that is done by it is done to the dispatcher as such, and inside of its callbacks
    /// [`current`](crate::current) is the plain handle. The view of a view is the view.
    ///
    /// Irqs that are bound by it are parked like others, and may be wake vectors. (Fuchsia: R134.)
    pub fn always_on(&self) -> DispatcherHandle {
        self.with_flavour(Flavour::ALWAYS_ON)
    }

    /// Whether this is the [always-on](DispatcherHandle::always_on) view.
    pub fn is_always_on(&self) -> bool {
        self.flavour().is_always_on()
    }
}

/// [`current`](crate::current), as the view by which the running callback was posted: what an always-on future waits
/// for is always on too.
pub(crate) fn current_as_running() -> Option<DispatcherHandle> {
    let handle = current()?;
    let flavour = handle.inner().lock().active.flavour_of(ActiveId::of_this_thread());
    Some(if flavour.is_always_on() { handle.always_on() } else { handle })
}
