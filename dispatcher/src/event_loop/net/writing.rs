//! Writing to a [`Connection`]: to the kernel at once as far as it takes it, the rest through a bounded queue.

use std::io;
use std::rc::Rc;

use crate::event_loop::event_loop::EventLoop;
use crate::event_loop::net::connection::{Connection, Inner};
use crate::event_loop::net::error::{NetError, NetRefused};
use crate::event_loop::source::Interest;
use crate::event_loop::summary::HolderKind;

pub(super) type SentFn = Box<dyn FnOnce(&EventLoop, Result<(), NetError>)>;
pub(super) type RoomFn = Box<dyn FnOnce(&EventLoop, &Connection, Result<(), NetError>)>;

/// How many times one connection sends before others have their turn.
const SENDS: usize = 16;

impl Connection {
    /// Sends `bytes`, after all that was written before. What the kernel does not take at once waits in the
    /// connection's queue, up to its limit ([`ConnectionOptions::write_limit`](super::ConnectionOptions::write_limit));
    /// an empty queue takes a write of any size.
    ///
    /// # Errors
    /// [`NetRefused`] with the bytes in it, of which none has been sent: [`NetError::Full`] when the queue has no room
    /// (see [`Connection::writable`]), [`NetError::Finished`], or why the connection is closed. A failure to send ends
    /// the connection.
    ///
    /// # Examples
    /// Stop reading while the other side does not read its answers:
    /// ```no_run
    /// # use fuchsine_dispatcher::event_loop::net::{Connection, NetError};
    /// fn echo(connection: &Connection) {
    ///     let reading = connection.read(|_, connection, received| {
    ///         let Ok(bytes) = received else { return connection.close() };
    ///         let Err(refused) = connection.write(bytes.to_vec()) else { return };
    ///         let NetError::Full = refused.reason() else { return };
    ///         let bytes = refused.into_inner();
    ///         connection.stop_reading();
    ///         let waiting = connection.writable(move |_, connection, room| {
    ///             if room.is_ok() && connection.write(bytes).is_ok() {
    ///                 echo(connection);
    ///             }
    ///         });
    ///         drop(waiting);
    ///     });
    ///     drop(reading);
    /// }
    /// ```
    pub fn write<B: AsRef<[u8]> + Into<Vec<u8>>>(&self, bytes: B) -> Result<(), NetRefused<B>> {
        self.put(bytes, None)
    }

    /// [`Connection::write`], and tells `sent` when the kernel has taken all of it: later, never inside this call. If it
    /// does not come to that, `sent` is told why.
    ///
    /// # Errors
    /// As [`Connection::write`], with the bytes and the callback.
    pub fn write_then<B, F>(&self, bytes: B, sent: F) -> Result<(), NetRefused<(B, F)>>
    where
        B: AsRef<[u8]> + Into<Vec<u8>>,
        F: FnOnce(&EventLoop, Result<(), NetError>) + 'static,
    {
        // Looked at before the callback goes into its box, from which it could not be given back.
        match self.admit(bytes.as_ref().len()).and_then(|()| self.send_now(bytes.as_ref())) {
            Ok(count) => {
                self.queue_rest(bytes, count, Some(Box::new(sent)));
                Ok(())
            }
            Err(error) => Err(NetRefused::new(error, (bytes, sent))),
        }
    }

    fn put<B: AsRef<[u8]> + Into<Vec<u8>>>(&self, bytes: B, sent: Option<SentFn>) -> Result<(), NetRefused<B>> {
        match self.admit(bytes.as_ref().len()).and_then(|()| self.send_now(bytes.as_ref())) {
            Ok(count) => {
                self.queue_rest(bytes, count, sent);
                Ok(())
            }
            Err(error) => Err(NetRefused::new(error, bytes)),
        }
    }

    /// Calls `callback` once there is room in the write queue: at least half of its limit. If there is now, in a later
    /// iteration.
    ///
    /// # Errors
    /// [`NetRefused`] with the callback in it: [`NetError::Canceled`] when the loop has told everybody to stop, or why
    /// the connection is closed.
    pub fn writable<F>(&self, callback: F) -> Result<(), NetRefused<F>>
    where
        F: FnOnce(&EventLoop, &Connection, Result<(), NetError>) + 'static,
    {
        if let Err(error) = self.inner.check_open() {
            return Err(NetRefused::new(error, callback));
        }
        if self.inner.event_loop.net_is_canceled() {
            return Err(NetRefused::new(NetError::Canceled, callback));
        }
        self.inner.waiters.borrow_mut().push(Box::new(callback));
        self.inner.tell_of_room();
        Ok(())
    }

