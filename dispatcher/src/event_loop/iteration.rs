//! One iteration of a loop, and the run of iterations.
//!
//! Each iteration does, in this order, each kind of callback within its [budget](crate::event_loop::budget), so that none
//! starves another:
//!
//! 1. stand still, if another loop of the manager pauses;
//! 2. look for timers that are due, and for events, unless it has just slept, which looks for them; then call the check
//!    hooks;
//! 3. timers and waits that are due, results of work, outcomes of the network;
//! 4. asynchronous callbacks, from this thread and others;
//! 5. jobs that were armed before;
//! 6. the workload, if the loop is one of a pool;
//! 7. idle hooks, then prepare hooks.
//!
//! When nothing is left it sleeps until the next deadline, event or post. So between the prepare hooks of one iteration
//! and the check hooks of the next nothing of the loop runs.

use crate::event_loop::budget::{Budget, CALLBACKS};
use crate::event_loop::current::{self, Entered};
use crate::event_loop::event_loop::{EventLoop, Phase, WAIT_KEY};
use crate::event_loop::handle::LoopEvent;
use crate::event_loop::hook::HookKind;
use crate::event_loop::reactor::{Fired, PollMode};
use crate::event_loop::slots::Key;
use crate::event_loop::summary::LoopSummary;

impl EventLoop {
    /// One iteration, without sleeping. Answers whether there is more to do at once.
    #[cfg(test)]
    pub(crate) fn iterate(&self) -> bool {
        let _entered: Entered = current::enter(self);
        self.turn()
    }

    /// Runs until a shutdown has been asked for and is complete.
    pub(crate) fn run(&self) -> LoopSummary {
        let local = &**self.local();
        let _counted = local.at_gate.clone().map(|at| at.leave_when_dropped());
        let _entered: Entered = current::enter(self);
        loop {
            let more = self.turn();
            self.close_if_lingered();
            let more = more || local.workload.borrow_mut().before_park();
            if more || self.advance_shutdown() {
                continue;
            }
            if local.phase.get() == Phase::Ended {
                break;
            }
            if local.hooks.borrow().has(HookKind::Idle) {
                continue;
            }
            if !self.set_alarm() {
                continue;
            }
            match local.has_own_poll() {
                true => self.poll(PollMode::Block),
                false => local.shared.parker.park(),
            }
            local.has_slept.set(true);
        }
        self.leave();
        LoopSummary { callbacks: local.callbacks.get(), ..local.summary.take() }
    }

    fn turn(&self) -> bool {
        let local = &**self.local();
        if let Some(at_gate) = &local.at_gate {
            at_gate.pass();
        }
        let clock = local.reactor.clock();
        let has_slept = local.has_slept.replace(false);
        self.take_due_timers(has_slept);
        if !local.shared.events.is_empty() {
            local.events.borrow_mut().extend(local.shared.events.take_all());
        }
        let until_poll = local.until_poll.get();
        local.until_poll.set(if until_poll == 0 { local.poll_every } else { until_poll } - 1);
        if until_poll == 0 && !has_slept {
            self.poll(PollMode::NonBlocking);
        }
        self.run_hooks(HookKind::Check);
        self.run_events(&mut Budget::new(clock));
        self.run_deferred(&mut Budget::new(clock));
        self.run_tasks(&mut Budget::new(clock));
        self.run_jobs(&mut Budget::new(clock));
        let more = local.workload.borrow_mut().run(CALLBACKS);
        self.run_hooks(HookKind::Idle);
        self.run_hooks(HookKind::Prepare);
        more || self.has_more()
    }

    /// Polls and delivers, unless another thread is at it.
    fn poll(&self, mode: PollMode) {
        let local = &**self.local();
        let mut own_poll = local.own_poll.borrow_mut();
        let lead = match &mut *own_poll {
            Some(own_poll) => Some(own_poll.lead(&local.reactor)),
            None => local.reactor.try_lead(),
        };
        let Some(mut lead) = lead else { return };
        let batch = lead.poll(mode);
        if !batch.is_empty() {
            batch.tell(lead).run();
        }
    }

    fn has_more(&self) -> bool {
        let local = &**self.local();
        !local.events.borrow().is_empty()
            || !local.tasks.borrow().is_empty()
            || !local.last_tasks.borrow().is_empty()
            || !local.shared.inbox.is_empty()
            || !local.shared.events.is_empty()
            || !local.deferred.borrow().is_empty()
            || local.jobs.has_armed()
    }

    fn run_events(&self, budget: &mut Budget<'_>) {
        let events = &self.local().events;
        // Only what is there now: what a callback leads to waits for the next iteration.
        let there = events.borrow().len();
        for _ in 0..there {
            if !budget.spend() {
                return;
            }
            let event = events.borrow_mut().pop_front();
            match event {
                Some(LoopEvent::Fired(key, Fired::Timer { deadline })) => {
                    self.fire_timer(Key::from_bits(key & !WAIT_KEY), deadline);
                }
                Some(LoopEvent::Fired(key, Fired::Ready(ready))) => {
                    self.fire_wait(Key::from_bits(key & !WAIT_KEY), ready)
                }
                Some(LoopEvent::WorkDone(slot)) => self.finish_work(slot),
                Some(LoopEvent::TimerStopped(key)) => self.local().loop_timers.cancel(key),
                Some(LoopEvent::TimerGone(slot)) => self.remove_timer(slot),
                Some(LoopEvent::Shutdown) => self.begin_draining(),
                None => return,
            }
        }
    }

    fn run_tasks(&self, budget: &mut Budget<'_>) {
        let local = &**self.local();
        if local.tasks.borrow().is_empty() && !self.take_tasks() {
            return;
        }
        self.before_callbacks();
        // Looked at before the budget, which may read the clock for nothing else.
        while !local.tasks.borrow().is_empty() && budget.spend() {
            let task = local.tasks.borrow_mut().next();
            let Some(task) = task else { break };
            self.call_next("async", || task.call(self));
        }
    }

    /// Takes what has been posted since, and when that is all, what was there when the inbox was closed. Answers whether
    /// there is any.
    fn take_tasks(&self) -> bool {
        let local = &**self.local();
        if !local.shared.inbox.is_empty() {
            *local.tasks.borrow_mut() = local.shared.inbox.take_all();
        } else if !local.last_tasks.borrow().is_empty() {
            local.tasks.swap(&local.last_tasks);
        } else {
            return false;
        }
        true
    }
}
