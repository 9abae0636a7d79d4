//! The node that a driver is bound to, and the children that it adds.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;

use thiserror::Error;

use crate::abi::{Accept, CallSite, ChildObject, ContextObject, here};
use crate::slot::Slot;
use crate::{Channel, Dispatcher, Status, current};

/// The node that a driver is bound to.
#[derive(Clone)]
pub struct Node {
    context: ContextObject,
}

impl Node {
    pub(crate) fn new(context: ContextObject) -> Self {
        Node { context }
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.context.node_name()
    }

    /// Its properties, in the order in which they were given; then, unless they were given too, `parent`, the name in the
    /// manifest of the driver that added it, and `name`.
    pub fn properties(&self) -> Vec<(String, String)> {
        self.context.node_properties()
    }

    /// One property.
    pub fn property(&self, key: &str) -> Option<String> {
        self.properties().into_iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The names of the parents, in the order of the manifest, if the driver is a composite: a driver on several nodes at
    /// once. Empty for any other driver.
    pub fn parents(&self) -> Vec<String> {
        let names = self.property("parents").unwrap_or_default();
        names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }

    /// One parent of a composite. Nothing is asked of the host yet: what is no parent, or an optional one that is not
    /// there, has no properties, and no service is found on it.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(cx: &fuchsine_driver::DriverContext) -> Result<(), fuchsine_driver::Status> {
    /// let left = cx.node().parent("left").connect("block").await?;
    /// # drop(left); Ok(()) }
    /// ```
    pub fn parent(&self, name: &str) -> Parent {
        Parent { node: self.clone(), name: name.to_owned() }
    }

    /// Connects to a service that the parent offers at this node; gives the client end of a new channel. Of a composite it
    /// is the first parent that is asked; [`parent`](Self::parent) names another.
    ///
    /// # Errors
    /// `NotFound`: the parent offers no such service. `Unavailable`: the parent is stopping. `Canceled`: the dispatcher
    /// that awaits shuts down. `BadState`: outside of any dispatcher.
    #[track_caller]
    pub fn connect(&self, service: &str) -> impl Future<Output = Result<Channel, Status>> {
        self.connect_at(here::<Node>(), service)
    }

    async fn connect_at(&self, site: &'static CallSite, service: &str) -> Result<Channel, Status> {
        let dispatcher = current().ok_or(Status::BadState)?;
        let slot = Arc::new(Slot::new());
        let filled = Arc::clone(&slot);
        self.context
            .connect(site, service, dispatcher.object(), move |end| filled.fill(end))
            .map_err(|(_, status)| status)?;
        poll_fn(|cx| slot.poll_take(cx)).await.map(Channel::from_object)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("name", &self.name()).finish()
    }
}

/// One of the nodes that a composite is made of.
#[derive(Debug, Clone)]
pub struct Parent {
    node: Node,
    name: String,
}

impl Parent {
    /// The name that the manifest gives it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its properties, as they were when the driver was started.
    pub fn properties(&self) -> Vec<(String, String)> {
        let of_it = |(key, value): (String, String)| {
            let key = key.strip_prefix(&self.name)?.strip_prefix('/')?;
            Some((key.to_owned(), value))
        };
        self.node.properties().into_iter().filter_map(of_it).collect()
    }

