//! [`LoopManager`]: a number of loops, started together and stopped together.
//!
//! A manager is a plain value; there may be any number of them in a process. Its loops exist, and accept posts, from
//! [`LoopManagerBuilder::build`] on. Running it starts a thread a loop (loop 0 runs on the calling thread, or, with
//! [`LoopManager::spawn`], in the background as the others do). Each loop runs, in this order: what was posted before
//! the start, its setup callbacks, everything else, and after the shutdown has been asked for its teardown callbacks
//! and whatever they lead to. Dropping a manager that never ran drops what was posted.

use std::fmt;
use std::io;
use std::os::unix::net::UnixStream;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::event_loop::current;
use crate::event_loop::event_loop::{EventLoop, LoopSeed};
use crate::event_loop::handle::LoopHandle;
use crate::event_loop::loop_builder::{LoopManagerBuilder, PerLoop};
use crate::event_loop::parker::NoWorkload;
use crate::event_loop::summary::{LoopSummary, RunSummary};
use crate::status::Status;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, thread};
use crate::sys::signals::SignalWatch;

/// Why loops were not made or not started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// A manager needs at least one loop.
    #[error("a loop manager needs at least one loop")]
    NoLoops,
    /// A setup or teardown callback is meant for a loop that does not exist.
    #[error("a callback was registered for loop {wanted}, but the loops are numbered from 0 to {last}")]
    NoSuchLoop {
        /// The number that was given.
        wanted: usize,
        /// The highest number there is.
        last: usize,
    },
    /// A loop runs on this thread already, which would stand still meanwhile.
    #[error("a loop runs on this thread; use `spawn` to run others in the background")]
    OnALoop,
    /// The operating system gives no further thread or descriptor.
    #[error("the operating system refuses what a loop needs")]
    System(#[from] io::Error),
}

impl ManagerError {
    /// The condition as a status.
    pub fn status(&self) -> Status {
        match self {
            ManagerError::NoLoops | ManagerError::NoSuchLoop { .. } => Status::InvalidArgs,
            ManagerError::OnALoop => Status::BadState,
            ManagerError::System(error) => Status::from(error),
        }
    }
}

impl From<ManagerError> for Status {
    fn from(error: ManagerError) -> Self {
        error.status()
    }
}

/// What all handles to a manager share.
pub(crate) struct ManagerShared {
    pub(crate) loops: Vec<LoopHandle>,
    pub(crate) shutdown: AtomicBool,
}

/// A number of loops that have not been started.
///
/// # Examples
/// Two loops that hand a number to and fro:
/// ```
/// use fuchsine_dispatcher::event_loop::{EventLoop, LoopManager};
///
/// fn hop(event_loop: &EventLoop, left: u32) {
///     let manager = event_loop.manager().unwrap();
///     if left == 0 {
///         return manager.shutdown();
///     }
///     let other = 1 - event_loop.tid().unwrap() as usize;
///     let _ = manager.event_loop(other).unwrap().async_run(move |event_loop| hop(event_loop, left - 1));
/// }
///
/// let summary = LoopManager::builder().loops(2).setup(0, |event_loop| hop(event_loop, 10)).build()?.run()?;
/// assert_eq!(summary.loops.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the loops do nothing until `run` or `spawn`"]
pub struct LoopManager {
    pub(crate) seeds: Vec<LoopSeed>,
    pub(crate) shared: Arc<ManagerShared>,
    pub(crate) setup: PerLoop,
    pub(crate) teardown: PerLoop,
    pub(crate) handles_signals: bool,
    pub(crate) name: String,
}

impl LoopManager {
    /// Starts the description of a manager.
    pub fn builder() -> LoopManagerBuilder {
        LoopManagerBuilder::new()
    }

    /// The manager of the loop that runs on this thread.
    pub fn current() -> Option<ManagerHandle> {
        EventLoop::current()?.manager()
    }

    /// A handle that reaches the loops, and stops them, from anywhere.
    pub fn handle(&self) -> ManagerHandle {
        ManagerHandle { shared: self.shared.clone() }
    }

    /// Runs all loops, loop 0 on this thread, until they have shut down.
    ///
    /// # Errors
    /// [`ManagerError::OnALoop`] on a thread on which a loop runs; [`ManagerError::System`] when a thread cannot be
    /// started. No loop runs then.
    pub fn run(self) -> Result<RunSummary, ManagerError> {
        if current::current().is_some() {
            return Err(ManagerError::OnALoop);
        }
        let mut starts = self.into_starts()?;
        let first = starts.remove(0);
        let (shared, name) = (first.shared.clone(), first.manager_name.clone());
        let threads = spawn_all(starts, &name, &shared)?;
        let mut loops = vec![first.run()];
        loops.extend(threads.into_iter().map(join));
        Ok(RunSummary { loops })
    }

    /// Runs all loops in the background.
    ///
    /// # Errors
    /// [`ManagerError::System`] when a thread cannot be started. No loop runs then.
    pub fn spawn(self) -> Result<RunningLoops, ManagerError> {
        let (shared, name) = (self.shared.clone(), self.name.clone());
        let threads = spawn_all(self.into_starts()?, &name, &shared)?;
        Ok(RunningLoops { handle: ManagerHandle { shared }, threads })
    }

