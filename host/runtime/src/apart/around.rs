//! The drivers around one in a child process: above it, for its parent, and below it, for whoever is on its children.

use std::sync::Arc;

use fuchsine_driver::{Child, ChildNode, Driver, DriverContext, DriverEntry, StartError, Status, StopError};

use super::MARK;
use super::protocol::ToHost;
use super::session::{Session, of_config};
use crate::load;

pub(super) static ABOVE: DriverEntry = DriverEntry::of::<Above>();
pub(super) static BELOW: DriverEntry = DriverEntry::of::<Below>();

/// Has a node with the properties of the one in the host. What is offered there, the session connects to.
struct Above {
    _node: Child,
}

/// Is on a child of the driver, and has the stand-in in the host add the same one.
struct Below {
    session: Arc<Session>,
    /// Of the child, here.
    node: String,
}

fn session_of(cx: &DriverContext) -> Result<Arc<Session>, StartError> {
    of_config(&cx.config_text()).ok_or_else(|| StartError::new(Status::BadState, "its session is gone"))
}

impl Driver for Above {
    const NAME: &'static str = "above";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let session = session_of(&cx)?;
        let mut node = ChildNode::new(&session.run.node);
        for (key, value) in &session.run.properties {
            node = node.property(key, value);
        }
        node = node.property(MARK, "yes");
        Ok(Above { _node: cx.add_child(node)? })
    }
}

impl Driver for Below {
    const NAME: &'static str = "below";

    async fn start(cx: DriverContext) -> Result<Self, StartError> {
        let session = session_of(&cx)?;
        let instance = load::instance_of(&cx);
        let node = instance.node_path.clone();
        let host = instance.host.upgrade();
        let child = ToHost::AddChild {
            node: node.clone(),
            name: instance.node_name.clone(),
            properties: instance.properties.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            services: host.map(|host| host.services_at(instance.node)).unwrap_or_default(),
        };
        session.ask(&child).await.map_err(|error| StartError::new(Status::Internal, error))?;
        Ok(Below { session, node })
    }

    async fn prepare_stop(&self) -> Result<(), StopError> {
        // If nobody is there any more, neither is the child.
        let _ = self.session.ask(&ToHost::RemoveChild { node: self.node.clone() }).await;
        Ok(())
    }
}