    /// Says that this side writes no more: once all has been sent, the other side reads the end. Reading goes on.
    ///
    /// # Errors
    /// Why the connection is closed, if it is.
    pub fn finish(&self) -> Result<(), NetError> {
        self.inner.check_open()?;
        self.inner.finished.set(true);
        self.inner.finish_if_sent();
        Ok(())
    }

    /// How many bytes wait to be sent.
    pub fn queued(&self) -> usize {
        self.inner.queue.borrow().len()
    }

    fn admit(&self, len: usize) -> Result<(), NetError> {
        self.inner.check_open()?;
        if self.inner.finished.get() {
            return Err(NetError::Finished);
        }
        match self.inner.queue.borrow().accepts(len) {
            true => Ok(()),
            false => Err(NetError::Full),
        }
    }

    /// Hands the kernel as much as it takes now; nothing if something waits before it.
    fn send_now(&self, bytes: &[u8]) -> Result<usize, NetError> {
        if !self.inner.queue.borrow().is_empty() || bytes.is_empty() {
            return Ok(0);
        }
        let sent = match &*self.inner.socket.borrow() {
            Some(socket) => socket.send(bytes),
            None => return Err(NetError::Closed),
        };
        match sent {
            Ok(count) => {
                self.inner.moved();
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) => {
                let error = NetError::from(error);
                self.inner.end(error.clone());
                Err(error)
            }
        }
    }

    fn queue_rest<B: AsRef<[u8]> + Into<Vec<u8>>>(&self, bytes: B, count: usize, sent: Option<SentFn>) {
        let inner = &self.inner;
        if count == bytes.as_ref().len() && inner.queue.borrow().is_empty() {
            if let Some(sent) = sent {
                inner.event_loop.defer("write", move |event_loop| sent(event_loop, Ok(())));
            }
            return;
        }
        inner.queue.borrow_mut().push(bytes.into(), count, sent);
        inner.arm_write();
    }
}

impl Inner {
    fn arm_write(self: &Rc<Self>) {
        if self.write_wait.borrow().is_some() {
            return;
        }
        let connection = Connection { inner: self.clone() };
        let waited = match &*self.socket.borrow() {
            Some(socket) => {
                self.event_loop.wait_of((HolderKind::Socket, self.created), socket, Interest::WRITABLE, move |_, _| {
                    connection.inner.flush()
                })
            }
            None => return,
        };
        match waited {
            Ok(wait) => *self.write_wait.borrow_mut() = Some(wait),
            Err(refused) => {
                let error = NetError::from(refused.reason());
                self.end(error);
            }
        }
    }

    /// The socket takes bytes again.
    fn flush(self: &Rc<Self>) {
        for _ in 0..SENDS {
            let sent = {
                let (queue, socket) = (self.queue.borrow(), self.socket.borrow());
                let (Some(front), Some(socket)) = (queue.front(), &*socket) else { break };
                let len = front.len();
                if len == 0 { Ok((0, 0)) } else { socket.send(front).map(|count| (count, len)) }
            };
            match sent {
                Ok((count, len)) => {
                    let sent = self.queue.borrow_mut().advance(count);
                    self.moved();
                    if let Some(sent) = sent {
                        self.event_loop.defer("write", move |event_loop| sent(event_loop, Ok(())));
                    }
                    if count < len {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return self.end(error.into()),
            }
        }
        if self.queue.borrow().is_empty() {
            drop(self.write_wait.take());
        }
        self.finish_if_sent();
        self.tell_of_room();
    }

    fn finish_if_sent(self: &Rc<Self>) {
        if !self.finished.get() || !self.queue.borrow().is_empty() {
            return;
        }
        let done = match &*self.socket.borrow() {
            Some(socket) => socket.shutdown_write(),
            None => return,
        };
        // Not connected any more: the other side is gone, which a read will say.
        if let Err(error) = done
            && error.kind() != io::ErrorKind::NotConnected
        {
            self.end(error.into());
        }
    }

    fn tell_of_room(self: &Rc<Self>) {
        if !self.queue.borrow().has_room() {
            return;
        }
        for room in self.waiters.take() {
            let connection = Connection { inner: self.clone() };
            self.event_loop.defer("writable", move |event_loop| room(event_loop, &connection, Ok(())));
        }
    }

    /// Waits that were armed before a shutdown do not hold their loop; what was accepted for sending is to.
    pub(super) fn hold_loop_while_sending(self: &Rc<Self>) {
        if self.write_wait.borrow().is_some() {
            drop(self.write_wait.take());
            self.arm_write();
        }
    }
}
