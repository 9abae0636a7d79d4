//! A driver that does what its configuration says and writes down what happens to it, and the two worlds in which every
//! test is run: threads and real time, and the foreground runtime.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub(crate) mod scripted;

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use fuchsine_dispatcher::testing::ForegroundRuntime;
use fuchsine_driver::{
    Child, ChildNode, ConfigKey, ConfigKind, Driver, DriverContext, DriverEntry, StartError, Status, StopError, sleep,
};
use fuchsine_host::{Host, HostState, Manifest, NotStarted, Registry, Source, Summary};
use serde::Deserialize;

/// Long enough for any machine; a test that reaches it has failed.
pub(crate) const HANG_LIMIT: Duration = Duration::from_secs(60);

static JOURNALS: OnceLock<Mutex<HashMap<String, Vec<String>>>> = OnceLock::new();

fn journals() -> MutexGuard<'static, HashMap<String, Vec<String>>> {
    JOURNALS.get_or_init(Mutex::default).lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Writes a line into a journal.
pub(crate) fn note(journal: &str, line: String) {
    journals().entry(journal.to_owned()).or_default().push(line);
}

/// How often a line is in a journal.
pub(crate) fn count(journal: &str, line: &str) -> usize {
    journals().get(journal).map_or(0, |lines| lines.iter().filter(|found| *found == line).count())
}

/// Takes the lines of a journal.
pub(crate) fn journal(journal: &str) -> Vec<String> {
    journals().remove(journal).unwrap_or_default()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Behaviour {
    Ok,
    Fail,
    Panic,
    Hang,
    Later,
}

#[derive(Debug, Deserialize)]
struct Config {
    journal: String,
    start: Behaviour,
    prepare: Behaviour,
    stop: Behaviour,
    /// Where `start` does what it does: before or after it adds the child.
    child: Option<String>,
    /// What the driver does one second after its start.
    then: Option<String>,
    address: Option<String>,
}

/// See the head of the file.
pub(crate) struct Probe {
    cx: DriverContext,
    config: Config,
    _child: Option<Child>,
}

impl Probe {
    fn note(&self, what: &str) {
        note(&self.config.journal, format!("{} {what}", self.cx.name()));
    }

    fn then(&self, what: &str) {
        let (cx, journal, what) = (self.cx.clone(), self.config.journal.clone(), what.to_owned());
        let name = cx.name();
        let second = Duration::from_secs(1);
        let posted = self.cx.dispatcher().post_after(second, move |outcome| match (what.as_str(), outcome) {
            (_, Err(_)) => note(&journal, format!("{name} canceled")),
            ("panic", Ok(())) => panic!("{name} panics in a task"),
            ("fail", Ok(())) => cx.fail(Status::IoNotPresent, "the device is gone"),
            (child, Ok(())) => {
                cx.add_child(ChildNode::new("late").property("kind", child)).expect("a child can be added").detach();
            }
        });
        posted.expect("the driver is starting");
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.note("dropped");
    }
}

async fn behave(behaviour: Behaviour, what: &str) -> Result<(), String> {
    match behaviour {
        Behaviour::Ok => Ok(()),
        Behaviour::Fail => Err(format!("no luck in {what}")),
        Behaviour::Panic => panic!("a panic in {what}"),
        Behaviour::Hang => pending().await,
        Behaviour::Later => sleep(Duration::from_millis(1)).await.map_err(|status| status.to_string()),
    }
}

impl Driver for Probe {
    const NAME: &'static str = "probe";
    const CONFIG: &'static [ConfigKey] = &[
        ConfigKey::required("journal", ConfigKind::Text, "where to write what happens"),
        ConfigKey::optional("start", ConfigKind::Text, "ok", "what start does"),
        ConfigKey::optional("prepare", ConfigKind::Text, "ok", "what prepare_stop does"),
        ConfigKey::optional("stop", ConfigKind::Text, "ok", "what stop does"),
        ConfigKey::optional("child", ConfigKind::Text, "", "a child to add"),
        ConfigKey::optional("then", ConfigKind::Text, "", "panic, fail, or a child to add, after a second"),
        ConfigKey::optional("address", ConfigKind::Text, "", "an address to publish"),
    ];

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let config: Config = cx.config()?;
        note(&config.journal, format!("{} start", cx.name()));
        let child = match &config.child {
            Some(name) => Some(cx.add_child(ChildNode::new(name).property("kind", name))?),
            None => None,
        };
        behave(config.start, "start").await.map_err(|message| StartError::new(Status::Internal, message))?;
        if let Some(address) = &config.address {
            cx.publish_address(address)?;
        }
        let probe = Probe { cx, config, _child: child };
        if let Some(what) = &probe.config.then {
            probe.then(what);
        }
        Ok(probe)
    }

    async fn prepare_stop(&self) -> Result<(), StopError> {
        self.note("prepare_stop");
        behave(self.config.prepare, "prepare_stop").await.map_err(|message| StopError::new(Status::Internal, message))
    }

    async fn stop(self) -> Result<(), StopError> {
        self.note("stop");
        behave(self.config.stop, "stop").await.map_err(|message| StopError::new(Status::Internal, message))
    }
}

