//! `JobTable`: the jobs of one loop, and the order in which those that are armed run.
//!
//! Armed jobs stand in two rows. Arming appends to the row of those that come *next*; a drain goes through the row of
//! those that are due *now*.
//!
//! 1. A drain that finds the row of now used up makes the other one that row, and runs what is in it. One that finds
//!    something which the budget of an earlier drain has left over runs that.
//! 2. What is armed during a drain stands in the row of those that come next, which that drain does not touch. Hence no
//!    job ever runs in the drain that armed it.
//! 3. A job knows its place in its row. Disarming empties the place, and the drain passes it by.
//! 4. A row has room for twice as many jobs as there are. One that is full nevertheless is half empty places, and is
//!    closed up. So nothing but making a job ever allocates (and the first change of the rows' roles after it).
//!
//! All methods take the table by shared reference. While a callback runs, the drain has borrowed the row of now and the
//! callback itself. Neither is in the way of anything that a callback may do: the places of a row are cells, and rows
//! are borrowed for writing only when a drain begins, when one is closed up or grows (which that of now never does), and
//! at the end of the loop; the callback of a job that goes while it runs is taken out when it has returned.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::event_loop::event_loop::EventLoop;
use crate::event_loop::job::JobError;
use crate::event_loop::slots::{Key, Slots};

pub(super) type Callback = Box<dyn FnMut(&EventLoop)>;

/// The jobs of one loop.
pub(crate) struct JobTable {
    jobs: RefCell<Slots<Rc<JobNode>>>,
    now: RefCell<Row>,
    /// How much of the row of now is used up.
    used_up: Cell<usize>,
    next: RefCell<Row>,
    /// Changes when the rows change roles: the lowest bit of where a job in the row of next stands.
    side: Cell<u32>,
    is_closed: Cell<bool>,
}

/// Places, the first of which are in use, each taken by a job or empty again.
#[derive(Default)]
struct Row {
    places: Vec<Cell<Option<Rc<JobNode>>>>,
    in_use: usize,
}

/// One job, as its table and its handle share it.
pub(super) struct JobNode {
    key: Key,
    /// Borrowed while it runs. Absent when the job has gone.
    callback: RefCell<Option<Callback>>,
    /// Where it stands: twice its place, plus the side of its row. [`NOWHERE`] unless it is armed.
    stands: Cell<u32>,
    fate: Cell<Fate>,
}

/// Where a job stands that is not armed.
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It has a handle.
    Attached,
    /// Nobody has a handle any more: it goes when it has run.
    Detached,
    /// It is not in the table any more.
    Gone,
}

impl JobNode {
    pub(super) fn is_armed(&self) -> bool {
        self.stands.get() != NOWHERE
    }

    /// Calls the callback. (A job that has gone is not armed, so there is one.)
    #[inline]
    pub(super) fn run(&self, event_loop: &EventLoop) {
        if let Some(callback) = &mut *self.callback.borrow_mut() {
            callback(event_loop);
        }
    }

    /// Takes the callback out, unless it runs.
    fn take_callback(&self) -> Option<Callback> {
        self.callback.try_borrow_mut().ok()?.take()
    }
}

impl JobTable {
    pub(crate) fn new() -> Self {
        JobTable {
            jobs: RefCell::new(Slots::new()),
            now: RefCell::default(),
            used_up: Cell::new(0),
            next: RefCell::default(),
            side: Cell::new(0),
            is_closed: Cell::new(false),
        }
    }

    /// # Panics
    /// With 2^29 jobs in the table.
    pub(super) fn insert(&self, callback: Callback) -> Rc<JobNode> {
        let mut jobs = self.jobs.borrow_mut();
        assert!(jobs.len() < 1 << 29, "a loop has fewer than 2^29 jobs");
        let mut made = None;
        jobs.insert_with(|key| {
            let (callback, stands) = (RefCell::new(Some(callback)), Cell::new(NOWHERE));
            made.insert(Rc::new(JobNode { key, callback, stands, fate: Cell::new(Fate::Attached) })).clone()
        });
        self.next.borrow_mut().make_room(jobs.len());
        made.expect("it was made a few lines above")
    }

    /// Whether there is anything for a drain to look at: an armed job, or the place of one that was disarmed.
    #[inline]
    pub(crate) fn has_armed(&self) -> bool {
        self.used_up.get() < self.now.borrow().in_use || self.next.borrow().in_use > 0
    }

