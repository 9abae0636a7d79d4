//! [`Wire`]: what packets come from and go to; and the adapter by which the stack sees one.

use std::io;

use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

/// Something that carries IP packets, a whole one at a time, without waiting.
pub(crate) trait Wire {
    /// Takes a packet.
    ///
    /// # Errors
    /// `WouldBlock`: none is there. Anything else: none will come.
    fn receive(&self, into: &mut [u8]) -> io::Result<usize>;

    /// Sends a packet.
    ///
    /// # Errors
    /// It did not go out. That is for the protocols to find out, as with any packet that is lost.
    fn send(&self, packet: &[u8]) -> io::Result<()>;
}

/// Room for the longest packet there is, whatever the interface is set to.
const LONGEST: usize = 65535;

/// Buffers for one packet each way, and a count of how much was taken in one turn.
#[derive(Debug)]
pub(crate) struct Buffers {
    received: Vec<u8>,
    sent: Vec<u8>,
    mtu: usize,
    /// Packets that may still be taken in this turn.
    pub(crate) allowed: usize,
    /// Packets that did not go out.
    pub(crate) lost: u64,
    /// What the wire died of.
    pub(crate) end: Option<io::Error>,
}

impl Buffers {
    pub(crate) fn new(mtu: usize) -> Self {
        Self { received: vec![0; LONGEST], sent: vec![0; LONGEST], mtu, allowed: 0, lost: 0, end: None }
    }
}

/// A wire for the time of one turn.
pub(crate) struct Port<'a, W> {
    pub(crate) wire: &'a W,
    pub(crate) buffers: &'a mut Buffers,
}

pub(crate) struct Received<'a>(&'a [u8]);

pub(crate) struct Sending<'a, W> {
    wire: &'a W,
    buffer: &'a mut Vec<u8>,
    lost: &'a mut u64,
}

impl<W: Wire> Device for Port<'_, W> {
    type RxToken<'b>
        = Received<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Sending<'b, W>
    where
        Self: 'b;

    fn receive(&mut self, _now: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        let Buffers { received, sent, allowed, lost, end, .. } = &mut *self.buffers;
        *allowed = allowed.checked_sub(1)?;
        match self.wire.receive(received) {
            Ok(length) => Some((Received(&received[..length]), Sending { wire: self.wire, buffer: sent, lost })),
            Err(error) => {
                // What was allowed is left over, which tells that nothing more is there.
                *allowed += 1;
                if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) {
                    *end = Some(error);
                }
                None
            }
        }
    }

    fn transmit(&mut self, _now: Instant) -> Option<Self::TxToken<'_>> {
        let Buffers { sent, lost, .. } = &mut *self.buffers;
        Some(Sending { wire: self.wire, buffer: sent, lost })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.buffers.mtu;
        capabilities
    }
}

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl<W: Wire> TxToken for Sending<'_, W> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        // A reply to a ping is as long as the ping, which may have been put together from several packets.
        if self.buffer.len() < len {
            self.buffer.resize(len, 0);
        }
        let packet = &mut self.buffer[..len];
        let result = f(packet);
        if self.wire.send(packet).is_err() {
            *self.lost += 1;
        }
        result
    }
}
