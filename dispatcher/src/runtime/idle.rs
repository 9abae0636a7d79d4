//! Waiting for rest: until a dispatcher or a whole runtime is idle, and until dispatchers and drivers are gone.
//!
//! *Idle* means that nothing runs and nothing is ready to: no thread is inside, nothing is queued, no work is offloaded.
//! What waits for something else (timers, waits, reads, parked work, futures that nobody wakes) does not count. A
//! dispatcher that shuts down is idle when it is gone.
//!
//! Whoever waits counts itself under the dispatcher's lock and sleeps on the dispatcher's own condition variable;
//! whoever makes it idle looks at that count, under the same lock. So nothing is lost, and nobody pays while nobody
//! waits. Every wake-up looks at the condition again: it may come for no reason, and news may have come meanwhile.
//!
//! A runtime is idle when all its dispatchers were idle at one moment. They are looked at twice: if each is idle both
//! times, and nothing has become ready or ended on any of them between, then all were idle between the two looks.

use std::cell::Cell;
use std::time::Duration;

use super::callback_queue::{Kind, Stage};
use super::core::Core;
use super::dispatcher::DispatcherInner;
use super::driver::Driver;
use super::driver_inner::DriverInner;
use super::dump::RuntimeDump;
use super::handle::DispatcherHandle;
use super::ids::DispatcherId;
use super::runtime_inner::RuntimeInner;
use super::state::{DispatcherState, Inside};
use super::{Runtime, ShutdownError};
use crate::status::Status;
use crate::sync::{Arc, Wakeup};
use crate::time::{Clock, Instant};

/// What was waited for has not come about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitUntilError {
    /// The calling thread is one of those that would have to bring it about, or there are no threads that could: a
    /// foreground runtime is turned by its crank.
    #[error("cannot wait here for what this thread, or no thread, would bring about")]
    BadState,
    /// The time was up first.
    #[error("not within the time given; still busy:\n{}", .0.stuck())]
    TimedOut(Box<RuntimeDump>),
}

impl WaitUntilError {
    /// The condition as a status.
    pub fn status(&self) -> Status {
        match self {
            WaitUntilError::BadState => Status::BadState,
            WaitUntilError::TimedOut(_) => Status::TimedOut,
        }
    }
}

impl From<WaitUntilError> for Status {
    fn from(error: WaitUntilError) -> Status {
        error.status()
    }
}

/// A number that stands still only while a dispatcher does.
type Activity = (DispatcherId, u64);

impl Core {
    /// Whether nothing runs and nothing is ready to.
    pub(super) fn is_idle(&self) -> bool {
        match self.state {
            DispatcherState::Running => {
                self.inside == Inside::default()
                    && !self.inbox_is_open
                    && self.queue.is_ready_empty()
                    && self.queue.len_of(Stage::Offloaded) == 0
            }
            DispatcherState::ShuttingDown | DispatcherState::Shutdown => false,
            DispatcherState::Destroyed => true,
        }
    }

    /// Grows with everything that becomes ready, and with everything that ends: an inline call is never queued.
    fn activity(&self) -> u64 {
        self.queue.readied() + self.counts.ran + self.counts.canceled + self.counts.taken_back
    }

    fn has_queued_tasks(&self) -> bool {
        let queued = [Stage::Ready, Stage::Parked, Stage::ParkedWake].into_iter();
        let mut queued = queued.flat_map(|stage| self.queue.pending(stage));
        queued.any(|pending| matches!(pending.kind, Kind::Task | Kind::Delayed))
    }
}

impl DispatcherInner {
    /// Tells those that wait, if there are any and it is idle. Called wherever it may have become idle.
    pub(super) fn tell_if_idle(&self, core: &Core) {
        if core.idle_waiters > 0
            && core.is_idle()
            && let Some(became_idle) = core.seldom.became_idle()
        {
            became_idle.notify_all();
        }
    }

    /// Sleeps until it is idle; false at the deadline, which is one of the real clock.
    fn wait_until_idle(&self, deadline: Instant) -> bool {
        let mut core = self.lock();
        core.idle_waiters += 1;
        let became_idle = core.seldom.became_idle_or_new();
        let mut in_time = true;
        while in_time && !core.is_idle() {
            in_time = became_idle.wait_until(&mut core, deadline) != Wakeup::TimedOut;
        }
        core.idle_waiters -= 1;
        core.is_idle()
    }

    fn activity_if_idle(&self) -> Option<Activity> {
        let core = self.lock();
        core.is_idle().then(|| (self.id(), core.activity()))
    }
}

