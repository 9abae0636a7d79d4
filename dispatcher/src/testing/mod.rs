//! The testing kit (L6), behind the feature `testing`: runtimes that stand still until a test turns the crank, and
//! explorations of the orders in which things can happen.

mod awaiting;
mod crank;
mod default_dispatcher;
mod director;
mod exhaustive;
mod explorer;
#[cfg(test)]
mod explorer_tests;
mod failure;
mod foreground;
#[cfg(test)]
mod notes_tests;
mod panics;
mod pending;
mod random;
mod refused_threads;
mod schedule;
mod shrink;
mod strategy;
mod trace;

pub use crate::sys::sim;
pub use awaiting::RunError;
pub use crank::QuitHandle;
pub use default_dispatcher::set_default_dispatcher;
pub use explorer::{Explored, Explorer, explore};
pub use failure::Failure;
pub use foreground::ForegroundRuntime;
pub use refused_threads::refuse_threads_after;
pub use schedule::{ParseScheduleError, Schedule, Seeds};
pub use strategy::Strategy;
pub use trace::Trace;
