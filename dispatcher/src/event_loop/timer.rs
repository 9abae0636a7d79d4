//! [`Timer`]: a callback of a loop at a time, once or again and again.
//!
//! | state | means | left by |
//! |---|---|---|
//! | `Idle` | nothing is going to happen | `once`, `ticker` |
//! | `Armed` | the reactor has the deadline | firing, `stop` from any thread, arming anew |
//! | `Firing` | the callback runs | its return: to `Armed` if it ticks or was armed anew, else to `Idle` |
//!
//! The state is under a lock of its own, because any thread may stop a timer; all else happens on the owning loop.
//! The loop takes the callback out of its table for the call, so the callback may do anything to its own timer.
//!
//! A ticker's next deadline is its last one plus the period, so it does not drift. If the loop was busy through
//! several of them, one call stands for all, and says for how many it stands. Nothing fires early: deadlines are
//! nanoseconds of the clock that the reactor reads.

use std::fmt;
use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

use crate::event_loop::event_loop::{EventLoop, Local, TIMER_KEY};
use crate::event_loop::handle::LoopShared;
use crate::event_loop::reactor::Reactor;
use crate::event_loop::slots::Key;
use crate::event_loop::summary::{Holder, HolderKind};
use crate::event_loop::timers::TimerId;
use crate::status::Status;
use crate::sync::{Arc, Mutex};
use crate::time::Instant;

type Callback = Box<dyn FnMut(&EventLoop, Tick)>;

/// What a timer's callback is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// The deadline that has come; the callback runs at this time or later.
    pub deadline: Instant,
    /// How many further ticks were due before the loop got to this one, for all of which this call stands. Always zero
    /// for a timer that fires once.
    pub missed: u64,
}

/// What a timer is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerState {
    /// Nothing: it was never armed, or has fired, or was stopped.
    Idle,
    /// It waits for this deadline.
    Armed(Instant),
    /// Its callback runs at this moment.
    Firing,
}

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
    /// The loop serves no timer any more.
    #[error("the loop of this timer has ended")]
    LoopEnded,
}

impl TimerError {
    /// The condition as a status.
    pub fn status(self) -> Status {
        match self {
            TimerError::Infinite | TimerError::ZeroPeriod => Status::InvalidArgs,
            TimerError::LoopEnded => Status::BadState,
        }
    }
}

impl From<TimerError> for Status {
    fn from(error: TimerError) -> Self {
        error.status()
    }
}

/// The part of a timer that any thread may reach.
struct Shared {
    arming: Mutex<Arming>,
    reactor: Arc<Reactor>,
    owner: Arc<LoopShared>,
}

#[derive(Clone, Copy)]
enum Arming {
    Idle,
    /// `since_shutdown`: it was armed by a callback of the shutdown, and holds the loop; a tick does not change that.
    Armed {
        deadline: Instant,
        period: Option<Duration>,
        id: TimerId,
        since_shutdown: bool,
    },
    Firing {
        deadline: Instant,
        period: Option<Duration>,
        since_shutdown: bool,
    },
}

impl Shared {
    fn arm(&self, key: Key, deadline: Instant, period: Option<Duration>, since_shutdown: bool) {
        let mut arming = self.arming.lock();
        if let Arming::Armed { id, .. } = *arming {
            self.reactor.cancel_timer(id);
        }
        let id = self.reactor.arm_timer(deadline, self.owner.clone(), TIMER_KEY | key.to_bits());
        *arming = Arming::Armed { deadline, period, id, since_shutdown };
    }

    /// Answers whether this has kept a call from happening.
    fn stop(&self) -> bool {
        let mut arming = self.arming.lock();
        match std::mem::replace(&mut *arming, Arming::Idle) {
            Arming::Idle => false,
            Arming::Armed { id, .. } => {
                self.reactor.cancel_timer(id);
                true
            }
            Arming::Firing { period, .. } => period.is_some(),
        }
    }

