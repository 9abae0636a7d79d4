//! The device side of the block protocol: requests that were checked, each answered exactly once.

use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll};

use super::DRAIN;
use super::layout::{BlockInfo, Flags, HEADER_LEN, INFO_LEN, Malformed, Op, ReplyHeader, RequestHeader, id_of, op_of};
use crate::abi::{CallSite, here};
use crate::{Channel, Dispatcher, Message, Status};

/// The server end of a block channel.
///
/// Malformed requests, requests outside of the device, and [`Op::Info`] are answered here; what comes out is aligned,
/// within the device, and not empty.
#[derive(Debug)]
pub struct BlockServer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    channel: Channel,
    info: BlockInfo,
}

impl BlockServer {
    /// Serves a device with this description.
    ///
    /// # Errors
    /// The description makes no sense.
    pub fn new(channel: Channel, info: BlockInfo) -> Result<BlockServer, Malformed> {
        info.validate()?;
        Ok(BlockServer { shared: Arc::new(Shared { channel, info }) })
    }

    /// The next request. One task asks at a time; requests may be answered in any order, from anywhere.
    ///
    /// # Errors
    /// `PeerClosed`: the client is gone. Otherwise as [`Channel::read`].
    ///
    /// # Cancel safety
    /// Dropping the future loses no request.
    #[track_caller]
    pub fn next(&self) -> impl Future<Output = Result<BlockRequest, Status>> {
        let site = here::<BlockServer>();
        poll_fn(move |cx| self.poll_next_at(site, cx))
    }

    /// The next request, for futures that watch several things.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    #[track_caller]
    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Result<BlockRequest, Status>> {
        self.poll_next_at(here::<BlockServer>(), cx)
    }

    fn poll_next_at(&self, site: &'static CallSite, cx: &mut Context<'_>) -> Poll<Result<BlockRequest, Status>> {
        loop {
            match std::task::ready!(self.shared.channel.poll_read_at(site, cx)) {
                Err(status) => return Poll::Ready(Err(status)),
                Ok(message) => {
                    if let Some(request) = accept(&self.shared, message) {
                        return Poll::Ready(Ok(request));
                    }
                }
            }
        }
    }

    /// Calls `handler` on `dispatcher` with each request, until the client is gone or the dispatcher shuts down; then
    /// `handler` is dropped and the channel closed. The fastest way: where the runtime may call inline, the handler runs
    /// on the thread of the client that asks.
    ///
    /// On an unsynchronized dispatcher several requests are handled at once.
    ///
    /// # Errors
    /// The dispatcher is shut down (`Unavailable`), or a read is registered already (`BadState`).
    #[track_caller]
    pub fn serve<H>(self, dispatcher: &Dispatcher, handler: H) -> Result<(), Status>
    where
        H: Fn(BlockRequest) + Send + Sync + 'static,
    {
        let serving = Serving {
            site: here::<H>(),
            shared: self.shared,
            dispatcher: dispatcher.clone(),
            drains: if dispatcher.is_synchronized() { DRAIN } else { 1 },
            handler,
        };
        match arm(&Arc::new(serving)) {
            // The client has gone before it asked anything.
            Ok(()) | Err(Status::PeerClosed) => Ok(()),
            Err(status) => Err(status),
        }
    }
}

struct Serving<H> {
    site: &'static CallSite,
    shared: Arc<Shared>,
    dispatcher: Dispatcher,
    /// How many requests one callback handles.
    drains: usize,
    handler: H,
}

fn arm<H: Fn(BlockRequest) + Send + Sync + 'static>(serving: &Arc<Serving<H>>) -> Result<(), Status> {
    let next = Arc::clone(serving);
    let call = move |told: Result<(), Status>| {
        // After `PeerClosed` too there may be requests; reading tells.
        if matches!(told, Ok(()) | Err(Status::PeerClosed)) {
            turn(&next);
        }
    };
    serving.shared.channel.begin_read_at(serving.site, &serving.dispatcher, call).map_err(Status::from)
}

/// Handles what has come, a bounded number at a time, and registers again.
fn turn<H: Fn(BlockRequest) + Send + Sync + 'static>(serving: &Arc<Serving<H>>) {
    let mut requests = Vec::new();
    // The registration comes before the work where requests may overlap, after it where they may not; and in either
    // case a handler that panics does not end the service.
    if serving.drains == 1 {
        if let Ok(message) = serving.shared.channel.try_read() {
            requests.extend(accept(&serving.shared, message));
        }
        drop(Again(serving));
        requests.into_iter().for_each(&serving.handler);
        return;
    }
    let _again = Again(serving);
    for _ in 0..serving.drains {
        let Ok(message) = serving.shared.channel.try_read() else { return };
        if let Some(request) = accept(&serving.shared, message) {
            (serving.handler)(request);
        }
    }
}

