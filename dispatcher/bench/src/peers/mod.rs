//! Who stands beside each other: Fuchsine, and what one would take otherwise.
//!
//! A workload is written once, over [`Peer`]. Its messages have a type of their own, which a peer with typed mailboxes
//! carries by value, and one that runs closures calls in a closure.

mod async_executor;
mod crossbeam;
mod desync;
mod fuchsine;
mod rayon;
mod tokio;

pub(crate) use self::async_executor::AsyncExecutor;
pub(crate) use self::crossbeam::Crossbeam;
pub(crate) use self::desync::Desync;
pub(crate) use self::fuchsine::Fuchsine;
pub(crate) use self::rayon::Rayon;
pub(crate) use self::tokio::{TokioBoxed, TokioMessages, runtime as tokio_runtime};

/// What is posted.
pub(crate) trait Message: Send + Sized + 'static {
    fn run(self);

    /// Called instead, by a peer that tells what it does not run; the others drop it.
    fn canceled(self) {}
}

/// Serial queues on a pool of threads: what is posted to a queue runs one at a time and in order.
pub(crate) trait Peer: Sized + Send + Sync + 'static {
    const NAME: &'static str;
    /// How many idle queues are made to see what one costs.
    const MANY: u64 = 100_000;
    type Queue<M: Message>: Clone + Send + Sync + 'static;

    fn start(threads: usize) -> Self;

    fn queue<M: Message>(&self) -> Self::Queue<M>;

    fn post<M: Message>(queue: &Self::Queue<M>, message: M);

    /// Runs `body` on a thread of the pool, or on one of its own where components have threads and there is no pool.
    fn aside(&self, body: impl FnOnce() + Send + 'static);

    /// Nothing is accepted any more, where a peer has such a thing.
    fn close(&self) {}

    /// Ends everything, and says whether all that the peer itself counts is right.
    fn stop(self) -> bool;
}

/// Tasks that run on any thread of a pool, several at once.
pub(crate) trait Tasks: 'static {
    const NAME: &'static str;
    type Pool<M: Message>: Send + Sync + 'static;

    fn start<M: Message>(threads: usize) -> Self::Pool<M>;

    fn spawn<M: Message>(pool: &Self::Pool<M>, message: M);
}
