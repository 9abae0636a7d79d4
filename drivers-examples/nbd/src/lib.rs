//! Example driver: serves any block node over the NBD protocol.

mod protocol;
mod session;
