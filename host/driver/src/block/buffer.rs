//! A message of the block protocol as a buffer: room for a header, then the data.

use crate::Message;
use crate::Status;

use super::layout::{HEADER_LEN, Malformed, ReplyHeader, RequestHeader};

/// Data on its way to or from a device. The bytes in front of the data are the header's: the buffer becomes a request,
/// and a reply becomes a buffer, without copying.
#[derive(Debug)]
pub struct BlockBuffer {
    /// At least a header long, with `length` bytes of data behind it.
    message: Message,
    length: usize,
}

impl BlockBuffer {
    /// A buffer for `length` bytes of data, whose values are unspecified until they are written.
    ///
    /// # Errors
    /// `NoMemory`.
    #[track_caller]
    pub fn with_len(length: usize) -> Result<BlockBuffer, Status> {
        let total = length.checked_add(HEADER_LEN).ok_or(Status::NoMemory)?;
        Ok(BlockBuffer { message: Message::with_len(total)?, length })
    }

    /// A buffer with a copy of `data`.
    ///
    /// # Errors
    /// `NoMemory`.
    #[track_caller]
    pub fn from_bytes(data: &[u8]) -> Result<BlockBuffer, Status> {
        let mut buffer = BlockBuffer::with_len(data.len())?;
        buffer.data_mut().copy_from_slice(data);
        Ok(buffer)
    }

    /// The data.
    pub fn data(&self) -> &[u8] {
        &self.message.bytes()[HEADER_LEN..HEADER_LEN + self.length]
    }

    /// The data, to be written.
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.message.bytes_mut()[HEADER_LEN..HEADER_LEN + self.length]
    }

    /// How many bytes of data.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Room for a header of another protocol, right in front of the data: both then go out as one range of bytes, see
    /// [`framed`](Self::framed).
    pub fn head_mut(&mut self) -> &mut [u8] {
        &mut self.message.bytes_mut()[..HEADER_LEN]
    }

    /// The last `head` bytes of the room in front of the data, and the data, as one range.
    ///
    /// # Panics
    /// If `head` is more than [`HEADER_LEN`].
    pub fn framed(&self, head: usize) -> &[u8] {
        assert!(head <= HEADER_LEN, "there is room for {HEADER_LEN} bytes in front of the data, not for {head}");
        &self.message.bytes()[HEADER_LEN - head..HEADER_LEN + self.length]
    }

    /// The message of a request: the header is written in front of the data. For a read, the data is the room that the
    /// device answers in.
    pub fn into_request(mut self, header: &RequestHeader) -> Message {
        self.message.bytes_mut()[..HEADER_LEN].copy_from_slice(&header.encode());
        self.message.truncate(HEADER_LEN + self.length);
        self.message
    }

    /// The message of a request without data.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn bare_request(header: &RequestHeader) -> Result<Message, Status> {
        Ok(BlockBuffer::with_len(0)?.into_request(header))
    }

    /// The buffer of a request that was made by [`into_request`](Self::into_request) and came back unsent.
    pub(super) fn from_request(message: Message) -> BlockBuffer {
        let length = message.len() - HEADER_LEN;
        BlockBuffer { message, length }
    }

    /// The header and the data of a reply.
    ///
    /// # Errors
    /// The message is no reply.
    pub fn from_reply(message: Message) -> Result<(ReplyHeader, BlockBuffer), Malformed> {
        let header = ReplyHeader::decode(message.bytes())?;
        // A `u32` fits, and `decode` has compared it with the length of the message.
        Ok((header, BlockBuffer { message, length: header.length as usize }))
    }
}
