//! The two ends of a channel as one state machine under one lock.
//!
//! It knows messages and registrations only by what it needs of them ([`Queued`], [`WaitOp`]), so that a model checker can
//! run it without a dispatcher. The ends are in `ends`, what one waits for in `slot`, the calls that wait for replies in `calls`,
//! and what futures ask in `polls`.
//!
//! # Rules
//! - The lock is held for a few instructions. A registration is *accepted*, *made ready* and *taken back* by its
//!   dispatcher under it (lock order: channel, then dispatcher). Handlers run after it was released: each transition
//!   returns what its caller does then, as [`Next`].
//! - One lock for a message and for the decision about its handler: a handler that is going to run on this thread has
//!   *begun* when the lock is released, and its end is free; one that runs later begins by a lock of its own.
//! - The end of a registration that is no message (a close) is *completed* after the lock was released. Anything may
//!   happen to the registration before. That is harmless, because its dispatcher decides by the operation's own id who
//!   ends it, once.
//! - A request is queued and its call begins to wait under the same lock, so no reply can come too early.
//! - Whoever finds nothing to read finds that without the lock, by `news`.

use std::collections::VecDeque;

use super::calls::{Caller, Left};
use super::ends::{End, QueueLength, Side, State, Wanted};
use super::limits::Limits;
use super::readers::Readers;
use super::slot::Term;
use super::wait_op::{Anew, Completion, Next, WaitOp};
use crate::status::Status;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// There was nothing to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ReadError {
    /// No message is queued at this moment.
    #[error("no message is queued; register a read to be told of the next one")]
    ShouldWait,
    /// No message is queued and none will come: the other end is closed.
    #[error("no message is queued and the other end is closed")]
    PeerClosed,
}

impl ReadError {
    /// The condition as a status.
    pub fn status(self) -> Status {
        match self {
            ReadError::ShouldWait => Status::ShouldWait,
            ReadError::PeerClosed => Status::PeerClosed,
        }
    }
}

impl From<ReadError> for Status {
    fn from(error: ReadError) -> Status {
        error.status()
    }
}

/// What a channel asks of its messages.
pub(crate) trait Queued {
    /// How many bytes it counts for.
    fn byte_len(&self) -> usize;
}

/// A channel.
#[derive(Debug)]
pub(crate) struct Pair<M, R> {
    pub(super) state: Mutex<State<M, R>>,
    /// How many handlers of each end have returned of which that was told without the lock; wraps.
    ended: [AtomicU32; 2],
    /// Whether each end may find something to read, if only that its peer has closed. Written under the lock.
    news: [AtomicBool; 2],
    pub(super) readers: Readers,
}

/// What an end leaves behind.
#[derive(Debug)]
pub(crate) struct Closed<M, R: WaitOp> {
    /// What it has not read.
    pub(crate) unread: VecDeque<M>,
    /// Its own registrations are told `Canceled`, then those of the peer `PeerClosed`.
    pub(crate) to_tell: Vec<Next<R>>,
}

/// What became of a reply.
#[derive(Debug)]
pub(crate) enum Reply<M> {
    /// Its caller is told.
    Taken,
    /// Nobody waits for it any more.
    Late(M),
}

