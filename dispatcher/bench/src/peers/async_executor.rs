//! async-executor: one task a queue, which receives from an unbounded channel. Its threads park; with smol's reactor, which
//! timers need, they wait there instead.

use std::sync::Arc;
use std::thread;

use smol::Executor;
use smol::channel::{Sender, unbounded};
use smol::future::block_on;

use super::{Message, Peer, Tasks};

#[derive(Debug)]
pub(crate) struct AsyncExecutor {
    executor: Arc<Executor<'static>>,
    end: Sender<()>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// What the threads do while there is nothing to run.
#[derive(Debug, Clone, Copy)]
enum Idle {
    Park,
    WaitInReactor,
}

impl AsyncExecutor {
    /// With smol's reactor.
    pub(crate) fn with_reactor(threads: usize) -> Self {
        Self::new(threads, Idle::WaitInReactor)
    }

    fn new(threads: usize, idle: Idle) -> Self {
        let executor = Arc::new(Executor::new());
        let (end, ends) = unbounded::<()>();
        let threads = (0..threads)
            .map(|_| {
                let (executor, ends) = (Arc::clone(&executor), ends.clone());
                thread::spawn(move || {
                    let until_the_end = executor.run(ends.recv());
                    let closed = match idle {
                        Idle::Park => block_on(until_the_end),
                        Idle::WaitInReactor => smol::block_on(until_the_end),
                    };
                    assert!(closed.is_err(), "nothing is ever sent");
                })
            })
            .collect();
        AsyncExecutor { executor, end, threads }
    }

    /// Runs a future on the threads, and returns what it returns.
    pub(crate) fn run<T: Send + 'static>(&self, body: impl Future<Output = T> + Send + 'static) -> T {
        block_on(self.executor.spawn(body))
    }

    pub(crate) fn executor(&self) -> Arc<Executor<'static>> {
        Arc::clone(&self.executor)
    }
}

impl Peer for AsyncExecutor {
    const NAME: &'static str = "async-executor";
    type Queue<M: Message> = Sender<M>;

    fn start(threads: usize) -> Self {
        Self::new(threads, Idle::Park)
    }

    fn queue<M: Message>(&self) -> Sender<M> {
        let (sender, receiver) = unbounded::<M>();
        let body = async move {
            while let Ok(message) = receiver.recv().await {
                message.run();
            }
        };
        self.executor.spawn(body).detach();
        sender
    }

    fn post<M: Message>(queue: &Sender<M>, message: M) {
        drop(queue.try_send(message));
    }

    fn aside(&self, body: impl FnOnce() + Send + 'static) {
        self.executor.spawn(async { body() }).detach();
    }

    fn stop(self) -> bool {
        self.end.close();
        self.threads.into_iter().all(|thread| thread.join().is_ok())
    }
}

impl Tasks for AsyncExecutor {
    const NAME: &'static str = "async-executor";
    type Pool<M: Message> = AsyncExecutor;

    fn start<M: Message>(threads: usize) -> AsyncExecutor {
        <AsyncExecutor as Peer>::start(threads)
    }

    fn spawn<M: Message>(pool: &AsyncExecutor, message: M) {
        pool.executor.spawn(async { message.run() }).detach();
    }
}
