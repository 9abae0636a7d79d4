//! Sockets: a client outside of the host that connects to an address which the driver has published.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;

use fuchsine_dispatcher::testing::sim::Stream;

use crate::peer::Text;
use crate::place::{Place, Time};

/// The other end of a connection of the driver under test: simulated on a foreground runtime, real on threads.
///
/// Its methods are for the test's own thread and let things happen while they wait, as those of a
/// [`Peer`](crate::Peer) do. Dropping it closes the connection.
pub struct Socket<'rt> {
    stream: Connection,
    place: Place<'rt>,
    name: String,
    /// What came and was not asked for yet.
    received: RefCell<Vec<u8>>,
}

enum Connection {
    Simulated(Stream),
    Real(TcpStream),
}

impl Connection {
    fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Connection::Simulated(stream) => stream.read(into),
            Connection::Real(stream) => (&mut &*stream).read(into),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Connection::Simulated(stream) => stream.write(bytes),
            Connection::Real(stream) => (&mut &*stream).write(bytes),
        }
    }
}

impl<'rt> Socket<'rt> {
    /// Connects to `HOST:PORT`; what stands before `://` and after the port is not looked at.
    pub(crate) fn connect(place: Place<'rt>, address: &str) -> io::Result<Self> {
        let host = address.split_once("://").map_or(address, |(_, rest)| rest);
        let host = host.split('/').next().unwrap_or_default();
        let stream = match place {
            Place::Foreground(runtime) => {
                let net = runtime.sim_net().ok_or_else(|| io::Error::from(ErrorKind::Unsupported))?;
                Connection::Simulated(net.connect(host)?)
            }
            Place::Threads => {
                let stream = TcpStream::connect(host)?;
                stream.set_nonblocking(true)?;
                Connection::Real(stream)
            }
        };
        Ok(Socket { stream, place, name: address.to_owned(), received: RefCell::default() })
    }

    /// Sends all bytes, letting things happen when there is no room; gives the number that were sent, which is less when
    /// the driver takes no more or has closed the connection. What the driver sends meanwhile is kept.
    pub fn send(&self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        self.place.until(Time::Stands, || {
            loop {
                self.take();
                match self.stream.write(&bytes[sent..]) {
                    Ok(count) => sent += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                    Err(_) => return true,
                }
                if sent == bytes.len() {
                    return true;
                }
            }
        });
        sent
    }

    /// The next `count` bytes; `None` when the driver closes the connection before, or sends no more.
    pub fn receive(&self, count: usize) -> Option<Vec<u8>> {
        self.place.until(Time::Stands, || {
            let ended = self.take();
            self.received.borrow().len() >= count || ended
        });
        let mut received = self.received.borrow_mut();
        (received.len() >= count).then(|| received.drain(..count).collect())
    }

    /// Waits for exactly these bytes.
    ///
    /// # Panics
    /// When others come, or too few.
    #[track_caller]
    pub fn expect(&self, bytes: &[u8]) {
        match self.receive(bytes.len()) {
            Some(received) if received == bytes => {}
            Some(received) => panic!("{}: expected {}, but {} came", self.name, Text(bytes), Text(&received)),
            None => {
                let received = self.received.borrow();
                panic!("{}: expected {}, but only {} came: {}", self.name, Text(bytes), Text(&received), self.place);
            }
        }
    }

    /// Whether the driver has closed the connection, once everything has happened that is due. What it sent before is
    /// kept.
    pub fn is_closed(&self) -> bool {
        self.place.settle();
        self.take()
    }

    /// Waits until the driver has closed the connection.
    ///
    /// # Panics
    /// When it stays open.
    #[track_caller]
    pub fn expect_closed(&self) {
        let closed = self.place.until(Time::Stands, || self.take());
        assert!(closed, "{}: expected the connection to be closed: {}", self.name, self.place);
    }

    /// Takes what is there; whether that was the end.
    fn take(&self) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return true,
                Ok(count) => self.received.borrow_mut().extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return true,
            }
        }
    }
}

impl fmt::Debug for Socket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket").field("name", &self.name).finish_non_exhaustive()
    }
}
