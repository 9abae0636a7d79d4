//! The byte protocol of a serial port: how a driver talks over one.
//!
//! A port offers the service `serial` at a node with the property `protocol = "serial"`, to one client at a time: a second
//! connection is closed at once. Messages are bytes, little endian, with a header of 8 bytes and the payload right behind it.
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0..2 | op | 1 data, 2 interrupt, 3 end, 0x8000 taken |
//! | 2..4 | | 0 |
//! | 4..8 | id | chosen by the sender; `taken` has that of the message it answers |
//!
//! - *data*, both ways: 1 to 4096 bytes of payload. In canonical mode one from the port is a line or a part of one that was
//!   ended with `^D`, with its line feed if it has one.
//! - *interrupt* and *end*, from the port only: somebody pressed `^C`, or `^D` on an empty line. No payload.
//! - *taken*, both ways: the receiver has room for one more. Each of the others is answered so, in order, and either side
//!   has at most [`WINDOW`] of them unanswered.
//! - Who breaks a rule is closed. Both sides answer a closed channel by giving up what was under way.

use fuchsine_driver::{Message, Status};

/// The size of a header.
pub const HEADER_LEN: usize = 8;

/// The longest payload of a data message.
pub const MAX_DATA: usize = 4096;

/// How many messages either side may have under way.
pub const WINDOW: usize = 8;

const DATA: u16 = 1;
const INTERRUPT: u16 = 2;
const END: u16 = 3;
const TAKEN: u16 = 0x8000;

/// A message, without its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Bytes.
    Data(&'a [u8]),
    /// `^C`.
    Interrupt,
    /// `^D`.
    End,
    /// There is room for one more.
    Taken,
}

/// A message that is none; the text says what is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is shorter than a header.
    #[error("a message of {0} bytes, which is no header")]
    Short(usize),
    /// There is no such operation.
    #[error("an unknown operation {0:#x}")]
    Op(u16),
    /// Bits that mean nothing are set.
    #[error("bits that mean nothing: {0:#x}")]
    Reserved(u16),
    /// The payload has a length that it must not have.
    #[error("{0} bytes of payload")]
    Payload(usize),
}

impl<'a> Frame<'a> {
    /// The frame and the id in the bytes of a message.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(bytes: &'a [u8]) -> Result<(Frame<'a>, u32), Malformed> {
        let Some((header, payload)) = bytes.split_first_chunk::<HEADER_LEN>() else {
            return Err(Malformed::Short(bytes.len()));
        };
        let [op_low, op_high, low, high, id @ ..] = *header;
        let reserved = u16::from_le_bytes([low, high]);
        if reserved != 0 {
            return Err(Malformed::Reserved(reserved));
        }
        let frame = match u16::from_le_bytes([op_low, op_high]) {
            DATA if (1..=MAX_DATA).contains(&payload.len()) => Frame::Data(payload),
            INTERRUPT if payload.is_empty() => Frame::Interrupt,
            END if payload.is_empty() => Frame::End,
            TAKEN if payload.is_empty() => Frame::Taken,
            DATA | INTERRUPT | END | TAKEN => return Err(Malformed::Payload(payload.len())),
            op => return Err(Malformed::Op(op)),
        };
        Ok((frame, u32::from_le_bytes(id)))
    }

    /// The bytes of a message.
    pub fn encode(&self, id: u32) -> Vec<u8> {
        let (op, payload) = match self {
            Frame::Data(bytes) => (DATA, *bytes),
            Frame::Interrupt => (INTERRUPT, &[][..]),
            Frame::End => (END, &[][..]),
            Frame::Taken => (TAKEN, &[][..]),
        };
        let mut bytes = Vec::with_capacity(HEADER_LEN + payload.len());
        bytes.extend(op.to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend(id.to_le_bytes());
        bytes.extend(payload);
        bytes
    }

    /// The message.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn message(&self, id: u32) -> Result<Message, Status> {
        Message::from_bytes(&self.encode(id))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_table() {
        assert_eq!(Frame::Data(b"hi").encode(0x01020304), [1, 0, 0, 0, 4, 3, 2, 1, b'h', b'i']);
        assert_eq!(Frame::Interrupt.encode(0), [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Frame::End.encode(7), [3, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(Frame::Taken.encode(7), [0, 0x80, 0, 0, 7, 0, 0, 0]);
    }

    #[test]
    fn what_is_no_message_is_told_why() {
        for (bytes, why) in [
            (&[1, 0, 0][..], Malformed::Short(3)),
            (&[4, 0, 0, 0, 0, 0, 0, 0], Malformed::Op(4)),
            (&[1, 0, 1, 0, 0, 0, 0, 0, 1], Malformed::Reserved(1)),
            (&[1, 0, 0, 0, 0, 0, 0, 0], Malformed::Payload(0)),
            (&[2, 0, 0, 0, 0, 0, 0, 0, 1], Malformed::Payload(1)),
        ] {
            assert_eq!(Frame::decode(bytes), Err(why));
        }
        let long = [&Frame::Data(b"").encode(0)[..], &[0; MAX_DATA + 1]].concat();
        assert_eq!(Frame::decode(&long), Err(Malformed::Payload(MAX_DATA + 1)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken_apart_or_refused_and_what_is_taken_apart_is_put_together_again(
            bytes in prop::collection::vec(prop_oneof![0..4u8, any::<u8>()], 0..20)
        ) {
            if let Ok((frame, id)) = Frame::decode(&bytes) {
                prop_assert_eq!(frame.encode(id), bytes);
            }
        }
    }
}
