//! Example driver: a block device held in memory.

mod config;
mod image;
mod store;
