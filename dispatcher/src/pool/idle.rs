//! Who sleeps, who searches, and who is woken: the sleep/wake protocol of a pool.
//!
//! A pool thread is *active* (running turns), *searching* (looking for a turn to run), or *sleeping*. Of the sleeping
//! ones at most one *leads*: it sleeps in the reactor's poll; the others are *parked*. One word counts the searching
//! and the sleeping ones, so that a post to a busy pool costs one fence and one look at it, and no lock; the lists of who
//! sleeps where are under a lock which only sleeping and waking take. `pool/README.md` has the steps and the proof that
//! no wake-up is lost; `loom_idle.rs` explores it.
//!
//! # Invariants
//! - Under the lock, `sleeping` of the word equals the number of parked threads plus the leader.
//! - Each change from one of the three conditions to another is one read-modify-write of the word.
//! - Between what is posted and the look at the word, and between the end of searching and the last look at the queues, there is a
//!   sequentially consistent fence.

use crate::sync::atomic::{AtomicU64, Ordering, fence};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};

/// The number of a thread within its pool.
pub(crate) type ThreadIndex = usize;

/// The most threads of a pool: they are counted in 16 bits of a word.
pub(crate) const MOST_THREADS: usize = 65_000;

const SLEEPING_ONE: u64 = 1;
const SEARCHING_ONE: u64 = 1 << 16;

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

/// One thread, asleep or not.
#[derive(Debug, Default)]
struct Sleeper {
    /// Whether it was taken off `parked` and has not noticed yet.
    unparked: bool,
    /// Whether it was unparked by number while it was awake; its next sleep ends at once.
    permit: bool,
    /// Whether it was woken to end.
    retires: bool,
    /// How often it has begun to sleep: who sleeps at two looks under one number has slept in between.
    sleeps: u32,
    /// Its own, so that waking it wakes nobody else.
    signal: Arc<Condvar>,
}

#[derive(Debug, Default)]
struct Sleepers {
    parked: Vec<ThreadIndex>,
    leader: Option<ThreadIndex>,
    /// By number.
    threads: Vec<Sleeper>,
    closed: bool,
}

impl Sleepers {
    /// Takes a thread off the lists of those that sleep, if it is on one.
    fn take_off(&mut self, thread: ThreadIndex) -> Option<SleepAs> {
        if self.leader == Some(thread) {
            self.leader = None;
            return Some(SleepAs::Leader);
        }
        let at = self.parked.iter().position(|parked| *parked == thread)?;
        self.parked.remove(at);
        Some(SleepAs::Parked)
    }

    /// Notes that a thread which was taken off `parked` is to get up; its signal has to be given without the lock.
    fn unpark(&mut self, thread: ThreadIndex) -> Arc<Condvar> {
        self.threads[thread].unparked = true;
        Arc::clone(&self.threads[thread].signal)
    }
}

/// The idle threads of one pool.
#[derive(Debug)]
pub(crate) struct Idle {
    word: AtomicU64,
    sleepers: Mutex<Sleepers>,
}

impl Idle {
    pub(crate) fn new() -> Self {
        Idle { word: AtomicU64::new(0), sleepers: Mutex::new(Sleepers::default()) }
    }

    /// Makes room for a thread of this number, before it starts. One that had the number before has ended.
    pub(crate) fn admit(&self, thread: ThreadIndex) {
        let mut sleepers = self.sleepers.lock();
        while sleepers.threads.len() <= thread {
            sleepers.threads.push(Sleeper::default());
        }
        let Sleeper { signal, sleeps, .. } = std::mem::take(&mut sleepers.threads[thread]);
        sleepers.threads[thread] = Sleeper { signal, sleeps, ..Sleeper::default() };
    }

    /// To be called after something runnable was made visible to all threads.
    pub(crate) fn notify(&self) -> Wake {
        // ORDERING: SeqCst, pairs with the fence of a thread that goes to sleep (`begin_sleep`) or stops searching
        // (`stop_searching`): of the two that come to their fences, the second one sees what the other did before. A look
        // is all that is needed here, so the word stays in the caches of all who post.
        fence(Ordering::SeqCst);
        let word = self.word.load(Ordering::Acquire);
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
        let (wake, signal) = if let Some(thread) = sleepers.parked.pop() {
            (Wake::Parked(thread), Some(sleepers.unpark(thread)))
        } else if !parked_only && sleepers.leader.take().is_some() {
            (Wake::Leader, None)
        } else {
            return Wake::Nobody;
        };
        // ORDERING: AcqRel, as in `notify`. The woken thread is counted as searching from here on.
        self.word.fetch_add(SEARCHING_ONE - SLEEPING_ONE, Ordering::AcqRel);
        drop(sleepers);
        if let Some(signal) = signal {
            signal.notify_one();
        }
        wake
    }

