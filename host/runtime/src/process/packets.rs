//! A socket on which packets keep their bounds and their order, with descriptors: `AF_UNIX`, `SOCK_SEQPACKET`.
//!
//! Nothing here waits: what cannot be done at once is `None`.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::packet::MAX_HANDLES;

/// Two connected sockets, of which neither is inherited by other programs.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// What became of a packet that was to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Yes,
    /// The socket is full.
    Later,
    /// Nobody is there any more.
    Gone,
}

/// What a receive has found.
#[derive(Debug)]
pub(crate) enum Received {
    /// So many bytes, and these descriptors.
    Packet(usize, Vec<OwnedFd>),
    Nothing,
    /// Nobody is there any more, and all was read that was sent before.
    End,
}

/// One end.
#[derive(Debug)]
pub(crate) struct Packets(OwnedFd);

impl Packets {
    pub(crate) fn new(socket: OwnedFd) -> Packets {
        Packets(socket)
    }

    /// Sends one packet of two parts, which are not both empty.
    pub(crate) fn send(&self, head: &[u8], bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<Sent> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_HANDLES))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let slices = [IoSlice::new(head), IoSlice::new(bytes)];
        loop {
            return match sendmsg(&self.0, &slices, &mut control, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(_) => Ok(Sent::Yes),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => Ok(Sent::Later),
                Err(Errno::PIPE | Errno::CONNRESET | Errno::CONNREFUSED | Errno::NOTCONN) => Ok(Sent::Gone),
                Err(error) => Err(error.into()),
            };
        }
    }

    /// Receives one packet.
    ///
    /// # Errors
    /// What the system said; a packet that does not fit, or whose descriptors this process cannot take.
    pub(crate) fn receive(&self, into: &mut [u8]) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_HANDLES))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = loop {
            let mut slices = [IoSliceMut::new(into)];
            match recvmsg(&self.0, &mut slices, &mut control, RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC) {
                Ok(got) => break got,
                // Told once, if the other side has closed with packets of ours unread. What it has sent is there still.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                Err(error) => return Err(error.into()),
            }
        };
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        if got.flags.contains(ReturnFlags::CTRUNC) {
            let why = "descriptors were lost, as this process has as many as it may (see `ulimit -n`)";
            return Err(io::Error::other(why));
        }
        if got.flags.contains(ReturnFlags::TRUNC) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet is longer than any may be"));
        }
        Ok(if got.bytes == 0 { Received::End } else { Received::Packet(got.bytes, descriptors) })
    }
}

impl AsFd for Packets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
