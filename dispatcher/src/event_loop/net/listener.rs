//! [`Listener`]: accepts connections on loop 0 and hands each to one loop for life.
//!
//! 1. When the socket is readable, the listener accepts a bounded number of connections and lets the loop go on.
//! 2. Each goes to the loop that has the fewest of this listener's connections (in turn among equals), as an
//!    asynchronous callback, and is opened there.
//! 3. If the process or the system has no descriptor left, or the listener has as many connections as it may have, it
//!    pauses: it waits for a while, not on the socket, which would be ready all the time. Meanwhile the kernel keeps who
//!    wants to connect in its queue.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::panic::Location;
use std::rc::{Rc, Weak};
use std::time::Duration;

use crate::event_loop::event_loop::EventLoop;
use crate::event_loop::handle::LoopHandle;
use crate::event_loop::net::address::Address;
use crate::event_loop::net::connection::{Connection, ConnectionOptions};
use crate::event_loop::net::error::{NetError, NetRefused};
use crate::event_loop::net::table::{Member, Stage};
use crate::event_loop::slots::Key;
use crate::event_loop::source::Interest;
use crate::event_loop::summary::HolderKind;
use crate::event_loop::timer::Timer;
use crate::event_loop::wait::Wait;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sys::socket::{Acceptor, Socket, is_out_of_resources};

/// How many connections one look at the socket accepts at most.
const ACCEPTS: usize = 64;
/// How long a pause is.
const PAUSE: Duration = Duration::from_millis(50);

/// Which loops the connections of a listener go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Spread {
    /// All loops of the manager, each connection to the one that has the fewest.
    #[default]
    AllLoops,
    /// All loops but the listener's own, unless it is the only one.
    OtherLoops,
    /// The listener's own loop.
    OwnLoop,
}

/// How a listener begins.
#[derive(Debug, Clone)]
#[must_use = "options do nothing by themselves"]
pub struct ListenOptions {
    spread: Spread,
    max_connections: usize,
    backlog: u32,
    each: ConnectionOptions,
}

impl ListenOptions {
    /// Connections go to all loops, any number of them, with the options that a connection begins with by default; 1024
    /// may wait to be accepted.
    pub fn new() -> Self {
        let each = ConnectionOptions::new();
        ListenOptions { spread: Spread::default(), max_connections: usize::MAX, backlog: 1024, each }
    }

    /// Which loops the connections go to.
    pub fn spread(mut self, spread: Spread) -> Self {
        self.spread = spread;
        self
    }

    /// How many connections may be open at a time. With so many the listener pauses until one has closed.
    pub fn max_connections(mut self, most: usize) -> Self {
        self.max_connections = most;
        self
    }

    /// How many connections may wait in the kernel to be accepted, as far as the system allows.
    pub fn backlog(mut self, connections: u32) -> Self {
        self.backlog = connections;
        self
    }

    /// How each connection begins.
    pub fn connections(mut self, options: ConnectionOptions) -> Self {
        self.each = options;
        self
    }
}

impl Default for ListenOptions {
    fn default() -> Self {
        ListenOptions::new()
    }
}

/// What a listener has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ListenerCounters {
    /// Connections that were accepted.
    pub accepted: u64,
    /// How many of them are open, or on their way to their loop.
    pub open: usize,
    /// How many times it paused because of a limit.
    pub pauses: u64,
}

/// A place among the connections of a loop, given up when dropped, on whichever thread.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        // Relaxed: a count, which publishes nothing.
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A loop that connections go to, and how many it has.
struct Target {
    handle: LoopHandle,
    open: Arc<AtomicUsize>,
}

type Accepted = dyn Fn(&EventLoop, Connection) + Send + Sync;

struct Inner {
    event_loop: EventLoop,
    acceptor: RefCell<Option<Acceptor>>,
    address: Address,
    options: ListenOptions,
    accepted: Arc<Accepted>,
    targets: Vec<Target>,
    /// Where the search for the next target begins.
    turn: Cell<usize>,
    wait: RefCell<Option<Wait>>,
    pause: RefCell<Option<Timer>>,
    counters: Cell<ListenerCounters>,
    key: Cell<Option<Key>>,
    created: &'static Location<'static>,
}

