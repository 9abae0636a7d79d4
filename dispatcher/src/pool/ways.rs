//! The ways in which a pool that is driven by hand can go on, for whoever explores other orders than the usual one.
//!
//! All of them are legal: threads could have taken any of what is runnable first. Where the order is promised, in a
//! dispatcher and among due timers, there is one way.

use super::batons::{Baton, Job};
use super::hosts::Place;
use super::run_queue;
use super::{Pool, Task};
use crate::event_loop::Lane;
use crate::sync::Arc;
use crate::sync::probe::{self, Actor, Choice};

/// One way to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// A turn of what has this place among the runnable.
    Run(usize),
    /// The first item of a lane.
    Work(Lane),
    /// An event that is due.
    Take,
}

impl Pool {
    /// Whether there is any way to go on.
    pub(crate) fn can_go_on(&self) -> bool {
        let is_runnable = !self.by_hand.runnable.lock().is_empty() || !self.queue.is_empty();
        is_runnable || self.lanes.waiting_by_hand().next().is_some() || self.reactor.has_due()
    }

    /// All ways to go on, in the order in which [`run_one`](Pool::run_one) would come to them; `nth` is the pool's place
    /// among those of its runtime. A helper that has stepped aside in the last turn is left out, once.
    pub(crate) fn ways(&self, nth: usize) -> Vec<(Way, Actor)> {
        let mut runnable = self.by_hand.runnable.lock();
        runnable.extend(std::iter::from_fn(|| self.queue.steal_injected()));
        // What can only run on the thread that turns the crank must not wait there for one who stands aside.
        let is_interrupted = probe::is_interrupted();
        let may_run = |task: &Task| !(is_interrupted && matches!(task.place(), Place::On(_)));
        let has_turn = |task: &Task| may_run(task) && !task.helper().is_some_and(Baton::take_aside);
        let ready = runnable.iter().enumerate().filter(|(_, task)| has_turn(task));
        let mut ways: Vec<_> = ready.map(|(at, task)| (Way::Run(at), task.actor())).collect();
        drop(runnable);
        let work = |lane| (Way::Work(lane), Actor::Work { pool: nth, lane: lane as usize });
        ways.extend(self.lanes.waiting_by_hand().map(work));
        if self.reactor.has_due() {
            ways.push((Way::Take, Actor::Events { pool: nth }));
        }
        ways
    }

    /// Goes on in one of the [`ways`](Pool::ways) that were just listed.
    pub(crate) fn go(self: &Arc<Self>, way: Way) {
        match way {
            Way::Run(at) => {
                let task = self.by_hand.runnable.lock().remove(at);
                if let Some(task) = task {
                    self.make_turn(task);
                }
            }
            Way::Work(lane) => {
                if let Some(item) = self.lanes.take_from(lane) {
                    self.batons().begin(self, Job::Work(item));
                }
            }
            Way::Take if probe::is_interrupted() => {
                let pool = Arc::clone(self);
                let take = move || run_queue::as_current(pool.id(), || pool.take_one_event());
                self.batons().begin(self, Job::Call(Box::new(take)));
            }
            Way::Take => self.take_one_event(),
        }
    }

    fn take_one_event(&self) {
        let Some(lead) = self.reactor.try_lead() else { return };
        let batch = self.reactor.poll_one(|of| probe::choose(Choice::Event, of));
        batch.tell(lead).run();
    }
}
