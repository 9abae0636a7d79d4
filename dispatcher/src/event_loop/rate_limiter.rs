//! [`RateLimiter`]: callbacks that are let through not faster than so many in an interval.
//!
//! | state | means | left by |
//! |---|---|---|
//! | `Idle` | nothing is listed, no timer is armed | an event: its loop is asked to tick at once |
//! | `Limited` | a tick is coming | a tick that finds the list empty: to `Idle`; the shutdown |
//! | `Closed` | everything is refused | |
//!
//! 1. An event goes to the end of the list (or, last in first out, to its front). If the limiter was idle, its own loop
//!    is asked to tick.
//! 2. A tick takes up to so many events from the front and posts each to the loop that it is meant for. If the list runs
//!    dry within the tick the limiter is idle; else the next tick comes after the interval, as it is set at that moment.
//! 3. The shutdown, by call or because the limiter's loop shuts down, takes everything that is listed and posts it at
//!    once, canceled, each event to its own loop.
//!
//! The list is under a lock, which is never held while anything is posted.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::event_loop::event_loop::EventLoop;
use crate::event_loop::handle::{LoopHandle, Refused};
use crate::status::Canceled;
use crate::sync::unmodelled::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Weak};

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// What a rate limiter calls on the loop that it is meant for: with `Ok`, or with [`Canceled`] at a shutdown.
pub type LimitedCallback = Box<dyn FnOnce(&EventLoop, Result<(), Canceled>) + Send>;

/// Which of the listed events is released first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Release {
    /// The one that was enqueued first.
    #[default]
    OldestFirst,
    /// The one that was enqueued last.
    NewestFirst,
}

/// What a [`RateLimiter`] lets through: up to `per_tick` events in every interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// How many events a tick releases at most.
    pub per_tick: NonZeroU32,
    /// How long after one tick the next one comes. Zero: in the next iteration of the limiter's loop.
    pub interval: Duration,
    /// In which order.
    pub release: Release,
}

impl Default for RateLimit {
    /// One event a tick, an interval of zero, the oldest first.
    fn default() -> Self {
        RateLimit { per_tick: NonZeroU32::MIN, interval: Duration::ZERO, release: Release::OldestFirst }
    }
}

/// Names an event that was enqueued, in the limiter that it was enqueued in and in no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LimitedEvent {
    limiter: u64,
    nth: u64,
}

/// An event that was taken back before it was released; what was to be called is in it, uncalled.
#[must_use = "the callback is not called by anybody else any more"]
pub struct Taken(LimitedCallback);

impl Taken {
    /// What was to be called.
    pub fn into_inner(self) -> LimitedCallback {
        self.0
    }
}

impl fmt::Debug for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Taken")
    }
}

/// Lets callbacks through to their loops, not faster than so many in an interval. Clones are the same limiter.
///
/// It belongs to one loop, whose timer paces it, and may be used from any thread. It lives until that loop shuts down, or
/// until [`RateLimiter::shutdown`].
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::event_loop::{LoopManager, RateLimit};
/// use std::{num::NonZeroU32, time::Duration};
///
/// LoopManager::builder()
///     .loops(1)
///     .setup(0, |event_loop| {
///         let two_in_a_millisecond = RateLimit {
///             per_tick: NonZeroU32::new(2).unwrap(),
///             interval: Duration::from_millis(1),
///             ..RateLimit::default()
///         };
///         let limiter = event_loop.rate_limiter(two_in_a_millisecond);
///         let target = event_loop.handle();
///         for nth in 1..=5 {
///             let event = limiter.enqueue(&target, move |event_loop, released| {
///                 assert!(released.is_ok());
///                 if nth == 5 {
///                     event_loop.manager().unwrap().shutdown();
///                 }
///             });
///             event.unwrap();
///         }
///     })
///     .build()?
///     .run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RateLimiter {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    id: u64,
    owner: LoopHandle,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    limit: RateLimit,
    /// By age; the oldest has the smallest number.
    listed: BTreeMap<u64, Listed>,
    next: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Idle,
    Limited,
    Closed,
}

struct Listed {
    target: LoopHandle,
    callback: LimitedCallback,
}

impl EventLoop {
    /// A rate limiter that is paced by this loop.
    pub fn rate_limiter(&self, limit: RateLimit) -> RateLimiter {
        let state = State { phase: Phase::Idle, limit, listed: BTreeMap::new(), next: 0 };
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let limiter = RateLimiter { shared: Arc::new(Shared { id, owner: self.handle(), state: Mutex::new(state) }) };
        if self.is_shutting_down() {
            limiter.shutdown();
        } else {
            self.local().limiters.borrow_mut().add(&limiter.shared);
        }
        limiter
    }

    /// The loop shuts down, and its limiters with it.
    pub(super) fn shut_limiters_down(&self) {
        let limiters = self.local().limiters.take();
        limiters.0.iter().filter_map(Weak::upgrade).for_each(|shared| shared.close());
    }
}

