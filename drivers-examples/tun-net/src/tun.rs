//! [`Tun`]: a TUN interface of the system.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use fuchsine_driver::Status;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::wire::Wire;

/// The interface could not be had; the text says what to do where there is something to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TunError {
    #[error(
        "there is no /dev/net/tun here, so no TUN interface: load the kernel's module `tun`, or give the container the device"
    )]
    NoTun,
    #[error(
        "the interface `{name}` may not be held: run the host with CAP_NET_ADMIN, or make the interface for its user: \
         `ip tuntap add dev {name} mode tun user USER`"
    )]
    NotAllowed { name: String },
    #[error("the interface `{name}` is held by somebody else")]
    Held { name: String },
    #[error("the interface `{name}` is there and is no TUN interface: name another in `interface`")]
    NoTunInterface { name: String },
    #[error("the interface `{name}` cannot be held: {source}")]
    Failed { name: String, source: io::Error },
}

impl TunError {
    /// The condition behind it.
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::NoTun => Status::NotFound,
            Self::NotAllowed { .. } => Status::AccessDenied,
            Self::Held { .. } => Status::AlreadyBound,
            Self::NoTunInterface { .. } => Status::WrongType,
            Self::Failed { source, .. } => Status::from(source),
        }
    }

    fn new(name: &str, source: io::Error) -> Self {
        let name = name.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NoTun,
            io::ErrorKind::PermissionDenied => Self::NotAllowed { name },
            io::ErrorKind::ResourceBusy => Self::Held { name },
            io::ErrorKind::InvalidInput => Self::NoTunInterface { name },
            _ => Self::Failed { name, source },
        }
    }
}

/// The interface, held until this is dropped.
pub(crate) struct Tun {
    device: SyncDevice,
}

impl Tun {
    /// Holds the interface of this name, which is made if there is none. Its addresses, and whether it is up, are the
    /// system's affair. May block.
    ///
    /// # Errors
    /// [`TunError`].
    pub(crate) fn hold(name: &str) -> Result<Self, TunError> {
        let builder = DeviceBuilder::new().name(name).layer(Layer::L3).inherit_enable_state();
        let device = builder.build_sync().map_err(|source| TunError::new(name, source))?;
        device.set_nonblocking(true).map_err(|source| TunError::new(name, source))?;
        Ok(Self { device })
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl Wire for Tun {
    fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        self.device.recv(into)
    }

    fn send(&self, packet: &[u8]) -> io::Result<()> {
        self.device.send(packet).map(drop)
    }
}
