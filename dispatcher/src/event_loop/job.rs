//! [`Job`]: a callback of a loop's own, run in the next iteration, without any allocation or atomic operation.
//!
//! Which jobs are armed, and in which order they run, is in `job_table.rs`.
//!
//! A drain is guarded against panics as a whole. The job that panicked is found where the drain had left it; then the
//! drain goes on, under a new guard, with the next.

use std::fmt;
use std::rc::Rc;

use crate::event_loop::budget::Budget;
use crate::event_loop::event_loop::{EventLoop, Local};
use crate::event_loop::job_table::JobNode;
use crate::status::Status;

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
    /// # // Shows E1, J3, J4.
    /// use fuchsine_dispatcher::event_loop::Job;
    /// fn to_another_thread(job: Job) {
    ///     std::thread::spawn(move || job.arm());
    /// }
    /// ```
    pub fn job(&self, callback: impl FnMut(&EventLoop) + 'static) -> Job {
        let node = self.local().jobs.insert(Box::new(callback));
        Job { owner: self.local().clone(), node, is_attached: true }
    }

    /// Runs the jobs that were armed before this drain, as far as the budget goes.
    pub(crate) fn run_jobs(&self, budget: &mut Budget<'_>) {
        let jobs = &self.local().jobs;
        if !jobs.has_armed() {
            return;
        }
        jobs.begin_drain();
        self.before_callbacks();
        // One guard for many jobs: whatever runs when it catches something has panicked, and the rest goes on behind it.
        let mut running = None;
        let mut drain = || {
            let run = |job: &JobNode| {
                self.count_callback();
                job.run(self);
            };
            jobs.drain(&mut running, || budget.spend(), run);
        };
        while self.guarded("job", &mut drain).is_none() {}
    }
}

/// A callback of one loop, armed and run again and again. Dropping it disarms it.
///
/// # Thread requirements
/// It stays on its loop's thread, which its type makes sure of.
#[must_use = "dropping a job disarms it; `detach` leaves it to its loop"]
pub struct Job {
    owner: Rc<Local>,
    node: Rc<JobNode>,
    is_attached: bool,
}

impl Job {
    /// Makes the loop call the callback once, in its next iteration, after those armed before. May be called by the
    /// callback itself. (What the budget of an iteration leaves over runs first, in the next one, alone.)
    ///
    /// # Errors
    /// [`JobError::AlreadyArmed`] when it has not run since it was armed; nothing changes then.
    /// [`JobError::LoopEnded`] when the loop will not run any job again.
    #[inline]
    pub fn arm(&self) -> Result<(), JobError> {
        self.owner.jobs.arm(&self.node)
    }

    /// Takes back the arming. Answers whether it was armed.
    pub fn disarm(&self) -> bool {
        self.owner.jobs.disarm(&self.node)
    }

    /// Whether the callback is going to be called.
    pub fn is_armed(&self) -> bool {
        self.node.is_armed()
    }

    /// Leaves the job to its loop: if it is armed, it still runs, once.
    pub fn detach(mut self) {
        self.is_attached = false;
        drop(self.owner.jobs.detach(&self.node));
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.is_attached {
            drop(self.owner.jobs.remove(&self.node));
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
