//! The threads of a pool: how many, how many there may be, who comes and who goes.
//!
//! *Base* threads live as long as the pool. *Extra* threads only run runnables. They are added
//! - in static mode with each dispatcher that allows sync calls, one each, so that N of them that block leave the base
//!   threads to everybody else;
//! - in dynamic mode by the stall watch, when every thread has been inside of one callback for too long.
//!
//! An extra thread is *surplus* when no dispatcher claims it: in static mode the ones beyond the reservations, in dynamic
//! mode all. One that is surplus and has slept for [`PoolOptions::idle_life`](super::PoolOptions) is retired: it is woken
//! to end, and joined. Until then the next reservation uses it.
//!
//! The limit counts all threads. A reservation beyond it is refused, in both modes.
//!
//! # Invariants
//! - In static mode of a pool with threads, `extra >= reserved`.
//! - `base + extra <= limit`, and a reservation is granted only while `base + reserved < limit`.
//! - A number is used by one thread at a time: it is free again when the thread is about to end.

use std::io;

use super::Pool;
use super::idle::{MOST_THREADS, ThreadIndex};
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

/// The numbers of a pool's threads at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ThreadFigures {
    /// Base threads.
    pub(crate) base: usize,
    /// Extra threads, those that are about to end left out.
    pub(crate) extra: usize,
    /// Dispatchers that allow sync calls.
    pub(crate) reserved: usize,
    /// The most threads.
    pub(crate) limit: usize,
    /// Extra threads that were ever added.
    pub(crate) added: u64,
    /// Extra threads that were retired.
    pub(crate) retired: u64,
}

impl ThreadFigures {
    /// The threads that run.
    pub(crate) fn running(&self) -> usize {
        self.base + self.extra
    }
}

#[derive(Debug, Default)]
struct Counts {
    figures: ThreadFigures,
    closed: bool,
    /// Numbers of threads that have ended.
    free: Vec<ThreadIndex>,
    /// The lowest number that no thread ever had.
    unused: ThreadIndex,
    /// The loops of the base threads; dropped when the pool closes, because they keep it alive.
    #[cfg(not(shuttle))]
    loops: Vec<LoopHandle>,
    handles: Vec<(ThreadIndex, thread::JoinHandle<()>)>,
    /// Of threads that were retired and are about to end.
    ended: Vec<thread::JoinHandle<()>>,
}

/// The thread accounting of one pool.
#[derive(Debug)]
pub(crate) struct Threads {
    name: String,
    /// Base threads; 0 in a pool that is driven by hand.
    base: usize,
    is_dynamic: bool,
    counts: Mutex<Counts>,
}

impl Threads {
    pub(crate) fn new(name: String, base: usize, limit: usize, is_dynamic: bool) -> Self {
        let figures = ThreadFigures { limit, ..ThreadFigures::default() };
        Threads { name, base, is_dynamic, counts: Mutex::new(Counts { figures, ..Counts::default() }) }
    }

    /// The number of base threads.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// Whether threads are added when they are needed instead of when a dispatcher is made that may need one.
    pub(super) fn is_dynamic(&self) -> bool {
        self.is_dynamic
    }

    /// The number of threads that run.
    pub(crate) fn started(&self) -> usize {
        self.counts.lock().figures.running()
    }

    /// All numbers.
    pub(crate) fn figures(&self) -> ThreadFigures {
        self.counts.lock().figures
    }

    /// Changes the limit. False: it would be below the threads that run, or (in dynamic mode, where it may not run yet) the
    /// one that the dispatchers that may block need, or above what a pool can have; then it stays.
    pub(crate) fn set_limit(&self, limit: usize) -> bool {
        let mut counts = self.counts.lock();
        let figures = counts.figures;
        let needed = figures.running().max(figures.base + usize::from(figures.reserved > 0));
        let is_possible = (needed..=MOST_THREADS).contains(&limit);
        if is_possible {
            counts.figures.limit = limit;
        }
        is_possible
    }

    /// Whether the pool is closed, so that a thread without work ends.
    pub(crate) fn is_closed(&self) -> bool {
        self.counts.lock().closed
    }

    /// Starts one more base thread.
    #[cfg(not(shuttle))]
    pub(crate) fn start_base(&self, pool: &Arc<Pool>) -> io::Result<()> {
        let mut counts = self.counts.lock();
        let index = counts.unused;
        let parker = Arc::new(Seat::new(Arc::clone(pool), index));
        let tid = u32::try_from(index).ok();
        let mut seed = LoopSeed::new(&thread_name(&self.name, index), tid, Arc::clone(pool.reactor()), parker);
        // The pool looks at the reactor at times of its own choice.
        seed.poll_every = u32::MAX;
        let handle = seed.handle();
        self.start_locked(&mut counts, pool, Role::Base(seed))?;
        counts.figures.base += 1;
        counts.loops.push(handle);
        Ok(())
    }

    /// Starts one more base thread, in a model, which has no loops.
    #[cfg(shuttle)]
    pub(crate) fn start_base(&self, pool: &Arc<Pool>) -> io::Result<()> {
        let mut counts = self.counts.lock();
        self.start_locked(&mut counts, pool, Role::Extra)?;
        counts.figures.base += 1;
        Ok(())
    }

