//! `Worker`: the thread of one lane of one loop, and its queue.
//!
//! It is started with the first item and runs one item at a time, in order. It belongs to no loop: inside an item
//! there is no current loop and no number. Once the queue is closed it runs what is left, and ends.
//!
//! A pause halts it: it starts nothing until it is released, not even what is left in a closed queue. Whether it is
//! halted and whether it is busy are under the lock of its queue, so an item is either started before it is halted, and
//! the pause waits for it, or after it was released.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::panic::Location;

use crate::event_loop::lane::Lane;
use crate::event_loop::pause_gate::{Halt, PauseGate};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Condvar, Mutex, thread, thread_local};

thread_local! {
    /// The worker whose thread this is.
    static OWN: RefCell<Option<Arc<WorkerShared>>> = const { RefCell::new(None) };
}

/// Something for a worker to do. What it is and whom it tells is its own business.
pub(crate) trait WorkItem: Send + Sync {
    /// Does the work, unless the item was canceled. Never panics.
    fn run(&self);

    /// Ends the item as canceled, unless it has been started. Answers whether this did it.
    fn cancel(&self) -> bool;

    /// Where in the program the item was given to its worker.
    fn given(&self) -> &'static Location<'static>;
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Arc<dyn WorkItem>>,
    closed: bool,
    halted: bool,
    /// The item that is being run.
    running: Option<&'static Location<'static>>,
}

/// What a worker's thread shares with its loop and with those who pause it.
pub(crate) struct WorkerShared {
    name: String,
    lane: Lane,
    gate: Option<Arc<PauseGate<WorkerShared>>>,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// A pause waits for the running item. Written by it under the queue's lock, read by the item.
    is_halted: AtomicBool,
    /// The end of the loop does. Written by the loop, read by the item.
    is_hurried: AtomicBool,
}

/// A worker thread. Dropping it closes the queue, without waiting.
pub(crate) struct Worker {
    shared: Arc<WorkerShared>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread. With a gate, it stands still whenever that says so.
    ///
    /// # Errors
    /// When the operating system gives no further thread.
    pub(crate) fn start(name: String, lane: Lane, gate: Option<Arc<PauseGate<WorkerShared>>>) -> io::Result<Worker> {
        let shared = Arc::new(WorkerShared {
            name,
            lane,
            gate,
            queue: Mutex::new(Queue::default()),
            changed: Condvar::new(),
            is_halted: AtomicBool::new(false),
            is_hurried: AtomicBool::new(false),
        });
        let of_thread = shared.clone();
        let thread = thread::spawn(&shared.name, move || of_thread.work())?;
        if let Some(gate) = &shared.gate {
            gate.enlist(shared.clone());
        }
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

    /// The loop has begun to shut down: long work may want to be short.
    pub(crate) fn hurry(&self) {
        self.shared.is_hurried.store(true, Ordering::Relaxed);
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

impl WorkerShared {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }

    /// Where in the program the item was given that runs at this moment.
    pub(crate) fn running(&self) -> Option<&'static Location<'static>> {
        self.queue.lock().running
    }

    fn is_waited_for(&self) -> bool {
        self.is_halted.load(Ordering::Relaxed) || self.is_hurried.load(Ordering::Relaxed)
    }

    fn work(self: Arc<Self>) {
        OWN.with(|own| *own.borrow_mut() = Some(self.clone()));
        while let Some(item) = self.next() {
            item.run();
        }
        OWN.with(|own| drop(own.borrow_mut().take()));
        if let Some(gate) = &self.gate {
            gate.dismiss(&self);
        }
    }

    fn next(&self) -> Option<Arc<dyn WorkItem>> {
        let mut queue = self.queue.lock();
        let was_busy = queue.running.take().is_some();
        if was_busy
            && queue.halted
            && let Some(gate) = &self.gate
        {
            // The gate's lock comes before that of a queue.
            drop(queue);
            gate.settle();
            queue = self.queue.lock();
        }
        loop {
            if !queue.halted {
                if let Some(item) = queue.items.pop_front() {
                    queue.running = Some(item.given());
                    return Some(item);
                }
                if queue.closed {
                    return None;
                }
            }
            self.changed.wait(&mut queue);
        }
    }
}

impl Halt for WorkerShared {
    fn halt(&self) {
        let mut queue = self.queue.lock();
        queue.halted = true;
        self.is_halted.store(true, Ordering::Relaxed);
    }

    fn release(&self) {
        let mut queue = self.queue.lock();
        queue.halted = false;
        self.is_halted.store(false, Ordering::Relaxed);
        drop(queue);
        self.changed.notify_one();
    }

    fn is_busy(&self) -> bool {
        self.queue.lock().running.is_some()
    }
}

/// Inside of [work](crate::event_loop::EventLoop::work): whether somebody waits for this item to end, either a loop that
/// pauses everybody, workers too, or the shutdown of its loop. Long work may look at it from time to time, and hand back
/// what it has so far. Always `false` elsewhere.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::event_loop::{Lane, LoopManager, yield_wanted};
///
/// LoopManager::builder()
///     .loops(1)
///     .setup(0, |event_loop| {
///         let manager = event_loop.manager().unwrap();
///         let endless = || {
///             let mut steps = 0u64;
///             while !yield_wanted() {
///                 steps += 1;
///                 std::thread::yield_now();
///             }
///             steps
///         };
///         event_loop.work(Lane::Slow, endless, |_, steps| assert!(steps.is_ok())).unwrap();
///         manager.shutdown();
///     })
///     .build()?
///     .run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn yield_wanted() -> bool {
    OWN.with(|own| own.borrow().as_ref().is_some_and(|own| own.is_waited_for()))
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

impl fmt::Debug for WorkerShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerShared({:?})", self.name)
    }
}
