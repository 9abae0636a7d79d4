//! [`Session`]: the transmission phase of one connection, between the socket and the device, without touching either.
//!
//! ```text
//!             feed, direct/received                    next_request
//!   socket ─────────────────────────► Input ─► Pending ──────────────► device
//!          ◄───────────────────────── Output ◄─ Stream ◄──────────────
//!             with_slices/advance                      complete
//! ```
//!
//! A client's request becomes one or more *pieces* of at most [`Limits::piece`] bytes, which the device works on in any
//! order; the reply goes out when they are done. Writes are passed on piece by piece while they arrive. A read of one
//! piece is answered as soon as its data is there, before or after its neighbours; longer ones are *streams*, of which
//! one at a time is fetched and sent piece by piece.
//!
//! # Limits
//! A connection has at most [`Limits::requests`] requests, counted until their reply has left through the socket, and
//! holds at most what its [`Account`]s allow. When either is used up the session stops taking input
//! ([`wants_input`](Session::wants_input) is false) until a reply has gone out or the device has finished a piece. A
//! client that sends without reading so stalls itself and nobody else.
//!
//! # Invariants
//! - Each piece is in `pieces` from its issue to its answer; each request is in `requests` from its head to the end of
//!   its reply, and is answered exactly once.
//! - A buffer's bytes are in an account from before it exists until the device has taken them (writes) or the socket
//!   has (reads).
//!
//! # Shutdown
//! [`end_input`](Session::end_input) ends the input side: what the device has is answered by the device, a write that
//! has not arrived in full is answered `ESHUTDOWN`. [`cut_short`](Session::cut_short) does the same to long requests
//! that have not begun to answer. [`is_finished`](Session::is_finished) tells when everything has gone out.

mod answer;
pub(crate) mod budget;
pub(crate) mod buffer;
mod output;
mod receive;
pub(crate) mod slab;
mod stream;

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use self::budget::{Account, Budget};
use self::buffer::Buffer;
use self::output::Output;
use self::receive::Input;
use self::slab::{Key, Slab};
use self::stream::Stream;
use crate::protocol::Export;
use crate::protocol::constants::NbdError;
use crate::protocol::policy::Operation;

/// The bounds of a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Requests that a connection may have at a time.
    pub(crate) requests: usize,
    /// The biggest piece in which data goes to and from the device; a multiple of the block size.
    pub(crate) piece: u32,
    /// The biggest piece of a request without data (trim, write zeroes); a multiple of the block size.
    pub(crate) range: u32,
}

/// What the device is to do next; its answer goes to [`Session::complete`] under the same id.
#[derive(Debug)]
pub(crate) struct DeviceRequest<B> {
    pub(crate) id: u64,
    pub(crate) operation: Operation,
    pub(crate) offset: u64,
    pub(crate) length: u32,
    /// The data of a write.
    pub(crate) data: Option<B>,
}

/// The device did something that the session cannot make good towards the client; the connection has to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DeviceFault {
    #[error("the device failed ({0}) in the middle of a long read, whose reply had begun and cannot be taken back")]
    MidReply(NbdError),
    #[error("the device answered request {0:#x}, which it was not asked")]
    UnknownId(u64),
}

/// Whom a session is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// The client, to ask for something.
    NextRequest,
    /// The client, to send the rest of a request.
    RestOfRequest,
    /// The client, to read its replies.
    Reader,
    /// The device.
    Device,
}

/// A client's request until its reply has gone out.
#[derive(Debug)]
struct Pending {
    cookie: u64,
    stage: Stage,
    /// Pieces that the device works on.
    outstanding: u32,
    /// The first error that a piece met.
    failed: Option<NbdError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A write whose data is still arriving.
    Arriving,
    /// A range of which this much is still to be issued.
    Range { operation: Operation, next: u64, left: u32 },
    /// Everything was issued; the reply follows the last answer.
    Issued,
    /// The reply is in the output, in whole or in part.
    Answered,
}

