//! [`Connection`]: one end of a stream, served by one loop for life.
//!
//! | part | set by | goes when |
//! |---|---|---|
//! | the reader | `read` | told the end or an error, or `stop_reading` |
//! | the write queue | `write`, as far as the kernel does not take it at once | sent, or told an error |
//! | those who wait for room | `writable` | told |
//! | the idle timer | `set_idle_timeout` | the connection closes |
//!
//! The waits of the loop hold a handle each while there is a reader or something to send; the timer holds none, and
//! neither does the loop's table. So the connection closes with its last handle, unless something is still to happen
//! on it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::Location;
use std::rc::{Rc, Weak};
use std::time::Duration;

use crate::event_loop::event_loop::EventLoop;
use crate::event_loop::net::address::Address;
use crate::event_loop::net::error::NetError;
use crate::event_loop::net::listener::Place;
use crate::event_loop::net::read_half::ReadHalf;
use crate::event_loop::net::reading::ReadFn;
use crate::event_loop::net::table::{Member, Stage};
use crate::event_loop::net::write_queue::WriteQueue;
use crate::event_loop::net::writing::{RoomFn, SentFn};
use crate::event_loop::slots::Key;
use crate::event_loop::timer::Timer;
use crate::event_loop::wait::Wait;
use crate::sys::socket::Socket;
use crate::time::Instant;

/// How a connection begins.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::event_loop::net::ConnectionOptions;
/// use std::time::Duration;
///
/// let options = ConnectionOptions::new().idle_timeout(Duration::from_secs(30)).write_limit(64 * 1024);
/// ```
#[derive(Debug, Clone)]
#[must_use = "options do nothing by themselves"]
pub struct ConnectionOptions {
    pub(super) idle_timeout: Option<Duration>,
    pub(super) write_limit: usize,
}

impl ConnectionOptions {
    /// No idle timeout, and at most 256 KiB that wait to be sent.
    pub fn new() -> Self {
        ConnectionOptions { idle_timeout: None, write_limit: 256 * 1024 }
    }

    /// Closes a connection on which no byte has moved for this long; see [`Connection::set_idle_timeout`].
    pub fn idle_timeout(mut self, after: Duration) -> Self {
        self.idle_timeout = Some(after);
        self
    }

    /// How many bytes may wait to be sent. A write that would go beyond is refused.
    pub fn write_limit(mut self, bytes: usize) -> Self {
        self.write_limit = bytes;
        self
    }
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        ConnectionOptions::new()
    }
}

/// One end of a stream, TCP or Unix. Clones are the same connection.
///
/// It stays open as long as somebody holds a handle to it, or a read is registered, or bytes wait to be sent;
/// [`Connection::close`] ends it before. A callback of a connection that panics closes it.
///
/// # Thread requirements
/// It stays on its loop's thread, which its type makes sure of:
/// ```compile_fail,E0277
/// use fuchsine_dispatcher::event_loop::net::Connection;
/// fn to_another_thread(connection: Connection) {
///     std::thread::spawn(move || connection.close());
/// }
/// ```
///
/// # Examples
/// An echo server on two loops, and a client that hangs up when it has its answer:
/// ```
/// use fuchsine_dispatcher::event_loop::LoopManager;
/// use fuchsine_dispatcher::event_loop::net::{ConnectionOptions, ListenOptions, NetError};
///
/// let summary = LoopManager::builder()
///     .loops(2)
///     .setup(0, |event_loop| {
///         let any = "127.0.0.1:0".parse().unwrap();
///         let listener = event_loop.listen(&any, ListenOptions::new(), |_, connection| {
///             let echo = connection.read(|_, connection, received| match received {
///                 Ok(bytes) => connection.write(bytes).unwrap(),
///                 Err(_) => connection.close(),
///             });
///             echo.unwrap();
///         });
///         let listener = listener.unwrap();
///         let to = listener.local_address().clone();
///         let connecting = event_loop.connect(&to, ConnectionOptions::new(), |_, connected| {
///             let client = connected.unwrap();
///             client.write("hello").unwrap();
///             let answer = client.read(|event_loop, client, received| {
///                 assert_eq!(received.unwrap(), b"hello");
///                 client.close();
///                 event_loop.manager().unwrap().shutdown();
///             });
///             answer.unwrap();
///         });
///         drop(connecting.unwrap());
///         listener.detach();
///     })
///     .build()?
///     .run()?;
/// assert_eq!(summary.panics(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a connection closes with its last handle, unless a read is registered or bytes wait to be sent"]
pub struct Connection {
    pub(super) inner: Rc<Inner>,
}

pub(super) struct Inner {
    pub(super) event_loop: EventLoop,
    /// `None` once closed.
    pub(super) socket: RefCell<Option<Socket>>,
    local: Address,
    peer: Address,
    pub(super) reading: ReadHalf<ReadFn>,
    pub(super) queue: RefCell<WriteQueue<SentFn>>,
    /// There as long as something is to be sent.
    pub(super) write_wait: RefCell<Option<Wait>>,
    pub(super) waiters: RefCell<Vec<RoomFn>>,
    pub(super) finished: Cell<bool>,
    idle: RefCell<Option<(Timer, Duration)>>,
    last_moved: Cell<Instant>,
    /// Why it is closed.
    pub(super) ended: RefCell<Option<NetError>>,
    key: Cell<Option<Key>>,
    /// Where it was asked for; told in reports of what held a loop open.
    pub(super) created: &'static Location<'static>,
    /// Its place among the connections of its listener.
    _place: Option<Place>,
}

