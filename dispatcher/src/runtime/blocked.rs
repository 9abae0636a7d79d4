//! Waiting inside of a callback: the one way in which a blocking call of this crate blocks.
//!
//! 1. [`may_block`] tells whether the calling thread may wait at all. A call that would first do something which cannot
//!    be undone, such as sending a request, asks before it does that.
//! 2. [`wait_blocked`] polls what is waited for, as a future is polled, and sleeps between two polls. It also ends when
//!    the dispatcher that the thread runs for begins to shut down, and at a deadline. What is there counts before both.
//! 3. Meanwhile a dump says of the callback what it waits for.
//!
//! How the thread sleeps is the business of [`Waiter`]: a thread of a pool is lost to the pool for so long, and in a
//! foreground runtime the other callbacks get their turns.

use std::task::{Context, Poll};

use super::active::{WaitsFor, Whom};
use super::call_stack;
use super::dispatcher::DispatcherInner;
use crate::pool::{Waiter, current_pool};
use crate::status::Status;
use crate::sync::Arc;
use crate::time::Instant;

/// Why a thread may not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MayNotBlock {
    /// It runs a callback of a dispatcher that does not allow sync calls.
    Dispatcher,
    /// It belongs to a pool and runs no callback of a dispatcher: it is in the observer of a driver.
    Observer,
    /// It turns the crank of a foreground runtime, and is in no callback.
    #[cfg(feature = "testing")]
    Crank,
}

impl MayNotBlock {
    /// What to do instead.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            MayNotBlock::Dispatcher => {
                "blocking is not allowed on this dispatcher: make it with `allow_sync_calls`, or use `offload`"
            }
            MayNotBlock::Observer => {
                "blocking is not allowed in the shutdown observer of a driver: do it before the shutdown"
            }
            #[cfg(feature = "testing")]
            MayNotBlock::Crank => {
                "blocking is not allowed on the thread that turns the crank of a foreground runtime, as nothing could \
                 happen meanwhile: await it with `run_until_stalled` or `block_on`, or block inside of `run_blocking`"
            }
        }
    }
}

/// How a wait ended without what was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// It did not begin.
    NotAllowed(MayNotBlock),
    /// The dispatcher that the thread runs for shuts down.
    Canceled,
    /// The deadline came.
    TimedOut,
}

impl WaitEnd {
    /// The condition as a status.
    pub(crate) const fn status(self) -> Status {
        match self {
            WaitEnd::NotAllowed(_) => Status::BadState,
            WaitEnd::Canceled => Status::Canceled,
            WaitEnd::TimedOut => Status::TimedOut,
        }
    }
}

/// Whether the calling thread may wait: in a callback of a dispatcher that allows sync calls, in offloaded work, and on
/// threads that belong to no pool.
pub(crate) fn may_block() -> Result<(), MayNotBlock> {
    match call_stack::innermost_dispatcher() {
        Some(dispatcher) if dispatcher.allows_sync_calls() => Ok(()),
        Some(_) => Err(MayNotBlock::Dispatcher),
        None if current_pool() != 0 => Err(MayNotBlock::Observer),
        #[cfg(feature = "testing")]
        None if crate::pool::by_hand::is_crank_here() => Err(MayNotBlock::Crank),
        None => Ok(()),
    }
}

/// Whether the dispatcher that the calling thread runs for shuts down, so that no wait would begin.
pub(crate) fn is_canceled() -> bool {
    let dispatcher = call_stack::innermost_dispatcher().or_else(call_stack::dispatcher_of_work);
    dispatcher.is_some_and(|dispatcher| !dispatcher.lock().state.accepts())
}

/// Comes before a call that blocks where nobody sees it: in a foreground runtime everything else that can go on does so
/// first.
pub(super) fn let_others_go_first() {
    #[cfg(feature = "testing")]
    if let Some(baton) = crate::pool::batons::current() {
        baton.let_others_go_first();
    }
}

/// The time by the clock that the deadlines of [`wait_blocked`] are of, on this thread.
#[allow(dead_code, reason = "for synchronous calls")]
pub(crate) fn now() -> Instant {
    Waiter::of_this_thread().now()
}

