//! Event loops, dispatchers, channels and futures: everything in Fuchsine that runs callbacks.

mod event_loop;
mod status;
mod sync;
mod sys;
mod time;

#[cfg(not(any(loom, shuttle)))]
pub use event_loop::WaitRefused;
pub use status::{Canceled, Status};
pub use sys::{Interest, Readiness};
pub use time::Instant;
