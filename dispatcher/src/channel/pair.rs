//! The two ends of a channel as one state machine under one lock.
//!
//! It knows messages and read registrations only by what it needs of them ([`Queued`], [`ReadOp`]), so that a model
//! checker can run it without a dispatcher.
//!
//! # States of an end's reading side
//! ```text
//!          register, empty              a message, or the peer's closing
//!   Idle ────────────────────▶ Armed ──────────────────────────────────────▶ Notified
//!    ▲ │                         │ cancel, close                                │
//!    │ └──register, not empty────│────────────────────────────────────────────▶ │
//!    │                           ▼                      the handler begins,     │
//!    └───────────────────────────┴────────────────────  cancel, close ──────────┘
//!
//!   Idle ──a future waits──▶ Awaited ──a message, the peer's closing, the future is dropped──▶ Idle
//! ```
//!
//! # Rules
//! - The lock is held for a few instructions. A registration is *accepted* and *taken back* by its dispatcher under it
//!   (lock order: channel, then dispatcher); it is *completed* after the lock was released, because that may run the
//!   handler. Each transition returns what its caller does then, as [`Next`].
//! - Between the release and the completion anything may happen to the registration. That is harmless, because its
//!   dispatcher decides by the operation's own id who ends it, once.
//! - A registration carries its number. A handler that begins clears the registration of its own number only.

use std::collections::VecDeque;
use std::task::{Poll, Waker};

use super::limits::Limits;
use crate::status::Status;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, Ordering};

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

/// A read that was accepted by a dispatcher.
pub(crate) trait ReadOp: Clone {
    /// The handler, as it comes back from a cancel.
    type Handler;

    /// What was waited for has come about. It may run the handler before it returns; nothing happens if the operation
    /// has ended or has been completed before, except that `Canceled` replaces a message that is not yet told.
    fn complete(&self, how: Completion);

    /// Ends the operation and gives its handler back; `None` when the handler has begun or the operation has ended.
    /// Runs no user code.
    fn take_back(&self) -> Option<Self::Handler>;
}

/// How a read is completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Completion {
    /// A message is queued.
    Message,
    /// The peer closed with nothing queued.
    PeerClosed,
    /// The end itself was closed.
    Canceled,
}

/// What is done once the lock is released.
#[derive(Debug)]
#[must_use = "a reader that is not told waits for ever"]
pub(crate) enum Next<R> {
    /// Nothing.
    Nothing,
    /// A registered read is completed.
    Complete(R, Completion),
    /// A future is woken.
    Wake(Waker),
}

impl<R: ReadOp> Next<R> {
    /// Does it. The caller holds no lock.
    pub(crate) fn carry_out(self) {
        match self {
            Next::Nothing => {}
            Next::Complete(read, how) => read.complete(how),
            Next::Wake(waker) => waker.wake(),
        }
    }
}

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

#[derive(Debug)]
enum Reading<R> {
    Idle,
    Armed(R),
    Notified(R),
    Awaited(Waker),
}

/// One end: the queue of what it has not read, and its reading side.
#[derive(Debug)]
struct End<M, R> {
    is_open: bool,
    queue: VecDeque<M>,
    bytes: usize,
    reading: Reading<R>,
    /// The number of the newest registration or awaiting future.
    generation: u64,
}

#[derive(Debug)]
struct State<M, R> {
    ends: [End<M, R>; 2],
    limits: Limits,
}

/// A channel.
#[derive(Debug)]
pub(crate) struct Pair<M, R> {
    state: Mutex<State<M, R>>,
    /// How many handlers of each end are running; more than one only on an unsynchronized dispatcher.
    running: [AtomicU32; 2],
}

/// What an end leaves behind.
#[derive(Debug)]
pub(crate) struct Closed<M, R> {
    /// What it has not read.
    pub(crate) unread: VecDeque<M>,
    /// Its own registered read is told `Canceled`.
    pub(crate) own: Next<R>,
    /// The peer's is told `PeerClosed`.
    pub(crate) peer: Next<R>,
}

/// What one end can tell about a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueLength {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
}

