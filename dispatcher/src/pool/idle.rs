//! Who sleeps, who searches, and who is woken: the sleep/wake protocol of a pool.
//!
//! A pool thread is *active* (running turns), *searching* (looking for a turn to run), or *sleeping*. Of the sleeping
//! ones at most one *leads*: it sleeps in the reactor's poll; the others are *parked*. One word counts the searching
//! and the sleeping ones, so that a post to a busy pool costs one read-modify-write and no lock; the lists of who
//! sleeps where are under a lock which only sleeping and waking take. `pool/README.md` has the steps and the proof that
//! no wake-up is lost; `loom_idle.rs` explores it.
//!
//! # Invariants
//! - Under the lock, `sleeping` of the word equals the number of parked threads plus the leader.
//! - Each change from one of the three conditions to another is one read-modify-write of the word.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};

/// The number of a thread within its pool.
pub(crate) type ThreadIndex = usize;

/// The most threads of a pool: they are counted in 16 bits of a word.
pub(crate) const MOST_THREADS: usize = 65_000;

const SLEEPING_ONE: u64 = 1;
const SEARCHING_ONE: u64 = 1 << 16;
const EVENT_ONE: u64 = 1 << 32;

fn sleeping(word: u64) -> u64 {
    word & 0xffff
}

fn searching(word: u64) -> u64 {
    (word >> 16) & 0xffff
}

/// What [`Idle::notify`] asks its caller to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a thread that is to be woken sleeps on until it is"]
pub(crate) enum Wake {
    /// Nobody: somebody is awake who will look.
    Nobody,
    /// A parked thread was unparked; it is done already.
    Parked(ThreadIndex),
    /// The leader: make its poll return.
    Leader,
}

/// How a thread sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SleepAs {
    /// On its own condition variable.
    Parked,
    /// In the reactor's poll.
    Leader,
}

#[derive(Debug, Default)]
struct Sleepers {
    parked: Vec<ThreadIndex>,
    leader: Option<ThreadIndex>,
    /// For each thread: whether it was taken off `parked` and has not noticed yet.
    unparked: Vec<bool>,
    /// For each thread: whether it was unparked by number while it was awake; its next sleep ends at once.
    permits: Vec<bool>,
    closed: bool,
}

/// The idle threads of one pool.
#[derive(Debug)]
pub(crate) struct Idle {
    word: AtomicU64,
    sleepers: Mutex<Sleepers>,
    /// One for each thread, so that waking one wakes just that one.
    signals: Box<[Condvar]>,
}

impl Idle {
    /// For a pool of at most `threads` threads.
    pub(crate) fn new(threads: usize) -> Self {
        assert!(threads <= MOST_THREADS, "a pool has at most {MOST_THREADS} threads");
        Idle {
            word: AtomicU64::new(0),
            sleepers: Mutex::new(Sleepers {
                unparked: vec![false; threads],
                permits: vec![false; threads],
                ..Sleepers::default()
            }),
            signals: (0..threads).map(|_| Condvar::new()).collect(),
        }
    }

    /// To be called after something runnable was made visible to all threads.
    pub(crate) fn notify(&self) -> Wake {
        // ORDERING: AcqRel, pairs with the same operation of a thread that goes to sleep (`begin_sleep`) or stops
        // searching (`stop_searching`): whichever comes second in the order of this word sees what the other did before.
        let word = self.word.fetch_add(EVENT_ONE, Ordering::AcqRel);
        if sleeping(word) == 0 || searching(word) > 0 {
            return Wake::Nobody;
        }
        self.wake_one(false)
    }

    /// Wakes one sleeping thread if nobody is searching. With `parked_only` the leader is let sleep.
    pub(crate) fn wake_one(&self, parked_only: bool) -> Wake {
        let mut sleepers = self.sleepers.lock();
        // ORDERING: Acquire is enough for a look; the lock keeps `sleeping` still.
        if searching(self.word.load(Ordering::Acquire)) > 0 {
            return Wake::Nobody;
        }
        let wake = if let Some(thread) = sleepers.parked.pop() {
            sleepers.unparked[thread] = true;
            Wake::Parked(thread)
        } else if !parked_only && sleepers.leader.take().is_some() {
            Wake::Leader
        } else {
            return Wake::Nobody;
        };
        // ORDERING: AcqRel, as in `notify`. The woken thread is counted as searching from here on.
        self.word.fetch_add(SEARCHING_ONE - SLEEPING_ONE, Ordering::AcqRel);
        drop(sleepers);
        if let Wake::Parked(thread) = wake {
            self.signals[thread].notify_one();
        }
        wake
    }

    /// Wakes one sleeping thread that `may` be woken, whoever searches: to be called after something was queued that only
    /// such threads run.
    pub(crate) fn wake_one_of(&self, may: impl Fn(ThreadIndex) -> bool) -> Wake {
        let mut sleepers = self.sleepers.lock();
        let wake = if let Some(at) = sleepers.parked.iter().rposition(|&thread| may(thread)) {
            let thread = sleepers.parked.remove(at);
            sleepers.unparked[thread] = true;
            Wake::Parked(thread)
        } else if sleepers.leader.is_some_and(&may) {
            sleepers.leader = None;
            Wake::Leader
        } else {
            return Wake::Nobody;
        };
        // ORDERING: AcqRel, as in `notify`. The woken thread is counted as searching from here on.
        self.word.fetch_add(SEARCHING_ONE - SLEEPING_ONE, Ordering::AcqRel);
        drop(sleepers);
        if let Wake::Parked(thread) = wake {
            self.signals[thread].notify_one();
        }
        wake
    }

