//! Channels between processes, and processes to have at the other side.
//!
//! A *bridge* joins one end of a channel with a socket, whose other side is joined with another end in another process. The
//! driver that holds the peer of such an end talks to the far driver as if it were here:
//!
//! ```text
//!   driver ── channel ── bridge ══ socket ══ bridge ── channel ── driver
//! ```
//!
//! What holds for a channel holds for two of them with bridges in between:
//!
//! - Messages arrive once and in the order of their writes; replies go to the call that they answer, past the queue.
//! - An end is told `PeerClosed` when the other one was closed, or its process has ended, however that was, and everything
//!   is read that arrived.
//! - Descriptors travel as descriptors. An end of a channel in a message becomes the end of a new bridge, with what waited in
//!   it, and with the same limits.
//! - A full queue stops the bridge that writes to it, then the socket, then the bridge that reads from the other queue, and
//!   in the end the writer, which is told `ShouldWait` if its channel has a limit and `Ok` otherwise.
//!
//! What differs:
//!
//! - Bytes are copied, twice by the kernel. A writer learns by `Ok` that its message is on the way, not that it has arrived.
//! - With limits, what the two queues and the socket hold adds up.
//! - A message has at most 253 handles, which is what the kernel takes at once, and at most 16 MiB; values other than ends and
//!   descriptors (tokens, values of Rust) have no meaning elsewhere. The bridge closes both ends where it finds a message
//!   that cannot cross, after those that came before it, and says why in the log.
//! - A caller that gives up is not told to the server, whose reply is dropped when it comes.
//!
//! # Parts
//! | file | noun |
//! |---|---|
//! | `packet` | the head of a message as bytes, checked |
//! | `packets` | a socket on which packets keep their bounds, with descriptors |
//! | `bridge` | what carries messages from one to the other and back |
//! | `replies` | the calls of the far side that are not answered yet |
//! | `child` | a process that was started with a socket, its end, and how that is told |
//! | `adopt` | what such a process does first |
//! | `sandbox` | fences that such a process puts on itself |
//!
//! A [`Child`] is in a group of its own, gets one side of a [`socket_pair`] and [`adopt`]s it. It ends with its parent, and so does
//! everything that it has started.
//!
//! # Shutdown and panic
//! A bridge is a future of the dispatcher that it was made on, and ends with it: both its sides are closed then. It never
//! blocks, and it calls no code of drivers other than handlers that run inside of a write.

mod adopt;
mod bridge;
mod child;
#[cfg(test)]
mod child_tests;
pub(crate) mod packet;
pub(crate) mod packets;
mod replies;
mod sandbox;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::OwnedFd;

pub use adopt::adopt;
pub(crate) use adopt::close_inherited;
pub use bridge::bridge;
pub use child::{Child, Death};
pub use sandbox::{Enforce, Refusal, Sandbox, SandboxError, SystemCalls};

/// Two connected sockets for the two sides of a bridge, one of which goes to another process. Neither is inherited by
/// programs that this process starts, unless it is passed on on purpose.
///
/// # Errors
/// What the system said: this process, or the system, has as many descriptors as it may.
pub fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    packets::pair()
}
