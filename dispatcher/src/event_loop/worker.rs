//! `Worker`: the thread of one lane of one loop, and its queue.
//!
//! It is started with the first item and runs one item at a time, in order. It belongs to no loop: inside an item
//! there is no current loop and no number. Once the queue is closed it runs what is left, and ends.

use std::collections::VecDeque;
use std::fmt;
use std::io;

use crate::sync::{Arc, Condvar, Mutex, thread};

/// Something for a worker to do. What it is and whom it tells is its own business.
pub(crate) trait WorkItem: Send + Sync {
    /// Does the work, unless the item was canceled. Never panics.
    fn run(&self);

    /// Ends the item as canceled, unless it has been started. Answers whether this did it.
    fn cancel(&self) -> bool;
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Arc<dyn WorkItem>>,
    closed: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// A worker thread. Dropping it closes the queue, without waiting.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the operating system gives no further thread.
    pub(crate) fn start(name: &str) -> io::Result<Worker> {
        let shared = Arc::new(Shared { queue: Mutex::new(Queue::default()), changed: Condvar::new() });
        let of_thread = shared.clone();
        let thread = thread::spawn(name, move || of_thread.work())?;
        Ok(Worker { shared, thread: Some(thread) })
    }

    pub(crate) fn enqueue(&self, item: Arc<dyn WorkItem>) {
        self.shared.queue.lock().items.push_back(item);
        self.shared.changed.notify_one();
    }

    /// Cancels everything that has not been started. Answers how many.
    pub(crate) fn cancel_queued(&self) -> u64 {
        let items: Vec<_> = self.shared.queue.lock().items.iter().cloned().collect();
        items.into_iter().filter(|item| item.cancel()).count() as u64
    }

    /// Closes the queue and waits until what is in it has been run.
    pub(crate) fn join(mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            // The thread catches every panic of an item; there is none left to hear of.
            let _ = thread.join();
        }
    }

    fn close(&self) {
        self.shared.queue.lock().closed = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn work(&self) {
        while let Some(item) = self.next() {
            item.run();
        }
    }

    fn next(&self) -> Option<Arc<dyn WorkItem>> {
        let mut queue = self.queue.lock();
        loop {
            if let Some(item) = queue.items.pop_front() {
                return Some(item);
            }
            if queue.closed {
                return None;
            }
            self.changed.wait(&mut queue);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Worker({} queued)", self.shared.queue.lock().items.len())
    }
}
