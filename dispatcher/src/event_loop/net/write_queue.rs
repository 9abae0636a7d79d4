//! `WriteQueue<D>`: bytes that the kernel has not taken yet, up to a limit, each write with the `D` to be told.
//!
//! Pure: it sends nothing and calls nobody. A write is accepted whole or not at all. An empty queue accepts a write of
//! any size: its memory is there already, and refusing it could never end.

use std::collections::VecDeque;

pub(super) struct WriteQueue<D> {
    chunks: VecDeque<Chunk<D>>,
    /// What is left of all chunks together.
    bytes: usize,
    limit: usize,
}

struct Chunk<D> {
    bytes: Vec<u8>,
    sent: usize,
    done: Option<D>,
}

impl<D> WriteQueue<D> {
    pub(super) fn new(limit: usize) -> Self {
        WriteQueue { chunks: VecDeque::new(), bytes: 0, limit }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// How many bytes wait.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// Whether a write of `len` bytes is accepted now.
    pub(super) fn accepts(&self, len: usize) -> bool {
        self.chunks.is_empty() || len <= self.limit.saturating_sub(self.bytes)
    }

    /// Whether those who wait for room are to be told: half of the limit is free again.
    pub(super) fn has_room(&self) -> bool {
        self.bytes <= self.limit / 2
    }

    /// Puts a write at the end, of which the kernel has taken the first `sent` bytes already.
    pub(super) fn push(&mut self, bytes: Vec<u8>, sent: usize, done: Option<D>) {
        self.bytes += bytes.len() - sent;
        self.chunks.push_back(Chunk { bytes, sent, done });
    }

    /// What is to be sent next.
    pub(super) fn front(&self) -> Option<&[u8]> {
        self.chunks.front().map(|chunk| &chunk.bytes[chunk.sent..])
    }

    /// The kernel has taken `count` bytes of the front. With all of it gone, answers whom to tell.
    pub(super) fn advance(&mut self, count: usize) -> Option<D> {
        let chunk = self.chunks.front_mut()?;
        chunk.sent += count;
        self.bytes -= count;
        if chunk.sent < chunk.bytes.len() {
            return None;
        }
        self.chunks.pop_front()?.done
    }

    /// Empties the queue; answers whom to tell, in order.
    pub(super) fn take_all(&mut self) -> Vec<D> {
        self.bytes = 0;
        std::mem::take(&mut self.chunks).into_iter().filter_map(|chunk| chunk.done).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_empty_queue_accepts_any_write_and_a_filled_one_only_what_fits() {
        let mut queue = WriteQueue::<()>::new(10);
        assert!(queue.accepts(1_000));
        queue.push(vec![0; 8], 0, None);
        assert!(queue.accepts(2) && !queue.accepts(3));
        assert!(!queue.has_room());
        assert_eq!(queue.advance(3), None);
        assert!(queue.has_room() && queue.accepts(5) && !queue.accepts(6));
    }

    #[test]
    fn an_empty_write_is_told_as_well() {
        let mut queue = WriteQueue::new(10);
        queue.push(vec![], 0, Some('a'));
        assert_eq!((queue.front(), queue.is_empty()), (Some(&[][..]), false));
        assert_eq!((queue.advance(0), queue.is_empty()), (Some('a'), true));
    }

    proptest! {
        /// All bytes come out once and in order, each write is told once and in order, and the count is right throughout.
        #[test]
        fn bytes_and_notices_keep_their_order(
            writes in prop::collection::vec((0usize..20, 0usize..20), 0..20),
            takes in prop::collection::vec(1usize..30, 0..60),
        ) {
            let mut queue = WriteQueue::new(64);
            let (mut expected, mut out, mut told) = (Vec::new(), Vec::new(), Vec::new());
            for (nth, &(len, sent)) in writes.iter().enumerate() {
                let bytes: Vec<u8> = (0..len).map(|at| (nth * 31 + at) as u8).collect();
                let sent = sent.min(len);
                expected.extend_from_slice(&bytes[sent..]);
                queue.push(bytes, sent, Some(nth));
            }
            prop_assert_eq!(queue.len(), expected.len());
            for most in takes.into_iter().chain(std::iter::repeat(1)) {
                let Some(front) = queue.front() else { break };
                let count = most.min(front.len());
                out.extend_from_slice(&front[..count]);
                told.extend(queue.advance(count));
                prop_assert_eq!(queue.len() + out.len(), expected.len());
            }
            prop_assert_eq!(out, expected);
            prop_assert_eq!(told, (0..writes.len()).collect::<Vec<_>>());
        }
    }
}
