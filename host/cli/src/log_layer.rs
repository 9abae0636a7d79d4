//! The way of log lines to those who follow them over the control socket.

use fuchsine_host::control::{LogRecord, LogRing};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// Puts each line into a ring.
#[derive(Debug)]
pub(crate) struct RingLayer(pub(crate) LogRing);

impl<S: Subscriber> Layer<S> for RingLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.push(LogRecord::of(event));
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