    /// One property.
    pub fn property(&self, key: &str) -> Option<String> {
        self.properties().into_iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Connects to a service that is offered at this node; gives the client end of a new channel.
    ///
    /// # Errors
    /// `NotFound`: no such service, or an optional parent that is not there at this moment. `Unavailable`: the driver above
    /// is stopping. `Canceled`: the dispatcher that awaits shuts down. `BadState`: outside of any dispatcher.
    pub async fn connect(&self, service: &str) -> Result<Channel, Status> {
        self.node.connect(&format!("{}/{service}", self.name)).await
    }
}

/// A child node to be added: what other drivers are matched against, and the services that they can connect to.
///
/// # Examples
/// ```no_run
/// # fn example(cx: &fuchsine_driver::DriverContext) -> Result<(), fuchsine_driver::StartError> {
/// use fuchsine_driver::ChildNode;
/// let child = cx.add_child(ChildNode::new("disk").property("protocol", "block").service("block", |channel| {
///     // Serve the channel: spawn a future that reads it.
///     drop(channel);
/// }))?;
/// # drop(child); Ok(()) }
/// ```
#[must_use = "a child node does nothing until it is passed to `DriverContext::add_child`"]
pub struct ChildNode {
    name: String,
    properties: Vec<(String, String)>,
    services: Vec<Accept>,
    dispatcher: Option<Dispatcher>,
}

impl ChildNode {
    /// A child with this name, unique among its siblings.
    pub fn new(name: impl Into<String>) -> Self {
        ChildNode { name: name.into(), properties: Vec::new(), services: Vec::new(), dispatcher: None }
    }

    /// Adds a property.
    pub fn property(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push((key.into(), value.into()));
        self
    }

    /// Adds a service. `accept` gets the server end of each connection, on the dispatcher of the child.
    #[track_caller]
    pub fn service<F>(mut self, name: impl Into<String>, accept: F) -> Self
    where
        F: Fn(Channel) + Send + Sync + 'static,
    {
        let accept = Box::new(move |end| accept(Channel::from_object(end)));
        self.services.push(Accept { name: name.into(), site: here::<F>(), accept });
        self
    }

    /// The dispatcher on which connections are accepted; the default dispatcher of the driver if none is given.
    pub fn dispatcher(mut self, dispatcher: &Dispatcher) -> Self {
        self.dispatcher = Some(dispatcher.clone());
        self
    }

    pub(crate) fn add_to(self, site: &'static CallSite, context: &ContextObject) -> Result<Child, AddChildError> {
        let ChildNode { name, properties, services, dispatcher } = self;
        let dispatcher = dispatcher.unwrap_or_else(|| Dispatcher::from_object(context.dispatcher()));
        match context.add_child(site, dispatcher.object(), &name, &properties, services) {
            Ok(object) => Ok(Child { object: Some(object) }),
            Err((status, message)) => Err(AddChildError {
                status,
                message: if message.is_empty() { format!("child {name:?} cannot be added: {status}") } else { message },
            }),
        }
    }
}

impl fmt::Debug for ChildNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildNode")
            .field("name", &self.name)
            .field("properties", &self.properties)
            .finish_non_exhaustive()
    }
}

/// A child that was added.
#[derive(Debug)]
#[must_use = "dropping a child removes it; keep it in the driver, or call `detach`"]
pub struct Child {
    /// Present until it is detached.
    object: Option<ChildObject>,
}

impl Child {
    /// Removes the child and completes when it is gone: the drivers below it have stopped.
    ///
    /// # Errors
    /// `Canceled`: the dispatcher that awaits shuts down. `BadState`: outside of any dispatcher. The removal goes on.
    #[track_caller]
    pub fn remove(self) -> impl Future<Output = Result<(), Status>> {
        self.remove_at(here::<Child>())
    }

    async fn remove_at(self, site: &'static CallSite) -> Result<(), Status> {
        let dispatcher = current().ok_or(Status::BadState)?;
        let slot = Arc::new(Slot::new());
        let filled = Arc::clone(&slot);
        if let Some(object) = &self.object {
            object.remove_then(site, dispatcher.object(), move |end| filled.fill(end)).map_err(|(_, status)| status)?;
        }
        poll_fn(|cx| slot.poll_take(cx)).await
    }

    /// Leaves the child until the driver stops.
    pub fn detach(mut self) {
        self.object = None;
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(object) = &self.object {
            object.remove();
        }
    }
}

/// A child could not be added.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct AddChildError {
    status: Status,
    message: String,
}

impl AddChildError {
    /// Why.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Why, alone.
    pub fn into_status(self) -> Status {
        self.status
    }
}

impl From<AddChildError> for Status {
    fn from(error: AddChildError) -> Self {
        error.status
    }
}
