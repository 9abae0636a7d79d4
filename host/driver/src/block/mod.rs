//! The block protocol: how drivers read and write a block device over a [`Channel`](crate::Channel).
//!
//! A device offers the service `block` at a node with the property `protocol = "block"`. Requests and replies are
//! messages of bytes, little endian, with a header of 32 bytes and the payload right behind it. The payload stays where
//! it is: a device writes what was read into the very message of the request, and sends that back.
//!
//! | bytes | field | in a request | in a reply |
//! |---|---|---|---|
//! | 0..8 | id | chosen by the client | the same |
//! | 8..10 | op | 1 info, 2 read, 3 write, 4 flush, 5 trim, 6 write zeroes | the same, plus 0x8000 |
//! | 10..12 | flags | 1 FUA (write, trim, write zeroes), 2 no hole (write zeroes) | 0 |
//! | 12..16 | status | 0 | 0 or a negative status |
//! | 16..24 | offset | in bytes; 0 for info and flush | 0 |
//! | 24..28 | length | in bytes; 0 for info and flush | of the payload |
//! | 28..32 | | 0 | 0 |
//!
//! - Any number of requests may be in flight; replies come in any order. Overlapping requests in flight have no order.
//! - A write carries its data as payload. A read or info may carry room (the bytes behind the header, whatever they are)
//!   for the answer; if there is not enough, the device answers in another message.
//! - Ranges are multiples of the block size, inside the device, and for read and write at most `max_transfer` long. A
//!   device answers `InvalidArgs`, `OutOfRange`, or `AccessDenied` otherwise, and `InvalidArgs` to what is malformed; a
//!   message too short to have an id is answered with id 0. An empty range is a success that does nothing.
//! - On a channel with a limit, a client has at most that many requests in flight: then a reply always finds room.
//! - A failed request has no payload in its reply.
//! - The reply to info: size u64, block size u32, optimal size u32, max transfer u32, flags u32 (1 read-only, 2 trims,
//!   4 durable).
//! - Both sides answer a closed channel by giving up: requests without a reply may or may not have been done.

mod buffer;
mod client;
mod layout;
mod pending;
mod server;

pub use buffer::BlockBuffer;
pub use client::{BlockClient, BlockCommand, SubmitError};
pub use layout::{
    BlockInfo, Flags, HEADER_LEN, INFO_LEN, MAX_BLOCK_SIZE, Malformed, Op, REPLY_BIT, ReplyHeader, RequestHeader,
};
pub use pending::BlockDone;
pub use server::{BlockRequest, BlockServer};

/// How many messages one callback takes before it lets others have a turn.
const DRAIN: usize = 16;
