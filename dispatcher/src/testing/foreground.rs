//! The foreground runtime: no threads, a virtual clock, and a crank.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use crate::pool::Pool;
use crate::runtime::{Driver, Runtime, RuntimeBuilder, RuntimeError};
use crate::status::Status;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::time::Instant;

/// How many turns one call makes before it gives up on ever becoming idle.
const MOST_TURNS: u64 = 10_000_000;

/// A runtime without threads: nothing runs unless the test turns the crank, and time stands still unless it is advanced.
///
/// The types are those of a runtime with threads, so code under test does not know the difference. While the crank
/// turns, the calling thread counts as a thread of the pool, so inline calls are made as there. Timers fire in the order
/// of their deadlines, instantly. Lane work runs on the crank, one item a turn.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::DispatcherBuilder;
/// use fuchsine_dispatcher::testing::ForegroundRuntime;
/// use std::time::Duration;
///
/// let runtime = ForegroundRuntime::new();
/// let driver = runtime.new_driver("kettle");
/// let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().name("timer"))?;
/// let (sender, receiver) = std::sync::mpsc::channel();
/// let _timer = dispatcher.post_after(Duration::from_secs(180), move |_| sender.send("boils").expect("it is awaited"))?;
///
/// runtime.advance(Duration::from_secs(179));
/// assert!(receiver.try_recv().is_err());
/// runtime.advance(Duration::from_secs(1));
/// assert_eq!(receiver.try_recv()?, "boils");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ForegroundRuntime {
    runtime: Runtime,
    /// How often the crank was turned.
    turns: AtomicU64,
    /// Set while it is.
    is_turning: AtomicBool,
}

/// The crank is in somebody's hand until this is dropped.
struct Turning<'a>(&'a AtomicBool);

impl Drop for Turning<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl ForegroundRuntime {
    /// A foreground runtime whose descriptors are simulated: it waits on the objects of [`sim`](crate::testing::sim)
    /// only, and makes no system call.
    ///
    /// # Panics
    /// Never in practice: there is nothing that the system could refuse.
    pub fn new() -> Self {
        match Self::with(RuntimeBuilder::new()) {
            Ok(runtime) => runtime,
            Err(error) => panic!("a foreground runtime needs nothing from the system, but: {error}"),
        }
    }

    /// Like [`new`](ForegroundRuntime::new), with the batch, inline depth and panic settings of `builder`.
    ///
    /// # Errors
    /// Those of [`RuntimeBuilder::build`].
    pub fn with(builder: RuntimeBuilder) -> Result<Self, RuntimeError> {
        Ok(Self::around(builder.build_foreground(true)?))
    }

    /// A foreground runtime that waits on real descriptors, polled without blocking. What they do is not deterministic.
    ///
    /// # Errors
    /// Those of [`RuntimeBuilder::build`].
    pub fn with_real_descriptors(builder: RuntimeBuilder) -> Result<Self, RuntimeError> {
        Ok(Self::around(builder.build_foreground(false)?))
    }

    fn around(runtime: Runtime) -> Self {
        ForegroundRuntime { runtime, turns: AtomicU64::new(0), is_turning: AtomicBool::new(false) }
    }

    fn pools(&self) -> Vec<Arc<Pool>> {
        self.runtime.inner().pools()
    }

    /// Makes one turn of whatever may run, or takes what is due; false when nothing is runnable and nothing is due.
    ///
    /// # Panics
    /// When it is called inside of a callback or of lane work, or by two threads at once: whoever waits never runs other
    /// callbacks on its stack, and there is one crank.
    pub fn run_once(&self) -> bool {
        assert!(
            !self.is_turning.swap(true, Ordering::Relaxed),
            "the crank cannot be turned from inside of a callback; return from it first"
        );
        let _turning = Turning(&self.is_turning);
        let pools = self.pools();
        let turn = self.turns.fetch_add(1, Ordering::Relaxed);
        // The pools take turns at being the first, so that one that is never idle starves no other.
        let (round, first) = (turn / pools.len() as u64, turn as usize % pools.len());
        (0..pools.len()).any(|nth| {
            let pool = &pools[(first + nth) % pools.len()];
            pool.as_current(|| pool.run_one(round))
        })
    }