/// Accepts connections. Dropping it closes it; connections that it accepted go on.
///
/// # Thread requirements
/// It stays on its loop's thread, which its type makes sure of:
/// ```compile_fail,E0277
/// use fuchsine_dispatcher::event_loop::net::Listener;
/// fn to_another_thread(listener: Listener) {
///     std::thread::spawn(move || drop(listener));
/// }
/// ```
#[must_use = "dropping a listener closes it; `detach` leaves it to its loop"]
pub struct Listener {
    inner: Rc<Inner>,
}

impl EventLoop {
    /// Listens on `address` and calls `accepted` for each connection, on the loop to which the connection belongs from
    /// then on.
    ///
    /// A connection that comes after its loop has told everybody to stop is closed instead.
    ///
    /// # Errors
    /// [`NetRefused`] with the callback in it: [`NetError::NotMainLoop`] on other loops than number 0 of a manager,
    /// [`NetError::LoopEnded`] once a shutdown has begun, and what the operating system says of the address.
    ///
    /// # Thread requirements
    /// Loop 0 of a manager.
    ///
    /// # Examples
    /// See [`Connection`].
    #[track_caller]
    pub fn listen<F>(&self, address: &Address, options: ListenOptions, accepted: F) -> Result<Listener, NetRefused<F>>
    where
        F: Fn(&EventLoop, Connection) + Send + Sync + 'static,
    {
        let created = Location::caller();
        let Some(manager) = self.manager().filter(|_| self.tid() == Some(0)) else {
            return Err(NetRefused::new(NetError::NotMainLoop, accepted));
        };
        if self.is_shutting_down() {
            return Err(NetRefused::new(NetError::LoopEnded, accepted));
        }
        let bound = match address {
            Address::Tcp(address) => Acceptor::tcp(*address),
            Address::Unix(path) => Acceptor::unix(path),
        };
        let acceptor = match bound.and_then(|acceptor| acceptor.set_backlog(options.backlog).map(|()| acceptor)) {
            Ok(acceptor) => acceptor,
            Err(error) => return Err(NetRefused::new(error, accepted)),
        };
        let all = (0..manager.len()).filter_map(|tid| manager.event_loop(tid));
        let targets = all
            .filter(|handle| match options.spread {
                Spread::AllLoops => true,
                Spread::OtherLoops => manager.len() == 1 || !handle.is_current(),
                Spread::OwnLoop => handle.is_current(),
            })
            .map(|handle| Target { handle, open: Arc::default() })
            .collect();
        let address = acceptor.local_address().map_or_else(|| address.clone(), Address::Tcp);
        let inner = Rc::new(Inner {
            event_loop: self.clone(),
            acceptor: RefCell::new(Some(acceptor)),
            address,
            options,
            accepted: Arc::new(accepted),
            targets,
            turn: Cell::new(0),
            wait: RefCell::new(None),
            pause: RefCell::new(None),
            counters: Cell::default(),
            key: Cell::new(None),
            created,
        });
        let member: Weak<dyn Member> = Rc::downgrade(&(inner.clone() as Rc<dyn Member>));
        inner.key.set(Some(self.enter_net(member)));
        inner.resume();
        Ok(Listener { inner })
    }
}

impl Listener {
    /// The address that was bound: with the port that the operating system chose, if it was asked to.
    pub fn local_address(&self) -> &Address {
        &self.inner.address
    }

    /// What it has done so far.
    pub fn counters(&self) -> ListenerCounters {
        ListenerCounters { open: self.inner.open(), ..self.inner.counters.get() }
    }

    /// Leaves the listener to its loop, until that shuts down.
    pub fn detach(self) {
        self.inner.event_loop.keep_until_shutdown(self.inner.clone());
    }
}

