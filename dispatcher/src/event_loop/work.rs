//! Work: a function that runs on a worker thread, and whose result comes back to the loop.
//!
//! 1. The loop puts the `done` callback into its table and the item into the queue of the lane's worker, which it
//!    starts if it is the first.
//! 2. The worker runs the item and leaves its result in it; or somebody cancels it first. Whichever happened tells
//!    the loop, at once.
//! 3. The loop takes `done` out of its table and calls it with the result. That is the only place where an item ends.

use std::fmt;
use std::panic::Location;

use crate::event_loop::event_loop::EventLoop;
use crate::event_loop::handle::{LoopEvent, LoopShared};
use crate::event_loop::lane::Lane;
use crate::event_loop::panics::caught;
use crate::event_loop::slots::{Key, Slots};
use crate::event_loop::summary::{Holder, HolderKind};
use crate::event_loop::work_state::WorkState;
use crate::event_loop::worker::{WorkItem, Worker};
use crate::status::Status;
use crate::sync::{Arc, Mutex};

/// Why work has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkError {
    /// It was canceled before it started.
    #[error("the work was canceled before it started")]
    Canceled,
    /// It panicked, with this message.
    #[error("the work panicked: {0}")]
    Panicked(String),
}

impl WorkError {
    /// The condition as a status.
    pub fn status(&self) -> Status {
        match self {
            WorkError::Canceled => Status::Canceled,
            WorkError::Panicked(_) => Status::Internal,
        }
    }
}

impl From<WorkError> for Status {
    fn from(error: WorkError) -> Self {
        error.status()
    }
}

/// What a loop does at shutdown with work that has not been started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorkPolicy {
    /// It is run to the end.
    #[default]
    Run,
    /// It is canceled: `done` is told so.
    Cancel,
}

/// The policy of each lane.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WorkPolicies([WorkPolicy; Lane::ALL.len()]);

impl WorkPolicies {
    pub(crate) fn set(&mut self, lane: Lane, policy: WorkPolicy) {
        self.0[lane as usize] = policy;
    }

    fn of(&self, lane: Lane) -> WorkPolicy {
        self.0[lane as usize]
    }
}

/// Work that was not accepted; both functions are in it, unrun.
pub struct WorkRefused<W, D> {
    status: Status,
    work: W,
    done: D,
}

impl<W, D> WorkRefused<W, D> {
    /// [`Status::BadState`] when the loop has ended, [`Status::NoResources`] when the worker thread could not be
    /// started.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Drops what was refused and keeps the reason.
    pub fn into_status(self) -> Status {
        self.status
    }

    /// The work and the callback for its result.
    pub fn into_inner(self) -> (W, D) {
        (self.work, self.done)
    }
}

impl<W, D> fmt::Debug for WorkRefused<W, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkRefused({:?})", self.status)
    }
}

impl<W, D> fmt::Display for WorkRefused<W, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.status {
            Status::NoResources => {
                "the operating system gives no thread for this lane; try again when others have ended"
            }
            _ => "the loop has ended and takes no work any more",
        })
    }
}

impl<W, D> std::error::Error for WorkRefused<W, D> {}

impl<W, D> From<WorkRefused<W, D>> for Status {
    fn from(error: WorkRefused<W, D>) -> Self {
        error.status
    }
}

/// What waits in the loop's table for an item to end.
struct Done {
    callback: Box<dyn FnOnce(&EventLoop)>,
    given: &'static Location<'static>,
}

/// The workers of one loop, and the callbacks that wait for them.
pub(crate) struct WorkTable {
    workers: [Option<Worker>; Lane::ALL.len()],
    done: Slots<Done>,
}

impl WorkTable {
    pub(crate) fn new() -> Self {
        WorkTable { workers: [None, None], done: Slots::new() }
    }

    /// How many items have not come to their end.
    pub(crate) fn outstanding(&self) -> usize {
        self.done.len()
    }

    /// Deals with what has not been started, by policy, and asks what has been to be quick. Answers how many items were
    /// canceled.
    pub(crate) fn begin_shutdown(&self, policies: &WorkPolicies) -> u64 {
        let mut canceled = 0;
        for (lane, worker) in Lane::ALL.into_iter().zip(&self.workers) {
            let Some(worker) = worker else { continue };
            if policies.of(lane) == WorkPolicy::Cancel {
                canceled += worker.cancel_queued();
            }
            worker.hurry();
        }
        canceled
    }

    /// The items that have not come to their end, all of which hold the loop.
    pub(crate) fn holders(&self) -> impl Iterator<Item = Holder> {
        self.done.iter().map(|done| Holder { kind: HolderKind::Work, created: done.given })
    }

    pub(crate) fn take_workers(&mut self) -> impl Iterator<Item = Worker> + use<> {
        std::mem::take(&mut self.workers).into_iter().flatten()
    }
}

/// One piece of work.
struct Item<W, T> {
    state: WorkState,
    inside: Mutex<Inside<W, T>>,
    origin: Arc<LoopShared>,
    /// Its place in the loop's table.
    slot: Key,
    given: &'static Location<'static>,
}

