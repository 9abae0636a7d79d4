//! [`Device`]: the block device as a connection sees it, over a channel of the block protocol.
//!
//! Requests go out under the session's ids and answers come back in any order; data moves in the messages themselves.

use std::task::{Context, Poll, ready};

use fuchsine_driver::block::{BlockBuffer, BlockInfo, Flags, Op, ReplyHeader, RequestHeader};
use fuchsine_driver::{Channel, Message, Status};

use crate::protocol::constants::NbdError;
use crate::protocol::policy::Operation;
use crate::session::DeviceRequest;
use crate::session::buffer::Buffer;

impl Buffer for BlockBuffer {
    fn with_payload(len: usize) -> Option<Self> {
        BlockBuffer::with_len(len).ok()
    }

    fn payload(&self) -> &[u8] {
        self.data()
    }

    fn payload_mut(&mut self) -> &mut [u8] {
        self.data_mut()
    }
}

/// The device's word on one request.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) id: u64,
    pub(crate) outcome: Result<(), NbdError>,
    pub(crate) data: BlockBuffer,
}

/// A channel to the device, for one connection.
#[derive(Debug)]
pub(crate) struct Device {
    channel: Channel,
}

impl Device {
    pub(crate) fn new(channel: Channel) -> Self {
        Self { channel }
    }

    /// Asks what the device is. Nothing else may be under way.
    ///
    /// # Errors
    /// What the device answers, or `IoInvalid` when its answer makes no sense.
    pub(crate) async fn info(&self) -> Result<BlockInfo, Status> {
        let header = RequestHeader { id: 0, op: Op::Info, flags: Flags::NONE, offset: 0, length: 0 };
        self.channel.write(BlockBuffer::bare_request(&header)?).map_err(|refused| refused.into_status())?;
        let (header, data) = taken_apart(self.channel.read().await?)?;
        header.status?;
        BlockInfo::decode(data.data()).map_err(|_| Status::IoInvalid)
    }

    /// Passes a request on. An idle device answers before this returns.
    ///
    /// # Errors
    /// `PeerClosed` when the device is gone; anything else concerns this request alone.
    pub(crate) fn ask(&self, request: DeviceRequest<BlockBuffer>) -> Result<(), Status> {
        let DeviceRequest { id, operation, offset, length, data } = request;
        let (op, flags) = match operation {
            Operation::Read => (Op::Read, Flags::NONE),
            Operation::Write { fua } => (Op::Write, flag(fua, Flags::FUA)),
            Operation::Flush => (Op::Flush, Flags::NONE),
            Operation::Trim { fua } => (Op::Trim, flag(fua, Flags::FUA)),
            Operation::WriteZeroes { fua, keep } => {
                (Op::WriteZeroes, flag(fua, Flags::FUA) | flag(keep, Flags::NO_HOLE))
            }
        };
        let buffer = match data {
            Some(data) => data,
            // A read brings the room for its data along.
            None => BlockBuffer::with_len(if op == Op::Read { length as usize } else { 0 })?,
        };
        let message = buffer.into_request(&RequestHeader { id, op, flags, offset, length });
        self.channel.write(message).map_err(|refused| refused.into_status())
    }

    /// Takes an answer that is there.
    ///
    /// # Errors
    /// `ShouldWait`: none is. Anything else: none will come.
    pub(crate) fn try_answer(&self) -> Result<Answer, Status> {
        answer(self.channel.try_read()?)
    }

    /// Takes the next answer, or registers to be woken for it.
    pub(crate) fn poll_answer(&self, cx: &mut Context<'_>) -> Poll<Result<Answer, Status>> {
        Poll::Ready(answer(ready!(self.channel.poll_read(cx))?))
    }
}

fn flag(set: bool, flag: Flags) -> Flags {
    if set { flag } else { Flags::NONE }
}

fn taken_apart(message: Message) -> Result<(ReplyHeader, BlockBuffer), Status> {
    BlockBuffer::from_reply(message).map_err(|_| Status::IoInvalid)
}

fn answer(message: Message) -> Result<Answer, Status> {
    let (header, data) = taken_apart(message)?;
    Ok(Answer { id: header.id, outcome: header.status.map_err(nbd_error), data })
}

/// What a client is told of a failure of the device.
pub(crate) fn nbd_error(status: Status) -> NbdError {
    match status {
        Status::AccessDenied => NbdError::Perm,
        Status::NoMemory | Status::NoResources => NbdError::NoMemory,
        Status::InvalidArgs => NbdError::Invalid,
        Status::OutOfRange | Status::NoSpace | Status::FileBig => NbdError::NoSpace,
        Status::NotSupported => NbdError::NotSupported,
        Status::BadState | Status::Unavailable | Status::Canceled | Status::PeerClosed => NbdError::Shutdown,
        _ => NbdError::Io,
    }
}
