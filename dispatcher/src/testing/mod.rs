//! The testing kit (L6), behind the feature `testing`: runtimes that stand still until a test turns the crank.

mod awaiting;
mod crank;
mod default_dispatcher;
mod foreground;
#[cfg(test)]
mod notes_tests;
mod refused_threads;

pub use crate::sys::sim;
pub use awaiting::RunError;
pub use crank::QuitHandle;
pub use default_dispatcher::set_default_dispatcher;
pub use foreground::ForegroundRuntime;
pub use refused_threads::refuse_threads_after;
