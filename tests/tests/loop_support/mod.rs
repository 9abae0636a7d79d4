//! What the tests of the loops share: running them under a hang limit, an ordered log.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fuchsine_dispatcher::event_loop::{EventLoop, LoopManager, LoopManagerBuilder, RunSummary, RunningLoops};

/// After this long a test counts as hung. It is no measure of speed.
pub const HANG: Duration = Duration::from_secs(60);

/// An ordered record of what happened, on whichever thread.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub fn new() -> Self {
        Log::default()
    }

    pub fn add(&self, entry: impl Into<String>) {
        self.0.lock().expect("no holder panics").push(entry.into());
    }

    /// Everything so far, joined by blanks.
    pub fn text(&self) -> String {
        self.0.lock().expect("no holder panics").join(" ")
    }

    pub fn len(&self) -> usize {
        self.0.lock().expect("no holder panics").len()
    }
}

/// A manager of `count` loops that leaves the signals of the process alone.
pub fn loops(count: usize) -> LoopManagerBuilder {
    LoopManager::builder().loops(count).handle_signals(false).name("test")
}

/// Runs the loops to their end, under the hang limit.
#[track_caller]
pub fn run(builder: LoopManagerBuilder) -> RunSummary {
    join(builder.build().expect("the loops are made").spawn().expect("the loops are started"))
}

/// Runs one loop with this setup to its end; no callback may panic.
#[track_caller]
pub fn run_one(setup: impl FnOnce(&EventLoop) + Send + 'static) -> RunSummary {
    let summary = run(loops(1).setup(0, setup));
    assert_eq!(summary.panics(), 0, "no callback panicked");
    summary
}

/// Waits for running loops, under the hang limit.
#[track_caller]
pub fn join(running: RunningLoops) -> RunSummary {
    let (sender, receiver) = channel();
    let waiter = std::thread::spawn(move || sender.send(running.join()));
    let summary = receiver.recv_timeout(HANG).expect("the loops end");
    waiter.join().expect("the waiting thread ends").expect("the receiver is there");
    summary
}

/// Asks the manager of this loop to shut down.
pub fn shutdown(event_loop: &EventLoop) {
    event_loop.manager().expect("the loop has a manager").shutdown();
}
