//! [`Stream`]: one end of a connection in memory, made of two pipes.

use std::collections::VecDeque;
use std::fmt;
use std::io;

use crate::site::Site;
use crate::sync::{Arc, Mutex};
use crate::sys::Readiness;
use crate::sys::sim::{Object, would_block};

/// Bytes under way in one direction.
struct Pipe {
    state: Mutex<PipeState>,
}

struct PipeState {
    bytes: VecDeque<u8>,
    capacity: usize,
    /// The writer is done: after the bytes comes the end.
    write_closed: bool,
    /// The reader is gone: writing is an error.
    read_closed: bool,
    /// The connection was torn down: what is under way is lost, and both sides are told.
    reset: bool,
}

impl Pipe {
    fn new(capacity: usize) -> Arc<Pipe> {
        let bytes = VecDeque::new();
        let state = PipeState { bytes, capacity, write_closed: false, read_closed: false, reset: false };
        Arc::new(Pipe { state: Mutex::new(state) })
    }

    fn reader_readiness(&self) -> Readiness {
        let state = self.state.lock();
        let mut ready = Readiness::EMPTY;
        if !state.bytes.is_empty() || state.write_closed || state.reset {
            ready |= Readiness::READABLE;
        }
        if state.write_closed || state.reset {
            ready |= Readiness::HANGUP;
        }
        if state.reset {
            ready |= Readiness::ERROR;
        }
        ready
    }

    fn writer_readiness(&self) -> Readiness {
        let state = self.state.lock();
        if state.reset || state.read_closed {
            return Readiness::WRITABLE | Readiness::HANGUP | Readiness::ERROR;
        }
        if state.write_closed || state.bytes.len() < state.capacity {
            return Readiness::WRITABLE;
        }
        Readiness::EMPTY
    }
}

/// One end of a simulated connection. Dropping it closes both directions in order: the other end reads what was
/// written, then the end, and an error when it writes.
pub struct Stream {
    incoming: Arc<Pipe>,
    outgoing: Arc<Pipe>,
    object: Arc<Object>,
    peer: Arc<Object>,
    local_addr: String,
    peer_addr: String,
}

impl Stream {
    /// Two ends of one connection; the first is at `addr`, the second at `peer_addr`. Each direction holds up to
    /// `capacity` bytes.
    pub(crate) fn pair(site: Site, capacity: usize, addr: &str, peer_addr: &str) -> (Stream, Stream) {
        let (forth, back) = (Pipe::new(capacity), Pipe::new(capacity));
        let end = |incoming: &Arc<Pipe>, outgoing: &Arc<Pipe>| {
            let (incoming, outgoing) = (incoming.clone(), outgoing.clone());
            Object::new(site, move || incoming.reader_readiness() | outgoing.writer_readiness())
        };
        let (first, second) = (end(&back, &forth), end(&forth, &back));
        let one = Stream {
            incoming: back.clone(),
            outgoing: forth.clone(),
            object: first.clone(),
            peer: second.clone(),
            local_addr: addr.to_owned(),
            peer_addr: peer_addr.to_owned(),
        };
        let other = Stream {
            incoming: forth,
            outgoing: back,
            object: second,
            peer: first,
            local_addr: peer_addr.to_owned(),
            peer_addr: addr.to_owned(),
        };
        (one, other)
    }

