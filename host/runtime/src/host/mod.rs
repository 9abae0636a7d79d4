//! The host: a plan that runs.
//!
//! [`Host`] is the public handle, `shared` feeds events to the supervisor and `actions` carries out what it decides, `instance` is one running driver,
//! `services` connects drivers over their nodes, `summary` is what is told at the end.

mod actions;
mod drivers;
mod heartbeat;
mod instance;
mod nodes;
mod operate;
mod services;
mod shared;
mod summary;
mod timers;

use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use fuchsine_dispatcher::{Channel, Runtime, RuntimeBuilder, RuntimeDump, RuntimeError, Status};

pub(crate) use actions::shut_down;
pub use drivers::{DriverInfo, DriverState};
pub use heartbeat::Heartbeat;
pub(crate) use instance::Instance;
pub use nodes::NodeInfo;
pub use operate::Target;
pub(crate) use services::Service;
pub(crate) use shared::{Shared, driver_status};
pub use summary::{DriverSummary, StopError, Summary, Waiting};

use crate::apart::{Processes, Program};
use crate::log::LogLine;
use crate::manifest::Plan;
use crate::supervisor::{Consequence, Failure};

/// What a host tells its observer, on whichever thread it happens. The observer must not block.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostEvent {
    /// Every driver of the manifest has started. Comes at most once.
    Started {
        /// The addresses that drivers have published, in the order in which their drivers were started.
        addresses: Vec<String>,
    },
    /// A driver failed; it and what is below its node are being stopped. Before [`Started`](HostEvent::Started) it is
    /// the whole host that stops, unless the driver is started again.
    Failed {
        /// The driver's name in the manifest.
        driver: String,
        /// How.
        failure: Failure,
        /// Whether it is started again.
        consequence: Consequence,
    },
    /// A driver has come to its own end; what follows is its policy's.
    Finished {
        /// The driver's name in the manifest.
        driver: String,
        /// Whether it is started again.
        consequence: Consequence,
    },
    /// A driver did not stop in time and was given up: the host goes on without it, and something of it still runs.
    GivenUp {
        /// The driver's name in the manifest.
        driver: String,
    },
    /// A driver panicked whose policy is to end the process, which happens when the observer has returned.
    Aborting {
        /// The driver's name in the manifest.
        driver: String,
    },
    /// The drivers that are left are being stopped. Comes once.
    Stopping,
    /// No driver is left. Comes once, last.
    Stopped,
}

/// Where a host stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostState {
    /// Not every driver of the manifest has started yet.
    Starting,
    /// Every driver has started.
    Running,
    /// Drivers are being stopped.
    Stopping,
    /// No driver is left.
    Stopped,
}

