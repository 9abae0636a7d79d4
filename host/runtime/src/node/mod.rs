//! Nodes: what drivers bind to and what they publish. Pure data; who runs where is the business of `supervisor`.

mod bind;
mod properties;
mod removal;
mod tree;

pub use bind::{BindRule, Condition};
pub use properties::Properties;
pub(crate) use removal::{DriverPresence, Duty};
pub(crate) use tree::{AddError, Binding, Node, NodeId, NodeTree, RuleId, SetId};
