//! The dispatcher runtime (L3): drivers, dispatchers, and all that they accept.
//!
//! A [`Runtime`] is a plain value; several may live in a process, one a test for example. It knows nothing of channels
//! and futures: those are built on the operations of `callback_queue` and `dispatcher`.

mod accept;
pub(crate) mod active;
pub(crate) mod again;
mod always_on;
pub(crate) mod blocked;
mod blocking;
mod builder;
pub(crate) mod call_stack;
pub(crate) mod callback_queue;
pub(crate) mod core;
mod counters;
mod delayed;
pub(crate) mod dispatcher;
mod dispatcher_list;
mod driver;
mod driver_inner;
mod dump;
pub(crate) mod flavour;
mod handle;
mod idle;
mod ids;
mod inbox;
pub(crate) mod inline;
mod irq;
#[cfg(not(shuttle))]
mod irq_line;
mod irq_state;
pub(crate) mod live_futures;
mod notes;
mod offload;
mod panic;
mod power;
#[cfg(not(shuttle))]
mod raw_handle;
mod role_pools;
mod roles;
mod runtime_inner;
mod seal;
mod seldom;
mod sequence_id;
mod shown;
mod shutdown;
#[cfg(all(test, shuttle))]
mod shuttle_dispatcher;
#[cfg(all(test, shuttle))]
mod shuttle_dump;
#[cfg(all(test, shuttle))]
mod shuttle_idle;
#[cfg(all(test, shuttle))]
mod shuttle_inbox;
#[cfg(all(test, shuttle))]
mod shuttle_irqs;
#[cfg(all(test, shuttle))]
mod shuttle_pinned;
#[cfg(all(test, shuttle))]
mod shuttle_races;
#[cfg(all(test, shuttle))]
mod shuttle_suspend;
#[cfg(all(test, shuttle))]
mod shuttle_tray;
mod state;
mod stop_token;
mod suspend;
mod synchronization_checker;
mod task;
mod trace;
mod turn;
#[cfg(not(shuttle))]
mod wait;
#[cfg(not(shuttle))]
mod wake_source;
mod wake_vector;

use std::fmt;
use std::io;
use std::time::Duration;

use crate::pool::MOST_THREADS;
use crate::status::Status;
use crate::sync::Arc;
use crate::sync::probe::{self, Point};
use crate::sync::thread::ThreadId;
use crate::time::{Clock, Instant};

pub(crate) use always_on::current_as_running;
pub use blocking::{BlockingError, blocking};
pub use builder::{CreateError, DispatcherBuilder};
pub use callback_queue::Kind;
pub use counters::Counters;
pub use driver::{Driver, DriverState, ShutdownDriverError};
#[cfg(feature = "testing")]
pub(crate) use dump::users_type;
pub use dump::{
    DispatcherDump, DriverDump, DumpLimits, LaneDump, LongestDump, Named, ObservingDump, PendingDump, PlaceDump,
    PoolDump, RunningDump, RuntimeDump, ThreadDump, ThreadName,
};
pub use handle::{Dispatcher, DispatcherHandle, WeakDispatcher, current, current_driver};
pub use idle::WaitUntilError;
pub use ids::{DispatcherId, DriverId};
pub use inline::Reason;
pub use irq::{IrqEvent, IrqHandle, Unbound};
#[cfg(not(shuttle))]
pub use irq_line::{Irq, IrqTrigger};
pub use offload::{OffloadError, OffloadHandle};
pub(crate) use panic::message_of;
pub use panic::{PanicPolicy, PanicReport};
pub use roles::{Role, SchedulingReport};
pub use sequence_id::{SequenceError, SequenceId};
pub use state::DispatcherState;
pub use stop_token::StopToken;
pub use suspend::SuspendError;
pub use synchronization_checker::SynchronizationChecker;
pub use task::{CancelError, PostError, TakenBack, TaskHandle};
#[cfg(not(shuttle))]
pub use wait::WaitHandle;
#[cfg(not(shuttle))]
pub use wake_source::{WakeSource, WakeVector, WakeVectorError};

pub(crate) use runtime_inner::RuntimeInner;
use runtime_inner::{PanicObserver, Settings};

