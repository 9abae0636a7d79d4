//! [`LoopManager`]: a number of loops, started together and stopped together.
//!
//! A manager is a plain value; there may be any number of them in a process. Its loops exist, and accept posts, from
//! [`LoopManagerBuilder::build`] on. Running it starts a thread a loop (loop 0 runs on the calling thread, or, with
//! [`LoopManager::spawn`], in the background as the others do); none runs anything before all have a thread. Each loop runs, in this order: what was posted before
//! the start, its setup callbacks, everything else, and after the shutdown has been asked for its teardown callbacks
//! and whatever they lead to. Dropping a manager that never ran drops what was posted.

use std::fmt;
use std::io;

use crate::event_loop::current;
use crate::event_loop::event_loop::{EventLoop, LoopSeed};
use crate::event_loop::handle::LoopHandle;
use crate::event_loop::loop_builder::{LoopManagerBuilder, PerLoop};
use crate::event_loop::pause::LoopGate;
use crate::event_loop::start::{Thread, join, spawn_all, starts_of};
use crate::event_loop::summary::RunSummary;
use crate::status::Status;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};

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
    pub(crate) gate: Arc<LoopGate>,
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
    /// A manager runs once:
    /// ```compile_fail,E0382
    /// # // Shows L4.
    /// # use fuchsine_dispatcher::event_loop::LoopManager;
    /// fn twice(manager: LoopManager) {
    ///     let _ = manager.run();
    ///     let _ = manager.run();
    /// }
    /// ```
    ///
    /// # Errors
    /// [`ManagerError::OnALoop`] on a thread on which a loop runs; [`ManagerError::System`] when a thread cannot be
    /// started. No loop runs then.
    pub fn run(self) -> Result<RunSummary, ManagerError> {
        if current::current().is_some() {
            return Err(ManagerError::OnALoop);
        }
        let name = self.name.clone();
        let mut starts = starts_of(self)?;
        let first = starts.remove(0);
        let threads = spawn_all(starts, &name)?;
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
        let threads = spawn_all(starts_of(self)?, &name)?;
        Ok(RunningLoops { handle: ManagerHandle { shared }, threads })
    }
}

impl fmt::Debug for LoopManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoopManager({:?}, {} loops, not started)", self.name, self.seeds.len())
    }
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

    /// Whether one of the loops has made all others stand still, at this moment.
    pub fn is_paused(&self) -> bool {
        self.shared.gate.is_paused()
    }

    /// Whether the loop with this number stands still, because another one pauses, at this moment.
    pub fn is_standing(&self, tid: usize) -> bool {
        u32::try_from(tid).is_ok_and(|tid| self.shared.gate.is_standing(tid))
    }

    pub(crate) fn handles(&self) -> Vec<LoopHandle> {
        self.shared.loops.clone()
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
