//! Lines in the host's log.

use std::fmt::{self, Display};

use crate::abi::ContextObject;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Level {
    /// Something failed.
    Error = 1,
    /// Something is wrong, and the driver goes on.
    Warn = 2,
    /// What an operator wants to know.
    Info = 3,
    /// For whoever looks for a fault.
    Debug = 4,
    /// Every step.
    Trace = 5,
}

/// Writes to the host's log. The host adds the name of the driver.
///
/// # Examples
/// ```no_run
/// # fn example(cx: &fuchsine_driver::DriverContext) {
/// let log = cx.logger();
/// log.info("listening");
/// log.with("peer", "127.0.0.1:4711").warn(format_args!("request of {} bytes refused", 1 << 30));
/// # }
/// ```
#[derive(Clone)]
pub struct Logger {
    context: ContextObject,
    target: String,
    fields: Vec<(String, String)>,
}

impl Logger {
    pub(crate) fn new(context: ContextObject) -> Self {
        Logger { context, target: String::new(), fields: Vec::new() }
    }

    /// A logger for a part of the driver; hosts filter by it.
    #[must_use]
    pub fn target(&self, target: impl Into<String>) -> Logger {
        Logger { target: target.into(), ..self.clone() }
    }

    /// A logger whose every line has a further field.
    #[must_use]
    pub fn with(&self, key: impl Into<String>, value: impl Display) -> Logger {
        let mut logger = self.clone();
        logger.fields.push((key.into(), value.to_string()));
        logger
    }

    /// Whether a line of this level would be written.
    pub fn enabled(&self, level: Level) -> bool {
        self.context.log_enabled(level as u32, &self.target)
    }

    /// Writes a line with fields of its own. Nothing is formatted when the level is off.
    pub fn log(&self, level: Level, message: impl Display, fields: &[(&str, &dyn Display)]) {
        if !self.enabled(level) {
            return;
        }
        let values: Vec<String> = fields.iter().map(|(_, value)| value.to_string()).collect();
        let own = self.fields.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let extra = fields.iter().zip(&values).map(|((key, _), value)| (*key, value.as_str()));
        let pairs: Vec<(&str, &str)> = own.chain(extra).collect();
        self.context.log(level as u32, &self.target, &message.to_string(), &pairs);
    }

    /// Writes an error.
    pub fn error(&self, message: impl Display) {
        self.log(Level::Error, message, &[]);
    }

    /// Writes a warning.
    pub fn warn(&self, message: impl Display) {
        self.log(Level::Warn, message, &[]);
    }

    /// Writes an information.
    pub fn info(&self, message: impl Display) {
        self.log(Level::Info, message, &[]);
    }

    /// Writes for debugging.
    pub fn debug(&self, message: impl Display) {
        self.log(Level::Debug, message, &[]);
    }

    /// Writes a step.
    pub fn trace(&self, message: impl Display) {
        self.log(Level::Trace, message, &[]);
    }
}

impl fmt::Debug for Logger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Logger").field("target", &self.target).field("fields", &self.fields).finish_non_exhaustive()
    }
}
