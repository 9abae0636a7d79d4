//! Which thread may run what: *pinned* runnables have one base thread, their *host*; and a host leaves what may block to
//! the other threads.
//!
//! 1. A pinned runnable is queued at its host, which looks there between two turns; nobody steals from there.
//! 2. A base thread is a host while something is pinned to it. A host that comes upon a runnable that may block, in
//!    whichever queue, *keeps it out*: it goes to a queue of its own that only the other threads look at, and one of
//!    those is woken if one sleeps.
//! 3. A host still runs everything else, and what waits in its deque can be stolen as ever.
//!
//! Why no wake-up is lost by this is argued in `pool/README.md`.
//!
//! # Invariants
//! - `HOST` is set in the word of a base thread exactly while its count in `pinned` is not zero.
//! - `BLOCKING` is set by the thread itself, around a turn of what may block, and never while `HOST` is set; so a thread
//!   that has become a host begins no such turn.

use std::collections::VecDeque;
use std::sync::OnceLock;

use crossbeam_deque::{Injector, Steal};

use super::Task;
use super::idle::ThreadIndex;
use crate::sync::atomic::{AtomicU8, Ordering};
use crate::sync::{Mutex, thread};

/// The threads of its pool that a runnable may run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Every thread.
    Anywhere,
    /// Every thread that hosts nothing pinned, because it may block.
    MayBlock,
    /// This base thread only.
    On(ThreadIndex),
}

/// Something is pinned to the thread.
const HOST: u8 = 1;
/// The thread is in a turn of what may block.
const BLOCKING: u8 = 2;

struct Host {
    /// Written by pinners (`HOST`) and by the thread itself (`BLOCKING`).
    word: AtomicU8,
    /// What is pinned to the thread and runnable. Pushed by anybody, popped by the thread itself.
    queue: Mutex<VecDeque<Task>>,
}

/// The base threads of one pool as hosts of what is pinned.
pub(crate) struct Hosts {
    /// By thread index; a pool that is driven by hand has one, which stands for whoever drives it.
    hosts: Box<[Host]>,
    /// How many runnables are pinned to each.
    pinned: Mutex<Vec<usize>>,
    /// What may block and was come upon by a host.
    kept_out: Injector<Task>,
    /// The thread that drives the pool by hand, once it has run something pinned.
    hand: OnceLock<thread::ThreadId>,
}

impl Hosts {
    /// For a pool of `base` base threads, 0 for one that is driven by hand.
    pub(crate) fn new(base: usize) -> Self {
        let count = base.max(1);
        Hosts {
            hosts: (0..count).map(|_| Host { word: AtomicU8::new(0), queue: Mutex::new(VecDeque::new()) }).collect(),
            pinned: Mutex::new(vec![0; count]),
            kept_out: Injector::new(),
            hand: OnceLock::new(),
        }
    }

    /// Chooses the host of one more pinned runnable: of those with the fewest, one that is in no turn of what may block,
    /// if there is one at all.
    pub(super) fn pin(&self) -> ThreadIndex {
        let mut pinned = self.pinned.lock();
        let mut by_load: Vec<ThreadIndex> = (0..self.hosts.len()).collect();
        by_load.sort_by_key(|&thread| pinned[thread]);
        let chosen = by_load.iter().copied().find(|&thread| self.become_host(thread)).unwrap_or_else(|| {
            // ORDERING: AcqRel, pairs with `begin_blocking`, which fails from here on.
            self.hosts[by_load[0]].word.fetch_or(HOST, Ordering::AcqRel);
            by_load[0]
        });
        pinned[chosen] += 1;
        chosen
    }

    /// Makes a thread a host unless it is in a turn of what may block.
    fn become_host(&self, thread: ThreadIndex) -> bool {
        let word = &self.hosts[thread].word;
        // ORDERING: AcqRel, pairs with `begin_blocking`: one of the two comes first and the other one fails.
        match word.compare_exchange(0, HOST, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(found) => found & HOST != 0,
        }
    }

    /// Something that was pinned to this thread is gone.
    pub(super) fn unpin(&self, thread: ThreadIndex) {
        let mut pinned = self.pinned.lock();
        debug_assert!(pinned[thread] > 0, "each unpin follows its pin");
        pinned[thread] = pinned[thread].saturating_sub(1);
        if pinned[thread] == 0 {
            // ORDERING: AcqRel, pairs with `begin_blocking`, which succeeds from here on.
            self.hosts[thread].word.fetch_and(!HOST, Ordering::AcqRel);
        }
    }

    /// Whether something is pinned to this thread. Extra threads host nothing.
    pub(super) fn is_host(&self, thread: ThreadIndex) -> bool {
        // ORDERING: Acquire, pairs with the change in `pin` and `unpin`.
        self.hosts.get(thread).is_some_and(|host| host.word.load(Ordering::Acquire) & HOST != 0)
    }

    /// Whether every base thread is a host.
    pub(super) fn all_are_hosts(&self) -> bool {
        (0..self.hosts.len()).all(|thread| self.is_host(thread))
    }