    /// Wakes one sleeping thread that `may` be woken, whoever searches: to be called after something was queued that only
    /// such threads run.
    pub(crate) fn wake_one_of(&self, may: impl Fn(ThreadIndex) -> bool) -> Wake {
        let mut sleepers = self.sleepers.lock();
        let listed = sleepers.parked.iter().rev().copied().chain(sleepers.leader).find(|&thread| may(thread));
        let Some((thread, slept_as)) = listed.and_then(|thread| Some((thread, sleepers.take_off(thread)?))) else {
            return Wake::Nobody;
        };
        self.wake_listed(sleepers, thread, slept_as)
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
        let was_last = searching(word) == 1;
        if was_last {
            // ORDERING: SeqCst, pairs with the fence in `notify`.
            fence(Ordering::SeqCst);
        }
        was_last
    }

    /// A searching thread that found nothing announces its sleep. It must look once more at everything runnable, and
    /// then call either [`cancel_sleep`](Idle::cancel_sleep) or sleep. `None`: the pool is closed or the thread was
    /// unparked by number, and it goes on as a searching one.
    pub(crate) fn begin_sleep(&self, thread: ThreadIndex, as_leader: bool) -> Option<SleepAs> {
        let mut sleepers = self.sleepers.lock();
        if sleepers.closed || std::mem::take(&mut sleepers.threads[thread].permit) {
            return None;
        }
        sleepers.threads[thread].sleeps = sleepers.threads[thread].sleeps.wrapping_add(1);
        let how = if as_leader {
            debug_assert!(sleepers.leader.is_none(), "one thread leads");
            sleepers.leader = Some(thread);
            SleepAs::Leader
        } else {
            sleepers.threads[thread].unparked = false;
            sleepers.parked.push(thread);
            SleepAs::Parked
        };
        // ORDERING: AcqRel, as in `notify`; what was posted before an earlier `notify` is visible after this.
        self.word.fetch_add(SLEEPING_ONE.wrapping_sub(SEARCHING_ONE), Ordering::AcqRel);
        drop(sleepers);
        // ORDERING: SeqCst, pairs with the fence in `notify`.
        fence(Ordering::SeqCst);
        Some(how)
    }

    /// Ends an announced sleep from the sleeper's own side: it found something, or its poll returned. It is searching
    /// again afterwards, whether it was still listed or had been woken meanwhile.
    pub(crate) fn cancel_sleep(&self, thread: ThreadIndex) {
        let mut sleepers = self.sleepers.lock();
        let listed = sleepers.take_off(thread).is_some();
        sleepers.threads[thread].unparked = false;
        if listed {
            // ORDERING: AcqRel, as in `notify`.
            self.word.fetch_add(SEARCHING_ONE - SLEEPING_ONE, Ordering::AcqRel);
        }
    }

    /// Sleeps as a parked thread until woken; it is searching afterwards.
    pub(crate) fn park(&self, thread: ThreadIndex) {
        let mut sleepers = self.sleepers.lock();
        let signal = Arc::clone(&sleepers.threads[thread].signal);
        while !sleepers.threads[thread].unparked {
            signal.wait(&mut sleepers);
        }
        sleepers.threads[thread].unparked = false;
    }

    /// Wakes this very thread, or lets its next sleep end at once.
    pub(crate) fn unpark(&self, thread: ThreadIndex) -> Wake {
        let mut sleepers = self.sleepers.lock();
        let Some(slept_as) = sleepers.take_off(thread) else {
            sleepers.threads[thread].permit = true;
            return Wake::Nobody;
        };
        self.wake_listed(sleepers, thread, slept_as)
    }

    /// Wakes a thread that has been taken off the lists; it is counted as searching from here on.
    fn wake_listed(&self, mut sleepers: MutexGuard<'_, Sleepers>, thread: ThreadIndex, slept_as: SleepAs) -> Wake {
        // ORDERING: AcqRel, as in `notify`.
        self.word.fetch_add(SEARCHING_ONE - SLEEPING_ONE, Ordering::AcqRel);
        match slept_as {
            SleepAs::Leader => Wake::Leader,
            SleepAs::Parked => {
                let signal = sleepers.unpark(thread);
                drop(sleepers);
                signal.notify_one();
                Wake::Parked(thread)
            }
        }
    }

    /// Who sleeps at this moment, with the number of each one's sleep.
    pub(crate) fn sleeping_threads(&self) -> Vec<(ThreadIndex, u32)> {
        let sleepers = self.sleepers.lock();
        let listed = sleepers.parked.iter().copied().chain(sleepers.leader);
        listed.map(|thread| (thread, sleepers.threads[thread].sleeps)).collect()
    }

    /// Wakes a thread to end, if it still sleeps the sleep of this number. It is searching from here on, like any that is
    /// woken, so it has to [`stop_searching`](Idle::stop_searching) before it ends. `None`: it has got up since.
    pub(crate) fn retire(&self, thread: ThreadIndex, sleep: u32) -> Option<Wake> {
        let mut sleepers = self.sleepers.lock();
        if sleepers.threads[thread].sleeps != sleep {
            return None;
        }
        let slept_as = sleepers.take_off(thread)?;
        sleepers.threads[thread].retires = true;
        Some(self.wake_listed(sleepers, thread, slept_as))
    }