impl DriverInner {
    /// Whether none of its dispatchers exists and none of its observers runs or is still to run.
    pub(super) fn is_at_its_end(&self) -> bool {
        self.has_no_dispatcher() && (self.is_open() || self.is_over())
    }
}

impl RuntimeInner {
    fn dispatchers(&self) -> Vec<Arc<DispatcherInner>> {
        self.drivers().iter().flat_map(|driver| driver.dispatchers()).collect()
    }

    /// The activity of all dispatchers; `None` if one is not idle.
    fn activity_if_idle(&self) -> Option<Vec<Activity>> {
        self.dispatchers().iter().map(|dispatcher| dispatcher.activity_if_idle()).collect()
    }

    /// Whether all dispatchers were idle at one moment of this call.
    fn is_idle(&self) -> bool {
        self.is_idle_at_two_looks(|| ())
    }

    fn is_idle_at_two_looks(&self, between: impl FnOnce()) -> bool {
        let first = self.activity_if_idle();
        between();
        first.is_some() && first == self.activity_if_idle()
    }

    fn wait_until_idle(&self, deadline: Instant) -> bool {
        loop {
            for dispatcher in self.dispatchers() {
                if !dispatcher.wait_until_idle(deadline) {
                    return false;
                }
            }
            if self.is_idle() {
                return true;
            }
            if Clock::real().now() >= deadline {
                return false;
            }
        }
    }

    /// Refuses a wait on a thread that would wait for itself, and where no thread works; `is_there` is what is waited for.
    fn may_wait(&self, is_there: impl FnOnce() -> bool) -> Result<MayWait, WaitUntilError> {
        if self.is_own_thread() {
            return Err(WaitUntilError::BadState);
        }
        match (is_there(), self.default_pool().is_driven_by_hand()) {
            (true, _) => Ok(MayWait::IsThere),
            (false, false) => Ok(MayWait::Wait),
            (false, true) => Err(WaitUntilError::BadState),
        }
    }

    fn wait(
        &self,
        timeout: Duration,
        is_there: impl FnOnce() -> bool,
        wait: impl FnOnce(Instant) -> bool,
    ) -> Result<(), WaitUntilError> {
        match self.may_wait(is_there)? {
            MayWait::IsThere => Ok(()),
            MayWait::Wait if wait(Clock::real().now() + timeout) => Ok(()),
            MayWait::Wait => Err(WaitUntilError::TimedOut(Box::new(RuntimeDump::of(self)))),
        }
    }
}

enum MayWait {
    IsThere,
    Wait,
}

impl DispatcherHandle {
    /// Whether nothing of it runs and nothing is ready to, at this moment. See
    /// [`wait_until_idle`](DispatcherHandle::wait_until_idle) for what counts.
    pub fn is_idle(&self) -> bool {
        self.inner().lock().is_idle()
    }

    /// Waits until nothing of this dispatcher runs, nothing is queued, and none of its work is on a lane. Timers, waits,
    /// reads and futures that wait do not count, nor does what waits for a suspended driver to be resumed. If it shuts down,
    /// waits until its observer has returned.
    ///
    /// Others may post at any moment, so what is true when this returns may be past when it is looked at.
    ///
    /// # Errors
    /// - [`WaitUntilError::BadState`] at once on a thread of its runtime, workers of lanes included; and in a foreground
    ///   runtime, unless it is idle: turn the crank instead.
    /// - [`WaitUntilError::TimedOut`] after `timeout`.
    ///
    /// # Examples
    /// ```
    /// # use fuchsine_dispatcher::*;
    /// # use std::time::Duration;
    /// # let runtime = RuntimeBuilder::new().threads(1).build()?;
    /// # let dispatcher = runtime.new_driver("driver").new_dispatcher(DispatcherBuilder::new())?;
    /// let _in_an_hour = dispatcher.post_after(Duration::from_secs(3600), |_| ())?;
    /// dispatcher.post_task(|_| println!("runs first"))?;
    /// dispatcher.wait_until_idle(Duration::from_secs(10))?;
    /// assert_eq!((dispatcher.counters().ran, dispatcher.counters().pending), (1, 1));
    /// # runtime.shutdown(Duration::from_secs(10))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_until_idle(&self, timeout: Duration) -> Result<(), WaitUntilError> {
        let inner = self.inner();
        let runtime = inner.owner().runtime();
        runtime.wait(timeout, || self.is_idle(), |deadline| inner.wait_until_idle(deadline))
    }

    /// Whether tasks wait for their turn: posted ones, and delayed ones whose time has come. Those that run, or whose time
    /// has not come, do not count. Those count that wait for their suspended driver to be resumed, and during a shutdown
    /// those that have not been told `Canceled` yet.
    pub fn has_queued_tasks(&self) -> bool {
        self.inner().lock().has_queued_tasks()
    }
}

