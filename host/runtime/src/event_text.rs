//! Events of `tracing` as texts, for logs that are kept or sent on, and panics as such events.

use std::fmt::{Debug, Write};

use tracing::Event;
use tracing::field::{Field, Visit};

/// What an event says.
#[derive(Debug, Default)]
pub(crate) struct EventText {
    /// The sentence.
    pub(crate) message: String,
    /// The driver that it is about, by its name in the manifest.
    pub(crate) driver: Option<String>,
    /// All other fields, in the order in which they were given.
    pub(crate) fields: Vec<(String, String)>,
}

impl EventText {
    /// Takes an event apart.
    pub(crate) fn of(event: &Event<'_>) -> EventText {
        let mut text = EventText::default();
        event.record(&mut text);
        text
    }

    fn put(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            "driver" => self.driver = Some(value),
            name => self.fields.push((name.to_owned(), value)),
        }
    }
}

impl Visit for EventText {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        // A `Debug` that fails leaves what it has written.
        let _ = write!(text, "{value:?}");
        self.put(field, text);
    }
}

/// Has panics of this process logged like everything else, instead of written to the standard error. What becomes of a
/// driver that panicked is its host's business.
///
/// It replaces the panic hook of the process.
///
/// # Examples
/// ```
/// fuchsine_host::log_panics();
/// assert!(std::thread::spawn(|| panic!("this is an event of `tracing` now")).join().is_err());
/// ```
pub fn log_panics() {
    std::panic::set_hook(Box::new(|info| {
        let message = info.payload_as_str().unwrap_or("(no text)");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let thread = std::thread::current();
        tracing::error!(thread = thread.name().unwrap_or("?"), place, "panic: {message}");
        let backtrace = std::backtrace::Backtrace::capture();
        if backtrace.status() == std::backtrace::BacktraceStatus::Captured {
            tracing::error!("backtrace of the panic:\n{backtrace}");
        }
    }));
}
