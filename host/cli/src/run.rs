//! `fuchsine run`: from the manifest to the ready line, and from a signal to the summary.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use fuchsine_host::control::{ControlPlace, ControlServer, LogRing};
use fuchsine_host::{Host, HostEvent, Manifest, StopError, Summary};

use crate::args::{Format, LogOptions, RunOptions};
use crate::check::{Prepared, prepare};
use crate::dump_signal::DumpOnSignal;
use crate::exit::Exit;
use crate::reloading::Reloading;
use crate::service::Service;
use crate::signals::Signals;
use crate::{discovery, driver_process, logging, output};

/// Runs until a signal comes, or until drivers fail.
pub(crate) fn run(options: &RunOptions, log: &LogOptions) -> Exit {
    let path = discovery::manifest(options.manifest.as_deref());
    let prepared = match prepare(path.as_deref(), &options.settings) {
        Ok(prepared) => prepared,
        Err(error) => {
            logging::report(&error, log);
            return Exit::ConfigInvalid;
        }
    };
    let ring = LogRing::new();
    let log = logging::start(log, prepared.manifest.log(), Some(ring.clone()));
    prepared.plan.warnings().iter().for_each(logging::as_event);
    if let (None, Some(path)) = (&options.manifest, &path) {
        tracing::info!(manifest = %path.display(), "a manifest was found");
    }
    let mut signals = Signals::install();
    let exit = match &mut signals {
        Ok(signals) => serve(prepared, path, signals, options, ring),
        Err(error) => {
            tracing::error!(%error, "signals cannot be taken over");
            Exit::Failed
        }
    };
    // While the signals are ours: one more of them ends the wait for somebody who reads the last lines.
    drop(log);
    exit
}

fn serve(
    prepared: Prepared,
    path: Option<PathBuf>,
    signals: &mut Signals,
    options: &RunOptions,
    ring: LogRing,
) -> Exit {
    let Prepared { manifest, plan } = prepared;
    let dumps = options.dump_on_signal;
    let (sender, events) = mpsc::channel();
    let bell = signals.bell();
    let host = Host::builder(plan).observer(move |event| {
        // Nobody listens any more once the stop is waited for.
        let _ = sender.send(event);
        bell.ring();
    });
    let host = match host.driver_process(driver_process::command).build() {
        Ok(host) => host,
        Err(error) => {
            tracing::error!("{error}");
            return Exit::Failed;
        }
    };
    let host = Arc::new(host);
    let dumped = Arc::clone(&host);
    let dump = move || match dumps {
        Format::Text => dumped.dump().to_string(),
        Format::Json => dumped.dump().to_json() + "\n",
    };
    let _dumps = match DumpOnSignal::install(dump, io::stderr()) {
        Ok(dumps) => dumps,
        Err(error) => {
            tracing::error!(%error, "the signal for dumps cannot be taken over");
            return Exit::Failed;
        }
    };
    let place = control_place(options, path.as_deref(), &manifest);
    let service = Service::of_environment();
    let reloading = Arc::new(Reloading::new(Arc::clone(&host), path, &options.settings, manifest, service.clone()));
    let control = match place.map(|place| listen(&host, &reloading, ring, &place)) {
        Some(Err(exit)) => return exit,
        Some(Ok(control)) => control,
        None => None,
    };
    // Fed from the beginning: a start may take longer than a watchdog waits.
    let _fed = service.feed(&host);
    host.start();
    wait_for_the_end(signals, &events, &service, || {
        // What is wrong with it is in the log.
        let _ = reloading.reload();
    });
    service.stopping(reloading.stop_timeout());
    let exit = end(&host, reloading.stop_timeout());
    // Until here it can be asked what it is that does not stop.
    drop(control);
    exit
}