    fn into_starts(self) -> Result<Vec<Start>, ManagerError> {
        let mut signals = Vec::new();
        if self.handles_signals {
            for signal in [SIGINT, SIGTERM] {
                signals.push((signal, SignalWatch::new(signal)?));
            }
        }
        let LoopManager { seeds, shared, mut setup, mut teardown, name, .. } = self;
        let starts = seeds.into_iter().enumerate().map(|(index, seed)| Start {
            seed,
            shared: shared.clone(),
            manager_name: name.clone(),
            setup: setup.take(index),
            teardown: teardown.take(index),
            signals: if index == 0 { std::mem::take(&mut signals) } else { Vec::new() },
        });
        Ok(starts.collect())
    }
}

impl fmt::Debug for LoopManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoopManager({:?}, {} loops, not started)", self.name, self.seeds.len())
    }
}

/// All that one loop needs to run, on its way to the thread that runs it.
struct Start {
    seed: LoopSeed,
    shared: Arc<ManagerShared>,
    manager_name: String,
    setup: Vec<super::loop_builder::Callback>,
    teardown: Vec<super::loop_builder::Callback>,
    signals: Vec<(i32, (SignalWatch, UnixStream))>,
}

impl Start {
    fn run(self) -> LoopSummary {
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
                ManagerHandle { shared: shared.clone() }.shutdown();
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

type Thread = thread::JoinHandle<LoopSummary>;

fn spawn_all(starts: Vec<Start>, name: &str, shared: &Arc<ManagerShared>) -> Result<Vec<Thread>, ManagerError> {
    let mut threads = Vec::with_capacity(starts.len());
    let mut starts = starts.into_iter();
    while let Some(start) = starts.next() {
        let thread_name = start.seed.shared.name.clone();
        match thread::spawn(&thread_name, move || start.run()) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                tracing::error!(%error, name, "could not start all loops; stopping those that run");
                ManagerHandle { shared: shared.clone() }.shutdown();
                drop(starts);
                threads.into_iter().for_each(|thread| drop(join(thread)));
                return Err(error.into());
            }
        }
    }
    Ok(threads)
}

fn join(thread: Thread) -> LoopSummary {
    // A loop catches the panics of its callbacks; one of its own must not be swallowed.
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Reaches the loops of a manager from anywhere, and stops them. Cheap to clone.
#[derive(Clone)]
pub struct ManagerHandle {
    shared: Arc<ManagerShared>,
}

impl ManagerHandle {
    pub(crate) fn new(shared: Arc<ManagerShared>) -> Self {
        ManagerHandle { shared }
    }

    /// Makes all loops shut down: teardown callbacks, drain, end. Never waits; asking again changes nothing.
    ///
    /// # Thread requirements
    /// Any thread, at any time, also before the loops are started: then they run their setup callbacks and shut down.
    pub fn shutdown(&self) {
        // Relaxed: decides only who tells the loops; what is told travels through their queues.
        if !self.shared.shutdown.swap(true, Ordering::Relaxed) {
            self.shared.loops.iter().for_each(LoopHandle::begin_shutdown);
        }
    }

    /// Whether a shutdown has been asked for.
    pub fn is_shutting_down(&self) -> bool {
        self.shared.shutdown.load(Ordering::Relaxed)
    }

    /// The loop with this number.
    pub fn event_loop(&self, tid: usize) -> Option<LoopHandle> {
        self.shared.loops.get(tid).cloned()
    }

    /// How many loops there are: at least one.
    #[expect(clippy::len_without_is_empty, reason = "a manager without a loop does not exist")]
    pub fn len(&self) -> usize {
        self.shared.loops.len()
    }
}

impl fmt::Debug for ManagerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.shared.loops).finish()
    }
}

/// Loops that run in the background. Dropping this asks them to shut down and does not wait.
#[must_use = "dropping this shuts the loops down; `join` waits for them"]
pub struct RunningLoops {
    handle: ManagerHandle,
    threads: Vec<Thread>,
}

impl RunningLoops {
    /// A handle that reaches the loops, and stops them, from anywhere.
    pub fn handle(&self) -> ManagerHandle {
        self.handle.clone()
    }

    /// Waits until somebody has shut the loops down and they have ended.
    ///
    /// # Panics
    /// When called on one of the loops themselves: it would wait for itself.
    pub fn join(mut self) -> RunSummary {
        let own = EventLoop::current().is_some_and(|own| self.handle.shared.loops.contains(&own.handle()));
        assert!(!own, "a loop cannot wait for its own end; call `shutdown` and return");
        RunSummary { loops: self.threads.drain(..).map(join).collect() }
    }
}

impl Drop for RunningLoops {
    fn drop(&mut self) {
        self.handle.shutdown();
    }
}

impl fmt::Debug for RunningLoops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunningLoops({:?})", self.handle)
    }
}
