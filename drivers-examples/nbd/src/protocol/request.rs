//! Requests and simple replies of the transmission phase, as bytes.

use super::constants::{NbdError, REQUEST_MAGIC, SIMPLE_REPLY_MAGIC};
use super::violation::Violation;

/// Bytes in front of a request's payload.
pub(crate) const REQUEST_LEN: usize = 28;
/// Bytes in front of a reply's payload.
pub(crate) const REPLY_LEN: usize = 16;

/// The head of a request; the payload of a write follows it in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) flags: u16,
    pub(crate) command: u16,
    /// The client's own mark for this request, which the reply repeats.
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

impl Request {
    /// Takes a head apart.
    ///
    /// # Errors
    /// [`Violation::RequestMagic`]: the stream has lost its meaning.
    pub(crate) fn decode(bytes: &[u8; REQUEST_LEN]) -> Result<Self, Violation> {
        let magic = u32::from_be_bytes(field(bytes, 0));
        if magic != REQUEST_MAGIC {
            return Err(Violation::RequestMagic(magic));
        }
        Ok(Self {
            flags: u16::from_be_bytes(field(bytes, 4)),
            command: u16::from_be_bytes(field(bytes, 6)),
            cookie: u64::from_be_bytes(field(bytes, 8)),
            offset: u64::from_be_bytes(field(bytes, 16)),
            length: u32::from_be_bytes(field(bytes, 24)),
        })
    }

    #[cfg(test)]
    pub(crate) fn encode(&self) -> [u8; REQUEST_LEN] {
        let mut bytes = [0; REQUEST_LEN];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

fn field<const N: usize>(bytes: &[u8; REQUEST_LEN], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("every field lies within the head")
}

/// The head of a simple reply.
pub(crate) fn encode_reply(cookie: u64, outcome: Result<(), NbdError>) -> [u8; REPLY_LEN] {
    let error = outcome.map_or_else(|error| error as u32, |()| 0);
    let mut bytes = [0; REPLY_LEN];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_request_has_its_fields_where_the_protocol_says() {
        let mut bytes = [0; REQUEST_LEN];
        bytes.iter_mut().zip(1..).for_each(|(byte, number)| *byte = number);
        bytes[..4].copy_from_slice(&[0x25, 0x60, 0x95, 0x13]);
        let request = Request::decode(&bytes).unwrap();
        assert_eq!((request.flags, request.command), (0x0506, 0x0708));
        assert_eq!((request.cookie, request.offset), (0x090a_0b0c_0d0e_0f10, 0x1112_1314_1516_1718));
        assert_eq!(request.length, 0x191a_1b1c);
    }

    #[test]
    fn a_reply_has_its_fields_where_the_protocol_says() {
        assert_eq!(
            encode_reply(0x0102_0304_0506_0708, Ok(()))[..],
            *b"\x67\x44\x66\x98\0\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08"
        );
        assert_eq!(encode_reply(0, Err(NbdError::NoSpace))[4..8], [0, 0, 0, 28]);
    }

    proptest! {
        #[test]
        fn random_heads_are_refused_by_their_magic_or_decoded(bytes in any::<[u8; REQUEST_LEN]>()) {
            match Request::decode(&bytes) {
                Ok(request) => prop_assert_eq!(request.encode(), bytes),
                Err(violation) => {
                    let magic = u32::from_be_bytes(*bytes.first_chunk().unwrap());
                    prop_assert_eq!(violation, Violation::RequestMagic(magic));
                }
            }
        }
    }
}
