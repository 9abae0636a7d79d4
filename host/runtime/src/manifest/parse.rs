//! Text to [`Manifest`].
//!
//! The table tree of the `toml` crate is walked by hand rather than deserialised: that finds every mistake in one go,
//! keeps the place of each key and value for later checks, and allows a suggestion for each unknown key.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::SocketAddrV6;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::brackets::unclosed;
use super::diagnostic::{Diagnostic, ManifestError};
use super::drop_ins;
use super::resolve::ModuleSpec;
use super::source::{Place, Source};
use super::spec::{DriverSpec, LogFormat, LogSettings, Manifest, Setting};
use super::suggest::{did_you_mean, list};
use crate::control::ControlPlace;
use crate::node::NodeTree;

/// A manifest is written by hand; what is larger is something else, given by mistake.
const MAX_BYTES: u64 = 1 << 20;

const TOP_KEYS: &[&str] = &["host", "log", "drivers"];
const HOST_KEYS: &[&str] = &["threads", "stop_timeout_ms", "module_path", "control"];
const LOG_KEYS: &[&str] = &["level", "format"];
const DRIVER_KEYS: &[&str] = &[
    "driver",
    "module",
    "process",
    "sandbox",
    "bind",
    "parents",
    "priority",
    "config",
    "restart",
    "backoff",
    "limit",
    "on_panic",
    "rematch",
    "stop_timeout",
];

const LOG_LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];
const LOG_FORMATS: &[&str] = &["text", "json"];

const MAX_NAME: usize = NodeTree::MAX_NAME;
const MAX_THREADS: i64 = 1024;
const MAX_PRIORITY: i64 = 1_000_000;
const MAX_STOP_TIMEOUT_MS: i64 = 24 * 60 * 60 * 1000;

impl Manifest {
    /// Reads and parses the manifest at `path`: a file with those of the folder beside it (`host.d` to `host.toml`), or all
    /// of a folder, by the order of their names.
    ///
    /// # Errors
    /// All that is wrong with it, or the one reason why it cannot be read.
    pub fn load(path: &Path) -> Result<Manifest, ManifestError> {
        drop_ins::load(&drop_ins::files(path)?)
    }

    /// Parses a manifest.
    ///
    /// # Errors
    /// All that is wrong with it, in the order of the text.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_host::{Manifest, Source};
    ///
    /// let error = Manifest::parse(Source::named("example", "[drivers.disk]\ndirver = \"ramdisk\"\n")).unwrap_err();
    /// assert_eq!(error.to_string(), "example:2:1: unknown key `dirver` in driver `disk`; did you mean `driver`?");
    /// ```
    pub fn parse(source: Source) -> Result<Manifest, ManifestError> {
        Manifest::part(source)?.checked()
    }

    /// That there is something to run in it.
    pub(super) fn checked(self) -> Result<Manifest, ManifestError> {
        if !self.drivers.is_empty() {
            return Ok(self);
        }
        let help = "add a table such as `[drivers.ramdisk]`; `fuchsine drivers` lists what there is";
        Err(Diagnostic::at(self.source.place(0..0), "the manifest names no driver").help(help).into())
    }

    /// Parses a file of a manifest, which need not name a driver.
    pub(super) fn part(source: Source) -> Result<Manifest, ManifestError> {
        let text = source.clone();
        let (root, syntax) = DeTable::parse_recoverable(text.text());
        let mut reader = Reader { source: source.clone(), diagnostics: Vec::new() };
        if !syntax.is_empty() {
            // What a parser recovers after a syntax error is a guess; complaints about a guess would only confuse.
            return Err(syntax_error(&source, &syntax));
        }
        let manifest = reader.manifest(root.get_ref());
        reader.diagnostics.sort_by_key(|diagnostic| diagnostic.place().map(Place::start));
        ManifestError::unless_empty(reader.diagnostics, manifest)
    }
}

fn syntax_error(source: &Source, errors: &[toml::de::Error]) -> ManifestError {
    if let Some(at) = unclosed(source.text()) {
        let what = if source.text()[at..].starts_with('{') { "inline table" } else { "array" };
        return Diagnostic::at(source.place(at..at + 1), format!("this {what} is never closed")).into();
    }
    let mut errors: Vec<_> = errors.iter().map(|error| (error.span().unwrap_or(0..0), error.message())).collect();
    errors.sort_by_key(|(span, _)| span.start);
    // What the parser complains about next at the same place follows from the first.
    errors.dedup_by_key(|(span, _)| span.start);
    let at = |(span, message): (Range<usize>, &str)| Diagnostic::at(source.place(span), message.trim_end());
    let told = errors.into_iter().map(at).collect();
    ManifestError::unless_empty(told, ()).err().unwrap_or_else(|| Diagnostic::general("this is no TOML").into())
}