impl Inner {
    fn open(&self) -> usize {
        self.targets.iter().map(|target| target.open.load(Ordering::Relaxed)).sum()
    }

    fn count(&self, change: impl FnOnce(&mut ListenerCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// Waits on the socket (again).
    fn resume(self: &Rc<Self>) {
        drop(self.pause.take());
        let this = Rc::downgrade(self);
        let waited = match &*self.acceptor.borrow() {
            Some(acceptor) => self.event_loop.wait_of(
                (HolderKind::Socket, self.created),
                acceptor,
                Interest::READABLE,
                move |_, _| {
                    if let Some(inner) = this.upgrade() {
                        inner.accept();
                    }
                },
            ),
            None => return,
        };
        match waited {
            Ok(wait) => *self.wait.borrow_mut() = Some(wait),
            Err(refused) => self.pause(&io::Error::other(refused.reason().to_string())),
        }
    }

    fn accept(self: &Rc<Self>) {
        for _ in 0..ACCEPTS {
            if self.open() >= self.options.max_connections {
                return self.pause(&io::Error::other("as many connections are open as it may have"));
            }
            let accepted = match &*self.acceptor.borrow() {
                Some(acceptor) => acceptor.accept(),
                None => return,
            };
            match accepted {
                Ok((socket, peer)) => {
                    self.hand_over(socket, peer.map_or_else(|| Address::Unix("".into()), Address::Tcp))
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_out_of_resources(&error) => return self.pause(&error),
                // The client has given up meanwhile, or a firewall has come in between: on to the next.
                Err(error) => tracing::debug!(%error, address = %self.address, "a connection was not accepted"),
            }
        }
    }

    fn pause(self: &Rc<Self>, why: &io::Error) {
        self.count(|counters| counters.pauses += 1);
        tracing::debug!(%why, address = %self.address, "a listener pauses");
        drop(self.wait.take());
        let this = Rc::downgrade(self);
        let timer = self.event_loop.timer(move |_, _| {
            if let Some(inner) = this.upgrade() {
                inner.resume();
            }
        });
        // Refused only when the loop ends, and then there is nothing to resume.
        let _ = timer.once(PAUSE);
        drop(self.pause.replace(Some(timer)));
    }

    fn hand_over(&self, socket: Socket, peer: Address) {
        self.count(|counters| counters.accepted += 1);
        let local = socket.local_address().map_or_else(|| self.address.clone(), Address::Tcp);
        let target = self.next_target();
        target.open.fetch_add(1, Ordering::Relaxed);
        let place = Place(target.open.clone());
        let (options, accepted, created) = (self.options.each.clone(), self.accepted.clone(), self.created);
        let handed = target.handle.async_run(move |event_loop| {
            // Too late: nobody would be told of its end. It closes here.
            if event_loop.net_is_canceled() || !event_loop.accepts_arming() {
                return;
            }
            let addresses = (local, peer);
            let connection = Connection::open(event_loop, socket, addresses, &options, Some(place), created);
            accepted(event_loop, connection);
        });
        if handed.is_err() {
            tracing::debug!(to = ?target.handle, "a connection came too late for its loop and was closed");
        }
    }

    /// The loop with the fewest connections; in turn among equals.
    fn next_target(&self) -> &Target {
        let (count, first) = (self.targets.len(), self.turn.get());
        let in_turn = (0..count).map(|step| (first + step) % count);
        let fewest = in_turn.min_by_key(|&at| self.targets[at].open.load(Ordering::Relaxed)).unwrap_or(0);
        self.turn.set((fewest + 1) % count);
        &self.targets[fewest]
    }

    fn close(&self) {
        drop((self.wait.take(), self.pause.take()));
        drop(self.acceptor.take());
        if let Some(key) = self.key.take() {
            self.event_loop.leave_net(key);
        }
    }
}

impl Member for Inner {
    fn on_stage(self: Rc<Self>, _stage: Stage) {
        self.close();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener({}, {:?})", self.inner.address, self.counters())
    }
}
