//! desync: serial queues on a pool of threads that the whole process shares.

use std::sync::Arc;

use super::{Message, Peer};

#[derive(Debug)]
pub(crate) struct Desync;

impl Peer for Desync {
    const NAME: &'static str = "desync";
    type Queue<M: Message> = Arc<desync::Desync<()>>;

    fn start(threads: usize) -> Self {
        desync::scheduler::scheduler().set_max_threads(threads);
        Desync
    }

    fn queue<M: Message>(&self) -> Arc<desync::Desync<()>> {
        Arc::new(desync::Desync::new(()))
    }

    fn post<M: Message>(queue: &Arc<desync::Desync<()>>, message: M) {
        queue.desync(move |()| message.run());
    }

    fn aside(&self, body: impl FnOnce() + Send + 'static) {
        let queue = desync::Desync::new(());
        queue.desync(|()| body());
        // Dropping it would wait for the body.
        std::mem::forget(queue);
    }

    /// A queue that is dropped runs what is in it first.
    fn stop(self) -> bool {
        true
    }
}
