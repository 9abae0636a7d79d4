//! Everything on standard error: log lines through `tracing`, and mistakes in a manifest.
//!
//! What is logged is decided by the first of: `--log`, `RUST_LOG`, the manifest, `info`. Standard error may be closed
//! or full; neither may end the program, so failed writes are ignored. And nobody may read it, which must hold up nothing
//! (`log_writer`).

use std::io::IsTerminal;

use fuchsine_host::control::LogRing;
use fuchsine_host::{Diagnostic, LogFormat, LogSettings, ManifestError, log_panics};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args::{Format, LogOptions};
use crate::log_layer::RingLayer;
use crate::log_writer::{self, LogThread};
use crate::output::plain;

/// Starts the log, once in the life of the process, and puts its lines into `ring` too. It ends, with its last lines written, when what this gives is dropped.
#[must_use = "the log ends when this is dropped"]
pub(crate) fn start(options: &LogOptions, manifest: &LogSettings, ring: Option<LogRing>) -> Option<LogThread> {
    let environment = std::env::var("RUST_LOG").ok().filter(|filter| !filter.trim().is_empty());
    let (filter, refused) = choose(options.log.as_deref(), environment.as_deref(), manifest.level.as_deref());
    let (writer, thread) = match log_writer::start(std::io::stderr()) {
        Ok((writer, thread)) => (BoxMakeWriter::new(writer), Some(thread)),
        // Without a thread to spare, whoever logs writes.
        Err(_) => (BoxMakeWriter::new(std::io::stderr), None),
    };
    let lines = tracing_subscriber::fmt::layer().with_writer(writer).log_internal_errors(false);
    let all = tracing_subscriber::registry().with(filter).with(ring.map(RingLayer));
    match format(options, manifest) {
        Format::Text => all.with(lines.with_ansi(colours()).with_target(false)).init(),
        Format::Json => all.with(lines.json().flatten_event(true).with_ansi(false)).init(),
    }
    if let Some(error) = refused {
        tracing::warn!(%error, "RUST_LOG is ignored");
    }
    log_panics();
    thread
}

/// Tells what is wrong with a manifest or a setting.
pub(crate) fn report(error: &ManifestError, options: &LogOptions) {
    if options.log_format != Some(Format::Json) {
        use std::io::Write;
        // A closed standard error leaves nobody to tell.
        let _ = writeln!(std::io::stderr(), "{}", plain(&error.render()));
        return;
    }
    let _log = start(options, &LogSettings::default(), None);
    error.diagnostics().iter().for_each(as_event);
}

/// Tells what is probably not meant in a manifest that can be run.
pub(crate) fn report_warnings(warnings: &[Diagnostic], options: &LogOptions) {
    if warnings.is_empty() {
        return;
    }
    if options.log_format != Some(Format::Json) {
        use std::io::Write;
        let shown = warnings.iter().map(Diagnostic::render).collect::<Vec<_>>().join("\n\n");
        // A closed standard error leaves nobody to tell.
        let _ = writeln!(std::io::stderr(), "{}", plain(&shown));
        return;
    }
    let _log = start(options, &LogSettings::default(), None);
    warnings.iter().for_each(as_event);
}

/// Writes a diagnostic to the log.
pub(crate) fn as_event(diagnostic: &Diagnostic) {
    let help = diagnostic.helps().join("; ");
    let message = diagnostic.message();
    match (diagnostic.place(), diagnostic.is_warning()) {
        (Some(place), is_warning) => {
            let (file, line, column) = (place.source(), place.line(), place.column());
            match is_warning {
                true => tracing::warn!(%file, line, column, help, "{message}"),
                false => tracing::error!(%file, line, column, help, "{message}"),
            }
        }
        (None, _) => tracing::error!(help, "{message}"),
    }
}

/// The filter, and what was wrong with the one of the environment. The others have been checked before.
fn choose(option: Option<&str>, environment: Option<&str>, manifest: Option<&str>) -> (EnvFilter, Option<ParseError>) {
    let parse = |text: &str| EnvFilter::builder().parse(text);
    let fallback = || parse(manifest.unwrap_or("info")).unwrap_or_default();
    match (option, environment) {
        (Some(option), _) => (parse(option).unwrap_or_default(), None),
        (None, Some(environment)) => match parse(environment) {
            Ok(filter) => (filter, None),
            Err(error) => (fallback(), Some(error)),
        },
        (None, None) => (fallback(), None),
    }
}

fn format(options: &LogOptions, manifest: &LogSettings) -> Format {
    options.log_format.unwrap_or(match manifest.format {
        Some(LogFormat::Json) => Format::Json,
        _ => Format::Text,
    })
}

/// Colours are for terminals, and not for people who do not want them (<https://no-color.org>).
fn colours() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && std::io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(option: Option<&str>, environment: Option<&str>, manifest: Option<&str>) -> String {
        choose(option, environment, manifest).0.to_string()
    }

    #[test]
    fn the_option_wins_over_the_environment_and_that_over_the_manifest() {
        assert_eq!(chosen(Some("error"), Some("debug"), Some("trace")), "error");
        assert_eq!(chosen(None, Some("debug"), Some("trace")), "debug");
        assert_eq!(chosen(None, None, Some("trace")), "trace");
        assert_eq!(chosen(None, None, None), "info");
    }

    #[test]
    fn an_environment_that_makes_no_sense_is_told_and_ignored() {
        let (filter, refused) = choose(None, Some("nbd=loud"), Some("warn"));
        assert_eq!(filter.to_string(), "warn");
        assert!(refused.is_some());
    }
}
