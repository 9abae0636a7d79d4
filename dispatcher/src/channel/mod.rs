//! Channels (L4): pairs of ends between drivers of one process.
//!
//! A message is bytes in an arena plus handles; writing moves it and copies nothing. A read is registered on a
//! dispatcher, once at a time, and its handler may run on the writer's thread before the write returns.
//!
//! | file | noun |
//! |---|---|
//! | `arena` | memory for messages |
//! | `message`, `value` | what travels, and the handles that travel with it; any value as one of them |
//! | `pair`, `ends`, `polls` | the state machine of the two ends; the ends as data; futures that wait there |
//! | `slot`, `calls`, `wait_op` | what an end waits for; its calls; what a registration is to them |
//! | `channel`, `registration`, `channel_read`, `standing_read`, `receive`, `writable` | an end; what is registered on it: reads, handlers of messages, waits for room |
//! | `call`, `txid` | requests and their replies; what ties one to the other |
//! | `typed` | clients and servers that exchange Rust values |
//! | `token` | the rendezvous of two drivers |
//! | `teardown` | the destruction of what nobody read |
//! | `limits`, `error` | how much may wait; what comes back |
//!
//! # Locks
//! A pair has one lock, and so has a token. Under it a dispatcher's lock may be taken, to accept a registration,
//! to make one ready or to take one back, never the other way round; calling handlers, waking a future, and everything else
//! that may run user code happens with no lock held.

#[cfg(not(loom))]
mod arena;
#[cfg(all(test, not(any(loom, shuttle))))]
mod arena_tests;
#[cfg(not(loom))]
mod call;
mod calls;
#[cfg(not(loom))]
#[expect(clippy::module_inception, reason = "the end of a channel is called as the layer is")]
mod channel;
#[cfg(not(loom))]
mod channel_read;
mod ends;
#[cfg(not(loom))]
mod error;
mod limits;
#[cfg(all(test, loom))]
mod loom_pair;
#[cfg(all(test, loom))]
mod loom_standing;
#[cfg(not(loom))]
mod message;
#[cfg(all(test, not(any(loom, shuttle))))]
mod message_tests;
mod pair;
#[cfg(all(test, not(any(loom, shuttle))))]
mod pair_tests;
mod polls;
mod readers;
#[cfg(not(loom))]
mod receive;
#[cfg(not(loom))]
mod registration;
#[cfg(all(test, shuttle))]
mod shuttle_call;
#[cfg(all(test, shuttle))]
mod shuttle_channel;
#[cfg(all(test, shuttle))]
mod shuttle_room;
#[cfg(all(test, shuttle))]
mod shuttle_standing;
#[cfg(all(test, shuttle))]
mod shuttle_token;
mod slot;
#[cfg(not(loom))]
mod standing_read;
#[cfg(not(loom))]
mod teardown;
#[cfg(not(loom))]
mod token;
#[cfg(not(loom))]
mod txid;
#[cfg(not(loom))]
pub(crate) mod typed;
#[cfg(not(loom))]
mod value;
mod wait_op;
#[cfg(not(loom))]
mod writable;

#[cfg(not(loom))]
pub use arena::{Arena, Buffer};
#[cfg(not(loom))]
pub use channel::Channel;
#[cfg(not(loom))]
pub use error::{CallError, Refused, WriteError};
pub use limits::Limits;
#[cfg(not(loom))]
pub use message::{Handle, Message};
pub use pair::ReadError;
#[cfg(not(loom))]
pub use token::Token;
#[cfg(not(loom))]
pub use txid::Txid;
#[cfg(not(loom))]
pub use typed::{Client, Incoming, Protocol, ReceiveError, Responder, Server};
#[cfg(not(loom))]
pub use value::Value;
