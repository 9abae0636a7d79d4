//! [`Job`]: a callback of a loop's own, run in the next iteration, without any allocation or atomic operation.
//!
//! Jobs live in a table of their loop, linked into a list by number. Arming appends to the list, disarming takes out
//! of its middle. Each armed job carries the number of the drain during which it was armed; a drain stops at the
//! first that was armed within it. Hence no job ever runs in the drain that armed it, and what a budget leaves over
//! stays first in line.

use std::fmt;
use std::rc::Rc;

use crate::event_loop::budget::Budget;
use crate::event_loop::event_loop::{EventLoop, Local};
use crate::event_loop::slots::{Key, Slots};
use crate::status::Status;

pub(crate) type Callback = Box<dyn FnMut(&EventLoop)>;

/// The jobs of one loop.
pub(crate) struct JobTable {
    jobs: Slots<JobSlot>,
    first: Option<Key>,
    last: Option<Key>,
    /// Number of the current drain, or of the last one.
    drain: u64,
    closed: bool,
}

struct JobSlot {
    /// Absent while it runs.
    callback: Option<Callback>,
    armed: Option<Armed>,
    /// Nobody has a handle any more: it goes when it has run.
    detached: bool,
}

struct Armed {
    previous: Option<Key>,
    next: Option<Key>,
    during_drain: u64,
}

impl JobTable {
    pub(crate) fn new() -> Self {
        JobTable { jobs: Slots::new(), first: None, last: None, drain: 0, closed: false }
    }

    pub(crate) fn has_armed(&self) -> bool {
        self.first.is_some()
    }

    pub(crate) fn begin_drain(&mut self) {
        self.drain += 1;
    }

    /// Takes the next job of this drain off the list, with its callback.
    fn next(&mut self) -> Option<(Key, Option<Callback>)> {
        let key = self.first?;
        let slot = self.jobs.get_mut(key)?;
        if slot.armed.as_ref()?.during_drain == self.drain {
            return None;
        }
        let callback = slot.callback.take();
        self.disarm(key);
        Some((key, callback))
    }

    fn arm(&mut self, key: Key) -> Result<(), JobError> {
        if self.closed {
            return Err(JobError::LoopEnded);
        }
        let (previous, during_drain) = (self.last, self.drain);
        let slot = self.jobs.get_mut(key).ok_or(JobError::LoopEnded)?;
        if slot.armed.is_some() {
            return Err(JobError::AlreadyArmed);
        }
        slot.armed = Some(Armed { previous, next: None, during_drain });
        match previous.and_then(|previous| self.jobs.get_mut(previous)?.armed.as_mut()) {
            Some(previous) => previous.next = Some(key),
            None => self.first = Some(key),
        }
        self.last = Some(key);
        Ok(())
    }

    fn disarm(&mut self, key: Key) -> bool {
        let Some(Armed { previous, next, .. }) = self.jobs.get_mut(key).and_then(|slot| slot.armed.take()) else {
            return false;
        };
        match previous.and_then(|previous| self.jobs.get_mut(previous)?.armed.as_mut()) {
            Some(previous) => previous.next = next,
            None => self.first = next,
        }
        match next.and_then(|next| self.jobs.get_mut(next)?.armed.as_mut()) {
            Some(next) => next.previous = previous,
            None => self.last = previous,
        }
        true
    }

    fn is_armed(&mut self, key: Key) -> bool {
        self.jobs.get_mut(key).is_some_and(|slot| slot.armed.is_some())
    }

    /// Puts a callback back after its run; gives it out again if its job has gone meanwhile.
    fn put_back(&mut self, key: Key, callback: Callback) -> Option<Callback> {
        match self.jobs.get_mut(key) {
            Some(slot) if slot.detached => {
                self.remove(key);
                Some(callback)
            }
            Some(slot) => slot.callback.replace(callback),
            None => Some(callback),
        }
    }

    /// The handle has gone; answers with the callback if nothing is left that could call it.
    fn detach(&mut self, key: Key) -> Option<Callback> {
        let slot = self.jobs.get_mut(key)?;
        slot.detached = true;
        if slot.armed.is_none() && slot.callback.is_some() {
            return self.remove(key);
        }
        None
    }

    fn remove(&mut self, key: Key) -> Option<Callback> {
        self.disarm(key);
        self.jobs.remove(key)?.callback
    }