pub(super) fn read(path: &Path) -> Result<Source, ManifestError> {
    let fail = |why: String| Diagnostic::general(format!("cannot read manifest `{}`: {why}", path.display()));
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(|error| fail(error.to_string()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(fail(format!("it is larger than {} KiB, so it is no manifest", MAX_BYTES / 1024)).into());
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|&&b| b == b'\n').count() + 1;
        fail(format!("line {line} is not UTF-8 text"))
    })?;
    Ok(Source::file(path, text))
}

pub(super) struct Reader {
    pub(super) source: Source,
    pub(super) diagnostics: Vec<Diagnostic>,
}

pub(super) type Entry<'a, 'i> = (&'a Spanned<std::borrow::Cow<'i, str>>, &'a Spanned<DeValue<'i>>);

impl Reader {
    fn manifest(&mut self, root: &DeTable<'_>) -> Manifest {
        let mut manifest = Manifest {
            source: self.source.clone(),
            threads: None,
            stop_timeout: Manifest::DEFAULT_STOP_TIMEOUT,
            log: LogSettings::default(),
            control: None,
            module_path: Vec::new(),
            drivers: Vec::new(),
            settings: Vec::new(),
        };
        for name in ["host", "log"] {
            let keys = root.get(name).and_then(|table| table.get_ref().as_table());
            for (key, _) in keys.map(in_text_order).unwrap_or_default() {
                manifest.settings.push((format!("[{name}] {}", key.get_ref()), self.source.place(key.span())));
            }
        }
        self.refuse_unknown(root, TOP_KEYS, "the manifest");
        if let Some(host) = self.subtable(root, "host") {
            self.refuse_unknown(host, HOST_KEYS, "`[host]`");
            manifest.threads = self.integer(host, "threads", 1..MAX_THREADS + 1).map(|threads| threads as usize);
            if let Some(ms) = self.integer(host, "stop_timeout_ms", 1..MAX_STOP_TIMEOUT_MS + 1) {
                manifest.stop_timeout = Duration::from_millis(ms as u64);
            }
            manifest.module_path = self.paths(host, "module_path");
            manifest.control = self.control(host);
        }
        if let Some(log) = self.subtable(root, "log") {
            self.refuse_unknown(log, LOG_KEYS, "`[log]`");
            manifest.log.level = self.log_level(log);
            manifest.log.format = match self.one_of(log, "format", "log format", LOG_FORMATS).as_deref() {
                Some("json") => Some(LogFormat::Json),
                Some(_) => Some(LogFormat::Text),
                None => None,
            };
        }
        if let Some(drivers) = self.subtable(root, "drivers") {
            manifest.drivers = in_text_order(drivers).into_iter().filter_map(|entry| self.driver(entry)).collect();
        }
        manifest
    }

    fn driver(&mut self, (key, value): Entry<'_, '_>) -> Option<DriverSpec> {
        let name = key.get_ref().as_ref();
        let name_place = self.source.place(key.span());
        if !is_name(name) {
            let message = match name.len() {
                0..=MAX_NAME => format!("`{name}` cannot name a driver: letters, digits, `-` and `_` are allowed"),
                length => format!("the name of a driver may have {MAX_NAME} characters, and this has {length}"),
            };
            self.diagnostics.push(Diagnostic::at(name_place, message));
            return None;
        }
        let table = self.as_table(value, &format!("drivers.{name}"))?;
        self.refuse_unknown_in_driver(table, name);
        let given = self.string(table, "driver");
        let driver_is_given = given.is_some();
        let (driver, driver_place) = match given {
            Some((driver, span)) => (driver.to_owned(), self.source.place(span)),
            None => (name.to_owned(), name_place.clone()),
        };
        let module = self
            .string(table, "module")
            .map(|(path, span)| ModuleSpec { path: self.source.resolve(path), place: self.source.place(span) });
        let process = self.process(table);
        let sandbox = self.sandbox(table);
        let bind = self.subtable(table, "bind").map(|bind| self.bind(bind));
        let parents = self.parents(table, bind.is_some());
        let priority = self.integer(table, "priority", -MAX_PRIORITY..MAX_PRIORITY + 1).unwrap_or_default();
        let policy = self.policy(table);
        let config = self.subtable(table, "config").map(|config| self.config(config)).unwrap_or_default();
        Some(DriverSpec {
            name: name.to_owned(),
            name_place,
            driver,
            driver_place,
            driver_is_given,
            module,
            process,
            sandbox,
            bind,
            parents,
            priority,
            policy,
            config,
        })
    }

