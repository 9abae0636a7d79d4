//! The handle to a scheduler role.

use std::fmt;

use super::runtime_inner::RuntimeInner;
use crate::status::Status;
use crate::sync::Arc;
use crate::sys::Scheduling;

/// A scheduler role of a runtime: what its dispatchers have in common, a pool of threads and settings.
///
/// A role needs no declaration: any name is one, `""` is the default role. What is set for it holds from before its
/// first dispatcher until the end of the runtime. Its pool starts with its first dispatcher and ends with the last one;
/// only the default role's is always there.
///
/// Made by [`Runtime::role`](crate::Runtime::role). The handle keeps nothing running.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::{DispatcherBuilder, RuntimeBuilder, Status};
///
/// let runtime = RuntimeBuilder::new().threads(2).build()?;
/// let audio = runtime.role("audio");
/// audio.set_no_sync_calls(true)?;
///
/// let driver = runtime.new_driver("speaker");
/// let blocking = DispatcherBuilder::new().scheduler_role("audio").allow_sync_calls();
/// assert_eq!(driver.new_dispatcher(blocking).unwrap_err().status(), Status::NotSupported);
/// assert_eq!(audio.thread_count(), 0, "a refused creation leaves nothing behind");
///
/// let mixer = driver.new_dispatcher(DispatcherBuilder::new().scheduler_role("audio"))?;
/// assert_eq!(audio.thread_count(), 2);
/// # drop(mixer);
/// # runtime.shutdown(std::time::Duration::from_secs(5))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Role {
    runtime: Arc<RuntimeInner>,
    name: String,
}

impl Role {
    pub(super) fn new(runtime: Arc<RuntimeInner>, name: String) -> Self {
        Role { runtime, name }
    }

    /// The role's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The most threads that its pool may have: base threads, and extra ones for dispatchers that allow sync calls.
    /// Unless it is set, [`RuntimeBuilder::thread_limit`](crate::RuntimeBuilder::thread_limit).
    pub fn thread_limit(&self) -> usize {
        self.runtime.role_pools(|pools| pools.figures(&self.name).limit)
    }

    /// Sets the most threads of its pool. Dispatchers that allow sync calls beyond it are refused with
    /// [`Status::NoResources`]; those that are there stay.
    ///
    /// # Errors
    /// [`Status::OutOfRange`] for a limit below the threads that run or that the pool starts with, below one more than
    /// those while a dispatcher allows sync calls, and above 65,000, which is the most of any pool. The old limit holds
    /// then. (Fuchsia: R49.)
    pub fn set_thread_limit(&self, limit: usize) -> Result<(), Status> {
        self.runtime.role_pools(|pools| pools.set_thread_limit(&self.name, limit))
    }

    /// The threads that run in its pool, base and extra; 0 while there is no pool.
    pub fn thread_count(&self) -> usize {
        self.runtime.role_pools(|pools| pools.figures(&self.name).running())
    }

    /// How many dispatchers of this role allow sync calls. A sealed one no longer counts.
    pub fn sync_call_dispatchers(&self) -> usize {
        self.runtime.role_pools(|pools| pools.figures(&self.name).reserved)
    }

    /// How many extra threads the present pool has ever added; 0 while there is no pool.
    pub fn added(&self) -> u64 {
        self.runtime.role_pools(|pools| pools.figures(&self.name).added)
    }

    /// How many extra threads the present pool has retired; 0 while there is no pool.
    pub fn retired(&self) -> u64 {
        self.runtime.role_pools(|pools| pools.figures(&self.name).retired)
    }

    /// Whether dispatchers of this role must not allow sync calls.
    pub fn no_sync_calls(&self) -> bool {
        self.runtime.role_pools(|pools| pools.refuses_sync_calls(&self.name))
    }

    /// Says that dispatchers of this role must not allow sync calls, or that they may. Inline calls are made as
    /// everywhere. (Fuchsia: R39; there this also switches inline calls off, R40.)
    ///
    /// # Errors
    /// [`Status::NotSupported`] for `true` while there is a dispatcher that allows sync calls and is not sealed.
    pub fn set_no_sync_calls(&self, no_sync_calls: bool) -> Result<(), Status> {
        self.runtime.role_pools(|pools| pools.set_no_sync_calls(&self.name, no_sync_calls))
    }
}

/// What became of the scheduling that was set for a role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulingReport {
    /// How many threads of the pool are scheduled as set.
    pub applied: usize,
    /// How many were refused it by the system, and work on as they are.
    pub refused: usize,
    /// What the system said to one that was refused.
    pub refusal: Option<String>,
}

/// Scheduling by the operating system.
impl Role {
    /// Sets how the operating system schedules the threads of this role's pool: those that come at their start, those that
    /// are there before their next turn, which is a batch of callbacks of one dispatcher. (Workers of lanes are not
    /// concerned.)
    ///
    /// That is a wish. Where the system does not permit it, or knows no such thing, there is a warning in the log, the
    /// [report](Role::scheduling_report) says so, and everything works as before. Threads of roles for which nothing was
    /// set are scheduled like the thread that made the runtime. Only Linux schedules threads one by one; elsewhere every
    /// wish is refused. (Fuchsia: R33, R34.)
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::{DispatcherBuilder, RuntimeBuilder, Scheduling};
    ///
    /// let runtime = RuntimeBuilder::new().build()?;
    /// runtime.role("background").set_scheduling(Scheduling::Normal { nice: 10 });
    /// let driver = runtime.new_driver("indexer");
    /// let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().scheduler_role("background"))?;
    /// # drop(dispatcher);
    /// # runtime.shutdown(std::time::Duration::from_secs(5))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_scheduling(&self, scheduling: Scheduling) {
        self.runtime.role_pools(|pools| pools.set_scheduling(&self.name, scheduling));
    }

    /// What was set by [`set_scheduling`](Role::set_scheduling) last.
    pub fn scheduling(&self) -> Option<Scheduling> {
        self.runtime.role_pools(|pools| pools.scheduling(&self.name))
    }

    /// What became of it so far; all zero while nothing is set or there is no pool. A thread that sleeps counts in neither
    /// number until it gets up.
    pub fn scheduling_report(&self) -> SchedulingReport {
        let outcome = self.runtime.role_pools(|pools| pools.scheduling_outcome(&self.name));
        SchedulingReport { applied: outcome.applied, refused: outcome.refused, refusal: outcome.refusal }
    }
}

impl fmt::Debug for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.runtime.role_pools(|pools| pools.figures(&self.name));
        f.debug_struct("Role").field("name", &self.name).field("threads", &figures).finish()
    }
}

impl PartialEq for Role {
    fn eq(&self, other: &Role) -> bool {
        Arc::ptr_eq(&self.runtime, &other.runtime) && self.name == other.name
    }
}

impl Eq for Role {}
