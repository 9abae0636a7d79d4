//! [`PauseGuard`]: one loop runs, all others of its manager stand still.
//!
//! What the others do is in `pause_gate.rs`; here is what the one that pauses sees of it.

use std::fmt;
use std::panic::Location;
use std::rc::Rc;

use crate::event_loop::event_loop::{EventLoop, Local};
use crate::event_loop::lane::Lane;
use crate::event_loop::loop_manager::ManagerShared;
use crate::event_loop::pause_gate::{Blocker, NoTurn, PauseGate, Turn};
use crate::event_loop::worker::WorkerShared;
use crate::status::Status;
use crate::sync::Arc;
use crate::time::Instant;

/// The gate of a manager's loops and workers.
pub(crate) type LoopGate = PauseGate<WorkerShared>;

/// Who is to stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PauseScope {
    /// All other loops. Work goes on, and its results wait.
    Loops,
    /// All other loops, and the workers of all loops, each once the item that it has started is done. An item that takes
    /// long sees from [`yield_wanted`](crate::event_loop::yield_wanted) that it is waited for.
    LoopsAndWorkers,
}

/// Whom a pause was waiting for when its deadline passed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitingFor {
    /// A loop that is inside a callback.
    Loop {
        /// Its number.
        tid: u32,
        /// Its name.
        name: String,
    },
    /// A worker that is in the middle of an item.
    Worker {
        /// The name of its thread, which is that of its loop and the lane.
        name: String,
        /// Its lane.
        lane: Lane,
        /// Where in the program the item was given to it.
        given: Option<&'static Location<'static>>,
    },
}

impl fmt::Display for WaitingFor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitingFor::Loop { name, .. } => write!(f, "loop {name}"),
            WaitingFor::Worker { name, given: Some(given), .. } => write!(f, "worker {name} with the work of {given}"),
            WaitingFor::Worker { name, given: None, .. } => write!(f, "worker {name}"),
        }
    }
}

/// Why the other loops do not stand still.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PauseError {
    /// This loop pauses the others already; its guard is somewhere.
    AlreadyPaused,
    /// Another loop pauses, or waits to; only [`EventLoop::try_pause`] says so.
    ShouldWait,
    /// The deadline passed; these did not come to a stand. Everybody goes on.
    TimedOut(Vec<WaitingFor>),
    /// The loop has no manager.
    NoManager,
    /// The loop has ended and runs nothing any more.
    LoopEnded,
}

impl PauseError {
    /// The condition as a status.
    pub fn status(&self) -> Status {
        match self {
            PauseError::AlreadyPaused | PauseError::NoManager | PauseError::LoopEnded => Status::BadState,
            PauseError::ShouldWait => Status::ShouldWait,
            PauseError::TimedOut(_) => Status::TimedOut,
        }
    }

    /// Whom the pause was waiting for when its deadline passed.
    pub fn waiting_for(&self) -> &[WaitingFor] {
        match self {
            PauseError::TimedOut(whom) => whom,
            _ => &[],
        }
    }
}

