//! Peers: the test's end of a channel to the driver under test.

use std::fmt;

use fuchsine_driver::{Channel, Message, Status, WriteError};

use crate::place::{Place, Time};

/// The test's end of a channel whose other end the driver under test has. Dropping it closes the channel.
///
/// Its methods are for the test's own thread: they let things happen while they wait. Time does not pass meanwhile on a
/// foreground runtime; a driver that answers after a while is waited for with [`Harness::advance`](crate::Harness::advance).
pub struct Peer<'rt> {
    channel: Channel,
    place: Place<'rt>,
    /// For messages: what it is connected to.
    name: String,
}

/// What came from the driver.
#[derive(Debug)]
pub enum Received {
    /// A message.
    Message(Message),
    /// The driver has closed its end, and everything that it had sent was read before.
    Closed,
    /// Nothing, and nothing will come unless the test does something or time passes.
    Nothing,
}

impl<'rt> Peer<'rt> {
    pub(crate) fn new(channel: Channel, place: Place<'rt>, name: String) -> Self {
        Peer { channel, place, name }
    }

    /// Sends bytes. False when the driver has closed its end, which is no mistake of the test.
    pub fn send(&self, bytes: &[u8]) -> bool {
        Message::from_bytes(bytes).is_ok_and(|message| self.send_message(message).is_ok())
    }

    /// Sends a message with whatever it carries.
    ///
    /// # Errors
    /// Those of [`Channel::write`]; the message is inside.
    pub fn send_message(&self, message: Message) -> Result<(), WriteError> {
        self.channel.write(message)
    }

    /// What the driver sends next, letting things happen until it comes.
    pub fn receive(&self) -> Received {
        let mut received = Received::Nothing;
        self.place.until(Time::Stands, || {
            received = self.poll();
            !matches!(received, Received::Nothing)
        });
        received
    }

    /// What the driver has sent by now; nothing happens.
    pub fn poll(&self) -> Received {
        match self.channel.try_read() {
            Ok(message) => Received::Message(message),
            Err(Status::ShouldWait) => Received::Nothing,
            Err(_) => Received::Closed,
        }
    }

    /// The bytes of the next message, if one comes.
    pub fn receive_bytes(&self) -> Option<Vec<u8>> {
        match self.receive() {
            Received::Message(message) => Some(message.bytes().to_vec()),
            Received::Closed | Received::Nothing => None,
        }
    }

    /// The bytes of all messages until the driver closes its end or sends no more.
    pub fn receive_all(&self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.receive_bytes()).collect()
    }

    /// As [`receive_all`](Peer::receive_all), for messages that are text.
    pub fn receive_texts(&self) -> Vec<String> {
        self.receive_all().iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect()
    }

    /// Waits for a message of exactly these bytes.
    ///
    /// # Panics
    /// When another one comes, or none.
    #[track_caller]
    pub fn expect(&self, bytes: &[u8]) {
        let wanted = Text(bytes);
        match self.receive() {
            Received::Message(message) if message.bytes() == bytes => {}
            Received::Message(message) => {
                panic!("{}: expected the message {wanted}, but {} came", self.name, Text(message.bytes()));
            }
            Received::Closed => {
                panic!("{}: expected the message {wanted}, but the driver closed the channel", self.name)
            }
            Received::Nothing => panic!("{}: expected the message {wanted}, but none came: {}", self.name, self.place),
        }
    }

    /// Waits until the driver has closed its end.
    ///
    /// # Panics
    /// When a message comes instead, or it stays open.
    #[track_caller]
    pub fn expect_closed(&self) {
        match self.receive() {
            Received::Closed => {}
            Received::Message(message) => {
                panic!("{}: expected the channel to be closed, but {} came", self.name, Text(message.bytes()));
            }
            Received::Nothing => panic!("{}: expected the channel to be closed: {}", self.name, self.place),
        }
    }

    /// The channel itself, for what a peer does not do.
    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    /// The channel itself, to be handed on.
    pub fn into_channel(self) -> Channel {
        self.channel
    }
}

impl fmt::Debug for Peer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Bytes for messages: as text where they are.
pub(crate) struct Text<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match std::str::from_utf8(self.0) {
            Ok(text) if !text.chars().any(char::is_control) => write!(f, "{text:?}"),
            _ => write!(f, "{:?}", self.0),
        }
    }
}