impl Driver {
    /// Waits until none of its dispatchers is left and no observer of it runs: neither theirs nor its own. Returns at once
    /// if it has no dispatcher and is not shutting down. It does not begin a shutdown.
    ///
    /// # Errors
    /// Those of [`DispatcherHandle::wait_until_idle`].
    pub fn wait_until_destroyed(&self, timeout: Duration) -> Result<(), WaitUntilError> {
        let inner = self.inner();
        let runtime = inner.runtime();
        let is_there = || inner.is_at_its_end();
        runtime.wait(timeout, is_there, |deadline| runtime.wait_until_gone(deadline, is_there))
    }
}

impl Runtime {
    /// Waits until all dispatchers of all drivers are idle at one moment. See [`DispatcherHandle::wait_until_idle`] for
    /// what idle means.
    ///
    /// # Errors
    /// Those of [`DispatcherHandle::wait_until_idle`].
    pub fn wait_until_idle(&self, timeout: Duration) -> Result<(), WaitUntilError> {
        let inner = self.inner();
        inner.wait(timeout, || inner.is_idle(), |deadline| inner.wait_until_idle(deadline))
    }

    /// Waits until no dispatcher of any driver is left and no observer runs. It does not begin a shutdown.
    ///
    /// # Errors
    /// Those of [`DispatcherHandle::wait_until_idle`].
    pub fn wait_until_destroyed(&self, timeout: Duration) -> Result<(), WaitUntilError> {
        let inner = self.inner();
        let is_there = || inner.drivers().iter().all(|driver| driver.is_at_its_end());
        inner.wait(timeout, is_there, |deadline| inner.wait_until_gone(deadline, is_there))
    }

    /// Shuts down the drivers that there are, and waits until their observers have returned. The runtime and its threads
    /// stay, for the drivers that come after.
    ///
    /// # Errors
    /// Those of [`Runtime::shutdown`].
    pub fn shutdown_drivers(&self, timeout: Duration) -> Result<(), ShutdownError> {
        let inner = self.inner();
        if inner.default_pool().is_driven_by_hand() || inner.is_own_thread() {
            return Err(ShutdownError::BadState);
        }
        let drivers = inner.drivers();
        for driver in &drivers {
            driver.begin_shutdown();
        }
        // Who is over stays so, so each look goes on where the last one ended.
        let over = Cell::new(0);
        let are_over = || {
            over.set(over.get() + drivers[over.get()..].iter().take_while(|driver| driver.is_over()).count());
            over.get() == drivers.len()
        };
        match inner.wait_until_gone(Clock::real().now() + timeout, are_over) {
            true => Ok(()),
            false => Err(ShutdownError::TimedOut(Box::new(self.dump()))),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::runtime::{DispatcherBuilder, RuntimeBuilder};

    /// What a schedule would have to hit by luck, done on purpose: something happens between the two looks.
    #[test]
    fn a_runtime_in_which_something_happens_between_two_looks_is_not_idle() {
        const LONG: Duration = Duration::from_secs(60);
        let runtime = RuntimeBuilder::new().threads(1).build().expect("the system has threads");
        let driver = runtime.new_driver("driver");
        let one = driver.new_dispatcher(DispatcherBuilder::new()).expect("created");
        let idle_at_two_looks = |between: &dyn Fn()| {
            let answer = runtime.inner().is_idle_at_two_looks(between);
            assert!(one.wait_until_idle(LONG).is_ok());
            answer
        };
        assert!(idle_at_two_looks(&|| ()));
        assert!(!idle_at_two_looks(&|| {
            one.post_task(|_| ()).expect("it runs");
            one.wait_until_idle(LONG).expect("it becomes idle");
        }));
        assert!(!idle_at_two_looks(&|| {
            let _ = one.post_cancelable(|_| ()).expect("accepted").cancel();
            one.wait_until_idle(LONG).expect("it becomes idle");
        }));
        // Kept: one that is gone again by the second look has left nothing behind that could be seen, nor should it.
        let made = std::cell::RefCell::new(None);
        assert!(!idle_at_two_looks(&|| {
            made.replace(Some(driver.new_dispatcher(DispatcherBuilder::new()).expect("created")));
        }));
        drop(made);
        runtime.shutdown(LONG).expect("it shuts down");
    }
}
