//! [`Inbox`]: bytes that came from the socket and are not yet taken apart.

use fuchsine_driver::Status;
use fuchsine_driver::net::Stream;

/// How much is read at once. Several small requests fit; the data of a big write goes to its message directly, and only what
/// comes with its head is copied from here.
const CAPACITY: usize = 8 << 10;

/// How much is read at once from a client that has many small requests under way.
const MANY: usize = 32 << 10;

/// A small buffer that exists only while there is something in it or about to be.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Whether small requests last came faster than they were read.
    many: bool,
}

impl Inbox {
    pub(crate) fn new(first: Vec<u8>) -> Self {
        Self { end: first.len(), start: 0, bytes: first, many: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// What was not taken yet.
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Leaves only the last `left` bytes unread.
    pub(crate) fn keep(&mut self, left: usize) {
        self.start = self.end - left;
    }

    /// Reads from the stream into the empty inbox. Returns the count, and whether that was all there was room for.
    pub(crate) fn fill(&mut self, stream: &Stream) -> Result<(usize, bool), Status> {
        debug_assert!(self.is_empty());
        let room = if self.many { MANY } else { CAPACITY };
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        (self.start, self.end) = (0, 0);
        let count = stream.try_read(&mut self.bytes[..room])?;
        self.end = count;
        self.many |= count == room;
        Ok((count, count == room))
    }

    /// So much data is being read past the inbox. If that is much, the less of what follows comes here the better.
    pub(crate) fn is_passed_by(&mut self, length: usize) {
        self.many &= length <= CAPACITY;
    }

    /// Gives the memory back.
    pub(crate) fn shrink_if_empty(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }
}
