//! The node tree as users see it: what is there at one moment.

use crate::life_cycle::Phase;
use crate::node::{Binding, NodeId, Properties};

use super::shared::State;

/// One node of the tree, and the driver on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeInfo {
    pub(crate) path: String,
    pub(crate) properties: Properties,
    pub(crate) services: Vec<String>,
    pub(crate) driver: Option<(String, Phase)>,
    pub(crate) process: Option<u32>,
    pub(crate) quarantined: bool,
    pub(crate) state: String,
}

impl NodeInfo {
    /// Where it stands: the names from below the root down to it, such as `/ramdisk/block`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its own name.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Its properties.
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// The services that the driver above offers at it, in the order in which it named them.
    pub fn services(&self) -> &[String] {
        &self.services
    }

    /// The name in the manifest of the driver that is bound to it.
    pub fn driver(&self) -> Option<&str> {
        self.driver.as_ref().map(|(name, _)| name.as_str())
    }

    /// Where that driver stands in its life.
    pub fn phase(&self) -> Option<Phase> {
        self.driver.as_ref().map(|(_, phase)| *phase)
    }

    /// The number of the process that the driver runs in, if that is not the one of the host.
    pub fn process(&self) -> Option<u32> {
        self.process
    }

    /// Who has it, or why nobody has, as a sentence.
    pub fn state(&self) -> &str {
        &self.state
    }

    /// Whether a driver failed here, so that the node is offered to nobody any more.
    pub fn is_quarantined(&self) -> bool {
        self.quarantined
    }
}

impl State {
    /// All nodes below the root, parents before their children, siblings in the order in which they were added.
    pub(super) fn node_infos(&self) -> Vec<NodeInfo> {
        let tree = self.supervisor.tree();
        let mut to_visit = vec![tree.root()];
        let mut infos = Vec::new();
        while let Some(id) = to_visit.pop() {
            let Some(node) = tree.get(id) else { continue };
            let below = |child: &&NodeId| tree.get(**child).is_some_and(|child| child.parent == Some(id));
            // One that only rests on this node stands below its parent.
            to_visit.extend(node.children.iter().rev().filter(below));
            if id == tree.root() {
                continue;
            }
            let driver = match node.binding {
                Binding::Bound(instance) => {
                    self.instances.get(&instance).map(|found| (found.name.clone(), self.supervisor.phase_of(instance)))
                }
                _ => None,
            };
            let process = match node.binding {
                Binding::Bound(instance) => self.instances.get(&instance).and_then(|found| found.process_id()),
                _ => None,
            };
            infos.push(NodeInfo {
                process,
                path: tree.path(id).to_string(),
                properties: node.properties.clone(),
                services: self.service_names(id),
                driver,
                quarantined: matches!(node.binding, Binding::Quarantined(_)),
                state: self.supervisor.node_state(id),
            });
        }
        infos
    }

    /// What is offered at a node; at a composite, what is offered at each of its parents.
    fn service_names(&self, id: NodeId) -> Vec<String> {
        let mut names = self.nodes.service_names(id);
        for (parent, node) in self.supervisor.parents_of_composite(id) {
            names.extend(self.nodes.service_names(node).into_iter().map(|name| format!("{parent}/{name}")));
        }
        names
    }
}
