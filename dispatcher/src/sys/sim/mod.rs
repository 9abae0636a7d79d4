//! A small operating system in memory: byte streams, listeners and event counters, without any kernel object.
//!
//! They behave as their kernel counterparts do where a driver can tell: buffers are bounded, an operation that cannot
//! go on answers [`WouldBlock`](std::io::ErrorKind::WouldBlock), either direction of a stream closes by itself, a
//! connection waits in its listener's queue until it is accepted. They become ready through the same table of waits
//! as descriptors do, so code that runs on the one runs on the other; only that here nothing happens unless somebody
//! in this process does it, in an order that a seed can repeat.
//!
//! # Examples
//! ```
//! # #[cfg(feature = "testing")] {
//! use fuchsine_dispatcher::testing::sim::Net;
//!
//! let net = Net::new();
//! let listener = net.listen("127.0.0.1:0")?;
//! let client = net.connect(listener.local_addr())?;
//! client.write(b"hello")?;
//! let server = listener.accept()?;
//! let mut bytes = [0; 16];
//! assert_eq!(server.read(&mut bytes)?, 5);
//! # }
//! # Ok::<(), std::io::Error>(())
//! ```
#![cfg_attr(
    not(feature = "testing"),
    allow(unreachable_pub, dead_code, unused_imports, reason = "public only through the testing kit, a feature")
)]

mod event;
mod net;
mod object;
mod stream;

pub use event::Event;
pub use net::{Listener, Net};
pub use object::Object;
pub(crate) use object::Watcher;
pub use stream::Stream;

use std::io;

fn would_block(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, what)
}