impl Connection {
    pub(super) fn open(
        event_loop: &EventLoop,
        socket: Socket,
        (local, peer): (Address, Address),
        options: &ConnectionOptions,
        place: Option<Place>,
        created: &'static Location<'static>,
    ) -> Connection {
        let inner = Rc::new(Inner {
            event_loop: event_loop.clone(),
            socket: RefCell::new(Some(socket)),
            local,
            peer,
            reading: ReadHalf::new(),
            queue: RefCell::new(WriteQueue::new(options.write_limit)),
            write_wait: RefCell::new(None),
            waiters: RefCell::new(Vec::new()),
            finished: Cell::new(false),
            idle: RefCell::new(None),
            last_moved: Cell::new(event_loop.now()),
            ended: RefCell::new(None),
            key: Cell::new(None),
            created,
            _place: place,
        });
        let member: Weak<dyn Member> = Rc::downgrade(&(inner.clone() as Rc<dyn Member>));
        inner.key.set(Some(event_loop.enter_net(member)));
        let connection = Connection { inner };
        if options.idle_timeout.is_some() {
            // Cannot fail: the connection is open.
            let _ = connection.set_idle_timeout(options.idle_timeout);
        }
        connection
    }

    /// The address of this end.
    pub fn local_address(&self) -> &Address {
        &self.inner.local
    }

    /// The address of the other end.
    pub fn peer_address(&self) -> &Address {
        &self.inner.peer
    }

    /// Whether it is open, at this end.
    pub fn is_open(&self) -> bool {
        self.inner.socket.borrow().is_some()
    }

    /// Closes the connection at once. What is pending on it is told [`NetError::Closed`], later; what waited to be sent
    /// is not sent (for that, [`Connection::finish`] and let go of the handles). Closing again changes nothing.
    pub fn close(&self) {
        self.inner.end(NetError::Closed);
    }

    /// Closes the connection when no byte has moved on it, in either direction, for this long. What is pending is told
    /// [`NetError::TimedOut`] then. `None`: never. The time begins anew with this call.
    ///
    /// # Errors
    /// Why the connection is closed, if it is; [`NetError::LoopEnded`] when the loop arms no timer any more.
    pub fn set_idle_timeout(&self, after: Option<Duration>) -> Result<(), NetError> {
        let inner = &self.inner;
        inner.check_open()?;
        inner.last_moved.set(inner.event_loop.now());
        let Some(after) = after else {
            drop(inner.idle.take());
            return Ok(());
        };
        let this = Rc::downgrade(inner);
        let timer = inner.event_loop.timer(move |_, _| {
            if let Some(inner) = this.upgrade() {
                inner.look_whether_idle();
            }
        });
        // A deadline that never comes is one that needs no timer.
        match timer.once_at(inner.last_moved.get() + after) {
            Ok(()) | Err(crate::event_loop::timer::TimerError::Infinite) => {}
            Err(_) => return Err(NetError::LoopEnded),
        }
        drop(inner.idle.replace(Some((timer, after))));
        Ok(())
    }
}

impl Inner {
    pub(super) fn check_open(&self) -> Result<(), NetError> {
        match &*self.ended.borrow() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Bytes have moved. The timer is not armed anew for that; it looks at this when it fires.
    pub(super) fn moved(&self) {
        if self.idle.borrow().is_some() {
            self.last_moved.set(self.event_loop.now());
        }
    }

    fn look_whether_idle(self: Rc<Self>) {
        let deadline = match &*self.idle.borrow() {
            Some((_, after)) => self.last_moved.get() + *after,
            None => return,
        };
        if deadline <= self.event_loop.now() {
            return self.end(NetError::TimedOut);
        }
        if let Some((timer, _)) = &*self.idle.borrow() {
            // Refused only when the loop has ended, which ends the connection as well.
            let _ = timer.once_at(deadline);
        }
    }

    /// Closes the connection. All that is pending is told `error`, in later iterations.
    pub(super) fn end(self: &Rc<Self>, error: NetError) {
        if self.ended.borrow().is_some() {
            return;
        }
        *self.ended.borrow_mut() = Some(error.clone());
        // First the waits, then the descriptor that they are on.
        self.reading.end();
        drop((self.write_wait.take(), self.idle.take()));
        drop(self.socket.take());
        if let Some(key) = self.key.take() {
            self.event_loop.leave_net(key);
        }
        let sent = self.queue.borrow_mut().take_all();
        for sent in sent {
            let error = error.clone();
            self.event_loop.defer("write", move |event_loop| sent(event_loop, Err(error)));
        }
        self.tell_reader_and_waiters(error);
    }

    fn tell_reader_and_waiters(self: &Rc<Self>, error: NetError) {
        let connection = Connection { inner: self.clone() };
        if let Some(mut reader) = self.reading.lend() {
            let (connection, error) = (connection.clone(), error.clone());
            self.event_loop.defer("read", move |event_loop| reader(event_loop, &connection, Err(error)));
        }
        for room in self.waiters.take() {
            let (connection, error) = (connection.clone(), error.clone());
            self.event_loop.defer("writable", move |event_loop| room(event_loop, &connection, Err(error)));
        }
    }
}

impl Member for Inner {
    fn on_stage(self: Rc<Self>, stage: Stage) {
        match stage {
            Stage::Begin => {}
            Stage::Cancel => {
                self.reading.end();
                self.tell_reader_and_waiters(NetError::Canceled);
                self.hold_loop_while_sending();
            }
            Stage::End => self.end(NetError::Canceled),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.event_loop.leave_net(key);
        }
    }
}

/// Closes a connection if a panic of its callback passes through.
pub(super) struct CloseOnPanic<'a>(pub(super) &'a Connection);

impl Drop for CloseOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_open() { "open" } else { "closed" };
        write!(f, "Connection({} to {}, {state})", self.inner.local, self.inner.peer)
    }
}
