//! [`Net`]: a network in memory, in which listeners are found by name; [`Listener`]: one of its names.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;

use crate::site::Site;
use crate::sync::{Arc, Mutex};
use crate::sys::Readiness;
use crate::sys::sim::{Object, Stream, would_block};

/// Ports that are given to those who ask for port 0, and to the near ends of connections.
const FIRST_FREE_PORT: u16 = 49_152;
const DEFAULT_BACKLOG: usize = 128;
const DEFAULT_CAPACITY: usize = 64 * 1024;

/// A network in memory. Names are plain text, such as `127.0.0.1:10809` or `unix:/run/x`; a name that ends in `:0`
/// gets a free port. Clones are handles to the same network.
#[derive(Clone)]
pub struct Net {
    shared: Arc<Mutex<State>>,
}

struct State {
    listeners: BTreeMap<String, Arc<Queue>>,
    next_port: u16,
    capacity: usize,
    backlog: usize,
}

impl State {
    fn free_port(&mut self) -> u16 {
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(FIRST_FREE_PORT);
        port
    }
}

/// Connections that nobody has accepted yet.
struct Queue {
    waiting: Mutex<VecDeque<Stream>>,
    object: Arc<Object>,
}

impl Queue {
    fn new(location: Site) -> Arc<Queue> {
        Arc::new_cyclic(|this: &crate::sync::Weak<Queue>| {
            let this = this.clone();
            let object = Object::new(location, move || {
                let filled = this.upgrade().is_some_and(|queue| !queue.waiting.lock().is_empty());
                if filled { Readiness::READABLE } else { Readiness::EMPTY }
            });
            Queue { waiting: Mutex::new(VecDeque::new()), object }
        })
    }
}

impl Net {
    /// An empty network, whose streams hold 64 KiB in each direction.
    pub fn new() -> Self {
        let state = State {
            listeners: BTreeMap::new(),
            next_port: FIRST_FREE_PORT,
            capacity: DEFAULT_CAPACITY,
            backlog: DEFAULT_BACKLOG,
        };
        Net { shared: Arc::new(Mutex::new(state)) }
    }

    /// Sets how many bytes each direction of a stream holds, for connections that are made from now on.
    ///
    /// # Panics
    /// On zero: nothing could ever be written.
    pub fn set_stream_capacity(&self, bytes: usize) {
        assert!(bytes > 0, "a stream must hold at least one byte");
        self.shared.lock().capacity = bytes;
    }

    /// Sets how many connections wait to be accepted before further ones are refused.
    pub fn set_backlog(&self, connections: usize) {
        self.shared.lock().backlog = connections;
    }

    /// Listens under a name.
    ///
    /// # Errors
    /// `AddrInUse` when somebody listens there already.
    #[track_caller]
    pub fn listen(&self, addr: &str) -> io::Result<Listener> {
        self.listen_from(Site::caller(), addr)
    }

    /// As [`listen`](Net::listen), for code of others: the descriptor counts as made at `site`.
    ///
    /// # Errors
    /// As [`listen`](Net::listen).
    pub fn listen_from(&self, site: Site, addr: &str) -> io::Result<Listener> {
        let queue = Queue::new(site);
        let mut state = self.shared.lock();
        let addr = match addr.strip_suffix(":0") {
            Some(host) => loop {
                let name = format!("{host}:{}", state.free_port());
                if !state.listeners.contains_key(&name) {
                    break name;
                }
            },
            None => addr.to_owned(),
        };
        if state.listeners.contains_key(&addr) {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, format!("somebody listens at {addr} already")));
        }
        state.listeners.insert(addr.clone(), queue.clone());
        drop(state);
        Ok(Listener { net: self.clone(), addr, queue })
    }

    /// Connects to a listener. The connection stands at once and waits in the listener's queue.
    ///
    /// # Errors
    /// `ConnectionRefused` when nobody listens there, or when its queue is full.
    #[track_caller]
    pub fn connect(&self, addr: &str) -> io::Result<Stream> {
        self.connect_from(Site::caller(), addr)
    }

    /// As [`connect`](Net::connect), for code of others: both descriptors count as made at `site`.
    ///
    /// # Errors
    /// As [`connect`](Net::connect).
    pub fn connect_from(&self, site: Site, addr: &str) -> io::Result<Stream> {
        let refused = |why| io::Error::new(io::ErrorKind::ConnectionRefused, format!("{why} {addr}"));
        let (queue, near, capacity, backlog) = {
            let mut state = self.shared.lock();
            let queue = state.listeners.get(addr).cloned().ok_or_else(|| refused("nobody listens at"))?;
            let near = format!("127.0.0.1:{}", state.free_port());
            (queue, near, state.capacity, state.backlog)
        };
        let (client, server) = Stream::pair(site, capacity, &near, addr);
        {
            let mut waiting = queue.waiting.lock();
            if waiting.len() >= backlog {
                drop(waiting);
                return Err(refused("too many connections wait at"));
            }
            waiting.push_back(server);
        }
        queue.object.changed();
        Ok(client)
    }
}

impl Default for Net {
    fn default() -> Self {
        Net::new()
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.shared.lock().listeners.keys()).finish()
    }
}

/// A name in a [`Net`] under which connections arrive. Dropping it gives the name up and closes what was not accepted.
pub struct Listener {
    net: Net,
    addr: String,
    queue: Arc<Queue>,
}

impl Listener {
    /// Takes the connection that has waited longest.
    ///
    /// # Errors
    /// `WouldBlock` when none waits.
    pub fn accept(&self) -> io::Result<Stream> {
        self.queue.waiting.lock().pop_front().ok_or_else(|| would_block("nobody has connected yet"))
    }

    /// The name, with its real port.
    pub fn local_addr(&self) -> &str {
        &self.addr
    }

    /// What to wait on.
    pub fn object(&self) -> &Arc<Object> {
        &self.queue.object
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.net.shared.lock().listeners.remove(&self.addr);
        // A stream that closes tells those who watch it, so it must do so with no lock held.
        let left = std::mem::take(&mut *self.queue.waiting.lock());
        drop(left);
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listener({})", self.addr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_accepted_in_the_order_of_connecting() {
        let net = Net::new();
        let listener = net.listen("127.0.0.1:0").unwrap();
        assert!(!listener.local_addr().ends_with(":0"));
        let clients: Vec<_> = (0..3).map(|_| net.connect(listener.local_addr()).unwrap()).collect();
        for client in &clients {
            assert_eq!(listener.accept().unwrap().peer_addr(), client.local_addr());
        }
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_name_is_taken_until_its_listener_is_dropped() {
        let net = Net::new();
        let listener = net.listen("unix:/x").unwrap();
        assert_eq!(net.listen("unix:/x").unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let client = net.connect("unix:/x").unwrap();
        drop(listener);
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0, "what was not accepted is closed");
        assert_eq!(net.connect("unix:/x").unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        net.listen("unix:/x").unwrap();
    }

    #[test]
    fn a_full_queue_refuses() {
        let net = Net::new();
        net.set_backlog(1);
        let listener = net.listen("127.0.0.1:7").unwrap();
        let _first = net.connect("127.0.0.1:7").unwrap();
        assert_eq!(net.connect("127.0.0.1:7").unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        listener.accept().unwrap();
        net.connect("127.0.0.1:7").unwrap();
    }
}