    /// Reads what is there, at most as much as fits; zero at the end.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there yet, `ConnectionReset` after a reset.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = {
            let mut state = self.incoming.state.lock();
            if state.reset {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            let count = buffer.len().min(state.bytes.len());
            if count == 0 {
                let at_end = buffer.is_empty() || state.write_closed || state.read_closed;
                return if at_end { Ok(0) } else { Err(would_block("nothing to read yet")) };
            }
            for (to, from) in buffer.iter_mut().zip(state.bytes.drain(..count)) {
                *to = from;
            }
            count
        };
        self.peer.changed();
        Ok(count)
    }

    /// Writes as much as there is room for.
    ///
    /// # Errors
    /// `WouldBlock` when there is no room, `BrokenPipe` when the other end is gone or this direction was closed,
    /// `ConnectionReset` after a reset.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let count = {
            let mut state = self.outgoing.state.lock();
            if state.reset {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            if state.write_closed || state.read_closed {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let count = bytes.len().min(state.capacity - state.bytes.len());
            if count == 0 && !bytes.is_empty() {
                return Err(would_block("no room to write"));
            }
            state.bytes.extend(&bytes[..count]);
            count
        };
        self.peer.changed();
        Ok(count)
    }

    /// Says that nothing more will be written. The other direction stays open.
    pub fn shutdown_write(&self) {
        self.outgoing.state.lock().write_closed = true;
        self.both_changed();
    }

    /// Says that nothing more will be read: what is under way is dropped, and the other end cannot write any more.
    pub fn shutdown_read(&self) {
        {
            let mut state = self.incoming.state.lock();
            state.read_closed = true;
            state.bytes.clear();
        }
        self.both_changed();
    }

    /// Tears the connection down: what is under way is lost, both ends get `ConnectionReset` from now on.
    pub fn reset(&self) {
        for pipe in [&self.incoming, &self.outgoing] {
            let mut state = pipe.state.lock();
            state.reset = true;
            state.bytes.clear();
        }
        self.both_changed();
    }

    /// The name of this end.
    pub fn local_addr(&self) -> &str {
        &self.local_addr
    }

    /// The name of the other end.
    pub fn peer_addr(&self) -> &str {
        &self.peer_addr
    }

    /// What to wait on.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    fn both_changed(&self) {
        self.object.changed();
        self.peer.changed();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.outgoing.state.lock().write_closed = true;
        {
            let mut state = self.incoming.state.lock();
            state.read_closed = true;
            state.bytes.clear();
        }
        self.peer.changed();
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({} to {}, {:?})", self.local_addr, self.peer_addr, self.object.readiness())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind<T: fmt::Debug>(result: io::Result<T>) -> io::ErrorKind {
        result.expect_err("an error was expected").kind()
    }

    #[test]
    fn a_full_pipe_would_block_and_reading_makes_room() {
        let (one, other) = Stream::pair(Site::caller(), 4, "a", "b");
        assert_eq!(one.write(b"abcdef").unwrap(), 4);
        assert_eq!(kind(one.write(b"ef")), io::ErrorKind::WouldBlock);
        assert!(!one.object().readiness().is_writable());
        let mut buffer = [0; 3];
        assert_eq!(other.read(&mut buffer).unwrap(), 3);
        assert_eq!(&buffer, b"abc");
        assert!(one.object().readiness().is_writable());
        assert_eq!(one.write(b"efgh").unwrap(), 3);
    }

    #[test]
    fn half_close_ends_one_direction_after_its_bytes() {
        let (one, other) = Stream::pair(Site::caller(), 16, "a", "b");
        one.write(b"x").unwrap();
        one.shutdown_write();
        assert_eq!(kind(one.write(b"y")), io::ErrorKind::BrokenPipe);
        let mut buffer = [0; 4];
        assert_eq!((other.read(&mut buffer).unwrap(), other.read(&mut buffer).unwrap()), (1, 0));
        assert_eq!(other.write(b"back").unwrap(), 4);
        assert_eq!(one.read(&mut buffer).unwrap(), 4);
    }

    #[test]
    fn a_dropped_end_is_read_to_its_end_and_cannot_be_written_to() {
        let (one, other) = Stream::pair(Site::caller(), 16, "a", "b");
        one.write(b"last words").unwrap();
        drop(one);
        let mut buffer = [0; 16];
        assert_eq!((other.read(&mut buffer).unwrap(), other.read(&mut buffer).unwrap()), (10, 0));
        assert_eq!(kind(other.write(b"?")), io::ErrorKind::BrokenPipe);
        assert!(other.object().readiness().is_hangup());
    }

    #[test]
    fn a_reset_loses_what_is_under_way_and_tells_both_ends() {
        let (one, other) = Stream::pair(Site::caller(), 16, "a", "b");
        one.write(b"lost").unwrap();
        one.reset();
        assert_eq!(kind(other.read(&mut [0; 4])), io::ErrorKind::ConnectionReset);
        assert_eq!(kind(one.write(b"x")), io::ErrorKind::ConnectionReset);
        assert!(other.object().readiness().is_error());
    }
}
