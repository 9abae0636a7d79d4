//! The way in: from the client's bytes to requests and the pieces of writes.

use super::buffer::Buffer;
use super::slab::Key;
use super::stream::Stream;
use super::{Pending, PieceKind, Session, Stage};
use crate::protocol::Violation;
use crate::protocol::constants::NbdError;
use crate::protocol::policy::{Operation, Verdict, judge};
use crate::protocol::request::{REQUEST_LEN, Request};

/// What the next bytes from the client are.
#[derive(Debug)]
pub(super) enum Input<B> {
    /// The head of a request. A complete one stays here until there is room for the request.
    Head { bytes: [u8; REQUEST_LEN], filled: usize },
    /// The data of a write that is performed.
    Data(Arriving<B>),
    /// The data of a write that is not performed.
    Dropped { request: Key, left: u32 },
    /// Nothing: the client has said that it is done, or has to be treated so.
    Ended,
}

/// A write whose data arrives.
#[derive(Debug)]
pub(super) struct Arriving<B> {
    request: Key,
    fua: bool,
    /// Where on the device the current piece, or the next one, goes.
    offset: u64,
    /// Bytes still to come behind the current piece.
    left: u32,
    /// The piece that is being filled, and how far it is.
    piece: Option<(B, usize)>,
}

impl<B> Input<B> {
    /// The state between requests.
    pub(super) const NEXT: Self = Input::Head { bytes: [0; REQUEST_LEN], filled: 0 };

    pub(super) fn is_within_request(&self) -> bool {
        match self {
            Input::Head { filled, .. } => *filled > 0,
            Input::Data(_) | Input::Dropped { .. } => true,
            Input::Ended => false,
        }
    }
}

impl<B: Buffer> Session<B> {
    /// Takes bytes from the front of `input`, moving it on; what it leaves is to be fed again once
    /// [`wants_input`](Self::wants_input) holds.
    ///
    /// # Errors
    /// [`Violation`] when the connection has to be closed.
    pub(crate) fn feed(&mut self, input: &mut &[u8]) -> Result<(), Violation> {
        loop {
            match &mut self.input {
                Input::Ended => {
                    *input = &[];
                    return Ok(());
                }
                Input::Head { bytes, filled } => {
                    let taken = input.len().min(REQUEST_LEN - *filled);
                    bytes[*filled..*filled + taken].copy_from_slice(&input[..taken]);
                    *filled += taken;
                    *input = &input[taken..];
                    if *filled < REQUEST_LEN || self.requests.len() >= self.limits.requests {
                        return Ok(());
                    }
                    let request = Request::decode(bytes)?;
                    self.input = Input::NEXT;
                    self.admit(&request)?;
                }
                Input::Dropped { request, left } => {
                    let taken = input.len().min(*left as usize);
                    *input = &input[taken..];
                    *left -= taken as u32;
                    if *left > 0 {
                        return Ok(());
                    }
                    let request = *request;
                    self.input = Input::NEXT;
                    self.arrived(request);
                }
                Input::Data(_) => {
                    let Some(room) = self.direct() else {
                        // Either there is no allowance for a piece, or the data is being dropped from here on.
                        if matches!(self.input, Input::Data(_)) { return Ok(()) } else { continue }
                    };
                    if input.is_empty() {
                        return Ok(());
                    }
                    let taken = room.len().min(input.len());
                    room[..taken].copy_from_slice(&input[..taken]);
                    *input = &input[taken..];
                    self.received(taken);
                }
            }
        }
    }

    /// Where the next bytes from the socket go when they are data of a write: straight into the message for the device.
    /// What was read there is reported by [`received`](Self::received). `None`: use [`feed`](Self::feed).
    pub(crate) fn direct(&mut self) -> Option<&mut [u8]> {
        self.prepare_piece();
        match &mut self.input {
            Input::Data(Arriving { piece: Some((buffer, filled)), .. }) => Some(&mut buffer.payload_mut()[*filled..]),
            _ => None,
        }
    }

    /// Notes that so many bytes were read into what [`direct`](Self::direct) gave.
    pub(crate) fn received(&mut self, bytes: usize) {
        let Input::Data(arriving) = &mut self.input else { return };
        let Some((buffer, filled)) = &mut arriving.piece else { return };
        *filled += bytes;
        let length = buffer.payload().len();
        if *filled < length {
            return;
        }
        let (request, offset, left) = (arriving.request, arriving.offset, arriving.left);
        let operation = Operation::Write { fua: arriving.fua };
        let data = arriving.piece.take().map(|(buffer, _)| buffer);
        arriving.offset += length as u64;
        self.issue(request, PieceKind::Write, operation, offset, length as u32, data);
        if left == 0 {
            self.input = Input::NEXT;
            self.arrived(request);
        }
    }

