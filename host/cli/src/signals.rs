//! SIGINT and SIGTERM, and the one place where the main thread waits.
//!
//! 1. The first signal sets a flag and writes a byte into a socket pair that the main thread reads from.
//! 2. The second one finds the flag set and ends the process in the handler itself, so that it works whatever the
//!    threads of the program are stuck in.
//! 3. Others wake the main thread through the same pair ([`Bell`]).

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::exit::{INTERRUPTED, TERMINATED};

/// The signals, and what wakes the main thread.
#[derive(Debug)]
pub(crate) struct Signals {
    came: Arc<AtomicBool>,
    bell: UnixStream,
    ringer: Bell,
}

/// Wakes the main thread. Clones ring the same bell.
#[derive(Debug, Clone)]
pub(crate) struct Bell(Arc<UnixStream>);

impl Signals {
    /// Takes the signals over.
    pub(crate) fn install() -> io::Result<Signals> {
        let came = Arc::new(AtomicBool::new(false));
        let (bell, ringer) = UnixStream::pair()?;
        // A bell that has rung often enough to fill the pair need not ring again.
        ringer.set_nonblocking(true)?;
        for (signal, code) in [(SIGINT, INTERRUPTED), (SIGTERM, TERMINATED)] {
            // In this order: the first signal finds the flag unset, then sets it.
            signal_hook::flag::register_conditional_shutdown(signal, code, Arc::clone(&came))?;
            signal_hook::flag::register(signal, Arc::clone(&came))?;
            signal_hook::low_level::pipe::register(signal, ringer.try_clone()?)?;
        }
        Ok(Signals { came, bell, ringer: Bell(Arc::new(ringer)) })
    }

    /// What wakes [`wait`](Signals::wait).
    pub(crate) fn bell(&self) -> Bell {
        self.ringer.clone()
    }

    /// Whether a signal has come.
    pub(crate) fn came(&self) -> bool {
        self.came.load(Ordering::SeqCst)
    }

    /// Sleeps until a signal comes or the bell rings. What has happened since the last call is not slept over.
    pub(crate) fn wait(&mut self) {
        let mut rings = [0; 64];
        loop {
            match self.bell.read(&mut rings) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The writing end is ours and lives as long as we do, so there is neither an end nor an error.
                _ => return,
            }
        }
    }
}

impl Bell {
    /// Rings. Never blocks.
    pub(crate) fn ring(&self) {
        // Full means that it has rung and nobody has listened yet.
        let _ = (&*self.0).write(&[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bell_wakes_and_a_signal_is_remembered() {
        let mut signals = Signals::install().unwrap();
        for _ in 0..1_000_000 {
            // More often than the pair has room for: it must not block.
            signals.bell().ring();
        }
        signals.wait();
        assert!(!signals.came());
        signal_hook::low_level::raise(SIGTERM).unwrap();
        while !signals.came() {
            signals.wait();
        }
    }
}