    fn state(&self) -> TimerState {
        let arming = *self.arming.lock();
        match arming {
            Arming::Idle => TimerState::Idle,
            Arming::Armed { deadline, .. } => TimerState::Armed(deadline),
            Arming::Firing { .. } => TimerState::Firing,
        }
    }

    /// From armed to firing, if it is this deadline that it is armed for. Else it was stopped or armed anew meanwhile.
    fn begin_firing(&self, fired: Instant, now: Instant) -> Option<Tick> {
        let mut arming = self.arming.lock();
        let Arming::Armed { deadline, period, id, since_shutdown } = *arming else { return None };
        if deadline != fired {
            return None;
        }
        // Armed anew for the same deadline, with the older event still under way: this call is for the newer arming.
        self.reactor.cancel_timer(id);
        let missed = period.map_or(0, |period| (now - deadline).as_nanos() / period.as_nanos());
        let missed = u64::try_from(missed).unwrap_or(u64::MAX);
        let last = period.map_or(deadline, |period| Instant::from_nanos(missed_until(deadline, period, missed)));
        *arming = Arming::Firing { deadline: last, period, since_shutdown };
        Some(Tick { deadline, missed })
    }

    /// From firing to armed for the next tick, or to idle, unless the callback has decided otherwise.
    fn end_firing(&self, key: Key, may_tick: bool) {
        let mut arming = self.arming.lock();
        let Arming::Firing { deadline, period, since_shutdown } = *arming else { return };
        *arming = Arming::Idle;
        if let Some(period) = period.filter(|_| may_tick) {
            let deadline = deadline + period;
            let id = self.reactor.arm_timer(deadline, self.owner.clone(), TIMER_KEY | key.to_bits());
            *arming = Arming::Armed { deadline, period: Some(period), id, since_shutdown };
        }
    }
}

fn missed_until(deadline: Instant, period: Duration, missed: u64) -> u64 {
    let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
    deadline.as_nanos().saturating_add(period.saturating_mul(missed))
}

/// A timer in its loop's table.
pub(crate) struct TimerSlot {
    /// Absent while it runs.
    callback: Option<Callback>,
    shared: Arc<Shared>,
    /// Nobody has a handle any more: it goes when it is idle.
    detached: bool,
    created: &'static Location<'static>,
}

impl TimerSlot {
    /// What keeps a loop from ending: a timer that was armed since the shutdown began.
    pub(crate) fn holder(&self) -> Option<Holder> {
        let arming = *self.shared.arming.lock();
        let Arming::Armed { since_shutdown: true, .. } = arming else { return None };
        Some(Holder { kind: HolderKind::Timer, created: self.created })
    }

    pub(crate) fn stop(&self) {
        self.shared.stop();
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
        let shared = Arc::new(Shared {
            arming: Mutex::new(Arming::Idle),
            reactor: local.reactor.clone(),
            owner: local.shared.clone(),
        });
        let slot = TimerSlot {
            callback: Some(Box::new(callback)),
            shared: shared.clone(),
            detached: false,
            created: Location::caller(),
        };
        let key = local.timers.borrow_mut().insert(slot);
        Timer { owner: local.clone(), key, shared, is_attached: true }
    }

