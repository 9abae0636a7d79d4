//! Offloading: work that may block runs on a lane of the pool, its result comes back as a callback.
//!
//! The work waits inside the operation, not in the lane: the lane holds a ticket, which knows the work only weakly. So
//! whoever ends the operation first, the worker that starts it, a cancel or the shutdown, has the work, and a ticket
//! whose operation has ended does nothing. Work that no worker started is dropped in the dispatcher's context, with the callback that is told so.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::active::{ActiveId, ActiveWhat};
use super::call_stack;
use super::callback_queue::{Callback, Invoke, Kind, OpId, Outcome, Stage};
use super::dispatcher::DispatcherInner;
use super::flavour::Flavour;
use super::handle::DispatcherHandle;
use super::inline::Reason;
use super::panic::message_of;
use super::stop_token::StopToken;
use super::task::{CancelError, PostError, TakenBack};
use crate::event_loop::Lane;
use crate::pool::lanes::LaneItem;
use crate::site::Site;
use crate::status::Status;
use crate::sync::probe::{self, Note, Point, Scarce};
use crate::sync::{Arc, Mutex, Weak};
use crate::time::Instant;

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OffloadError {
    /// The dispatcher shut down before a worker started the work.
    #[error("canceled before a worker started it")]
    Canceled,
    /// The work panicked; this is what the panic said.
    #[error("the work panicked: {0}")]
    Panicked(String),
}

impl From<OffloadError> for Status {
    fn from(error: OffloadError) -> Status {
        match error {
            OffloadError::Canceled => Status::Canceled,
            OffloadError::Panicked(_) => Status::Internal,
        }
    }
}

/// What the ticket and the callback share.
enum Cell<W, T> {
    Waiting(W),
    Taken,
    Finished(Result<T, String>),
}

struct DoneFn<W, D, T> {
    cell: Arc<Mutex<Cell<W, T>>>,
    done: D,
}

impl<W, D, T> Invoke for DoneFn<W, D, T>
where
    W: Send + 'static,
    D: FnOnce(Result<T, OffloadError>) + Send + 'static,
    T: Send + 'static,
{
    fn invoke(self, _outcome: Outcome) {
        let DoneFn { cell, done } = self;
        let cell = std::mem::replace(&mut *cell.lock(), Cell::Taken);
        probe::point(Point::Begin);
        match cell {
            Cell::Finished(Ok(result)) => done(Ok(result)),
            Cell::Finished(Err(message)) => done(Err(OffloadError::Panicked(message))),
            Cell::Taken => done(Err(OffloadError::Canceled)),
            Cell::Waiting(work) => {
                // Two closures of the user: a panic of one must not meet one of the other, which would end the process.
                let told = catch_unwind(AssertUnwindSafe(|| done(Err(OffloadError::Canceled))));
                match call_stack::current_dispatcher() {
                    Some(dispatcher) => dispatcher.guard_panic(|| drop(work)),
                    None => drop(work),
                }
                if let Err(payload) = told {
                    resume_unwind(payload);
                }
            }
        }
    }
}

struct Ticket<W, T> {
    dispatcher: Arc<DispatcherInner>,
    id: OpId,
    /// The work belongs to the operation: it goes with it.
    cell: Weak<Mutex<Cell<W, T>>>,
    stop: StopToken,
}

impl<W, T> LaneItem for Ticket<W, T>
where
    W: FnOnce(&StopToken) -> T + Send + 'static,
    T: Send + 'static,
{
    fn run(self: Arc<Self>) {
        if !self.dispatcher.start_offload(self.id) {
            return;
        }
        // An operation that runs stays, and its cell with it. Ours has gone when it may be taken back again.
        if let Some(cell) = self.cell.upgrade() {
            let waiting = std::mem::replace(&mut *cell.lock(), Cell::Taken);
            if let Cell::Waiting(work) = waiting {
                let result =
                    call_stack::as_work_of(&self.dispatcher, || catch_unwind(AssertUnwindSafe(|| work(&self.stop))));
                *cell.lock() = Cell::Finished(result.map_err(message_of));
            }
        }
        self.dispatcher.finish_offload(self.id);
    }
}

impl DispatcherInner {
    /// A worker claims the work of an operation; false when the operation has ended or is about to be canceled.
    fn start_offload(&self, id: OpId) -> bool {
        let mut core = self.lock();
        if core.queue.stage(id) != Some(Stage::Offloaded) {
            return false;
        }
        core.queue.move_to(id, Stage::OffloadRunning);
        probe::note(|| Note::WorkBegun { ticket: id.ticket(self.id()) });
        core.inside.offloads += 1;
        call_stack::make_known();
        if let Some((type_name, location)) = core.queue.origin(id) {
            let what = ActiveWhat::Callback { kind: Kind::Offload, type_name, location };
            // Listed as running on the worker's thread until `finish_offload`, which runs on the same thread.
            // A suspend does not wait for it.
            let _: ActiveId = core.active.enter(what, Flavour::ALWAYS_ON, self.coarse_now());
        }
        true
    }

    /// The worker has put the result into the cell: the callback is ready. In one step, so that a shutdown sees either
    /// work that runs or a result that waits.
    fn finish_offload(self: &Arc<Self>, id: OpId) {
        let mut core = self.lock();
        core.active.exit(ActiveId::of_this_thread(), self.coarse_now());
        core.inside.offloads -= 1;
        core.inline_counts.deferred[Reason::Queued as usize] += 1;
        core.make_ready(self, id, Outcome::Done(0));
        let schedule = core.wants_schedule(self.options().synchronized);
        drop(core);
        if schedule {
            self.schedule();
        }
    }
}

