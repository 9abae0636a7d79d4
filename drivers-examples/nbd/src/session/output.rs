//! [`Output`]: replies on their way to the client, in the order in which they go out.
//!
//! A reply to a long read is made of several pieces, and nothing may come between them. While such a reply is *open*,
//! other replies are held back and follow when it is complete. The number of replies is bounded by the number of
//! requests that a connection may have, and the bytes behind them by its account: the queue has no limit of its own.

use std::collections::VecDeque;
use std::io::IoSlice;

use super::buffer::Buffer;
use super::slab::Key;
use crate::protocol::request::REPLY_LEN;

/// How many slices go into one write: as many as a host takes.
const SLICES: usize = 64;

/// A part of the byte stream: the head of a reply, data, or both.
#[derive(Debug)]
struct Segment<B> {
    head: Option<[u8; REPLY_LEN]>,
    data: Option<B>,
    sent: usize,
    /// The request that is answered in full once this has gone out.
    ends: Option<Key>,
}

impl<B: Buffer> Segment<B> {
    fn head(&self) -> &[u8] {
        self.head.as_ref().map_or(&[], |head| &head[..])
    }

    fn data(&self) -> &[u8] {
        self.data.as_ref().map_or(&[], Buffer::payload)
    }

    fn left(&self) -> usize {
        self.head().len() + self.data().len() - self.sent
    }
}

/// What went out as a whole, and so can be given back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Bytes of data, without heads.
    pub(crate) data: u32,
    /// The request that is done with.
    pub(crate) ends: Option<Key>,
}

/// The queue of replies.
#[derive(Debug)]
pub(crate) struct Output<B> {
    queue: VecDeque<Segment<B>>,
    /// What waits behind the open reply.
    held: VecDeque<Segment<B>>,
    open: bool,
}

impl<B: Buffer> Output<B> {
    pub(crate) fn new() -> Self {
        Self { queue: VecDeque::new(), held: VecDeque::new(), open: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.held.is_empty()
    }

    /// Whether there is something to write now.
    pub(crate) fn has_ready(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Adds a whole reply.
    pub(crate) fn push(&mut self, request: Key, head: [u8; REPLY_LEN], data: Option<B>) {
        let segment = Segment { head: Some(head), data, sent: 0, ends: Some(request) };
        if self.open { self.held.push_back(segment) } else { self.queue.push_back(segment) }
    }

    /// Begins a reply of several pieces; what is pushed from now on waits.
    pub(crate) fn open(&mut self, head: [u8; REPLY_LEN]) {
        debug_assert!(!self.open, "one reply is open at a time");
        self.open = true;
        self.queue.push_back(Segment { head: Some(head), data: None, sent: 0, ends: None });
    }

    /// Adds the next piece of the open reply; the last one names the request, and closes the reply.
    pub(crate) fn push_piece(&mut self, data: B, ends: Option<Key>) {
        self.queue.push_back(Segment { head: None, data: Some(data), sent: 0, ends });
        if ends.is_some() {
            self.open = false;
            self.queue.append(&mut self.held);
        }
    }

    /// Calls `write` with what is to go out next, as slices in order.
    pub(crate) fn with_slices<R>(&self, write: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut count = 0;
        for segment in &self.queue {
            // A segment has two parts at most; both must fit.
            if count + 2 > SLICES {
                break;
            }
            let sent = segment.sent;
            let (head, data) = (segment.head(), segment.data());
            for part in [&head[sent.min(head.len())..], &data[sent.saturating_sub(head.len())..]] {
                if !part.is_empty() {
                    slices[count] = IoSlice::new(part);
                    count += 1;
                }
            }
        }
        write(&slices[..count])
    }

    /// Notes that `bytes` of what [`with_slices`](Self::with_slices) showed have gone out; tells of each segment that
    /// is complete.
    pub(crate) fn advance(&mut self, bytes: usize, mut done: impl FnMut(Sent)) {
        let mut bytes = bytes;
        while let Some(segment) = self.queue.front_mut() {
            let left = segment.left();
            if bytes < left {
                segment.sent += bytes;
                return;
            }
            bytes -= left;
            let segment = self.queue.pop_front().expect("the loop looks at the front");
            done(Sent { data: segment.data().len() as u32, ends: segment.ends });
        }
        debug_assert_eq!(bytes, 0, "more bytes were reported as sent than were shown");
    }

    /// Gives back the memory of the queues when they are empty.
    pub(crate) fn shrink_if_empty(&mut self) {
        if self.is_empty() {
            self.queue = VecDeque::new();
            self.held = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Key {
        Key::from_raw(number)
    }

    /// Sends `step` bytes at a time; what came out, and the order in which requests ended.
    fn drain(output: &mut Output<Vec<u8>>, step: usize) -> (Vec<u8>, Vec<u64>) {
        let (mut bytes, mut ended) = (Vec::new(), Vec::new());
        while output.has_ready() {
            let shown = output.with_slices(|slices| slices.iter().flat_map(|slice| slice.to_vec()).collect::<Vec<_>>());
            let taken = shown.len().min(step);
            bytes.extend_from_slice(&shown[..taken]);
            output.advance(taken, |sent| ended.extend(sent.ends.map(Key::to_raw)));
        }
        (bytes, ended)
    }

    #[test]
    fn replies_go_out_whole_and_in_order_however_little_the_socket_takes() {
        for step in 1..50 {
            let mut output = Output::new();
            output.push(key(1), [1; 16], None);
            output.push(key(2), [2; 16], Some(vec![20; 9]));
            output.push(key(3), [3; 16], None);
            let (bytes, ended) = drain(&mut output, step);
            assert_eq!(bytes, [vec![1; 16], vec![2; 16], vec![20; 9], vec![3; 16]].concat());
            assert_eq!(ended, [1, 2, 3]);
            assert!(output.is_empty());
        }
    }

    #[test]
    fn nothing_comes_between_the_pieces_of_an_open_reply() {
        let mut output = Output::new();
        output.push(key(1), [1; 16], None);
        output.open([2; 16]);
        output.push(key(3), [3; 16], None);
        output.push_piece(vec![20; 5], None);
        output.push(key(4), [4; 16], Some(vec![40; 5]));
        let (first, ended) = drain(&mut output, 7);
        assert_eq!(first, [vec![1; 16], vec![2; 16], vec![20; 5]].concat());
        assert_eq!(ended, [1]);
        assert!(!output.has_ready() && !output.is_empty());
        output.push_piece(vec![21; 5], Some(key(2)));
        let (second, ended) = drain(&mut output, 7);
        assert_eq!(second, [vec![21; 5], vec![3; 16], vec![4; 16], vec![40; 5]].concat());
        assert_eq!(ended, [2, 3, 4]);
    }

    #[test]
    fn more_replies_than_fit_one_write_all_go_out() {
        let mut output = Output::new();
        (0..200).for_each(|number| output.push(key(number), [number as u8; 16], Some(vec![number as u8; 3])));
        let (bytes, ended) = drain(&mut output, usize::MAX);
        assert_eq!(bytes.len(), 200 * 19);
        assert_eq!(ended, (0..200).collect::<Vec<_>>());
    }
}
