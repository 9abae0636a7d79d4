//! The fake drivers around the driver under test: the parent that offers its node, and children that bind to its nodes.

use std::sync::Arc;

use fuchsine_driver::{
    Child, ChildNode, ConfigKey, ConfigKind, Driver, DriverContext, DriverEntry, StartError, Status, StopError,
};
use serde::Deserialize;

use crate::hub::Hub;

pub(crate) static PARENT: DriverEntry = DriverEntry::of::<FakeParent>();
pub(crate) static CHILD: DriverEntry = DriverEntry::of::<FakeChild>();

const CONFIG: &[ConfigKey] = &[ConfigKey::required("harness", ConfigKind::Integer, "the number of the harness")];

#[derive(Deserialize)]
struct Config {
    harness: u64,
}

fn hub(cx: &DriverContext) -> Result<Arc<Hub>, StartError> {
    let Config { harness } = cx.config()?;
    Hub::find(harness).ok_or_else(|| StartError::new(Status::NotFound, "the harness is gone"))
}

/// Offers the node that the driver under test is bound to, with the properties and services that the test asked for.
struct FakeParent {
    _node: Child,
}

impl Driver for FakeParent {
    const NAME: &'static str = "test-parent";
    const CONFIG: &'static [ConfigKey] = CONFIG;

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let hub = hub(&cx)?;
        let mut child = ChildNode::new(hub.node.clone()).property("harness", hub.number.to_string());
        for (key, value) in &hub.properties {
            child = child.property(key, value);
        }
        for (name, accept) in &hub.services {
            let (hub, service, accept) = (Arc::downgrade(&hub), name.clone(), accept.clone());
            child = child.service(name, move |end| match (&accept, hub.upgrade()) {
                (Some(accept), _) => accept(end),
                (None, Some(hub)) => hub.state.lock().arrived.entry(service.clone()).or_default().push_back(end),
                (None, None) => {}
            });
        }
        Ok(FakeParent { _node: cx.add_child(child)? })
    }
}

/// Binds to a node of the driver under test, and connects to services there when the test asks for it.
struct FakeChild {
    hub: Arc<Hub>,
    node: String,
}

impl Driver for FakeChild {
    const NAME: &'static str = "test-child";
    const CONFIG: &'static [ConfigKey] = CONFIG;

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let (hub, node) = (hub(&cx)?, cx.node().name());
        hub.state.lock().children.insert(node.clone(), cx);
        Ok(FakeChild { hub, node })
    }

    async fn prepare_stop(&self) -> Result<(), StopError> {
        let gone = self.hub.state.lock().children.remove(&self.node);
        drop(gone);
        Ok(())
    }
}
