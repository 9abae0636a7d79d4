//! Example driver: a block device held in memory.

mod config;
mod image;
mod size;
mod store;

pub use size::{ByteSize, ParseSizeError};
