//! What happens when the system has no thread left, without using them up.

use crate::sync::refused_threads;

/// Calls `f`; meanwhile the calling thread may start `starts` threads, and each further one is refused as by a system that
/// has none left. Threads that others start are not concerned.
///
/// A runtime starts threads when it is built, with the first dispatcher of a role and with each one that allows sync
/// calls; all of them are started by the thread that makes the call. When one is refused, the call fails with
/// [`Status::NoResources`](crate::Status::NoResources).
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::testing::refuse_threads_after;
/// use fuchsine_dispatcher::{DispatcherBuilder, RuntimeBuilder, Status};
///
/// let runtime = RuntimeBuilder::new().build()?;
/// let driver = runtime.new_driver("unlucky");
/// let blocking = DispatcherBuilder::new().allow_sync_calls();
/// let error = refuse_threads_after(0, || driver.new_dispatcher(blocking)).unwrap_err();
/// assert_eq!(error.status(), Status::NoResources);
/// runtime.shutdown(std::time::Duration::from_secs(5))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn refuse_threads_after<R>(starts: usize, f: impl FnOnce() -> R) -> R {
    refused_threads::refuse_after(starts, f)
}
