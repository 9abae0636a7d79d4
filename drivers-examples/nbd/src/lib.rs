//! Example driver: serves any block node over the NBD protocol.

mod config;
mod protocol;
mod session;
mod uri;
