//! What a Fuchsine driver is written against: handles over a table of C functions.

pub mod abi;
mod status;

pub use abi::{ConfigKey, ConfigKind, DriverEntry};
pub use status::{Canceled, Status};
