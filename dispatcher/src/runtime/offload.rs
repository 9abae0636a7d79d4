//! Offloading: work that may block runs on a lane of the pool, its result comes back as a callback.
//!
//! The operation and the lane share one allocation, in which the work, its result and the callback are. They belong to the
//! operation: whoever ends it first, the worker that starts it, a cancel or the shutdown, takes out what is there, and an
//! item of the lane whose operation has ended is empty and does nothing. Work that no worker started is dropped in the
//! dispatcher's context, with the callback that is told so.

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
use crate::sync::atomic::{AtomicU64, Ordering};
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

/// Where a call is, with what belongs to it there.
enum Call<W, D, T> {
    Waiting(W, D),
    Running(D),
    Finished(Result<T, String>, D),
    /// Everything was taken out.
    Over,
}

/// One call: what the operation and the lane share, in one piece of memory.
struct Offloaded<W, D, T> {
    dispatcher: Weak<DispatcherInner>,
    /// The key of the operation, which is known before the lane gets it.
    id: AtomicU64,
    stop: StopToken,
    call: Mutex<Call<W, D, T>>,
}

impl<W, D, T> Offloaded<W, D, T> {
    fn take(&self) -> Call<W, D, T> {
        std::mem::replace(&mut *self.call.lock(), Call::Over)
    }
}

/// The operation: what the call has goes with it, wherever it ends. `None` when it was taken out.
struct DoneFn<W, D, T>(Option<Arc<Offloaded<W, D, T>>>);

impl<W, D, T> DoneFn<W, D, T> {
    fn take(&mut self) -> Call<W, D, T> {
        self.0.take().map_or(Call::Over, |offloaded| offloaded.take())
    }
}

impl<W, D, T> Drop for DoneFn<W, D, T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl<W, D, T> Invoke for DoneFn<W, D, T>
where
    W: Send + 'static,
    D: FnOnce(Result<T, OffloadError>) + Send + 'static,
    T: Send + 'static,
{
    fn invoke(mut self, _outcome: Outcome) {
        let call = self.take();
        probe::point(Point::Begin);
        match call {
            Call::Finished(Ok(result), done) => done(Ok(result)),
            Call::Finished(Err(message), done) => done(Err(OffloadError::Panicked(message))),
            // Work that runs is waited for.
            Call::Running(done) => done(Err(OffloadError::Canceled)),
            Call::Over => {}
            Call::Waiting(work, done) => {
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

impl<W, D, T> LaneItem for Offloaded<W, D, T>
where
    W: FnOnce(&StopToken) -> T + Send + 'static,
    D: Send + 'static,
    T: Send + 'static,
{
    fn work(&self) -> bool {
        let Some(dispatcher) = self.dispatcher.upgrade() else { return false };
        if !dispatcher.start_offload(self.id()) {
            return false;
        }
        // An operation that runs stays, and what the call has with it.
        if let Some(work) = self.begin() {
            let result = call_stack::as_work_of(&dispatcher, || catch_unwind(AssertUnwindSafe(|| work(&self.stop))));
            self.finish(result.map_err(message_of));
        }
        true
    }

    fn tell(&self) {
        // The work that runs is an operation of it, without whose end it does not go.
        if let Some(dispatcher) = self.dispatcher.upgrade() {
            dispatcher.finish_offload(self.id());
        }
    }
}

impl<W, D, T> Offloaded<W, D, T> {
    fn id(&self) -> OpId {
        // ORDERING: Relaxed; it was written before this was put into the lane, whose lock the worker has taken since.
        OpId::from_key(self.id.load(Ordering::Relaxed))
    }

    /// Takes the work out, to be done.
    fn begin(&self) -> Option<W> {
        let mut call = self.call.lock();
        match std::mem::replace(&mut *call, Call::Over) {
            Call::Waiting(work, done) => {
                *call = Call::Running(done);
                Some(work)
            }
            other => {
                *call = other;
                None
            }
        }
    }

    /// Puts the result beside the callback that is told it.
    fn finish(&self, result: Result<T, String>) {
        let mut call = self.call.lock();
        if let Call::Running(done) = std::mem::replace(&mut *call, Call::Over) {
            *call = Call::Finished(result, done);
        }
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
        let mut stop = Some(self.stop_token());
        let mut parts = Some((work, done));
        let mut made = None;
        probe::point(Point::Post);
        let accepted =
            inner.accept_armed(Stage::Offloaded, Kind::Offload, self.flavour(), Instant::INFINITE, site, || {
                let (work, done) = parts.take().expect("an accepted callback is made once");
                let offloaded = Arc::new(Offloaded {
                    dispatcher: Arc::downgrade(inner),
                    id: AtomicU64::new(0),
                    stop: stop.take().expect("as above"),
                    call: Mutex::new(Call::Waiting(work, done)),
                });
                made = Some(Arc::clone(&offloaded));
                Callback::new(DoneFn(Some(offloaded)))
            });
        let (Ok(id), Some(offloaded)) = (accepted, made) else {
            return Err(PostError::new(parts.take().expect("a refused callback was not made")));
        };
        // ORDERING: Relaxed; whoever reads it gets this from the lane, after its lock.
        offloaded.id.store(id.as_key(), Ordering::Relaxed);
        let handle = OffloadHandle { dispatcher: Arc::downgrade(inner), id };
        let submitted = match probe::refuses(Scarce::Thread) {
            true => Err(std::io::ErrorKind::WouldBlock.into()),
            false => inner.pool().lanes().submit(lane, offloaded),
        };
        match submitted {
            Ok(()) => Ok(handle),
            Err(error) => {
                let Some(erased) = inner.refuse_after_all(id) else {
                    // A shutdown began meanwhile and tells the callback, so it was accepted after all.
                    return Ok(handle);
                };
                let Ok(mut refused) = erased.into_inner::<DoneFn<W, D, T>>() else {
                    unreachable!("the callback is of the type that was stored a moment ago");
                };
                let Call::Waiting(work, done) = refused.take() else { unreachable!("no worker saw it") };
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