/// What is in an item. The work is taken by the worker, or dropped by it if the item was canceled; then there may be a
/// result already.
struct Inside<W, T> {
    work: Option<W>,
    result: Option<Result<T, WorkError>>,
}

impl<W, T> Item<W, T> {
    fn end(&self, result: Result<T, WorkError>) {
        self.inside.lock().result = Some(result);
        self.origin.tell(LoopEvent::WorkDone(self.slot));
    }
}

impl<W, T> WorkItem for Item<W, T>
where
    W: FnOnce() -> T + Send,
    T: Send,
{
    fn run(&self) {
        let work = self.inside.lock().work.take();
        if !self.state.start() {
            // A tombstone. What the work has captured goes here, on the worker.
            if let Err(message) = caught(|| drop(work)) {
                tracing::error!(%message, "canceled work panicked when it was dropped");
            }
            return;
        }
        if let Some(work) = work {
            self.end(caught(work).map_err(WorkError::Panicked));
        }
    }

    fn cancel(&self) -> bool {
        let canceled = self.state.cancel();
        if canceled {
            self.end(Err(WorkError::Canceled));
        }
        canceled
    }

    fn given(&self) -> &'static Location<'static> {
        self.given
    }
}

impl EventLoop {
    /// Runs `work` on the worker of a lane, and `done` with its result back on this loop.
    ///
    /// Items of one loop and lane run one at a time, in order. `done` is called exactly once, whatever happens: with
    /// the result, with [`WorkError::Canceled`], or with [`WorkError::Panicked`].
    ///
    /// # Errors
    /// [`WorkRefused`] with both functions in it.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::event_loop::{Lane, LoopManager, tid};
    ///
    /// LoopManager::builder()
    ///     .loops(1)
    ///     .setup(0, |event_loop| {
    ///         let sum = || (1..=10).sum::<u32>();
    ///         event_loop
    ///             .work(Lane::Fast, sum, |event_loop, sum| {
    ///                 assert_eq!((sum, tid()), (Ok(55), Some(0)));
    ///                 event_loop.manager().unwrap().shutdown();
    ///             })
    ///             .unwrap();
    ///     })
    ///     .build()?
    ///     .run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The loop itself cannot be taken along:
    /// ```compile_fail,E0277
    /// # // Shows E8, W2.
    /// # use fuchsine_dispatcher::event_loop::{EventLoop, Lane};
    /// fn not_from_a_worker(event_loop: &EventLoop) {
    ///     let captured = event_loop.clone();
    ///     event_loop.work(Lane::Fast, move || captured.tid(), |_, _| {});
    /// }
    /// ```
    #[track_caller]
    pub fn work<T, W, D>(&self, lane: Lane, work: W, done: D) -> Result<WorkHandle, WorkRefused<W, D>>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
        D: FnOnce(&EventLoop, Result<T, WorkError>) + 'static,
    {
        let local = self.local();
        if !local.accepts_arming() {
            return Err(WorkRefused { status: Status::BadState, work, done });
        }
        let mut table = local.work.borrow_mut();
        let worker = &mut table.workers[lane as usize];
        if worker.is_none() {
            let gate = local.at_gate.as_ref().map(|at| at.gate.clone());
            match Worker::start(format!("{}-{}", local.shared.name, lane.name()), lane, gate) {
                Ok(started) => {
                    if local.is_shutting_down() {
                        started.hurry();
                    }
                    *worker = Some(started);
                }
                Err(error) => {
                    tracing::warn!(%error, lane = lane.name(), "could not start a worker");
                    return Err(WorkRefused { status: Status::NoResources, work, done });
                }
            }
        }
        let (given, origin) = (Location::caller(), local.shared.clone());
        let mut made = None;
        table.done.insert_with(|slot| {
            let inside = Mutex::new(Inside { work: Some(work), result: None });
            let item = Arc::new(Item { state: WorkState::new(), inside, origin, slot, given });
            made = Some(item.clone());
            let callback = Box::new(move |event_loop: &EventLoop| {
                let result = item.inside.lock().result.take();
                if let Some(result) = result {
                    done(event_loop, result);
                }
            });
            Done { callback, given }
        });
        let item = made.expect("it was made just now");
        if let Some(worker) = &table.workers[lane as usize] {
            worker.enqueue(item.clone());
        }
        Ok(WorkHandle { item })
    }

    /// A worker, or whoever canceled, says that an item has its result.
    pub(crate) fn finish_work(&self, slot: Key) {
        let done = self.local().work.borrow_mut().done.remove(slot);
        if let Some(done) = done {
            self.call("work", || (done.callback)(self));
        }
    }
}

/// Cancels one piece of work. Dropping it changes nothing.
#[derive(Clone)]
pub struct WorkHandle {
    item: Arc<dyn WorkItem>,
}

impl WorkHandle {
    /// Cancels the work if it has not been started. `true` for the one call that did it: then `done` is told
    /// [`WorkError::Canceled`] at once, not after the items ahead.
    ///
    /// # Thread requirements
    /// Any thread, at any time.
    pub fn cancel(&self) -> bool {
        self.item.cancel()
    }
}

impl fmt::Debug for WorkHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WorkHandle")
    }
}