    /// Turns the crank until nothing can run anywhere and nothing is due. Says how many turns that took.
    ///
    /// # Panics
    /// When it does not become idle in ten million turns: something reschedules itself without end. See also
    /// [`run_once`](ForegroundRuntime::run_once).
    pub fn run_until_idle(&self) -> u64 {
        let mut turns = 0;
        while self.run_once() {
            turns += 1;
            assert!(turns < MOST_TURNS, "not idle after {MOST_TURNS} turns:\n{}", self.runtime.dump());
        }
        turns
    }

    /// Runs until nothing is left to do before `deadline`, advancing the clock from timer to timer and at last to
    /// `deadline`, and until idle there. With [`Instant::INFINITE`], until no timer is left, and the clock stays at the
    /// last one.
    ///
    /// # Panics
    /// As [`run_until_idle`](ForegroundRuntime::run_until_idle).
    pub fn run_until(&self, deadline: Instant) {
        loop {
            self.run_until_idle();
            let next = self.next_deadline();
            if next > deadline || next.is_infinite() {
                break;
            }
            self.runtime.clock().advance_to(next);
        }
        // Time never comes to its end: nothing could be waited for any more.
        if !deadline.is_infinite() {
            self.runtime.clock().advance_to(deadline);
            self.run_until_idle();
        }
    }

    fn next_deadline(&self) -> Instant {
        self.pools().iter().map(|pool| pool.next_deadline()).min().unwrap_or(Instant::INFINITE)
    }

    /// [`run_until`](ForegroundRuntime::run_until) `duration` from now.
    ///
    /// # Panics
    /// As [`run_until_idle`](ForegroundRuntime::run_until_idle).
    pub fn advance(&self, duration: Duration) {
        self.run_until(self.runtime.now() + duration);
    }

    /// Runs until `condition` holds, advancing the clock when only timers are left; false when nothing is left that
    /// could make it hold.
    ///
    /// # Panics
    /// As [`run_until_idle`](ForegroundRuntime::run_until_idle).
    pub fn run_until_condition(&self, mut condition: impl FnMut() -> bool) -> bool {
        let mut turns = 0;
        loop {
            if condition() {
                return true;
            }
            if self.run_once() {
                turns += 1;
                assert!(turns < MOST_TURNS, "the condition does not come about:\n{}", self.runtime.dump());
                continue;
            }
            let next = self.next_deadline();
            if next.is_infinite() {
                return false;
            }
            self.runtime.clock().advance_to(next);
        }
    }

    /// Shuts all drivers down and turns the crank until they have: everything pending has been told `Canceled`, every
    /// observer has returned.
    ///
    /// # Errors
    /// [`Status::TimedOut`] when something is left that no crank can move, such as a work item of another thread.
    ///
    /// # Panics
    /// As [`run_until_idle`](ForegroundRuntime::run_until_idle).
    pub fn shutdown(&self) -> Result<(), Status> {
        self.runtime.shutdown_async();
        self.run_until_idle();
        let over = self.runtime.inner().wait_until_closed(Instant::ZERO);
        if over { Ok(()) } else { Err(Status::TimedOut) }
    }

    /// Shuts a driver down and turns the crank until it has. Nothing happens if it has shut down before.
    ///
    /// # Panics
    /// As [`run_until_idle`](ForegroundRuntime::run_until_idle).
    pub fn shutdown_driver(&self, driver: &Driver) {
        // Refused means that it is shutting down or has shut down, which is what is wanted.
        let _ = driver.shutdown(|| ());
        self.run_until_idle();
    }
}

impl Default for ForegroundRuntime {
    fn default() -> Self {
        ForegroundRuntime::new()
    }
}

impl Deref for ForegroundRuntime {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

impl Drop for ForegroundRuntime {
    /// Everything pending is still told: a runtime that is dropped in the middle of a test shuts down, unless the test
    /// is failing already.
    fn drop(&mut self) {
        if !std::thread::panicking() && !self.is_turning.load(Ordering::Relaxed) {
            let _ = self.shutdown();
        }
    }
}

impl fmt::Debug for ForegroundRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForegroundRuntime").field("now", &self.runtime.now()).finish_non_exhaustive()
    }
}
