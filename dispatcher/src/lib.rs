//! Event loops, dispatchers, channels and futures: everything in Fuchsine that runs callbacks.

mod status;
mod sync;
mod time;

pub use status::{Canceled, Status};
pub use time::Instant;
