//! The way of log lines to those who follow them over the control socket.

use std::fmt::{Debug, Write};
use std::time::SystemTime;

use fuchsine_host::control::{LogRecord, LogRing};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Puts each line into a ring.
#[derive(Debug)]
pub(crate) struct RingLayer(pub(crate) LogRing);

impl<S: Subscriber> Layer<S> for RingLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut found = Found::default();
        event.record(&mut found);
        let Found { message, driver, fields } = found;
        let (level, target) = (*event.metadata().level(), event.metadata().target().to_owned());
        self.0.push(LogRecord { at: SystemTime::now(), level, target, driver, message, fields });
    }
}

#[derive(Default)]
struct Found {
    message: String,
    driver: Option<String>,
    fields: Vec<(String, String)>,
}

impl Found {
    fn put(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            "driver" => self.driver = Some(value),
            name => self.fields.push((name.to_owned(), value)),
        }
    }
}

impl Visit for Found {
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

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[test]
    fn a_line_is_taken_apart_into_message_driver_and_fields() {
        let ring = LogRing::new();
        let subscriber = tracing_subscriber::registry().with(RingLayer(ring.clone()));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(driver = "nbd", clients = 3, name = %"x y", "it {}", "serves");
        });
        let lines = ring.lines();
        let line = &lines[0];
        assert_eq!((line.message.as_str(), line.driver.as_deref()), ("it serves", Some("nbd")));
        let fields: Vec<_> = line.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(fields, ["clients=3", "name=x y"]);
    }
}
