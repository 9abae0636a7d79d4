//! Writes what modules say outside of any callback.
//!
//! A module logs on threads of its own as well, and in destructors of thread-locals, while a thread ends. Whoever writes a
//! log keeps a buffer for each thread, which may have been destroyed by then: to use it is a panic, and one in such a
//! destructor ends the process. So these lines are written by a thread of the host, which starts when there is a first
//! one. What is written inside of a callback takes no such way.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::super::context::Line;
use crate::host::Instance;

/// So many lines wait to be written; what comes then is dropped and counted.
const WAITING: usize = 4096;

static QUEUE: Mutex<Queue> =
    Mutex::new(Queue { lines: VecDeque::new(), dropped: 0, is_started: false, is_busy: false });
/// There is something to write.
static COME: Condvar = Condvar::new();
/// Everything is written.
static DONE: Condvar = Condvar::new();
/// The number that the system has given to the thread, 0 before it runs.
static THREAD: AtomicU32 = AtomicU32::new(0);

struct Queue {
    lines: VecDeque<(Speaks, Line)>,
    dropped: usize,
    is_started: bool,
    is_busy: bool,
}

/// Whose line it is.
pub(super) enum Speaks {
    /// An instance that runs.
    Instance(Arc<Instance>),
    /// A driver, no instance of which is known to have said it.
    Driver(String),
}

/// Has a line written, by and by.
pub(super) fn write(who: Speaks, line: Line) {
    let mut queue = QUEUE.lock();
    if queue.lines.len() >= WAITING {
        queue.dropped += 1;
        return;
    }
    queue.lines.push_back((who, line));
    if !std::mem::replace(&mut queue.is_started, true) {
        let started = std::thread::Builder::new().name("fuchsine-scribe".into()).spawn(run);
        // Without a thread to spare these lines are lost; the next one tries again.
        queue.is_started = started.is_ok();
    }
    drop(queue);
    COME.notify_one();
}

/// Waits until everything is written that was said before, but not for ever: a log that nobody reads may block.
pub(crate) fn flush(limit: Duration) {
    let end = Instant::now() + limit;
    let mut queue = QUEUE.lock();
    while queue.is_started && (queue.is_busy || !queue.lines.is_empty()) {
        if DONE.wait_until(&mut queue, end).timed_out() {
            return;
        }
    }
}

/// Whether this is the number of the thread that writes.
pub(super) fn is(thread: u32) -> bool {
    // ORDERING: Relaxed; the number alone matters.
    THREAD.load(Ordering::Relaxed) == thread
}

fn run() {
    #[cfg(target_os = "linux")]
    // ORDERING: Relaxed; as above.
    THREAD.store(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned(), Ordering::Relaxed);
    let mut queue = QUEUE.lock();
    loop {
        let Some((who, line)) = queue.lines.pop_front() else {
            DONE.notify_all();
            COME.wait(&mut queue);
            continue;
        };
        let dropped = std::mem::take(&mut queue.dropped);
        queue.is_busy = true;
        drop(queue);
        match &who {
            Speaks::Instance(instance) => line.write(instance),
            Speaks::Driver(driver) => line.write_as(driver),
        }
        if dropped > 0 {
            tracing::warn!(dropped, "modules logged more outside of callbacks than could be written");
        }
        drop(who);
        queue = QUEUE.lock();
        queue.is_busy = false;
    }
}
