//! [`Echo`]: connections whose bytes go back to where they come from.
//!
//! A socket of the stack is one connection at most, and one that listens takes the next. So there are as many as there may be
//! connections; when all are taken, a further one is refused by the stack.

use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp;
use smoltcp::time::Duration;

/// What a connection may hold each way.
const BUFFER: usize = 16 << 10;

/// How long a peer may be silent although something is on its way to it.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often one that has nothing to say is asked whether it is there.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// The connections.
pub(crate) struct Echo {
    port: u16,
    sockets: Vec<SocketHandle>,
    /// What is on its way from one buffer to the other.
    bytes: Box<[u8; 4096]>,
}

impl Echo {
    /// Sockets for so many connections, not yet listening.
    pub(crate) fn new(port: u16, connections: usize, set: &mut SocketSet<'static>) -> Self {
        let socket = || {
            let buffer = || tcp::SocketBuffer::new(vec![0; BUFFER]);
            let mut socket = tcp::Socket::new(buffer(), buffer());
            socket.set_timeout(Some(PATIENCE));
            socket.set_keep_alive(Some(KEEP_ALIVE));
            // What is echoed is answered at once, or it would wait for the peer's delayed acknowledgement.
            socket.set_nagle_enabled(false);
            socket
        };
        let sockets = (0..connections).map(|_| set.add(socket())).collect();
        Self { port, sockets, bytes: Box::new([0; 4096]) }
    }

    /// Moves what came to where it goes, and has sockets listen whose connection has ended. True when the stack has
    /// something to send after that.
    pub(crate) fn turn(&mut self, set: &mut SocketSet<'static>) -> bool {
        let mut moved = false;
        for handle in &self.sockets {
            let socket = set.get_mut::<tcp::Socket<'_>>(*handle);
            if !socket.is_open() {
                // It is closed and the port is not 0, which are the reasons for which it could be refused.
                let _ = socket.listen(self.port);
                continue;
            }
            moved |= echo(socket, &mut self.bytes[..]);
        }
        moved
    }

    /// Resets every connection; the stack tells the peers when it sends next.
    pub(crate) fn reset(&self, set: &mut SocketSet<'static>) {
        for handle in &self.sockets {
            set.get_mut::<tcp::Socket<'_>>(*handle).abort();
        }
    }

    /// How many connections there are.
    pub(crate) fn connections(&self, set: &SocketSet<'static>) -> usize {
        self.sockets.iter().filter(|handle| set.get::<tcp::Socket<'_>>(**handle).is_active()).count()
    }
}

fn echo(socket: &mut tcp::Socket<'_>, bytes: &mut [u8]) -> bool {
    let mut moved = false;
    while socket.can_recv() && socket.can_send() {
        let room = (socket.send_capacity() - socket.send_queue()).min(bytes.len());
        let Ok(count @ 1..) = socket.recv_slice(&mut bytes[..room]) else { break };
        // There is room for all of it.
        moved |= socket.send_slice(&bytes[..count]).is_ok();
    }
    // The peer has said all it has to say, and all of it is on its way back.
    if !socket.may_recv() && socket.may_send() && socket.recv_queue() == 0 {
        socket.close();
        moved = true;
    }
    moved
}
