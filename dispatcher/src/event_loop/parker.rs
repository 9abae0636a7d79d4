//! The two seams of a loop: [`Workload`], what it serves besides its own callbacks, and [`Parker`], how it sleeps.
//!
//! A loop that stands alone has no further workload and sleeps in its own reactor. The threads of a pool are the same
//! loop; they share a reactor, serve the pool's run queue, and sleep as the pool says.

use crate::event_loop::reactor::Reactor;
use crate::sync::Arc;

/// What a loop serves besides its own callbacks. Lives on the loop's thread.
pub(crate) trait Workload {
    /// Does up to `budget` pieces of work. Answers whether there is more to do at once.
    fn run(&mut self, budget: u32) -> bool;

    /// The loop is about to sleep: last chance to look. Answers whether there is work, so that it must not.
    fn before_park(&mut self) -> bool;
}

/// How a loop sleeps. Shared with all threads that may wake it.
pub(crate) trait Parker: Send + Sync {
    /// Sleeps until [`Parker::unpark`], which may have come before, or for no reason. Called by the loop's own thread
    /// only. A loop that has its reactor for itself sleeps in its poll, and never calls this.
    fn park(&self) {}

    /// Wakes the loop, or keeps it from falling asleep once. Cheap while it is awake.
    fn unpark(&self);

    /// The loop is about to run a callback of its own, so it is not looking for other work meanwhile. Called by the
    /// loop's own thread only.
    fn before_callback(&self) {}
}

/// The workload of a loop that stands alone: none.
#[derive(Debug)]
pub(crate) struct NoWorkload;

impl Workload for NoWorkload {
    fn run(&mut self, _budget: u32) -> bool {
        false
    }

    fn before_park(&mut self) -> bool {
        false
    }
}

/// Wakes a loop that has its reactor for itself, and sleeps in its poll.
#[derive(Debug)]
pub(crate) struct ReactorParker {
    reactor: Arc<Reactor>,
}

impl ReactorParker {
    pub(crate) fn new(reactor: Arc<Reactor>) -> Self {
        ReactorParker { reactor }
    }
}

impl Parker for ReactorParker {
    fn unpark(&self) {
        self.reactor.wake();
    }
}
