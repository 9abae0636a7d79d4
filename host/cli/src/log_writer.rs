//! The way of log lines to standard error: through a queue, and a thread of its own.
//!
//! Whoever logs never waits. Standard error may be a pipe that nobody reads at the moment, and clients decide how much a
//! server logs: if its callbacks wrote there themselves, a client could stop them all.
//!
//! 1. A line is put into the queue. If there is no room it is dropped and counted.
//! 2. The thread writes the lines in their order. When it gets on after lines were dropped, it logs how many.
//! 3. Dropping the [`LogThread`] has it write what is in the queue and end, and waits for that, but not for longer than
//!    [`PATIENCE`]: then the rest is lost with the process.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait to be written.
const ROOM: usize = 4096;

/// How long the end of the program waits for the last lines to be written.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
enum Entry {
    Line(Vec<u8>),
    End,
}

/// Takes lines, each in one piece. Clones write into the same queue.
#[derive(Debug, Clone)]
pub(crate) struct LogWriter {
    queue: SyncSender<Entry>,
    dropped: Arc<AtomicU64>,
}

/// The thread that writes. Dropping it ends the log.
#[derive(Debug)]
#[must_use = "the log ends when this is dropped"]
pub(crate) struct LogThread {
    queue: SyncSender<Entry>,
    /// Closed when the thread has ended.
    alive: Receiver<()>,
    thread: Option<JoinHandle<()>>,
    patience: Duration,
}

/// Starts the thread, which writes to `out`.
///
/// # Errors
/// The system has no thread left.
pub(crate) fn start(out: impl Write + Send + 'static) -> io::Result<(LogWriter, LogThread)> {
    let (queue, entries) = sync_channel(ROOM);
    let (lives, alive) = sync_channel(0);
    let dropped = Arc::new(AtomicU64::new(0));
    let writer = LogWriter { queue: queue.clone(), dropped: Arc::clone(&dropped) };
    let body = move || {
        let _lives = lives;
        write_lines(&entries, &dropped, out);
    };
    let thread = Some(std::thread::Builder::new().name("log".into()).spawn(body)?);
    Ok((writer, LogThread { queue, alive, thread, patience: PATIENCE }))
}

fn write_lines(entries: &Receiver<Entry>, dropped: &AtomicU64, mut out: impl Write) {
    for entry in entries {
        let Entry::Line(line) = entry else { return };
        // There is nobody to tell of a failure.
        let _ = out.write_all(&line);
        let lines = dropped.swap(0, Ordering::Relaxed);
        if lines > 0 {
            tracing::warn!(lines, "log lines were dropped: nobody read them in time");
        }
    }
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Entry::Line(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LogWriter {
    type Writer = LogWriter;

    fn make_writer(&self) -> LogWriter {
        self.clone()
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        let until = Instant::now() + self.patience;
        while let Err(TrySendError::Full(_)) = self.queue.try_send(Entry::End) {
            if Instant::now() >= until {
                return;
            }
            sleep(Duration::from_millis(5));
        }
        let left = until.saturating_duration_since(Instant::now());
        if self.alive.recv_timeout(left) == Err(RecvTimeoutError::Disconnected)
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Something to write to that takes a line only when it is let.
    struct Gate {
        open: Receiver<()>,
        written: Arc<Mutex<Vec<String>>>,
    }

    impl Write for Gate {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            // Once nobody holds the other end it is open for good.
            let _ = self.open.recv();
            self.written.lock().unwrap().push(String::from_utf8_lossy(line).into_owned());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn gated() -> (LogWriter, LogThread, SyncSender<()>, Arc<Mutex<Vec<String>>>) {
        let (opens, open) = sync_channel(0);
        let written = Arc::new(Mutex::new(Vec::new()));
        let (writer, thread) = start(Gate { open, written: Arc::clone(&written) }).unwrap();
        (writer, thread, opens, written)
    }

    #[test]
    fn whoever_logs_never_waits_and_what_found_no_room_is_counted() {
        let (mut writer, thread, opens, written) = gated();
        for n in 0..2 * ROOM {
            writeln!(writer, "{n}").unwrap();
        }
        // `writeln` of such a line is several writes; each counts.
        let dropped = writer.dropped.load(Ordering::Relaxed);
        assert!(dropped > 0);
        drop(opens);
        drop(thread);
        let written = written.lock().unwrap();
        assert!(written.len() >= ROOM, "{} lines", written.len());
        assert!(written.concat().starts_with("0\n1\n2\n"), "in their order");
        assert_eq!(writer.dropped.load(Ordering::Relaxed), 0, "they were told of");
    }

    #[test]
    fn the_end_writes_what_is_there_and_waits_no_longer_than_it_may() {
        let (mut writer, thread, opens, written) = gated();
        writer.write_all(b"last words\n").unwrap();
        drop(opens);
        drop(thread);
        assert_eq!(*written.lock().unwrap(), ["last words\n"]);

        let (mut writer, mut thread, opens, written) = gated();
        thread.patience = Duration::from_millis(20);
        for _ in 0..2 * ROOM {
            writer.write_all(b"x\n").unwrap();
        }
        drop(thread);
        assert!(written.lock().unwrap().is_empty());
        drop(opens);
    }
}
