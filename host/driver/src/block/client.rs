//! The client of a block device: many requests in flight, answered in any order.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::layout::{BlockInfo, Flags, INFO_LEN, Op, RequestHeader};
use super::pending::{Asked, BlockDone, Pending};
use super::{BlockBuffer, DRAIN};
use crate::abi::{CallSite, here};
use crate::slot::Slot;
use crate::{Channel, Dispatcher, Message, Status};

/// A client of a block device. Clones share the connection; when the last one goes, it is closed, and what is pending is
/// told `Canceled` on the thread that drops it.
#[derive(Debug, Clone)]
pub struct BlockClient {
    shared: Arc<Shared>,
}

/// One request, for [`BlockClient::submit`].
#[derive(Debug)]
pub struct BlockCommand {
    op: Op,
    flags: Flags,
    offset: u64,
    length: u32,
    /// The data of a write, or the room for a read.
    buffer: Option<BlockBuffer>,
}

impl BlockCommand {
    /// Asks what the device is; the answer is [`BlockInfo::decode`]d from the data of the reply.
    pub fn info() -> BlockCommand {
        BlockCommand { op: Op::Info, flags: Flags::NONE, offset: 0, length: 0, buffer: None }
    }

    /// Reads `length` bytes. The device answers in a buffer of that length, which is made when the command is submitted.
    pub fn read(offset: u64, length: u32) -> BlockCommand {
        BlockCommand { op: Op::Read, flags: Flags::NONE, offset, length, buffer: None }
    }

    /// Reads into a buffer that was made before, as much as it is long.
    pub fn read_into(offset: u64, buffer: BlockBuffer) -> BlockCommand {
        let length = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        BlockCommand { op: Op::Read, flags: Flags::NONE, offset, length, buffer: Some(buffer) }
    }

    /// Writes the data of `buffer`.
    pub fn write(offset: u64, buffer: BlockBuffer, flags: Flags) -> BlockCommand {
        let length = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        BlockCommand { op: Op::Write, flags, offset, length, buffer: Some(buffer) }
    }

    /// Makes what was answered before durable.
    pub fn flush() -> BlockCommand {
        BlockCommand { op: Op::Flush, flags: Flags::NONE, offset: 0, length: 0, buffer: None }
    }

    /// Declares a range unneeded.
    pub fn trim(offset: u64, length: u32, flags: Flags) -> BlockCommand {
        BlockCommand { op: Op::Trim, flags, offset, length, buffer: None }
    }

    /// Writes zeroes.
    pub fn write_zeroes(offset: u64, length: u32, flags: Flags) -> BlockCommand {
        BlockCommand { op: Op::WriteZeroes, flags, offset, length, buffer: None }
    }

    /// How many bytes of data a success brings.
    fn expects(&self) -> u32 {
        match self.op {
            Op::Info => INFO_LEN as u32,
            Op::Read => self.length,
            _ => 0,
        }
    }

    fn into_message(self, id: u64) -> Result<Message, (Status, Option<BlockBuffer>)> {
        let room = self.expects() as usize;
        let BlockCommand { op, flags, offset, length, buffer } = self;
        let buffer = match buffer {
            Some(buffer) if buffer.len() != length as usize => return Err((Status::InvalidArgs, Some(buffer))),
            Some(buffer) => buffer,
            None => BlockBuffer::with_len(room).map_err(|status| (status, None))?,
        };
        Ok(buffer.into_request(&RequestHeader { id, op, flags, offset, length }))
    }
}

struct Shared {
    /// Where the client was made, which is what its reads are listed by.
    site: &'static CallSite,
    channel: Channel,
    dispatcher: Dispatcher,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pending: Pending,
    /// Why nothing can be asked any more.
    ended: Option<Status>,
}

impl BlockClient {
    /// A client on the client end of a block channel, such as [`Node::connect`](crate::Node::connect) gives. Replies are
    /// taken on `dispatcher`, where the callbacks run.
    ///
    /// # Errors
    /// The dispatcher is shut down, or the channel has a registered read (`BadState`).
    #[track_caller]
    pub fn new(channel: Channel, dispatcher: &Dispatcher) -> Result<BlockClient, Status> {
        let state = Mutex::new(State::default());
        let shared = Arc::new(Shared { site: here::<BlockClient>(), channel, dispatcher: dispatcher.clone(), state });
        match shared.arm() {
            // A device that is gone already is told by the first request.
            Ok(()) | Err(Status::PeerClosed) => Ok(BlockClient { shared }),
            Err(status) => Err(status),
        }
    }

    /// Sends a request; `done` gets its outcome on the dispatcher of the client: for a read or an info the data, else an
    /// empty buffer.
    ///
    /// # Errors
    /// Nothing was sent: the device is gone (`PeerClosed`), the channel is full (`ShouldWait`), the dispatcher has shut
    /// down (`Canceled`), there is no memory, or a buffer is longer than a request can say (`InvalidArgs`). The callback
    /// and the buffer are inside the error.
    pub fn submit<F>(&self, command: BlockCommand, done: F) -> Result<(), SubmitError>
    where
        F: FnOnce(Result<BlockBuffer, Status>) + Send + 'static,
    {
        self.shared.send(command, Box::new(done))
    }

    /// Sends a request and waits for its outcome.
    ///
    /// # Errors
    /// As [`submit`](Self::submit), and what the device answers.
    ///
    /// # Cancel safety
    /// A request that was sent is carried out even if the future is dropped.
    pub async fn request(&self, command: BlockCommand) -> Result<BlockBuffer, Status> {
        let slot = Arc::new(Slot::new());
        let filled = Arc::clone(&slot);
        self.shared.send(command, Box::new(move |outcome| filled.fill(outcome)))?;
        poll_fn(|cx| slot.poll_take(cx)).await
    }

