//! The shared vocabulary of outcomes: [`Status`] and [`Canceled`].
//!
//! The numbers are those of Zircon, so that a status means the same to a C driver; the names are Rust's. `OK` is
//! no variant: an operation that succeeds returns `Ok`.

use std::fmt;
use std::io;

/// Why an operation did not succeed. One enum for the whole workspace; the discriminants are Zircon's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(i32)]
pub enum Status {
    /// A failure that no other code describes.
    Internal = -1,
    /// The operation, or this combination of options, is not offered.
    NotSupported = -2,
    /// A limit is reached: threads, handles, descriptors.
    NoResources = -3,
    /// Memory could not be had.
    NoMemory = -4,
    /// An argument is wrong, or there is no current driver where one is needed.
    InvalidArgs = -10,
    /// A handle does not name a live object.
    BadHandle = -11,
    /// The object is of another kind than the operation needs.
    WrongType = -12,
    /// A value lies outside its limits.
    OutOfRange = -14,
    /// The buffer cannot hold what is to be stored in it.
    BufferTooSmall = -15,
    /// The object is not in a state that allows this: shutting down, already waiting, wrong thread.
    BadState = -20,
    /// The deadline passed first.
    TimedOut = -21,
    /// Nothing is there yet (or there is no room yet); try again when told.
    ShouldWait = -22,
    /// The operation was canceled, by request or by shutdown.
    Canceled = -23,
    /// The other end is gone.
    PeerClosed = -24,
    /// There is no such thing.
    NotFound = -25,
    /// There is one already.
    AlreadyExists = -26,
    /// The name or object is already bound.
    AlreadyBound = -27,
    /// Not offered at this moment, such as a read on a dispatcher that is shutting down.
    Unavailable = -28,
    /// Not permitted.
    AccessDenied = -30,
    /// Input or output failed.
    Io = -40,
    /// The device refused the operation.
    IoRefused = -41,
    /// Data did not survive a check of its integrity.
    IoDataIntegrity = -42,
    /// Data is lost.
    IoDataLoss = -43,
    /// The device is gone.
    IoNotPresent = -44,
    /// More data arrived than there was room for.
    IoOverrun = -45,
    /// An operation came too late for the device.
    IoMissedDeadline = -46,
    /// The device was given something that makes no sense.
    IoInvalid = -47,
    /// A path is malformed.
    BadPath = -50,
    /// A folder was expected.
    NotDir = -51,
    /// A file was expected.
    NotFile = -52,
    /// The file would become too big.
    FileBig = -53,
    /// There is no space left.
    NoSpace = -54,
    /// The folder holds something.
    NotEmpty = -55,
    /// The protocol is not spoken here.
    ProtocolNotSupported = -70,
    /// The address cannot be reached.
    AddressUnreachable = -71,
    /// The address is in use.
    AddressInUse = -72,
    /// There is no connection.
    NotConnected = -73,
    /// The peer refused the connection.
    ConnectionRefused = -74,
    /// The peer reset the connection.
    ConnectionReset = -75,
    /// The connection was aborted.
    ConnectionAborted = -76,
}

impl Status {
    /// Every status, in the order of declaration.
    pub const ALL: &[Status] = &[
        Status::Internal,
        Status::NotSupported,
        Status::NoResources,
        Status::NoMemory,
        Status::InvalidArgs,
        Status::BadHandle,
        Status::WrongType,
        Status::OutOfRange,
        Status::BufferTooSmall,
        Status::BadState,
        Status::TimedOut,
        Status::ShouldWait,
        Status::Canceled,
        Status::PeerClosed,
        Status::NotFound,
        Status::AlreadyExists,
        Status::AlreadyBound,
        Status::Unavailable,
        Status::AccessDenied,
        Status::Io,
        Status::IoRefused,
        Status::IoDataIntegrity,
        Status::IoDataLoss,
        Status::IoNotPresent,
        Status::IoOverrun,
        Status::IoMissedDeadline,
        Status::IoInvalid,
        Status::BadPath,
        Status::NotDir,
        Status::NotFile,
        Status::FileBig,
        Status::NoSpace,
        Status::NotEmpty,
        Status::ProtocolNotSupported,
        Status::AddressUnreachable,
        Status::AddressInUse,
        Status::NotConnected,
        Status::ConnectionRefused,
        Status::ConnectionReset,
        Status::ConnectionAborted,
    ];

    /// The Zircon number, always negative.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::Status;
    /// assert_eq!(Status::Canceled.as_raw(), -23);
    /// ```
    pub const fn as_raw(self) -> i32 {
        self as i32
    }

    /// The status with this Zircon number; [`Status::Internal`] for a negative number without a name here.
    ///
    /// # Errors
    /// None. A number that is zero or positive means success and gives `Ok(())`.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::Status;
    /// assert_eq!(Status::result_of(0), Ok(()));
    /// assert_eq!(Status::result_of(-20), Err(Status::BadState));
    /// ```
    pub fn result_of(raw: i32) -> Result<(), Status> {
        if raw >= 0 {
            return Ok(());
        }
        Err(Self::ALL.iter().copied().find(|status| status.as_raw() == raw).unwrap_or(Status::Internal))
    }

