//! Messages: bytes in an arena, which move and are never copied, and handles.

use std::fmt;
use std::os::fd::OwnedFd;

use super::arena::{Arena, Buffer};
use super::channel::Channel;
use super::pair::Queued;
use super::teardown;
use super::txid::Txid;
use super::value::Value;

/// The least room of an arena that is made for one message, so that a short reply fits beside it.
const LEAST_ROOM: usize = 256;

/// What travels through a channel. Every part may be absent; a wholly empty message is legal.
///
/// Writing moves it to the reader: neither are bytes copied nor can the writer reach them afterwards. A message that is
/// never read is destroyed with the end that did not read it, and its handles are closed, however deep messages are
/// nested in channels that are nested in messages.
///
/// # Examples
/// A reply in the memory of its request:
/// ```
/// use fuchsine_dispatcher::{Channel, Message, Status};
///
/// let (client, server) = Channel::pair();
/// client.write(Message::from_bytes(b"ping"))?;
///
/// let request = server.try_read()?;
/// assert_eq!(request.bytes(), b"ping");
/// let mut reply = request.recycle(4);
/// reply.bytes_mut().copy_from_slice(b"pong");
/// server.write(reply)?;
///
/// assert_eq!(client.try_read()?.bytes(), b"pong");
/// # Ok::<(), Status>(())
/// ```
#[derive(Default)]
pub struct Message {
    buffer: Option<Buffer>,
    /// `None` if there never were any. Most messages have none, and each is moved a few times on its way.
    handles: Option<Box<Handles>>,
    txid: Option<Txid>,
}

/// A message that carries a value has one, which needs no list.
enum Handles {
    One(Handle),
    Many(Vec<Handle>),
}

impl Handles {
    fn of(mut handles: Vec<Handle>) -> Option<Box<Self>> {
        Some(Box::new(match handles.len() {
            0 => return None,
            1 => Handles::One(handles.pop()?),
            _ => Handles::Many(handles),
        }))
    }

    fn into_vec(self) -> Vec<Handle> {
        match self {
            Handles::One(handle) => vec![handle],
            Handles::Many(handles) => handles,
        }
    }
}

impl Message {
    /// The empty message.
    pub const fn new() -> Self {
        Message { buffer: None, handles: None, txid: None }
    }

    /// A message of `len` zeroes in an arena of its own.
    ///
    /// # Panics
    /// When memory is exhausted.
    #[track_caller]
    pub fn with_len(len: usize) -> Self {
        Message::from(Arena::zeroes(len.max(LEAST_ROOM), len))
    }

    /// A message with a copy of `bytes`, in an arena of its own.
    ///
    /// # Panics
    /// When memory is exhausted.
    #[track_caller]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut message = Message::with_len(bytes.len());
        message.bytes_mut().copy_from_slice(bytes);
        message
    }

    /// A message of these parts.
    pub fn from_parts(buffer: Option<Buffer>, handles: Vec<Handle>) -> Self {
        Message { buffer, handles: Handles::of(handles), txid: None }
    }

    /// The parts.
    pub fn into_parts(mut self) -> (Option<Buffer>, Vec<Handle>) {
        (self.buffer.take(), self.take_handles())
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.as_deref_mut().unwrap_or_default()
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Whether there are neither bytes nor handles.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.handles().is_empty()
    }

    /// Keeps the first `len` bytes. A larger `len` changes nothing.
    pub fn truncate(&mut self, len: usize) {
        if let Some(buffer) = &mut self.buffer {
            buffer.truncate(len);
        }
    }

    /// The arena of the bytes, in which more messages may be made.
    pub fn arena(&self) -> Option<&Arena> {
        self.buffer.as_ref().map(Buffer::arena)
    }

    /// Gives up the bytes and the handles for a message of `len` bytes in the same arena, initialised with whatever the
    /// memory held. If nothing else refers to the arena, its memory is used anew, and nothing is allocated as long as the
    /// message fits. A message without an arena gets one. The transaction id stays, so what a request is recycled into is
    /// its reply.
    ///
    /// # Panics
    /// When memory is exhausted.
    pub fn recycle(mut self, len: usize) -> Self {
        drop(self.take_handles());
        let txid = self.txid;
        let recycled = match self.buffer.take() {
            None => Message::with_len(len),
            Some(buffer) => {
                let mut arena = buffer.into_arena();
                // Not the only reference: then the arena grows.
                let _ = arena.try_reset();
                Message::from(arena.into_buffer(len))
            }
        };
        recycled.in_reply_to(txid)
    }

    /// The call whose request this is. A message that was written without a call has none.
    pub fn txid(&self) -> Option<Txid> {
        self.txid
    }

    /// Makes this the reply to a call: written to the channel on which its request came, it goes to whoever called.
    pub fn in_reply_to(mut self, txid: impl Into<Option<Txid>>) -> Self {
        self.txid = txid.into();
        self
    }

    /// The handles.
    pub fn handles(&self) -> &[Handle] {
        match self.handles.as_deref() {
            None => &[],
            Some(Handles::One(handle)) => std::slice::from_ref(handle),
            Some(Handles::Many(handles)) => handles,
        }
    }

    /// Takes the handles out.
    pub fn take_handles(&mut self) -> Vec<Handle> {
        self.handles.take().map_or_else(Vec::new, |handles| handles.into_vec())
    }

    /// Takes the handle out if there is one and nothing else.
    pub(super) fn take_only_handle(&mut self) -> Option<Handle> {
        if !self.bytes().is_empty() || self.handles().len() != 1 {
            return None;
        }
        match *self.handles.take()? {
            Handles::One(handle) => Some(handle),
            Handles::Many(mut handles) => handles.pop(),
        }
    }

    /// Adds a handle: a [`Channel`], an [`OwnedFd`], or any value by [`Handle::value`].
    pub fn push(&mut self, handle: impl Into<Handle>) {
        let handle = handle.into();
        self.handles = Some(match self.handles.take() {
            None => Box::new(Handles::One(handle)),
            Some(mut there) => {
                let mut handles = std::mem::replace(&mut *there, Handles::Many(Vec::new())).into_vec();
                handles.push(handle);
                *there = Handles::Many(handles);
                there
            }
        });
    }

    /// [`push`](Message::push) as a builder.
    pub fn with(mut self, handle: impl Into<Handle>) -> Self {
        self.push(handle);
        self
    }
}

