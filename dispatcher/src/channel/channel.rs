//! A channel's ends: making a pair, writing, reading what is there, closing.

use std::fmt;
use std::task::{Poll, Waker};

use super::ends::{Side, Wanted};
use super::error::WriteError;
use super::limits::Limits;
use super::message::{Handle, Message};
use super::pair::{Closed, Pair, ReadError, Reply};
use super::registration::Registered;
use super::teardown;
use super::wait_op::Next;
use crate::runtime::call_stack;
use crate::site::Site;
use crate::status::Status;
use crate::sync::Arc;
use crate::sync::probe::{self, Note, Point, Scarce};
use crate::sync::unmodelled::{AtomicU64, Ordering};

pub(super) type ChannelPair = Pair<Message, Registered>;

/// The number of a channel, in which no two of a process are the same.
fn fresh_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// One end of a channel. Both ends write and read; in each direction messages arrive in the order of their writes.
///
/// Dropping an end closes it: the peer reads what was written and is then told [`Status::PeerClosed`]; what this end has
/// not read is destroyed, and a read that is registered on it is told [`Status::Canceled`] in its turn.
///
/// # Thread requirements
/// Any thread, several at once. Every message goes to one reader.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::{Channel, Message, ReadError, Status};
///
/// let (left, right) = Channel::pair();
/// left.write(Message::from_bytes(b"hello"))?;
/// drop(left);
/// assert_eq!(right.try_read()?.bytes(), b"hello");
/// assert_eq!(right.try_read().expect_err("that was all"), ReadError::PeerClosed);
/// # Ok::<(), Status>(())
/// ```
pub struct Channel {
    pub(super) pair: Arc<ChannelPair>,
    pub(super) side: Side,
    /// What its calls are told apart by from those of other channels; the same at both ends.
    pub(super) id: u64,
}

impl Channel {
    /// Two connected ends, with no limit on what may wait in between.
    #[track_caller]
    pub fn pair() -> (Channel, Channel) {
        Channel::pair_with(Limits::default())
    }

    /// Two connected ends, and a limit on what may wait in each direction.
    #[track_caller]
    pub fn pair_with(limits: Limits) -> (Channel, Channel) {
        Channel::pair_from(Site::caller(), limits)
    }

    /// As [`pair_with`](Channel::pair_with), for code of others: the ends are listed as made at `site`.
    pub fn pair_from(site: Site, limits: Limits) -> (Channel, Channel) {
        let pair = Arc::new(Pair::new(limits));
        let other = Arc::clone(&pair);
        let (id, location) = (fresh_id(), site);
        for side in [Side::A, Side::B] {
            probe::note(|| Note::Made { what: "channel end", id: Channel::end_id(id, side), location });
        }
        (Channel { pair, side: Side::A, id }, Channel { pair: other, side: Side::B, id })
    }

    /// Sends a message. It moves to the peer; nothing is copied and nobody is waited for.
    ///
    /// A message that carries the [`txid`](Message::txid) of a call of the peer is the reply to it: it goes to the caller, past
    /// the queue and its limits. If nobody waits for it any more, it is dropped.
    ///
    /// When the peer has a read registered, its handler may run inside of this call, on this thread: if this is a thread
    /// of the pool of its dispatcher, its driver is not in the call stack, and its dispatcher is idle with nothing queued.
    /// Otherwise the handler is queued.
    ///
    /// An end that waits in a queue, inside of a message, is owned by that queue. Of two channels, do not send the
    /// reading end of each through the other: nobody could ever read either, and both would be lost to the process.
    ///
    /// # Errors
    /// [`WriteError`] with the whole message, in this order: [`Status::NotSupported`] when it carries an end of this
    /// very channel, which then nobody could ever read; [`Status::InvalidArgs`] when it carries an end with a registered
    /// read or a running handler; [`Status::PeerClosed`]; [`Status::ShouldWait`] when the queue is at its [`Limits`].
    ///
    /// # Thread requirements
    /// Any thread. Hold no lock that a handler of another driver may want.
    pub fn write(&self, message: Message) -> Result<(), WriteError> {
        probe::point(Point::Write);
        if let Err(status) = self.check_handles(message.handles()) {
            return Err(WriteError::new(status, message));
        }
        if let Some(txid) = message.txid() {
            return match txid.call_of(self.id, self.side.other()) {
                Some(number) => self.reply(number, message),
                // A request that is forwarded is an ordinary message there.
                None => self.write(message.in_reply_to(None)).map_err(|error| error.map(|it| it.in_reply_to(txid))),
            };
        }
        if probe::refuses(Scarce::Write) {
            return Err(WriteError::new(Status::ShouldWait, message));
        }
        let mut next = Next::Nothing;
        let written = self.pair.write(self.side, message, &mut next);
        next.carry_out();
        written.map_err(|(status, message)| WriteError::new(status, message))
    }