/// Makes a [`Runtime`].
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::{PanicPolicy, RuntimeBuilder};
///
/// let runtime = RuntimeBuilder::new().name("sensors").threads(2).panic_policy(PanicPolicy::Continue).build()?;
/// # runtime.shutdown(std::time::Duration::from_secs(5))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until it builds"]
pub struct RuntimeBuilder {
    name: String,
    threads: Option<usize>,
    thread_limit: Option<usize>,
    dynamic: bool,
    retire_after: Duration,
    enforce_allowed_roles: bool,
    batch: u32,
    inline_depth: u32,
    panic_policy: PanicPolicy,
    panic_observers: Vec<PanicObserver>,
}

/// How many threads a pool may have beyond its base threads unless the builder says otherwise.
const EXTRA_THREADS: usize = 20;
/// How long an extra thread that no dispatcher claims sleeps before it is retired, unless the builder says otherwise.
const IDLE_LIFE: Duration = Duration::from_secs(10);

impl RuntimeBuilder {
    /// A runtime with the defaults: as many threads as processors (at least 2), up to 20 more for dispatchers that
    /// allow sync calls, batches of 10, inline calls 16 deep, [`PanicPolicy::ShutdownDriver`].
    pub fn new() -> Self {
        RuntimeBuilder {
            name: "fuchsine".to_owned(),
            threads: None,
            thread_limit: None,
            dynamic: false,
            retire_after: IDLE_LIFE,
            enforce_allowed_roles: false,
            batch: 10,
            inline_depth: 16,
            panic_policy: PanicPolicy::default(),
            panic_observers: Vec::new(),
        }
    }

    /// The prefix of the names of its threads.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many base threads a pool has, at least 1.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// The most threads of a pool, those added for dispatchers that allow sync calls included. [`Role::set_thread_limit`]
    /// changes it for one role.
    pub fn thread_limit(mut self, limit: usize) -> Self {
        self.thread_limit = Some(limit);
        self
    }

    /// Threads are added when they are needed: a dispatcher that allows sync calls brings none along, but when every
    /// thread of its pool has been inside of one turn for longer than 350 ms and something else could run, the pool adds
    /// one, up to the limit. For drivers that allow sync calls but seldom block for long.
    ///
    /// The limit on the number of such dispatchers is the same in both modes. (Fuchsia: R45, R52; there somebody has to
    /// call the scanner.)
    pub fn dynamic_threads(mut self) -> Self {
        self.dynamic = true;
        self
    }

    /// How long an extra thread that no dispatcher claims any more stays idle before it ends; 10 seconds if not said.
    /// It may take up to twice as long. [`Duration::MAX`]: it stays.
    pub fn retire_threads_after(mut self, idle: Duration) -> Self {
        self.retire_after = idle;
        self
    }

    /// A driver may create dispatchers only of roles that [`Driver::allow_scheduler_role`] named to it, and of the
    /// default role. (Fuchsia: R38; there only the first dispatcher of a role is checked.)
    pub fn enforce_allowed_roles(mut self) -> Self {
        self.enforce_allowed_roles = true;
        self
    }

    /// How many callbacks a dispatcher runs before it goes to the back of the run queue, at least 1.
    pub fn batch(mut self, callbacks: u32) -> Self {
        self.batch = callbacks;
        self
    }

    /// How many dispatchers deep inline calls may nest. 0 switches them off.
    pub fn inline_depth(mut self, depth: u32) -> Self {
        self.inline_depth = depth;
        self
    }

    /// What happens when a callback panics.
    pub fn panic_policy(mut self, policy: PanicPolicy) -> Self {
        self.panic_policy = policy;
        self
    }

    /// Has `observer` called with each panic, on the thread where it happened, before the policy is carried out. There
    /// may be several.
    pub fn panic_observer(mut self, observer: impl Fn(&PanicReport) + Send + Sync + 'static) -> Self {
        self.panic_observers.push(Arc::new(observer));
        self
    }

    /// Starts the runtime.
    ///
    /// # Errors
    /// [`RuntimeError`] with [`Status::InvalidArgs`] when a number makes no sense, else with what the system said when
    /// it had no threads or descriptors left. Nothing stays behind.
    pub fn build(self) -> Result<Runtime, RuntimeError> {
        let default_threads = || std::thread::available_parallelism().map_or(2, usize::from).max(2);
        let threads = self.threads.unwrap_or_else(default_threads);
        if threads == 0 {
            return Err(RuntimeError::invalid(
                "a runtime needs at least one thread; a runtime without is `testing::ForegroundRuntime`",
            ));
        }
        self.build_with(threads, Clock::real(), false)
    }