impl<M: Queued, R: WaitOp<Message = M>> Pair<M, R> {
    pub(crate) fn new(limits: Limits) -> Self {
        let state = State { ends: [End::new(Side::A), End::new(Side::B)], limits };
        Pair {
            state: Mutex::new(state),
            ended: [AtomicU32::new(0), AtomicU32::new(0)],
            news: [AtomicBool::new(false), AtomicBool::new(false)],
            readers: Readers::default(),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.state.lock().limits
    }

    /// Notes that an end has something to read, or may have nothing.
    fn note_news(&self, state: &State<M, R>, side: Side) {
        let is_there = !state.ends[side as usize].queue.is_empty() || !state.ends[side.other() as usize].is_open;
        // ORDERING: Relaxed; whoever was told of a message was told after this, and finds the message itself by the lock.
        self.news[side as usize].store(is_there, Ordering::Relaxed);
    }

    /// Queues a message for the other end.
    pub(crate) fn write(&self, from: Side, message: M, next: &mut Next<R>) -> Result<(), (Status, M)> {
        let mut state = self.state.lock();
        match state.refuses(from, message.byte_len()) {
            Some(status) => Err((status, message)),
            None => {
                self.push(&mut state, from, message, next);
                Ok(())
            }
        }
    }

    #[inline]
    fn push(&self, state: &mut State<M, R>, from: Side, message: M, next: &mut Next<R>) {
        let reader = &mut state.ends[from.other() as usize];
        // Nothing is queued while one waits that takes it, so nothing is overtaken.
        if reader.reading.takes_the_next() {
            reader.is_ready(Wanted::Message, next);
            if let Next::Run(begun) = next {
                return R::hand(begun, message);
            }
        }
        reader.bytes += message.byte_len();
        reader.queue.push_back(message);
        // ORDERING: Relaxed; see `note_news`.
        self.news[from.other() as usize].store(true, Ordering::Relaxed);
        reader.is_ready(Wanted::Message, next);
    }

    /// Queues the request of a call. `accept` marks it with the call's number and gives who waits for the reply; `None`
    /// when the dispatcher refuses.
    pub(crate) fn begin_call(
        &self,
        from: Side,
        mut message: M,
        next: &mut Next<R>,
        accept: impl FnOnce(u32, &mut M) -> Option<Caller<R>>,
    ) -> Result<u32, (Status, M)> {
        let mut state = self.state.lock();
        if let Some(status) = state.refuses(from, message.byte_len()) {
            return Err((status, message));
        }
        let calls = &mut state.ends[from as usize].calls;
        let number = calls.fresh_number();
        let Some(caller) = accept(number, &mut message) else { return Err((Status::Unavailable, message)) };
        calls.insert(number, caller);
        self.push(&mut state, from, message, next);
        Ok(number)
    }

    /// Hands a reply to the call of this number, past the queue.
    pub(crate) fn answer(
        &self,
        from: Side,
        number: u32,
        reply: M,
        next: &mut Next<R>,
    ) -> Result<Reply<M>, (Status, M)> {
        let mut state = self.state.lock();
        let caller = &mut state.ends[from.other() as usize];
        if !caller.is_open {
            return Err((Status::PeerClosed, reply));
        }
        Ok(match caller.calls.answer(number, reply, next) {
            Ok(()) => Reply::Taken,
            Err(reply) => Reply::Late(reply),
        })
    }

    /// The caller is done with its call: a reply that comes now is late.
    pub(crate) fn end_call(&self, side: Side, number: u32) -> Left<M, R> {
        self.state.lock().ends[side as usize].calls.end(number)
    }

    /// Takes the oldest message. Somebody may wait for the room that it leaves. Without one, `peer_is_open` says whether
    /// there will be any: it is apart because a message alone moves in fewer steps than one inside of a result.
    #[inline(always)]
    pub(crate) fn try_read(&self, side: Side, peer_is_open: &mut bool, next: &mut Next<R>) -> Option<M> {
        // ORDERING: Relaxed; see `note_news`.
        if !self.news[side as usize].load(Ordering::Relaxed) {
            return None;
        }
        let mut state = self.state.lock();
        *peer_is_open = state.ends[side.other() as usize].is_open;
        self.pop(&mut state, side, next)
    }

    #[inline(always)]
    pub(super) fn pop(&self, state: &mut State<M, R>, side: Side, next: &mut Next<R>) -> Option<M> {
        let end = &mut state.ends[side as usize];
        let message = end.queue.pop_front()?;
        end.bytes -= message.byte_len();
        end.shrink_when_empty();
        state.room_was_made(side.other(), next);
        self.note_news(state, side);
        Some(message)
    }

    /// Registers a wait for the next message. `accept` has it accepted by a dispatcher, ready at once or not, under this
    /// number; `None` when the dispatcher refuses.
    #[inline]
    pub(crate) fn register(&self, side: Side, accept: impl FnOnce(bool, u64) -> Option<R>) -> Result<(), Status> {
        self.register_as(side, Term::Once, accept)
    }

    /// Like [`register`](Pair::register); one that stays keeps its place while its handler runs.
    #[inline]
    pub(crate) fn register_as(
        &self,
        side: Side,
        term: Term,
        accept: impl FnOnce(bool, u64) -> Option<R>,
    ) -> Result<(), Status> {
        let mut state = self.state.lock();
        let peer_is_open = state.ends[side.other() as usize].is_open;
        let end = &mut state.ends[side as usize];
        let is_ready = !end.queue.is_empty();
        if !peer_is_open && !is_ready {
            return Err(Status::PeerClosed);
        }
        end.reading.register(is_ready, term, accept)
    }

    /// The handler of a wait for messages that stays has returned, which is told by this alone, and it waits for the next.
    /// `accept` has it accepted as in [`register`](Pair::register), with what there is to be told already.
    #[inline]
    pub(crate) fn register_again(
        &self,
        side: Side,
        generation: u64,
        accept: impl FnOnce(Option<Completion>, u64) -> Option<Anew<R>>,
    ) {
        Self::register_again_in(&mut self.state.lock(), side, generation, accept);
    }

    /// Whether its handler has begun again.
    #[inline(always)]
    fn register_again_in(
        state: &mut State<M, R>,
        side: Side,
        generation: u64,
        accept: impl FnOnce(Option<Completion>, u64) -> Option<Anew<R>>,
    ) -> bool {
        let peer_is_open = state.ends[side.other() as usize].is_open;
        let end = &mut state.ends[side as usize];
        let there = match (end.is_open, end.queue.is_empty(), peer_is_open) {
            (false, ..) => Some(Completion::Canceled),
            (true, false, _) => Some(Completion::Ready),
            (true, true, false) => Some(Completion::PeerClosed),
            (true, true, true) => None,
        };
        let has_begun = end.reading.register_again(generation, there.is_some(), |generation| accept(there, generation));
        if !has_begun {
            end.begun = end.begun.wrapping_sub(1);
        }
        has_begun
    }

    /// [`register_again`](Pair::register_again) for one that takes messages: what comes back is the next one, if its handler
    /// has begun again and nobody waits for the room that it leaves.
    #[inline]
    pub(crate) fn register_to_take(
        &self,
        side: Side,
        generation: u64,
        accept: impl FnOnce(Option<Completion>, u64) -> Option<Anew<R>>,
    ) -> Option<M> {
        let mut state = self.state.lock();
        let has_begun = Self::register_again_in(&mut state, side, generation, accept);
        if !has_begun || !state.ends[side.other() as usize].writing.is_idle() {
            return None;
        }
        self.pop(&mut state, side, &mut Next::Nothing)
    }

    /// The handler of a wait for messages that stayed has returned for the last time.
    pub(crate) fn end_reading(&self, side: Side, generation: u64) {
        self.state.lock().ends[side as usize].reading.end(generation);
    }

    /// Registers a wait for room for a message of `bytes`, like [`register`](Pair::register).
    pub(crate) fn register_room(
        &self,
        side: Side,
        bytes: usize,
        accept: impl FnOnce(bool, u64) -> Option<R>,
    ) -> Result<(), Status> {
        let mut state = self.state.lock();
        let is_ready = match state.refuses(side, bytes) {
            None => true,
            Some(Status::ShouldWait) => false,
            Some(status) => return Err(status),
        };
        let end = &mut state.ends[side as usize];
        end.writing.register(is_ready, Term::Once, accept)?;
        end.wanted_bytes = bytes;
        Ok(())
    }

    /// The handler of a registration begins: the end is free for the next one. What is left of the registration is
    /// dropped by the caller.
    pub(crate) fn handler_begins(&self, side: Side, wanted: Wanted, generation: u64) -> Option<R> {
        self.state.lock().ends[side as usize].handler_begins(wanted, generation)
    }

    /// [`handler_begins`](Pair::handler_begins) for one that takes messages, and the oldest message. There may be none: somebody
    /// else has read it, or the end has closed. Somebody may wait for the room that it leaves.
    pub(crate) fn taker_begins(&self, side: Side, generation: u64, next: &mut Next<R>) -> (Option<R>, Option<M>) {
        let mut state = self.state.lock();
        let ended = state.ends[side as usize].handler_begins(Wanted::Message, generation);
        (ended, self.pop(&mut state, side, next))
    }

    /// The handler has returned.
    pub(crate) fn handler_ends(&self, side: Side) {
        // ORDERING: Relaxed; a count that is looked at by whoever owns the end, whose ownership came to it some other way.
        self.ended[side as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a registration back. `None`: there is none, or its handler begins at this moment; in either case the end is
    /// free afterwards.
    pub(crate) fn cancel(&self, side: Side, wanted: Wanted) -> Option<R::Handler> {
        let mut state = self.state.lock();
        let op = state.ends[side as usize].slot(wanted).cancel()?;
        // Under the lock, so that a handler that has begun finds the end as it left it.
        let handler = op.take_back();
        drop(state);
        handler
    }

    /// Whether the end can be sent: nothing is registered, no call waits, and no handler is running.
    pub(crate) fn is_idle(&self, side: Side) -> bool {
        let state = self.state.lock();
        let end = &state.ends[side as usize];
        // ORDERING: as in `handler_ends`.
        let no_handler = self.ended[side as usize].load(Ordering::Relaxed) == end.begun;
        no_handler && end.reading.is_idle() && end.writing.is_idle() && end.calls.is_empty()
    }

    /// Closes an end. The caller destroys what was not read, then tells who waits.
    pub(crate) fn close(&self, side: Side) -> Closed<M, R> {
        let mut state = self.state.lock();
        let mut to_tell = Vec::new();
        let end = &mut state.ends[side as usize];
        end.is_open = false;
        end.bytes = 0;
        let unread = std::mem::take(&mut end.queue);
        note(&mut to_tell, end.reading.close());
        note(&mut to_tell, end.writing.close());
        end.calls.close(Completion::Canceled, &mut to_tell);
        let peer = &mut state.ends[side.other() as usize];
        if peer.queue.is_empty() {
            note(&mut to_tell, peer.reading.peer_closes());
        }
        note(&mut to_tell, peer.writing.peer_closes());
        peer.calls.close(Completion::PeerClosed, &mut to_tell);
        self.note_news(&state, side.other());
        Closed { unread, to_tell }
    }

    /// What an end has not read.
    pub(crate) fn queued(&self, side: Side) -> QueueLength {
        let state = self.state.lock();
        let end = &state.ends[side as usize];
        QueueLength { messages: end.queue.len(), bytes: end.bytes }
    }

    /// Whether an end is open.
    pub(crate) fn is_open(&self, side: Side) -> bool {
        self.state.lock().ends[side as usize].is_open
    }
}

fn note<R: WaitOp>(to_tell: &mut Vec<Next<R>>, next: Next<R>) {
    if !matches!(next, Next::Nothing) {
        to_tell.push(next);
    }
}
