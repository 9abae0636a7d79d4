//! The threads of a pool: how many, how many there may be, and who gave them back.
//!
//! *Base* threads live as long as the pool. *Extra* threads are added for dispatchers that allow sync calls, one each,
//! so that N of them that block leave the base threads to everybody else. A thread whose dispatcher is gone is kept for
//! the next one. The limit counts all threads; a reservation beyond it is refused.

use std::io;

use super::Pool;
#[cfg(not(shuttle))]
use super::worker::Seat;
use super::worker::{self, Role};
#[cfg(not(shuttle))]
use crate::event_loop::{LoopHandle, LoopSeed};
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
    /// The loops of the base threads; dropped when the pool closes, because they keep it alive.
    #[cfg(not(shuttle))]
    loops: Vec<LoopHandle>,
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

    /// The number of threads that were started.
    pub(crate) fn started(&self) -> usize {
        self.counts.lock().started
    }

    /// Whether the pool is closed, so that a thread without work ends.
    pub(crate) fn is_closed(&self) -> bool {
        self.counts.lock().closed
    }

    /// Starts one more base thread.
    #[cfg(not(shuttle))]
    pub(crate) fn start_base(&self, pool: &Arc<Pool>) -> io::Result<()> {
        let mut counts = self.counts.lock();
        let index = counts.started;
        let parker = Arc::new(Seat::new(Arc::clone(pool), index));
        let tid = u32::try_from(index).ok();
        let mut seed = LoopSeed::new(&thread_name(&self.name, index), tid, Arc::clone(pool.reactor()), parker);
        // The pool looks at the reactor at times of its own choice.
        seed.poll_every = u32::MAX;
        let handle = seed.handle();
        Self::start_locked(&mut counts, &self.name, pool, Role::Base(seed))?;
        counts.loops.push(handle);
        Ok(())
    }

    /// Starts one more base thread, in a model, which has no loops.
    #[cfg(shuttle)]
    pub(crate) fn start_base(&self, pool: &Arc<Pool>) -> io::Result<()> {
        Self::start_locked(&mut self.counts.lock(), &self.name, pool, Role::Extra)
    }

    fn start_locked(counts: &mut Counts, name: &str, pool: &Arc<Pool>, role: Role) -> io::Result<()> {
        let index = counts.started;
        let pool = Arc::clone(pool);
        let handle = thread::spawn(&thread_name(name, index), move || worker::run(&pool, index, role))?;
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

    /// Lets the threads end once they have nothing to do.
    pub(crate) fn close(&self) {
        let mut counts = self.counts.lock();
        counts.closed = true;
        #[cfg(not(shuttle))]
        let loops = std::mem::take(&mut counts.loops);
        drop(counts);
        #[cfg(not(shuttle))]
        for event_loop in loops {
            event_loop.begin_shutdown();
        }
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

fn thread_name(pool: &str, index: usize) -> String {
    format!("{pool}-{index}")
}
