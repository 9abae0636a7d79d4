//! [`Udp`]: datagrams of one socket, received and sent by one loop.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::panic::Location;
use std::rc::{Rc, Weak};

use crate::event_loop::event_loop::EventLoop;
use crate::event_loop::net::error::{NetError, NetRefused};
use crate::event_loop::net::read_half::ReadHalf;
use crate::event_loop::net::table::{Member, Stage};
use crate::event_loop::slots::Key;
use crate::event_loop::source::Interest;
use crate::event_loop::summary::HolderKind;
use crate::event_loop::wait::Wait;
use crate::sys::socket::bind_udp;

/// How many datagrams one look at the socket receives, or sends, at most.
const AT_ONCE: usize = 32;

type ReceiveFn = dyn FnMut(&EventLoop, &Udp, Result<(&[u8], SocketAddr), NetError>);
type SentFn = Box<dyn FnOnce(&EventLoop, Result<(), NetError>)>;

/// How a datagram socket begins.
#[derive(Debug, Clone)]
#[must_use = "options do nothing by themselves"]
pub struct UdpOptions {
    shared: bool,
    queue_limit: usize,
}

impl UdpOptions {
    /// A port of its own, and at most 256 datagrams that wait to be sent.
    pub fn new() -> Self {
        UdpOptions { shared: false, queue_limit: 256 }
    }

    /// Lets other sockets have the same port, if they allow it too: one a loop, say. The kernel spreads the senders over
    /// them.
    pub fn shared(mut self) -> Self {
        self.shared = true;
        self
    }

    /// How many datagrams may wait to be sent.
    pub fn queue_limit(mut self, datagrams: usize) -> Self {
        self.queue_limit = datagrams;
        self
    }
}

impl Default for UdpOptions {
    fn default() -> Self {
        UdpOptions::new()
    }
}

struct Datagram {
    bytes: Vec<u8>,
    to: SocketAddr,
    sent: Option<SentFn>,
}

struct Inner {
    event_loop: EventLoop,
    /// `None` once closed.
    socket: RefCell<Option<UdpSocket>>,
    address: SocketAddr,
    queue_limit: usize,
    receiving: ReadHalf<ReceiveFn>,
    queue: RefCell<VecDeque<Datagram>>,
    write_wait: RefCell<Option<Wait>>,
    ended: RefCell<Option<NetError>>,
    key: Cell<Option<Key>>,
    created: &'static Location<'static>,
}

/// A datagram socket. Clones are the same socket. It stays open as long as somebody holds a handle to it, or receives
/// on it, or datagrams wait to be sent; [`Udp::close`] closes it before.
///
/// # Thread requirements
/// It stays on its loop's thread, which its type makes sure of:
/// ```compile_fail,E0277
/// use fuchsine_dispatcher::event_loop::net::Udp;
/// fn to_another_thread(socket: Udp) {
///     std::thread::spawn(move || socket.close());
/// }
/// ```
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::event_loop::LoopManager;
/// use fuchsine_dispatcher::event_loop::net::UdpOptions;
///
/// LoopManager::builder()
///     .loops(1)
///     .setup(0, |event_loop| {
///         let any = "127.0.0.1:0".parse().unwrap();
///         let server = event_loop.udp(any, UdpOptions::new()).unwrap();
///         let echo = server.receive(|_, server, received| {
///             if let Ok((bytes, from)) = received {
///                 server.send_to(bytes, from).unwrap();
///             }
///         });
///         echo.unwrap();
///         let client = event_loop.udp(any, UdpOptions::new()).unwrap();
///         let answer = client.receive(|event_loop, client, received| {
///             if let Ok((bytes, _)) = received {
///                 assert_eq!(bytes, b"hello");
///                 client.close();
///                 event_loop.manager().unwrap().shutdown();
///             }
///         });
///         answer.unwrap();
///         client.send_to("hello", server.local_address()).unwrap();
///     })
///     .build()?
///     .run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a datagram socket closes with its last handle, unless somebody receives on it"]
pub struct Udp {
    inner: Rc<Inner>,
}

