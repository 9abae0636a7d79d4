//! `spawn`: a future becomes a live future of a dispatcher.
//!
//! 1. The dispatcher admits it, counts one accepted callback, and lists it.
//! 2. Each wake hands a *runnable* to the dispatcher, which queues it like anything that became ready. Whatever state
//!    the dispatcher is in takes it; while it shuts down the runnable is dropped in its turn, and the future with it.
//! 3. The future ends when its last piece is dropped, in a turn of the dispatcher. How it ended is counted then.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use async_task::Runnable;
use pin_project_lite::pin_project;

use super::join::{JoinError, JoinHandle, Joined};
use crate::runtime::DispatcherHandle;
use crate::runtime::call_stack;
use crate::runtime::callback_queue::{Callback, Invoke, Kind, Outcome};
use crate::runtime::dispatcher::DispatcherInner;
use crate::runtime::live_futures::FutureId;
use crate::site::Site;
use crate::status::{Status, gives_back};
use crate::sync::Arc;
use crate::sync::probe::{self, Fate, Note, Point};

/// A queued wake as a callback.
struct Wake(Runnable);

impl Invoke for Wake {
    fn invoke(self, outcome: Outcome) {
        match outcome {
            Outcome::Done(_) => {
                self.0.run();
            }
            // Dropping the runnable drops the future, here, in context.
            Outcome::Failed(_) | Outcome::Canceled => drop(self.0),
        }
    }
}

/// Counts how a future ended, when the last of it is dropped.
struct Ending {
    dispatcher: Arc<DispatcherInner>,
    id: FutureId,
    finished: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let waker = {
            let mut core = self.dispatcher.lock();
            let fate = if self.finished {
                core.counts.ran += 1;
                Fate::Ran
            } else if core.state.accepts() {
                // Nobody but its handle ends a future early while the dispatcher runs.
                core.counts.taken_back += 1;
                Fate::TakenBack
            } else {
                core.counts.canceled += 1;
                Fate::Canceled
            };
            probe::note(|| Note::FutureEnded { ticket: self.id.ticket(self.dispatcher.id()), fate });
            core.futures.remove(self.id)
        };
        drop(waker);
    }
}

/// Has the dispatcher admit and list a future of type `F`; `None` if it does not.
fn admit<F>(handle: &DispatcherHandle, location: Site) -> Option<FutureId> {
    let dispatcher = handle.inner();
    let mut core = dispatcher.admit().ok()?;
    let id = core.futures.insert();
    probe::note(|| Note::Accepted {
        ticket: id.ticket(dispatcher.id()),
        kind: Kind::Wake.as_str(),
        type_name: location.type_name().unwrap_or_else(std::any::type_name::<F>),
        location,
        deadline: u64::MAX,
        always_on: handle.flavour().is_always_on(),
    });
    Some(id)
}

pin_project! {
    /// A user's future with its panics caught and its end counted.
    struct Tracked<F: Future> {
        // An option, so that it can be dropped before `ending` is.
        #[pin]
        future: Option<F>,
        ending: Ending,
    }

    impl<F: Future> PinnedDrop for Tracked<F> {
        fn drop(this: Pin<&mut Self>) {
            this.drop_future();
        }
    }
}

impl<F: Future> Future for Tracked<F> {
    type Output = Joined<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.as_mut().project();
        let Some(future) = this.future.as_pin_mut() else {
            panic!("a future is not polled again after it has finished");
        };
        probe::point(Point::Await);
        let polled = catch_unwind(AssertUnwindSafe(|| {
            probe::point(Point::Begin);
            future.poll(cx)
        }));
        probe::point(Point::Await);
        let result = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(value)) => Ok(value),
            Err(payload) => {
                let message = crate::runtime::message_of(payload);
                this.ending.dispatcher.report_panic(message.clone());
                Err(JoinError::panicked(message))
            }
        };
        this.ending.finished = true;
        self.as_mut().drop_future();
        Poll::Ready(Joined::new(result, &self.ending.dispatcher))
    }
}

impl<F: Future> Tracked<F> {
    fn new(dispatcher: &Arc<DispatcherInner>, id: FutureId, future: F) -> Self {
        let ending = Ending { dispatcher: Arc::clone(dispatcher), id, finished: false };
        Tracked { future: Some(future), ending }
    }

    /// Drops the future where it lies. One whose drop panics counts as dropped.
    fn drop_future(self: Pin<&mut Self>) {
        let mut this = self.project();
        if this.future.is_none() {
            return;
        }
        let ending = &*this.ending;
        probe::note(|| Note::FutureDropped { ticket: ending.id.ticket(ending.dispatcher.id()) });
        ending.dispatcher.guard_panic(|| this.future.set(None));
    }
}