    /// The reactor says that a deadline has come.
    pub(crate) fn fire_timer(&self, key: Key, deadline: Instant) {
        let timers = &self.local().timers;
        let Some((shared, callback)) = ({
            let mut timers = timers.borrow_mut();
            timers.get_mut(key).map(|slot| (slot.shared.clone(), slot.callback.take()))
        }) else {
            return;
        };
        let mut callback = callback;
        if let Some(tick) = shared.begin_firing(deadline, self.now()) {
            if let Some(callback) = &mut callback {
                self.call("timer", || callback(self, tick));
            }
            shared.end_firing(key, self.accepts_arming());
        }
        let unused = {
            let mut timers = timers.borrow_mut();
            match timers.get_mut(key) {
                Some(slot) if slot.detached && shared.state() == TimerState::Idle => {
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
            self.call("timer", || drop(unused));
        }
    }
}

/// A callback at a time. Dropping it stops it.
///
/// # Thread requirements
/// It stays on its loop's thread; [`Timer::stopper`] makes a handle that stops it from anywhere.
#[must_use = "dropping a timer stops it; `detach` leaves it to its loop"]
pub struct Timer {
    owner: Rc<Local>,
    key: Key,
    shared: Arc<Shared>,
    is_attached: bool,
}

impl Timer {
    /// Arms the timer to fire once, `after` from now: zero means in the loop's next iteration. Replaces what it was
    /// armed for.
    ///
    /// # Errors
    /// See [`TimerError`]; nothing changes then.
    pub fn once(&self, after: Duration) -> Result<(), TimerError> {
        self.once_at(self.owner.reactor.clock().now() + after)
    }

    /// Arms the timer to fire once, at `deadline`. Replaces what it was armed for.
    ///
    /// # Errors
    /// See [`TimerError`]; nothing changes then.
    pub fn once_at(&self, deadline: Instant) -> Result<(), TimerError> {
        self.arm(deadline, None)
    }

    /// Arms the timer to fire every `period`, for the first time one period from now. Replaces what it was armed for.
    ///
    /// Deadlines are whole periods apart, however late a call was. When the loop was busy through several, one call
    /// stands for all of them: see [`Tick::missed`].
    ///
    /// # Errors
    /// See [`TimerError`]; nothing changes then.
    pub fn ticker(&self, period: Duration) -> Result<(), TimerError> {
        if period.is_zero() {
            return Err(TimerError::ZeroPeriod);
        }
        self.arm(self.owner.reactor.clock().now() + period, Some(period))
    }

    fn arm(&self, deadline: Instant, period: Option<Duration>) -> Result<(), TimerError> {
        if deadline.is_infinite() {
            return Err(TimerError::Infinite);
        }
        if !self.owner.accepts_arming() {
            return Err(TimerError::LoopEnded);
        }
        self.shared.arm(self.key, deadline, period, self.owner.is_shutting_down());
        Ok(())
    }

    /// Stops the timer. Answers whether this has kept a call from happening.
    pub fn stop(&self) -> bool {
        self.shared.stop()
    }

    /// What the timer is doing.
    pub fn state(&self) -> TimerState {
        self.shared.state()
    }

    /// A handle that stops this timer from any thread.
    pub fn stopper(&self) -> TimerStopper {
        TimerStopper { shared: self.shared.clone() }
    }

    /// Leaves the timer to its loop, until it has fired (a ticker: until the loop ends or a [`TimerStopper`] stops it).
    pub fn detach(mut self) {
        self.is_attached = false;
        let unused = {
            let mut timers = self.owner.timers.borrow_mut();
            match timers.get_mut(self.key) {
                Some(slot) if self.shared.state() == TimerState::Idle && slot.callback.is_some() => {
                    timers.remove(self.key)
                }
                Some(slot) => {
                    slot.detached = true;
                    None
                }
                None => None,
            }
        };
        drop(unused);
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if self.is_attached {
            self.shared.stop();
            let slot = self.owner.timers.borrow_mut().remove(self.key);
            drop(slot);
        }
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timer({:?})", self.state())
    }
}

/// Stops one timer, from any thread, any number of times.
#[derive(Clone)]
pub struct TimerStopper {
    shared: Arc<Shared>,
}

impl TimerStopper {
    /// Stops the timer. `true`: the callback is not going to be called any more, until it is armed anew. `false`: it
    /// was idle, or is being called for the last time at this moment; a call that is under way is not waited for.
    pub fn stop(&self) -> bool {
        let stopped = self.shared.stop();
        if stopped {
            // The loop may be shutting down and waiting for nothing but this timer.
            self.shared.owner.parker.unpark();
        }
        stopped
    }
}

impl fmt::Debug for TimerStopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimerStopper({:?})", self.shared.state())
    }
}