    /// A thread is about to make a turn of what may block; false if it is a host, and then it must not.
    pub(super) fn begin_blocking(&self, thread: ThreadIndex) -> bool {
        let Some(host) = self.hosts.get(thread) else { return true };
        // ORDERING: AcqRel, pairs with `become_host`.
        host.word.compare_exchange(0, BLOCKING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The turn of [`begin_blocking`](Hosts::begin_blocking) has ended.
    pub(super) fn end_blocking(&self, thread: ThreadIndex) {
        if let Some(host) = self.hosts.get(thread) {
            // ORDERING: Release, pairs with `become_host`.
            host.word.fetch_and(!BLOCKING, Ordering::Release);
        }
    }

    /// Queues a pinned runnable at its host. True: nothing waited there, so the host has to be woken if it sleeps.
    #[must_use = "a host that sleeps has to be woken"]
    pub(super) fn push_pinned(&self, thread: ThreadIndex, task: Task) -> bool {
        let mut queue = self.hosts[thread].queue.lock();
        queue.push_back(task);
        queue.len() == 1
    }

    /// The oldest of what is pinned to this thread and runnable.
    pub(super) fn pop_pinned(&self, thread: ThreadIndex) -> Option<Task> {
        if !self.is_host(thread) {
            return None;
        }
        self.hosts[thread].queue.lock().pop_front()
    }

    /// Queues what may block for the threads that are no hosts.
    pub(super) fn push_kept_out(&self, task: Task) {
        self.kept_out.push(task);
    }

    /// The oldest of what was kept out of hosts, unless this thread is one.
    pub(super) fn steal_kept_out(&self, thread: ThreadIndex) -> Option<Task> {
        if self.kept_out.is_empty() || self.is_host(thread) {
            return None;
        }
        loop {
            match self.kept_out.steal() {
                Steal::Success(task) => return Some(task),
                Steal::Empty => return None,
                Steal::Retry => std::hint::spin_loop(),
            }
        }
    }

    /// Whether nothing waits that was kept out of hosts.
    pub(super) fn is_kept_out_empty(&self) -> bool {
        self.kept_out.is_empty()
    }

    /// Whether something waits here that this thread has to run.
    pub(super) fn has_work_for(&self, thread: ThreadIndex) -> bool {
        match self.is_host(thread) {
            true => !self.hosts[thread].queue.lock().is_empty(),
            false => !self.kept_out.is_empty(),
        }
    }

    /// The calling thread drives the pool by hand and is about to run something pinned; false if another thread has done
    /// so before.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "only the testing kit turns a pool by hand"))]
    pub(super) fn claim_by_hand(&self) -> bool {
        *self.hand.get_or_init(thread::current_id) == thread::current_id()
    }

    /// Whether the calling thread has run something pinned by hand.
    pub(super) fn is_hand(&self) -> bool {
        self.hand.get() == Some(&thread::current_id())
    }
}

impl std::fmt::Debug for Hosts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hosts").field("pinned", &*self.pinned.lock()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::super::{Runnable, Turn};
    use super::*;
    use crate::sync::Arc;

    struct Nothing;

    impl Runnable for Nothing {
        fn run_turn(self: Arc<Self>) -> Turn {
            Turn::Done
        }
    }

    #[test]
    fn what_is_pinned_is_spread_over_the_base_threads() {
        let hosts = Hosts::new(3);
        let mut chosen: Vec<_> = (0..6).map(|_| hosts.pin()).collect();
        assert!(hosts.all_are_hosts());
        chosen.sort_unstable();
        assert_eq!(chosen, [0, 0, 1, 1, 2, 2]);
        hosts.unpin(1);
        assert!(hosts.is_host(1), "one is still pinned there");
        hosts.unpin(1);
        assert!(!hosts.is_host(1));
        assert_eq!(hosts.pin(), 1, "it has the fewest");
    }

    #[test]
    fn a_thread_in_a_turn_that_may_block_is_chosen_last() {
        let hosts = Hosts::new(2);
        assert!(hosts.begin_blocking(0));
        assert_eq!(hosts.pin(), 1);
        assert_eq!(hosts.pin(), 1, "the other one may be held up for long");
        assert!(!hosts.begin_blocking(1), "a host begins no such turn");
        hosts.end_blocking(0);
        assert_eq!(hosts.pin(), 0);
        assert!(!hosts.begin_blocking(0));
    }

    #[test]
    fn where_every_base_thread_may_block_one_becomes_a_host_after_its_turn() {
        let hosts = Hosts::new(1);
        assert!(hosts.begin_blocking(0));
        assert_eq!(hosts.pin(), 0);
        hosts.end_blocking(0);
        assert!(!hosts.begin_blocking(0));
        hosts.unpin(0);
        assert!(hosts.begin_blocking(0));
    }

    #[test]
    fn an_extra_thread_hosts_nothing_and_takes_what_was_kept_out() {
        let hosts = Hosts::new(1);
        let host = hosts.pin();
        hosts.push_kept_out(Arc::new(Nothing));
        assert!(hosts.steal_kept_out(host).is_none());
        assert!(!hosts.has_work_for(host));
        assert!(hosts.begin_blocking(host + 1));
        assert!(hosts.has_work_for(host + 1));
        assert!(hosts.steal_kept_out(host + 1).is_some());
        assert!(hosts.is_kept_out_empty());
    }

    #[test]
    fn only_the_first_of_what_is_pinned_asks_for_a_wake_up() {
        let hosts = Hosts::new(1);
        let host = hosts.pin();
        assert!(hosts.push_pinned(host, Arc::new(Nothing)));
        assert!(!hosts.push_pinned(host, Arc::new(Nothing)));
        assert!(hosts.has_work_for(host));
        assert!(hosts.pop_pinned(host + 1).is_none(), "nobody else takes it");
        assert!(hosts.pop_pinned(host).is_some() && hosts.pop_pinned(host).is_some());
        assert!(hosts.push_pinned(host, Arc::new(Nothing)));
    }
}
