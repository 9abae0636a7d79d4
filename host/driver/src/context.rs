//! What a driver gets from its host: dispatcher, configuration, logger, node.

use std::fmt;

use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::abi::{ContextObject, here};
use crate::{AddChildError, Child, ChildNode, CreateError, Dispatcher, DispatcherOptions, Logger, Node, Status};

/// The connection of one driver instance to its host. Cloning gives a further handle to the same one; a handle that
/// outlives the driver is harmless, what it is asked for is refused with `BadState`.
#[derive(Clone)]
pub struct DriverContext {
    context: ContextObject,
}

impl DriverContext {
    pub(crate) fn new(context: ContextObject) -> Self {
        DriverContext { context }
    }

    pub(crate) fn object(&self) -> &ContextObject {
        &self.context
    }

    /// The name of the instance.
    pub fn name(&self) -> String {
        self.context.name()
    }

    /// The default dispatcher: synchronized, and the one that the hooks run on.
    pub fn dispatcher(&self) -> Dispatcher {
        Dispatcher::from_object(self.context.dispatcher())
    }

    /// Creates a further dispatcher. It belongs to the driver and is shut down with it, if not before.
    ///
    /// # Errors
    /// A combination of options that does not exist (`NotSupported`), no thread to spare for sync calls
    /// (`NoResources`), or a driver that is stopping (`BadState`).
    #[track_caller]
    pub fn new_dispatcher(&self, options: DispatcherOptions) -> Result<Dispatcher, CreateError> {
        options.create(here::<Dispatcher>(), &self.context)
    }

    /// The configuration, in whatever type the driver reads it into. Keys that the manifest does not set have the
    /// default of the driver's [`CONFIG`](crate::Driver::CONFIG).
    ///
    /// # Errors
    /// The configuration does not fit the type; the error says which value and what was expected.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        let text = self.context.config();
        serde_json::from_str(&text).map_err(|error| ConfigError::new(&text, &error))
    }

    /// The configuration as the text of one JSON object.
    pub fn config_text(&self) -> String {
        self.context.config()
    }

    /// Writes to the host's log.
    pub fn logger(&self) -> Logger {
        Logger::new(self.context.clone())
    }

    /// The node that the driver is bound to.
    pub fn node(&self) -> Node {
        Node::new(self.context.clone())
    }

    /// Adds a child of that node. Other drivers are bound to it once `start` has succeeded.
    ///
    /// # Errors
    /// A sibling has the name (`AlreadyExists`), or the driver is stopping (`BadState`).
    #[track_caller]
    pub fn add_child(&self, child: ChildNode) -> Result<Child, AddChildError> {
        child.add_to(here::<Child>(), &self.context)
    }

    /// Publishes an address at which clients outside of the host reach the driver, such as `nbd://127.0.0.1:10809/disk`.
    ///
    /// # Errors
    /// The driver is stopping (`BadState`).
    pub fn publish_address(&self, address: &str) -> Result<(), Status> {
        self.context.publish_address(address)
    }

    /// Tells the host that the driver cannot go on. The host stops it in the usual order and counts it as failed for
    /// this reason. The first call counts.
    pub fn fail(&self, status: Status, message: impl fmt::Display) {
        self.context.fail(status, &message.to_string());
    }

    /// Tells the host that the driver has done what it was there for. The host stops it in the usual order, which is no
    /// failure; whether it starts it again is a matter of the manifest (`restart`).
    ///
    /// # Examples
    /// ```no_run
    /// # fn example(cx: &fuchsine_driver::DriverContext) {
    /// cx.logger().info("the image is written");
    /// cx.finish();
    /// # }
    /// ```
    pub fn finish(&self) {
        self.context.finish();
    }
}

impl fmt::Debug for DriverContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverContext").field("name", &self.name()).finish()
    }
}

/// The configuration does not fit the type that the driver reads it into.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("configuration: {message}")]
pub struct ConfigError {
    message: String,
}

impl ConfigError {
    fn new(text: &str, error: &serde_json::Error) -> Self {
        let message = in_words(&without_position(&error.to_string()));
        // What is wrong with a field as a whole (it is missing, or not known) is told with its name.
        let key = key_at(text, error.column()).filter(|_| !message.contains(" field `"));
        ConfigError { message: key.map_or_else(|| message.clone(), |key| format!("`{key}`: {message}")) }
    }

    /// `InvalidArgs`.
    pub fn status(&self) -> Status {
        Status::InvalidArgs
    }

    /// The status alone.
    pub fn into_status(self) -> Status {
        self.status()
    }
}

impl From<ConfigError> for Status {
    fn from(error: ConfigError) -> Self {
        error.status()
    }
}

/// The types of Rust in messages of `serde`, for those who do not know them.
const NUMBERS: &[(&str, &str)] = &[
    ("usize", "a whole number of at least 0"),
    ("u64", "a whole number of at least 0"),
    ("u32", "a whole number from 0 to 4294967295"),
    ("u16", "a whole number from 0 to 65535"),
    ("u8", "a whole number from 0 to 255"),
    ("isize", "a whole number"),
    ("i64", "a whole number"),
    ("i32", "a whole number from -2147483648 to 2147483647"),
];

fn in_words(message: &str) -> String {
    let (what, expected) = message.rsplit_once(", expected ").unwrap_or((message, ""));
    match NUMBERS.iter().find(|(name, _)| *name == expected) {
        Some((_, words)) => format!("{what}, expected {words}"),
        None => message.to_owned(),
    }
}

/// The key, in a JSON object, whose value a parser was at when it had read so many bytes.
fn key_at(text: &str, column: usize) -> Option<&str> {
    let bytes = text.as_bytes();
    let (mut at, mut depth, mut key) = (0, 0, None);
    while at < bytes.len().min(column) {
        match bytes[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' => {
                let start = at + 1;
                at = start;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                if depth == 1 && bytes.get(at + 1) == Some(&b':') {
                    key = text.get(start..at);
                }
            }
            _ => {}
        }
        at += 1;
    }
    key
}

/// Positions in the JSON text mean nothing to the person who wrote a manifest in another form.
fn without_position(message: &str) -> String {
    match message.rfind(" at line ") {
        Some(end) => message[..end].to_owned(),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    #[allow(dead_code, reason = "only read into")]
    struct Config {
        name: String,
        count: u8,
        sizes: Vec<u64>,
        limit: usize,
    }

    #[track_caller]
    fn refused(text: &str) -> String {
        let error = serde_json::from_str::<Config>(text).expect_err("it does not fit");
        ConfigError::new(text, &error).to_string()
    }

    #[test]
    fn a_value_that_does_not_fit_is_told_with_its_key_and_without_types_of_rust() {
        for (text, told) in [
            (r#"{"limit":-1}"#, "`limit`: invalid value: integer `-1`, expected a whole number of at least 0"),
            (
                r#"{"name":"a\"}:{","count":256,"limit":1}"#,
                "`count`: invalid value: integer `256`, expected a whole number from 0 to 255",
            ),
            (
                r#"{"name":"x","sizes":[1,"two"],"count":1}"#,
                "`sizes`: invalid type: string \"two\", expected a whole number of at least 0",
            ),
            (r#"{"count":1,"name":7}"#, "`name`: invalid type: integer `7`, expected a string"),
        ] {
            assert_eq!(refused(text), format!("configuration: {told}"));
        }
        let unknown = refused(r#"{"count":1,"nam":7}"#);
        assert!(unknown.starts_with("configuration: unknown field `nam`, expected one of `name`"), "{unknown}");
    }
}
