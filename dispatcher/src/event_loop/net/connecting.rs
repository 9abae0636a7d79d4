//! [`Connecting`]: a connection that is on its way.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::Location;
use std::rc::{Rc, Weak};
use std::time::Duration;

use crate::event_loop::event_loop::EventLoop;
use crate::event_loop::net::address::Address;
use crate::event_loop::net::connection::{Connection, ConnectionOptions};
use crate::event_loop::net::error::{NetError, NetRefused};
use crate::event_loop::net::table::{Member, Stage};
use crate::event_loop::slots::Key;
use crate::event_loop::source::Interest;
use crate::event_loop::summary::HolderKind;
use crate::event_loop::timer::Timer;
use crate::event_loop::wait::Wait;
use crate::sys::socket::Socket;

type Connected = Box<dyn FnOnce(&EventLoop, Result<Connection, NetError>)>;

struct Inner {
    event_loop: EventLoop,
    to: Address,
    options: ConnectionOptions,
    /// `None` once it is decided what it is told.
    connected: RefCell<Option<Connected>>,
    socket: RefCell<Option<Socket>>,
    wait: RefCell<Option<Wait>>,
    limit: RefCell<Option<Timer>>,
    key: Cell<Option<Key>>,
    created: &'static Location<'static>,
}

/// A connection that is on its way. Dropping this changes nothing.
///
/// # Thread requirements
/// It stays on its loop's thread, which its type makes sure of:
/// ```compile_fail,E0277
/// use fuchsine_dispatcher::event_loop::net::Connecting;
/// fn to_another_thread(connecting: Connecting) {
///     std::thread::spawn(move || connecting.cancel());
/// }
/// ```
pub struct Connecting {
    inner: Rc<Inner>,
}

impl EventLoop {
    /// Connects to `address` and tells `connected` what came of it: later, never inside this call, and exactly once.
    ///
    /// # Errors
    /// [`NetRefused`] with the callback in it, once the loop has told everybody to stop. What the operating system says
    /// of the address is told to the callback.
    ///
    /// # Examples
    /// See [`Connection`].
    #[track_caller]
    pub fn connect<F>(
        &self,
        address: &Address,
        options: ConnectionOptions,
        connected: F,
    ) -> Result<Connecting, NetRefused<F>>
    where
        F: FnOnce(&EventLoop, Result<Connection, NetError>) + 'static,
    {
        let created = Location::caller();
        if !self.accepts_arming() || self.net_is_canceled() {
            return Err(NetRefused::new(NetError::LoopEnded, connected));
        }
        let inner = Rc::new(Inner {
            event_loop: self.clone(),
            to: address.clone(),
            options,
            connected: RefCell::new(Some(Box::new(connected))),
            socket: RefCell::new(None),
            wait: RefCell::new(None),
            limit: RefCell::new(None),
            key: Cell::new(None),
            created,
        });
        let member: Weak<dyn Member> = Rc::downgrade(&(inner.clone() as Rc<dyn Member>));
        inner.key.set(Some(self.enter_net(member)));
        inner.start();
        Ok(Connecting { inner })
    }
}

impl Connecting {
    /// Gives up. The callback is told [`NetError::Canceled`], later. Answers whether this did it: `false` when it has
    /// been told already, or is about to be.
    pub fn cancel(&self) -> bool {
        self.inner.tell(Err(NetError::Canceled))
    }

    /// Gives up after this long: the callback is told [`NetError::TimedOut`] then. Without this, the operating system
    /// decides how long it tries.
    #[must_use = "this is the connection on its way; dropping it changes nothing, though"]
    pub fn timeout(self, after: Duration) -> Self {
        let this = Rc::downgrade(&self.inner);
        let timer = self.inner.event_loop.timer(move |_, _| {
            if let Some(inner) = this.upgrade() {
                inner.tell(Err(NetError::TimedOut));
            }
        });
        // Refused for a time that never comes, and when the loop ends, which cancels this anyway.
        let _ = timer.once(after);
        if self.is_pending() {
            *self.inner.limit.borrow_mut() = Some(timer);
        }
        self
    }

    /// Whether it has not been decided yet what came of it.
    pub fn is_pending(&self) -> bool {
        self.inner.connected.borrow().is_some()
    }
}

impl Inner {
    fn start(self: &Rc<Self>) {
        let begun = match &self.to {
            Address::Tcp(address) => Socket::connect_tcp(*address),
            Address::Unix(path) => Socket::connect_unix(path),
        };
        let socket = match begun {
            Ok(socket) => socket,
            Err(error) => {
                self.tell(Err(error.into()));
                return;
            }
        };
        // The wait holds this until it is decided, whether or not somebody has the handle.
        let this = self.clone();
        let waited =
            self.event_loop.wait_of((HolderKind::Socket, self.created), &socket, Interest::WRITABLE, move |_, _| {
                this.on_writable()
            });
        match waited {
            Ok(wait) => {
                *self.wait.borrow_mut() = Some(wait);
                *self.socket.borrow_mut() = Some(socket);
            }
            Err(refused) => {
                self.tell(Err(refused.reason().into()));
            }
        }
    }

    fn on_writable(self: &Rc<Self>) {
        drop(self.wait.take());
        let Some(socket) = self.socket.take() else { return };
        let outcome = match socket.take_error() {
            Ok(()) => {
                let local = socket.local_address().map_or_else(|| Address::Unix("".into()), Address::Tcp);
                let addresses = (local, self.to.clone());
                Ok(Connection::open(&self.event_loop, socket, addresses, &self.options, None, self.created))
            }
            Err(error) => Err(error.into()),
        };
        self.tell(outcome);
    }

    /// Decides what is told. `false`: that was decided before.
    fn tell(&self, outcome: Result<Connection, NetError>) -> bool {
        let Some(connected) = self.connected.take() else { return false };
        let (wait, limit) = (self.wait.take(), self.limit.take());
        drop((wait, limit));
        drop(self.socket.take());
        if let Some(key) = self.key.take() {
            self.event_loop.leave_net(key);
        }
        self.event_loop.defer("connect", move |event_loop| connected(event_loop, outcome));
        true
    }
}

impl Member for Inner {
    fn on_stage(self: Rc<Self>, stage: Stage) {
        if stage != Stage::Begin {
            self.tell(Err(NetError::Canceled));
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

impl fmt::Debug for Connecting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_pending() { "on its way" } else { "decided" };
        write!(f, "Connecting({}, {state})", self.inner.to)
    }
}
