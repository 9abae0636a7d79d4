//! The harness: one driver, started, driven and stopped by a test.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fuchsine_dispatcher::RuntimeDump;
use fuchsine_driver::{DriverEntry, Status};
use fuchsine_host::{DriverSummary, Failure, Host, HostEvent, HostState, Manifest, NodeInfo, Phase, Registry, Source};
use parking_lot::Mutex;

use crate::builder::HarnessBuilder;
use crate::fakes::{CHILD, PARENT};
use crate::hub::Hub;
use crate::peer::Peer;
use crate::place::{Place, Time};
use crate::problem::Problem;
use crate::socket::Socket;

/// What does not change from one run of the driver to the next.
pub(crate) struct Settings {
    pub(crate) entry: &'static DriverEntry,
    /// Lines of TOML.
    pub(crate) config: String,
    pub(crate) children: Option<Vec<(String, String)>>,
    pub(crate) threads: usize,
    pub(crate) hub: Arc<Hub>,
}

impl Settings {
    fn name(&self) -> String {
        self.entry.name().to_owned()
    }

    /// A manifest of the fake parent, the driver, and the fake children if they are wanted.
    fn manifest(&self) -> String {
        let (name, number) = (self.entry.name(), self.hub.number);
        let mut text = format!(
            "[host]\nthreads = {}\n[drivers.test-parent]\nconfig = {{ harness = {number} }}\n\
             [drivers.{name}]\nbind = {{ harness = \"{number}\" }}\n[drivers.{name}.config]\n{}\n",
            self.threads, self.config
        );
        if let Some(properties) = &self.children {
            let rule: String = properties.iter().map(|(key, value)| format!(", {key:?} = {value:?}")).collect();
            text += &format!(
                "[drivers.test-child]\nbind = {{ parent = {name:?}{rule} }}\nconfig = {{ harness = {number} }}\n"
            );
        }
        text
    }

    fn host(&self, place: Place<'_>, failures: &Failures) -> Result<Host, Problem> {
        let registry =
            Registry::new([&PARENT, &CHILD, self.entry]).map_err(|error| Problem::Setup(error.to_string()))?;
        let manifest = Manifest::parse(Source::named("harness", self.manifest()));
        let plan = manifest.and_then(|manifest| manifest.plan(&registry));
        let plan = plan.map_err(|error| Problem::Setup(error.to_string()))?;
        let (failures, hub, name) = (Arc::clone(failures), Arc::clone(&self.hub), self.name());
        let builder = Host::builder(plan)
            .observer(move |event| {
                if let HostEvent::Failed { driver, failure, .. } = event {
                    failures.lock().push((driver, failure));
                }
            })
            .observe_log(move |line| {
                if line.driver() == name {
                    hub.state.lock().lines.push(line.to_string());
                }
            });
        let builder = match place {
            Place::Foreground(runtime) => builder.runtime((**runtime).clone()),
            Place::Threads => builder,
        };
        builder.build().map_err(|error| Problem::Setup(error.to_string()))
    }
}

/// Drivers that failed, and how, in the order in which they did.
type Failures = Arc<Mutex<Vec<(String, Failure)>>>;

/// One driver under test on a node of a fake parent.
///
/// It is started by [`HarnessBuilder::start`], driven through [peers](Peer), [sockets](Socket) and the clock, and ended by
/// [`stop`](Harness::stop). A harness that is dropped without that stops the driver all the same and panics if anything
/// is wrong with it, unless the test is failing already.
///
/// # Examples
/// ```
/// use fuchsine_testing::{ForegroundRuntime, Harness, Place};
///
/// fn a_disk_offers_a_node_that_speaks_block(place: Place<'_>) {
///     let disk = Harness::builder(&fuchsine_ramdisk::DRIVER).config("size = \"1MiB\"").start(place).unwrap();
///     let nodes = disk.nodes();
///     assert_eq!(nodes[0].properties().get("protocol"), Some("block"));
///     assert_eq!(nodes[0].services(), ["block"]);
///     disk.stop().unwrap();
/// }
///
/// // The same test in virtual time and on threads.
/// a_disk_offers_a_node_that_speaks_block(Place::Foreground(&ForegroundRuntime::new()));
/// a_disk_offers_a_node_that_speaks_block(Place::Threads);
/// ```
#[must_use = "dropping a harness stops its driver"]
pub struct Harness<'rt> {
    settings: Arc<Settings>,
    place: Place<'rt>,
    failures: Failures,
    /// Present until the end.
    host: Option<Arc<Host>>,
}

impl<'rt> Harness<'rt> {
    /// Says what is to be tested; see [`HarnessBuilder`].
    pub fn builder(driver: &'static DriverEntry) -> HarnessBuilder {
        HarnessBuilder::new(driver)
    }