/// Where the control socket is to be, if there is to be one: what was said last counts.
fn control_place(options: &RunOptions, path: Option<&Path>, manifest: &Manifest) -> Option<ControlPlace> {
    if options.no_control {
        return None;
    }
    if let Some(path) = &options.control {
        return Some(ControlPlace::at(path));
    }
    let named = ControlPlace::of_environment().map(Some).or_else(|| manifest.control());
    match named {
        Some(place) => place.filter(|place| !place.is_none()),
        None => {
            let name = path.and_then(Path::file_stem).map(|name| name.to_string_lossy());
            let place = ControlPlace::usual(name.as_deref().unwrap_or("default"));
            if place.is_none() {
                tracing::info!(
                    "there is no control socket, as XDG_RUNTIME_DIR is not set; --control names a place for it"
                );
            }
            place
        }
    }
}

/// Serves the control socket. A host that was not told where it is to be goes on without one.
fn listen(
    host: &Arc<Host>,
    reloading: &Arc<Reloading>,
    ring: LogRing,
    place: &ControlPlace,
) -> Result<Option<ControlServer>, Exit> {
    let (reload, load) = (Arc::clone(reloading), Arc::clone(reloading));
    let server = ControlServer::builder(Arc::clone(host)).logs(ring);
    let server = server.load(move |request| load.addition(request));
    let server = if reload.can_reload() { server.reload(move || reload.reload()) } else { server };
    match server.serve(place) {
        Ok(server) => {
            tracing::debug!(path = %server.path().display(), "the control socket is there");
            Ok(Some(server))
        }
        Err(error) if place.is_given() => {
            tracing::error!("{error}");
            Err(Exit::Failed)
        }
        Err(error) => {
            tracing::warn!("{error}; this host has none (--control names another place, --no-control does without)");
            Ok(None)
        }
    }
}

/// Stops the host and tells what became of its drivers.
fn end(host: &Host, timeout: Duration) -> Exit {
    match host.stop(timeout) {
        Ok(summary) => {
            tell(&summary);
            let stop_ms = milliseconds(summary.took());
            tracing::info!(drivers = summary.drivers().len(), stop_ms, "all drivers have stopped");
            if summary.has_failed() { Exit::Failed } else { Exit::Done }
        }
        Err(error) => {
            tell_stuck(&error);
            // Threads that are stuck are not waited for: they end with the process.
            Exit::StopDeadlinePassed
        }
    }
}

/// Writes the ready line when it is due, and returns when the host is to stop or stops by itself.
fn wait_for_the_end(
    signals: &mut Signals,
    events: &mpsc::Receiver<HostEvent>,
    service: &Service,
    mut reload: impl FnMut(),
) {
    loop {
        for event in events.try_iter() {
            match event {
                HostEvent::Started { addresses } => {
                    let line = ready_line(&addresses);
                    service.ready(line.trim_end());
                    if let Err(error) = output::write(&line) {
                        tracing::warn!(%error, "the ready line cannot be written on the standard output");
                    }
                }
                HostEvent::Stopping | HostEvent::Stopped => return,
                // The host has logged it.
                _ => {}
            }
        }
        if signals.came() {
            tracing::info!("stopping; another signal ends the program at once");
            return;
        }
        if signals.reload_was_asked() {
            reload();
        }
        signals.wait();
    }
}

fn ready_line(addresses: &[String]) -> String {
    let addresses = addresses.iter().map(|address| format!(" {address}")).collect::<String>();
    format!("ready:{addresses}\n")
}

fn tell(summary: &Summary) {
    for driver in summary.drivers() {
        let numbers = driver.counters();
        tracing::info!(
            driver = driver.driver(),
            node = driver.node(),
            accepted = numbers.accepted,
            ran = numbers.ran,
            canceled = numbers.canceled,
            taken_back = numbers.taken_back,
            pending = numbers.pending,
            refused = numbers.refused,
            stop_ms = milliseconds(driver.stop_took()),
            "stopped"
        );
    }
}

fn tell_stuck(error: &StopError) {
    tell(error.summary());
    tracing::error!("the stop deadline has passed");
    for waiting in error.waiting() {
        tracing::error!(
            driver = waiting.driver(),
            node = waiting.node(),
            "has not stopped: the host waits for {}",
            waiting.phase().waits_for()
        );
    }
    for line in error.dump().stuck().lines() {
        tracing::error!("{line}");
    }
}

