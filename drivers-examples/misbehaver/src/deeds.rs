//! What the driver does.

use std::cell::RefCell;
use std::thread;
use std::time::{Duration, Instant};

use fuchsine_driver::{Arena, Canceled, Channel, Dispatcher, Message};
use rustix::process::{Signal, getpid, kill_process};

use crate::config::{Config, Crash, Moment};

/// Panics or blocks, if it is to in this moment.
pub(crate) fn misbehave(config: &Config, now: Moment) {
    if config.block == Some(now) {
        tracing::warn!(moment = ?now, "blocks its thread");
        block(config.block_for());
    }
    if config.panic == Some(now) {
        tracing::warn!(moment = ?now, "panics");
        panic!("misbehaves in {now:?}");
    }
}

fn block(limit: Option<Duration>) {
    let end = limit.map(|limit| Instant::now() + limit);
    // A parked thread may be woken for nothing.
    loop {
        match end.map(|end| end.saturating_duration_since(Instant::now())) {
            None => thread::park(),
            Some(Duration::ZERO) => return,
            Some(left) => thread::park_timeout(left),
        }
    }
}

pub(crate) fn crash(how: Crash) {
    tracing::error!(how = ?how, "ends the process");
    match how {
        Crash::Abort => std::process::abort(),
        Crash::Exit => std::process::exit(7),
        Crash::Overflow => {
            std::hint::black_box(deeper(1));
        }
        Crash::Segfault => loop {
            // The handler of std looks at the first one, and leaves the next to the system.
            let _ = kill_process(getpid(), Signal::SEGV);
        },
    }
}

#[expect(unconditional_recursion, reason = "that is what it is for")]
fn deeper(depth: u64) -> u64 {
    let page = std::hint::black_box([depth; 512]);
    deeper(depth + page[0]) + page[511]
}

/// Never gives back this much memory.
pub(crate) fn leak(bytes: usize) {
    tracing::warn!(bytes, "leaks memory");
    std::mem::forget(vec![0xa5u8; bytes]);
}

/// Never gives back a handle of each kind.
pub(crate) fn leak_handles(dispatcher: &Dispatcher) {
    tracing::warn!("leaks handles");
    std::mem::forget(dispatcher.clone());
    std::mem::forget(dispatcher.post_after(Duration::from_secs(3600), |_| {}));
    if let Ok((left, right)) = Channel::pair() {
        // Refused or not, it is leaked.
        std::mem::forget(Message::from_bytes(b"nobody reads this").map(|message| left.write(message)));
        std::mem::forget((left, right));
    }
    std::mem::forget(Arena::new());
}

/// Posts the next of its kind, whatever it is told, until it is refused.
pub(crate) fn post_forever(dispatcher: &Dispatcher) {
    let again = dispatcher.clone();
    let next = move |_: Result<(), Canceled>| post_forever(&again);
    // Refused once the dispatcher shuts down, which is its end.
    drop(dispatcher.post_task(next));
}

/// Leaves a value with a destructor on this thread, which runs when the thread ends, and that is after the driver.
pub(crate) fn leave_value_behind() {
    struct Left(String);
    impl Drop for Left {
        fn drop(&mut self) {
            // Code of this image, run on a thread of the host, when there is no instance any more.
            self.0.make_ascii_uppercase();
            tracing::debug!(value = %self.0, "a value left on a thread is dropped");
        }
    }
    thread_local! {
        static LEFT: RefCell<Vec<Left>> = const { RefCell::new(Vec::new()) };
    }
    LEFT.with_borrow_mut(|left| left.push(Left("left behind".into())));
}

/// Starts threads that nobody ends.
pub(crate) fn leave_threads_behind(count: u32) {
    for n in 0..count {
        let started = thread::Builder::new().name(format!("left-behind-{n}")).spawn(|| block(None));
        match started {
            Ok(_) => tracing::warn!(n, "leaves a thread behind"),
            Err(error) => tracing::warn!(%error, "there is no thread to leave behind"),
        }
    }
}