/// The limiters that a loop paces.
#[derive(Default)]
pub(crate) struct Limiters(Vec<Weak<Shared>>);

impl Limiters {
    fn add(&mut self, shared: &Arc<Shared>) {
        // Those that have gone go from here before the list would grow.
        if self.0.len() == self.0.capacity() {
            self.0.retain(|shared| shared.strong_count() > 0);
        }
        self.0.push(Arc::downgrade(shared));
    }
}

impl RateLimiter {
    /// Lists `callback`, to be called on `target` when its turn comes, with `Ok`; or, if the limiter is shut down before,
    /// at once with [`Canceled`]. If the target has ended by then, the callback is dropped uncalled.
    ///
    /// # Errors
    /// [`Refused`] with the callback in it, once the limiter has shut down.
    ///
    /// # Thread requirements
    /// Any thread.
    pub fn enqueue<F>(&self, target: &LoopHandle, callback: F) -> Result<LimitedEvent, Refused<F>>
    where
        F: FnOnce(&EventLoop, Result<(), Canceled>) + Send + 'static,
    {
        let mut state = self.shared.state.lock();
        if state.phase == Phase::Closed {
            drop(state);
            return Err(Refused::new(callback));
        }
        let nth = state.next;
        state.next += 1;
        state.listed.insert(nth, Listed { target: target.clone(), callback: Box::new(callback) });
        let was_idle = std::mem::replace(&mut state.phase, Phase::Limited) == Phase::Idle;
        drop(state);
        if was_idle {
            let shared = self.shared.clone();
            if self.shared.owner.async_run(move |event_loop| shared.tick(event_loop)).is_err() {
                // The limiter's loop has ended, and with it whatever would have released this.
                self.shared.close();
            }
        }
        Ok(LimitedEvent { limiter: self.shared.id, nth })
    }

    /// Takes an event back. `None` if it has been released, was taken back before, or belongs to another limiter.
    ///
    /// # Thread requirements
    /// Any thread.
    pub fn dequeue(&self, event: LimitedEvent) -> Option<Taken> {
        if event.limiter != self.shared.id {
            return None;
        }
        let listed = self.shared.state.lock().listed.remove(&event.nth);
        listed.map(|listed| Taken(listed.callback))
    }

    /// Sets what is let through, from the next tick on.
    ///
    /// # Thread requirements
    /// Any thread.
    pub fn set_limit(&self, limit: RateLimit) {
        self.shared.state.lock().limit = limit;
    }

    /// What is let through.
    pub fn limit(&self) -> RateLimit {
        self.shared.state.lock().limit
    }

    /// How many events are listed.
    #[expect(clippy::len_without_is_empty, reason = "how many is what one asks a limiter; zero is not special")]
    pub fn len(&self) -> usize {
        self.shared.state.lock().listed.len()
    }

    /// Refuses everything from now on, and calls everything that is listed with [`Canceled`], each on its own loop.
    /// Doing it again changes nothing.
    ///
    /// # Thread requirements
    /// Any thread.
    pub fn shutdown(&self) {
        self.shared.close();
    }
}

impl Shared {
    /// Releases what is due, on the limiter's own loop, and sees to the next tick.
    fn tick(self: Arc<Self>, event_loop: &EventLoop) {
        let (released, next) = {
            let mut state = self.state.lock();
            if state.phase != Phase::Limited {
                return;
            }
            let released = state.take_due();
            let next = (state.phase == Phase::Limited).then_some(state.limit.interval);
            (released, next)
        };
        for listed in released {
            listed.call_with(Ok(()));
        }
        let Some(interval) = next else { return };
        let timer = event_loop.timer(move |event_loop, _| self.clone().tick(event_loop));
        if timer.once(interval).is_ok() {
            timer.detach();
        }
    }

    fn close(&self) {
        let listed = {
            let mut state = self.state.lock();
            state.phase = Phase::Closed;
            std::mem::take(&mut state.listed)
        };
        for listed in listed.into_values() {
            listed.call_with(Err(Canceled));
        }
    }
}

impl State {
    /// Up to so many events, in the order of release. Goes idle if there are fewer than a tick may release.
    fn take_due(&mut self) -> Vec<Listed> {
        let mut due = Vec::new();
        for _ in 0..self.limit.per_tick.get() {
            let next = match self.limit.release {
                Release::OldestFirst => self.listed.pop_first(),
                Release::NewestFirst => self.listed.pop_last(),
            };
            match next {
                Some((_, listed)) => due.push(listed),
                None => {
                    self.phase = Phase::Idle;
                    break;
                }
            }
        }
        due
    }
}

impl Listed {
    fn call_with(self, released: Result<(), Canceled>) {
        let Listed { target, callback } = self;
        if target.async_run(move |event_loop| callback(event_loop, released)).is_err() {
            tracing::debug!(loop_name = target.name(), "a rate limited event was dropped: its loop has ended");
        }
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock();
        write!(f, "RateLimiter({:?}, {} listed)", state.phase, state.listed.len())
    }
}
