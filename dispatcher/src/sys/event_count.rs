//! [`EventCount`]: a counter in the kernel that is readable while it is not zero: an eventfd on Linux, elsewhere a pair
//! of sockets with one byte for each signal.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A counter in the kernel.
#[derive(Debug)]
pub(crate) struct EventCount {
    #[cfg(target_os = "linux")]
    counter: rustix::fd::OwnedFd,
    #[cfg(not(target_os = "linux"))]
    ends: (std::os::unix::net::UnixStream, std::os::unix::net::UnixStream),
}

#[cfg(target_os = "linux")]
impl EventCount {
    /// A counter at zero.
    ///
    /// # Errors
    /// What the kernel says when it gives no further descriptor.
    pub(crate) fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        let counter = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(EventCount { counter })
    }

    /// Adds one. A counter that is full stays so: it is readable, which is all that is asked of it.
    pub(crate) fn signal(&self) {
        // The only other error is a counter that is full.
        let _ = rustix::io::write(&self.counter, &1u64.to_ne_bytes());
    }

    /// Takes the whole count and leaves zero.
    pub(crate) fn take(&self) -> u64 {
        let mut count = [0; 8];
        match rustix::io::read(&self.counter, &mut count) {
            Ok(8) => u64::from_ne_bytes(count),
            _ => 0,
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl EventCount {
    /// A counter at zero.
    ///
    /// # Errors
    /// What the kernel says when it gives no further descriptor.
    pub(crate) fn new() -> io::Result<Self> {
        let ends = std::os::unix::net::UnixStream::pair()?;
        ends.0.set_nonblocking(true)?;
        ends.1.set_nonblocking(true)?;
        Ok(EventCount { ends })
    }

    /// Adds one. A buffer that is full stays so: it is readable, which is all that is asked of it.
    pub(crate) fn signal(&self) {
        let _ = io::Write::write(&mut &self.ends.1, &[1]);
    }

    /// Takes the whole count and leaves zero.
    pub(crate) fn take(&self) -> u64 {
        let mut bytes = [0; 256];
        let mut count = 0;
        while let Ok(taken @ 1..) = io::Read::read(&mut &self.ends.0, &mut bytes) {
            count += taken as u64;
        }
        count
    }
}

impl AsFd for EventCount {
    fn as_fd(&self) -> BorrowedFd<'_> {
        #[cfg(target_os = "linux")]
        return self.counter.as_fd();
        #[cfg(not(target_os = "linux"))]
        return self.ends.0.as_fd();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_add_up_until_they_are_taken() {
        let counter = EventCount::new().unwrap();
        assert_eq!(counter.take(), 0);
        counter.signal();
        counter.signal();
        assert_eq!(counter.take(), 2);
        assert_eq!(counter.take(), 0);
    }
}
