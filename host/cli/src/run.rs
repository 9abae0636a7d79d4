//! `fuchsine run`: from the manifest to the ready line, and from a signal to the summary.

use std::sync::mpsc;

use fuchsine_host::{Host, HostEvent, StopError, Summary};

use crate::args::{LogOptions, RunOptions};
use crate::check::prepare;
use crate::exit::Exit;
use crate::signals::Signals;
use crate::{logging, output};

/// Runs until a signal comes, or until drivers fail.
pub(crate) fn run(options: &RunOptions, log: &LogOptions) -> Exit {
    let (plan, manifest_log) = match prepare(options.manifest.as_deref(), &options.settings) {
        Ok(prepared) => prepared,
        Err(error) => {
            logging::report(&error, log);
            return Exit::ConfigInvalid;
        }
    };
    logging::start(log, &manifest_log);
    let mut signals = match Signals::install() {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!(%error, "signals cannot be taken over");
            return Exit::DriverFailed;
        }
    };
    let stop_timeout = plan.stop_timeout();
    let (sender, events) = mpsc::channel();
    let bell = signals.bell();
    let host = Host::builder(plan).observer(move |event| {
        // Nobody listens any more once the stop is waited for.
        let _ = sender.send(event);
        bell.ring();
    });
    let host = match host.build() {
        Ok(host) => host,
        Err(error) => {
            tracing::error!("{error}");
            return Exit::DriverFailed;
        }
    };
    host.start();
    wait_for_the_end(&mut signals, &events);
    match host.stop(stop_timeout) {
        Ok(summary) => {
            tell(&summary);
            if summary.has_failed() { Exit::DriverFailed } else { Exit::Done }
        }
        Err(error) => {
            tell_stuck(&error);
            Exit::StopDeadlinePassed
        }
    }
}

/// Writes the ready line when it is due, and returns when the host is to stop or stops by itself.
fn wait_for_the_end(signals: &mut Signals, events: &mpsc::Receiver<HostEvent>) {
    loop {
        for event in events.try_iter() {
            match event {
                HostEvent::Started { addresses } => output::write(&ready_line(&addresses)),
                HostEvent::Stopping | HostEvent::Stopped => return,
                // The host has logged it.
                _ => {}
            }
        }
        if signals.came() {
            tracing::info!("stopping; another signal ends the program at once");
            return;
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
    tracing::info!(
        drivers = summary.drivers().len(),
        stop_ms = milliseconds(summary.took()),
        "all drivers have stopped"
    );
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
fn milliseconds(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 1_000_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_has_the_addresses_separated_by_spaces() {
        assert_eq!(ready_line(&["nbd://a:1/x".to_owned(), "y://b".to_owned()]), "ready: nbd://a:1/x y://b\n");
        assert_eq!(ready_line(&[]), "ready:\n");
    }
}