    fn reply(&self, number: u32, mut message: Message) -> Result<(), WriteError> {
        let txid = message.txid();
        message = message.in_reply_to(None);
        let mut next = Next::Nothing;
        let answered = self.pair.answer(self.side, number, message, &mut next);
        next.carry_out();
        match answered {
            Ok(Reply::Taken) => Ok(()),
            Ok(Reply::Late(message)) => {
                tracing::debug!(?txid, "a reply came too late and is dropped");
                drop(message);
                Ok(())
            }
            Err((status, message)) => Err(WriteError::new(status, message.in_reply_to(txid))),
        }
    }

    /// Takes the oldest message.
    ///
    /// # Errors
    /// [`ReadError::ShouldWait`] when none is queued, [`ReadError::PeerClosed`] when none is queued and none will come.
    ///
    /// # Thread requirements
    /// Any thread. Hold no lock that a handler of another driver may want: if the writer waits for room, its handler may run
    /// inside of this call.
    pub fn try_read(&self) -> Result<Message, ReadError> {
        probe::point(Point::Read);
        let (mut room, mut peer_is_open) = (Next::Nothing, true);
        let read = self.pair.try_read(self.side, &mut peer_is_open, &mut room);
        room.carry_out();
        match read {
            Some(message) => Ok(message),
            None if peer_is_open => Err(ReadError::ShouldWait),
            None => Err(ReadError::PeerClosed),
        }
    }

    /// How many messages this end has not read.
    pub fn queued_messages(&self) -> usize {
        self.pair.queued(self.side).messages
    }

    /// How many bytes there are in the messages that this end has not read.
    pub fn queued_bytes(&self) -> usize {
        self.pair.queued(self.side).bytes
    }

    /// How many messages the peer has not read.
    pub fn peer_queued_messages(&self) -> usize {
        self.pair.queued(self.side.other()).messages
    }

    /// How many bytes there are in the messages that the peer has not read.
    pub fn peer_queued_bytes(&self) -> usize {
        self.pair.queued(self.side.other()).bytes
    }

    /// How much may wait in each direction, as told when the channel was made.
    pub fn limits(&self) -> Limits {
        self.pair.limits()
    }

    /// Whether the other end is closed. There may be messages of it to read all the same.
    pub fn is_peer_closed(&self) -> bool {
        !self.pair.is_open(self.side.other())
    }

    /// The number of an end, in notes.
    fn end_id(id: u64, side: Side) -> u64 {
        id << 1 | side as u64
    }

    /// For the future: the oldest message, or the waker is noted. `awaiting` is the future's own mark.
    pub(crate) fn poll_next(&self, awaiting: &mut Option<u64>, waker: &Waker) -> Poll<Result<Message, Status>> {
        let mut room = Next::Nothing;
        let polled = self.pair.poll_read(self.side, awaiting, waker, &mut room);
        room.carry_out();
        if polled.is_pending() {
            self.pair.readers.note(self.side, call_stack::poster().dispatcher);
        }
        polled
    }

    /// The future of this mark is dropped.
    pub(crate) fn stop_awaiting(&self, awaiting: u64) {
        drop(self.pair.stop_awaiting(self.side, Wanted::Message, awaiting));
    }

    /// Whether it can be given away: nothing is registered on it, no call is in flight, and no handler of it is running.
    pub(super) fn is_idle(&self) -> bool {
        self.pair.is_idle(self.side)
    }

    pub(super) fn check_handles(&self, handles: &[Handle]) -> Result<(), Status> {
        for handle in handles {
            let Handle::Channel(end) = handle else { continue };
            if Arc::ptr_eq(&end.pair, &self.pair) {
                return Err(Status::NotSupported);
            }
            if !end.is_idle() {
                return Err(Status::InvalidArgs);
            }
        }
        Ok(())
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        probe::point(Point::Close);
        probe::note(|| Note::Gone { what: "channel end", id: Channel::end_id(self.id, self.side) });
        let Closed { unread, to_tell } = self.pair.close(self.side);
        teardown::close(unread, to_tell);
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("pair", &Arc::as_ptr(&self.pair))
            .field("side", &self.side)
            .field("queued_messages", &self.queued_messages())
            .field("is_peer_closed", &self.is_peer_closed())
            .finish()
    }
}
