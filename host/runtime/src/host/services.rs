//! What nodes offer to the drivers bound to them, and who waits for a node to go.

use std::collections::HashMap;
use std::sync::Arc;

use fuchsine_dispatcher::DispatcherHandle;

use crate::load::Acceptor;
use crate::node::NodeId;

/// One service of a node.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) acceptor: Arc<Acceptor>,
    /// Of the driver that offers it: where connections are accepted.
    pub(crate) dispatcher: DispatcherHandle,
}

/// Called when a node is gone.
pub(crate) type Removed = Box<dyn FnOnce() + Send>;

/// What belongs to nodes beside what the supervisor must know.
#[derive(Default)]
pub(crate) struct NodeExtras {
    services: HashMap<NodeId, Vec<Service>>,
    removed: HashMap<NodeId, Vec<Removed>>,
}

impl NodeExtras {
    pub(crate) fn offer(&mut self, node: NodeId, services: Vec<Service>) {
        self.services.insert(node, services);
    }

    pub(crate) fn service(&self, node: NodeId, name: &str) -> Option<Service> {
        self.services.get(&node)?.iter().find(|service| service.name == name).cloned()
    }

    /// The names of what is offered at the node.
    pub(crate) fn service_names(&self, node: NodeId) -> Vec<String> {
        let services = self.services.get(&node).map(Vec::as_slice).unwrap_or_default();
        services.iter().map(|service| service.name.clone()).collect()
    }

    pub(crate) fn on_removed(&mut self, node: NodeId, then: Removed) {
        self.removed.entry(node).or_default().push(then);
    }

    /// The node is gone: what it offered, to be dropped, and whom to tell.
    pub(crate) fn take(&mut self, node: NodeId) -> (Vec<Service>, Vec<Removed>) {
        (self.services.remove(&node).unwrap_or_default(), self.removed.remove(&node).unwrap_or_default())
    }
}

impl std::fmt::Debug for NodeExtras {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeExtras").field("services", &self.services).finish_non_exhaustive()
    }
}

impl Service {
    /// Gives the service up. Its closure is the driver's, so it is dropped where the driver's callbacks run, if they
    /// still do.
    pub(crate) fn give_up(self) {
        let Service { acceptor, dispatcher, .. } = self;
        if let Err(refused) = dispatcher.post_task_from(acceptor.site(), move |_| drop(acceptor)) {
            crate::load::contain(&dispatcher, || drop(refused.into_inner()));
        }
    }
}
