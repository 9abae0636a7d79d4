//! tokio: one task a queue, which receives from an unbounded channel; and a task for each message.

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::{Message, Peer, Tasks};

pub(crate) fn runtime(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).enable_time().build().expect("the system has threads")
}

fn mailbox<I: Send + 'static>(runtime: &Runtime, each: impl Fn(I) + Send + 'static) -> UnboundedSender<I> {
    let (sender, mut receiver) = unbounded_channel();
    runtime.spawn(async move {
        while let Some(item) = receiver.recv().await {
            each(item);
        }
    });
    sender
}

/// Typed messages.
#[derive(Debug)]
pub(crate) struct TokioMessages(Runtime);

impl TokioMessages {
    pub(crate) fn spawn(&self, body: impl Future<Output = ()> + Send + 'static) {
        self.0.spawn(body);
    }
}

impl Peer for TokioMessages {
    const NAME: &'static str = "tokio-msg";
    type Queue<M: Message> = UnboundedSender<M>;

    fn start(threads: usize) -> Self {
        TokioMessages(runtime(threads))
    }

    fn queue<M: Message>(&self) -> UnboundedSender<M> {
        mailbox(&self.0, M::run)
    }

    fn post<M: Message>(queue: &UnboundedSender<M>, message: M) {
        // Refused only while the runtime ends, and then dropped, which is how it tells.
        drop(queue.send(message));
    }

    fn aside(&self, body: impl FnOnce() + Send + 'static) {
        self.0.spawn(async { body() });
    }

    fn stop(self) -> bool {
        drop(self.0);
        true
    }
}

type Boxed = Box<dyn FnOnce() + Send>;

/// Closures, each in a box.
#[derive(Debug)]
pub(crate) struct TokioBoxed(Runtime);

impl Peer for TokioBoxed {
    const NAME: &'static str = "tokio-cb";
    type Queue<M: Message> = UnboundedSender<Boxed>;

    fn start(threads: usize) -> Self {
        TokioBoxed(runtime(threads))
    }

    fn queue<M: Message>(&self) -> UnboundedSender<Boxed> {
        mailbox(&self.0, |closure: Boxed| closure())
    }

    fn post<M: Message>(queue: &UnboundedSender<Boxed>, message: M) {
        drop(queue.send(Box::new(move || message.run())));
    }

    fn aside(&self, body: impl FnOnce() + Send + 'static) {
        self.0.spawn(async { body() });
    }

    fn stop(self) -> bool {
        drop(self.0);
        true
    }
}

impl Tasks for TokioMessages {
    const NAME: &'static str = "tokio-task";
    type Pool<M: Message> = Runtime;

    fn start<M: Message>(threads: usize) -> Runtime {
        runtime(threads)
    }

    fn spawn<M: Message>(pool: &Runtime, message: M) {
        pool.spawn(async { message.run() });
    }
}
