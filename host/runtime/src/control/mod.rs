//! The control socket: how a host that runs is asked and told from outside.
//!
//! A Unix stream socket; each line is one JSON object, a request one way and answers the other way. The book's page
//! "Control socket" has the protocol for those who write clients of their own.
//!
//! - `place`: where the socket of a host is, and how a client finds it. `socket`: who may have it, and making it.
//! - `server`: the thread that accepts, and the clients that there are. `session`: one client, on a thread of its own.
//! - `request`: what may be asked. `answer`: what is said, for each request.
//! - `log_ring`: the last log lines, for those who want to follow them.
//! - `client`: the other end.
//!
//! # Threads
//! None of this runs on a dispatcher, and nothing of it waits for one. The socket is there for the moment in which a host
//! does not do what it should: all threads of its pool may be stuck then, and a driver-like dispatcher would be stuck with
//! them. A client that does not read holds up its own thread and nobody else; how many there are is limited.
//!
//! # Trust
//! The socket has mode 0600, and whoever connects must be the user of the host, or root, by what the kernel says. Such a
//! user can do to the host whatever it wants anyway. So the limits (of a line, of time, of clients) are there against
//! mistakes, and so that one client's mistake is nobody else's.

mod answer;
mod client;
mod clients;
mod complaints;
mod log_ring;
mod place;
mod request;
mod server;
mod session;
mod socket;
#[cfg(test)]
mod tests;

pub use client::{ControlClient, ControlError};
pub use log_ring::{LogRecord, LogRing};
pub use place::{ControlPlace, HostSocket};
pub use request::{DumpFormat, Load, Request, WaitFor};
pub use server::{ControlServer, ControlServerBuilder, Limits};
pub use socket::BindError;

/// The version of the protocol. It changes when a request or an answer changes its meaning or goes; a new request or a new
/// field of an answer does not change it.
pub const PROTOCOL: u32 = 1;