impl EventLoop {
    /// Opens a datagram socket on `address`; port 0 lets the operating system choose one.
    ///
    /// # Errors
    /// [`NetError::LoopEnded`] once the loop has told everybody to stop, and what the operating system says of the
    /// address.
    #[track_caller]
    pub fn udp(&self, address: SocketAddr, options: UdpOptions) -> Result<Udp, NetError> {
        let created = Location::caller();
        if !self.accepts_arming() || self.net_is_canceled() {
            return Err(NetError::LoopEnded);
        }
        let socket = bind_udp(address, options.shared)?;
        let address = socket.local_addr()?;
        let inner = Rc::new(Inner {
            event_loop: self.clone(),
            socket: RefCell::new(Some(socket)),
            address,
            queue_limit: options.queue_limit,
            receiving: ReadHalf::new(),
            queue: RefCell::new(VecDeque::new()),
            write_wait: RefCell::new(None),
            ended: RefCell::new(None),
            key: Cell::new(None),
            created,
        });
        let member: Weak<dyn Member> = Rc::downgrade(&(inner.clone() as Rc<dyn Member>));
        inner.key.set(Some(self.enter_net(member)));
        Ok(Udp { inner })
    }
}

impl Udp {
    /// The address that was bound.
    pub fn local_address(&self) -> SocketAddr {
        self.inner.address
    }

    /// Calls `callback` for each datagram, with who sent it, until an error or [`Udp::stop_receiving`]. Bytes are lent
    /// for the call.
    ///
    /// # Errors
    /// [`NetRefused`] with the callback in it: [`NetError::AlreadyReading`], [`NetError::Canceled`] when the loop has
    /// told everybody to stop, or why the socket is closed.
    pub fn receive<F>(&self, callback: F) -> Result<(), NetRefused<F>>
    where
        F: FnMut(&EventLoop, &Udp, Result<(&[u8], SocketAddr), NetError>) + 'static,
    {
        let (inner, socket) = (&self.inner, self.clone());
        let on_readable = move |event_loop: &EventLoop| socket.on_readable(event_loop);
        let begin = |()| inner.receiving.begin(&inner.event_loop, inner.created, &inner.socket, on_readable);
        match inner.check_open().and_then(begin) {
            Ok(()) => {
                inner.receiving.keep(Box::new(callback));
                Ok(())
            }
            Err(error) => Err(NetRefused::new(error, callback)),
        }
    }

    /// Takes the receiver back, which is dropped. Answers whether there was one.
    pub fn stop_receiving(&self) -> bool {
        self.inner.receiving.stop()
    }

    /// Sends a datagram, after those that were sent before. It waits if the kernel has no room for it now.
    ///
    /// # Errors
    /// [`NetRefused`] with the bytes in it: [`NetError::Full`] when as many as allowed wait already, why the socket is
    /// closed, or what the operating system says of this datagram (too long, no route); the socket goes on then.
    pub fn send_to<B: AsRef<[u8]> + Into<Vec<u8>>>(&self, bytes: B, to: SocketAddr) -> Result<(), NetRefused<B>> {
        match self.send_now(bytes.as_ref(), to) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.enqueue(Datagram { bytes: bytes.into(), to, sent: None });
                Ok(())
            }
            Err(error) => Err(NetRefused::new(error, bytes)),
        }
    }

    /// [`Udp::send_to`], and tells `sent` when the kernel has taken it: later, never inside this call.
    ///
    /// # Errors
    /// As [`Udp::send_to`], with the bytes and the callback.
    pub fn send_to_then<B, F>(&self, bytes: B, to: SocketAddr, sent: F) -> Result<(), NetRefused<(B, F)>>
    where
        B: AsRef<[u8]> + Into<Vec<u8>>,
        F: FnOnce(&EventLoop, Result<(), NetError>) + 'static,
    {
        match self.send_now(bytes.as_ref(), to) {
            Ok(true) => self.inner.event_loop.defer("send", move |event_loop| sent(event_loop, Ok(()))),
            Ok(false) => self.enqueue(Datagram { bytes: bytes.into(), to, sent: Some(Box::new(sent)) }),
            Err(error) => return Err(NetRefused::new(error, (bytes, sent))),
        }
        Ok(())
    }

    /// How many datagrams wait to be sent.
    pub fn queued(&self) -> usize {
        self.inner.queue.borrow().len()
    }

    /// Whether it is open.
    pub fn is_open(&self) -> bool {
        self.inner.socket.borrow().is_some()
    }

    /// Closes the socket at once. What is pending on it is told [`NetError::Closed`], later.
    pub fn close(&self) {
        self.inner.end(&NetError::Closed);
    }

    /// Whether the kernel has taken the datagram; if not, there is room for it in the queue.
    fn send_now(&self, bytes: &[u8], to: SocketAddr) -> Result<bool, NetError> {
        let inner = &self.inner;
        inner.check_open()?;
        let waiting = inner.queue.borrow().len();
        if waiting == 0 {
            let sent = match &*inner.socket.borrow() {
                Some(socket) => socket.send_to(bytes, to),
                None => return Err(NetError::Closed),
            };
            match sent {
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
        }
        if waiting >= inner.queue_limit { Err(NetError::Full) } else { Ok(false) }
    }

    fn enqueue(&self, datagram: Datagram) {
        self.inner.queue.borrow_mut().push_back(datagram);
        self.inner.arm_write();
    }

    fn on_readable(&self, event_loop: &EventLoop) {
        let inner = &self.inner;
        for _ in 0..AT_ONCE {
            let Some(mut receiver) = inner.receiving.lend() else { return };
            let mut buffer = event_loop.take_read_buffer();
            let received = match &*inner.socket.borrow() {
                Some(socket) => socket.recv_from(&mut buffer),
                None => return,
            };
            match received {
                Ok((count, from)) => {
                    let guard = CloseOnPanic(self);
                    receiver(event_loop, self, Ok((&buffer[..count], from)));
                    drop(guard);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    event_loop.put_read_buffer_back(buffer);
                    inner.receiving.keep(receiver);
                    return;
                }
                // Said of a datagram that was sent before, to somebody who does not listen: no reason to stop.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => {
                    let error = NetError::from(error);
                    inner.end(&error);
                    receiver(event_loop, self, Err(error));
                }
            }
            event_loop.put_read_buffer_back(buffer);
            inner.receiving.put_back(receiver);
        }
    }
}

