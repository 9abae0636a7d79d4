//! Log lines of drivers, as events of `tracing`.
//!
//! A driver says level, target, message and fields at run time, and `tracing` wants a static description of each place
//! that logs. So one is made, and kept for ever, for each distinct combination of level, target and names of fields.
//! Drivers log from places in their source, so there are few; a driver that makes up field names without end uses up
//! [`MAX_PLACES`], after which its fields become part of the message.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use parking_lot::RwLock;
use tracing::callsite::{Callsite, Identifier};
use tracing::field::{FieldSet, Value};
use tracing::metadata::Kind;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata};

/// How many descriptions are kept at most.
const MAX_PLACES: usize = 4096;
/// `tracing` takes no more fields in one event.
const MAX_FIELDS: usize = 28;

/// Who logs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) driver: &'a str,
    pub(crate) target: &'a str,
}

impl Origin<'_> {
    /// What filters see: the target that the driver gave, or its name.
    fn target(&self) -> &str {
        if self.target.is_empty() { self.driver } else { self.target }
    }
}

/// One line that a driver has logged.
#[derive(Debug, Clone, Copy)]
pub struct LogLine<'a> {
    origin: Origin<'a>,
    level: Level,
    message: &'a str,
    fields: &'a [(&'a str, &'a str)],
}

impl LogLine<'_> {
    /// The name of the driver in the manifest.
    pub fn driver(&self) -> &str {
        self.origin.driver
    }

    /// The part of the driver that logs; the driver's name if it gave none.
    pub fn target(&self) -> &str {
        self.origin.target()
    }

    /// How much it matters.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        self.message
    }

    /// The fields, in the order in which they were given.
    pub fn fields(&self) -> &[(&str, &str)] {
        self.fields
    }
}

impl fmt::Display for LogLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.level, self.target(), self.message)?;
        self.fields.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

/// Tells an observer of one line.
pub(crate) fn tell(
    observer: &dyn Fn(&LogLine<'_>),
    origin: Origin<'_>,
    level: Level,
    message: &str,
    fields: &[(&str, &str)],
) {
    observer(&LogLine { origin, level, message, fields });
}

/// Writes one line.
pub(crate) fn write(origin: Origin<'_>, level: Level, message: &str, fields: &[(&str, &str)]) {
    if level > tracing::level_filters::LevelFilter::current() {
        return;
    }
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let place = (names.len() <= MAX_FIELDS && are_distinct(&names)).then(|| place(level, origin.target(), &names));
    match place.flatten() {
        Some(place) => {
            let mut values: Vec<Option<&dyn Value>> = vec![Some(&message as &dyn Value), Some(&origin.driver)];
            values.extend(fields.iter().map(|(_, value)| Some(value as &dyn Value)));
            dispatch(place, &values);
        }
        None => {
            let text = fields.iter().fold(message.to_owned(), |text, (name, value)| format!("{text} {name}={value}"));
            if let Some(place) = self::place(level, "driver", &[]) {
                dispatch(place, &[Some(&text.as_str()), Some(&origin.driver)]);
            }
        }
    }
}

/// Whether a line would be written.
pub(crate) fn is_enabled(origin: Origin<'_>, level: Level) -> bool {
    level <= tracing::level_filters::LevelFilter::current()
        && place(level, origin.target(), &[])
            .is_none_or(|place| tracing::dispatcher::get_default(|current| current.enabled(place.metadata())))
}

fn dispatch(place: &'static Place, values: &[Option<&dyn Value>]) {
    let metadata = place.metadata();
    tracing::dispatcher::get_default(|current| {
        if current.enabled(metadata) {
            current.event(&Event::new(metadata, &metadata.fields().value_set_all(values)));
        }
    });
}

/// `message` and `driver` are fields of every line.
fn are_distinct(names: &[&str]) -> bool {
    let reserved = ["message", "driver"];
    names.iter().enumerate().all(|(n, name)| !reserved.contains(name) && !names[..n].contains(name))
}

/// A place that logs, as `tracing` wants to know it.
struct Place(OnceLock<Metadata<'static>>);

impl Callsite for Place {
    // Whether a line is wanted is asked for each one: filters may change, and these places are not hot.
    fn set_interest(&self, _: Interest) {}

    fn metadata(&self) -> &Metadata<'_> {
        self.description()
    }
}

impl Place {
    fn metadata(&'static self) -> &'static Metadata<'static> {
        self.description()
    }

    fn description(&self) -> &Metadata<'static> {
        self.0.get().expect("a place is described before it is shared")
    }
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    level: Level,
    target: String,
    names: Vec<String>,
}

