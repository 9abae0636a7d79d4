//! rayon: tasks on its pool. It has no serial queues.

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Message, Tasks};

#[derive(Debug)]
pub(crate) struct Rayon;

impl Tasks for Rayon {
    const NAME: &'static str = "rayon";
    type Pool<M: Message> = ThreadPool;

    fn start<M: Message>(threads: usize) -> ThreadPool {
        ThreadPoolBuilder::new().num_threads(threads).build().expect("the system has threads")
    }

    fn spawn<M: Message>(pool: &ThreadPool, message: M) {
        pool.spawn(|| message.run());
    }
}