    #[inline(always)]
    pub(super) fn arm(&self, node: &Rc<JobNode>) -> Result<(), JobError> {
        if self.is_closed.get() {
            return Err(JobError::LoopEnded);
        }
        if node.is_armed() {
            return Err(JobError::AlreadyArmed);
        }
        let mut next = self.next.borrow_mut();
        if next.places.len() == next.in_use {
            next.close_up(self.side.get());
        }
        next.append(node, self.side.get());
        Ok(())
    }

    pub(super) fn disarm(&self, node: &JobNode) -> bool {
        let stands = node.stands.replace(NOWHERE);
        if stands == NOWHERE {
            return false;
        }
        let row = if stands & 1 == self.side.get() { &self.next } else { &self.now };
        row.borrow().places[(stands >> 1) as usize].take();
        true
    }

    /// Lets what was armed before be due now, unless something is still left over.
    pub(super) fn begin_drain(&self) {
        let mut now = self.now.borrow_mut();
        let in_use = now.in_use;
        let mut rest = now.places[self.used_up.get()..in_use].iter_mut();
        if let Some(empty_places) = rest.position(|place| place.get_mut().is_some()) {
            self.used_up.set(self.used_up.get() + empty_places);
            return;
        }
        now.in_use = 0;
        now.make_room(self.jobs.borrow().len());
        self.used_up.set(0);
        self.side.set(self.side.get() ^ 1);
        std::mem::swap(&mut *now, &mut *self.next.borrow_mut());
    }

    /// Runs what is due now, until that is used up or nothing more may run. Settles first what ran when an earlier call
    /// was unwound from: a job is in `running` while it runs, and until it is settled.
    pub(super) fn drain(
        &self,
        running: &mut Option<Rc<JobNode>>,
        mut may_run: impl FnMut() -> bool,
        mut run: impl FnMut(&JobNode),
    ) {
        self.settle(running);
        let now = self.now.borrow();
        for (at, place) in now.places[..now.in_use].iter().enumerate().skip(self.used_up.get()) {
            let Some(node) = place.take() else { continue };
            // Asked only if there is a job: it may read the clock for this.
            if !may_run() {
                place.set(Some(node));
                return;
            }
            self.used_up.set(at + 1);
            node.stands.set(NOWHERE);
            run(running.insert(node));
            self.settle(running);
        }
        self.used_up.set(now.in_use);
    }

    /// A job has run. If it has gone meanwhile, or goes now, its callback is dropped.
    #[inline]
    fn settle(&self, running: &mut Option<Rc<JobNode>>) {
        let Some(node) = running.take() else { return };
        if node.fate.get() != Fate::Attached {
            drop(self.settle_detached(&node));
        }
    }

    #[cold]
    fn settle_detached(&self, node: &JobNode) -> Option<Callback> {
        if node.fate.get() == Fate::Detached && node.is_armed() { None } else { self.remove(node) }
    }

    /// The handle has gone; answers with the callback if nothing is left that could call it.
    pub(super) fn detach(&self, node: &JobNode) -> Option<Callback> {
        if node.fate.replace(Fate::Detached) == Fate::Gone {
            node.fate.set(Fate::Gone);
            return None;
        }
        // While it runs, `settle` is still to come.
        let is_at_rest = !node.is_armed() && node.callback.try_borrow().is_ok();
        if is_at_rest { self.remove(node) } else { None }
    }

    /// Takes a job out; answers with its callback, unless that runs.
    pub(super) fn remove(&self, node: &JobNode) -> Option<Callback> {
        self.disarm(node);
        node.fate.set(Fate::Gone);
        self.jobs.borrow_mut().remove(node.key);
        node.take_callback()
    }

    /// Nothing can be armed any more.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
    }

    /// Closes the table and takes all callbacks out, to be dropped by the caller.
    pub(crate) fn take_all(&self) -> Vec<Callback> {
        self.close();
        self.now.take();
        self.next.take();
        self.used_up.set(0);
        let nodes = self.jobs.borrow_mut().take_all();
        let taken = |node: Rc<JobNode>| {
            node.stands.set(NOWHERE);
            node.fate.set(Fate::Gone);
            node.take_callback()
        };
        nodes.into_iter().filter_map(taken).collect()
    }
}

impl Row {
    /// Room for twice so many jobs.
    #[inline]
    fn make_room(&mut self, jobs: usize) {
        if self.places.len() < 2 * jobs {
            self.grow(jobs);
        }
    }