struct Again<'a, H: Fn(BlockRequest) + Send + Sync + 'static>(&'a Arc<Serving<H>>);

impl<H: Fn(BlockRequest) + Send + Sync + 'static> Drop for Again<'_, H> {
    fn drop(&mut self) {
        // Refused: the client is gone or the dispatcher shuts down. Then nothing holds `Serving` any more, and it goes.
        let _ = arm(self.0);
    }
}

/// Turns a message into a request, or answers it right away.
fn accept(shared: &Arc<Shared>, mut message: Message) -> Option<BlockRequest> {
    // The protocol carries no handles; whatever was sent along is closed.
    drop(message.take_handles());
    let header = match RequestHeader::decode(message.bytes()) {
        Ok(header) => header,
        Err(_) => {
            let (id, op) = (id_of(message.bytes()), op_of(message.bytes()));
            shared.answer(id, op, Err(Status::InvalidArgs), Some(message), 0);
            return None;
        }
    };
    if let Err(status) = shared.info.check(&header) {
        shared.answer(header.id, header.op as u16, Err(status), Some(message), 0);
        return None;
    }
    if header.op == Op::Info {
        shared.describe(&header, message);
        return None;
    }
    if header.op.has_range() && header.length == 0 {
        shared.answer(header.id, header.op as u16, Ok(()), Some(message), 0);
        return None;
    }
    let message =
        if header.op == Op::Read { shared.with_room(&header, message, header.length as usize)? } else { message };
    Some(BlockRequest { shared: Arc::clone(shared), header, message: Some(message) })
}

impl Shared {
    /// The message, or a bigger one in the same arena when the client has left no room for `length` bytes of data.
    /// Answers `NoMemory` when there is none.
    fn with_room(&self, header: &RequestHeader, message: Message, length: usize) -> Option<Message> {
        if message.len() - HEADER_LEN >= length {
            return Some(message);
        }
        let made = message.arena().ok_or(Status::NoMemory).and_then(|arena| arena.message(HEADER_LEN + length));
        match made {
            Ok(bigger) => Some(bigger),
            Err(status) => {
                self.answer(header.id, header.op as u16, Err(status), Some(message), 0);
                None
            }
        }
    }

    fn describe(&self, header: &RequestHeader, message: Message) {
        let Some(mut message) = self.with_room(header, message, INFO_LEN) else { return };
        message.bytes_mut()[HEADER_LEN..HEADER_LEN + INFO_LEN].copy_from_slice(&self.info.encode());
        self.answer(header.id, header.op as u16, Ok(()), Some(message), INFO_LEN as u32);
    }

    /// Sends a reply, in the message of the request where that is long enough.
    fn answer(&self, id: u64, op: u16, status: Result<(), Status>, message: Option<Message>, length: u32) {
        let header = ReplyHeader { id, op, status, length }.encode();
        let message = message.filter(|message| message.len() >= HEADER_LEN);
        let Some(mut message) = message.or_else(|| Message::with_len(HEADER_LEN).ok()) else { return };
        message.bytes_mut()[..HEADER_LEN].copy_from_slice(&header);
        message.truncate(HEADER_LEN + length as usize);
        // A client that is gone, or does not take its replies, needs none.
        let _ = self.channel.write(message);
    }
}

/// A request for the device. Dropping it without a reply answers `Canceled`.
pub struct BlockRequest {
    shared: Arc<Shared>,
    header: RequestHeader,
    /// Present until the reply is sent.
    message: Option<Message>,
}

impl BlockRequest {
    /// What is to be done.
    pub fn op(&self) -> Op {
        self.header.op
    }

    /// Where the range begins, in bytes.
    pub fn offset(&self) -> u64 {
        self.header.offset
    }

    /// How long the range is, in bytes.
    pub fn length(&self) -> u32 {
        self.header.length
    }

    /// Whether the change must survive a loss of power before it is answered.
    pub fn is_fua(&self) -> bool {
        self.header.flags.contains(Flags::FUA)
    }

    /// Whether zeroed space must stay allocated.
    pub fn keeps_space(&self) -> bool {
        self.header.flags.contains(Flags::NO_HOLE)
    }

    /// The data of a write, or what the reply to a read holds so far. Empty for other operations.
    pub fn data(&self) -> &[u8] {
        self.message.as_ref().map_or(&[], |message| &message.bytes()[HEADER_LEN..HEADER_LEN + self.data_len()])
    }

    /// Where the data of a read goes. Its values are unspecified before; a successful reply sends all of it.
    pub fn data_mut(&mut self) -> &mut [u8] {
        let end = HEADER_LEN + self.data_len();
        self.message.as_mut().map_or(&mut [], |message| &mut message.bytes_mut()[HEADER_LEN..end])
    }

    fn data_len(&self) -> usize {
        match self.header.op {
            Op::Read | Op::Write => self.header.length as usize,
            _ => 0,
        }
    }

    /// Answers, in the message of the request. From any thread.
    pub fn reply(mut self, status: Result<(), Status>) {
        self.send(status);
    }

    fn send(&mut self, status: Result<(), Status>) {
        let Some(message) = self.message.take() else { return };
        let length = if self.header.op == Op::Read && status.is_ok() { self.header.length } else { 0 };
        self.shared.answer(self.header.id, self.header.op as u16, status, Some(message), length);
    }
}

impl Drop for BlockRequest {
    fn drop(&mut self) {
        self.send(Err(Status::Canceled));
    }
}

impl fmt::Debug for BlockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockRequest").field("header", &self.header).finish_non_exhaustive()
    }
}