/// Waits until `poll` gives a value; `what` is how a dump names it ("a reply"), and `whom` makes what tells who would
/// bring it about. It is called only if the thread is going to sleep.
///
/// `poll` is called at once, and again whenever the waker of its context was called. It must not run code of others.
///
/// # Errors
/// [`WaitEnd::NotAllowed`] as [`may_block`], before the first poll. Then, whichever comes first:
/// [`WaitEnd::Canceled`] when the dispatcher whose callback or offloaded work this is begins to shut down, also if it
/// began before; [`WaitEnd::TimedOut`] at `deadline`, which is one of the clock that [`now`] reads. A value that is
/// there wins over both.
pub(crate) fn wait_blocked<T>(
    what: &'static str,
    whom: impl FnOnce() -> Option<Whom>,
    deadline: Instant,
    poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Result<T, WaitEnd> {
    may_block().map_err(WaitEnd::NotAllowed)?;
    wait_anywhere(what, whom, deadline, poll)
}

/// [`wait_blocked`] wherever the thread is.
pub(super) fn wait_anywhere<T>(
    what: &'static str,
    whom: impl FnOnce() -> Option<Whom>,
    deadline: Instant,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Result<T, WaitEnd> {
    let waiter = Waiter::of_this_thread();
    let waker = waiter.waker();
    let mut context = Context::from_waker(&waker);
    let dispatcher = call_stack::innermost_dispatcher().or_else(call_stack::dispatcher_of_work);
    let stop = dispatcher.as_ref().map(|dispatcher| dispatcher.stop_state());
    let mut stopping = stop.as_ref().map(|stop| stop.listen());
    let (mut noted, mut whom) = (None, Some(whom));
    loop {
        if let Poll::Ready(value) = poll(&mut context) {
            return Ok(value);
        }
        if stopping.as_mut().is_some_and(|stopping| stopping.poll(&waker).is_ready()) || waiter.is_given_up() {
            return Err(WaitEnd::Canceled);
        }
        if waiter.now() >= deadline {
            return Err(WaitEnd::TimedOut);
        }
        if noted.is_none()
            && let (Some(dispatcher), Some(whom)) = (&dispatcher, whom.take())
        {
            noted = Some(Noted::new(dispatcher, WaitsFor { what, whom: whom() }));
        }
        waiter.wait(deadline);
    }
}

/// A callback is listed as waiting until this is dropped.
struct Noted<'a>(&'a Arc<DispatcherInner>);

impl<'a> Noted<'a> {
    fn new(dispatcher: &'a Arc<DispatcherInner>, waits_for: WaitsFor) -> Self {
        let _ = dispatcher.note_wait(Some(Box::new(waits_for)));
        Noted(dispatcher)
    }
}

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        let waited_for = self.0.note_wait(None);
        drop(waited_for);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::mpsc;
    use std::task::Waker;
    use std::time::Duration;

    use super::*;
    use crate::runtime::{DispatcherBuilder, RuntimeBuilder};
    use crate::sync::{Mutex, thread};

    const HANG: Duration = Duration::from_secs(30);

    /// A value that somebody hands over later.
    #[derive(Default)]
    struct Later(Mutex<(Option<u32>, Option<Waker>)>);

    impl Later {
        fn give(&self, value: u32) {
            let waker = {
                let mut inside = self.0.lock();
                inside.0 = Some(value);
                inside.1.take()
            };
            waker.into_iter().for_each(Waker::wake);
        }

        fn poll(&self, context: &mut Context<'_>) -> Poll<u32> {
            let mut inside = self.0.lock();
            if let Some(value) = inside.0.take() {
                return Poll::Ready(value);
            }
            inside.1 = Some(context.waker().clone());
            Poll::Pending
        }

        fn wait(&self, deadline: Instant) -> Result<u32, WaitEnd> {
            wait_blocked("a number", || None, deadline, |context| self.poll(context))
        }
    }

    #[test]
    fn a_value_from_another_thread_ends_a_wait_and_one_that_is_there_wins_over_the_deadline() {
        let later = Arc::new(Later::default());
        let giver = Arc::clone(&later);
        let thread = thread::spawn("giver", move || giver.give(7)).unwrap();
        assert_eq!(later.wait(Instant::INFINITE), Ok(7));
        thread.join().unwrap();
        later.give(8);
        assert_eq!(later.wait(Instant::ZERO), Ok(8));
        assert_eq!(later.wait(now() + Duration::from_millis(1)), Err(WaitEnd::TimedOut));
    }

    /// The wait of a callback ends with the shutdown of its dispatcher, and a dump says meanwhile what it waits for.
    #[test]
    fn a_shutdown_cancels_a_wait_on_its_dispatcher_and_a_dump_names_it() {
        [false, true].into_iter().for_each(a_shutdown_cancels_a_wait);
    }

    fn a_shutdown_cancels_a_wait(is_second: bool) {
        let runtime = RuntimeBuilder::new().threads(1).build().unwrap();
        let driver = runtime.new_driver("patient");
        let dispatcher = driver.new_dispatcher(DispatcherBuilder::new().allow_sync_calls()).unwrap();
        let (told, ends) = mpsc::channel();
        let later = Arc::new(Later::default());
        let waiting = Arc::clone(&later);
        let telling = told.clone();
        let own = dispatcher.handle();
        let wait = move |_: Result<(), _>| {
            telling.send(waiting.wait(Instant::INFINITE)).unwrap();
            telling.send(waiting.wait(Instant::INFINITE)).unwrap();
        };
        match is_second {
            // It runs off a tray.
            true => dispatcher.post_task(move |_| own.post_task(wait).unwrap()).unwrap(),
            false => dispatcher.post_task(wait).unwrap(),
        }
        let hang = now() + HANG;
        while !dispatcher.dump().running.iter().any(|running| running.waits_for == Some("a number")) {
            assert!(now() < hang, "{}", dispatcher.dump());
            thread::yield_now();
        }
        assert!(dispatcher.dump().to_string().contains("waits for a number"), "{}", dispatcher.dump());
        dispatcher.shutdown_async();
        assert_eq!(ends.recv_timeout(HANG).unwrap(), Err(WaitEnd::Canceled));
        assert_eq!(ends.recv_timeout(HANG).unwrap(), Err(WaitEnd::Canceled), "one that begins later ends at once");
        runtime.shutdown(HANG).unwrap();
        assert_eq!(later.0.lock().0, None);
    }

    #[test]
    fn a_shutdown_cancels_a_wait_of_offloaded_work() {
        let runtime = RuntimeBuilder::new().threads(1).build().unwrap();
        let driver = runtime.new_driver("patient");
        let dispatcher = driver.new_dispatcher(DispatcherBuilder::new()).unwrap();
        let (told, ends) = mpsc::channel();
        let (begun, begins) = mpsc::channel();
        let telling = told.clone();
        dispatcher
            .offload(
                crate::Lane::Slow,
                move |_| {
                    begun.send(()).unwrap();
                    Later::default().wait(Instant::INFINITE)
                },
                move |result| telling.send(result.unwrap()).unwrap(),
            )
            .unwrap();
        begins.recv_timeout(HANG).unwrap();
        dispatcher.shutdown_async();
        assert_eq!(ends.recv_timeout(HANG).unwrap(), Err(WaitEnd::Canceled));
        runtime.shutdown(HANG).unwrap();
    }

    #[test]
    fn a_wait_that_is_not_allowed_is_refused_before_it_begins() {
        let runtime = RuntimeBuilder::new().threads(1).build().unwrap();
        let driver = runtime.new_driver("plain");
        let dispatcher = driver.new_dispatcher(DispatcherBuilder::new()).unwrap();
        let (told, ends) = mpsc::channel();
        dispatcher
            .post_task(move |_| {
                let mut polls = 0;
                let end = wait_blocked(
                    "nothing",
                    || None,
                    Instant::INFINITE,
                    |_| {
                        polls += 1;
                        Poll::Ready(())
                    },
                );
                told.send((end, polls)).unwrap();
            })
            .unwrap();
        let refused = Err(WaitEnd::NotAllowed(MayNotBlock::Dispatcher));
        assert_eq!(ends.recv_timeout(HANG).unwrap(), (refused, 0));
        runtime.shutdown(HANG).unwrap();
    }

    #[test]
    fn nobody_stays_listed_with_a_stop_token_that_is_waited_for_again_and_again() {
        let runtime = RuntimeBuilder::new().threads(1).build().unwrap();
        let driver = runtime.new_driver("patient");
        let dispatcher = driver.new_dispatcher(DispatcherBuilder::new()).unwrap();
        let token = dispatcher.stop_token();
        for _ in 0..3 {
            assert!(!token.wait_timeout(Duration::from_micros(1)));
        }
        assert_eq!(dispatcher.inner().stop_state().waiting(), 0);
        dispatcher.shutdown_async();
        assert!(token.wait_timeout(HANG));
        runtime.shutdown(HANG).unwrap();
    }
}
