//! The tree of nodes: names, properties, who is bound where, and what is leaving.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use super::properties::Properties;
use super::removal::Removal;
use crate::life_cycle::InstanceId;

/// One node. Ids are never used twice, so an old one finds nothing rather than another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(u64);

/// One driver of the manifest, as far as matching is concerned. Ids are never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RuleId(pub(crate) u32);

/// The nodes that one composite is made of. Ids are never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SetId(pub(crate) u32);

/// Who is bound to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    /// Nobody yet; the node is offered to drivers.
    Unbound,
    /// This driver instance.
    Bound(InstanceId),
    /// It is one of the parents of a composite.
    Part(SetId),
    /// This driver is started here again in a while. The number tells one wait from the next.
    Waiting(RuleId, u64),
    /// This driver was stopped by request. The node is kept, and offered to nobody until it is asked for.
    Held(RuleId),
    /// This driver came to its own end here. The node is kept, and offered to nobody.
    Done(RuleId),
    /// This driver failed here. The node is kept, and offered to nobody.
    Quarantined(RuleId),
}

impl Binding {
    /// The driver that was here last, where none is now and the node is not offered to others.
    pub(crate) fn last(self) -> Option<RuleId> {
        match self {
            Binding::Waiting(rule, _) | Binding::Held(rule) | Binding::Done(rule) | Binding::Quarantined(rule) => {
                Some(rule)
            }
            Binding::Unbound | Binding::Bound(_) | Binding::Part(_) => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    /// The root has none.
    pub(crate) parent: Option<NodeId>,
    /// The nodes beside the parent that it must not outlive: what a composite is made of.
    pub(crate) rests_on: Vec<NodeId>,
    /// In the order in which they were added, those that only rest on it too.
    pub(crate) children: BTreeSet<NodeId>,
    /// The driver that the node was made for, if it was made for one.
    pub(crate) made_for: Option<RuleId>,
    pub(crate) properties: Properties,
    pub(crate) binding: Binding,
    pub(crate) removal: Removal,
}

impl Node {
    fn new(name: &str, parent: Option<NodeId>, properties: Properties) -> Node {
        Node {
            name: name.to_owned(),
            parent,
            rests_on: Vec::new(),
            children: BTreeSet::new(),
            made_for: None,
            properties,
            binding: Binding::Unbound,
            removal: Removal::Running,
        }
    }
}

/// Why a node was not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddError {
    #[error("`{0}` cannot name a node: it must have 1 to 64 characters, none of them `/` or a control character")]
    BadName(String),
    #[error("there is a child node `{0}` already")]
    Exists(String),
    #[error("the child node `{0}` is still being removed; add it again once that is done")]
    Leaving(String),
    #[error("the node above is gone or being removed")]
    ParentLeaving,
}

/// All nodes. The root always exists until it is removed, and bears no driver.
#[derive(Debug)]
pub(crate) struct NodeTree {
    nodes: BTreeMap<NodeId, Node>,
    /// Which child of a node has a name.
    names: HashMap<(NodeId, String), NodeId>,
    root: NodeId,
    next: u64,
}

impl NodeTree {
    pub(crate) const MAX_NAME: usize = 64;

    pub(crate) fn new() -> NodeTree {
        let root = NodeId(0);
        let node = Node::new("", None, Properties::default());
        NodeTree { nodes: BTreeMap::from([(root, node)]), names: HashMap::new(), root, next: 1 }
    }

    pub(crate) fn root(&self) -> NodeId {
        self.root
    }

    pub(crate) fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(&id)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// All nodes that are left, parents before children.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().map(|(&id, node)| (id, node))
    }