impl DispatcherHandle {
    /// Runs `work` on a worker thread of `lane`, then `done` with its result as a callback of this dispatcher.
    ///
    /// Any dispatcher may offload. `work` sees no current dispatcher and no driver, and has a [`StopToken`] to see a
    /// shutdown coming. At shutdown work that no worker has started ends at once: `done` is told
    /// [`OffloadError::Canceled`]. Work that runs is waited for like a running callback, and `done` gets its result.
    ///
    /// # Errors
    /// [`PostError`] with `work` and `done` when the dispatcher shuts down or has shut down, or when no worker runs and
    /// none can be started.
    ///
    /// # Thread requirements
    /// Any thread.
    ///
    /// # Examples
    /// ```
    /// # use fuchsine_dispatcher::*;
    /// fn load(dispatcher: &DispatcherHandle) -> Result<(), Status> {
    ///     dispatcher.offload(
    ///         Lane::Slow,
    ///         |_stop| std::fs::read("/etc/hostname"),
    ///         |outcome| match outcome {
    ///             Ok(Ok(name)) => println!("{} bytes", name.len()),
    ///             Ok(Err(error)) => println!("cannot read: {error}"),
    ///             Err(error) => println!("{error}"),
    ///         },
    ///     )?;
    ///     Ok(())
    /// }
    /// ```
    #[track_caller]
    pub fn offload<T, W, D>(&self, lane: Lane, work: W, done: D) -> Result<OffloadHandle, PostError<(W, D)>>
    where
        T: Send + 'static,
        W: FnOnce(&StopToken) -> T + Send + 'static,
        D: FnOnce(Result<T, OffloadError>) + Send + 'static,
    {
        self.offload_from(Site::caller(), lane, work, done)
    }

    /// As [`offload`](DispatcherHandle::offload), for code of others: work and callback are listed as posted at `site`.
    ///
    /// # Errors
    /// As [`offload`](DispatcherHandle::offload).
    pub fn offload_from<T, W, D>(
        &self,
        site: Site,
        lane: Lane,
        work: W,
        done: D,
    ) -> Result<OffloadHandle, PostError<(W, D)>>
    where
        T: Send + 'static,
        W: FnOnce(&StopToken) -> T + Send + 'static,
        D: FnOnce(Result<T, OffloadError>) + Send + 'static,
    {
        let inner = self.inner();
        let stop = self.stop_token();
        let mut parts = Some((work, done));
        let mut made_cell = None;
        probe::point(Point::Post);
        let accepted =
            inner.accept_armed(Stage::Offloaded, Kind::Offload, self.flavour(), Instant::INFINITE, site, || {
                let (work, done) = parts.take().expect("an accepted callback is made once");
                let cell = Arc::new(Mutex::new(Cell::Waiting(work)));
                made_cell = Some(Arc::downgrade(&cell));
                Callback::new(DoneFn { cell, done })
            });
        let (Ok(id), Some(cell)) = (accepted, made_cell) else {
            return Err(PostError::new(parts.take().expect("a refused callback was not made")));
        };
        let ticket = Ticket { dispatcher: Arc::clone(inner), id, cell, stop };
        let handle = OffloadHandle { dispatcher: Arc::downgrade(inner), id };
        let submitted = match probe::refuses(Scarce::Thread) {
            true => Err(std::io::ErrorKind::WouldBlock.into()),
            false => inner.pool().lanes().submit(lane, Arc::new(ticket)),
        };
        match submitted {
            Ok(()) => Ok(handle),
            Err(error) => {
                let Some(erased) = inner.refuse_after_all(id) else {
                    // A shutdown began meanwhile and tells the callback, so it was accepted after all.
                    return Ok(handle);
                };
                let Ok(DoneFn { cell, done }) = erased.into_inner::<DoneFn<W, D, T>>() else {
                    unreachable!("the callback is of the type that was stored a moment ago");
                };
                let cell = std::mem::replace(&mut *cell.lock(), Cell::Taken);
                let Cell::Waiting(work) = cell else { unreachable!("no worker saw the ticket") };
                Err(PostError::with_status((work, done), super::status_of_refusal(&error)))
            }
        }
    }
}

/// A handle to offloaded work. Dropping it changes nothing.
#[derive(Clone)]
pub struct OffloadHandle {
    dispatcher: Weak<DispatcherInner>,
    id: OpId,
}

impl OffloadHandle {
    /// Takes the work back, before a worker has started it: neither `work` nor `done` will be called, and both belong
    /// to the caller. A result that is on its way to `done` can be taken back too.
    ///
    /// # Errors
    /// [`CancelError`] when a worker runs it, or `done` has begun or has ended.
    pub fn cancel(&self) -> Result<TakenBack, CancelError> {
        let dispatcher = self.dispatcher.upgrade().ok_or(CancelError)?;
        probe::point(Point::Cancel);
        dispatcher.take_back(self.id).map(TakenBack::new).ok_or(CancelError)
    }
}

impl fmt::Debug for OffloadHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OffloadHandle").field("id", &self.id).finish_non_exhaustive()
    }
}