/// The place of this combination, made at its first use; `None` once there are too many.
fn place(level: Level, target: &str, names: &[&str]) -> Option<&'static Place> {
    static PLACES: OnceLock<RwLock<HashMap<Key, &'static Place>>> = OnceLock::new();
    let places = PLACES.get_or_init(RwLock::default);
    let key = Key { level, target: target.to_owned(), names: names.iter().map(|&name| name.to_owned()).collect() };
    if let Some(&place) = places.read().get(&key) {
        return Some(place);
    }
    let mut places = places.write();
    if let Some(&place) = places.get(&key) {
        return Some(place);
    }
    if places.len() >= MAX_PLACES {
        return None;
    }
    let place = describe(level, target, names);
    places.insert(key, place);
    Some(place)
}

fn describe(level: Level, target: &str, names: &[&str]) -> &'static Place {
    let forever = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    let names: Vec<&'static str> =
        ["message", "driver"].into_iter().chain(names.iter().map(|name| forever(name))).collect();
    let place: &'static Place = Box::leak(Box::new(Place(OnceLock::new())));
    let fields = FieldSet::new(Box::leak(names.into_boxed_slice()), Identifier(place));
    let metadata = Metadata::new("driver log", forever(target), level, None, None, None, fields, Kind::EVENT);
    place.0.get_or_init(|| metadata);
    tracing::callsite::register(place);
    place
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span;

    use super::*;

    /// Keeps every event as one line of text.
    #[derive(Clone, Default)]
    struct Recorder(Arc<Mutex<Vec<String>>>);

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0.push_str(&format!(" {field}={value:?}"));
        }
    }

    impl tracing::Subscriber for Recorder {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() != "muted"
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, event: &Event<'_>) {
            let metadata = event.metadata();
            let mut line = Line(format!("{} {}:", metadata.level(), metadata.target()));
            event.record(&mut line);
            self.0.lock().unwrap().push(line.0);
        }
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    fn recorded(code: impl FnOnce()) -> Vec<String> {
        let recorder = Recorder::default();
        tracing::subscriber::with_default(recorder.clone(), code);
        let lines = recorder.0.lock().unwrap();
        lines.clone()
    }

    const NBD: Origin<'static> = Origin { driver: "nbd", target: "" };

    #[test]
    fn a_line_keeps_level_target_message_driver_and_fields() {
        let lines = recorded(|| {
            write(NBD, Level::INFO, "listening", &[("address", "127.0.0.1:1"), ("export", "disk")]);
            write(Origin { target: "nbd::peer", ..NBD }, Level::WARN, "gone", &[]);
        });
        assert_eq!(
            lines,
            [
                r#"INFO nbd: message="listening" driver="nbd" address="127.0.0.1:1" export="disk""#,
                r#"WARN nbd::peer: message="gone" driver="nbd""#,
            ]
        );
    }

    #[test]
    fn fields_that_tracing_cannot_take_become_part_of_the_message() {
        let many: Vec<(String, String)> = (0..MAX_FIELDS + 1).map(|n| (format!("f{n}"), n.to_string())).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let lines = recorded(|| {
            write(NBD, Level::INFO, "hello", &[("message", "twice")]);
            write(NBD, Level::INFO, "hello", &[("a", "1"), ("a", "2")]);
            write(NBD, Level::INFO, "many", &many);
        });
        assert_eq!(lines[0], r#"INFO driver: message="hello message=twice" driver="nbd""#);
        assert_eq!(lines[1], r#"INFO driver: message="hello a=1 a=2" driver="nbd""#);
        assert!(lines[2].contains("f0=0") && lines[2].contains("f28=28"), "{}", lines[2]);
    }

    #[test]
    fn a_line_that_the_filter_does_not_want_is_not_written_and_not_enabled() {
        let muted = Origin { target: "muted", ..NBD };
        let lines = recorded(|| {
            assert!(is_enabled(NBD, Level::ERROR));
            assert!(!is_enabled(muted, Level::ERROR));
            write(muted, Level::ERROR, "not seen", &[]);
        });
        assert_eq!(lines, Vec::<String>::new());
    }
}
