//! `FdWaits`: who waits on which descriptor, and what the kernel has been told about it.
//!
//! 1. Arming a wait registers the descriptor, or registers it anew, for the union of all interests in it. Either
//!    looks at the level, so what is ready already comes back as an event. Each time the registration gets a new
//!    *generation*, which is part of its token: an event from before is recognized as stale and ignored, and what it
//!    said is said again.
//! 2. An event takes out the waits that it concerns. The registration stays, as it will most likely be armed again.
//! 3. An event that concerns nobody ends the registration, or narrows it to what is still waited for. So a descriptor
//!    on which nobody waits costs one event at most.
//!
//! A descriptor may be closed at any time, and its number used again. The kernel forgets a registration with the last
//! descriptor of its file; when a wait is armed on the number again, the kernel answers that it knows nothing of it,
//! and the registration is made from scratch. Waits that were armed on the old file are told of an error then.
//! (Should the old file live on under another number, its registration cannot be reached any more; its events carry
//! an old generation.)
//!
//! How many registrations there are is counted, so that a look without any costs no system call. Whoever arms a wait has been
//! counted when its call returns.
//!
//! The table is cut into shards by number, each under its own lock. Nobody is called with a lock held.

use std::io;
use std::os::fd::RawFd;

use rustix::io::Errno;

use crate::event_loop::source::WaitRefused;
use crate::event_loop::wait_list::{Wait, WaitList};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sys::kernel::{Registrar, Ticket};
use crate::sys::{Interest, Readiness};

/// A power of two, so that the shard of a descriptor is a mask away.
const SHARDS: usize = 8;

/// What a wait is told whose descriptor was closed under it.
pub(crate) const LOST: Readiness = Readiness::ERROR.and(Readiness::HANGUP);

/// The waits on all descriptors of one reactor.
pub(crate) struct FdWaits {
    registrar: Registrar,
    /// Descriptor `fd` is entry `fd / SHARDS` of shard `fd % SHARDS`.
    shards: [Mutex<Vec<Entry>>; SHARDS],
    /// Entries that are `registered`. Changed under the lock of the entry's shard.
    registered: AtomicUsize,
}

/// One descriptor number.
#[derive(Default)]
struct Entry {
    waits: WaitList,
    generation: u32,
    /// Whether the kernel has a registration of ours for this number, as far as we know.
    registered: bool,
}

impl Entry {
    /// The ticket for the next change of the registration; it counts only once [`Entry::registered_as`] says so.
    fn next_ticket(&self, fd: RawFd) -> Ticket {
        Ticket { fd, generation: self.generation.wrapping_add(1) }
    }

