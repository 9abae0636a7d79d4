//! The last log lines of a host, for those who want to follow them.
//!
//! Whoever logs puts a line in and never waits. Each reader has a place of its own in the sequence of all lines; what has
//! left the ring before it got there is lost to it, and counted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};
use tracing::{Event, Level};

use crate::event_text::EventText;

/// How many lines are kept.
const LINES: usize = 2048;
/// How many bytes of text are kept, in all lines together.
const BYTES: usize = 1 << 20;
/// How long a text of a line may be; the rest of it is cut off.
const MAX_TEXT: usize = 8 << 10;

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRecord {
    /// When it was logged.
    pub at: SystemTime,
    /// How much it matters.
    pub level: Level,
    /// The part of the program that logged it.
    pub target: String,
    /// The driver that it is about, by its name in the manifest.
    pub driver: Option<String>,
    /// The sentence.
    pub message: String,
    /// The fields, in the order in which they were given.
    pub fields: Vec<(String, String)>,
}

impl LogRecord {
    /// An event of `tracing` that happens now.
    pub fn of(event: &Event<'_>) -> LogRecord {
        let EventText { message, driver, fields } = EventText::of(event);
        let (level, target) = (*event.metadata().level(), event.metadata().target().to_owned());
        LogRecord { at: SystemTime::now(), level, target, driver, message, fields }
    }

    /// When it was logged, as RFC 3339 has it: `2026-12-01T14:42:09.123Z`.
    pub fn time(&self) -> String {
        let since = self.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (year, month, day) = date_of(days);
        let (hour, minute) = (second / 3600, second / 60 % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}.{:03}Z", second % 60, since.subsec_millis())
    }

    fn bytes(&self) -> usize {
        let fields = self.fields.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        self.target.len() + self.message.len() + self.driver.as_ref().map_or(0, String::len) + fields
    }
}

/// The date of a day after 1970-01-01, by the rule of 400 years of 146097 days that begin in March.
fn date_of(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (400 * era + year + u64::from(month <= 2), month, day)
}

/// The ring. Clones are the same one.
///
/// # Examples
/// ```
/// use fuchsine_host::control::{LogRecord, LogRing};
///
/// let ring = LogRing::new();
/// ring.push(LogRecord {
///     at: std::time::SystemTime::UNIX_EPOCH,
///     level: tracing::Level::INFO,
///     target: "disk".to_owned(),
///     driver: Some("disk".to_owned()),
///     message: "ready".to_owned(),
///     fields: Vec::new(),
/// });
/// assert_eq!(ring.len(), 1);
/// ```
#[derive(Debug, Clone, Default)]
pub struct LogRing(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    ring: Mutex<Ring>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<Arc<LogRecord>>,
    /// How many have left it.
    gone: u64,
    bytes: usize,
}

/// What a reader comes to next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Line(Arc<LogRecord>),
    /// So many lines have left the ring before the reader came to them.
    Lost(u64),
    /// Nothing has been logged in time.
    Nothing,
}

impl LogRing {
    /// An empty one.
    pub fn new() -> LogRing {
        LogRing::default()
    }

    /// Puts a line in. Never waits for a reader; the oldest lines leave when there are too many.
    pub fn push(&self, mut record: LogRecord) {
        cut(&mut record.message);
        record.fields.iter_mut().for_each(|(_, value)| cut(value));
        let record = Arc::new(record);
        let mut left = Vec::new();
        let mut ring = self.0.ring.lock();
        ring.bytes += record.bytes();
        ring.lines.push_back(record);
        while ring.lines.len() > LINES || (ring.bytes > BYTES && ring.lines.len() > 1) {
            let Some(oldest) = ring.lines.pop_front() else { break };
            ring.bytes -= oldest.bytes();
            ring.gone += 1;
            left.push(oldest);
        }
        drop(ring);
        self.0.more.notify_all();
        // Freed without the lock.
        drop(left);
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.0.ring.lock().lines.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The lines that there are, the oldest first.
    pub fn lines(&self) -> Vec<Arc<LogRecord>> {
        self.0.ring.lock().lines.iter().cloned().collect()
    }

    /// The place of a reader that wants what there is, and where what there is ends.
    pub(crate) fn places(&self) -> (u64, u64) {
        let ring = self.0.ring.lock();
        (ring.gone, ring.gone + ring.lines.len() as u64)
    }

    /// What a reader at this place comes to next; waits for it for so long.
    pub(crate) fn next(&self, place: &mut u64, patience: Duration) -> Next {
        let until = Instant::now() + patience;
        let mut ring = self.0.ring.lock();
        loop {
            let lost = ring.gone.saturating_sub(*place);
            if lost > 0 {
                *place = ring.gone;
                return Next::Lost(lost);
            }
            if let Some(line) = ring.lines.get((*place - ring.gone) as usize) {
                *place += 1;
                return Next::Line(Arc::clone(line));
            }
            if self.0.more.wait_until(&mut ring, until).timed_out() {
                return Next::Nothing;
            }
        }
    }
}

/// Cuts a text that is too long, between two characters.
fn cut(text: &mut String) {
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|&at| text.is_char_boundary(at)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(message: impl Into<String>) -> LogRecord {
        LogRecord {
            at: UNIX_EPOCH,
            level: Level::INFO,
            target: "t".to_owned(),
            driver: None,
            message: message.into(),
            fields: Vec::new(),
        }
    }

    fn message(next: Next) -> String {
        match next {
            Next::Line(line) => line.message.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_reader_gets_the_lines_in_order_and_then_nothing() {
        let ring = LogRing::new();
        (0..3).for_each(|n| ring.push(record(n.to_string())));
        let (mut place, end) = ring.places();
        let read: Vec<_> = (0..3).map(|_| message(ring.next(&mut place, Duration::ZERO))).collect();
        assert_eq!((read.concat().as_str(), place), ("012", end));
        assert_eq!(ring.next(&mut place, Duration::ZERO), Next::Nothing);
    }

    #[test]
    fn a_slow_reader_loses_the_oldest_lines_and_is_told_how_many() {
        let ring = LogRing::new();
        ring.push(record("first"));
        let mut place = ring.places().0;
        (0..LINES + 9).for_each(|n| ring.push(record(n.to_string())));
        assert_eq!(ring.len(), LINES);
        assert_eq!(ring.next(&mut place, Duration::ZERO), Next::Lost(10));
        assert_eq!(message(ring.next(&mut place, Duration::ZERO)), "9");
    }

    #[test]
    fn long_lines_are_cut_and_the_ring_is_bounded_in_bytes_too() {
        let ring = LogRing::new();
        for _ in 0..LINES {
            ring.push(record("ä".repeat(MAX_TEXT)));
        }
        let (mut place, _) = ring.places();
        let line = message(ring.next(&mut place, Duration::ZERO));
        assert!(line.ends_with('…') && line.len() <= MAX_TEXT + 3, "{}", line.len());
        assert!(ring.0.ring.lock().bytes <= BYTES);
    }

    #[test]
    fn a_reader_that_waits_is_woken_by_a_line() {
        let ring = LogRing::new();
        let reader = std::thread::spawn({
            let ring = ring.clone();
            move || ring.next(&mut 0, Duration::from_secs(60))
        });
        ring.push(record("here"));
        assert_eq!(message(reader.join().unwrap()), "here");
    }

    #[test]
    fn times_are_written_as_everybody_writes_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            let at = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(LogRecord { at, ..record("") }.time(), text);
        }
    }
}