/// A part of a request that the device works on.
#[derive(Debug)]
struct Piece {
    request: Key,
    length: u32,
    kind: PieceKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PieceKind {
    /// A read answered by this piece alone.
    Read,
    /// A part of a long read.
    Stream,
    Write,
    /// Flush, trim, write zeroes: no data.
    Bare,
}

/// The state of the transmission phase of one connection.
#[derive(Debug)]
pub(crate) struct Session<B> {
    export: Arc<Export>,
    limits: Limits,
    input: Input<B>,
    requests: Slab<Pending>,
    pieces: Slab<Piece>,
    /// Long reads in the order of their arrival; only the first one is being fetched.
    streams: VecDeque<Stream<B>>,
    /// Data of writes that the device has not finished.
    incoming: Account,
    /// Data of reads that the socket has not taken.
    outgoing: Account,
    to_device: VecDeque<DeviceRequest<B>>,
    output: Output<B>,
}

impl<B: Buffer> Session<B> {
    pub(crate) fn new(export: Arc<Export>, limits: Limits, budget: &Arc<Budget>) -> Self {
        Self {
            export,
            limits,
            input: Input::NEXT,
            requests: Slab::new(),
            pieces: Slab::new(),
            streams: VecDeque::new(),
            incoming: Account::new(budget.clone()),
            outgoing: Account::new(budget.clone()),
            to_device: VecDeque::new(),
            output: Output::new(),
        }
    }

    /// Takes the next request for the device.
    pub(crate) fn next_request(&mut self) -> Option<DeviceRequest<B>> {
        self.to_device.pop_front()
    }

    /// Whether replies can be written now.
    pub(crate) fn has_output(&self) -> bool {
        self.output.has_ready()
    }

    /// Shows what goes out next.
    pub(crate) fn with_slices<R>(&self, write: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
        self.output.with_slices(write)
    }

    /// Notes that so many bytes have gone out, which makes room for more.
    pub(crate) fn advance(&mut self, bytes: usize) {
        let (outgoing, requests) = (&mut self.outgoing, &mut self.requests);
        self.output.advance(bytes, |sent| {
            outgoing.give(sent.data);
            if let Some(request) = sent.ends {
                requests.remove(request);
            }
        });
        self.fetch_streams();
    }

    /// Whether the client's last word has been dealt with: the input has ended, and all replies have gone out.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.input, Input::Ended) && self.requests.is_empty() && self.output.is_empty()
    }

    /// Whom the session waits for, which decides how long that may take.
    pub(crate) fn waits_for(&self) -> WaitsFor {
        if self.output.has_ready() {
            WaitsFor::Reader
        } else if !self.pieces.is_empty() {
            WaitsFor::Device
        } else if self.is_within_request() {
            WaitsFor::RestOfRequest
        } else {
            WaitsFor::NextRequest
        }
    }

    /// Whether a part of a request has come, and the rest has not.
    pub(crate) fn is_within_request(&self) -> bool {
        self.input.is_within_request()
    }

    /// Whether the device owes an answer.
    pub(crate) fn waits_for_device(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Requests that have not been answered in full.
    pub(crate) fn request_count(&self) -> usize {
        self.requests.len()
    }

    /// Gives back the tables' memory if nothing is going on; an idle connection costs little more than its socket.
    pub(crate) fn shrink_if_idle(&mut self) {
        if self.requests.is_empty() && self.pieces.is_empty() {
            self.requests.shrink_if_empty();
            self.pieces.shrink_if_empty();
            self.output.shrink_if_empty();
            self.streams = VecDeque::new();
            self.to_device = VecDeque::new();
        }
    }

    /// Issues a piece of a request.
    fn issue(
        &mut self,
        request: Key,
        kind: PieceKind,
        operation: Operation,
        offset: u64,
        length: u32,
        data: Option<B>,
    ) -> Key {
        let id = self.pieces.insert(Piece { request, length, kind });
        self.requests.get_mut(request).expect("a piece is issued for a request that waits for it").outstanding += 1;
        self.to_device.push_back(DeviceRequest { id: id.to_raw(), operation, offset, length, data });
        id
    }
}

#[cfg(test)]
mod tests;
