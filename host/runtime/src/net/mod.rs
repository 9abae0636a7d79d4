//! Sockets of drivers: real ones, or those of a simulated network, behind one type.

mod address;
mod real;
mod socket;

pub(crate) use socket::{Direction, Socket, SocketWait, bits};
