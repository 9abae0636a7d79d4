//! [`Timer`]: a callback of a loop at a time, once or again and again.
//!
//! What a timer is doing, and how that changes, is in `timer_state.rs`. Any thread may stop a timer or destroy it; all else
//! happens on the owning loop. The loop takes the callback out of its table for the call, so the callback may do anything
//! to its own timer.
//!
//! A ticker does not drift: its deadlines are whole periods apart, unless it is told otherwise ([`MissedTicks`]). Nothing
//! fires early: deadlines are nanoseconds of the clock that the reactor reads.

use std::cell::Cell;
use std::fmt;
use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

use crate::event_loop::event_loop::{EventLoop, Local};
use crate::event_loop::handle::{LoopEvent, LoopShared};
use crate::event_loop::slots::Key;
use crate::event_loop::summary::{Holder, HolderKind};
use crate::event_loop::timer_state::{Arming, MissedTicks, Plan, Repeat, SharedArming, Tick, TimerState, Wheel};
use crate::event_loop::timer_wheel::TimerKey;
use crate::status::Status;
use crate::sync::Arc;
use crate::time::Instant;

type Callback = Box<dyn FnMut(&EventLoop, Tick)>;

/// Why a timer was not armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimerError {
    /// The deadline never comes.
    #[error("a timer needs a deadline that comes; an infinite one is not accepted")]
    Infinite,
    /// The period is zero.
    #[error("a ticker needs a period longer than zero; for \"as soon as possible\" arm a job")]
    ZeroPeriod,
    /// It has never been armed, so there is nothing to start again.
    #[error("the timer has never been armed; `once` and `ticker` say for when")]
    NeverArmed,
    /// Somebody has destroyed it.
    #[error("the timer was destroyed")]
    Destroyed,
    /// The loop serves no timer any more.
    #[error("the loop of this timer has ended")]
    LoopEnded,
}

impl TimerError {
    /// The condition as a status.
    pub fn status(self) -> Status {
        match self {
            TimerError::Infinite | TimerError::ZeroPeriod => Status::InvalidArgs,
            TimerError::NeverArmed | TimerError::Destroyed | TimerError::LoopEnded => Status::BadState,
        }
    }
}

impl From<TimerError> for Status {
    fn from(error: TimerError) -> Self {
        error.status()
    }
}

/// One timer, as its loop and its handle share it.
struct TimerNode {
    arming: Arming<TimerKey>,
    key: Key,
}

/// The wheel of a loop as the loop itself reaches it.
struct AtHome<'a>(&'a Local, Key);

impl Wheel for AtHome<'_> {
    type Id = TimerKey;

    #[inline]
    fn arm(&self, deadline: Instant) -> TimerKey {
        self.0.loop_timers.arm(deadline, self.1)
    }

    #[inline]
    fn cancel(&self, id: TimerKey) {
        self.0.loop_timers.cancel(id);
    }
}

/// The wheel of a loop as other threads reach it: they ask for what is to be done. Until it is, the deadline may come,
/// which the state of its timer makes nothing of.
struct FromAfar<'a>(&'a Arc<LoopShared>);

impl Wheel for FromAfar<'_> {
    type Id = TimerKey;

    fn arm(&self, _deadline: Instant) -> TimerKey {
        unreachable!("a timer is armed by its own loop only")
    }

    fn cancel(&self, id: TimerKey) {
        self.0.tell(LoopEvent::TimerStopped(id));
    }
}

/// A timer in its loop's table.
pub(crate) struct TimerSlot {
    /// Absent while it runs.
    callback: Option<Callback>,
    node: Rc<TimerNode>,
    created: &'static Location<'static>,
}

impl TimerSlot {
    /// What keeps a loop from ending: a timer that was armed since the shutdown began.
    pub(crate) fn holder(&self) -> Option<Holder> {
        self.node.arming.holds().then_some(Holder { kind: HolderKind::Timer, created: self.created })
    }

    pub(crate) fn stop(&self, local: &Local) {
        let _ = self.node.arming.stop(&AtHome(local, self.node.key));
    }
}