    const fn text(self) -> &'static str {
        match self {
            Status::Internal => "internal error",
            Status::NotSupported => "not supported",
            Status::NoResources => "no resources left",
            Status::NoMemory => "out of memory",
            Status::InvalidArgs => "invalid argument",
            Status::BadHandle => "bad handle",
            Status::WrongType => "wrong type",
            Status::OutOfRange => "out of range",
            Status::BufferTooSmall => "buffer too small",
            Status::BadState => "bad state",
            Status::TimedOut => "timed out",
            Status::ShouldWait => "should wait",
            Status::Canceled => "canceled",
            Status::PeerClosed => "peer closed",
            Status::NotFound => "not found",
            Status::AlreadyExists => "already exists",
            Status::AlreadyBound => "already bound",
            Status::Unavailable => "unavailable",
            Status::AccessDenied => "access denied",
            Status::Io => "input/output error",
            Status::IoRefused => "refused by the device",
            Status::IoDataIntegrity => "data integrity check failed",
            Status::IoDataLoss => "data lost",
            Status::IoNotPresent => "device not present",
            Status::IoOverrun => "overrun",
            Status::IoMissedDeadline => "deadline missed",
            Status::IoInvalid => "invalid input/output",
            Status::BadPath => "bad path",
            Status::NotDir => "not a folder",
            Status::NotFile => "not a file",
            Status::FileBig => "file too big",
            Status::NoSpace => "no space left",
            Status::NotEmpty => "not empty",
            Status::ProtocolNotSupported => "protocol not supported",
            Status::AddressUnreachable => "address unreachable",
            Status::AddressInUse => "address in use",
            Status::NotConnected => "not connected",
            Status::ConnectionRefused => "connection refused",
            Status::ConnectionReset => "connection reset",
            Status::ConnectionAborted => "connection aborted",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Status {}

impl From<&io::Error> for Status {
    fn from(error: &io::Error) -> Self {
        use io::ErrorKind as K;
        match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE) => return Status::NoResources,
            Some(rustix::io::Errno::BADF) => return Status::BadHandle,
            Some(rustix::io::Errno::NODEV | rustix::io::Errno::NXIO) => return Status::IoNotPresent,
            _ => {}
        }
        match error.kind() {
            K::NotFound => Status::NotFound,
            K::PermissionDenied => Status::AccessDenied,
            K::ConnectionRefused => Status::ConnectionRefused,
            K::ConnectionReset => Status::ConnectionReset,
            K::ConnectionAborted => Status::ConnectionAborted,
            K::NotConnected => Status::NotConnected,
            K::AddrInUse => Status::AddressInUse,
            K::AddrNotAvailable | K::HostUnreachable | K::NetworkUnreachable => Status::AddressUnreachable,
            K::BrokenPipe | K::UnexpectedEof => Status::PeerClosed,
            K::AlreadyExists => Status::AlreadyExists,
            K::WouldBlock => Status::ShouldWait,
            K::InvalidInput => Status::InvalidArgs,
            K::InvalidData => Status::IoDataIntegrity,
            K::TimedOut => Status::TimedOut,
            K::StorageFull | K::QuotaExceeded => Status::NoSpace,
            K::FileTooLarge => Status::FileBig,
            K::NotADirectory => Status::NotDir,
            K::IsADirectory => Status::NotFile,
            K::DirectoryNotEmpty => Status::NotEmpty,
            K::OutOfMemory => Status::NoMemory,
            K::Unsupported => Status::NotSupported,
            K::ResourceBusy => Status::Unavailable,
            _ => Status::Io,
        }
    }
}

impl From<io::Error> for Status {
    fn from(error: io::Error) -> Self {
        Status::from(&error)
    }
}

/// What a posted task is told when it is not going to run: its dispatcher shuts down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Canceled;

impl fmt::Display for Canceled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Status::Canceled.fmt(f)
    }
}

impl std::error::Error for Canceled {}

impl From<Canceled> for Status {
    fn from(Canceled: Canceled) -> Self {
        Status::Canceled
    }
}

/// What all errors have in common that carry what was handed in, in a field `given`, and know their `status`: it can be
/// taken out, `Debug` shows the status alone, and the error becomes its status.
#[cfg(not(loom))]
macro_rules! gives_back {
    ($error:ident) => {
        impl<F> $error<F> {
            /// What was handed in, unused.
            pub fn into_inner(self) -> F {
                self.given
            }

            /// Drops what was handed in and keeps the status.
            pub fn into_status(self) -> $crate::status::Status {
                self.status()
            }
        }

        impl<F> std::fmt::Debug for $error<F> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($error)).field(&self.status()).finish()
            }
        }

        impl<F> std::error::Error for $error<F> {}

        impl<F> From<$error<F>> for $crate::status::Status {
            fn from(error: $error<F>) -> Self {
                error.status()
            }
        }
    };
}
#[cfg(not(loom))]
pub(crate) use gives_back;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_survives_the_way_through_its_number() {
        for &status in Status::ALL {
            assert_eq!(Status::result_of(status.as_raw()), Err(status));
        }
        assert_eq!(Status::result_of(-9999), Err(Status::Internal));
    }
}
