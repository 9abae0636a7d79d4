//! Futures and blocking calls of a test on a foreground runtime: the crank is turned while they wait.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Wake, Waker};

use super::ForegroundRuntime;
use super::crank::Run;
use super::deadlock::Waits;
use crate::pool::batons::Job;
use crate::runtime::RuntimeDump;
use crate::status::Status;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::time::Instant;

/// Whether a future wants to be polled.
#[derive(Debug)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // ORDERING: Release, pairs with the Acquire in `Awaiting::step`; publishes what the waker's thread did before.
        self.0.store(true, Ordering::Release);
    }
}

/// A future with the waker that it is polled with.
struct Awaiting<'a, F: ?Sized> {
    future: Pin<&'a mut F>,
    woken: Arc<Woken>,
    waker: Waker,
}

impl<'a, F: Future + ?Sized> Awaiting<'a, F> {
    fn new(future: Pin<&'a mut F>) -> Self {
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        Awaiting { future, woken, waker }
    }

    /// Polls the future if it was woken, else makes a turn; `None` when neither can be done.
    fn step(&mut self, run: &Run<'_>) -> Option<Poll<F::Output>> {
        // ORDERING: Acquire, pairs with the Release in `Woken::wake_by_ref`.
        if run.may_call() && self.woken.0.swap(false, Ordering::Acquire) {
            return Some(self.future.as_mut().poll(&mut Context::from_waker(&self.waker)));
        }
        if run.has_quit() && run.may_call() || !run.turn() {
            // A turn that did nothing may have met a wake-up from another thread.
            return self.woken.0.load(Ordering::Relaxed).then_some(Poll::Pending);
        }
        Some(Poll::Pending)
    }
}