    /// Adds a node below `parent`. The property `name` is the node's name, unless another value is given for it.
    pub(crate) fn add(&mut self, parent: NodeId, name: &str, mut properties: Properties) -> Result<NodeId, AddError> {
        let bad = name.is_empty()
            || name.chars().count() > Self::MAX_NAME
            || name.chars().any(|c| c == '/' || c.is_control());
        if bad {
            return Err(AddError::BadName(name.to_owned()));
        }
        self.nodes.get(&parent).filter(|node| !node.removal.is_leaving()).ok_or(AddError::ParentLeaving)?;
        let key = (parent, name.to_owned());
        if let Some(sibling) = self.names.get(&key).and_then(|id| self.nodes.get(id)) {
            let leaving = sibling.removal.is_leaving();
            return Err(if leaving { AddError::Leaving } else { AddError::Exists }(key.1));
        }
        let id = NodeId(self.next);
        self.next += 1;
        properties.add_default("name", name);
        self.nodes.insert(id, Node::new(name, Some(parent), properties));
        self.names.insert(key, id);
        self.nodes.get_mut(&parent).expect("looked up above").children.insert(id);
        Ok(id)
    }

    /// Has a node without children rest on others: it counts as a child of each of them.
    pub(crate) fn rest_on(&mut self, id: NodeId, others: Vec<NodeId>) {
        for other in &others {
            if let Some(other) = self.nodes.get_mut(other) {
                other.children.insert(id);
            }
        }
        if let Some(node) = self.nodes.get_mut(&id) {
            node.rests_on = others;
        }
    }

    /// Takes a node out; returns the nodes that it was a child of. Those of the root are none.
    ///
    /// # Panics
    /// If the node has children: those go first.
    pub(crate) fn take_out(&mut self, id: NodeId) -> Vec<NodeId> {
        let Some(node) = self.nodes.remove(&id) else { return Vec::new() };
        assert!(node.children.is_empty(), "the node `{}` was removed before its children", node.name);
        if let Some(parent) = node.parent {
            self.names.remove(&(parent, node.name));
        }
        let above: Vec<NodeId> = node.parent.into_iter().chain(node.rests_on).collect();
        for parent in &above {
            if let Some(parent) = self.nodes.get_mut(parent) {
                parent.children.remove(&id);
            }
        }
        above
    }

    /// All nodes above this one, each once.
    pub(crate) fn above(&self, id: NodeId) -> BTreeSet<NodeId> {
        let mut found = BTreeSet::new();
        let mut to_visit = vec![id];
        while let Some(node) = to_visit.pop().and_then(|id| self.nodes.get(&id)) {
            let parents = node.parent.iter().chain(&node.rests_on);
            to_visit.extend(parents.copied().filter(|&parent| found.insert(parent)));
        }
        found
    }

    /// The node of this path, such as `/ramdisk/block`.
    pub(crate) fn find(&self, path: &str) -> Option<NodeId> {
        let path = path.strip_prefix('/')?;
        if path.is_empty() {
            return Some(self.root);
        }
        path.split('/').try_fold(self.root, |at, name| self.names.get(&(at, name.to_owned())).copied())
    }

    /// The node and all below it, each once, and of siblings the newest first. A node stands behind its parent.
    pub(crate) fn subtree(&self, id: NodeId) -> Vec<NodeId> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        let mut to_visit = vec![id];
        while let Some(id) = to_visit.pop() {
            let Some(node) = self.nodes.get(&id) else { continue };
            // Most have one parent and can be reached by one way only.
            if node.rests_on.is_empty() || seen.insert(id) {
                found.push(id);
                to_visit.extend(&node.children);
            }
        }
        found
    }

    /// The names from below the root down to the node: `/ramdisk/block`. The root is `/`.
    pub(crate) fn path(&self, id: NodeId) -> NodePath {
        let mut names = Vec::new();
        let mut at = self.nodes.get(&id);
        while let Some(node) = at {
            names.push(node.name.clone());
            at = node.parent.and_then(|parent| self.nodes.get(&parent));
        }
        names.pop();
        names.reverse();
        NodePath(names)
    }
}

/// Where a node stands, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodePath(Vec<String>);

