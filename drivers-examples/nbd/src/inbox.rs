//! [`Inbox`]: bytes that came from the socket and are not yet taken apart.

use fuchsine_driver::Status;
use fuchsine_driver::net::Stream;

/// How much is read at once. Several small requests fit; the data of a big write goes to its message directly.
const CAPACITY: usize = 8 << 10;

/// A small buffer that exists only while there is something in it or about to be.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Inbox {
    pub(crate) fn new(first: Vec<u8>) -> Self {
        Self { end: first.len(), start: 0, bytes: first }
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
        if self.bytes.len() < CAPACITY {
            self.bytes.resize(CAPACITY, 0);
        }
        (self.start, self.end) = (0, 0);
        let count = stream.try_read(&mut self.bytes)?;
        self.end = count;
        Ok((count, count == self.bytes.len()))
    }

    /// Gives the memory back.
    pub(crate) fn shrink_if_empty(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }
}
