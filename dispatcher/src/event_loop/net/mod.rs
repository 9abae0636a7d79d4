//! The network on loops: listeners, connections and datagram sockets, each served by one loop.
//!
//! | | from | its callbacks run on |
//! |---|---|---|
//! | [`listen`](crate::event_loop::EventLoop::listen) | loop 0 of a manager | for each connection: the loop that the connection was handed to |
//! | [`connect`](crate::event_loop::EventLoop::connect) | any loop | the loop that connects |
//! | [`udp`](crate::event_loop::EventLoop::udp) | any loop | the loop that opened the socket |
//!
//! A [`Connection`] belongs to one loop for life. It cannot be sent to another thread, so all that is done with it is
//! done there; other threads ask the loop by [`async_run`](crate::event_loop::LoopHandle::async_run).
//!
//! # Rules
//! - No callback runs inside the call that led to it: not when the outcome is known at once, not when the call fails.
//! - Each callback that was accepted is told its outcome, once (a read: once for the end, after any number of calls
//!   with bytes). What is refused comes back to the caller.
//! - Nothing grows without end: what a connection has not been able to send is bounded, and beyond it a write is
//!   refused, with the bytes.
//! - A connection lives as long as somebody holds a handle to it, or a read is registered, or bytes wait to be sent.
//!   [`Connection::close`] ends it before.
//!
//! # When the loop shuts down
//! 1. Listeners close at once.
//! 2. The teardown callbacks run; connections are whole still.
//! 3. Each pending read, connect and wait for room is told [`NetError::Canceled`]. From there a callback may say
//!    goodbye: what is written is still sent.
//! 4. Bytes that were accepted go on being sent, within the time to linger. What has not gone out by then is told
//!    `Canceled`, and everything is closed.

mod address;
mod connecting;
mod connection;
mod error;
mod listener;
mod read_half;
mod reading;
mod table;
mod udp;
mod write_queue;
mod writing;

pub(crate) use table::{NetTable, Stage};

pub use address::{Address, AddressError};
pub use connecting::Connecting;
pub use connection::{Connection, ConnectionOptions};
pub use error::{NetError, NetRefused};
pub use listener::{ListenOptions, Listener, ListenerCounters, Spread};
pub use udp::{Udp, UdpOptions};
