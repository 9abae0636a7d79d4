//! Event loops, dispatchers, channels and futures: everything in Fuchsine that runs callbacks.

mod status;

pub use status::{Canceled, Status};