    /// Nothing can be armed any more.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Takes all callbacks out, to be dropped by the caller.
    pub(crate) fn take_all(&mut self) -> Vec<Option<Callback>> {
        (self.first, self.last) = (None, None);
        self.jobs.take_all().into_iter().map(|slot| slot.callback).collect()
    }
}

impl EventLoop {
    /// A callback of this loop, to be armed as often as wanted. Only creating it allocates.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::event_loop::LoopManager;
    ///
    /// let summary = LoopManager::builder()
    ///     .loops(1)
    ///     .setup(0, |event_loop| {
    ///         let manager = event_loop.manager();
    ///         let job = event_loop.job(move |_| manager.as_ref().unwrap().shutdown());
    ///         job.arm().unwrap();
    ///         assert!(job.arm().is_err(), "it is armed already");
    ///         job.detach();
    ///     })
    ///     .build()?
    ///     .run()?;
    /// assert_eq!(summary.panics(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A job cannot be moved to another thread, and hence not be armed on a foreign loop:
    /// ```compile_fail,E0277
    /// use fuchsine_dispatcher::event_loop::Job;
    /// fn to_another_thread(job: Job) {
    ///     std::thread::spawn(move || job.arm());
    /// }
    /// ```
    pub fn job(&self, callback: impl FnMut(&EventLoop) + 'static) -> Job {
        let slot = JobSlot { callback: Some(Box::new(callback)), armed: None, detached: false };
        let key = self.local().jobs.borrow_mut().jobs.insert(slot);
        Job { owner: self.local().clone(), key, is_attached: true }
    }

    /// Runs the jobs that were armed before this drain, as far as the budget goes.
    pub(crate) fn run_jobs(&self, budget: &mut Budget<'_>) {
        let jobs = &self.local().jobs;
        jobs.borrow_mut().begin_drain();
        loop {
            if !jobs.borrow().has_armed() || !budget.spend() {
                return;
            }
            let next = jobs.borrow_mut().next();
            let Some((key, callback)) = next else { return };
            let Some(mut callback) = callback else { continue };
            self.call("job", || callback(self));
            let left = jobs.borrow_mut().put_back(key, callback);
            if left.is_some() {
                self.call("job", || drop(left));
            }
        }
    }
}

/// A callback of one loop, armed and run again and again. Dropping it disarms it.
///
/// # Thread requirements
/// It stays on its loop's thread, which its type makes sure of.
#[must_use = "dropping a job disarms it; `detach` leaves it to its loop"]
pub struct Job {
    owner: Rc<Local>,
    key: Key,
    is_attached: bool,
}

impl Job {
    /// Makes the loop call the callback once, in its next iteration, after those armed before. May be called by the
    /// callback itself.
    ///
    /// # Errors
    /// [`JobError::AlreadyArmed`] when it has not run since it was armed; nothing changes then.
    /// [`JobError::LoopEnded`] when the loop will not run any job again.
    pub fn arm(&self) -> Result<(), JobError> {
        self.owner.jobs.borrow_mut().arm(self.key)
    }

    /// Takes back the arming. Answers whether it was armed.
    pub fn disarm(&self) -> bool {
        self.owner.jobs.borrow_mut().disarm(self.key)
    }

    /// Whether the callback is going to be called.
    pub fn is_armed(&self) -> bool {
        self.owner.jobs.borrow_mut().is_armed(self.key)
    }

    /// Leaves the job to its loop: if it is armed, it still runs, once.
    pub fn detach(mut self) {
        self.is_attached = false;
        let unused = self.owner.jobs.borrow_mut().detach(self.key);
        drop(unused);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.is_attached {
            let callback = self.owner.jobs.borrow_mut().remove(self.key);
            drop(callback);
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job({})", if self.is_armed() { "armed" } else { "idle" })
    }
}

/// Why a job was not armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// It is armed already.
    #[error("the job is armed already; it can be armed again when it has run or was disarmed")]
    AlreadyArmed,
    /// The loop runs no job any more.
    #[error("the loop of this job has ended")]
    LoopEnded,
}

impl JobError {
    /// The condition as a status.
    pub fn status(self) -> Status {
        Status::BadState
    }
}

impl From<JobError> for Status {
    fn from(error: JobError) -> Self {
        error.status()
    }
}