impl ForegroundRuntime {
    /// Polls `future` and turns the crank until the future is ready, or until nothing can go on: then the answer is
    /// `Pending`, and the future may be run again later. The clock stands still.
    ///
    /// The future is polled on this thread, outside of any dispatcher. Timers and waits of it need a dispatcher: give the
    /// thread one by [`set_default_dispatcher`](super::set_default_dispatcher).
    ///
    /// After a quit a future that is not ready at its first poll is `Pending`.
    ///
    /// # Panics
    /// As [`run_until_idle`](ForegroundRuntime::run_until_idle).
    ///
    /// # Examples
    /// ```
    /// use fuchsine_dispatcher::{DispatcherBuilder, sleep, testing::ForegroundRuntime};
    /// use std::{pin::pin, task::Poll, time::Duration};
    ///
    /// let runtime = ForegroundRuntime::new();
    /// let driver = runtime.new_driver("kettle");
    /// let dispatcher = driver.new_dispatcher(DispatcherBuilder::new())?;
    /// let mut boiling = pin!(dispatcher.spawn(async { sleep(Duration::from_secs(180)).await.map(|()| "boils") })?);
    ///
    /// assert!(runtime.run_until_stalled(&mut boiling).is_pending());
    /// runtime.advance(Duration::from_secs(180));
    /// assert_eq!(runtime.run_until_stalled(&mut boiling), Poll::Ready(Ok(Ok("boils"))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_until_stalled<F: Future + Unpin + ?Sized>(&self, future: &mut F) -> Poll<F::Output> {
        let run = self.take_crank();
        let mut awaiting = Awaiting::new(Pin::new(future));
        let mut steps = 0;
        while let Some(polled) = awaiting.step(&run) {
            if polled.is_ready() {
                return polled;
            }
            self.count_step(&mut steps);
        }
        Poll::Pending
    }

    /// Runs `future` to its end, advancing the clock from timer to timer while nothing else is left to do.
    ///
    /// It is polled as by [`run_until_stalled`](ForegroundRuntime::run_until_stalled).
    ///
    /// # Errors
    /// [`RunError`] when it would wait for ever, or when somebody quits. The future is dropped then.
    ///
    /// # Panics
    /// As [`run_until_idle`](ForegroundRuntime::run_until_idle).
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, RunError> {
        let run = self.take_crank();
        self.run_to_end(&run, pin!(future))
    }

    fn run_to_end<F: Future + ?Sized>(&self, run: &Run<'_>, future: Pin<&mut F>) -> Result<F::Output, RunError> {
        let mut awaiting = Awaiting::new(future);
        run.may_advance_to(Instant::INFINITE);
        let mut steps = 0;
        loop {
            match awaiting.step(run) {
                Some(Poll::Ready(value)) => return Ok(value),
                Some(Poll::Pending) => self.count_step(&mut steps),
                None if run.has_quit() => return Err(RunError::Quit),
                None if run.advance_to_next(Instant::INFINITE) => {}
                None => return Err(RunError::Stalled(Box::new(self.dump()))),
            }
        }
    }

    /// Runs `f`, which may block, on a thread of its own, and turns the crank until it returns; the clock advances while
    /// nothing else is left to do. So a test can make synchronous calls to what runs on its own foreground runtime.
    ///
    /// Thread and crank take turns, so the order of things is always the same. `f` is inside of no driver. If it panics,
    /// so does this call.
    ///
    /// # Errors
    /// [`RunError`] when what `f` waits for never happens, or when somebody quits. Its blocking calls then end with
    /// [`Status::Canceled`], and it is run to its end.
    ///
    /// # Panics
    /// As [`run_until_idle`](ForegroundRuntime::run_until_idle), and when `f` does.
    pub fn run_blocking<R, F>(&self, f: F) -> Result<R, RunError>
    where
        R: Send + 'static,
        F: FnOnce() -> R + Send + 'static,
    {
        let run = self.take_crank();
        let result = Arc::new(ResultOf { state: Mutex::new((None, None)) });
        let giver = Arc::clone(&result);
        let call = move || giver.give(catch_unwind(AssertUnwindSafe(f)));
        let pool = self.inner().default_pool();
        let baton = pool.batons().begin(pool, Job::Call(Box::new(call)));
        let outcome = self.run_to_end(&run, pin!(std::future::poll_fn(|context| result.poll(context))));
        let given_up = outcome.as_ref().is_err();
        if let (true, Some(baton)) = (given_up, baton) {
            pool.batons().give_up(&baton);
            // Whatever it still does, it is not to be left half-way.
            while result.lock().0.is_none() && run.turn() {}
        }
        match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(panic)) => resume_unwind(panic),
            Err(error) => Err(error),
        }
    }
}

/// Where the result of a blocking call goes, and who waits for it.
struct ResultOf<R> {
    state: Mutex<(Option<std::thread::Result<R>>, Option<Waker>)>,
}

impl<R> ResultOf<R> {
    fn lock(&self) -> MutexGuard<'_, (Option<std::thread::Result<R>>, Option<Waker>)> {
        self.state.lock()
    }

    fn give(&self, result: std::thread::Result<R>) {
        let mut state = self.lock();
        state.0 = Some(result);
        let waker = state.1.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<std::thread::Result<R>> {
        let mut state = self.lock();
        match state.0.take() {
            Some(result) => Poll::Ready(result),
            None => {
                state.1 = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Something was not run to its end.
#[non_exhaustive]
pub enum RunError {
    /// Somebody quit.
    Quit,
    /// Nothing can go on, nothing is due, and no timer is armed, so it would wait for ever. The dump says what was
    /// waiting for what.
    Stalled(Box<RuntimeDump>),
}

impl RunError {
    /// [`Status::Canceled`] after a quit, [`Status::TimedOut`] when it would wait for ever.
    pub fn status(&self) -> Status {
        match self {
            RunError::Quit => Status::Canceled,
            RunError::Stalled(_) => Status::TimedOut,
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Quit => f.write_str("somebody quit before it ended"),
            RunError::Stalled(dump) => {
                write!(f, "it waits for something that nothing is left to do:\n{}{dump}", Waits::in_dump(dump))
            }
        }
    }
}

/// As the text, so that `unwrap` shows who waits for what.
impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for RunError {}

impl From<RunError> for Status {
    fn from(error: RunError) -> Status {
        error.status()
    }
}