/// Closes a socket if a panic of its callback passes through.
struct CloseOnPanic<'a>(&'a Udp);

impl Drop for CloseOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.close();
        }
    }
}

impl Inner {
    fn check_open(&self) -> Result<(), NetError> {
        match &*self.ended.borrow() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    fn arm_write(self: &Rc<Self>) {
        if self.write_wait.borrow().is_some() {
            return;
        }
        let this = self.clone();
        let waited = match &*self.socket.borrow() {
            Some(socket) => {
                self.event_loop
                    .wait_of((HolderKind::Socket, self.created), socket, Interest::WRITABLE, move |_, _| this.flush())
            }
            None => return,
        };
        match waited {
            Ok(wait) => *self.write_wait.borrow_mut() = Some(wait),
            Err(refused) => {
                let error = NetError::from(refused.reason());
                self.end(&error);
            }
        }
    }

    fn flush(self: &Rc<Self>) {
        for _ in 0..AT_ONCE {
            let outcome = {
                let (queue, socket) = (self.queue.borrow(), self.socket.borrow());
                let (Some(next), Some(socket)) = (queue.front(), &*socket) else { break };
                match socket.send_to(&next.bytes, next.to) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => Err(NetError::from(error)),
                    Ok(_) => Ok(()),
                }
            };
            let datagram = self.queue.borrow_mut().pop_front();
            if let Some(sent) = datagram.and_then(|datagram| datagram.sent) {
                self.event_loop.defer("send", move |event_loop| sent(event_loop, outcome));
            }
        }
        if self.queue.borrow().is_empty() {
            drop(self.write_wait.take());
        }
    }

    fn end(self: &Rc<Self>, error: &NetError) {
        if self.ended.borrow().is_some() {
            return;
        }
        *self.ended.borrow_mut() = Some(error.clone());
        self.receiving.end();
        drop(self.write_wait.take());
        drop(self.socket.take());
        if let Some(key) = self.key.take() {
            self.event_loop.leave_net(key);
        }
        for sent in self.queue.take().into_iter().filter_map(|datagram| datagram.sent) {
            let error = error.clone();
            self.event_loop.defer("send", move |event_loop| sent(event_loop, Err(error)));
        }
        self.tell_receiver(error.clone());
    }

    fn tell_receiver(self: &Rc<Self>, error: NetError) {
        if let Some(mut receiver) = self.receiving.lend() {
            let socket = Udp { inner: self.clone() };
            self.event_loop.defer("receive", move |event_loop| receiver(event_loop, &socket, Err(error)));
        }
    }
}

impl Member for Inner {
    fn on_stage(self: Rc<Self>, stage: Stage) {
        match stage {
            Stage::Begin => {}
            Stage::Cancel => {
                self.receiving.end();
                self.tell_receiver(NetError::Canceled);
                if self.write_wait.borrow().is_some() {
                    // Armed anew, it holds the loop until all has been sent.
                    drop(self.write_wait.take());
                    self.arm_write();
                }
            }
            Stage::End => self.end(&NetError::Canceled),
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

impl fmt::Debug for Udp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_open() { "open" } else { "closed" };
        write!(f, "Udp({}, {state})", self.inner.address)
    }
}
