//! [`Stack`]: packets in, packets out.
//!
//! The stack knows no descriptors and no clock: it is given a wire and the time, does a bounded amount of work, and says when
//! it wants to be called again. So a test can put two of them on one wire, and give the time it likes.

use std::io;

use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress};

use crate::config::Settings;
use crate::echo::Echo;
use crate::wire::{Buffers, Port, Wire};

/// How many packets are taken in one turn.
const BATCH: usize = 64;

/// What becomes of the stack after a turn.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// More may be there: call again, when others have had their turn.
    Again,
    /// Call when a packet comes, or after this time if one is given.
    Wait(Option<Duration>),
}

/// An end of the network.
pub(crate) struct Stack {
    interface: Interface,
    sockets: SocketSet<'static>,
    echo: Echo,
    buffers: Buffers,
}

impl Stack {
    /// A stack with the addresses of the settings. `seed` makes what should not be guessed hard to guess.
    pub(crate) fn new<W: Wire>(settings: &Settings, wire: &W, seed: u64, now: Instant) -> Self {
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut buffers = Buffers::new(settings.mtu);
        let mut interface = Interface::new(config, &mut Port { wire, buffers: &mut buffers }, now);
        interface.update_ip_addrs(|addresses| {
            for address in &settings.addresses {
                // The check of the settings has kept to what there is room for.
                let _ = addresses.push(*address);
            }
        });
        // There is one way out, whoever the packet is for. The gateway is never looked up, as nothing is beside it there.
        for address in &settings.addresses {
            let routes = interface.routes_mut();
            // One for each of both is what there is room for; a second one takes the place of the first.
            let _ = match address.address() {
                IpAddress::Ipv4(gateway) => routes.add_default_ipv4_route(gateway),
                IpAddress::Ipv6(gateway) => routes.add_default_ipv6_route(gateway),
            };
        }
        let mut sockets = SocketSet::new(Vec::new());
        let echo = Echo::new(settings.echo_port, settings.connections, &mut sockets);
        Self { interface, sockets, echo, buffers }
    }

    /// Takes some packets, answers them, and moves the connections on.
    ///
    /// # Errors
    /// What the wire died of.
    pub(crate) fn turn<W: Wire>(&mut self, wire: &W, now: Instant) -> io::Result<Next> {
        self.buffers.allowed = BATCH;
        // First, so that a socket listens before its first packet is taken.
        self.echo.turn(&mut self.sockets);
        self.poll(wire, now);
        if self.echo.turn(&mut self.sockets) {
            self.poll(wire, now);
            self.echo.turn(&mut self.sockets);
        }
        if let Some(error) = self.buffers.end.take() {
            return Err(error);
        }
        if self.buffers.allowed == 0 {
            return Ok(Next::Again);
        }
        match self.interface.poll_delay(now, &self.sockets) {
            Some(Duration::ZERO) => Ok(Next::Again),
            delay => Ok(Next::Wait(delay)),
        }
    }

    /// Ends every connection, and tells the peers.
    pub(crate) fn reset<W: Wire>(&mut self, wire: &W, now: Instant) {
        self.echo.reset(&mut self.sockets);
        // Only what is to be sent.
        self.buffers.allowed = 0;
        self.poll(wire, now);
    }

    /// How many connections there are.
    pub(crate) fn connections(&self) -> usize {
        self.echo.connections(&self.sockets)
    }

    /// How many packets did not go out so far.
    pub(crate) fn lost(&self) -> u64 {
        self.buffers.lost
    }

    fn poll<W: Wire>(&mut self, wire: &W, now: Instant) {
        let Self { interface, sockets, buffers, .. } = self;
        interface.poll(now, &mut Port { wire, buffers }, sockets);
    }
}

#[cfg(test)]
#[path = "stack_tests.rs"]
mod tests;
