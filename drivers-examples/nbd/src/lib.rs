//! Example driver: serves any block node over the NBD protocol.

mod config;
mod protocol;
mod seats;
mod session;
mod uri;