    /// A path, relative to the folder of the manifest, or `false`.
    fn control(&mut self, table: &DeTable<'_>) -> Option<Option<ControlPlace>> {
        let value = table.get("control")?;
        match value.get_ref() {
            DeValue::Boolean(false) => Some(None),
            DeValue::String(path) if !path.is_empty() => Some(Some(ControlPlace::at(self.source.resolve(path)))),
            _ => {
                self.expected(value, "`control`", "the path of a socket, or false");
                None
            }
        }
    }

    fn config(&mut self, table: &DeTable<'_>) -> BTreeMap<String, Setting> {
        let mut config = BTreeMap::new();
        for (key, value) in table {
            match to_json(value) {
                Ok(json) => {
                    let setting = Setting {
                        value: json,
                        key_place: self.source.place(key.span()),
                        value_place: self.source.place(value.span()),
                        bare: None,
                    };
                    config.insert(key.get_ref().to_string(), setting);
                }
                Err((span, why)) => self.diagnostics.push(Diagnostic::at(self.source.place(span), why)),
            }
        }
        config
    }

    /// A level, or a filter: `info,nbd=debug`.
    fn log_level(&mut self, table: &DeTable<'_>) -> Option<String> {
        let (filter, span) = self.string(table, "level")?;
        let levels = filter.split(',').map(|item| item.rsplit_once('=').map_or(item, |(_, level)| level).trim());
        let unknown = levels.filter(|level| !LOG_LEVELS.contains(level)).map(str::to_owned).next();
        match unknown {
            None => Some(filter.to_owned()),
            Some(word) => {
                self.unknown_word("log level", &word, LOG_LEVELS, span);
                None
            }
        }
    }

    // What the tables above are read with.

    pub(super) fn refuse_unknown(&mut self, table: &DeTable<'_>, known: &[&str], whose: &str) {
        for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            self.unknown(key.span(), key.get_ref(), known, whose, &format!("known keys: {}", list_of(known)));
        }
    }

    fn refuse_unknown_in_driver(&mut self, table: &DeTable<'_>, name: &str) {
        for key in table.keys().filter(|key| !DRIVER_KEYS.contains(&key.get_ref().as_ref())) {
            let help = format!("known keys: {}; what the driver understands goes into `config`", list_of(DRIVER_KEYS));
            self.unknown(key.span(), key.get_ref(), DRIVER_KEYS, &format!("driver `{name}`"), &help);
        }
    }

    pub(super) fn unknown(&mut self, span: Range<usize>, key: &str, known: &[&str], whose: &str, help: &str) {
        let message = format!("unknown key `{key}` in {whose}{}", did_you_mean(key, known.iter().copied()));
        self.diagnostics.push(Diagnostic::at(self.source.place(span), message).help(help));
    }

    pub(super) fn expected(&mut self, value: &Spanned<DeValue<'_>>, what: &str, kind: &str) {
        let found = value.get_ref().type_str();
        let message = format!("{what} must be {kind}, and this is {} {found}", article(found));
        self.diagnostics.push(Diagnostic::at(self.source.place(value.span()), message));
    }

    pub(super) fn as_table<'a, 'i>(&mut self, value: &'a Spanned<DeValue<'i>>, what: &str) -> Option<&'a DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.expected(value, &format!("`{what}`"), "a table");
        }
        table
    }

    pub(super) fn subtable<'a, 'i>(&mut self, table: &'a DeTable<'i>, key: &str) -> Option<&'a DeTable<'i>> {
        self.as_table(table.get(key)?, key)
    }

    pub(super) fn string<'a>(&mut self, table: &'a DeTable<'_>, key: &str) -> Option<(&'a str, Range<usize>)> {
        let value = table.get(key)?;
        let text = value.get_ref().as_str();
        if text.is_none() {
            self.expected(value, &format!("`{key}`"), "a string");
        }
        Some((text?, value.span()))
    }

    /// An array of paths, each relative to the folder of the manifest.
    pub(super) fn paths(&mut self, table: &DeTable<'_>, key: &str) -> Vec<PathBuf> {
        let Some(value) = table.get(key) else { return Vec::new() };
        let paths = value.get_ref().as_array().and_then(|items| {
            items.iter().map(|item| item.get_ref().as_str().map(|path| self.source.resolve(path))).collect()
        });
        if paths.is_none() {
            self.expected(value, &format!("`{key}`"), "an array of strings");
        }
        paths.unwrap_or_default()
    }

    pub(super) fn one_of(&mut self, table: &DeTable<'_>, key: &str, what: &str, known: &[&str]) -> Option<String> {
        let (word, span) = self.string(table, key)?;
        if known.contains(&word) {
            return Some(word.to_owned());
        }
        self.unknown_word(what, word, known, span);
        None
    }

    fn unknown_word(&mut self, what: &str, word: &str, known: &[&str], span: Range<usize>) {
        let message = format!("unknown {what} `{word}`{}", did_you_mean(word, known.iter().copied()));
        let help = format!("known are {}", list_of(known));
        self.diagnostics.push(Diagnostic::at(self.source.place(span), message).help(help));
    }

    pub(super) fn integer(&mut self, table: &DeTable<'_>, key: &str, range: Range<i64>) -> Option<i64> {
        let value = table.get(key)?;
        let Some(integer) = value.get_ref().as_integer() else {
            self.expected(value, &format!("`{key}`"), "an integer");
            return None;
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok().filter(|n| range.contains(n));
        if number.is_none() {
            let message = format!("`{key}` must lie between {} and {}", range.start, range.end - 1);
            self.diagnostics.push(Diagnostic::at(self.source.place(value.span()), message));
        }
        number
    }
}

