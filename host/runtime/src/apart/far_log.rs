//! The log of a child: each event is one packet to the host, sent by whoever logs, so that the last one before a crash is
//! there.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::protocol::{LogRecord, encode};
use crate::event_text::{EventText, log_panics};
use crate::process::packet::PACKET;
use crate::process::packets::{Packets, Sent};

/// What is left of a message that makes its record too long.
const CUT: usize = 4 << 10;

struct FarLog {
    socket: Packets,
    level: LevelFilter,
    spans: AtomicU64,
    /// How many lines the host did not take in time.
    lost: AtomicU64,
}

/// Has all events and panics go to the host from here on.
pub(super) fn start(socket: OwnedFd, level: &str) {
    let level = level.parse().unwrap_or(LevelFilter::INFO);
    let log = FarLog { socket: Packets::new(socket), level, spans: AtomicU64::new(1), lost: AtomicU64::new(0) };
    // Fails only if there is one, which then has the events.
    let _ = tracing::subscriber::set_global_default(log);
    log_panics();
}

impl Subscriber for FarLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // What the host of a session has to say, the other one says.
        let is_told_there =
            ["fuchsine_host::host", "fuchsine_host::supervisor"].iter().any(|part| metadata.target().starts_with(part));
        *metadata.level() <= self.level && !is_told_there
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        // ORDERING: Relaxed; each number is another one.
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed).max(1))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        // ORDERING: Relaxed; a count that is told some time.
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 && !self.send(&record("WARN", "fuchsine", format!("{lost} lines of the log are lost"))) {
            // ORDERING: Relaxed; as above.
            self.lost.fetch_add(lost, Ordering::Relaxed);
        }
        let EventText { message, driver, fields } = EventText::of(event);
        let metadata = event.metadata();
        if !self.send(&LogRecord { driver, fields, ..record(metadata.level().as_str(), metadata.target(), message) }) {
            // ORDERING: Relaxed; as above.
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn record(level: &str, target: &str, message: String) -> LogRecord {
    LogRecord { level: level.to_owned(), driver: None, target: target.to_owned(), message, fields: Vec::new() }
}

impl FarLog {
    /// Whether the host gets it.
    fn send(&self, record: &LogRecord) -> bool {
        let mut bytes = encode(record);
        if bytes.len() > PACKET {
            let message = record.message.chars().take(CUT).collect::<String>() + "…";
            bytes = encode(&LogRecord {
                level: record.level.clone(),
                driver: record.driver.clone(),
                target: String::from("fuchsine"),
                message,
                fields: Vec::new(),
            });
        }
        matches!(self.socket.send(&bytes, &[], &[]), Ok(Sent::Yes))
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocol::decode;
    use super::*;
    use crate::process::packets::Received;
    use crate::process::socket_pair;

    #[test]
    fn an_event_is_one_packet_and_a_long_one_is_cut() {
        let (ours, theirs) = socket_pair().unwrap();
        let log = FarLog {
            socket: Packets::new(theirs),
            level: LevelFilter::INFO,
            spans: AtomicU64::new(1),
            lost: AtomicU64::new(2),
        };
        tracing::subscriber::with_default(log, || {
            tracing::warn!(driver = "disk", sectors = 7, "is warm");
            tracing::debug!("not wanted");
            tracing::info!(target: "fuchsine_host::host::actions", "told by the host");
            tracing::info!("{}", "x".repeat(PACKET));
        });
        let ours = Packets::new(ours);
        let mut heard = Vec::new();
        let mut packet = vec![0; PACKET];
        while let Ok(Received::Packet(length, _)) = ours.receive(&mut packet) {
            heard.push(decode::<LogRecord>(&packet[..length]).unwrap());
        }
        let [lost, warm, long] = heard.as_slice() else { panic!("{heard:?}") };
        assert_eq!(lost.message, "2 lines of the log are lost");
        assert_eq!((warm.level.as_str(), warm.driver.as_deref(), &*warm.message), ("WARN", Some("disk"), "is warm"));
        assert_eq!(warm.fields, [("sectors".to_owned(), "7".to_owned())]);
        assert!(long.message.ends_with('…') && long.message.len() < PACKET);
    }
}
