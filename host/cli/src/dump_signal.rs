//! SIGUSR1: the state of every dispatcher, written on standard error. SIGQUIT: the same, and then the process aborts.
//!
//! A thread of its own does it, which waits for nothing else: the signal is sent when something is stuck, and the main
//! thread may be waiting for just that. A dump waits for no callback.
//!
//! 1. The handler writes a byte into a socket pair, and nothing else.
//! 2. The thread reads it, makes a dump, and writes it in one piece. Signals that come meanwhile are one more dump.
//! 3. After a SIGQUIT the thread aborts. Another one does so in the handler itself: nobody may be reading.
//! 4. Dropping the [`DumpOnSignal`] gives the signal back. The thread makes the dump of a signal that has come before,
//!    which is waited for, but not for longer than [`PATIENCE`]: nobody may be reading standard error.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use signal_hook::SigId;
use signal_hook::consts::{SIGQUIT, SIGUSR1};

/// How long the end of the program waits for the last dump to be written.
const PATIENCE: Duration = Duration::from_secs(2);

/// The signal, and the thread that answers it. Dropping it gives the signal back.
#[derive(Debug)]
#[must_use = "the signal is given back when this is dropped"]
pub(crate) struct DumpOnSignal {
    handlers: Vec<SigId>,
    /// Of what the handler writes into; the thread ends when it is closed.
    written: UnixStream,
    /// Closed when the thread has ended.
    alive: Receiver<()>,
}

impl DumpOnSignal {
    /// Takes the signal over: `dump` makes what is written to `out`.
    ///
    /// # Errors
    /// The system has no descriptor or thread left.
    pub(crate) fn install(
        dump: impl Fn() -> String + Send + 'static,
        out: impl Write + Send + 'static,
    ) -> io::Result<DumpOnSignal> {
        let (read, written) = UnixStream::pair()?;
        let (lives, alive) = sync_channel(0);
        let quit = Arc::new(AtomicBool::new(false));
        let aborts = Arc::clone(&quit);
        let body = move || {
            let _lives = lives;
            answer(read, dump, out, &aborts);
        };
        // Dropped without being joined: see step 4.
        let _thread = std::thread::Builder::new().name("dump".into()).spawn(body)?;
        let mut dumps = DumpOnSignal { handlers: Vec::new(), written, alive };
        dumps.handlers.push(signal_hook::low_level::pipe::register(SIGUSR1, dumps.written.try_clone()?)?);
        // In this order: the first one sets the flag, and the next one finds it set.
        dumps.handlers.push(signal_hook::flag::register_conditional_default(SIGQUIT, Arc::clone(&quit))?);
        dumps.handlers.push(signal_hook::flag::register(SIGQUIT, quit)?);
        dumps.handlers.push(signal_hook::low_level::pipe::register(SIGQUIT, dumps.written.try_clone()?)?);
        Ok(dumps)
    }
}

impl Drop for DumpOnSignal {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            signal_hook::low_level::unregister(handler);
        }
        // What has been written before is read first.
        let _ = self.written.shutdown(std::net::Shutdown::Both);
        let _ = self.alive.recv_timeout(PATIENCE);
    }
}

/// The thread of the signal.
fn answer(mut signals: UnixStream, dump: impl Fn() -> String, mut out: impl Write, aborts: &AtomicBool) {
    let mut bytes = [0; 64];
    loop {
        match signals.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {
                // There is nobody to tell of a failure.
                let _ = out.write_all(dump().as_bytes()).and_then(|()| out.flush());
                if aborts.load(Ordering::Relaxed) {
                    std::process::abort();
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Out(Arc<Mutex<Vec<u8>>>);

    impl Write for Out {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn each_signal_is_answered_before_the_end_and_none_after_it() {
        let out = Out::default();
        let dumps = DumpOnSignal::install(|| "dump\n".to_owned(), out.clone()).unwrap();
        signal_hook::low_level::raise(SIGUSR1).unwrap();
        while out.0.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        signal_hook::low_level::raise(SIGUSR1).unwrap();
        drop(dumps);
        assert_eq!(*out.0.lock().unwrap(), *b"dump\ndump\n");
        signal_hook::low_level::raise(SIGUSR1).unwrap();
        assert_eq!(out.0.lock().unwrap().len(), 10, "and the process is still there");
    }
}