    /// What the device is.
    ///
    /// # Errors
    /// As [`request`](Self::request); `IoInvalid` for a description that makes no sense.
    pub async fn info(&self) -> Result<BlockInfo, Status> {
        let reply = self.request(BlockCommand::info()).await?;
        BlockInfo::decode(reply.data()).map_err(|_| Status::IoInvalid)
    }

    /// Reads a range.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub async fn read(&self, offset: u64, length: u32) -> Result<BlockBuffer, Status> {
        self.request(BlockCommand::read(offset, length)).await
    }

    /// Writes the data of `buffer`.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub async fn write(&self, offset: u64, buffer: BlockBuffer, flags: Flags) -> Result<(), Status> {
        self.request(BlockCommand::write(offset, buffer, flags)).await.map(drop)
    }

    /// Makes what was answered before durable.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub async fn flush(&self) -> Result<(), Status> {
        self.request(BlockCommand::flush()).await.map(drop)
    }

    /// Declares a range unneeded.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub async fn trim(&self, offset: u64, length: u32, flags: Flags) -> Result<(), Status> {
        self.request(BlockCommand::trim(offset, length, flags)).await.map(drop)
    }

    /// Writes zeroes.
    ///
    /// # Errors
    /// As [`request`](Self::request).
    pub async fn write_zeroes(&self, offset: u64, length: u32, flags: Flags) -> Result<(), Status> {
        self.request(BlockCommand::write_zeroes(offset, length, flags)).await.map(drop)
    }

    /// How many requests have no answer yet.
    pub fn in_flight(&self) -> usize {
        self.shared.state().pending.len()
    }
}

impl Shared {
    fn send(&self, command: BlockCommand, done: BlockDone) -> Result<(), SubmitError> {
        let expects = command.expects();
        let id = {
            let mut state = self.state();
            if let Some(status) = state.ended {
                return Err(SubmitError { status, done, buffer: command.buffer });
            }
            state.pending.insert(Asked { done, expects })
        };
        let (status, buffer) = match command.into_message(id) {
            Err((status, buffer)) => (status, buffer),
            Ok(message) => match self.channel.write(message) {
                Ok(()) => return Ok(()),
                Err(error) => (error.status(), Some(BlockBuffer::from_request(error.into_message()))),
            },
        };
        let asked = self.state().pending.remove(id);
        match asked {
            Some(Asked { done, .. }) => Err(SubmitError { status, done, buffer }),
            // The end of the connection came in between and has told the callback.
            None => Ok(()),
        }
    }

    /// Registers for the next reply.
    fn arm(self: &Arc<Self>) -> Result<(), Status> {
        let weak = Arc::downgrade(self);
        let armed = self.channel.begin_read_at(self.site, &self.dispatcher, move |told| Shared::readable(&weak, told));
        armed.map_err(|error| match error.into_status() {
            Status::Unavailable => Status::Canceled,
            status => status,
        })
    }

    /// Takes replies, a bounded number at a time.
    fn readable(weak: &Weak<Self>, told: Result<(), Status>) {
        // The client is gone: its end was closed, which is why this was called.
        let Some(shared) = weak.upgrade() else { return };
        if let Err(status) = told
            && status != Status::PeerClosed
        {
            return shared.end(status);
        }
        let again = Again(&shared);
        for _ in 0..DRAIN {
            match shared.channel.try_read() {
                Ok(message) => shared.answered(message),
                Err(_) => break,
            }
        }
        drop(again);
    }

    fn answered(&self, message: Message) {
        let Ok((header, buffer)) = BlockBuffer::from_reply(message) else { return self.distrust() };
        let Some(Asked { done, expects }) = self.state().pending.remove(header.id) else { return self.distrust() };
        done(match header.status {
            Err(status) => Err(status),
            Ok(()) if header.length == expects => Ok(buffer),
            Ok(()) => Err(Status::IoInvalid),
        });
    }

    /// Ends the conversation with a device that does not keep to the protocol.
    fn distrust(&self) {
        self.end(Status::IoInvalid);
    }

    /// Tells everybody who waits, and refuses what is asked from now on. The first reason counts.
    fn end(&self, status: Status) {
        let (waiting, status) = {
            let mut state = self.state();
            let status = *state.ended.get_or_insert(status);
            (state.pending.drain(), status)
        };
        for done in waiting {
            done(Err(status));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Registers again when the replies of this turn were taken, also when a callback panicked.
struct Again<'a>(&'a Arc<Shared>);

impl Drop for Again<'_> {
    fn drop(&mut self) {
        if self.0.state().ended.is_none()
            && let Err(status) = self.0.arm()
        {
            self.0.end(status);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.end(Status::Canceled);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("Shared").field("in_flight", &state.pending.len()).field("ended", &state.ended).finish()
    }
}

/// A request that was not sent; its callback, which was not called, and its buffer are inside.
pub struct SubmitError {
    status: Status,
    done: BlockDone,
    buffer: Option<BlockBuffer>,
}

impl SubmitError {
    /// Why.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Why, alone; the callback is dropped.
    pub fn into_status(self) -> Status {
        self.status
    }

    /// The callback, and the data of a write or the room for a read.
    pub fn into_parts(self) -> (BlockDone, Option<BlockBuffer>) {
        (self.done, self.buffer)
    }
}

impl fmt::Debug for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubmitError").field("status", &self.status).finish_non_exhaustive()
    }
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the request was not sent: {}", self.status)
    }
}

impl std::error::Error for SubmitError {}

impl From<SubmitError> for Status {
    fn from(error: SubmitError) -> Self {
        error.status
    }
}