/// With three digits behind the point: what is quick is told apart too.
fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::{Arc, Mutex};

    use fuchsine_driver::{Driver, DriverContext, DriverEntry, StartError, Status, StopError, blocking};
    use fuchsine_host::{Registry, Source};

    use super::*;

    #[test]
    fn the_ready_line_has_the_addresses_separated_by_spaces() {
        assert_eq!(ready_line(&["nbd://a:1/x".to_owned(), "y://b".to_owned()]), "ready: nbd://a:1/x y://b\n");
        assert_eq!(ready_line(&[]), "ready:\n");
    }

    macro_rules! driver {
        ($entry:ident, $name:ident, $text:literal, start: $start:expr, stop: $stop:expr) => {
            struct $name;
            impl Driver for $name {
                const NAME: &'static str = $text;
                async fn start(_: DriverContext) -> Result<Self, StartError> {
                    $start
                }
                async fn stop(self) -> Result<(), StopError> {
                    $stop
                }
            }
            static $entry: DriverEntry = DriverEntry::of::<$name>();
        };
    }

    driver!(FINE, Fine, "fine", start: Ok(Fine), stop: Ok(()));
    driver!(UNABLE, Unable, "unable", start: Err(StartError::new(Status::Io, "no such device")), stop: Ok(()));
    driver!(WAITS, Waits, "waits", start: Ok(Waits), stop: pending().await);
    driver!(BLOCKS, Blocks, "blocks", start: Ok(Blocks), stop: {
        // Parked for ever, on a thread that the process takes along when it ends.
        let parked = blocking(|| loop { std::thread::park() });
        parked.map_err(|error| StopError::new(error.status(), "refused"))
    });

    /// How a run of these drivers ends, and what is logged.
    fn run_and_end(drivers: &[&'static DriverEntry], stop_timeout: Duration) -> (Exit, String) {
        let manifest: String = drivers.iter().map(|driver| format!("[drivers.{}]\n", driver.name())).collect();
        let manifest = Manifest::parse(Source::named("test", manifest)).unwrap();
        let plan = manifest.plan(&Registry::new(drivers.iter().copied()).unwrap()).unwrap();
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).without_time().with_writer({
            let log = log.clone();
            move || log.clone()
        });
        let exit = tracing::subscriber::with_default(subscriber.finish(), || {
            let host = Host::builder(plan).build().unwrap();
            host.start();
            // Whether they all start does not matter here; either way the start is over then.
            let _ = host.wait_started(Duration::from_secs(60));
            end(&host, stop_timeout)
        });
        let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        (exit, text)
    }

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn drivers_that_stop_give_a_summary_and_success() {
        let (exit, log) = run_and_end(&[&FINE], LONG);
        assert_eq!(exit, Exit::Done);
        assert!(log.contains("stopped driver=\"fine\" node=\"/fine\" accepted="), "{log}");
    }

    #[test]
    fn a_driver_that_cannot_start_is_a_failure_and_the_others_still_get_their_summary() {
        let (exit, log) = run_and_end(&[&FINE, &UNABLE], LONG);
        assert_eq!(exit, Exit::Failed);
        assert!(log.contains("stopped driver=\"fine\""), "{log}");
    }

    #[test]
    fn a_driver_that_does_not_stop_is_named_with_what_it_is_stuck_in() {
        // The deadline may be short: what never ends is not waited for any longer.
        for (entry, name) in [(&WAITS, "waits"), (&BLOCKS, "blocks")] {
            let (exit, log) = run_and_end(&[&FINE, entry], Duration::from_millis(300));
            assert_eq!(exit, Exit::StopDeadlinePassed);
            let named = format!("has not stopped: the host waits for its stop to end driver=\"{name}\"");
            assert!(log.contains(&named), "{log}");
            assert!(log.contains("dispatcher") && log.contains(&format!("{name} (stop)")), "{log}");
        }
        let (_, log) = run_and_end(&[&BLOCKS], Duration::from_millis(300));
        assert!(log.contains("running on"), "the thread is named: {log}");
    }
}
