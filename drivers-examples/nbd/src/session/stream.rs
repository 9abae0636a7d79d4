//! Long reads: fetched and sent in pieces, one read at a time.
//!
//! A reply of the simple form is one run of bytes, so its pieces go out in their order, and its success is told before
//! the last of them is there. An error of the device before the first piece has gone to the output is an ordinary error
//! reply; after that the protocol leaves only closing the connection.

use std::collections::VecDeque;

use super::buffer::Buffer;
use super::slab::Key;
use super::{DeviceFault, Session};
use crate::protocol::constants::NbdError;
use crate::protocol::request::encode_reply;

/// Pieces of a long read that are fetched ahead.
const WINDOW: usize = 4;

/// A long read.
#[derive(Debug)]
pub(super) struct Stream<B> {
    request: Key,
    cookie: u64,
    /// What is to be fetched next.
    next: u64,
    /// How much is still to be fetched.
    left: u32,
    /// What is being fetched and what waits for its turn to go out, in the order of offsets.
    pieces: VecDeque<(Key, Option<B>)>,
    /// Whether the reply has begun.
    begun: bool,
    /// The error that the reply will tell once nothing of it is outstanding.
    failed: Option<NbdError>,
}

impl<B> Stream<B> {
    pub(super) fn new(request: Key, cookie: u64, offset: u64, length: u32) -> Self {
        Self { request, cookie, next: offset, left: length, pieces: VecDeque::new(), begun: false, failed: None }
    }
}

impl<B: Buffer> Session<B> {
    /// Fetches what the first long read may fetch, and puts into the output what is there; then the next one's turn
    /// comes.
    pub(super) fn fetch_streams(&mut self) {
        while let Some(mut stream) = self.streams.pop_front() {
            self.fetch(&mut stream);
            self.send(&mut stream);
            if stream.left > 0 || !stream.pieces.is_empty() {
                self.streams.push_front(stream);
                return;
            }
            if let Some(error) = stream.failed {
                self.fail(stream.request, error);
                self.answer(stream.request, None);
            }
        }
    }

    fn fetch(&mut self, stream: &mut Stream<B>) {
        while stream.left > 0 && stream.pieces.len() < WINDOW {
            let length = self.outgoing.take_up_to(stream.left.min(self.limits.piece));
            if length == 0 {
                return;
            }
            let id = self.issue_read(stream.request, stream.next, length);
            stream.pieces.push_back((id, None));
            stream.next += u64::from(length);
            stream.left -= length;
        }
    }

    fn send(&mut self, stream: &mut Stream<B>) {
        while stream.failed.is_none()
            && let Some((_, data)) = stream.pieces.front_mut()
            && let Some(data) = data.take()
        {
            stream.pieces.pop_front();
            if !stream.begun {
                stream.begun = true;
                self.begin_answer(stream.request);
                self.output.open(encode_reply(stream.cookie, Ok(())));
            }
            let is_last = stream.left == 0 && stream.pieces.is_empty();
            self.output.push_piece(data, is_last.then_some(stream.request));
        }
    }

    /// The device has answered for a piece of the first long read.
    pub(super) fn stream_piece(&mut self, id: Key, outcome: Result<B, NbdError>) -> Result<(), DeviceFault> {
        let Some(stream) = self.streams.front_mut() else { return Err(DeviceFault::UnknownId(id.to_raw())) };
        match outcome {
            Ok(data) if stream.failed.is_none() => {
                if let Some((_, place)) = stream.pieces.iter_mut().find(|(piece, _)| *piece == id) {
                    *place = Some(data);
                }
            }
            Ok(data) => {
                self.outgoing.give(data.payload().len() as u32);
                stream.pieces.retain(|(piece, _)| *piece != id);
            }
            Err(error) if stream.begun => return Err(DeviceFault::MidReply(error)),
            Err(error) => {
                stream.pieces.retain(|(piece, _)| *piece != id);
                let unsent = give_up(stream, error);
                self.outgoing.give(unsent);
            }
        }
        self.fetch_streams();
        Ok(())
    }

    /// Answers `ESHUTDOWN` to the long reads whose reply has not begun.
    pub(super) fn cut_streams(&mut self) {
        let mut unsent = 0;
        for stream in self.streams.iter_mut().filter(|stream| !stream.begun) {
            unsent += give_up(stream, NbdError::Shutdown);
        }
        self.outgoing.give(unsent);
        self.fetch_streams();
    }
}

/// Turns a long read into one that only waits for what is outstanding; returns how many bytes of data it let go.
fn give_up<B: Buffer>(stream: &mut Stream<B>, error: NbdError) -> u32 {
    stream.failed.get_or_insert(error);
    stream.left = 0;
    let mut unsent = 0;
    stream.pieces.retain(|(_, data)| {
        let waits = data.is_none();
        unsent += data.as_ref().map_or(0, |data| data.payload().len() as u32);
        waits
    });
    unsent
}
