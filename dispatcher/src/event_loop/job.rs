//! [`Job`]: a callback of a loop's own, run in the next iteration, without any allocation or atomic operation.
//!
//! Jobs live in a table of their loop, linked into a list by number: one look into the table for each of arming and
//! running. Arming appends to the list, disarming takes out of its middle. Each armed job carries the number of the drain during which it was armed; a drain stops at the
//! first that was armed within it. Hence no job ever runs in the drain that armed it, and what a budget leaves over
//! stays first in line.

use std::fmt;
use std::rc::Rc;

use crate::event_loop::budget::Budget;
use crate::event_loop::event_loop::{EventLoop, Local};
use crate::status::Status;

pub(crate) type Callback = Box<dyn FnMut(&EventLoop)>;

/// The jobs of one loop.
pub(crate) struct JobTable {
    slots: Vec<JobSlot>,
    free: Vec<u32>,
    /// The list of armed jobs, in order. The link back of its first is never looked at.
    first: u32,
    last: u32,
    /// Number of the current drain, or of the last one. It wraps; a job waits through a few drains at most.
    drain: u32,
    closed: bool,
}

/// No job: the end of a list.
const NONE: u32 = u32::MAX;

struct JobSlot {
    /// Absent while it runs, and in a place that nobody uses.
    callback: Option<Callback>,
    /// Grows each time that the place is given up.
    generation: u32,
    previous: u32,
    next: u32,
    /// The drain during which it was armed.
    during_drain: u32,
    armed: bool,
    /// Nobody has a handle any more: it goes when it has run.
    detached: bool,
}

/// Names a job in its table. A place that was given up and is used again has another generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct JobKey {
    index: u32,
    generation: u32,
}

impl JobTable {
    pub(crate) fn new() -> Self {
        JobTable { slots: Vec::new(), free: Vec::new(), first: NONE, last: NONE, drain: 0, closed: false }
    }

    pub(crate) fn has_armed(&self) -> bool {
        self.first != NONE
    }

    /// Whether this drain has another job.
    fn has_next(&self) -> bool {
        self.slots.get(self.first as usize).is_some_and(|slot| slot.during_drain != self.drain)
    }

    fn begin_drain(&mut self) {
        self.drain = self.drain.wrapping_add(1);
    }

