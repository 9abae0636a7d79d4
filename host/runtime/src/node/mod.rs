//! Nodes: what drivers bind to and what they publish. Pure data; who runs where is the business of `supervisor`.

mod properties;
mod removal;
mod tree;

pub(crate) use properties::BindRule;
pub use properties::Properties;
pub(crate) use removal::{DriverPresence, Duty};
pub(crate) use tree::{AddError, Binding, NodeId, NodeTree};
