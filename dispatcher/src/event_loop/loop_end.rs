//! How a loop ends: the phases after `Running`, step by step. What each accepts is in the header of `event_loop.rs`.
//!
//! 1. A shutdown is asked for: what was to be kept until now is dropped (signal handlers), rate limiters and listeners
//!    close, work that was not started is dealt with by policy, and the teardown callbacks are posted to the loop itself,
//!    with a last one behind them that cancels what is pending on the network and starts the time to linger.
//! 2. The loop drains: until there is nothing to run, no work under way, and no timer or wait left that was armed
//!    since step 1; or until the time to linger has passed.
//! 3. The inbox closes, in one step. What was accepted before is run; nothing else is accepted. A pause of this loop's own
//!    is over when nothing is left but to wait.
//! 4. With all work at its end, the workers are joined and all that users left behind is dropped.

use crate::event_loop::event_loop::{EventLoop, NOBODY, Phase};
use crate::event_loop::net::Stage;
use crate::event_loop::panics::caught;
use crate::event_loop::pause::AtGate;
use crate::event_loop::summary::HolderKind;
use crate::event_loop::worker::Worker;

impl EventLoop {
    /// From running to draining. The teardown callbacks go to the end of the inbox, behind all that was posted before.
    pub(super) fn begin_draining(&self) {
        let local = &**self.local();
        if local.phase.get() != Phase::Running {
            return;
        }
        local.phase.set(Phase::Draining);
        drop(local.until_shutdown.take());
        self.shut_limiters_down();
        self.reach_net_stage(Stage::Begin);
        let table = local.work.borrow();
        let outstanding = table.outstanding() as u64;
        let canceled = table.begin_shutdown(&local.policy.work);
        drop(table);
        let mut summary = local.summary.borrow_mut();
        summary.work_canceled_at_shutdown = canceled;
        summary.work_finished_at_shutdown = outstanding - canceled;
        drop(summary);
        let count = local.teardown.borrow().len();
        for _ in 0..count {
            let posted = self.async_run(EventLoop::run_next_teardown);
            debug_assert!(posted.is_ok(), "the inbox closes only after the teardown callbacks");
        }
        let posted = self.async_run(|event_loop| {
            event_loop.reach_net_stage(Stage::Cancel);
            let local = &**event_loop.local();
            let until = event_loop.now() + local.policy.linger;
            // The timer wakes a loop that sleeps through its time to linger.
            let timer = local.reactor.arm_timer(until, local.shared.clone(), NOBODY);
            local.linger_until.set(Some((until, timer)));
        });
        debug_assert!(posted.is_ok(), "the inbox closes only after this");
    }

    /// Teardown callbacks need not be `Send`, so they stay here and are called by number.
    fn run_next_teardown(&self) {
        let callback = {
            let mut teardown = self.local().teardown.borrow_mut();
            if teardown.is_empty() { None } else { Some(teardown.remove(0)) }
        };
        if let Some(callback) = callback {
            callback(self);
        }
    }

    pub(super) fn close_if_lingered(&self) {
        let local = &**self.local();
        if local.phase.get() == Phase::Draining
            && local.linger_until.get().is_some_and(|(until, _)| until <= self.now())
        {
            self.close_inbox();
        }
    }

    /// Goes on to the next phase if nothing is left to do in this one. Answers whether it did.
    pub(super) fn advance_shutdown(&self) -> bool {
        let local = &**self.local();
        let outstanding = local.work.borrow().outstanding();
        match local.phase.get() {
            // The cheap questions first: holders are looked for among all timers.
            Phase::Draining if local.linger_until.get().is_some() && outstanding == 0 && self.holders().is_empty() => {
                self.close_inbox();
                true
            }
            Phase::Closing if outstanding > 0 => {
                if let Some(AtGate { gate, tid }) = &local.at_gate {
                    // A guard that is still around would keep this loop's own workers from finishing.
                    gate.end(*tid);
                }
                false
            }
            Phase::Closing => {
                local.phase.set(Phase::Ended);
                true
            }
            _ => false,
        }
    }

    /// From draining to closing: what has been accepted is still run, nothing else is accepted.
    fn close_inbox(&self) {
        let local = &**self.local();
        // Work is not dropped, it is waited for.
        let dropped: Vec<_> = self.holders().into_iter().filter(|holder| holder.kind != HolderKind::Work).collect();
        for holder in &dropped {
            tracing::warn!(loop_name = local.shared.name, %holder, "dropped at the end of its loop");
        }
        local.summary.borrow_mut().dropped = dropped;
        local.phase.set(Phase::Closing);
        self.reach_net_stage(Stage::End);
        *local.last_tasks.borrow_mut() = local.shared.inbox.close();
        local.jobs.close();
        local.timers.borrow().iter().for_each(|slot| slot.stop(local));
        let mut waits = local.waits.borrow_mut();
        waits.iter_mut().for_each(|slot| slot.disarm(local));
    }

    /// Drops all that users left in the loop, and its workers. Stands still if another loop pauses, and does not hold up a
    /// pause while it waits for its workers, which may be halted.
    pub(super) fn leave(&self) {
        let local = &**self.local();
        drop(local.shared.events.close());
        self.clear_alarm();
        if let Some((_, timer)) = local.linger_until.take() {
            local.reactor.cancel_timer(timer);
        }
        let workers = local.work.borrow_mut().take_workers();
        let join = move || workers.for_each(Worker::join);
        match &local.at_gate {
            Some(AtGate { gate, tid }) => {
                gate.end(*tid);
                gate.standing(*tid, join);
            }
            None => join(),
        }
        let hooks = local.hooks.borrow_mut().take_all();
        let jobs = local.jobs.take_all();
        let timers = local.timers.borrow_mut().take_all();
        let waits = local.waits.borrow_mut().take_all();
        let events = local.events.take();
        let deferred = local.deferred.borrow_mut().take_all();
        if let Err(message) = caught(move || drop((hooks, jobs, timers, waits, events, deferred))) {
            tracing::error!(message, "a callback that was left in a loop panicked when it was dropped");
        }
        self.drop_locals();
    }
}