    /// Starts a runtime without threads, on a virtual clock.
    #[cfg(feature = "testing")]
    pub(crate) fn build_foreground(self, simulated: bool) -> Result<Runtime, RuntimeError> {
        self.build_with(0, Clock::virtual_at(Instant::ZERO), simulated)
    }

    fn build_with(self, threads: usize, clock: Clock, simulated: bool) -> Result<Runtime, RuntimeError> {
        let thread_limit = self.thread_limit.unwrap_or(threads.saturating_add(EXTRA_THREADS));
        if thread_limit > MOST_THREADS {
            return Err(RuntimeError::invalid("a pool has at most 65,000 threads; lower the thread limit"));
        }
        if thread_limit < threads {
            return Err(RuntimeError::invalid("the thread limit is below the number of base threads"));
        }
        if self.batch == 0 {
            return Err(RuntimeError::invalid("a batch has at least one callback"));
        }
        let settings = Settings {
            name: self.name,
            threads,
            thread_limit,
            dynamic: self.dynamic,
            idle_life: self.retire_after,
            enforce_allowed_roles: self.enforce_allowed_roles,
            batch: self.batch,
            inline_depth: self.inline_depth,
            panic_policy: self.panic_policy,
            panic_observers: self.panic_observers,
            clock,
            simulated,
        };
        let inner = RuntimeInner::start(settings).map_err(RuntimeError::system)?;
        Ok(Runtime { handle: Arc::new(RuntimeHandle(inner)) })
    }
}

impl Default for RuntimeBuilder {
    fn default() -> Self {
        RuntimeBuilder::new()
    }
}

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Begins the shutdown when the last clone of a [`Runtime`] is dropped.
#[derive(Debug)]
struct RuntimeHandle(Arc<RuntimeInner>);

impl Drop for RuntimeHandle {
    fn drop(&mut self) {
        self.0.begin_shutdown();
    }
}

/// A dispatcher runtime: pools of threads, and the drivers that are hosted on them. Clones name the same runtime.
///
/// Dropping the last clone begins the shutdown and never blocks. [`Runtime::shutdown`] waits for it.
#[derive(Debug, Clone)]
pub struct Runtime {
    handle: Arc<RuntimeHandle>,
}

impl Runtime {
    /// A new driver. Names need not be unique.
    ///
    /// Once the shutdown of the runtime has begun, the driver is one that has shut down already.
    pub fn new_driver(&self, name: impl Into<String>) -> Driver {
        Driver::from_inner(self.inner().new_driver(name.into()))
    }

    /// The time of the runtime's clock: monotonic, or virtual in a foreground runtime.
    pub fn now(&self) -> Instant {
        self.inner().clock().now()
    }

    /// What became of the callbacks of all drivers, those that are gone included.
    pub fn counters(&self) -> Counters {
        self.inner().counters()
    }

    /// What every dispatcher does and holds at this moment.
    pub fn dump(&self) -> RuntimeDump {
        RuntimeDump::of(self.inner())
    }

    /// Like [`dump`](Runtime::dump), listing as much as `limits` says.
    pub fn dump_with(&self, limits: DumpLimits) -> RuntimeDump {
        RuntimeDump::with_limits(self.inner(), limits)
    }

    /// The threads of the default role's pool: base threads plus those that were added. None once
    /// [`shutdown`](Runtime::shutdown) has returned.
    pub fn thread_count(&self) -> usize {
        self.inner().default_pool().threads().started()
    }

    /// A scheduler role, to look at its threads and to change its settings. Any name is a role; `""` is the default one.
    pub fn role(&self, name: impl Into<String>) -> Role {
        Role::new(Arc::clone(self.inner()), name.into())
    }

    /// The driver of this runtime that another thread (or this one) is inside of at this moment, innermost; `None` when
    /// it is inside of none, or is not known. It tells whose code it was that crashed or hangs.
    pub fn driver_on_thread(&self, thread: ThreadId) -> Option<Driver> {
        self.driver_where(|who| who.id == thread)
    }

    /// Like [`driver_on_thread`](Runtime::driver_on_thread), by the number that the operating system has given to the
    /// thread, which is what a debugger or a crash report knows it by. `None` everywhere but on Linux.
    pub fn driver_on_os_thread(&self, thread: u32) -> Option<Driver> {
        self.driver_where(|who| who.os_id == Some(thread))
    }

