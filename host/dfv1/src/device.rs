//! Devices: their hooks, how they are added, and the handles to them.

use std::fmt;
use std::sync::Arc;

use fuchsine_driver::{Channel, ChildNode, DriverContext, Node, StartError, Status};

use crate::tree::{DeviceId, Tree};
use crate::txn::{InitTxn, UnbindTxn};

/// The hooks of a device. Each is called at most once, on the default dispatcher of the driver.
pub trait DeviceOps: Send + 'static {
    /// The device was added. It becomes visible with the reply.
    fn init(&self, txn: InitTxn) {
        txn.reply(Ok(()));
    }

    /// The device is to go: end what is under way, then reply.
    fn unbind(&self, txn: UnbindTxn) {
        txn.reply();
    }

    /// The device is gone, and its children before it. The last call.
    fn release(self: Box<Self>) {}
}

type Accept = Box<dyn Fn(Channel) + Send + Sync>;

/// A device to be added: its name, its properties, what it offers.
#[must_use = "a device does nothing until it is passed to `add`"]
pub struct DeviceArgs {
    pub(crate) name: String,
    properties: Vec<(String, String)>,
    services: Vec<(String, Accept)>,
    pub(crate) is_invisible: bool,
}

impl DeviceArgs {
    /// A device of this name, unique among its siblings.
    pub fn new(name: impl Into<String>) -> DeviceArgs {
        DeviceArgs { name: name.into(), properties: Vec::new(), services: Vec::new(), is_invisible: false }
    }

    /// Adds a property, which other drivers are matched by.
    pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> DeviceArgs {
        self.properties.push((key.into(), value.into()));
        self
    }

    /// Adds a service. `accept` gets the server end of each connection, on the default dispatcher of the driver.
    pub fn service(mut self, name: impl Into<String>, accept: impl Fn(Channel) + Send + Sync + 'static) -> DeviceArgs {
        self.services.push((name.into(), Box::new(accept)));
        self
    }

    /// Leaves the device invisible for good: no driver is ever bound to it. (`DEVICE_ADD_NON_BINDABLE`)
    pub fn non_bindable(mut self) -> DeviceArgs {
        self.is_invisible = true;
        self
    }

    /// As a node of this name.
    pub(crate) fn into_node(self, name: &str) -> ChildNode {
        let node = ChildNode::new(name);
        let node = self.properties.into_iter().fold(node, |node, (key, value)| node.property(key, value));
        self.services.into_iter().fold(node, |node, (name, accept)| node.service(name, accept))
    }
}

impl fmt::Debug for DeviceArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceArgs")
            .field("name", &self.name)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}

/// Why a device was not added. The device was dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddError {
    pub(crate) name: String,
    pub(crate) status: Status,
}

impl AddError {
    /// `AlreadyExists`: a sibling has the name. `InvalidArgs`: it is no name. `BadState`: the parent is being removed, or the
    /// driver is stopping.
    pub fn status(&self) -> Status {
        self.status
    }
}

impl fmt::Display for AddError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device `{}` cannot be added: {}", self.name, self.status)
    }
}

impl std::error::Error for AddError {}

impl From<AddError> for StartError {
    fn from(error: AddError) -> StartError {
        StartError::new(error.status, error)
    }
}

/// The device that a driver is bound to: one that another driver added, or the place that the manifest gave it.
#[derive(Debug, Clone)]
pub struct ParentDevice {
    pub(crate) cx: DriverContext,
    pub(crate) tree: Arc<Tree>,
}

impl ParentDevice {
    /// The node that stands for it, by which its properties and services are reached.
    pub fn node(&self) -> Node {
        self.cx.node()
    }

    /// What a driver gets from its host: configuration, dispatchers, log.
    pub fn context(&self) -> &DriverContext {
        &self.cx
    }

    /// Adds a device on it.
    ///
    /// # Errors
    /// [`AddError`].
    pub fn add(&self, args: DeviceArgs, ops: impl DeviceOps) -> Result<Device, AddError> {
        self.tree.add(None, args, Box::new(ops))
    }
}

/// A handle to a device that was added. It owns nothing: the device is there until it is removed.
#[derive(Debug, Clone)]
pub struct Device {
    pub(crate) tree: Arc<Tree>,
    pub(crate) id: DeviceId,
    pub(crate) name: String,
}

impl Device {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a child device.
    ///
    /// # Errors
    /// [`AddError`].
    pub fn add(&self, args: DeviceArgs, ops: impl DeviceOps) -> Result<Device, AddError> {
        self.tree.add(Some(self.id), args, Box::new(ops))
    }

    /// Begins to remove the device and all below it. Nothing happens for one that is going or gone already.
    /// (`device_async_remove`)
    pub fn remove(&self) {
        self.tree.begin_removal(self.id);
    }
}
