//! The threads of a pool: how many, how many there may be, and who gave them back.
//!
//! *Base* threads live as long as the pool. *Extra* threads are added for dispatchers that allow sync calls, one each,
//! so that N of them that block leave the base threads to everybody else. A thread whose dispatcher is gone is kept for
//! the next one. The limit counts all threads; a reservation beyond it is refused.

use std::io;

use super::Pool;
use super::worker::{self, Role};
use crate::sync::{Arc, Mutex, thread};

/// Why a thread could not be reserved.
#[derive(Debug)]
pub(crate) enum ThreadRefused {
    /// The limit of the pool is reached.
    Limit(usize),
    /// The system gave no thread.
    System(io::Error),
}

#[derive(Debug, Default)]
struct Counts {
    /// Threads that were started and not joined.
    started: usize,
    /// Dispatchers that allow sync calls.
    reserved: usize,
    closed: bool,
    handles: Vec<thread::JoinHandle<()>>,
}

/// The thread accounting of one pool.
#[derive(Debug)]
pub(crate) struct Threads {
    name: String,
    base: usize,
    limit: usize,
    counts: Mutex<Counts>,
}

impl Threads {
    pub(crate) fn new(name: String, base: usize, limit: usize) -> Self {
        Threads { name, base, limit, counts: Mutex::new(Counts::default()) }
    }

    /// The number of base threads.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// The most threads that the pool may have.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// The number of threads that were started.
    pub(crate) fn started(&self) -> usize {
        self.counts.lock().started
    }

    /// Whether the pool is closed, so that a thread without work ends.
    pub(crate) fn is_closed(&self) -> bool {
        self.counts.lock().closed
    }

    /// Starts one more thread.
    pub(crate) fn start_one(&self, pool: &Arc<Pool>, role: Role) -> io::Result<()> {
        Self::start_locked(&mut self.counts.lock(), &self.name, pool, role)
    }

    fn start_locked(counts: &mut Counts, name: &str, pool: &Arc<Pool>, role: Role) -> io::Result<()> {
        let index = counts.started;
        let pool = Arc::clone(pool);
        let handle = thread::spawn(&format!("{name}-{index}"), move || worker::run(&pool, index, role))?;
        counts.started += 1;
        counts.handles.push(handle);
        Ok(())
    }

    /// Counts one more dispatcher that may block, and starts a thread for it unless a spare one is there.
    pub(crate) fn reserve(&self, pool: &Arc<Pool>) -> Result<(), ThreadRefused> {
        let mut counts = self.counts.lock();
        if self.base + counts.reserved + 1 > self.limit {
            return Err(ThreadRefused::Limit(self.limit));
        }
        let wanted = self.base + counts.reserved + 1;
        if self.base > 0 && counts.started < wanted && !counts.closed {
            Self::start_locked(&mut counts, &self.name, pool, Role::Extra).map_err(ThreadRefused::System)?;
        }
        counts.reserved += 1;
        Ok(())
    }

    /// One dispatcher that may block is gone.
    pub(crate) fn release(&self) {
        let mut counts = self.counts.lock();
        debug_assert!(counts.reserved > 0, "each release follows its reservation");
        counts.reserved = counts.reserved.saturating_sub(1);
    }

    pub(crate) fn close(&self) {
        self.counts.lock().closed = true;
    }

    /// Waits for all threads to end, except the calling one.
    pub(crate) fn join(&self) {
        let handles = std::mem::take(&mut self.counts.lock().handles);
        for handle in handles {
            if handle.id() != thread::current_id() {
                // Every callback is caught where it is called, so a panic here is one of ours; it has been printed.
                let _ = handle.join();
            }
        }
    }
}
