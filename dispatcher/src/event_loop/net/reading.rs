//! Reading from a [`Connection`]: each time that bytes arrive, until the end.

use crate::event_loop::event_loop::EventLoop;
use crate::event_loop::net::connection::{CloseOnPanic, Connection};
use crate::event_loop::net::error::{NetError, NetRefused};

pub(super) type ReadFn = dyn FnMut(&EventLoop, &Connection, Result<&[u8], NetError>);

impl Connection {
    /// Calls `callback` each time that bytes arrive, until the end, an error, or [`Connection::stop_reading`]. The last
    /// call is with the reason: [`NetError::End`] when the other side has sent everything (this side may still write);
    /// else the connection is closed, or about to be.
    ///
    /// Bytes are lent for the call. At most 64 KiB come at a time, and other sockets of the loop have their turn
    /// before the next.
    ///
    /// # Errors
    /// [`NetRefused`] with the callback in it: [`NetError::AlreadyReading`], [`NetError::Canceled`] when the loop has
    /// told everybody to stop, or why the connection is closed.
    ///
    /// # Examples
    /// ```no_run
    /// # use fuchsine_dispatcher::event_loop::net::{Connection, NetError};
    /// fn count(connection: &Connection) -> Result<(), NetError> {
    ///     let mut total = 0;
    ///     let counting = connection.read(move |_, connection, received| match received {
    ///         Ok(bytes) => total += bytes.len(),
    ///         Err(reason) => println!("{total} bytes from {}; then: {reason}", connection.peer_address()),
    ///     });
    ///     counting.map_err(|refused| refused.reason().clone())
    /// }
    /// ```
    pub fn read<F>(&self, callback: F) -> Result<(), NetRefused<F>>
    where
        F: FnMut(&EventLoop, &Connection, Result<&[u8], NetError>) + 'static,
    {
        let (inner, connection) = (&self.inner, self.clone());
        let on_readable = move |event_loop: &EventLoop| connection.on_readable(event_loop);
        let begin = |()| inner.reading.begin(&inner.event_loop, inner.created, &inner.socket, on_readable);
        match inner.check_open().and_then(begin) {
            Ok(()) => {
                inner.reading.keep(Box::new(callback));
                Ok(())
            }
            Err(error) => Err(NetRefused::new(error, callback)),
        }
    }

    /// Takes back the read; its callback is not called any more and is dropped. What arrives from now on stays in the
    /// kernel, which slows the other side down. Answers whether there was one.
    pub fn stop_reading(&self) -> bool {
        self.inner.reading.stop()
    }

    /// Whether a read is registered.
    pub fn is_reading(&self) -> bool {
        self.inner.reading.is_active()
    }

    fn on_readable(&self, event_loop: &EventLoop) {
        let inner = &self.inner;
        let Some(reader) = inner.reading.lend() else { return };
        let mut buffer = event_loop.take_read_buffer();
        let received = match &*inner.socket.borrow() {
            Some(socket) => socket.receive(&mut buffer),
            None => return,
        };
        match received {
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => inner.reading.keep(reader),
            Err(error) => {
                let error = NetError::from(error);
                // Those who wait for anything else are told later, the reader now: this is its own call.
                inner.end(error.clone());
                self.call_reader(event_loop, reader, Err(error));
            }
            Ok(0) => {
                inner.reading.end();
                self.call_reader(event_loop, reader, Err(NetError::End));
            }
            Ok(count) => {
                inner.moved();
                self.call_reader(event_loop, reader, Ok(&buffer[..count]));
            }
        }
        event_loop.put_read_buffer_back(buffer);
    }

    fn call_reader(&self, event_loop: &EventLoop, mut reader: Box<ReadFn>, received: Result<&[u8], NetError>) {
        let guard = CloseOnPanic(self);
        reader(event_loop, self, received);
        drop(guard);
        self.inner.reading.put_back(reader);
    }
}