    fn registered_as(&mut self, ticket: Ticket, count: &AtomicUsize) {
        self.generation = ticket.generation;
        if !std::mem::replace(&mut self.registered, true) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn unregistered(&mut self, count: &AtomicUsize) {
        if std::mem::replace(&mut self.registered, false) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl FdWaits {
    pub(crate) fn new(registrar: Registrar) -> Self {
        FdWaits { registrar, shards: std::array::from_fn(|_| Mutex::new(Vec::new())), registered: AtomicUsize::new(0) }
    }

    /// Whether the kernel can have an event for this table. What another thread registers at this moment may be missed.
    pub(crate) fn has_registered(&self) -> bool {
        self.registered.load(Ordering::Relaxed) > 0
    }

    /// Arms a wait. On success returns the waits that turned out to be on a file which has been closed meanwhile;
    /// they are to be told of an error.
    ///
    /// # Errors
    /// What the kernel says of the descriptor; nothing has changed then.
    pub(crate) fn begin(&self, fd: RawFd, wait: Wait) -> Result<Vec<Wait>, WaitRefused> {
        let (shard, at) = place(fd);
        let mut entries = self.shards[shard].lock();
        if entries.len() <= at {
            entries.resize_with(at + 1, Entry::default);
        }
        let entry = &mut entries[at];
        let union = entry.waits.interest() | wait.interest;
        let ticket = entry.next_ticket(fd);
        let mut orphans = Vec::new();
        let registered = if entry.registered { self.registrar.modify(ticket, union) } else { Err(unknown()) };
        if let Err(error) = registered {
            if Errno::from_io_error(&error) == Some(Errno::NOENT) {
                self.register(ticket, wait.interest)?;
                orphans = entry.waits.take_all();
            } else {
                return Err(refusal(error));
            }
        }
        entry.registered_as(ticket, &self.registered);
        entry.waits.add(wait);
        Ok(orphans)
    }

    /// Makes a registration from scratch. The kernel may still have one of a file that came back under its old number.
    fn register(&self, ticket: Ticket, interest: Interest) -> Result<(), WaitRefused> {
        match self.registrar.add(ticket, interest) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::EXIST) => self.registrar.modify(ticket, interest),
            done => done,
        }
        .map_err(refusal)
    }

    /// Disarms a wait, if it is still armed. The registration stays until an event shows that nobody waits for it.
    pub(crate) fn cancel(&self, fd: RawFd, serial: u64) -> Option<Wait> {
        let (shard, at) = place(fd);
        self.shards[shard].lock().get_mut(at)?.waits.remove(serial)
    }

    /// Takes out those whom an event concerns and gives each to `each`, which only puts it aside.
    pub(crate) fn on_event(&self, ticket: Ticket, ready: Readiness, mut each: impl FnMut(Wait, Readiness)) {
        let (shard, at) = place(ticket.fd);
        let mut entries = self.shards[shard].lock();
        let Some(entry) = entries.get_mut(at).filter(|entry| entry.generation == ticket.generation) else {
            return;
        };
        let mut concerned = false;
        entry.waits.take_concerned(ready).for_each(|wait| {
            concerned = true;
            each(wait, ready);
        });
        if concerned {
            return;
        }
        let interest = entry.waits.interest();
        let narrower = entry.next_ticket(ticket.fd);
        if interest.is_none() {
            // An error would mean that the descriptor has been closed, and the registration with it.
            let _ = self.registrar.remove(ticket.fd);
            entry.unregistered(&self.registered);
        } else if self.registrar.modify(narrower, interest).is_ok() {
            entry.registered_as(narrower, &self.registered);
        } else {
            // The descriptor has been closed under those who wait on it.
            entry.unregistered(&self.registered);
            entry.waits.take_all().into_iter().for_each(|wait| each(wait, LOST));
        }
    }

    /// How many descriptors are registered, as far as this table knows.
    #[cfg(test)]
    pub(crate) fn registered(&self) -> usize {
        let count = self.shards.iter().map(|shard| shard.lock().iter().filter(|entry| entry.registered).count()).sum();
        assert_eq!(self.registered.load(Ordering::Relaxed), count, "each registration is counted, and once");
        count
    }
}

fn place(fd: RawFd) -> (usize, usize) {
    let fd = fd as usize;
    (fd % SHARDS, fd / SHARDS)
}

fn unknown() -> io::Error {
    Errno::NOENT.into()
}

fn refusal(error: io::Error) -> WaitRefused {
    match Errno::from_io_error(&error) {
        Some(Errno::PERM) => WaitRefused::NotPollable,
        Some(Errno::BADF) => WaitRefused::NotOpen,
        _ => WaitRefused::System(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::event_loop::reactor::{EventTarget, Fired, Told};
    use crate::sync::Arc;
    use crate::sys::kernel::Poller;

    struct Nobody;

    impl EventTarget for Nobody {
        fn fire(self: Arc<Self>, _key: u64, _fired: Fired, _last: bool) -> Told {
            Told::All
        }
    }

    fn wait(serial: u64) -> Wait {
        Wait { serial, interest: Interest::READABLE, target: Arc::new(Nobody), key: serial }
    }

    #[test]
    fn an_event_that_was_taken_from_the_kernel_before_an_arming_tells_nobody() {
        let (_poller, registrar, _waker, _alarm) = Poller::new().unwrap();
        let waits = FdWaits::new(registrar);
        let (near, _far) = UnixStream::pair().unwrap();
        let fd = near.as_raw_fd();
        let mut told = Vec::new();
        assert!(waits.begin(fd, wait(1)).unwrap().is_empty());
        // The leader has taken this event; before it gets here, a second wait is armed.
        let early = Ticket { fd, generation: 1 };
        waits.begin(fd, wait(2)).unwrap();
        waits.on_event(early, Readiness::READABLE, |wait, _| told.push(wait.serial));
        assert!(told.is_empty());
        assert_eq!(waits.registered(), 1, "a stale event does not end the registration either");
        waits.on_event(Ticket { fd, generation: 2 }, Readiness::READABLE, |wait, _| told.push(wait.serial));
        assert_eq!(told, [1, 2]);
    }

    #[test]
    fn a_refused_arming_leaves_those_before_it_as_they_were() {
        let (_poller, registrar, _waker, _alarm) = Poller::new().unwrap();
        let waits = FdWaits::new(registrar);
        let (near, _far) = UnixStream::pair().unwrap();
        let fd = near.as_raw_fd();
        waits.begin(fd, wait(1)).unwrap();
        // A file that cannot be polled takes the place of the socket.
        let mut replaced = OwnedFd::from(near);
        rustix::io::dup2(tempfile::tempfile().unwrap(), &mut replaced).unwrap();
        assert!(matches!(waits.begin(fd, wait(2)), Err(WaitRefused::NotPollable)));
        let mut told = Vec::new();
        waits.on_event(Ticket { fd, generation: 1 }, Readiness::READABLE, |wait, _| told.push(wait.serial));
        assert_eq!(told, [1], "its registration is still the one that counts");
    }
}