    pub(crate) fn start(settings: Arc<Settings>, place: Place<'rt>) -> Result<Self, Problem> {
        let failures = Failures::default();
        let host = settings.host(place, &failures)?;
        let mut harness = Harness { settings, place, failures, host: Some(Arc::new(host)) };
        harness.host().start();
        place.until(Time::Passes, || harness.has_started() || harness.has_ended());
        if harness.has_started() {
            return Ok(harness);
        }
        let reason = match harness.failures.lock().first() {
            Some((driver, Failure::Start(reason))) if *driver == harness.name() => reason.clone(),
            Some((driver, failure)) if *driver == harness.name() => failure.to_string(),
            Some((driver, failure)) => format!("`{driver}` {failure}"),
            None if harness.has_ended() => "it was stopped before".to_owned(),
            None => format!("nothing is left that it could wait for\n{}", harness.pending()),
        };
        let driver = harness.name();
        // How it ends is beside the point: it is told why it did not begin.
        let _ = harness.end();
        Err(Problem::NotStarted { driver, reason })
    }

    fn host(&self) -> &Host {
        self.host.as_ref().expect("it is taken by the end, which consumes the harness")
    }

    /// Whether the driver runs, or has run: it may have failed since, which is told at its end.
    fn has_started(&self) -> bool {
        self.phase() == Some(Phase::Running) || self.host().state() == HostState::Running
    }

    /// Whether the host has begun to stop, because somebody failed or for a reason of the test.
    fn has_ended(&self) -> bool {
        matches!(self.host().state(), HostState::Stopping | HostState::Stopped)
    }

    fn name(&self) -> String {
        self.settings.name()
    }

