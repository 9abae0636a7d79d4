//! The line to the operating system, and a stand-in for it.
//!
//! - `kernel`: the poll, the wake-up and the alarm clock, over `mio` and `rustix`. All of it is safe code.
//! - `event_count`: a counter in the kernel that can be waited on.
//! - `socket`: streams, listeners and datagram sockets that never block.
//! - `signals`: signals as bytes in a socket, over `signal-hook`.
//! - `pages`: memory that goes back to the system when it is given back.
//! - `thread_id`: what the system calls a thread.
//! - [`scheduling`](Scheduling): how the system schedules a thread.
//! - [`sim`]: streams, listeners and event counters that live in memory, for runs in which nothing may depend on a
//!   kernel.
//! - [`readiness`](Readiness): the words in which both say what a source is ready for.

#[cfg(not(any(loom, shuttle)))]
pub(crate) mod event_count;
#[cfg(not(any(loom, shuttle)))]
pub(crate) mod kernel;
#[cfg(not(loom))]
pub(crate) mod pages;
mod readiness;
mod scheduling;
#[cfg(not(any(loom, shuttle)))]
pub(crate) mod signals;
#[cfg(not(any(loom, shuttle)))]
pub mod sim;
#[cfg(not(any(loom, shuttle)))]
pub(crate) mod socket;
pub(crate) mod thread_id;

pub use readiness::{Interest, Readiness};
pub use scheduling::Scheduling;
