//! Threads and crossbeam channels: a thread for each queue, or some threads at one channel.

use std::sync::Mutex;
use std::thread;

use crossbeam_channel::{Sender, unbounded};

use super::{Message, Peer, Tasks};

/// A thread needs little here, and many are made.
const STACK: usize = 128 * 1024;

/// A thread for each queue. How many threads a pool has says nothing to it.
#[derive(Debug)]
pub(crate) struct Crossbeam {
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

impl Crossbeam {
    fn thread(&self, body: impl FnOnce() + Send + 'static) {
        let thread = thread::Builder::new().stack_size(STACK).spawn(body).expect("the system has threads");
        self.threads.lock().expect("nobody panics with it").push(thread);
    }
}

impl Peer for Crossbeam {
    const NAME: &'static str = "crossbeam";
    const MANY: u64 = 5_000;
    type Queue<M: Message> = Sender<M>;

    fn start(_threads: usize) -> Self {
        Crossbeam { threads: Mutex::default() }
    }

    fn queue<M: Message>(&self) -> Sender<M> {
        let (sender, receiver) = unbounded::<M>();
        self.thread(move || receiver.into_iter().for_each(M::run));
        sender
    }

    fn post<M: Message>(queue: &Sender<M>, message: M) {
        drop(queue.send(message));
    }

    fn aside(&self, body: impl FnOnce() + Send + 'static) {
        self.thread(body);
    }

    /// A thread ends when its last sender is gone and all is received, so it is not waited for: the senders of a ring
    /// that is its own stay.
    fn stop(self) -> bool {
        true
    }
}

impl Tasks for Crossbeam {
    const NAME: &'static str = "crossbeam";
    type Pool<M: Message> = Sender<M>;

    fn start<M: Message>(threads: usize) -> Sender<M> {
        let (sender, receiver) = unbounded::<M>();
        for _ in 0..threads {
            let receiver = receiver.clone();
            thread::spawn(move || receiver.into_iter().for_each(M::run));
        }
        sender
    }

    fn spawn<M: Message>(pool: &Sender<M>, message: M) {
        drop(pool.send(message));
    }
}