impl EventLoop {
    /// A timer of this loop. It does nothing until [`Timer::once`] or [`Timer::ticker`].
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::event_loop::LoopManager;
    /// use std::time::Duration;
    ///
    /// LoopManager::builder()
    ///     .loops(1)
    ///     .setup(0, |event_loop| {
    ///         let mut beats = 0;
    ///         let heart = event_loop.timer(move |event_loop, tick| {
    ///             beats += 1 + tick.missed;
    ///             if beats >= 3 {
    ///                 event_loop.manager().unwrap().shutdown();
    ///             }
    ///         });
    ///         heart.ticker(Duration::from_millis(1)).unwrap();
    ///         heart.detach();
    ///     })
    ///     .build()?
    ///     .run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn timer(&self, callback: impl FnMut(&EventLoop, Tick) + 'static) -> Timer {
        let local = self.local();
        let (callback, created): (Callback, _) = (Box::new(callback), Location::caller());
        let mut made = None;
        local.timers.borrow_mut().insert_with(|key| {
            let node = made.insert(Rc::new(TimerNode { arming: Arming::new(), key })).clone();
            TimerSlot { callback: Some(callback), node, created }
        });
        let node = made.expect("it was made a few lines above");
        Timer { owner: local.clone(), node, last: Cell::new(None), is_attached: true }
    }

    /// A deadline has come.
    pub(crate) fn fire_timer(&self, key: Key, deadline: Instant) {
        let timers = &self.local().timers;
        let Some((node, mut callback)) = ({
            let mut timers = timers.borrow_mut();
            timers.get_mut(key).map(|slot| (slot.node.clone(), slot.callback.take()))
        }) else {
            return;
        };
        let wheel = AtHome(self.local(), key);
        if let Some(tick) = node.arming.begin_firing(&wheel, deadline, self.local().reactor.clock().exact()) {
            if let Some(callback) = &mut callback {
                self.call("timer", || callback(self, tick));
            }
            node.arming.end_firing(&wheel, self.accepts_arming());
        }
        let unused = {
            let mut timers = timers.borrow_mut();
            match timers.get_mut(key) {
                Some(_) if node.arming.is_over() => {
                    timers.remove(key);
                    callback
                }
                Some(slot) => {
                    slot.callback = callback;
                    None
                }
                None => callback,
            }
        };
        if unused.is_some() {
            self.guarded("timer", || drop(unused));
        }
    }

    /// Somebody, on another thread perhaps, has left this timer with nothing to do any more.
    pub(crate) fn remove_timer(&self, key: Key) {
        let mut timers = self.local().timers.borrow_mut();
        let is_over = timers.get_mut(key).is_some_and(|slot| slot.node.arming.is_over());
        let unused = is_over.then(|| timers.remove(key)).flatten();
        drop(timers);
        if unused.is_some() {
            self.guarded("timer", || drop(unused));
        }
    }
}

/// A callback at a time. Dropping it stops it.
///
/// # Thread requirements
/// It stays on its loop's thread; [`Timer::stopper`] makes a handle that stops or destroys it from anywhere.
///
/// ```compile_fail,E0277
/// # // Shows E1, T1, T3.
/// # use fuchsine_dispatcher::event_loop::Timer;
/// fn armed_elsewhere(timer: Timer) {
///     std::thread::spawn(move || timer.once(std::time::Duration::ZERO));
/// }
/// ```
#[must_use = "dropping a timer stops it; `detach` leaves it to its loop"]
pub struct Timer {
    owner: Rc<Local>,
    node: Rc<TimerNode>,
    /// What it was armed for last: how long after the arming, which is its period as well if it ticks.
    last: Cell<Option<(Duration, Option<MissedTicks>)>>,
    is_attached: bool,
}

impl Timer {
    /// Arms the timer to fire once, `after` from now: zero means in the loop's next iteration. Replaces what it was
    /// armed for.
    ///
    /// # Errors
    /// See [`TimerError`]; nothing changes then.
    #[inline]
    pub fn once(&self, after: Duration) -> Result<(), TimerError> {
        self.arm_after(after, None)
    }

    /// Arms the timer to fire once, at `deadline`. Replaces what it was armed for.
    ///
    /// # Errors
    /// See [`TimerError`]; nothing changes then.
    pub fn once_at(&self, deadline: Instant) -> Result<(), TimerError> {
        let after = deadline.duration_since(self.owner.reactor.clock().exact());
        self.arm(deadline, after, None)
    }

    /// Arms the timer to fire every `period`, for the first time one period from now. Replaces what it was armed for.
    ///
    /// Deadlines are whole periods apart, however late a call was. When the loop was busy through several, one call
    /// stands for all of them: see [`Tick::missed`].
    ///
    /// # Errors
    /// See [`TimerError`]; nothing changes then.
    pub fn ticker(&self, period: Duration) -> Result<(), TimerError> {
        self.ticker_with(period, MissedTicks::Skip)
    }