    /// Whether this thread was woken to end.
    pub(crate) fn is_retired(&self, thread: ThreadIndex) -> bool {
        self.sleepers.lock().threads[thread].retires
    }

    /// Whether no thread sleeps.
    pub(crate) fn nobody_sleeps(&self) -> bool {
        sleeping(self.word.load(Ordering::Relaxed)) == 0
    }

    /// Whether every thread is active: none sleeps, and none searches.
    pub(crate) fn all_are_active(&self) -> bool {
        // A look: whoever goes to sleep or searches meanwhile is seen at the next one.
        let word = self.word.load(Ordering::Relaxed);
        sleeping(word) == 0 && searching(word) == 0
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
        let signals: Vec<_> = parked.into_iter().map(|thread| sleepers.unpark(thread)).collect();
        // ORDERING: AcqRel, as in `notify`.
        self.word.fetch_add(woken.wrapping_mul(SEARCHING_ONE.wrapping_sub(SLEEPING_ONE)), Ordering::AcqRel);
        drop(sleepers);
        for signal in signals {
            signal.notify_one();
        }
        leader
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn of(threads: usize) -> Idle {
        let idle = Idle::new();
        (0..threads).for_each(|thread| idle.admit(thread));
        idle
    }

    fn sleep(idle: &Idle, thread: ThreadIndex, as_leader: bool) -> Option<SleepAs> {
        idle.start_searching();
        idle.begin_sleep(thread, as_leader)
    }

    /// The models would not see it: a wake-up that goes to a thread which is awake is made good by what that thread does
    /// next. But the sleeper that should have got it would sleep on beside a queue that is not empty.
    #[test]
    fn a_canceled_sleep_stays_on_no_list() {
        for as_leader in [false, true] {
            let idle = of(2);
            assert!(sleep(&idle, 0, as_leader).is_some());
            assert_eq!(idle.sleeping_threads(), [(0, 1)]);
            idle.cancel_sleep(0);
            assert_eq!(idle.sleeping_threads(), []);
            assert!(idle.nobody_sleeps() && !idle.lead_is_wanted());
            assert!(idle.stop_searching(), "it was searching again, and was the only one");
            assert!(idle.all_are_active());
            assert_eq!(idle.wake_one(false), Wake::Nobody);
            assert!(sleep(&idle, 1, false).is_some());
            assert_eq!(idle.notify(), Wake::Parked(1), "who sleeps is woken");
        }
    }

    /// The second cancel finds that the thread was taken off the lists by whoever woke it, and counts nothing twice.
    #[test]
    fn a_sleep_that_is_canceled_after_its_wake_up_counts_once() {
        for as_leader in [false, true] {
            let idle = of(1);
            assert!(sleep(&idle, 0, as_leader).is_some());
            assert_ne!(idle.notify(), Wake::Nobody);
            idle.cancel_sleep(0);
            assert!(idle.stop_searching());
            assert!(idle.all_are_active());
        }
    }

    #[test]
    fn a_parked_thread_is_woken_before_the_leader() {
        let idle = of(3);
        assert_eq!(sleep(&idle, 0, true), Some(SleepAs::Leader));
        assert_eq!(sleep(&idle, 1, false), Some(SleepAs::Parked));
        assert_eq!(idle.notify(), Wake::Parked(1));
        assert_eq!(idle.notify(), Wake::Nobody, "one is searching");
        assert!(idle.stop_searching());
        assert_eq!(idle.notify(), Wake::Leader);
    }

    #[test]
    fn who_is_unparked_by_number_while_awake_skips_its_next_sleep() {
        let idle = of(1);
        assert_eq!(idle.unpark(0), Wake::Nobody);
        assert_eq!(sleep(&idle, 0, false), None);
        assert_eq!(idle.begin_sleep(0, false), Some(SleepAs::Parked));
    }

    #[test]
    fn only_the_sleep_that_was_seen_is_ended_by_a_retirement() {
        let idle = of(2);
        assert!(sleep(&idle, 1, false).is_some());
        let seen = idle.sleeping_threads();
        assert_eq!(seen, [(1, 1)]);
        idle.cancel_sleep(1);
        assert_eq!(idle.retire(1, 1), None, "it is awake");
        assert!(idle.begin_sleep(1, false).is_some());
        assert_eq!(idle.retire(1, 1), None, "it has slept in between");
        assert!(!idle.is_retired(1));
        assert_eq!(idle.retire(1, 2), Some(Wake::Parked(1)));
        assert!(idle.is_retired(1));
        assert_eq!(idle.sleeping_threads(), []);
        assert!(idle.stop_searching(), "it was counted as searching");
        idle.admit(1);
        assert!(!idle.is_retired(1), "the next one of its number starts afresh");
    }

    #[test]
    fn a_leader_that_retires_is_told_so_in_its_poll() {
        let idle = of(1);
        assert!(sleep(&idle, 0, true).is_some());
        assert_eq!(idle.retire(0, 1), Some(Wake::Leader));
        idle.cancel_sleep(0);
        assert!(idle.is_retired(0) && idle.nobody_sleeps());
    }
}