    /// # Panics
    /// With 2^32 - 1 jobs in the table.
    fn insert(&mut self, callback: Callback) -> JobKey {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            (slot.callback, slot.detached) = (Some(callback), false);
            return JobKey { index, generation: slot.generation };
        }
        let index = u32::try_from(self.slots.len()).ok().filter(|index| *index != NONE);
        let index = index.expect("a loop has fewer than 2^32 - 1 jobs");
        self.slots.push(JobSlot {
            callback: Some(callback),
            generation: 0,
            previous: NONE,
            next: NONE,
            during_drain: 0,
            armed: false,
            detached: false,
        });
        JobKey { index, generation: 0 }
    }

    fn get(&mut self, key: JobKey) -> Option<&mut JobSlot> {
        self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)
    }

    /// Takes the next job of this drain off the list, with its callback.
    fn next(&mut self) -> Option<(JobKey, Option<Callback>)> {
        let index = self.first;
        let slot = self.slots.get_mut(index as usize)?;
        if slot.during_drain == self.drain {
            return None;
        }
        slot.armed = false;
        self.first = slot.next;
        if self.first == NONE {
            self.last = NONE;
        }
        Some((JobKey { index, generation: slot.generation }, slot.callback.take()))
    }

    fn arm(&mut self, key: JobKey) -> Result<(), JobError> {
        if self.closed {
            return Err(JobError::LoopEnded);
        }
        let (last, during_drain) = (self.last, self.drain);
        let slot = self.get(key).ok_or(JobError::LoopEnded)?;
        if slot.armed {
            return Err(JobError::AlreadyArmed);
        }
        slot.armed = true;
        (slot.previous, slot.next, slot.during_drain) = (last, NONE, during_drain);
        match self.slots.get_mut(last as usize) {
            Some(last) => last.next = key.index,
            None => self.first = key.index,
        }
        self.last = key.index;
        Ok(())
    }

    fn disarm(&mut self, key: JobKey) -> bool {
        let Some(slot) = self.get(key).filter(|slot| slot.armed) else { return false };
        slot.armed = false;
        let (previous, next) = (slot.previous, slot.next);
        let is_first = self.first == key.index;
        if is_first {
            self.first = next;
        } else {
            self.slots[previous as usize].next = next;
        }
        match self.slots.get_mut(next as usize) {
            Some(next) => next.previous = previous,
            None => self.last = if is_first { NONE } else { previous },
        }
        true
    }

    fn is_armed(&mut self, key: JobKey) -> bool {
        self.get(key).is_some_and(|slot| slot.armed)
    }

    /// Puts a callback back after its run; gives it out again if its job has gone meanwhile.
    fn put_back(&mut self, key: JobKey, callback: Callback) -> Option<Callback> {
        match self.get(key) {
            Some(slot) if !slot.detached => slot.callback.replace(callback),
            Some(_) => {
                self.remove(key);
                Some(callback)
            }
            None => Some(callback),
        }
    }

    /// The handle has gone; answers with the callback if nothing is left that could call it.
    fn detach(&mut self, key: JobKey) -> Option<Callback> {
        let slot = self.get(key)?;
        slot.detached = true;
        if !slot.armed && slot.callback.is_some() {
            return self.remove(key);
        }
        None
    }

    fn remove(&mut self, key: JobKey) -> Option<Callback> {
        self.disarm(key);
        let slot = self.get(key)?;
        slot.generation = slot.generation.wrapping_add(1);
        let callback = slot.callback.take();
        self.free.push(key.index);
        callback
    }

    /// Nothing can be armed any more.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Takes all callbacks out, to be dropped by the caller. No key from before names anything.
    pub(crate) fn take_all(&mut self) -> Vec<Callback> {
        (self.first, self.last) = (NONE, NONE);
        let taken = |slot: &mut JobSlot| {
            (slot.generation, slot.armed) = (slot.generation.wrapping_add(1), false);
            slot.callback.take()
        };
        self.free = (0..self.slots.len() as u32).collect();
        self.slots.iter_mut().filter_map(taken).collect()
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
    /// # // Shows E1, J3, J4.
    /// use fuchsine_dispatcher::event_loop::Job;
    /// fn to_another_thread(job: Job) {
    ///     std::thread::spawn(move || job.arm());
    /// }
    /// ```
    pub fn job(&self, callback: impl FnMut(&EventLoop) + 'static) -> Job {
        let key = self.local().jobs.borrow_mut().insert(Box::new(callback));
        Job { owner: self.local().clone(), key, is_attached: true }
    }

    /// Runs the jobs that were armed before this drain, as far as the budget goes.
    pub(crate) fn run_jobs(&self, budget: &mut Budget<'_>) {
        let jobs = &self.local().jobs;
        if !jobs.borrow().has_armed() {
            return;
        }
        jobs.borrow_mut().begin_drain();
        self.before_callbacks();
        // Looked at before the budget, which may read the clock for nothing else.
        while jobs.borrow().has_next() && budget.spend() {
            let next = jobs.borrow_mut().next();
            let Some((key, callback)) = next else { return };
            let Some(mut callback) = callback else { continue };
            self.call_next("job", || callback(self));
            let left = jobs.borrow_mut().put_back(key, callback);
            if left.is_some() {
                self.guarded("job", || drop(left));
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
    key: JobKey,
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Debug, Clone)]
    enum Step {
        Arm(usize),
        Disarm(usize),
        Run(bool),
        Drain,
        Replace(usize),
    }

    const JOBS: usize = 6;

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0..JOBS).prop_map(Step::Arm),
            2 => (0..JOBS).prop_map(Step::Disarm),
            3 => any::<bool>().prop_map(Step::Run),
            1 => Just(Step::Drain),
            1 => (0..JOBS).prop_map(Step::Replace),
        ]
    }

    proptest! {
        /// The table against a queue of names: same jobs run, in the same order, none in the drain that armed it.
        #[test]
        fn the_table_agrees_with_a_plain_queue(steps in prop::collection::vec(step(), 0..200)) {
            let mut table = JobTable::new();
            let mut keys: Vec<_> = (0..JOBS).map(|_| table.insert(Box::new(|_| {}))).collect();
            let (mut queue, mut drain) = (VecDeque::<(usize, u64)>::new(), 0);
            for step in steps {
                let at = |queue: &VecDeque<(usize, u64)>, job| queue.iter().position(|armed| armed.0 == job);
                match step {
                    Step::Arm(job) => {
                        let armed = table.arm(keys[job]);
                        prop_assert_eq!(armed.is_ok(), at(&queue, job).is_none());
                        if armed.is_ok() {
                            queue.push_back((job, drain));
                        }
                    }
                    Step::Disarm(job) => {
                        let found = at(&queue, job);
                        prop_assert_eq!(table.disarm(keys[job]), found.is_some());
                        found.map(|found| queue.remove(found));
                    }
                    Step::Run(rearm) => {
                        let expected = queue.front().copied().filter(|armed| armed.1 != drain);
                        let next = table.next();
                        prop_assert_eq!(next.as_ref().map(|next| next.0), expected.map(|(job, _)| keys[job]));
                        let Some((key, Some(callback))) = next else { continue };
                        let (job, _) = queue.pop_front().expect("it was expected");
                        if rearm {
                            prop_assert_eq!(table.arm(key), Ok(()));
                            queue.push_back((job, drain));
                        }
                        prop_assert!(table.put_back(key, callback).is_none());
                    }
                    Step::Drain => {
                        table.begin_drain();
                        drain += 1;
                    }
                    Step::Replace(job) => {
                        prop_assert!(table.remove(keys[job]).is_some());
                        prop_assert!(table.arm(keys[job]).is_err() && !table.is_armed(keys[job]));
                        at(&queue, job).map(|found| queue.remove(found));
                        keys[job] = table.insert(Box::new(|_| {}));
                    }
                }
                prop_assert_eq!(table.has_armed(), !queue.is_empty());
            }
        }
    }
}
