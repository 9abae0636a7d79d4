//! Reading the manifest again, by SIGHUP or by request: one at a time, so that what was read last counts.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fuchsine_host::control::Load;
use fuchsine_host::{Change, Host, Manifest, ManifestError, PlannedDriver};

use crate::args::Settings;
use crate::check::{Prepared, prepare};
use crate::service::Service;
use crate::{built_in, logging};

/// What a host runs, and where that was read.
pub(crate) struct Reloading {
    host: Arc<Host>,
    path: Option<PathBuf>,
    settings: Settings,
    service: Service,
    read: Mutex<Read>,
}

/// What was read last.
struct Read {
    manifest: Manifest,
    stop_timeout: Duration,
}

impl Reloading {
    pub(crate) fn new(
        host: Arc<Host>,
        path: Option<PathBuf>,
        settings: &Settings,
        manifest: Manifest,
        service: Service,
    ) -> Reloading {
        let settings = settings.clone();
        let stop_timeout = manifest.stop_timeout();
        Reloading { host, path, settings, service, read: Mutex::new(Read { manifest, stop_timeout }) }
    }

    /// The time that a stop may take.
    pub(crate) fn stop_timeout(&self) -> Duration {
        self.read().stop_timeout
    }

    /// Whether there is a file to read again.
    pub(crate) fn can_reload(&self) -> bool {
        self.path.is_some()
    }

    /// Reads the manifest again and applies what is different. What cannot be run changes nothing.
    ///
    /// # Errors
    /// Why nothing was changed, which is in the log too.
    pub(crate) fn reload(&self) -> Result<Vec<Change>, String> {
        let Some(path) = self.path.as_deref() else {
            let message = "there is nothing to read again: the host runs the built-in manifest";
            tracing::info!("{message}");
            return Err(message.to_owned());
        };
        let mut read = self.read();
        self.service.reloading();
        let changes = self.apply(path, &mut read);
        self.service.ready(match &changes {
            Ok(_) => "running",
            Err(_) => "running; the manifest that was read last cannot be run",
        });
        changes
    }

    fn apply(&self, path: &Path, read: &mut Read) -> Result<Vec<Change>, String> {
        let Prepared { manifest, plan } = prepare(Some(path), &self.settings).map_err(|error| refuse(&error))?;
        plan.warnings().iter().for_each(logging::as_event);
        let stop_timeout = plan.stop_timeout();
        let changes = self.host.reload(plan).map_err(|error| {
            tracing::error!("the manifest is not taken over: {error}");
            error.to_string()
        })?;
        *read = Read { manifest, stop_timeout };
        changes.iter().for_each(|change| tracing::info!("{change}"));
        tracing::info!(changes = changes.len(), "the manifest was read again");
        Ok(changes)
    }

    /// The driver that a request asks for.
    pub(crate) fn addition(&self, load: &Load) -> Result<PlannedDriver, ManifestError> {
        let name = load.name.as_deref().or(load.driver.as_deref()).unwrap_or_default();
        let module = load.module.as_deref().map(Path::new);
        // Loading a module may take long, and others may have the manifest read again meanwhile.
        let manifest = self.read().manifest.clone();
        manifest.addition(name, load.driver.as_deref(), module, &load.set, &built_in::registry())
    }

    fn read(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refuse(error: &ManifestError) -> String {
    error.diagnostics().iter().for_each(logging::as_event);
    tracing::error!("the manifest was read again and cannot be run; the host goes on as it is");
    error.render()
}