impl DispatcherHandle {
    /// Spawns a future, which is polled on this dispatcher and nowhere else.
    ///
    /// The handle gives its result; dropping the handle lets the future run on. When the dispatcher shuts down first,
    /// the future is dropped on it, and the handle yields [`JoinError`] with [`Status::Canceled`].
    ///
    /// # Errors
    /// [`SpawnError`] with the future when the dispatcher shuts down or has shut down.
    ///
    /// # Thread requirements
    /// Any thread.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::{DispatcherBuilder, RuntimeBuilder, sleep};
    /// use std::time::Duration;
    ///
    /// let runtime = RuntimeBuilder::new().build()?;
    /// let driver = runtime.new_driver("blinker");
    /// let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().name("led"))?;
    /// let (sender, receiver) = std::sync::mpsc::channel();
    /// let _blinking = dispatcher.spawn(async move {
    ///     sleep(Duration::from_millis(1)).await.expect("nothing shuts down");
    ///     sender.send("on").expect("the receiver waits");
    /// })?;
    /// assert_eq!(receiver.recv()?, "on");
    /// runtime.shutdown(Duration::from_secs(5))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_at(Site::caller(), future, |future| future)
    }

    /// As [`spawn`](DispatcherHandle::spawn), for code of others: the future is listed as spawned at `site`.
    ///
    /// # Errors
    /// As [`spawn`](DispatcherHandle::spawn).
    pub fn spawn_from<F>(&self, site: Site, future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_at(site, future, |future| future)
    }

    /// Spawns what `wrap` makes of a future of the user, which comes back if it is refused.
    #[track_caller]
    pub(super) fn spawn_made<F, G>(
        &self,
        future: F,
        wrap: impl FnOnce(F) -> G,
    ) -> Result<JoinHandle<G::Output>, SpawnError<F>>
    where
        G: Future + Send + 'static,
        G::Output: Send + 'static,
    {
        self.spawn_at(Site::caller(), future, wrap)
    }

    fn spawn_at<F, G>(
        &self,
        location: Site,
        future: F,
        wrap: impl FnOnce(F) -> G,
    ) -> Result<JoinHandle<G::Output>, SpawnError<F>>
    where
        G: Future + Send + 'static,
        G::Output: Send + 'static,
    {
        probe::point(Point::Post);
        let Some(id) = admit::<F>(self, location) else { return Err(SpawnError::shuts_down(future)) };
        let tracked = Tracked::new(self.inner(), id, wrap(future));
        let (runnable, task) = async_task::spawn(tracked, self.waking(location));
        self.begin(id, runnable, location);
        Ok(JoinHandle::new(task))
    }

    /// Spawns a future that need not be `Send`, on a dispatcher [without thread
    /// migration](crate::DispatcherBuilder::no_thread_migration), from one of its own callbacks.
    ///
    /// All of it stays on the thread of the dispatcher: every poll, and the drop, also when it is canceled from elsewhere,
    /// when its waker fires elsewhere, or when the dispatcher shuts down.
    ///
    /// # Errors
    /// [`SpawnError`] with the future when the dispatcher is not the current one, when it may migrate, or when it shuts
    /// down or has shut down. (Fuchsia's Rust library: its local spawn, which is not run in its own tests.)
    ///
    /// # Thread requirements
    /// The dispatcher's own callbacks.
    ///
    /// # Examples
    /// See [`no_thread_migration`](crate::DispatcherBuilder::no_thread_migration).
    #[track_caller]
    pub fn spawn_local<F>(&self, future: F) -> Result<JoinHandle<F::Output>, SpawnError<F>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.spawn_local_made(future, |future| future)
    }

    /// Spawns what `wrap` makes of a local future of the user, which comes back if it is refused.
    #[track_caller]
    pub(super) fn spawn_local_made<F, G>(
        &self,
        future: F,
        wrap: impl FnOnce(F) -> G,
    ) -> Result<JoinHandle<G::Output>, SpawnError<F>>
    where
        G: Future + 'static,
        G::Output: 'static,
    {
        let location = Site::caller();
        if self.allows_thread_migration() || !call_stack::is_current(self.inner()) {
            return Err(SpawnError { given: future, cause: Cause::NotLocal });
        }
        probe::point(Point::Post);
        let Some(id) = admit::<F>(self, location) else { return Err(SpawnError::shuts_down(future)) };
        let tracked = Tracked::new(self.inner(), id, wrap(future));
        // The task itself checks at each poll and at the drop that it is on the thread of this call.
        let (runnable, task) = async_task::spawn_local(tracked, self.waking(location));
        self.begin(id, runnable, location);
        Ok(JoinHandle::new(task))
    }

    fn waking(&self, location: Site) -> impl Fn(Runnable) + Send + Sync + use<> {
        let (dispatcher, flavour) = (Arc::clone(self.inner()), self.flavour());
        move |runnable| {
            // It counts as woken from here on, and its dispatcher has not heard of it.
            probe::point(Point::Wake);
            dispatcher.accept_wake(Callback::new(Wake(runnable)), flavour, location);
        }
    }

    /// Has a future that was admitted polled for the first time.
    fn begin(&self, id: FutureId, runnable: Runnable, location: Site) {
        self.inner().lock().futures.set_waker(id, runnable.waker());
        // As its waker would, which is not needed here.
        self.inner().accept_wake(Callback::new(Wake(runnable)), self.flavour(), location);
    }
}

/// A future was refused: the dispatcher shuts down or has shut down, or it is one that `spawn_local` may not be called on
/// here. It carries the future, unpolled.
pub struct SpawnError<F> {
    given: F,
    cause: Cause,
}

#[derive(Clone, Copy)]
enum Cause {
    ShutsDown,
    NotLocal,
}

impl<F> SpawnError<F> {
    fn shuts_down(future: F) -> Self {
        SpawnError { given: future, cause: Cause::ShutsDown }
    }

    /// [`Status::BadState`].
    pub fn status(&self) -> Status {
        Status::BadState
    }
}

gives_back!(SpawnError);

impl<F> fmt::Display for SpawnError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.cause {
            Cause::ShutsDown => "the future was refused: the dispatcher shuts down",
            Cause::NotLocal => {
                "the local future was refused: it is spawned in a callback of a dispatcher without thread migration only"
            }
        })
    }
}