impl fmt::Display for NodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("/");
        }
        self.0.iter().try_for_each(|name| write!(f, "/{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(tree: &mut NodeTree, parent: NodeId, name: &str) -> NodeId {
        tree.add(parent, name, Properties::default()).unwrap()
    }

    #[test]
    fn names_are_unique_among_siblings_only() {
        let mut tree = NodeTree::new();
        let disk = add(&mut tree, NodeId(0), "disk");
        let again = tree.add(tree.root(), "disk", Properties::default());
        assert_eq!(again, Err(AddError::Exists("disk".into())));
        let below = add(&mut tree, disk, "disk");
        assert_eq!(tree.path(below).to_string(), "/disk/disk");
        assert_eq!(tree.path(tree.root()).to_string(), "/");
    }

    #[test]
    fn a_name_is_free_again_once_its_node_is_out_and_not_before() {
        let mut tree = NodeTree::new();
        let disk = add(&mut tree, NodeId(0), "disk");
        assert!(tree.get_mut(disk).unwrap().removal.mark());
        assert_eq!(tree.add(NodeId(0), "disk", Properties::default()), Err(AddError::Leaving("disk".into())));
        assert_eq!(tree.take_out(disk), [NodeId(0)]);
        assert_ne!(add(&mut tree, NodeId(0), "disk"), disk);
    }

    #[test]
    fn nothing_is_added_below_a_node_that_leaves_or_is_gone() {
        let mut tree = NodeTree::new();
        let disk = add(&mut tree, NodeId(0), "disk");
        assert!(tree.get_mut(disk).unwrap().removal.mark());
        assert_eq!(tree.add(disk, "part", Properties::default()), Err(AddError::ParentLeaving));
        tree.take_out(disk);
        assert_eq!(tree.add(disk, "part", Properties::default()), Err(AddError::ParentLeaving));
    }

    #[test]
    fn bad_names_are_refused() {
        let mut tree = NodeTree::new();
        for name in ["", "a/b", "a\nb", &"x".repeat(NodeTree::MAX_NAME + 1)] {
            assert_eq!(tree.add(NodeId(0), name, Properties::default()), Err(AddError::BadName(name.to_owned())));
        }
        assert!(tree.add(NodeId(0), &"x".repeat(NodeTree::MAX_NAME), Properties::default()).is_ok());
    }

    #[test]
    fn a_node_can_be_matched_by_its_name() {
        let mut tree = NodeTree::new();
        let disk = add(&mut tree, NodeId(0), "disk");
        assert_eq!(tree.get(disk).unwrap().properties.get("name"), Some("disk"));
    }

    #[test]
    fn a_subtree_lists_parents_first_and_the_newest_sibling_first() {
        let mut tree = NodeTree::new();
        let (a, b) = (add(&mut tree, NodeId(0), "a"), add(&mut tree, NodeId(0), "b"));
        let a1 = add(&mut tree, a, "1");
        assert_eq!(tree.subtree(tree.root()), [tree.root(), b, a, a1]);
        assert_eq!(tree.subtree(a), [a, a1]);
    }

    #[test]
    fn a_node_that_rests_on_others_is_a_child_of_each_and_stands_once() {
        let mut tree = NodeTree::new();
        let (a, b) = (add(&mut tree, NodeId(0), "a"), add(&mut tree, NodeId(0), "b"));
        let both = add(&mut tree, NodeId(0), "both");
        tree.rest_on(both, vec![a, b]);
        assert_eq!(tree.subtree(a), [a, both]);
        assert_eq!(tree.subtree(tree.root()), [tree.root(), both, b, a]);
        assert_eq!(tree.above(both), BTreeSet::from([tree.root(), a, b]));
        assert_eq!(tree.path(both).to_string(), "/both");
        assert_eq!(tree.take_out(both), [tree.root(), a, b]);
        assert_eq!(tree.subtree(a), [a]);
    }

    #[test]
    fn a_node_is_found_by_its_path() {
        let mut tree = NodeTree::new();
        let disk = add(&mut tree, NodeId(0), "disk");
        let block = add(&mut tree, disk, "block");
        assert_eq!(
            (tree.find("/"), tree.find("/disk"), tree.find("/disk/block")),
            (Some(NodeId(0)), Some(disk), Some(block))
        );
        for path in ["", "disk", "/disk/", "//disk", "/disk/block/x"] {
            assert_eq!(tree.find(path), None, "{path}");
        }
    }

    #[test]
    #[should_panic(expected = "before its children")]
    fn a_node_does_not_go_before_its_children() {
        let mut tree = NodeTree::new();
        let disk = add(&mut tree, NodeId(0), "disk");
        add(&mut tree, disk, "part");
        tree.take_out(disk);
    }
}