/// What a host in a child process is asked for besides.
pub(crate) enum FarEvent<'a> {
    /// The `start` of this driver has succeeded.
    Started(&'a str),
    /// A driver has published this address.
    Address(&'a str),
    /// A driver connects to a service that its node does not offer here. The end is for whoever offers it there; what comes
    /// of it is told, in any thread, or dropped.
    Connect(&'a str, Channel, Box<dyn FnOnce(Result<(), Status>) + Send>),
}

pub(crate) type FarObserver = Box<dyn Fn(FarEvent<'_>) + Send + Sync>;
type Observer = Box<dyn Fn(HostEvent) + Send + Sync>;
type LogObserver = Box<dyn Fn(&LogLine<'_>) + Send + Sync>;

/// Makes a [`Host`].
#[must_use = "a builder does nothing until it builds"]
pub struct HostBuilder {
    plan: Plan,
    observer: Observer,
    log_observer: Option<LogObserver>,
    runtime: Option<Runtime>,
    far: Option<FarObserver>,
    program: Option<Program>,
}

impl HostBuilder {
    /// Has `observer` called with everything that happens to the host.
    pub fn observer(mut self, observer: impl Fn(HostEvent) + Send + Sync + 'static) -> Self {
        self.observer = Box::new(observer);
        self
    }

    /// Has `observer` called with every line that a driver logs, whatever level the log is set to; the lines go to the
    /// log all the same. It is called inside of the driver's call and must not call the driver.
    pub fn observe_log(mut self, observer: impl Fn(&LogLine<'_>) + Send + Sync + 'static) -> Self {
        self.log_observer = Some(Box::new(observer));
        self
    }

    /// Has drivers whose manifest says so run in processes of their own: `command` makes the command that starts one, which
    /// has to end in [`run_driver_process`](crate::run_driver_process) with the last argument that it gets. Without this
    /// such a driver does not start.
    ///
    /// # Examples
    /// ```no_run
    /// # fn example(plan: fuchsine_host::Plan) {
    /// use std::process::Command;
    /// let builder = fuchsine_host::Host::builder(plan).driver_process(|| {
    ///     let mut command = Command::new("/proc/self/exe");
    ///     command.arg("driver-process");
    ///     command
    /// });
    /// # drop(builder); }
    /// ```
    pub fn driver_process(mut self, command: impl Fn() -> Command + Send + Sync + 'static) -> Self {
        self.program = Some(Box::new(command));
        self
    }

    /// Has `observer` told what only the other side of a process wants to know.
    pub(crate) fn far(mut self, observer: impl Fn(FarEvent<'_>) + Send + Sync + 'static) -> Self {
        self.far = Some(Box::new(observer));
        self
    }

    /// Runs on this runtime instead of one of its own, a foreground runtime for example. The host does not shut it down.
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Makes the host. Nothing is started yet.
    ///
    /// # Errors
    /// [`RuntimeError`] when the system has no threads or descriptors left for a runtime.
    pub fn build(self) -> Result<Host, RuntimeError> {
        let owns_runtime = self.runtime.is_none();
        let runtime = match self.runtime {
            Some(given) => given,
            None => {
                let builder = RuntimeBuilder::new().name("fuchsine");
                self.plan.threads.into_iter().fold(builder, RuntimeBuilder::threads).build()?
            }
        };
        let shared =
            Shared::new(self.plan, runtime, (self.observer, self.log_observer, self.far), Processes::new(self.program));
        let watching = Arc::downgrade(&shared);
        shared.runtime().observe_panics(move |report| {
            if let Some(shared) = watching.upgrade() {
                shared.panicked(report.driver_id, &report.message);
            }
        });
        Ok(Host { shared, owns_runtime })
    }
}

impl fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostBuilder").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// A plan that runs: drivers on a runtime, their nodes, and their orderly end.
///
/// Dropping it begins the stop and does not wait for it.
///
/// # Examples
/// ```
/// use fuchsine_driver::{Driver, DriverContext, DriverEntry, StartError};
/// use fuchsine_host::{Host, Manifest, Registry, Source};
/// use std::time::Duration;
///
/// struct Hello;
/// impl Driver for Hello {
///     const NAME: &'static str = "hello";
///     async fn start(cx: DriverContext) -> Result<Self, StartError> {
///         cx.publish_address("hello://here")?;
///         Ok(Hello)
///     }
/// }
/// static HELLO: DriverEntry = DriverEntry::of::<Hello>();
///
/// let manifest = Manifest::parse(Source::named("example", "[drivers.hello]"))?;
/// let host = Host::builder(manifest.plan(&Registry::new([&HELLO])?)?).build()?;
/// host.start();
/// assert_eq!(host.wait_started(Duration::from_secs(10))?, ["hello://here"]);
/// let summary = host.stop(Duration::from_secs(10))?;
/// assert!(!summary.has_failed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a host stops its drivers"]
pub struct Host {
    shared: Arc<Shared>,
    owns_runtime: bool,
}

impl Host {
    /// A host for `plan`.
    pub fn builder(plan: Plan) -> HostBuilder {
        HostBuilder { plan, observer: Box::new(|_| {}), log_observer: None, runtime: None, far: None, program: None }
    }

    /// Begins to start the drivers, in the order of the manifest. Does not wait; a second call does nothing.
    pub fn start(&self) {
        self.shared.begin();
    }

    /// Waits until every driver has started, and returns the addresses that they published.
    ///
    /// # Errors
    /// [`NotStarted`] when a driver failed, the host was stopped, or `timeout` passed.
    ///
    /// # Thread requirements
    /// No thread of the runtime, and no foreground runtime: nobody would turn its crank.
    pub fn wait_started(&self, timeout: Duration) -> Result<Vec<String>, NotStarted> {
        self.shared.wait_started(timeout)
    }

    /// Where the host stands.
    pub fn state(&self) -> HostState {
        self.shared.state.lock().host_state()
    }

    /// The addresses that drivers have published so far, in the order in which their drivers were started.
    pub fn addresses(&self) -> Vec<String> {
        self.shared.addresses()
    }

    /// Begins to stop: children before parents, siblings side by side. Does not wait; idempotent.
    pub fn begin_stop(&self) {
        self.shared.begin_stop();
    }

    /// Stops all drivers, waits for it, and shuts the runtime down if it is the host's own.
    ///
    /// # Errors
    /// [`StopError`] when `timeout` passes first; it says who is stuck where. The stop goes on, and may be waited for
    /// again.
    ///
    /// # Panics
    /// On a thread of the runtime, which would wait for itself; use [`begin_stop`](Host::begin_stop) there.
    pub fn stop(&self, timeout: Duration) -> Result<Summary, StopError> {
        assert!(
            fuchsine_dispatcher::current_driver().is_none(),
            "a host cannot be waited for inside of a driver; use `begin_stop` there"
        );
        self.shared.stop(timeout, self.owns_runtime)
    }

    /// What became of the drivers so far; final once the host has stopped.
    pub fn summary(&self) -> Summary {
        self.shared.summary()
    }

    /// The nodes that there are at this moment, parents before their children.
    pub fn nodes(&self) -> Vec<NodeInfo> {
        self.shared.state.lock().node_infos()
    }

    /// What every dispatcher does and holds at this moment.
    pub fn dump(&self) -> RuntimeDump {
        self.shared.runtime().dump()
    }
}

impl Host {
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.shared.begin_stop();
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("state", &self.state()).finish_non_exhaustive()
    }
}

/// Why [`Host::wait_started`] did not see all drivers started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotStarted {
    /// A driver failed; the host stops.
    #[error("driver `{driver}` {failure}")]
    Failed {
        /// The driver's name in the manifest.
        driver: String,
        /// How.
        failure: Failure,
    },
    /// The host was stopped first.
    #[error("the host was stopped before every driver had started")]
    Stopped,
    /// The time was up first.
    #[error("not every driver has started in time; still waiting for: {}", .waiting_for.join(", "))]
    TimedOut {
        /// The drivers that have not started.
        waiting_for: Vec<String>,
    },
}
