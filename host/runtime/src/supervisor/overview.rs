//! Where each rule stands: its instances, and the nodes that they have left.

use std::collections::BTreeMap;

use super::Supervisor;
use crate::life_cycle::{InstanceId, Phase};
use crate::node::{Binding, RuleId};

/// One rule of the manifest.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) id: RuleId,
    /// Whether it was stopped by request.
    pub(crate) held: bool,
    /// The oldest first.
    pub(crate) instances: Vec<(InstanceId, Phase)>,
    /// The nodes on which it was last, where none is now, with what became of it there.
    pub(crate) left: Vec<(String, Binding)>,
}

impl Supervisor {
    /// All rules of the manifest, in the order in which nodes are offered to them.
    pub(crate) fn overview(&self) -> Vec<Standing> {
        let mut instances: BTreeMap<RuleId, Vec<(InstanceId, Phase)>> = BTreeMap::new();
        for (&id, instance) in &self.instances {
            instances.entry(instance.rule).or_default().push((id, instance.life.phase()));
        }
        let mut left: BTreeMap<RuleId, Vec<(String, Binding)>> = BTreeMap::new();
        for id in self.tree.subtree(self.tree.root()) {
            let Some(node) = self.tree.get(id) else { continue };
            if let Some(rule) = node.binding.last() {
                left.entry(rule).or_default().push((self.tree.path(id).to_string(), node.binding));
            }
        }
        let standing = self.rules.in_order().into_iter().map(|(id, entry)| Standing {
            id,
            held: entry.is_held(),
            instances: instances.remove(&id).unwrap_or_default(),
            left: left.remove(&id).unwrap_or_default(),
        });
        standing.collect()
    }
}
