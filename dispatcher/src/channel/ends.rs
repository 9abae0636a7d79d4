//! The two ends as data: what each has not read, what it waits for, and its calls. Whoever has them has the lock of the pair.

use std::collections::VecDeque;

use super::calls::Calls;
use super::limits::Limits;
use super::pair::Queued;
use super::slot::Slot;
use super::wait_op::{Next, WaitOp};
use crate::status::Status;

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    A,
    B,
}

impl Side {
    pub(crate) fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }
}

/// What an end waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The next message.
    Message,
    /// Room for a message in the queue that it writes to.
    Room,
}

/// One end: the queue of what it has not read, and what it waits for.
#[derive(Debug)]
pub(super) struct End<M, R> {
    pub(super) is_open: bool,
    pub(super) queue: VecDeque<M>,
    pub(super) bytes: usize,
    pub(super) reading: Slot<R>,
    pub(super) writing: Slot<R>,
    /// How many bytes the one who waits for room wants to write.
    pub(super) wanted_bytes: usize,
    pub(super) calls: Calls<M, R>,
    /// How many handlers have begun, less those of which it was told under the lock that they have returned; wraps.
    pub(super) begun: u32,
}

#[derive(Debug)]
pub(super) struct State<M, R> {
    pub(super) ends: [End<M, R>; 2],
    pub(super) limits: Limits,
}

/// What one end can tell about a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueLength {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
}

impl<M: Queued, R: WaitOp> State<M, R> {
    /// Why a message of `bytes` from this end is not queued.
    pub(super) fn refuses(&self, from: Side, bytes: usize) -> Option<Status> {
        let reader = &self.ends[from.other() as usize];
        if !reader.is_open {
            return Some(Status::PeerClosed);
        }
        let allowed = self.limits.allow(reader.queue.len(), reader.bytes, bytes);
        (!allowed).then_some(Status::ShouldWait)
    }

    /// The queue that `writer` writes to is shorter: who waits for room is told if it is enough.
    pub(super) fn room_was_made(&mut self, writer: Side, next: &mut Next<R>) {
        if self.ends[writer as usize].writing.is_idle()
            || self.refuses(writer, self.ends[writer as usize].wanted_bytes).is_some()
        {
            return;
        }
        self.ends[writer as usize].is_ready(Wanted::Room, next);
    }
}

impl<M, R: WaitOp> End<M, R> {
    pub(super) fn new(side: Side) -> Self {
        End {
            is_open: true,
            queue: VecDeque::new(),
            bytes: 0,
            reading: Slot::new(),
            writing: Slot::new(),
            wanted_bytes: 0,
            calls: Calls::new(side),
            begun: 0,
        }
    }

    /// What is wanted is there for whoever waits for it.
    #[inline]
    pub(super) fn is_ready(&mut self, wanted: Wanted, next: &mut Next<R>) {
        let has_begun = self.slot(wanted).ready(next);
        self.begun = self.begun.wrapping_add(u32::from(has_begun));
    }

    /// The handler of a registration begins, by a lock of its own.
    #[inline]
    pub(super) fn handler_begins(&mut self, wanted: Wanted, generation: u64) -> Option<R> {
        self.begun = self.begun.wrapping_add(1);
        let is_open = self.is_open;
        self.slot(wanted).handler_begins(generation, is_open)
    }

    #[inline]
    pub(super) fn slot(&mut self, wanted: Wanted) -> &mut Slot<R> {
        match wanted {
            Wanted::Message => &mut self.reading,
            Wanted::Room => &mut self.writing,
        }
    }

    /// Gives the memory of a burst back.
    pub(super) fn shrink_when_empty(&mut self) {
        const KEPT: usize = 1024;
        if self.queue.is_empty() && self.queue.capacity() > KEPT {
            self.queue = VecDeque::new();
        }
    }
}
