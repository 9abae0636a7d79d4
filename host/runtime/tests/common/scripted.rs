//! Drivers whose `start` is a closure of the test.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use fuchsine_driver::{Driver, DriverContext, DriverEntry, StartError, Status};
use fuchsine_host::Host;

use super::World;

type Scenario = Box<dyn FnOnce(DriverContext) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

static SCENARIOS: OnceLock<Mutex<HashMap<String, Scenario>>> = OnceLock::new();

fn scenarios() -> MutexGuard<'static, HashMap<String, Scenario>> {
    SCENARIOS.get_or_init(Mutex::default).lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A driver that runs the scenario of its instance's name in `start`, and again nothing until its end.
struct Scripted {
    _cx: DriverContext,
}

impl Driver for Scripted {
    const NAME: &'static str = "scripted";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let scenario = scenarios().remove(&cx.name());
        let scenario = scenario.ok_or_else(|| StartError::new(Status::NotFound, "no scenario of that name"))?;
        scenario(cx.clone()).await;
        Ok(Scripted { _cx: cx })
    }
}

static SCRIPTED: DriverEntry = DriverEntry::of::<Scripted>();

/// The driver that runs scenarios.
pub(crate) fn scripted_entry() -> &'static DriverEntry {
    &SCRIPTED
}

/// One driver of a test: what it binds to, and what it does in `start`.
pub(crate) struct Role {
    name: String,
    kind: Option<&'static str>,
}

/// A driver with a node of its own. Names are unique among all tests of a binary.
pub(crate) fn role<F>(name: impl Into<String>, scenario: impl FnOnce(DriverContext) -> F + Send + 'static) -> Role
where
    F: Future<Output = ()> + Send + 'static,
{
    let name = name.into();
    scenarios().insert(name.clone(), Box::new(move |cx| Box::pin(scenario(cx))));
    Role { name, kind: None }
}

impl Role {
    /// Binds it to nodes with this `kind` instead.
    pub(crate) fn on(mut self, kind: &'static str) -> Role {
        self.kind = Some(kind);
        self
    }
}

impl World {
    /// A host that has begun to start these drivers.
    pub(crate) fn play(&self, roles: Vec<Role>) -> Host {
        let manifest: String = roles
            .iter()
            .map(|role| {
                let bind = role.kind.map(|kind| format!("bind = {{ kind = {kind:?} }}\n")).unwrap_or_default();
                format!("[drivers.{}]\ndriver = \"scripted\"\n{bind}", role.name)
            })
            .collect();
        self.host_of(&[&SCRIPTED], &manifest)
    }

    /// Plays the scenarios to their ends, then stops the host; no driver may fail.
    #[track_caller]
    pub(crate) fn play_through(&self, roles: Vec<Role>) {
        let host = self.play(roles);
        if let Err(error) = self.started(&host) {
            panic!("{error}");
        }
        let summary = self.stop(&host);
        assert_eq!(super::failures(&summary), []);
    }

    /// A name for a driver of this test in this world.
    pub(crate) fn name(&self, test: &str) -> String {
        match self {
            World::Threads => format!("{test}-threads"),
            World::Foreground(_) => format!("{test}-foreground"),
        }
    }
}

/// Something that two sides of a test write down in.
pub(crate) type Notes = Arc<Mutex<Vec<String>>>;

/// Writes a line.
pub(crate) fn jot(notes: &Notes, line: impl Into<String>) {
    notes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(line.into());
}

/// The lines.
pub(crate) fn lines(notes: &Notes) -> Vec<String> {
    notes.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
}

/// Writes a line when it is dropped.
pub(crate) struct Dropped(pub(crate) Notes, pub(crate) &'static str);

impl Drop for Dropped {
    fn drop(&mut self) {
        jot(&self.0, format!("{} dropped", self.1));
    }
}