    /// Where the driver runs.
    pub fn place(&self) -> Place<'rt> {
        self.place
    }

    /// Where the driver stands in its life; `None` when it is gone.
    pub fn phase(&self) -> Option<Phase> {
        let name = self.name();
        self.host().nodes().iter().find(|node| node.driver() == Some(&name)).and_then(NodeInfo::phase)
    }

    /// The nodes below that of the driver: those that it has added, and theirs.
    pub fn nodes(&self) -> Vec<NodeInfo> {
        let above = format!("/test-parent/{}/", self.settings.hub.node);
        self.host().nodes().into_iter().filter(|node| node.path().starts_with(&above)).collect()
    }

    /// The names of the nodes that the driver has added.
    pub fn node_names(&self) -> Vec<String> {
        self.nodes().iter().map(|node| node.name().to_owned()).collect()
    }

    /// The lines that the driver has logged since the start of the harness, as `LEVEL target: message key=value`.
    pub fn lines(&self) -> Vec<String> {
        self.settings.hub.state.lock().lines.clone()
    }

    /// The addresses that the driver has published.
    pub fn addresses(&self) -> Vec<String> {
        self.host().addresses()
    }

    /// What every dispatcher does and holds at this moment.
    pub fn dump(&self) -> RuntimeDump {
        self.host().dump()
    }

    /// What runs or waits at this moment, for messages.
    fn pending(&self) -> String {
        match self.place {
            Place::Foreground(runtime) => runtime.pending(),
            Place::Threads => self.dump().to_string(),
        }
    }

    /// Lets everything happen that is due. On threads it does nothing: there, wait for what you expect.
    pub fn settle(&self) {
        self.place.settle();
    }

    /// Lets time pass, at once on a foreground runtime.
    pub fn advance(&self, duration: Duration) {
        self.place.advance(duration);
    }

    /// Lets things happen, and time pass if nothing else is left, until `condition` holds; false when nothing is left
    /// that could make it hold.
    pub fn run_until(&self, condition: impl FnMut() -> bool) -> bool {
        self.place.until(Time::Passes, condition)
    }

    /// The next connection of the driver to a [service](HarnessBuilder::service) of the fake parent; `None` when none
    /// comes.
    pub fn accept(&self, service: &str) -> Option<Peer<'rt>> {
        let mut end = None;
        self.place.until(Time::Stands, || {
            let mut state = self.settings.hub.state.lock();
            end = state.arrived.get_mut(service).and_then(std::collections::VecDeque::pop_front);
            end.is_some()
        });
        end.map(|end| Peer::new(end, self.place, format!("service `{service}` of the parent of `{}`", self.name())))
    }

    /// Connects the fake child on the node of this name to a service that the driver offers there.
    ///
    /// # Errors
    /// `NotFound`: no [fake child](HarnessBuilder::children) comes to be bound to such a node, or the driver offers no
    /// such service. `Unavailable`, `Canceled`, `BadState`: it is being stopped.
    pub fn connect_child(&self, node: &str, service: &str) -> Result<Peer<'rt>, Status> {
        let hub = &self.settings.hub;
        self.place.until(Time::Stands, || hub.state.lock().children.contains_key(node));
        let (cx, number) = {
            let mut state = hub.state.lock();
            state.attempts += 1;
            (state.children.get(node).cloned().ok_or(Status::NotFound)?, state.attempts)
        };
        let (connecting, wanted, told) = (cx.clone(), service.to_owned(), Arc::clone(hub));
        let connected = async move {
            let end = connecting.node().connect(&wanted).await;
            told.state.lock().connected.insert(number, end);
        };
        cx.dispatcher().spawn(connected).map_err(|refused| refused.status())?;
        let mut end = None;
        self.place.until(Time::Stands, || {
            end = hub.state.lock().connected.remove(&number);
            end.is_some()
        });
        let end = end.unwrap_or(Err(Status::Canceled))?;
        Ok(Peer::new(end, self.place, format!("service `{service}` of `{}` at node `{node}`", self.name())))
    }

    /// Connects to the first address that the driver has published.
    ///
    /// # Errors
    /// `NotFound` when there is none; else those of a connection.
    pub fn connect(&self) -> io::Result<Socket<'rt>> {
        let addresses = self.addresses();
        let address = addresses.first().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        self.connect_to(address)
    }

    /// Connects to an address, with whatever stands before `://` and after the port.
    ///
    /// # Errors
    /// Those of a connection.
    pub fn connect_to(&self, address: &str) -> io::Result<Socket<'rt>> {
        Socket::connect(self.place, address)
    }

    /// Begins to stop the driver and does not wait for it.
    pub fn begin_stop(&self) {
        self.host().begin_stop();
    }

    /// What begins to stop the driver when it is called, for where the test has no harness, such as an injected stop.
    pub fn stopper(&self) -> impl Fn() + Send + Sync + Clone + 'static {
        let host = self.host.as_ref().map(Arc::downgrade);
        move || {
            if let Some(host) = host.as_ref().and_then(std::sync::Weak::upgrade) {
                host.begin_stop();
            }
        }
    }

    /// Stops the driver: its children, `prepare_stop`, its dispatchers, `stop`. Then all of its callbacks must be
    /// accounted for. Tells what became of it.
    ///
    /// # Errors
    /// [`Problem::NotStopped`] with who waits for what, [`Problem::Failed`] when a hook or a callback failed or the driver
    /// gave up, now or before, [`Problem::Unaccounted`].
    pub fn stop(mut self) -> Result<DriverSummary, Problem> {
        self.end()
    }

    /// Stops the driver and starts it once more, in the same place and with the same settings.
    ///
    /// # Errors
    /// Those of [`stop`](Harness::stop) and of [`HarnessBuilder::start`].
    pub fn restart(mut self) -> Result<Harness<'rt>, Problem> {
        self.end()?;
        Harness::start(Arc::clone(&self.settings), self.place)
    }

    fn end(&mut self) -> Result<DriverSummary, Problem> {
        let driver = self.name();
        let Some(host) = self.host.take() else {
            return Err(Problem::NotStopped { driver, report: "it was stopped before".to_owned() });
        };
        host.begin_stop();
        self.place.until(Time::Passes, || host.state() == HostState::Stopped);
        self.settings.hub.forget();
        self.place.settle();
        // On a foreground runtime nothing is left to be waited for.
        let patience = if matches!(self.place, Place::Threads) { Duration::from_secs(10) } else { Duration::ZERO };
        let summary = match host.stop(patience) {
            Ok(summary) => summary,
            Err(stuck) => {
                let waiting: String = stuck.waiting().iter().map(|waiting| format!("{waiting}\n")).collect();
                let left = match self.place {
                    Place::Foreground(runtime) => runtime.pending(),
                    Place::Threads => stuck.dump().stuck(),
                };
                return Err(Problem::NotStopped { driver, report: format!("{waiting}{left}").trim_end().to_owned() });
            }
        };
        let own = summary.drivers().iter().find(|summary| summary.driver() == driver).cloned();
        let failed = self.failures.lock().iter().find(|(failed, _)| *failed == driver).cloned();
        match (own, failed) {
            (_, Some((_, failure))) => Err(Problem::Failed { driver, reason: failure.to_string() }),
            (None, None) => Err(Problem::NotStopped { driver, report: "it never ran".to_owned() }),
            (Some(own), None) => match own.counters() {
                counters if counters.add_up() && counters.pending == 0 => Ok(own),
                counters => Err(Problem::Unaccounted { driver, counters: format!("{counters:?}") }),
            },
        }
    }
}

impl Drop for Harness<'_> {
    fn drop(&mut self) {
        if self.host.is_none() || std::thread::panicking() {
            return;
        }
        if let Err(problem) = self.end() {
            panic!("a harness was dropped without `stop`, and {problem}");
        }
    }
}

impl fmt::Debug for Harness<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness").field("driver", &self.name()).field("place", &self.place).finish_non_exhaustive()
    }
}