    /// [`Timer::ticker`] with a policy of its own for ticks that were due while the loop was busy.
    ///
    /// # Errors
    /// See [`TimerError`]; nothing changes then.
    pub fn ticker_with(&self, period: Duration, missed: MissedTicks) -> Result<(), TimerError> {
        if period.is_zero() {
            return Err(TimerError::ZeroPeriod);
        }
        self.arm_after(period, Some(missed))
    }

    /// Arms the timer as it was armed last, counted from now.
    ///
    /// # Errors
    /// See [`TimerError`]; nothing changes then.
    pub fn restart(&self) -> Result<(), TimerError> {
        let (after, ticks) = self.last.get().ok_or(TimerError::NeverArmed)?;
        self.arm_after(after, ticks)
    }

    #[inline]
    fn arm_after(&self, after: Duration, ticks: Option<MissedTicks>) -> Result<(), TimerError> {
        // The clock is read here and now: a time from the beginning of the iteration would make the timer fire early.
        self.arm(self.owner.reactor.clock().exact() + after, after, ticks)
    }

    #[inline]
    fn arm(&self, deadline: Instant, after: Duration, ticks: Option<MissedTicks>) -> Result<(), TimerError> {
        if deadline.is_infinite() {
            return Err(TimerError::Infinite);
        }
        if !self.owner.accepts_arming() {
            return Err(TimerError::LoopEnded);
        }
        let repeat = ticks.map_or(Repeat::ONCE, |missed| Repeat::every(after, missed));
        let plan = Plan { repeat, since_shutdown: self.owner.is_shutting_down() };
        if !self.node.arming.arm(&self.wheel(), deadline, plan) {
            return Err(TimerError::Destroyed);
        }
        self.last.set(Some((after, ticks)));
        Ok(())
    }

    /// Stops the timer. Answers whether this has kept a call from happening.
    #[inline]
    pub fn stop(&self) -> bool {
        self.node.arming.stop(&self.wheel()).prevented
    }

    fn wheel(&self) -> AtHome<'_> {
        AtHome(&self.owner, self.node.key)
    }

    /// What the timer is doing.
    pub fn state(&self) -> TimerState {
        self.node.arming.state()
    }

    /// A handle that stops or destroys this timer from any thread.
    pub fn stopper(&self) -> TimerStopper {
        TimerStopper { arming: self.node.arming.share(), key: self.node.key, owner: self.owner.shared.clone() }
    }

    /// Leaves the timer to its loop, until it has fired (a ticker: until the loop ends or a [`TimerStopper`] stops it).
    pub fn detach(mut self) {
        self.is_attached = false;
        let is_over = self.node.arming.detach();
        // While its callback runs, the loop looks at this when that has returned.
        let unused = {
            let mut timers = self.owner.timers.borrow_mut();
            let is_at_home = timers.get_mut(self.node.key).is_some_and(|slot| slot.callback.is_some());
            if is_over && is_at_home { timers.remove(self.node.key) } else { None }
        };
        drop(unused);
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if self.is_attached {
            self.node.arming.destroy(&self.wheel());
            let slot = self.owner.timers.borrow_mut().remove(self.node.key);
            drop(slot);
        }
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timer({:?})", self.state())
    }
}

/// Stops one timer, from any thread, any number of times, or destroys it.
#[derive(Clone)]
pub struct TimerStopper {
    arming: Arc<SharedArming<TimerKey>>,
    key: Key,
    owner: Arc<LoopShared>,
}

impl TimerStopper {
    /// Stops the timer. `true`: the callback is not going to be called any more, until it is armed anew. `false`: it
    /// was idle, or is being called for the last time at this moment; a call that is under way is not waited for.
    pub fn stop(&self) -> bool {
        let stopped = self.arming.stop(&FromAfar(&self.owner));
        if stopped.is_over {
            self.owner.tell(LoopEvent::TimerGone(self.key));
        }
        if stopped.prevented {
            // The loop may be shutting down and waiting for nothing but this timer.
            self.owner.parker.unpark();
        }
        stopped.prevented
    }

    /// Stops the timer for good: from now on it cannot be armed, and its callback is dropped by its loop, at its next turn.
    /// A call that is under way is not waited for. Answers whether this call did it.
    pub fn destroy(&self) -> bool {
        let destroyed = self.arming.destroy(&FromAfar(&self.owner));
        if destroyed {
            self.owner.tell(LoopEvent::TimerGone(self.key));
        }
        destroyed
    }
}

impl fmt::Debug for TimerStopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimerStopper({:?})", self.arming.state())
    }
}
