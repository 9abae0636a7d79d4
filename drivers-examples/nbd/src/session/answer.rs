//! The way out: from the device's answers to replies.

use super::buffer::Buffer;
use super::slab::Key;
use super::{DeviceFault, PieceKind, Session, Stage};
use crate::protocol::constants::NbdError;
use crate::protocol::policy::Operation;
use crate::protocol::request::encode_reply;

impl<B: Buffer> Session<B> {
    /// Takes the device's answer to the request with this id; `data` is what was read.
    ///
    /// # Errors
    /// [`DeviceFault`] when the connection has to be closed.
    pub(crate) fn complete(
        &mut self,
        id: u64,
        outcome: Result<(), NbdError>,
        data: Option<B>,
    ) -> Result<(), DeviceFault> {
        let id = Key::from_raw(id);
        let piece = self.pieces.remove(id).ok_or(DeviceFault::UnknownId(id.to_raw()))?;
        let request = piece.request;
        let reads = matches!(piece.kind, PieceKind::Read | PieceKind::Stream);
        // A read that succeeds without all of its data has not succeeded.
        let data = data.filter(|data| reads && data.payload().len() == piece.length as usize);
        let outcome = outcome.and(if reads && data.is_none() { Err(NbdError::Io) } else { Ok(()) });
        if let Some(pending) = self.requests.get_mut(request) {
            pending.outstanding -= 1;
        }
        match piece.kind {
            PieceKind::Read => {
                if let Err(error) = outcome {
                    self.outgoing.give(piece.length);
                    self.fail(request, error);
                }
                self.answer(request, data.filter(|_| outcome.is_ok()));
            }
            PieceKind::Stream => {
                if outcome.is_err() {
                    self.outgoing.give(piece.length);
                }
                self.stream_piece(id, outcome.and(data.ok_or(NbdError::Io)))?;
            }
            PieceKind::Write | PieceKind::Bare => {
                if piece.kind == PieceKind::Write {
                    self.incoming.give(piece.length);
                }
                if let Err(error) = outcome {
                    self.fail(request, error);
                }
                self.go_on(request);
            }
        }
        Ok(())
    }

    /// The device is gone: everything it has not answered has failed, and nothing more is taken from the client.
    ///
    /// # Errors
    /// [`DeviceFault`] when a reply had begun.
    pub(crate) fn device_gone(&mut self) -> Result<(), DeviceFault> {
        self.end_input();
        self.cut_short();
        self.to_device.clear();
        for id in self.pieces.keys() {
            self.complete(id.to_raw(), Err(NbdError::Shutdown), None)?;
        }
        debug_assert!(self.pieces.is_empty(), "a request that has failed issues no further pieces");
        Ok(())
    }

    /// Answers `ESHUTDOWN` to what would still take long: ranges with further pieces, and long reads whose reply has
    /// not begun. To be called after [`end_input`](Self::end_input).
    pub(crate) fn cut_short(&mut self) {
        for request in self.requests.keys() {
            if let Some(pending) = self.requests.get_mut(request)
                && matches!(pending.stage, Stage::Range { .. })
            {
                pending.failed.get_or_insert(NbdError::Shutdown);
            }
        }
        self.cut_streams();
    }

    /// Issues the next piece of a request, or answers it, once nothing of it is outstanding.
    fn go_on(&mut self, request: Key) {
        let Some(pending) = self.requests.get_mut(request) else { return };
        if pending.outstanding > 0 {
            return;
        }
        match pending.stage {
            Stage::Arriving | Stage::Answered => {}
            Stage::Range { left, .. } if left > 0 && pending.failed.is_none() => self.issue_range(request),
            Stage::Range { .. } | Stage::Issued => self.answer(request, None),
        }
    }

    /// Issues the next piece of a range.
    pub(super) fn issue_range(&mut self, request: Key) {
        let limit = self.limits.range;
        let Some(pending) = self.requests.get_mut(request) else { return };
        let Stage::Range { operation, next, left } = pending.stage else { return };
        let length = left.min(limit);
        pending.stage = Stage::Range { operation, next: next + u64::from(length), left: left - length };
        self.issue(request, PieceKind::Bare, operation, next, length, None);
    }

    /// Notes an error of a request; the first one counts.
    pub(super) fn fail(&mut self, request: Key, error: NbdError) {
        if let Some(pending) = self.requests.get_mut(request) {
            pending.failed.get_or_insert(error);
        }
    }

    /// Puts the whole reply to a request into the output.
    pub(super) fn answer(&mut self, request: Key, data: Option<B>) {
        let Some(pending) = self.requests.get_mut(request) else { return };
        debug_assert!(pending.stage != Stage::Answered && pending.outstanding == 0);
        pending.stage = Stage::Answered;
        let head = encode_reply(pending.cookie, pending.failed.map_or(Ok(()), Err));
        self.output.push(request, head, data);
    }

    /// Marks a request whose reply is sent in pieces.
    pub(super) fn begin_answer(&mut self, request: Key) {
        if let Some(pending) = self.requests.get_mut(request) {
            pending.stage = Stage::Answered;
        }
    }

    pub(super) fn issue_read(&mut self, request: Key, offset: u64, length: u32) -> Key {
        self.issue(request, PieceKind::Stream, Operation::Read, offset, length, None)
    }
}
