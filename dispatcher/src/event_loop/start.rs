//! Starting the loops of a manager: a thread each, and none of them runs anything before all are there.
//!
//! 1. The signals that end the loops are watched, so that none is missed from here on.
//! 2. Each loop gets its thread, which waits at the starting gate.
//! 3. When all have one, the gate opens. If the operating system gives no further thread, those that wait are sent home
//!    without having run anything, and what was meant for them is dropped.

use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::event_loop::event_loop::{EventLoop, LoopSeed};
use crate::event_loop::loop_builder::Callback;
use crate::event_loop::loop_manager::{LoopManager, ManagerError, ManagerHandle, ManagerShared};
use crate::event_loop::parker::NoWorkload;
use crate::event_loop::summary::LoopSummary;
use crate::sync::{Arc, Condvar, Mutex, thread};
use crate::sys::signals::SignalWatch;

/// Makes a manager into what each of its threads needs.
pub(crate) fn starts_of(manager: LoopManager) -> Result<Vec<Start>, ManagerError> {
    let mut signals = Vec::new();
    if manager.handles_signals {
        for signal in [SIGINT, SIGTERM] {
            signals.push((signal, SignalWatch::new(signal)?));
        }
    }
    let LoopManager { seeds, shared, mut setup, mut teardown, .. } = manager;
    let starts = seeds.into_iter().enumerate().map(|(index, seed)| Start {
        seed,
        shared: shared.clone(),
        setup: setup.take(index),
        teardown: teardown.take(index),
        signals: if index == 0 { std::mem::take(&mut signals) } else { Vec::new() },
    });
    Ok(starts.collect())
}

/// All that one loop needs to run, on its way to the thread that runs it.
pub(crate) struct Start {
    seed: LoopSeed,
    shared: Arc<ManagerShared>,
    setup: Vec<Callback>,
    teardown: Vec<Callback>,
    signals: Vec<(i32, (SignalWatch, UnixStream))>,
}

impl Start {
    pub(crate) fn run(self) -> LoopSummary {
        let event_loop = EventLoop::with(self.seed, Box::new(NoWorkload));
        for callback in self.teardown {
            let registered = event_loop.teardown(callback);
            debug_assert!(registered.is_ok(), "a loop that has not run yet has not begun to shut down");
        }
        for callback in self.setup {
            let posted = event_loop.async_run(callback);
            debug_assert!(posted.is_ok(), "a loop that has not run yet has not ended");
        }
        for (signal, (watch, socket)) in self.signals {
            let shared = self.shared.clone();
            let handler = event_loop.signal_from(signal, watch, socket, move |_, signal| {
                tracing::info!(signal, "shutting down");
                ManagerHandle::new(shared.clone()).shutdown();
            });
            match handler {
                // From the beginning of the shutdown on, the signal does again what it does by default.
                Ok(handler) => event_loop.keep_until_shutdown(handler),
                Err(error) => tracing::error!(%error, "the loops cannot be stopped by a signal"),
            }
        }
        event_loop.run()
    }
}

/// Where threads wait until all are there.
struct StartingGate {
    /// What they are told: to run, or to go home.
    go: Mutex<Option<bool>>,
    told: Condvar,
}

impl StartingGate {
    fn tell(&self, go: bool) {
        *self.go.lock() = Some(go);
        self.told.notify_all();
    }

    fn wait(&self) -> bool {
        let mut go = self.go.lock();
        loop {
            if let Some(go) = *go {
                return go;
            }
            self.told.wait(&mut go);
        }
    }
}

/// The thread of one loop. It ends with nothing if its loop was not run.
pub(crate) type Thread = thread::JoinHandle<Option<LoopSummary>>;

/// Starts a thread for each, and lets them run once all are there.
pub(crate) fn spawn_all(starts: Vec<Start>, name: &str) -> Result<Vec<Thread>, ManagerError> {
    let gate = Arc::new(StartingGate { go: Mutex::new(None), told: Condvar::new() });
    let mut threads: Vec<Thread> = Vec::with_capacity(starts.len());
    for start in starts {
        let (thread_name, at_gate) = (start.seed.shared.name.clone(), gate.clone());
        match thread::spawn(&thread_name, move || at_gate.wait().then(|| start.run())) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                tracing::error!(%error, name, "could not start all loops, so none runs");
                gate.tell(false);
                for thread in threads {
                    // Drops of what was meant for the loop may panic; the error to tell of is the other one.
                    drop(thread.join());
                }
                return Err(error.into());
            }
        }
    }
    gate.tell(true);
    Ok(threads)
}

pub(crate) fn join(thread: Thread) -> LoopSummary {
    // A loop catches the panics of its callbacks; one of its own must not be swallowed.
    let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    ended.expect("a thread whose loop was not run is joined where it was sent home")
}
