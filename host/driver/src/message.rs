//! Messages: bytes in an arena, which move without being copied, and handles.

use std::any::Any;
use std::fmt;
use std::os::fd::OwnedFd;

use crate::abi::{ArenaObject, Buffer, Content, here};
pub use crate::abi::{Handle, HandleKind};
use crate::{Channel, Status, Token, Txid};

/// Memory for messages. A clone is a further handle to the same memory, which is freed when the last handle and the
/// last message in it are gone.
#[derive(Debug, Clone)]
pub struct Arena(ArenaObject);

impl Arena {
    /// An empty arena.
    ///
    /// # Errors
    /// `NoMemory`, or `BadState` in an image that no host has attached.
    #[track_caller]
    pub fn new() -> Result<Arena, Status> {
        Arena::with_capacity(0)
    }

    /// An arena with room for about `bytes` before it grows.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn with_capacity(bytes: usize) -> Result<Arena, Status> {
        ArenaObject::new(here::<Arena>(), bytes).map(Arena)
    }

    /// A message of `len` bytes in this arena. They are initialised but their values are whatever the memory held: write
    /// them before you send them.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn message(&self, len: usize) -> Result<Message, Status> {
        Ok(Message { buffer: Some(self.0.alloc(len, 16)?), ..Message::new() })
    }
}

/// What travels through a channel. Every part may be empty.
///
/// # Examples
/// ```no_run
/// # fn example(channel: &fuchsine_driver::Channel) -> Result<(), fuchsine_driver::Status> {
/// use fuchsine_driver::Message;
/// let mut message = Message::with_len(5)?;
/// message.bytes_mut().copy_from_slice(b"hello");
/// channel.write(message).map_err(|refused| refused.into_status())
/// # }
/// ```
#[derive(Default)]
pub struct Message {
    buffer: Option<Buffer>,
    handles: Vec<Handle>,
    txid: Option<Txid>,
}

impl Message {
    /// The empty message.
    pub const fn new() -> Message {
        Message { buffer: None, handles: Vec::new(), txid: None }
    }

    /// A message of `len` bytes in an arena of its own; see [`Arena::message`].
    ///
    /// # Errors
    /// `NoMemory`.
    #[track_caller]
    pub fn with_len(len: usize) -> Result<Message, Status> {
        Arena::with_capacity(len)?.message(len)
    }

    /// A message of `len` zeroes in an arena of its own.
    ///
    /// # Errors
    /// `NoMemory`.
    #[track_caller]
    pub fn zeroed(len: usize) -> Result<Message, Status> {
        let mut message = Message::with_len(len)?;
        message.bytes_mut().fill(0);
        Ok(message)
    }

    /// A message with a copy of `bytes`.
    ///
    /// # Errors
    /// `NoMemory`.
    #[track_caller]
    pub fn from_bytes(bytes: &[u8]) -> Result<Message, Status> {
        let mut message = Message::with_len(bytes.len())?;
        message.bytes_mut().copy_from_slice(bytes);
        Ok(message)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], Buffer::bytes)
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.as_mut().map_or(&mut [], Buffer::bytes_mut)
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.bytes().len()
    }

    /// Whether there are neither bytes nor handles.
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty() && self.handles.is_empty()
    }

    /// Keeps the first `len` bytes; the rest stays in the arena unused.
    pub fn truncate(&mut self, len: usize) {
        if let Some(buffer) = &mut self.buffer {
            buffer.truncate(len);
        }
    }

    /// The arena of the bytes, in which an answer may be made.
    pub fn arena(&self) -> Option<Arena> {
        self.buffer.as_ref().map(|buffer| Arena(buffer.arena().clone()))
    }

    /// The call that this message is the request of, or answers.
    pub fn txid(&self) -> Option<Txid> {
        self.txid
    }

    /// Makes it the reply to a call, or to none.
    ///
    /// # Examples
    /// ```no_run
    /// use fuchsine_driver::{Channel, Message, Status};
    ///
    /// async fn serve(channel: Channel) -> Result<(), Status> {
    ///     loop {
    ///         let request = channel.read().await?;
    ///         let reply = Message::from_bytes(b"21")?.in_reply_to(request.txid());
    ///         channel.write(reply)?;
    ///     }
    /// }
    /// ```
    pub fn in_reply_to(mut self, txid: impl Into<Option<Txid>>) -> Message {
        self.txid = txid.into();
        self
    }

    /// The handles.
    pub fn handles(&self) -> &[Handle] {
        &self.handles
    }

    /// Takes the handles out.
    pub fn take_handles(&mut self) -> Vec<Handle> {
        std::mem::take(&mut self.handles)
    }

    /// Adds a handle.
    pub fn push(&mut self, handle: impl Into<Handle>) {
        self.handles.push(handle.into());
    }

    pub(crate) fn into_parts(self) -> (Content, Option<Txid>) {
        ((self.buffer, self.handles), self.txid)
    }

    pub(crate) fn from_parts((buffer, handles): Content, txid: Option<Txid>) -> Message {
        Message { buffer, handles, txid }
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Message");
        text.field("len", &self.len()).field("handles", &self.handles).field("txid", &self.txid).finish()
    }
}

impl Handle {
    /// A Rust value. It can be taken out by code of the same image (program or module) only; wherever it is dropped, its
    /// own destructor runs.
    pub fn value<T: Send + 'static>(value: T) -> Handle {
        Handle::from_value(Box::new(value))
    }

    /// The channel end.
    ///
    /// # Errors
    /// It names something else; the handle is given back.
    pub fn into_channel_end(self) -> Result<Channel, Handle> {
        self.into_channel().map(Channel::from_object)
    }

    /// The end of a token.
    ///
    /// # Errors
    /// It names something else; the handle is given back.
    pub fn into_token_end(self) -> Result<Token, Handle> {
        self.into_token().map(Token::from_object)
    }

    /// The descriptor.
    ///
    /// # Errors
    /// It names something else; the handle is given back.
    pub fn into_owned_fd(self) -> Result<OwnedFd, Handle> {
        self.into_fd()
    }

    /// The value of type `T`.
    ///
    /// # Errors
    /// It names something else, a value of another image, or one of another type; the handle is given back.
    pub fn into_value_of<T: Send + 'static>(self) -> Result<T, Handle> {
        let value: Box<dyn Any + Send> = self.into_value()?;
        value.downcast::<T>().map(|value| *value).map_err(Handle::from_value)
    }
}

impl From<Channel> for Handle {
    fn from(channel: Channel) -> Self {
        Handle::from_channel(channel.into_object())
    }
}

impl From<Token> for Handle {
    fn from(token: Token) -> Self {
        Handle::from_token(token.into_object())
    }
}

impl From<OwnedFd> for Handle {
    fn from(fd: OwnedFd) -> Self {
        Handle::from_fd(fd)
    }
}