    /// Lets everybody who is about to sleep or to wake somebody see what the calling thread has changed before.
    pub(crate) fn publish(&self) {
        drop(self.sleepers.lock());
    }

    /// A thread that was active begins to search.
    pub(crate) fn start_searching(&self) {
        // ORDERING: AcqRel, as in `notify`.
        self.word.fetch_add(SEARCHING_ONE, Ordering::AcqRel);
    }

    /// A searching thread becomes active. True: it was the last one that searched, so it has to look once more and
    /// [`notify`](Idle::notify) if it sees anything runnable left.
    #[must_use = "the last searcher answers for what was posted while it searched"]
    pub(crate) fn stop_searching(&self) -> bool {
        // ORDERING: AcqRel, as in `notify`.
        let word = self.word.fetch_sub(SEARCHING_ONE, Ordering::AcqRel);
        searching(word) == 1
    }

    /// A searching thread that found nothing announces its sleep. It must look once more at everything runnable, and
    /// then call either [`cancel_sleep`](Idle::cancel_sleep) or sleep. `None`: the pool is closed or the thread was
    /// unparked by number, and it goes on as a searching one.
    pub(crate) fn begin_sleep(&self, thread: ThreadIndex, as_leader: bool) -> Option<SleepAs> {
        let mut sleepers = self.sleepers.lock();
        if sleepers.closed || std::mem::take(&mut sleepers.permits[thread]) {
            return None;
        }
        let how = if as_leader {
            debug_assert!(sleepers.leader.is_none(), "one thread leads");
            sleepers.leader = Some(thread);
            SleepAs::Leader
        } else {
            sleepers.unparked[thread] = false;
            sleepers.parked.push(thread);
            SleepAs::Parked
        };
        // ORDERING: AcqRel, as in `notify`; what was posted before an earlier `notify` is visible after this.
        self.word.fetch_add(SLEEPING_ONE.wrapping_sub(SEARCHING_ONE), Ordering::AcqRel);
        Some(how)
    }

    /// Ends an announced sleep from the sleeper's own side: it found something, or its poll returned. It is searching
    /// again afterwards, whether it was still listed or had been woken meanwhile.
    pub(crate) fn cancel_sleep(&self, thread: ThreadIndex) {
        let mut sleepers = self.sleepers.lock();
        let listed = if sleepers.leader == Some(thread) {
            sleepers.leader = None;
            true
        } else if let Some(at) = sleepers.parked.iter().position(|parked| *parked == thread) {
            sleepers.parked.remove(at);
            true
        } else {
            false
        };
        sleepers.unparked[thread] = false;
        if listed {
            // ORDERING: AcqRel, as in `notify`.
            self.word.fetch_add(SEARCHING_ONE - SLEEPING_ONE, Ordering::AcqRel);
        }
    }

    /// Sleeps as a parked thread until woken; it is searching afterwards.
    pub(crate) fn park(&self, thread: ThreadIndex) {
        let mut sleepers = self.sleepers.lock();
        while !sleepers.unparked[thread] {
            self.signals[thread].wait(&mut sleepers);
        }
        sleepers.unparked[thread] = false;
    }

    /// Wakes this very thread, or lets its next sleep end at once.
    pub(crate) fn unpark(&self, thread: ThreadIndex) -> Wake {
        let mut sleepers = self.sleepers.lock();
        let wake = if let Some(at) = sleepers.parked.iter().position(|parked| *parked == thread) {
            sleepers.parked.remove(at);
            sleepers.unparked[thread] = true;
            Wake::Parked(thread)
        } else if sleepers.leader == Some(thread) {
            sleepers.leader = None;
            Wake::Leader
        } else {
            sleepers.permits[thread] = true;
            return Wake::Nobody;
        };
        // ORDERING: AcqRel, as in `notify`.
        self.word.fetch_add(SEARCHING_ONE - SLEEPING_ONE, Ordering::AcqRel);
        drop(sleepers);
        if let Wake::Parked(thread) = wake {
            self.signals[thread].notify_one();
        }
        wake
    }

    /// Whether nobody leads although a parked thread could.
    pub(crate) fn lead_is_wanted(&self) -> bool {
        let sleepers = self.sleepers.lock();
        sleepers.leader.is_none() && !sleepers.parked.is_empty()
    }

    /// Wakes everybody for good; from now on nobody sleeps. True: the leader's poll has to be made to return.
    #[must_use = "the leader sleeps on in its poll until it is made to return"]
    pub(crate) fn close(&self) -> bool {
        let mut sleepers = self.sleepers.lock();
        sleepers.closed = true;
        let parked = std::mem::take(&mut sleepers.parked);
        let leader = sleepers.leader.take().is_some();
        let woken = parked.len() as u64 + u64::from(leader);
        for &thread in &parked {
            sleepers.unparked[thread] = true;
        }
        // ORDERING: AcqRel, as in `notify`.
        self.word.fetch_add(woken.wrapping_mul(SEARCHING_ONE.wrapping_sub(SLEEPING_ONE)), Ordering::AcqRel);
        drop(sleepers);
        for thread in parked {
            self.signals[thread].notify_one();
        }
        leader
    }
}
