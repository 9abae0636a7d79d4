//! How a host and a driver in C talk: the messages of `fuchsine/driver.h`, which says what each is for.
//!
//! A message is a head, a table of texts, and the texts, each with a zero byte behind it. Whoever reads one takes nothing for
//! granted: it may have come from anything that has the other end.

use fuchsine_dispatcher::Message;

/// Host to driver: start.
pub const FUCHSINE_DRIVER_START: u32 = 1;
/// Host to driver: stop.
pub const FUCHSINE_DRIVER_STOP: u32 = 2;
/// Driver to host: add a child node.
pub const FUCHSINE_NODE_ADD_CHILD: u32 = 16;
/// Driver to host: remove a child node.
pub const FUCHSINE_NODE_REMOVE_CHILD: u32 = 17;
/// Driver to host: connect to a service of the parent.
pub const FUCHSINE_NODE_CONNECT: u32 = 18;
/// Driver to host: publish an address.
pub const FUCHSINE_NODE_PUBLISH_ADDRESS: u32 = 19;
/// Driver to host: a line of the log.
pub const FUCHSINE_NODE_LOG: u32 = 20;
/// Driver to host: it cannot go on.
pub const FUCHSINE_NODE_FAIL: u32 = 21;
/// Host to driver: somebody has connected to a service of a child.
pub const FUCHSINE_NODE_CONNECTED: u32 = 32;
/// The type of the note by which a module in C describes its driver.
pub const FUCHSINE_NOTE_TYPE_C: u32 = 2;

/// The head of a message.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the name of the header")]
pub struct fuchsine_message_t {
    /// 0, or what the answer has as well.
    pub txid: u32,
    /// What it is.
    pub ordinal: u32,
    /// A count, a level, or the status of an answer.
    pub value: i32,
    /// How many texts follow.
    pub text_count: u32,
}

/// Where a text is.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the name of the header")]
pub struct fuchsine_text_t {
    /// From the beginning of the message.
    pub offset: u32,
    /// Without the zero byte.
    pub length: u32,
}

const HEAD: usize = size_of::<fuchsine_message_t>();
const PLACE: usize = size_of::<fuchsine_text_t>();

/// A message of this protocol, to be sent or as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// 0 when no answer is wanted.
    pub txid: u32,
    /// What it is.
    pub ordinal: u32,
    /// A count, a level, or the status of an answer.
    pub value: i32,
    /// The texts, with replacement characters where they are not UTF-8.
    pub texts: Vec<String>,
}

impl Packet {
    /// A message that wants no answer.
    pub fn new<T: Into<String>>(ordinal: u32, value: i32, texts: impl IntoIterator<Item = T>) -> Packet {
        Packet { txid: 0, ordinal, value, texts: texts.into_iter().map(Into::into).collect() }
    }

    /// The answer to a request.
    pub fn answer(&self, value: i32, sentence: Option<String>) -> Packet {
        Packet { txid: self.txid, ordinal: self.ordinal, value, texts: sentence.into_iter().collect() }
    }

    /// The text at this place; empty if there are not so many.
    pub fn text(&self, n: usize) -> &str {
        self.texts.get(n).map_or("", String::as_str)
    }

    /// As bytes in an arena. A text ends at its first zero byte, where C would take it to end.
    pub fn to_message(&self) -> Message {
        let texts: Vec<&[u8]> =
            self.texts.iter().map(|text| text.as_bytes().split(|byte| *byte == 0).next().unwrap_or_default()).collect();
        let size = HEAD + texts.iter().map(|text| PLACE + text.len() + 1).sum::<usize>();
        let mut bytes = Vec::with_capacity(size);
        bytes.extend(self.txid.to_ne_bytes());
        bytes.extend(self.ordinal.to_ne_bytes());
        bytes.extend(self.value.to_ne_bytes());
        bytes.extend((texts.len() as u32).to_ne_bytes());
        let mut at = HEAD + texts.len() * PLACE;
        for text in &texts {
            bytes.extend((at as u32).to_ne_bytes());
            bytes.extend((text.len() as u32).to_ne_bytes());
            at += text.len() + 1;
        }
        for text in &texts {
            bytes.extend_from_slice(text);
            bytes.push(0);
        }
        Message::from_bytes(&bytes)
    }

    /// What bytes say.
    ///
    /// # Errors
    /// What about them makes no sense.
    pub fn read(bytes: &[u8]) -> Result<Packet, String> {
        let number =
            |at: usize| bytes.get(at..at + 4).map(|four| u32::from_ne_bytes(four.try_into().unwrap_or_default()));
        let (Some(txid), Some(ordinal), Some(value), Some(count)) = (number(0), number(4), number(8), number(12))
        else {
            return Err(format!("it has {} bytes, and a message has at least {HEAD}", bytes.len()));
        };
        if count as usize > (bytes.len() - HEAD) / PLACE {
            return Err(format!("it speaks of {count} texts, and has {} bytes", bytes.len()));
        }
        let text = |n: usize| {
            let place = HEAD + n * PLACE;
            let (from, length) = (number(place)? as usize, number(place + 4)? as usize);
            let text = bytes.get(from..from.checked_add(length)?)?;
            Some(String::from_utf8_lossy(text).into_owned())
        };
        let texts = (0..count as usize).map(|n| text(n).ok_or_else(|| format!("text {n} lies outside of it")));
        Ok(Packet { txid, ordinal, value: value.cast_signed(), texts: texts.collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        for texts in [&[][..], &["one"], &["", "two", "", "schön"]] {
            let packet = Packet { txid: 7, ..Packet::new(FUCHSINE_NODE_LOG, -3, texts.iter().copied()) };
            assert_eq!(Packet::read(packet.to_message().bytes()), Ok(packet));
        }
        let cut = Packet::new(1, 0, ["before\0after"]).to_message();
        assert_eq!(Packet::read(cut.bytes()).map(|read| read.texts), Ok(vec!["before".to_owned()]));
    }

    #[test]
    fn a_text_has_a_zero_byte_behind_it() {
        let message = Packet::new(1, 0, ["ab", ""]).to_message();
        assert_eq!(&message.bytes()[HEAD + 2 * PLACE..], b"ab\0\0");
    }

    #[test]
    fn an_answer_has_what_its_request_had() {
        let request = Packet { txid: 9, ..Packet::new(FUCHSINE_NODE_CONNECT, 0, ["disk"]) };
        let answer = request.answer(-25, Some("no such service".to_owned()));
        assert_eq!((answer.txid, answer.ordinal, answer.value), (9, FUCHSINE_NODE_CONNECT, -25));
        assert_eq!((answer.text(0), answer.text(1)), ("no such service", ""));
    }

    #[test]
    fn bytes_that_make_no_sense_are_refused() {
        let whole = Packet::new(1, 1, ["one", "two"]).to_message().bytes().to_vec();
        for length in 0..whole.len() - 1 {
            assert!(Packet::read(&whole[..length]).is_err(), "{length}");
        }
        for (at, number) in [(12, u32::MAX), (12, 5), (16, u32::MAX), (20, u32::MAX), (20, 900)] {
            let mut bytes = whole.clone();
            bytes[at..at + 4].copy_from_slice(&number.to_ne_bytes());
            assert!(Packet::read(&bytes).is_err(), "{number} at {at}");
        }
    }
}