    #[cold]
    fn grow(&mut self, jobs: usize) {
        // Twice as much as is needed, so that making jobs one by one seldom comes here.
        self.places.resize_with(4 * jobs, Cell::default);
    }

    /// # Panics
    /// When it is full.
    #[inline]
    fn append(&mut self, node: &Rc<JobNode>, side: u32) {
        let at = self.in_use;
        self.in_use += 1;
        node.stands.set((at as u32) << 1 | side);
        *self.places[at].get_mut() = Some(node.clone());
    }

    /// Takes the empty places out of a full row.
    #[cold]
    fn close_up(&mut self, side: u32) {
        let mut kept = 0;
        for at in 0..self.places.len() {
            if let Some(node) = self.places[at].take() {
                node.stands.set((kept as u32) << 1 | side);
                self.places[kept].set(Some(node));
                kept += 1;
            }
        }
        self.in_use = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn a_row_that_is_armed_and_disarmed_again_and_again_keeps_its_size_and_its_order() {
        let table = JobTable::new();
        let jobs: Vec<_> = (0..3).map(|_| table.insert(Box::new(|_| {}))).collect();
        let places = table.next.borrow().places.len();
        assert_eq!(table.arm(&jobs[0]), Ok(()));
        for _ in 0..1_000 {
            assert_eq!(table.arm(&jobs[1]), Ok(()));
            assert!(table.disarm(&jobs[1]));
        }
        assert_eq!((table.arm(&jobs[2]), table.arm(&jobs[1])), (Ok(()), Ok(())));
        assert_eq!(table.next.borrow().places.len(), places);
        table.begin_drain();
        let mut ran = Vec::new();
        table.drain(&mut None, || true, |node| ran.push(node.key));
        assert_eq!(ran, [0, 2, 1].map(|job: usize| jobs[job].key));
    }

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

    /// Two queues of names: what is due, and what was armed since.
    #[derive(Default)]
    struct Model {
        now: VecDeque<usize>,
        next: VecDeque<usize>,
    }

    impl Model {
        fn remove(&mut self, job: usize) -> bool {
            let before = self.now.len() + self.next.len();
            self.now.retain(|armed| *armed != job);
            self.next.retain(|armed| *armed != job);
            before > self.now.len() + self.next.len()
        }

        fn is_armed(&self, job: usize) -> bool {
            self.now.contains(&job) || self.next.contains(&job)
        }
    }

    proptest! {
        /// The table against plain queues: same jobs run, in the same order, none in the drain that armed it.
        #[test]
        fn the_table_agrees_with_plain_queues(steps in prop::collection::vec(step(), 0..400)) {
            let table = JobTable::new();
            let mut jobs: Vec<_> = (0..JOBS).map(|_| table.insert(Box::new(|_| {}))).collect();
            let mut model = Model::default();
            for step in steps {
                match step {
                    Step::Arm(job) => {
                        let armed = table.arm(&jobs[job]);
                        prop_assert_eq!(armed.is_ok(), !model.is_armed(job));
                        if armed.is_ok() {
                            model.next.push_back(job);
                        }
                    }
                    Step::Disarm(job) => prop_assert_eq!(table.disarm(&jobs[job]), model.remove(job)),
                    Step::Run(rearm) => {
                        let (mut may_run, mut ran) = ([true, false].into_iter(), None);
                        table.drain(&mut None, || may_run.next().unwrap(), |node| {
                            ran = jobs.iter().position(|job| job.key == node.key);
                            if rearm {
                                assert_eq!(table.arm(&jobs[ran.unwrap()]), Ok(()));
                            }
                        });
                        prop_assert_eq!(ran, model.now.pop_front());
                        model.next.extend(ran.filter(|_| rearm));
                    }
                    Step::Drain => {
                        table.begin_drain();
                        if model.now.is_empty() {
                            model.now.append(&mut model.next);
                        }
                    }
                    Step::Replace(job) => {
                        prop_assert!(table.remove(&jobs[job]).is_some());
                        model.remove(job);
                        prop_assert!(!jobs[job].is_armed());
                        jobs[job] = table.insert(Box::new(|_| {}));
                    }
                }
                prop_assert!(table.has_armed() || model.now.is_empty() && model.next.is_empty());
                prop_assert!(jobs.iter().enumerate().all(|(job, node)| node.is_armed() == model.is_armed(job)));
            }
        }
    }
}
