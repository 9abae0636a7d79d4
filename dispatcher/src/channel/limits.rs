//! How much a channel may hold.

/// How much may wait in each direction of a channel.
///
/// The default is no limit. A limit is told to the writer, as [`ShouldWait`](crate::Status::ShouldWait); a message that finds the queue
/// empty is always taken, so that one beyond the limit of bytes can pass at all.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::{Channel, Limits, Message, Status};
///
/// let (writer, _reader) = Channel::pair_with(Limits::default().messages(1));
/// writer.write(Message::new())?;
/// let refused = writer.write(Message::new()).expect_err("the queue is full");
/// assert_eq!(refused.status(), Status::ShouldWait);
/// # Ok::<(), Status>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    messages: usize,
    bytes: usize,
}

impl Limits {
    /// At most so many messages.
    pub const fn messages(self, messages: usize) -> Self {
        Limits { messages, ..self }
    }

    /// At most so many bytes.
    pub const fn bytes(self, bytes: usize) -> Self {
        Limits { bytes, ..self }
    }

    /// How many messages may wait; `usize::MAX` if there is no limit.
    pub const fn max_messages(self) -> usize {
        self.messages
    }

    /// How many bytes may wait; `usize::MAX` if there is no limit.
    pub const fn max_bytes(self) -> usize {
        self.bytes
    }

    /// Whether one more message may wait behind what waits already.
    pub(crate) const fn allow(self, waiting: usize, waiting_bytes: usize, bytes: usize) -> bool {
        waiting == 0 || waiting < self.messages && bytes <= self.bytes.saturating_sub(waiting_bytes)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits { messages: usize::MAX, bytes: usize::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_takes_what_fits_and_an_empty_one_takes_anything() {
        let none = Limits::default();
        assert!(none.allow(1_000_000, usize::MAX - 1, 1));
        let some = Limits::default().messages(3).bytes(10);
        assert!(some.allow(0, 0, 1000), "or it could never pass");
        assert!(some.allow(2, 6, 4));
        assert!(!some.allow(2, 6, 5), "too many bytes");
        assert!(!some.allow(3, 0, 0), "too many messages");
        assert!(!some.allow(1, 1000, 1), "the large one is not read yet");
        let least = Limits::default().messages(0).bytes(0);
        assert!(least.allow(0, 0, 5) && !least.allow(1, 0, 0));
    }
}