impl<M: Queued, R: ReadOp> Pair<M, R> {
    pub(crate) fn new(limits: Limits) -> Self {
        let state = State { ends: [End::new(), End::new()], limits };
        Pair { state: Mutex::new(state), running: [AtomicU32::new(0), AtomicU32::new(0)] }
    }

    /// Queues a message for the other end.
    pub(crate) fn write(&self, from: Side, message: M) -> Result<Next<R>, (Status, M)> {
        let mut state = self.state.lock();
        let limits = state.limits;
        let reader = &mut state.ends[from.other() as usize];
        if !reader.is_open {
            return Err((Status::PeerClosed, message));
        }
        let bytes = message.byte_len();
        if !limits.allow(reader.queue.len(), reader.bytes, bytes) {
            return Err((Status::ShouldWait, message));
        }
        reader.bytes += bytes;
        reader.queue.push_back(message);
        Ok(reader.notify(Completion::Message))
    }

    /// Takes the oldest message.
    pub(crate) fn try_read(&self, side: Side) -> Result<M, ReadError> {
        self.state.lock().pop(side)
    }

    /// Registers a read. `accept` has it accepted by a dispatcher, ready at once or not, under this number; `None` when
    /// the dispatcher refuses.
    pub(crate) fn register(&self, side: Side, accept: impl FnOnce(bool, u64) -> Option<R>) -> Result<(), Status> {
        let mut state = self.state.lock();
        let peer_is_open = state.ends[side.other() as usize].is_open;
        let end = &mut state.ends[side as usize];
        let is_ready = !end.queue.is_empty();
        if !peer_is_open && !is_ready {
            return Err(Status::PeerClosed);
        }
        if !matches!(end.reading, Reading::Idle) {
            return Err(Status::BadState);
        }
        end.generation += 1;
        let read = accept(is_ready, end.generation).ok_or(Status::Unavailable)?;
        end.reading = if is_ready { Reading::Notified(read) } else { Reading::Armed(read) };
        Ok(())
    }

    /// The handler of a registration begins: the end is free for the next one. What is left of the registration is
    /// dropped by the caller.
    pub(crate) fn handler_begins(&self, side: Side, generation: u64) -> Option<R> {
        // ORDERING: Relaxed; a count that is looked at by whoever owns the end, whose ownership came to it some other way.
        self.running[side as usize].fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        let end = &mut state.ends[side as usize];
        if end.generation == generation { end.unregister() } else { None }
    }