    fn driver_where(&self, is_it: impl Fn(&call_stack::Who) -> bool) -> Option<Driver> {
        // A number may be that of a thread that has ended, too: that one is inside of nothing.
        let threads = call_stack::known_threads();
        let inside = threads.iter().find(|thread| thread.driver != 0 && is_it(&thread.who))?;
        let driver = self.inner().drivers().into_iter().find(|driver| driver.id().as_raw() == inside.driver)?;
        Some(Driver::from_inner(driver))
    }

    /// Has `observer` called with each panic from here on, like [`RuntimeBuilder::panic_observer`].
    pub fn observe_panics(&self, observer: impl Fn(&PanicReport) + Send + Sync + 'static) {
        self.inner().observe_panics(Arc::new(observer));
    }

    /// The simulated network of a foreground runtime; `None` where descriptors are real.
    #[cfg(feature = "testing")]
    pub fn sim_net(&self) -> Option<crate::sys::sim::Net> {
        self.inner().sim_net().cloned()
    }

    /// Begins the shutdown of all drivers. Idempotent; never blocks.
    pub fn shutdown_async(&self) {
        probe::point(Point::Shutdown);
        self.inner().begin_shutdown();
    }

    /// Shuts all drivers down, waits until the last observer has returned, and joins all threads.
    ///
    /// # Errors
    /// - [`ShutdownError::BadState`] at once on a thread that runs a callback of this runtime, or belongs to it, or
    ///   when the runtime has no threads that could do it (a foreground runtime is shut down by its own method).
    /// - [`ShutdownError::TimedOut`] after `timeout`, with who is stuck where. The shutdown goes on; it may be awaited
    ///   by another call.
    pub fn shutdown(&self, timeout: Duration) -> Result<(), ShutdownError> {
        let inner = self.inner();
        if inner.default_pool().is_driven_by_hand() || inner.is_own_thread() {
            return Err(ShutdownError::BadState);
        }
        inner.begin_shutdown();
        if !inner.wait_until_closed(Clock::real().now() + timeout) {
            return Err(ShutdownError::TimedOut(Box::new(self.dump())));
        }
        inner.join();
        Ok(())
    }

    pub(crate) fn inner(&self) -> &Arc<RuntimeInner> {
        &self.handle.0
    }

    /// The clock.
    #[cfg(feature = "testing")]
    pub(crate) fn clock(&self) -> &Clock {
        self.inner().clock()
    }
}

/// What it means that the system refused a thread or a descriptor. For want of resources it says "try again", which in
/// a status would mean something else.
fn status_of_refusal(error: &io::Error) -> Status {
    match Status::from(error) {
        Status::ShouldWait => Status::NoResources,
        status => status,
    }
}

/// A runtime could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the runtime: {cause}")]
pub struct RuntimeError {
    status: Status,
    cause: String,
    #[source]
    source: Option<io::Error>,
}

impl RuntimeError {
    fn invalid(cause: &str) -> Self {
        RuntimeError { status: Status::InvalidArgs, cause: cause.to_owned(), source: None }
    }

    #[cfg(feature = "testing")]
    pub(crate) fn not_supported(cause: &str) -> Self {
        RuntimeError { status: Status::NotSupported, cause: cause.to_owned(), source: None }
    }

    fn system(error: io::Error) -> Self {
        RuntimeError { status: status_of_refusal(&error), cause: error.to_string(), source: Some(error) }
    }

    /// The condition as a status.
    pub fn status(&self) -> Status {
        self.status
    }
}

impl From<RuntimeError> for Status {
    fn from(error: RuntimeError) -> Status {
        error.status
    }
}

/// A runtime has not shut down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The calling thread is one of those that the shutdown would wait for.
    #[error("a runtime cannot be waited for on a thread of its own; use `shutdown_async` there")]
    BadState,
    /// The deadline passed first.
    #[error("the runtime has not shut down in time; still busy:\n{}", .0.stuck())]
    TimedOut(Box<RuntimeDump>),
}

impl ShutdownError {
    /// The condition as a status.
    pub fn status(&self) -> Status {
        match self {
            ShutdownError::BadState => Status::BadState,
            ShutdownError::TimedOut(_) => Status::TimedOut,
        }
    }
}

impl From<ShutdownError> for Status {
    fn from(error: ShutdownError) -> Status {
        error.status()
    }
}