static PROBE: DriverEntry = DriverEntry::of::<Probe>();

/// The probe.
pub(crate) fn entry() -> &'static DriverEntry {
    &PROBE
}

/// One driver of a test: name, rule (`kind = …`, or none) and further configuration in TOML.
pub(crate) struct Part(pub(crate) &'static str, pub(crate) Option<&'static str>, pub(crate) &'static str);

/// A manifest of probes that write into `journal`.
pub(crate) fn manifest(journal: &str, parts: &[Part]) -> String {
    let part = |Part(name, kind, config): &Part| {
        let bind = kind.map(|kind| format!("bind = {{ kind = {kind:?} }}\n")).unwrap_or_default();
        format!(
            "[drivers.{name}]\ndriver = \"probe\"\n{bind}[drivers.{name}.config]\njournal = {journal:?}\n{config}\n"
        )
    };
    parts.iter().map(part).collect()
}

/// Where a test runs.
pub(crate) enum World {
    Threads,
    Foreground(ForegroundRuntime),
}

/// Both, for tests that hold in either.
pub(crate) fn worlds() -> [World; 2] {
    [World::Threads, World::Foreground(ForegroundRuntime::new())]
}

impl World {
    /// The name of the journal of `test` in this world.
    pub(crate) fn journal(&self, test: &str) -> String {
        match self {
            World::Threads => format!("{test} on threads"),
            World::Foreground(_) => format!("{test} in the foreground"),
        }
    }

    /// A host that has begun to start these drivers.
    pub(crate) fn host(&self, journal: &str, parts: &[Part]) -> Host {
        self.host_of(&[&PROBE], &manifest(journal, parts))
    }

    pub(crate) fn host_of(&self, drivers: &[&'static DriverEntry], manifest: &str) -> Host {
        let registry = Registry::new(drivers.iter().copied()).expect("the drivers are fine");
        let manifest = Manifest::parse(Source::named("test", manifest)).expect("the manifest is fine");
        let builder = Host::builder(manifest.plan(&registry).expect("the manifest fits"));
        let builder = match self {
            World::Threads => builder,
            World::Foreground(runtime) => builder.runtime((*runtime).clone()),
        };
        let host = builder.build().expect("a host can be had");
        host.start();
        host
    }

    /// Lets everything happen that is due.
    pub(crate) fn settle(&self) {
        if let World::Foreground(runtime) = self {
            runtime.run_until_idle();
        }
    }

    /// Waits until all drivers have started.
    pub(crate) fn started(&self, host: &Host) -> Result<Vec<String>, NotStarted> {
        match self {
            World::Threads => host.wait_started(HANG_LIMIT),
            World::Foreground(runtime) => {
                runtime.run_until_condition(|| host.state() != HostState::Starting);
                host.wait_started(Duration::ZERO)
            }
        }
    }

    /// Waits until a condition holds that the world will bring about.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        match self {
            World::Threads => {
                let deadline = std::time::Instant::now() + HANG_LIMIT;
                while !condition() {
                    assert!(std::time::Instant::now() < deadline, "it does not come about: {what}");
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            World::Foreground(runtime) => {
                assert!(runtime.run_until_condition(condition), "it does not come about: {what}");
            }
        }
    }

    /// Stops the host and checks that the numbers of every driver add up.
    #[track_caller]
    pub(crate) fn stop(&self, host: &Host) -> Summary {
        let summary = match self {
            World::Threads => host.stop(HANG_LIMIT).unwrap_or_else(|error| panic!("{error}")),
            World::Foreground(runtime) => {
                host.begin_stop();
                assert!(
                    runtime.run_until_condition(|| host.state() == HostState::Stopped),
                    "the host does not stop:\n{}",
                    host.dump()
                );
                host.summary()
            }
        };
        for driver in summary.drivers() {
            assert!(driver.counters().add_up(), "{driver:?}");
            assert_eq!(driver.counters().pending, 0, "{driver:?}");
        }
        summary
    }
}

/// How each driver failed, if any did, in the order in which they went.
pub(crate) fn failures(summary: &Summary) -> Vec<(&str, &str)> {
    summary.drivers().iter().filter_map(|driver| Some((driver.driver(), driver.failure()?))).collect()
}