impl fmt::Display for PauseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PauseError::AlreadyPaused => f.write_str("this loop pauses the others already; drop that guard first"),
            PauseError::ShouldWait => f.write_str("another loop pauses at this moment; try again later"),
            PauseError::NoManager => f.write_str("the loop has no manager, so there are no other loops to pause"),
            PauseError::LoopEnded => f.write_str("the loop has ended and pauses nobody any more"),
            PauseError::TimedOut(whom) => {
                f.write_str("the deadline passed while waiting for ")?;
                let mut separator = "";
                for one in whom {
                    write!(f, "{separator}{one}")?;
                    separator = ", ";
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for PauseError {}

impl From<PauseError> for Status {
    fn from(error: PauseError) -> Self {
        error.status()
    }
}

/// What a loop keeps of the gate that it passes once a turn.
#[derive(Clone)]
pub(crate) struct AtGate {
    pub(crate) gate: Arc<LoopGate>,
    pub(crate) tid: u32,
}

impl AtGate {
    pub(crate) fn pass(&self) {
        self.gate.pass(self.tid);
    }

    /// The loop has run its last callback. Declared by dropping, so that nothing keeps it from being declared.
    pub(crate) fn leave_when_dropped(self) -> impl Drop {
        struct Leave(AtGate);
        impl Drop for Leave {
            fn drop(&mut self) {
                self.0.gate.leave(self.0.tid);
            }
        }
        Leave(self)
    }
}

/// Pausing.
impl EventLoop {
    /// Makes all other loops of this manager stand still, and answers when they do: none of their callbacks runs until
    /// the guard is dropped, nor, if the scope says so, any work. This loop goes on; keeping the guard beyond the
    /// callback keeps the others standing.
    ///
    /// It may take as long as the longest callback of the others (and the longest item of work, if workers are meant
    /// too). If another loop pauses at this moment, this one stands still like everybody, in the middle of its callback,
    /// until it is its turn. Loops that are still starting are waited for, loops that have ended are not.
    ///
    /// What is posted, armed or given to a worker during the pause is accepted as always; it runs afterwards where it is
    /// meant for somebody who stands still. Waiting here for an answer from one of those would wait forever.
    ///
    /// # Errors
    /// [`PauseError::AlreadyPaused`] while this loop holds a guard; [`PauseError::NoManager`] for a loop without one;
    /// [`PauseError::LoopEnded`] while what was left in the loop is dropped.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::event_loop::{LoopManager, PauseScope};
    ///
    /// LoopManager::builder()
    ///     .loops(3)
    ///     .setup(0, |event_loop| {
    ///         let guard = event_loop.pause(PauseScope::Loops).unwrap();
    ///         let manager = event_loop.manager().unwrap();
    ///         assert!(manager.is_paused() && manager.is_standing(1) && manager.is_standing(2));
    ///         // Whatever the loops share may be changed here.
    ///         drop(guard);
    ///         manager.shutdown();
    ///     })
    ///     .build()?
    ///     .run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Only the loop that paused can resume, as the guard does not leave its thread:
    /// ```compile_fail,E0277
    /// # // Shows E15, P5, P9.
    /// # use fuchsine_dispatcher::event_loop::PauseGuard;
    /// fn somebody_else_resumes(guard: PauseGuard) {
    ///     std::thread::spawn(move || drop(guard));
    /// }
    /// ```
    pub fn pause(&self, scope: PauseScope) -> Result<PauseGuard, PauseError> {
        self.pause_with(scope, Turn::Wait, Instant::INFINITE)
    }

    /// [`EventLoop::pause`], unless another loop pauses or waits to.
    ///
    /// # Errors
    /// [`PauseError::ShouldWait`] if so, and those of [`EventLoop::pause`].
    pub fn try_pause(&self, scope: PauseScope) -> Result<PauseGuard, PauseError> {
        self.pause_with(scope, Turn::Try, Instant::INFINITE)
    }

    /// [`EventLoop::pause`], but not beyond a deadline. While another loop pauses this one stands still, so the deadline
    /// is looked at once it is its turn.
    ///
    /// # Errors
    /// [`PauseError::TimedOut`], which names the loops and workers that were waited for; everybody goes on then. And
    /// those of [`EventLoop::pause`].
    pub fn pause_until(&self, scope: PauseScope, deadline: Instant) -> Result<PauseGuard, PauseError> {
        self.pause_with(scope, Turn::Wait, deadline)
    }

    fn pause_with(&self, scope: PauseScope, turn: Turn, deadline: Instant) -> Result<PauseGuard, PauseError> {
        let local = self.local();
        let (Some(at_gate), Some(manager)) = (&local.at_gate, local.manager.upgrade()) else {
            return Err(PauseError::NoManager);
        };
        if local.has_ended() {
            return Err(PauseError::LoopEnded);
        }
        let AtGate { gate, tid } = at_gate;
        gate.begin(*tid, scope == PauseScope::LoopsAndWorkers, turn).map_err(|refused| match refused {
            NoTurn::Own => PauseError::AlreadyPaused,
            NoTurn::Others => PauseError::ShouldWait,
        })?;
        for other in manager.loops.iter().filter(|other| !Arc::ptr_eq(&other.shared, &local.shared)) {
            other.shared.parker.unpark();
        }
        match gate.complete(*tid, deadline) {
            Ok(()) => Ok(PauseGuard { owner: local.clone() }),
            Err(blockers) => Err(PauseError::TimedOut(blockers.into_iter().map(|one| named(one, &manager)).collect())),
        }
    }
}

fn named(blocker: Blocker<WorkerShared>, manager: &ManagerShared) -> WaitingFor {
    match blocker {
        Blocker::Loop(tid) => {
            let name = manager.loops.get(tid as usize).map(|of| of.name().to_owned()).unwrap_or_default();
            WaitingFor::Loop { tid, name }
        }
        Blocker::Worker(worker) => {
            WaitingFor::Worker { name: worker.name().to_owned(), lane: worker.lane(), given: worker.running() }
        }
    }
}

/// All other loops stand still as long as this lives. Dropping it lets them go on; so does the end of this loop, once it
/// accepts nothing any more.
#[must_use = "the other loops go on when this is dropped"]
pub struct PauseGuard {
    owner: Rc<Local>,
}

impl Drop for PauseGuard {
    fn drop(&mut self) {
        if let Some(AtGate { gate, tid }) = &self.owner.at_gate {
            gate.end(*tid);
        }
    }
}

impl fmt::Debug for PauseGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PauseGuard(of loop {})", self.owner.shared.name)
    }
}