    /// The handler has returned.
    pub(crate) fn handler_ends(&self, side: Side) {
        // ORDERING: as in `handler_begins`.
        self.running[side as usize].fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes the registered read back. `None`: there is none, or its handler begins at this moment; in either case the
    /// end is free afterwards.
    pub(crate) fn cancel(&self, side: Side) -> Option<R::Handler> {
        let mut state = self.state.lock();
        let read = state.ends[side as usize].unregister()?;
        // Under the lock, so that a handler that has begun finds the end as it left it.
        let handler = read.take_back();
        drop(state);
        handler
    }

    /// Whether the end can be sent: no read is registered and no handler is running.
    pub(crate) fn is_idle(&self, side: Side) -> bool {
        // ORDERING: as in `handler_begins`.
        let no_handler = self.running[side as usize].load(Ordering::Relaxed) == 0;
        no_handler && matches!(self.state.lock().ends[side as usize].reading, Reading::Idle)
    }

    /// Closes an end. The caller destroys what was not read, then tells the readers.
    pub(crate) fn close(&self, side: Side) -> Closed<M, R> {
        let mut state = self.state.lock();
        let end = &mut state.ends[side as usize];
        end.is_open = false;
        end.bytes = 0;
        let unread = std::mem::take(&mut end.queue);
        let own = match std::mem::replace(&mut end.reading, Reading::Idle) {
            Reading::Idle => Next::Nothing,
            Reading::Armed(read) | Reading::Notified(read) => Next::Complete(read, Completion::Canceled),
            // Its future was leaked; it finds the end closed.
            Reading::Awaited(waker) => Next::Wake(waker),
        };
        let reader = &mut state.ends[side.other() as usize];
        let peer = if reader.queue.is_empty() { reader.notify(Completion::PeerClosed) } else { Next::Nothing };
        Closed { unread, own, peer }
    }

    /// Takes the oldest message for a future, or notes the future as the one that is woken. `awaiting` is the future's
    /// own mark, empty at first.
    ///
    /// # Errors
    /// [`Status::PeerClosed`]; [`Status::BadState`] when a read is registered or another future waits.
    pub(crate) fn poll_read(&self, side: Side, awaiting: &mut Option<u64>, waker: &Waker) -> Poll<Result<M, Status>> {
        let mut state = self.state.lock();
        let end = &mut state.ends[side as usize];
        let is_own = *awaiting == Some(end.generation);
        // Dropped after the lock is released: a waker is user code.
        let mut replaced = None;
        let is_free = match &mut end.reading {
            Reading::Idle => true,
            Reading::Awaited(known) if is_own => {
                if !known.will_wake(waker) {
                    replaced = Some(std::mem::replace(known, waker.clone()));
                }
                false
            }
            Reading::Armed(_) | Reading::Notified(_) | Reading::Awaited(_) => {
                return Poll::Ready(Err(Status::BadState));
            }
        };
        let polled = match state.pop(side) {
            Err(ReadError::ShouldWait) => {
                if is_free {
                    let end = &mut state.ends[side as usize];
                    end.generation += 1;
                    *awaiting = Some(end.generation);
                    end.reading = Reading::Awaited(waker.clone());
                }
                Poll::Pending
            }
            outcome => {
                if !is_free {
                    replaced = state.ends[side as usize].stop_awaiting();
                }
                *awaiting = None;
                Poll::Ready(outcome.map_err(Status::from))
            }
        };
        drop(state);
        drop(replaced);
        polled
    }

    /// A future that waits is dropped; its waker is dropped by the caller.
    pub(crate) fn stop_awaiting(&self, side: Side, awaiting: u64) -> Option<Waker> {
        let mut state = self.state.lock();
        let end = &mut state.ends[side as usize];
        if end.generation == awaiting { end.stop_awaiting() } else { None }
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

impl<M: Queued, R> State<M, R> {
    fn pop(&mut self, side: Side) -> Result<M, ReadError> {
        let peer_is_open = self.ends[side.other() as usize].is_open;
        let end = &mut self.ends[side as usize];
        match end.queue.pop_front() {
            Some(message) => {
                end.bytes -= message.byte_len();
                end.shrink_when_empty();
                Ok(message)
            }
            None if peer_is_open => Err(ReadError::ShouldWait),
            None => Err(ReadError::PeerClosed),
        }
    }
}

impl<M, R> End<M, R> {
    fn new() -> Self {
        End { is_open: true, queue: VecDeque::new(), bytes: 0, reading: Reading::Idle, generation: 0 }
    }

    fn unregister(&mut self) -> Option<R> {
        match std::mem::replace(&mut self.reading, Reading::Idle) {
            Reading::Armed(read) | Reading::Notified(read) => Some(read),
            awaited => {
                self.reading = awaited;
                None
            }
        }
    }

    fn stop_awaiting(&mut self) -> Option<Waker> {
        match std::mem::replace(&mut self.reading, Reading::Idle) {
            Reading::Awaited(waker) => Some(waker),
            registered => {
                self.reading = registered;
                None
            }
        }
    }

    /// Gives the memory of a burst back.
    fn shrink_when_empty(&mut self) {
        const KEPT: usize = 1024;
        if self.queue.is_empty() && self.queue.capacity() > KEPT {
            self.queue = VecDeque::new();
        }
    }
}

impl<M, R: Clone> End<M, R> {
    /// Tells whoever waits on this end; a registered read is told once.
    fn notify(&mut self, how: Completion) -> Next<R> {
        match std::mem::replace(&mut self.reading, Reading::Idle) {
            Reading::Idle => Next::Nothing,
            Reading::Awaited(waker) => Next::Wake(waker),
            Reading::Armed(read) => {
                self.reading = Reading::Notified(read.clone());
                Next::Complete(read, how)
            }
            Reading::Notified(read) => {
                self.reading = Reading::Notified(read);
                Next::Nothing
            }
        }
    }
}