    fn start_locked(&self, counts: &mut Counts, pool: &Arc<Pool>, role: Role) -> io::Result<()> {
        let index = counts.free.pop().unwrap_or(counts.unused);
        pool.idle.admit(index);
        // Fresh, so that a thread which does not run yet does not look like one that is stuck.
        let pulse = pool.pulses.of(index);
        pulse.beat();
        pulse.set_generation(0);
        let body = {
            let pool = Arc::clone(pool);
            move || worker::run(&pool, index, role)
        };
        match thread::spawn(&thread_name(&self.name, index), body) {
            Ok(handle) => {
                counts.unused = counts.unused.max(index + 1);
                counts.handles.push((index, handle));
                Ok(())
            }
            Err(error) => {
                if index < counts.unused {
                    counts.free.push(index);
                }
                Err(error)
            }
        }
    }

    fn start_extra(&self, counts: &mut Counts, pool: &Arc<Pool>) -> io::Result<()> {
        self.start_locked(counts, pool, Role::Extra)?;
        counts.figures.extra += 1;
        counts.figures.added += 1;
        Ok(())
    }

    /// Counts one more dispatcher that may block, and in static mode starts a thread for it unless a spare one is there.
    pub(crate) fn reserve(&self, pool: &Arc<Pool>) -> Result<(), ThreadRefused> {
        let mut counts = self.counts.lock();
        let ThreadFigures { extra, reserved, limit, .. } = counts.figures;
        if self.base + reserved >= limit {
            return Err(ThreadRefused::Limit(limit));
        }
        if self.base > 0 && !self.is_dynamic && extra <= reserved && !counts.closed {
            self.start_extra(&mut counts, pool).map_err(ThreadRefused::System)?;
        }
        counts.figures.reserved += 1;
        Ok(())
    }

    /// One dispatcher that may block is gone, or blocks no more. True: a thread is surplus now.
    pub(crate) fn release(&self) -> bool {
        let mut counts = self.counts.lock();
        debug_assert!(counts.figures.reserved > 0, "each release follows its reservation");
        counts.figures.reserved = counts.figures.reserved.saturating_sub(1);
        self.surplus_of(&counts) > 0
    }

    fn surplus_of(&self, counts: &Counts) -> usize {
        let claimed = if self.is_dynamic { 0 } else { counts.figures.reserved };
        counts.figures.extra.saturating_sub(claimed)
    }

    /// How many extra threads no dispatcher claims.
    pub(super) fn surplus(&self) -> usize {
        self.surplus_of(&self.counts.lock())
    }

    /// Adds a thread because every one is stuck. False: the limit is reached, or the pool is closed.
    pub(super) fn add_for_stall(&self, pool: &Arc<Pool>) -> io::Result<bool> {
        let mut counts = self.counts.lock();
        if counts.closed || counts.figures.running() >= counts.figures.limit {
            return Ok(false);
        }
        self.start_extra(&mut counts, pool).map(|()| true)
    }

    /// Whether a thread of this number is an extra one.
    pub(super) fn is_extra(&self, index: ThreadIndex) -> bool {
        index >= self.base
    }

    /// Retires those of `idle` that still sleep the sleep that goes with them, as many as are surplus. They count as gone
    /// at once. Says how many.
    pub(super) fn retire(&self, pool: &Pool, idle: &[(ThreadIndex, u32)]) -> usize {
        let mut counts = self.counts.lock();
        if counts.closed {
            return 0;
        }
        let mut told = 0;
        for &(index, sleep) in idle.iter().filter(|(index, _)| self.is_extra(*index)) {
            if self.surplus_of(&counts) == 0 {
                break;
            }
            let Some(wake) = pool.idle.retire(index, sleep) else { continue };
            counts.figures.extra -= 1;
            counts.figures.retired += 1;
            told += 1;
            pool.carry_out(wake);
        }
        told
    }

    /// A retired thread is about to end; it touches nothing of the pool any more, so its number is free.
    pub(super) fn ends(&self, pool: &Pool, index: ThreadIndex) {
        pool.scheduling.forget(index);
        let mut counts = self.counts.lock();
        if let Some(at) = counts.handles.iter().position(|(handle, _)| *handle == index) {
            let (_, handle) = counts.handles.swap_remove(at);
            counts.ended.push(handle);
        }
        counts.free.push(index);
    }

    /// Joins the retired threads that have ended; false if some are still about to.
    pub(super) fn join_ended(&self) -> bool {
        let mut counts = self.counts.lock();
        if counts.ended.is_empty() {
            return true;
        }
        let ended = std::mem::take(&mut counts.ended);
        let (ended, others): (Vec<_>, Vec<_>) = ended.into_iter().partition(thread::JoinHandle::is_finished);
        counts.ended = others;
        let all = counts.ended.is_empty();
        drop(counts);
        for handle in ended {
            let _ = handle.join(); // As in `join`.
        }
        all
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

    /// Whether all threads of a closed pool have ended, so that [`join`](Threads::join) would not wait.
    pub(crate) fn have_ended(&self) -> bool {
        let counts = self.counts.lock();
        let mut handles = counts.handles.iter().map(|(_, handle)| handle).chain(&counts.ended);
        handles.all(thread::JoinHandle::is_finished)
    }

    /// Waits for all threads to end, except the calling one. From then on there are none.
    pub(crate) fn join(&self) {
        let mut counts = self.counts.lock();
        let (handles, ended) = (std::mem::take(&mut counts.handles), std::mem::take(&mut counts.ended));
        drop(counts);
        for handle in handles.into_iter().map(|(_, handle)| handle).chain(ended) {
            if handle.id() != thread::current_id() {
                // Every callback is caught where it is called, so a panic here is one of ours; it has been printed.
                let _ = handle.join();
            }
        }
        let figures = &mut self.counts.lock().figures;
        (figures.base, figures.extra) = (0, 0);
    }
}

fn thread_name(pool: &str, index: usize) -> String {
    format!("{pool}-{index}")
}
