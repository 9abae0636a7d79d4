//! The testing kit (L6), behind the feature `testing`: runtimes that stand still until a test turns the crank.

mod foreground;

pub use crate::sys::sim;
pub use foreground::ForegroundRuntime;