    /// Whether more bytes from the client are of use now.
    pub(crate) fn wants_input(&self) -> bool {
        match &self.input {
            Input::Head { filled, .. } => *filled < REQUEST_LEN || self.requests.len() < self.limits.requests,
            // Without a piece there was no allowance for one; `direct` tries again after each event.
            Input::Data(arriving) => arriving.piece.is_some(),
            Input::Dropped { .. } => true,
            Input::Ended => false,
        }
    }

    /// Ends the input side: the client has closed its direction, or is not listened to any more. A write that has not
    /// arrived in full is answered `ESHUTDOWN`. True if that was in the middle of a request.
    pub(crate) fn end_input(&mut self) -> bool {
        let within = self.input.is_within_request();
        match std::mem::replace(&mut self.input, Input::Ended) {
            Input::Data(Arriving { request, piece, .. }) => {
                if let Some((buffer, _)) = piece {
                    self.incoming.give(buffer.payload().len() as u32);
                }
                self.fail(request, NbdError::Shutdown);
                self.arrived(request);
            }
            Input::Dropped { request, .. } => self.arrived(request),
            Input::Head { .. } | Input::Ended => {}
        }
        within
    }

    /// Takes a request in.
    fn admit(&mut self, request: &Request) -> Result<(), Violation> {
        match judge(request, &self.export) {
            Verdict::Perform(operation) => self.perform(request, operation),
            Verdict::Nothing => {
                let key = self.insert(request, Stage::Issued);
                self.answer(key, None);
            }
            Verdict::Refuse { error, payload } => {
                let stage = if payload > 0 { Stage::Arriving } else { Stage::Issued };
                let key = self.insert(request, stage);
                self.fail(key, error);
                if payload > 0 {
                    self.input = Input::Dropped { request: key, left: payload };
                } else {
                    self.answer(key, None);
                }
            }
            Verdict::Disconnect => self.input = Input::Ended,
            Verdict::Close(violation) => return Err(violation),
        }
        Ok(())
    }

    fn insert(&mut self, request: &Request, stage: Stage) -> Key {
        self.requests.insert(Pending { cookie: request.cookie, stage, outstanding: 0, failed: None })
    }

    fn perform(&mut self, request: &Request, operation: Operation) {
        let Request { offset, length, .. } = *request;
        match operation {
            Operation::Read => {
                let key = self.insert(request, Stage::Issued);
                if length <= self.limits.piece && self.outgoing.take_exactly(length) {
                    self.issue(key, PieceKind::Read, operation, offset, length, None);
                } else {
                    self.streams.push_back(Stream::new(key, request.cookie, offset, length));
                    self.fetch_streams();
                }
            }
            Operation::Write { fua } => {
                let request = self.insert(request, Stage::Arriving);
                self.input = Input::Data(Arriving { request, fua, offset, left: length, piece: None });
            }
            Operation::Flush => {
                let key = self.insert(request, Stage::Issued);
                self.issue(key, PieceKind::Bare, operation, 0, 0, None);
            }
            Operation::Trim { .. } | Operation::WriteZeroes { .. } => {
                let key = self.insert(request, Stage::Range { operation, next: offset, left: length });
                self.issue_range(key);
            }
        }
    }

    /// Makes the next piece of an arriving write, if there is allowance and memory for it.
    fn prepare_piece(&mut self) {
        let Input::Data(arriving) = &mut self.input else { return };
        if arriving.piece.is_some() {
            return;
        }
        let (request, left) = (arriving.request, arriving.left);
        if self.requests.get_mut(request).is_some_and(|pending| pending.failed.is_some()) {
            // A piece before it has failed: the rest would only be written for nothing.
            self.input = Input::Dropped { request, left };
            return;
        }
        let length = self.incoming.take_up_to(left.min(self.limits.piece));
        if length == 0 {
            return;
        }
        match B::with_payload(length as usize) {
            Some(buffer) => {
                arriving.piece = Some((buffer, 0));
                arriving.left -= length;
            }
            None => {
                self.incoming.give(length);
                self.input = Input::Dropped { request, left };
                self.fail(request, NbdError::NoMemory);
            }
        }
    }

    /// All data of a write has arrived, or will not.
    fn arrived(&mut self, request: Key) {
        if let Some(pending) = self.requests.get_mut(request) {
            pending.stage = Stage::Issued;
            if pending.outstanding == 0 {
                self.answer(request, None);
            }
        }
    }
}
