//! The default dispatcher of a test's thread.

use crate::runtime::DispatcherHandle;
use crate::runtime::call_stack;
use crate::status::Status;

/// Makes `dispatcher` the default of the calling thread, or clears it with `None`.
///
/// While the thread is inside of no driver, [`current`](crate::current) answers with the default and
/// [`current_driver`](crate::current_driver) with its owner, [`DispatcherBuilder::build`](crate::DispatcherBuilder::build)
/// makes dispatchers for that driver, and futures that a test runs have a dispatcher for their timers. Nothing else
/// changes: the thread counts as one of no pool, what it writes is delivered as from any outside thread, and nothing is
/// held back for fear of re-entrancy. On the thread that turns the crank of the default's foreground runtime, what belongs
/// to the default may be used as in its callbacks: it is in [its sequence](DispatcherHandle::sequence_id), and
/// [`SynchronizationChecker`](crate::SynchronizationChecker)s pass, also once it has shut down.
///
/// The default keeps nothing alive: when all handles to it are gone, there is none. It may have shut down.
///
/// Fuchsia: R14.
///
/// # Errors
/// [`Status::BadState`] inside of a callback or of [`Driver::enter`](crate::Driver::enter).
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::{DispatcherBuilder, current_driver, testing::*};
///
/// let runtime = ForegroundRuntime::new();
/// let driver = runtime.new_driver("lamp");
/// let foreground = driver.new_dispatcher(DispatcherBuilder::new())?;
/// set_default_dispatcher(Some(&foreground))?;
/// assert_eq!(current_driver(), Some(driver));
/// let another = DispatcherBuilder::new().name("another").build()?;
/// # drop(another);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn set_default_dispatcher(dispatcher: Option<&DispatcherHandle>) -> Result<(), Status> {
    match call_stack::set_default_dispatcher(dispatcher.map(DispatcherHandle::inner)) {
        true => Ok(()),
        false => Err(Status::BadState),
    }
}