impl Queued for Message {
    fn byte_len(&self) -> usize {
        self.len()
    }
}

impl From<Buffer> for Message {
    fn from(buffer: Buffer) -> Self {
        Message { buffer: Some(buffer), handles: None, txid: None }
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if self.handles.is_some() {
            teardown::destroy(self.take_handles());
        }
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("len", &self.len())
            .field("handles", &self.handles())
            .field("txid", &self.txid)
            .finish()
    }
}

/// What a message carries beside bytes. Dropping it closes or drops what it holds.
#[derive(Debug)]
#[non_exhaustive]
pub enum Handle {
    /// One end of a channel.
    Channel(Channel),
    /// A descriptor.
    Fd(OwnedFd),
    /// Any value.
    Value(Value),
}

impl Handle {
    /// A value, which its reader takes out by [`into_value`](Handle::into_value). It is dropped wherever the message is
    /// when nobody does.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::{Channel, Handle, Message, Status};
    ///
    /// let (writer, reader) = Channel::pair();
    /// writer.write(Message::new().with(Handle::value(vec![1, 2, 3])))?;
    /// let handle = reader.try_read()?.take_handles().remove(0);
    /// assert_eq!(handle.into_value::<Vec<i32>>().expect("that is what was sent"), [1, 2, 3]);
    /// # Ok::<(), Status>(())
    /// ```
    pub fn value<T: Send + 'static>(value: T) -> Self {
        Handle::Value(Value::new(value))
    }

    /// The endpoint.
    ///
    /// # Errors
    /// The handle, when it is something else.
    pub fn into_channel(self) -> Result<Channel, Handle> {
        match self {
            Handle::Channel(channel) => Ok(channel),
            other => Err(other),
        }
    }

    /// The descriptor.
    ///
    /// # Errors
    /// The handle, when it is something else.
    pub fn into_fd(self) -> Result<OwnedFd, Handle> {
        match self {
            Handle::Fd(fd) => Ok(fd),
            other => Err(other),
        }
    }

    /// The value.
    ///
    /// # Errors
    /// The handle, when it is something else, or a value of another type or of another image.
    pub fn into_value<T: Send + 'static>(self) -> Result<T, Handle> {
        match self {
            Handle::Value(value) => value.downcast().map_err(Handle::Value),
            other => Err(other),
        }
    }
}

impl From<Channel> for Handle {
    fn from(channel: Channel) -> Self {
        Handle::Channel(channel)
    }
}

impl From<OwnedFd> for Handle {
    fn from(fd: OwnedFd) -> Self {
        Handle::Fd(fd)
    }
}
