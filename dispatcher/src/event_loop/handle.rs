//! [`LoopHandle`]: a loop as other threads see it; and what they share with it.

use std::fmt;

use crate::event_loop::current;
use crate::event_loop::event_loop::EventLoop;
use crate::event_loop::parker::Parker;
use crate::event_loop::reactor::{EventTarget, Fired, Told};
use crate::event_loop::slots::Key;
use crate::event_loop::timer_wheel::TimerKey;
use crate::status::{Status, gives_back};
use crate::sync::{Arc, Inbox, Pushed, SmallFn};

/// What a loop shares with other threads. Lives as long as any handle to it.
pub(crate) struct LoopShared {
    pub(crate) tid: Option<u32>,
    pub(crate) name: String,
    /// Callbacks from anywhere. Closed, exactly, when the loop ends.
    pub(crate) inbox: Inbox<SmallFn<EventLoop>>,
    /// What the loop is told by its own machinery, on other threads. Closed last.
    pub(crate) events: Inbox<LoopEvent>,
    pub(crate) parker: Arc<dyn Parker>,
}

/// What a loop is told by its own machinery.
#[derive(Debug)]
pub(crate) enum LoopEvent {
    /// The reactor: what was armed under this key has come to pass.
    Fired(u64, Fired),
    /// A worker, or whoever canceled: the item in this slot has its result.
    WorkDone(Key),
    /// Whoever stopped or destroyed it: the timer in this slot has nothing to do any more.
    TimerGone(Key),
    /// Another thread has stopped a timer that is still in the wheel under this key.
    TimerStopped(TimerKey),
    /// Begin to shut down.
    Shutdown,
}

impl LoopShared {
    /// Tells the loop something, from whichever thread.
    pub(crate) fn tell(self: &Arc<Self>, event: LoopEvent) {
        let Some(event) = current::give_to_current(self, event) else { return };
        // A loop that has ended has no use for events; whatever they were about has been settled at its end.
        if let Ok(Pushed::ToEmpty) = self.events.push(event) {
            self.parker.unpark();
        }
    }
}

impl EventTarget for LoopShared {
    fn fire(self: Arc<Self>, key: u64, fired: Fired, _last: bool) -> Told {
        self.tell(LoopEvent::Fired(key, fired));
        Told::All
    }
}

impl fmt::Debug for LoopShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LoopShared({:?}, {:?})", self.name, self.inbox)
    }
}

/// A loop, to be reached from any thread. Handles are cheap to clone, and stay valid after the loop has ended: then
/// they refuse.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::event_loop::LoopManager;
///
/// let running = LoopManager::builder().loops(2).build()?.spawn()?;
/// let (one, other) = (running.handle().event_loop(0).unwrap(), running.handle().event_loop(1).unwrap());
/// let reply_to = one.clone();
/// let shutdown = running.handle();
/// other.async_run(move |_| {
///     // On the other loop's thread; now back to the first.
///     let _ = reply_to.async_run(move |_| shutdown.shutdown());
/// })?;
/// running.join();
/// assert!(one.async_run(|_| unreachable!()).is_err(), "a loop that has ended refuses");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LoopHandle {
    pub(crate) shared: Arc<LoopShared>,
}

impl LoopHandle {
    /// Runs `callback` on the loop: never before this returns, and after everything that this thread gave the loop
    /// before. Lock-free; the loop is woken only if it sleeps.
    ///
    /// # Errors
    /// [`Refused`] with the callback in it, once the loop has ended. What was accepted is run.
    ///
    /// # Thread requirements
    /// Any thread, the loop's own too.
    pub fn async_run<F>(&self, callback: F) -> Result<(), Refused<F>>
    where
        F: FnOnce(&EventLoop) + Send + 'static,
    {
        match self.shared.inbox.push_fn(callback) {
            // The loop looks at its inbox before it sleeps, so from its own thread there is nobody to wake.
            Ok(Pushed::ToEmpty) if !self.is_current() => self.shared.parker.unpark(),
            Ok(_) => {}
            Err(refused) => return Err(Refused::new(refused)),
        }
        Ok(())
    }

    /// The number of the loop in its manager; `None` for a loop that has none.
    pub fn tid(&self) -> Option<u32> {
        self.shared.tid
    }

    /// The name, which is also its thread's.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Whether the loop has ended, so that it refuses everything.
    pub fn is_closed(&self) -> bool {
        self.shared.inbox.is_closed()
    }

    /// Whether this thread is the loop's own.
    pub fn is_current(&self) -> bool {
        current::is_current(&self.shared)
    }

    /// Makes the loop shut down: teardown, drain, end.
    pub(crate) fn begin_shutdown(&self) {
        self.shared.tell(LoopEvent::Shutdown);
    }
}

impl PartialEq for LoopHandle {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for LoopHandle {}

impl fmt::Debug for LoopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopHandle").field("name", &self.shared.name).field("closed", &self.is_closed()).finish()
    }
}

/// The loop has ended; here is what you gave it, unrun.
pub struct Refused<F> {
    given: F,
}

impl<F> Refused<F> {
    pub(crate) fn new(given: F) -> Self {
        Refused { given }
    }

    /// Always [`Status::BadState`].
    pub fn status(&self) -> Status {
        Status::BadState
    }
}

gives_back!(Refused);

impl<F> fmt::Display for Refused<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the loop has ended and runs nothing any more")
    }
}
