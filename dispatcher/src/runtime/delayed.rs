//! Tasks with a deadline.
//!
//! The operation is accepted and its timer put among those of the reactor in one step, under the lock; if the timer is the
//! next one, the reactor's alarm is set after that, without the lock.
//!
//! A timer that is armed for an operation which is there already, as for a call, is armed without the lock. If it fires
//! before its number was noted, it finds the operation all the same, because it carries the operation's own id; an operation
//! that ended before its number was noted hands the timer back to be taken down.

use std::time::Duration;

use super::call_stack;
use super::callback_queue::{Callback, Details, Entry, EventSource, Invoke, Kind, OpId, Outcome, Stage};
use super::dispatcher::{DispatcherInner, NotAccepted};
use super::flavour::Flavour;
use super::handle::DispatcherHandle;
use super::task::{PostError, TaskFn, TaskHandle};
use crate::event_loop::{EventTarget, Fired, Told};
use crate::site::Site;
use crate::status::{Canceled, Status};
use crate::sync::Arc;
use crate::sync::probe::{self, Point};
use crate::time::Instant;

impl EventTarget for DispatcherInner {
    fn fire(self: Arc<Self>, key: u64, fired: Fired, last: bool) -> Told {
        let payload = match fired {
            Fired::Timer { .. } => 0,
            Fired::Ready(readiness) => u64::from(readiness.bits()),
        };
        self.take_event(OpId::from_key(key), Outcome::Done(payload), last)
    }

    fn run_here(self: Arc<Self>) {
        self.run_claimed();
    }
}

impl DispatcherInner {
    /// Accepts a callback that waits for a deadline, which has not come at `now`. `make` is called only if it is accepted.
    #[inline]
    fn accept_delayed(
        self: &Arc<Self>,
        now: Instant,
        flavour: Flavour,
        deadline: Instant,
        location: Site,
        make: impl FnOnce() -> Callback,
    ) -> Result<OpId, NotAccepted> {
        let (poster, source) = (call_stack::poster(), EventSource::None);
        let details = Details { deadline, source, poster, location, accepted_at: now };
        let mut core = self.admit()?;
        let entry = Entry { callback: make(), kind: Kind::Delayed, flavour, outcome: Outcome::Done(0) };
        let id = core.queue.insert(entry, details, Stage::Delayed);
        core.note_accepted(self.id(), id);
        if core.sleeps_through(id) {
            return Ok(id);
        }
        let target: Arc<dyn EventTarget> = Arc::clone(self) as Arc<dyn EventTarget>;
        let timer = self.pool().reactor().put_timer(deadline, target, id.as_key());
        if let Some(details) = core.queue.details_mut(id) {
            details.source = EventSource::Timer(timer);
        }
        drop(core);
        self.pool().reactor().heed_timer(deadline);
        Ok(id)
    }

    /// Arms the timer of an operation that was accepted before.
    pub(crate) fn arm_timer(self: &Arc<Self>, id: OpId, deadline: Instant) {
        let target: Arc<dyn EventTarget> = Arc::clone(self) as Arc<dyn EventTarget>;
        let timer = self.pool().reactor().arm_timer(deadline, target, id.as_key());
        if let Err(source) = self.set_source(id, EventSource::Timer(timer)) {
            self.take_down(source);
        }
    }
}

impl DispatcherHandle {
    /// Posts a task that runs once `deadline` has come, never earlier. Equal deadlines run in the order of the posts.
    ///
    /// A deadline that is not in the future makes it an ordinary task.
    ///
    /// # Errors
    /// [`PostError`] with the task: [`Status::InvalidArgs`] for [`Instant::INFINITE`], [`Status::BadState`] when the
    /// dispatcher shuts down or has shut down.
    ///
    /// # Thread requirements
    /// Any thread. Arming and canceling take the same time however many timers are armed.
    #[track_caller]
    pub fn post_at<F>(&self, deadline: Instant, task: F) -> Result<TaskHandle, PostError<F>>
    where
        F: FnOnce(Result<(), Canceled>) + Send + 'static,
    {
        self.post_at_from(Site::caller(), deadline, task)
    }

    /// As [`post_at`](DispatcherHandle::post_at), for code of others: the task is listed as posted at `site`.
    ///
    /// # Errors
    /// As [`post_at`](DispatcherHandle::post_at).
    pub fn post_at_from<F>(&self, site: Site, deadline: Instant, task: F) -> Result<TaskHandle, PostError<F>>
    where
        F: FnOnce(Result<(), Canceled>) + Send + 'static,
    {
        self.post_delayed(site, self.inner().exact_now(), deadline, task)
    }

    fn post_delayed<F>(&self, site: Site, now: Instant, deadline: Instant, task: F) -> Result<TaskHandle, PostError<F>>
    where
        F: FnOnce(Result<(), Canceled>) + Send + 'static,
    {
        let mut task = Some(task);
        let make = || TaskFn(task.take().expect("an accepted task is made once"));
        self.post_made_at_from(site, now, deadline, make)
            .map_err(|status| PostError::with_status(task.take().expect("a refused task was not made"), status))
    }

    /// Like [`post_made`](DispatcherHandle::post_made), once `deadline` has come; `now` has just been read.
    #[track_caller]
    pub(crate) fn post_made_at<C: Invoke>(
        &self,
        now: Instant,
        deadline: Instant,
        make: impl FnOnce() -> C,
    ) -> Result<TaskHandle, Status> {
        self.post_made_at_from(Site::caller(), now, deadline, make)
    }

    fn post_made_at_from<C: Invoke>(
        &self,
        location: Site,
        now: Instant,
        deadline: Instant,
        make: impl FnOnce() -> C,
    ) -> Result<TaskHandle, Status> {
        let inner = self.inner();
        if deadline.is_infinite() {
            inner.count_refusal();
            return Err(Status::InvalidArgs);
        }
        if deadline <= now {
            return self.post_made_from(location, make);
        }
        probe::point(Point::Post);
        let make = || Callback::new(make());
        let accepted = inner.accept_delayed(now, self.flavour(), deadline, location, make);
        let id = accepted.map_err(|_| Status::BadState)?;
        Ok(TaskHandle::new(inner, id))
    }

    /// Posts a task that runs once `delay` has passed, by the runtime's clock.
    ///
    /// # Errors
    /// As [`post_at`](DispatcherHandle::post_at); a delay beyond the range of the clock counts as infinite.
    #[track_caller]
    pub fn post_after<F>(&self, delay: Duration, task: F) -> Result<TaskHandle, PostError<F>>
    where
        F: FnOnce(Result<(), Canceled>) + Send + 'static,
    {
        let now = self.inner().exact_now();
        self.post_delayed(Site::caller(), now, now + delay, task)
    }
}
