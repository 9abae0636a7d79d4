//! The foreground runtime: no threads, a virtual clock, and a crank.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use super::crank::{Crank, QuitHandle, Run};
use super::out_of_sight::OutOfSight;
use super::target::Injection;
use super::watchdog::Patience;
use crate::runtime::{Driver, Runtime, RuntimeBuilder, RuntimeError};
use crate::status::Status;
use crate::sync::Arc;
use crate::sync::probe;
use crate::time::Instant;

/// How many turns one call makes before it gives up on ever becoming idle.
const MOST_TURNS: u64 = 10_000_000;

/// A runtime without threads: nothing runs unless the test turns the crank, and time stands still unless it is advanced.
///
/// The types are those of a runtime with threads, so code under test does not know the difference. While the crank
/// turns, the calling thread counts as a thread of the pool, so inline calls are made as there. Timers fire in the order
/// of their deadlines, instantly.
///
/// Callbacks of dispatchers that allow sync calls, and lane work, run on helper threads, as they may block; the crank
/// waits for them, so that exactly one thread moves at a time and the order of things is always the same. One that waits
/// in a blocking call of this crate goes on in a later turn, when what it waits for has happened. In
/// [`blocking`](crate::blocking) it lets everything else that can go on do so first. The thread that turns the crank
/// cannot block: `blocking` and synchronous calls are refused there, and a [`StopToken`](crate::StopToken) does not wait.
///
/// While there are such runtimes, and for a second after, one thread of the process, `test-watchdog`, looks whether one of
/// them hangs ([`set_hang_limit`](ForegroundRuntime::set_hang_limit)).
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
    crank: Crank,
    pub(super) injection: Arc<Injection>,
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
    /// Those of [`RuntimeBuilder::build`]; [`Status::NotSupported`] while schedules are explored.
    pub fn with_real_descriptors(builder: RuntimeBuilder) -> Result<Self, RuntimeError> {
        if probe::current().is_some() {
            return Err(RuntimeError::not_supported("what real descriptors do cannot be explored; use `testing::sim`"));
        }
        Ok(Self::around(builder.build_foreground(false)?))
    }

    fn around(runtime: Runtime) -> Self {
        // From here on this thread knows that nothing happens while it waits.
        runtime.inner().default_pool().note_crank();
        ForegroundRuntime { crank: Crank::new(&runtime), runtime, injection: Arc::default() }
    }

    /// How patient the crank is.
    pub(super) fn patience(&self) -> &Arc<Patience> {
        self.crank.patience()
    }

    pub(super) fn take_crank(&self) -> Run<'_> {
        self.crank.take(&self.runtime)
    }

    /// Counts what one call does.
    pub(super) fn count_step(&self, steps: &mut u64) {
        *steps += 1;
        assert!(*steps < MOST_TURNS, "not at its end after {MOST_TURNS} turns:\n{}", self.runtime.dump());
    }

    /// Makes one turn of whatever may run, or takes what is due; false when nothing is runnable and nothing is due, and
    /// after a quit.
    ///
    /// # Panics
    /// When it is called inside of a callback, of lane work, or of a future that is being run, or by two threads at once:
    /// whoever waits never runs other callbacks on its stack, and there is one crank.
    pub fn run_once(&self) -> bool {
        let run = self.take_crank();
        !run.has_quit() && self.turn_once(&run)
    }

    /// One turn, and what it takes until no callback is interrupted.
    fn turn_once(&self, run: &Run<'_>) -> bool {
        let did = run.turn();
        while !run.may_call() && run.turn() {}
        did
    }

    /// Turns the crank until nothing can run anywhere and nothing is due, or until somebody quits. Says how many turns
    /// that took.
    ///
    /// # Panics
    /// When it does not become idle in ten million turns: something reschedules itself without end. See also
    /// [`run_once`](ForegroundRuntime::run_once).
    pub fn run_until_idle(&self) -> u64 {
        self.turn_until_idle(&self.take_crank())
    }

    fn turn_until_idle(&self, run: &Run<'_>) -> u64 {
        let mut turns = 0;
        while !(run.has_quit() && run.may_call()) && run.turn() {
            self.count_step(&mut turns);
        }
        turns
    }

    /// Runs until `deadline`, advancing the clock from timer to timer and at last to `deadline`, and until idle there.
    /// With [`Instant::INFINITE`], until no timer is left, and the clock stays at the last one.
    ///
    /// Fuchsia: R115.
    ///
    /// # Errors
    /// In the order in which they are looked for:
    /// - [`Status::BadState`] when the runtime has shut down.
    /// - [`Status::Canceled`] after a quit, before this run or during it; the clock stays where it is.
    /// - [`Status::TimedOut`] at `deadline`.
    ///
    /// `Ok` with an infinite deadline, when nothing is left to do.
    ///
    /// # Panics
    /// As [`run_until_idle`](ForegroundRuntime::run_until_idle).
    pub fn run(&self, deadline: Instant) -> Result<(), Status> {
        let run = self.take_crank();
        if self.runtime.inner().is_closed() {
            return Err(Status::BadState);
        }
        run.may_advance_to(deadline);
        loop {
            self.turn_until_idle(&run);
            if run.has_quit() {
                return Err(Status::Canceled);
            }
            if !run.advance_to_next(deadline) {
                break;
            }
        }
        // Time never comes to its end: nothing could be waited for any more.
        if deadline.is_infinite() {
            return Ok(());
        }
        self.runtime.clock().advance_to(deadline);
        self.turn_until_idle(&run);
        if run.has_quit() { Err(Status::Canceled) } else { Err(Status::TimedOut) }
    }

    /// Makes one turn, advancing the clock to the next timer if nothing else can be done before `deadline`.
    ///
    /// # Errors
    /// As [`run`](ForegroundRuntime::run); [`Status::TimedOut`] when there is nothing to do until `deadline`, where the
    /// clock then stands, or at all.
    ///
    /// # Panics
    /// As [`run_once`](ForegroundRuntime::run_once).
    pub fn run_one_until(&self, deadline: Instant) -> Result<(), Status> {
        let run = self.take_crank();
        if self.runtime.inner().is_closed() {
            return Err(Status::BadState);
        }
        if run.has_quit() {
            return Err(Status::Canceled);
        }
        if self.turn_once(&run) || run.advance_to_next(deadline) && self.turn_once(&run) {
            return Ok(());
        }
        if !deadline.is_infinite() {
            self.runtime.clock().advance_to(deadline);
        }
        Err(Status::TimedOut)
    }

    /// Runs as [`run`](ForegroundRuntime::run), for tests that know how it ends.
    ///
    /// # Panics
    /// As [`run_until_idle`](ForegroundRuntime::run_until_idle).
    pub fn run_until(&self, deadline: Instant) {
        // How it ended is what the caller did not want to know.
        let _ = self.run(deadline);
    }

    /// [`run_until`](ForegroundRuntime::run_until) `duration` from now.
    ///
    /// # Panics
    /// As [`run_until_idle`](ForegroundRuntime::run_until_idle).
    pub fn advance(&self, duration: Duration) {
        self.run_until(self.runtime.now() + duration);
    }

    /// Runs until `condition` holds, advancing the clock when only timers are left; false when nothing is left that
    /// could make it hold, and after a quit.
    ///
    /// # Panics
    /// As [`run_until_idle`](ForegroundRuntime::run_until_idle).
    pub fn run_until_condition(&self, mut condition: impl FnMut() -> bool) -> bool {
        let run = self.take_crank();
        run.may_advance_to(Instant::INFINITE);
        let mut turns = 0;
        loop {
            if run.may_call() && condition() {
                return true;
            }
            if run.has_quit() && run.may_call() {
                return false;
            }
            if run.turn() {
                self.count_step(&mut turns);
            } else if !run.advance_to_next(Instant::INFINITE) {
                return false;
            }
        }
    }

    /// Ends the current run after its current turn, and every later one before its first turn, until
    /// [`reset_quit`](ForegroundRuntime::reset_quit). Shutdowns are carried out all the same.
    ///
    /// Fuchsia: R117.
    ///
    /// # Thread requirements
    /// Any thread. Callbacks, which do not have the runtime, quit by [`quit_handle`](ForegroundRuntime::quit_handle).
    pub fn quit(&self) {
        self.quit_handle().quit();
    }

    /// A handle to quit by, for callbacks and other threads.
    pub fn quit_handle(&self) -> QuitHandle {
        self.crank.quit_handle()
    }

    /// Lets runs begin again after a quit; nothing happens if nobody has quit.
    ///
    /// Fuchsia: R118.
    ///
    /// # Errors
    /// [`Status::BadState`] while a run is under way, and when the runtime has shut down.
    pub fn reset_quit(&self) -> Result<(), Status> {
        if self.runtime.inner().is_closed() {
            return Err(Status::BadState);
        }
        self.crank.reset_quit()
    }

    /// How long, in real time, the crank waits for a callback that blocks out of sight of this crate: in the kernel or on
    /// a channel of the standard library. Then it goes on without it. Two seconds unless this was called. It counts
    /// from the next run on.
    pub fn set_patience(&self, patience: Duration) {
        self.crank.set_patience(patience);
    }

    /// For how long the thread that turns the crank may sleep in one turn. It does when a callback blocks out of sight of this
    /// crate: nothing can end that, so the test would hang. After this time, or six times as much of processor time, a report
    /// says what runs, and the process ends. Ten seconds unless this was called; `Duration::MAX` for as long as it takes.
    ///
    /// With a [patience](ForegroundRuntime::set_patience) of your own it is five times that at least, as the thread sleeps while
    /// it is patient.
    pub fn set_hang_limit(&self, limit: Duration) {
        self.crank.set_hang_limit(limit);
    }

    /// Shuts all drivers down and turns the crank until they have: everything pending has been told `Canceled`, every
    /// observer has returned. A quit does not keep it from that.
    ///
    /// Fuchsia: R119, R120.
    ///
    /// # Errors
    /// [`Status::TimedOut`] when something is left that no crank can move: a callback that blocks out of sight. Another
    /// call goes on with it.
    ///
    /// # Panics
    /// As [`run_until_idle`](ForegroundRuntime::run_until_idle).
    pub fn shutdown(&self) -> Result<(), Status> {
        self.runtime.shutdown_async();
        self.turn_regardless();
        if !self.runtime.inner().is_closed() {
            self.crank.note_told_to_block();
            return Err(Status::TimedOut);
        }
        self.runtime.inner().join();
        Ok(())
    }

    /// Shuts a driver down and turns the crank until it has. Nothing happens if it has shut down before. A quit does not
    /// keep it from that.
    ///
    /// # Panics
    /// As [`run_until_idle`](ForegroundRuntime::run_until_idle).
    pub fn shutdown_driver(&self, driver: &Driver) {
        // Refused means that it is shutting down or has shut down, which is what is wanted.
        let _ = driver.shutdown(|| ());
        self.turn_regardless();
    }

    /// Turns the crank until nothing can run anywhere, whoever has quit.
    fn turn_regardless(&self) {
        let run = self.take_crank();
        let mut turns = 0;
        while run.turn() {
            self.count_step(&mut turns);
        }
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
    ///
    /// # Panics
    /// When a callback blocks out of sight, so that the shutdown does not come to its end and the test has not called
    /// [`shutdown`](ForegroundRuntime::shutdown) to see that. The message says who it is.
    fn drop(&mut self) {
        if std::thread::panicking() || self.crank.is_taken() {
            return;
        }
        let is_seen = self.crank.has_told_to_block() || probe::current().is_some();
        if self.shutdown().is_err() && !is_seen {
            let who = OutOfSight::of(self.inner(), &|_| None);
            panic!(
                "the foreground runtime does not shut down, as something blocks out of sight of the testing kit:\n{who}"
            );
        }
    }
}

impl fmt::Debug for ForegroundRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForegroundRuntime").field("now", &self.runtime.now()).finish_non_exhaustive()
    }
}
