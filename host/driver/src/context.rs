//! What a driver gets from its host: dispatcher, configuration, logger, node.

use std::fmt;

use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::abi::ContextObject;
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
    pub fn new_dispatcher(&self, options: DispatcherOptions) -> Result<Dispatcher, CreateError> {
        options.create(&self.context)
    }

    /// The configuration, in whatever type the driver reads it into. Keys that the manifest does not set have the
    /// default of the driver's [`CONFIG`](crate::Driver::CONFIG).
    ///
    /// # Errors
    /// The configuration does not fit the type; the error says which value and what was expected.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        let text = self.context.config();
        serde_json::from_str(&text).map_err(|error| ConfigError { message: without_position(&error.to_string()) })
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
    pub fn add_child(&self, child: ChildNode) -> Result<Child, AddChildError> {
        child.add_to(&self.context)
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

/// Positions in the JSON text mean nothing to the person who wrote a manifest in another form.
fn without_position(message: &str) -> String {
    match message.rfind(" at line ") {
        Some(end) => message[..end].to_owned(),
        None => message.to_owned(),
    }
}
