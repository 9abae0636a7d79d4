//! Example driver: serves any block node over the NBD protocol.
//!
//! It binds to nodes with the property `protocol = "block"`, listens on TCP and Unix sockets, and carries requests to
//! the node over a channel. It has no thread of its own: each connection is one future on a dispatcher of its own, its
//! socket a wait on that dispatcher.
//!
//! | file | what |
//! |---|---|
//! | `driver` | life cycle and the keys of the manifest (`config`) |
//! | `server` | what connections share; letting them in, up to a limit (`seats`) |
//! | `connection` | one connection: handshake (`negotiate`), then transmission (`transmit`), and its `end` |
//! | `protocol` | the protocol as pure code: handshake, requests, and the verdict on each |
//! | `session` | the transmission phase without input or output: requests, pieces, limits, replies |
//! | `device` | the block protocol's side |
//! | `patience` | timeouts |
//!
//! # Limits
//! Nothing that a client does makes the driver hold more than a fixed amount for it: `session` has the numbers. A client
//! that does not read, stops in the middle, or never speaks, holds up only itself and is closed after a timeout.
//!
//! # Shutdown
//! `prepare_stop` closes the listeners, then asks each connection to leave: it takes no further requests, answers those
//! under way, tells `ESHUTDOWN` to those that would take long, and closes, all within half a second. What is left after
//! that is dropped with its dispatcher.
//!
//! # Panics
//! A panic while serving a connection closes that connection; the host then deals with the driver by its policy.

mod config;
mod connection;
mod device;
mod driver;
mod end;
mod inbox;
mod negotiate;
mod patience;
mod protocol;
mod seats;
mod server;
mod session;
mod transmit;
mod uri;

use fuchsine_driver::DriverEntry;

pub use driver::Nbd;

/// What a host needs to know of this driver.
pub const DRIVER: DriverEntry = DriverEntry::of::<Nbd>();