fn list_of(known: &[&str]) -> String {
    list(known.iter().copied())
}

/// The entries of a table in the order in which they were written; the parser keeps them by name.
pub(super) fn in_text_order<'a, 'i>(table: &'a DeTable<'i>) -> Vec<Entry<'a, 'i>> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// Whether `name` may name a driver: it must be possible to say it in `--set NAME.KEY=VALUE`, and to give a node that
/// name.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

pub(crate) fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

/// The text by which a property is compared. Numbers in any notation are equal if they are the same number.
pub(super) fn property_text(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Boolean(truth) => Some(truth.to_string()),
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok().map(|n| n.to_string()),
        _ => None,
    }
}

/// The value as JSON, which is how configuration reaches a driver.
///
/// # Errors
/// The place and the reason, for numbers that JSON cannot hold.
pub(crate) fn to_json(value: &Spanned<DeValue<'_>>) -> Result<serde_json::Value, (Range<usize>, String)> {
    use serde_json::Value;
    let unfit = |what: &str| (value.span(), format!("{what} cannot be handed to a driver"));
    Ok(match value.get_ref() {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Integer(n) => match i64::from_str_radix(n.as_str(), n.radix()) {
            Ok(n) => Value::from(n),
            Err(_) => match u64::from_str_radix(n.as_str(), n.radix()) {
                Ok(n) => Value::from(n),
                Err(_) => return Err(unfit("an integer of more than 64 bits")),
            },
        },
        DeValue::Float(n) => {
            let number = n.as_str().parse().ok().and_then(serde_json::Number::from_f64);
            Value::Number(number.ok_or_else(|| unfit("a number that is not finite"))?)
        }
        DeValue::Array(items) => Value::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        DeValue::Table(table) => {
            let entries = table.iter().map(|(key, value)| Ok((key.get_ref().to_string(), to_json(value)?)));
            Value::Object(entries.collect::<Result<_, _>>()?)
        }
    })
}

/// Whether this begins with an address such as `[::1]:10809`, whose bracket is not that of an array.
fn is_address(text: &str) -> bool {
    text.split(',').next().is_some_and(|first| first.trim().parse::<SocketAddrV6>().is_ok())
}

/// Where a `--set` argument's own text is a setting.
pub(crate) fn override_setting(source: &Source, key: Range<usize>, value: Range<usize>) -> Result<Setting, Diagnostic> {
    let place = |span: Range<usize>| -> Place { source.place(span) };
    let text = &source.text()[value.clone()];
    let setting = |json| Setting {
        value: json,
        key_place: place(key.clone()),
        value_place: place(value.clone()),
        bare: Some(text.to_owned()),
    };
    let shifted = |span: Range<usize>| place(value.start + span.start..value.start + span.end);
    match DeValue::parse(text) {
        Ok(parsed) => to_json(&parsed).map(setting).map_err(|(span, why)| Diagnostic::at(shifted(span), why)),
        // What begins like a TOML value was meant as one, so its mistake is worth telling; the rest is a bare string.
        Err(error) if text.starts_with(['"', '\'', '[', '{']) && !is_address(text) => {
            let message = format!("this is no TOML value: {}", error.message().trim_end());
            Err(Diagnostic::at(shifted(error.span().unwrap_or(0..text.len())), message))
        }
        Err(_) => Ok(setting(serde_json::Value::String(text.to_owned()))),
    }
}
