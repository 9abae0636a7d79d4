//! Signals of the operating system, turned into bytes in a socket that a loop can wait on.
//!
//! What a signal does is a property of the whole process, so this file keeps the one table of the crate that is
//! process-wide: how many watch each signal. When the last of them goes, the signal does again what it does by
//! default; otherwise a process whose loops have ended could not be interrupted any more.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;

use signal_hook::SigId;
use signal_hook::consts::FORBIDDEN;
use signal_hook::flag::register_conditional_default;
use signal_hook::low_level::{pipe, unregister};

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Mutex};

static WATCHED: Mutex<BTreeMap<i32, Watched>> = Mutex::new(BTreeMap::new());

struct Watched {
    watchers: usize,
    /// Read by the signal handler: nobody watches, so the default action is to be taken.
    unwatched: Arc<AtomicBool>,
}

/// As long as it lives, each arrival of a signal writes a byte into a socket, and the default action is not taken.
pub(crate) struct SignalWatch {
    signal: i32,
    id: SigId,
}

impl SignalWatch {
    /// Starts to watch, and returns the end of the socket to read from.
    ///
    /// # Errors
    /// `InvalidInput` for signals that cannot be watched (such as SIGKILL) or do not exist; else what the operating
    /// system says.
    pub(crate) fn new(signal: i32) -> io::Result<(SignalWatch, UnixStream)> {
        if FORBIDDEN.contains(&signal) {
            let why = format!("signal {signal} cannot be handled by a program");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        let mut table = WATCHED.lock();
        if let std::collections::btree_map::Entry::Vacant(vacant) = table.entry(signal) {
            let unwatched = Arc::new(AtomicBool::new(false));
            register_conditional_default(signal, unwatched.clone())?;
            vacant.insert(Watched { watchers: 0, unwatched });
        }
        let id = pipe::register(signal, write)?;
        if let Some(watched) = table.get_mut(&signal) {
            watched.watchers += 1;
            watched.unwatched.store(false, Ordering::Relaxed);
        }
        Ok((SignalWatch { signal, id }, read))
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        let mut table = WATCHED.lock();
        unregister(self.id);
        if let Some(watched) = table.get_mut(&self.signal) {
            watched.watchers -= 1;
            watched.unwatched.store(watched.watchers == 0, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for SignalWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignalWatch({})", self.signal)
    }
}
