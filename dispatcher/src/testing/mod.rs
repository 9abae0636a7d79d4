//! The testing kit (L6), behind the feature `testing`: runtimes that stand still until a test turns the crank, and
//! explorations of the orders in which things can happen.

mod assertions;
mod awaiting;
#[cfg(test)]
mod busy;
mod crank;
mod deadlock;
mod default_dispatcher;
mod determinism;
mod director;
mod exhaustive;
mod explored;
mod explorer;
#[cfg(test)]
mod explorer_tests;
mod failure;
mod fallible;
mod foreground;
mod injected;
mod injector;
mod leaks;
mod ledger;
#[cfg(test)]
mod notes_tests;
mod out_of_sight;
mod panics;
mod pending;
mod promises;
#[cfg(test)]
mod promises_tests;
mod random;
mod recording;
mod refused_threads;
mod run;
mod schedule;
mod shrink;
mod strategy;
mod target;
mod trace;
mod trigger;
mod watch;
mod watchdog;

pub use crate::sys::sim;
pub use assertions::{assert_canceled, assert_fifo, assert_never_parallel};
pub use awaiting::RunError;
pub use crank::QuitHandle;
pub use deadlock::Waits;
pub use default_dispatcher::set_default_dispatcher;
pub use explored::Explored;
pub use explorer::{Explorer, explore};
pub use failure::Failure;
pub use fallible::Fallible;
pub use foreground::ForegroundRuntime;
pub use injected::Injected;
pub use injector::{Injector, fail_every, panic_at_every_callback, shutdown_at_every_step};
pub use promises::BrokenPromise;
pub use recording::{Ending, RecordedCallback, Recording};
pub use refused_threads::refuse_threads_after;
pub use schedule::{ParseScheduleError, ParseSeedsError, Schedule, Seeds};
pub use strategy::Strategy;
pub use target::Target;
pub use trace::Trace;
