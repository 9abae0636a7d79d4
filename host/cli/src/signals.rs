//! SIGINT, SIGTERM and SIGHUP, and the one place where the main thread waits.
//!
//! 1. A signal writes a byte into a socket pair. A thread of its own reads it and rings the bell that the main thread
//!    waits for. That thread does nothing else, so nothing that blocks the others blocks it.
//! 2. [`GRACE`] later it arms the handlers: the next signal ends the process in the handler itself, whatever the threads
//!    of the program are stuck in.
//!
//! SIGHUP asks for the manifest to be read again: its handler notes it and rings the bell, and several at once are one.
//!
//! The grace is there because one request to stop may come as two signals: `timeout` sends one to the process and one to
//! its group.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::exit::{INTERRUPTED, TERMINATED};

/// For how long further signals count as the same one.
const GRACE: Duration = Duration::from_millis(50);

/// The signals, and what wakes the main thread. Dropping it gives the signals back.
#[derive(Debug)]
pub(crate) struct Signals {
    came: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    bell: UnixStream,
    ringer: Bell,
    handlers: Vec<SigId>,
    /// Of what the handlers write into; the thread ends when it is closed.
    written: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

/// Wakes the main thread. Clones ring the same bell.
#[derive(Debug, Clone)]
pub(crate) struct Bell(Arc<UnixStream>);

impl Signals {
    /// Takes the signals over.
    pub(crate) fn install() -> io::Result<Signals> {
        let (came, armed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (bell, ringer) = UnixStream::pair()?;
        // A bell that has rung often enough to fill the pair need not ring again.
        ringer.set_nonblocking(true)?;
        let ringer = Bell(Arc::new(ringer));
        let (read, written) = UnixStream::pair()?;
        let reload = Arc::new(AtomicBool::new(false));
        let mut signals = Signals { came, reload, bell, ringer, handlers: Vec::new(), written: None, thread: None };
        // The note comes before the ring, so whoever wakes finds it.
        signals.handlers.push(signal_hook::flag::register(SIGHUP, Arc::clone(&signals.reload))?);
        signals.handlers.push(signal_hook::low_level::pipe::register(SIGHUP, signals.ringer.0.try_clone()?)?);
        for (signal, code) in [(SIGINT, INTERRUPTED), (SIGTERM, TERMINATED)] {
            let armed = Arc::clone(&armed);
            signals.handlers.push(signal_hook::flag::register_conditional_shutdown(signal, code, armed)?);
            signals.handlers.push(signal_hook::low_level::pipe::register(signal, written.try_clone()?)?);
        }
        let (came, ringer) = (Arc::clone(&signals.came), signals.ringer.clone());
        let listen = move || listen(read, &came, &ringer, &armed);
        signals.thread = Some(std::thread::Builder::new().name("signals".into()).spawn(listen)?);
        signals.written = Some(written);
        Ok(signals)
    }

    /// What wakes [`wait`](Signals::wait).
    pub(crate) fn bell(&self) -> Bell {
        self.ringer.clone()
    }

    /// Whether a signal has come.
    pub(crate) fn came(&self) -> bool {
        // ORDERING: Acquire, pairs with the Release in `listen`; nothing is published, but it costs nothing here.
        self.came.load(Ordering::Acquire)
    }

    /// Whether the manifest is to be read again, since the last time that this was asked.
    pub(crate) fn reload_was_asked(&self) -> bool {
        // ORDERING: Acquire, as in `came`.
        self.reload.swap(false, Ordering::Acquire)
    }

    /// Sleeps until a signal comes or the bell rings. What has happened since the last call is not slept over.
    pub(crate) fn wait(&mut self) {
        // The ringing end is ours and lives as long as we do, so there is neither an end nor an error.
        let _ = read_some(&mut self.bell);
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            signal_hook::low_level::unregister(handler);
        }
        // The handlers' ends are closed with them; with this one the thread reads the end.
        if let Some(written) = self.written.take() {
            let _ = written.shutdown(std::net::Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread of the signals.
fn listen(mut read: UnixStream, came: &AtomicBool, bell: &Bell, armed: &AtomicBool) {
    if !matches!(read_some(&mut read), Ok(1..)) {
        return;
    }
    // ORDERING: Release, pairs with the Acquire in `came`.
    came.store(true, Ordering::Release);
    bell.ring();
    if read.set_read_timeout(Some(GRACE)).is_ok() {
        // Until the time is up; more signals or the end of the program make it shorter, which does no harm.
        let began = std::time::Instant::now();
        while began.elapsed() < GRACE && matches!(read_some(&mut read), Ok(1..)) {}
    }
    // ORDERING: Release; the handler reads it by a load of its own and needs nothing else.
    armed.store(true, Ordering::Release);
}

fn read_some(from: &mut UnixStream) -> io::Result<usize> {
    let mut bytes = [0; 64];
    loop {
        match from.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
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
    fn the_bell_wakes_a_signal_is_remembered_and_two_at_once_are_one() {
        let mut signals = Signals::install().unwrap();
        for _ in 0..100_000 {
            // More often than the pair has room for: it must not block.
            signals.bell().ring();
        }
        signals.wait();
        assert!(!signals.came() && !signals.reload_was_asked());
        // One test for all signals: they come to every test of the process.
        signal_hook::low_level::raise(SIGHUP).unwrap();
        signal_hook::low_level::raise(SIGHUP).unwrap();
        signals.wait();
        assert!(signals.reload_was_asked() && !signals.reload_was_asked() && !signals.came());
        // A second one that counted as such would end this process.
        signal_hook::low_level::raise(SIGTERM).unwrap();
        signal_hook::low_level::raise(SIGTERM).unwrap();
        while !signals.came() {
            signals.wait();
        }
    }
}
