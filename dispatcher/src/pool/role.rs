//! One pool: a reactor, run queues, threads. A pool without threads is driven by hand (`by_hand.rs`).

use std::io;
use std::time::Duration;

use crate::event_loop::{PollMode, Reactor};
use crate::sync::Arc;
use crate::sync::probe::Actor;
use crate::sys::Scheduling;
use crate::time::{Clock, Instant};

#[cfg(any(feature = "testing", all(test, shuttle)))]
use super::by_hand::ByHand;
use super::hosts::{Hosts, Place};
use super::idle::{Idle, ThreadIndex, Wake};
use super::lanes::Lanes;
use super::members::Members;
use super::pulse::Pulses;
use super::run_queue::{self, Pushed, RunQueue};
use super::scheduling::PoolScheduling;
use super::stall_watch::StallWatch;
use super::threads::{ThreadRefused, Threads};

/// What the pool runs: something that makes one turn at a time.
pub(crate) trait Runnable: Send + Sync + 'static {
    /// Makes a turn on this thread.
    fn run_turn(self: Arc<Self>) -> Turn;

    /// Who makes the turn, for whoever decides between several.
    #[cfg_attr(not(any(feature = "testing", all(test, shuttle))), allow(dead_code, reason = "only tests decide"))]
    fn actor(&self) -> Actor {
        Actor::Call
    }

    /// The helper that goes on in its turn, if it is one.
    #[cfg(any(feature = "testing", all(test, shuttle)))]
    fn helper(&self) -> Option<&super::batons::Baton> {
        None
    }

    /// Where its next turn may be made.
    fn place(&self) -> Place {
        Place::Anywhere
    }
}

/// What becomes of a runnable after its turn.
#[must_use = "a runnable that wants another turn has to be queued again"]
pub(crate) enum Turn {
    /// Nothing: whoever makes it runnable again schedules it.
    Done,
    /// To the back of the run queue, with the reference that the turn was made by.
    Again(Task),
}

/// A reference to something runnable.
pub(crate) type Task = Arc<dyn Runnable>;

/// How a pool is made.
#[derive(Debug, Clone)]
pub(crate) struct PoolOptions {
    /// The prefix of its threads' names.
    pub(crate) name: String,
    /// The scheduler role of what it runs.
    pub(crate) role: String,
    /// Base threads; 0 for a pool that is driven by hand.
    pub(crate) threads: usize,
    /// The most threads, base and extra.
    pub(crate) thread_limit: usize,
    /// Whether extra threads are added when every thread is stuck, instead of with each dispatcher that allows sync calls.
    pub(crate) dynamic: bool,
    /// How long an extra thread that nobody claims sleeps before it is retired.
    pub(crate) idle_life: Duration,
    /// How its threads are to be scheduled, if not as whoever starts them.
    pub(crate) scheduling: Option<Scheduling>,
    pub(crate) clock: Clock,
    pub(crate) simulated: bool,
}

/// One pool: a reactor, run queues, threads.
pub(crate) struct Pool {
    role: String,
    pub(super) reactor: Arc<Reactor>,
    /// That of the reactor, for those who only look.
    clock: Clock,
    pub(super) queue: RunQueue,
    pub(super) idle: Idle,
    pub(super) hosts: Hosts,
    pub(super) pulses: Pulses,
    pub(super) scheduling: PoolScheduling,
    pub(super) watch: StallWatch,
    pub(super) threads: Threads,
    pub(super) members: Members,
    pub(super) lanes: Lanes,
    #[cfg(any(feature = "testing", all(test, shuttle)))]
    pub(super) by_hand: ByHand,
}

impl Pool {
    /// Makes the pool and starts its base threads.
    ///
    /// # Errors
    /// What the system says when it has no descriptors or threads left; nothing stays behind.
    pub(crate) fn start(options: PoolOptions) -> io::Result<Arc<Pool>> {
        let reactor = if options.simulated { Reactor::simulated(options.clock) } else { Reactor::new(options.clock)? };
        let limit = options.thread_limit.max(options.threads);
        let by_hand = options.threads == 0;
        let pool = Arc::new(Pool {
            role: options.role,
            clock: reactor.clock().clone(),
            reactor,
            queue: RunQueue::new(),
            idle: Idle::new(),
            hosts: Hosts::new(options.threads),
            pulses: Pulses::default(),
            scheduling: PoolScheduling::new(options.name.clone(), options.scheduling),
            watch: StallWatch::new(format!("{}-watch", options.name), options.idle_life),
            threads: Threads::new(options.name.clone(), options.threads, limit, options.dynamic),
            members: Members::default(),
            #[cfg(any(feature = "testing", all(test, shuttle)))]
            by_hand: ByHand::new(&options.name),
            lanes: Lanes::new(options.name, by_hand),
        });
        for _ in 0..options.threads {
            if let Err(error) = pool.threads.start_base(&pool) {
                pool.close();
                pool.join();
                return Err(error);
            }
        }
        Ok(pool)
    }

    /// The reactor that all threads of the pool share.
    /// The scheduler role of what it runs.
    pub(crate) fn role(&self) -> &str {
        &self.role
    }

    pub(crate) fn reactor(&self) -> &Arc<Reactor> {
        &self.reactor
    }

    /// The worker threads for what may block.
    pub(crate) fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// The threads that run at this moment.
    pub(crate) fn members(&self) -> &Members {
        &self.members
    }

    /// The time for what is only looked at, by one load: the last reading by whoever woke up, polled or watched, which
    /// each busy thread does every so many turns, and the watch once a millisecond while it is awake.
    pub(crate) fn coarse_now(&self) -> Instant {
        self.clock.coarse()
    }

    /// The time of something that may be the first to happen here for long. Nobody keeps the coarse clock while all
    /// threads sleep, so a thread from outside reads the exact one; that is little beside the wake-up that follows.
    pub(crate) fn time_after_rest(&self) -> Instant {
        if self.is_current() { self.clock.coarse() } else { self.clock.now() }
    }

    /// The thread accounting.
    pub(crate) fn threads(&self) -> &Threads {
        &self.threads
    }

    /// How its threads are scheduled.
    pub(crate) fn scheduling(&self) -> &PoolScheduling {
        &self.scheduling
    }

    /// Whether the pool has no threads of its own.
    pub(crate) fn is_driven_by_hand(&self) -> bool {
        self.threads.base() == 0
    }

    /// Makes a runnable run: at its host if it is pinned, else on this thread's own deque if it belongs to the pool, else
    /// through the injector.
    ///
    /// Nobody is woken for what this thread runs next itself: a wake-up costs more than most callbacks. If the callback
    /// that is running takes long, the stall watch wakes a thread for it.
    pub(crate) fn schedule(self: &Arc<Self>, task: Task) {
        let place = task.place();
        self.schedule_at(task, place);
    }

    /// Like [`schedule`](Pool::schedule), by somebody who knows the place of the runnable.
    #[inline]
    pub(crate) fn schedule_at(self: &Arc<Self>, task: Task, place: Place) {
        match place {
            Place::On(host) => self.schedule_pinned(host, task),
            Place::MayBlock if self.is_host_current() => self.keep_out(task),
            Place::Anywhere | Place::MayBlock => match self.queue.push(self.id(), task) {
                Pushed::Next => self.watch.arm(self),
                Pushed::Behind => self.notify(),
            },
        }
    }

    fn schedule_pinned(&self, host: ThreadIndex, task: Task) {
        if self.is_driven_by_hand() {
            // One thread does everything, in the order in which it became runnable.
            self.queue.push(self.id(), task);
            return;
        }
        if self.hosts.push_pinned(host, task) && run_queue::current_index(self.id()) != Some(host) {
            let wake = self.idle.unpark(host);
            self.carry_out(wake);
        }
    }

    /// Hands what may block from a host to the other threads.
    pub(super) fn keep_out(self: &Arc<Self>, task: Task) {
        self.hosts.push_kept_out(task);
        self.wake_no_host();
    }

    fn wake_no_host(self: &Arc<Self>) {
        let wake = self.idle.wake_one_of(|thread| !self.hosts.is_host(thread));
        self.carry_out(wake);
        if wake == Wake::Nobody && self.threads.is_dynamic() {
            // Perhaps there is none, as no thread is reserved.
            self.watch.arm(self);
        }
    }

    fn is_host_current(&self) -> bool {
        !self.is_driven_by_hand()
            && run_queue::current_index(self.id()).is_some_and(|thread| self.hosts.is_host(thread))
    }

    /// Puts a runnable behind all others after its turn on this thread, which it made at `place`.
    pub(super) fn schedule_again(self: &Arc<Self>, task: Task, place: Place) {
        match place {
            // It is the calling thread, which looks there before it sleeps.
            Place::On(host) if !self.is_driven_by_hand() => {
                let _ = self.hosts.push_pinned(host, task);
            }
            _ => {
                if self.queue.push(self.id(), task) == Pushed::Behind {
                    // What stands alone in the own deque is run next, by this thread and at once.
                    self.notify();
                }
            }
        }
    }

    /// Chooses the base thread for one more pinned runnable; [`unpin`](Pool::unpin) gives it back.
    pub(crate) fn pin(self: &Arc<Self>) -> ThreadIndex {
        let host = self.hosts.pin();
        // Somebody may count on this thread to take what was kept out of others. Whoever does so later sees that it is a
        // host by now.
        self.idle.publish();
        if !self.hosts.is_kept_out_empty() {
            self.wake_no_host();
        }
        host
    }

    /// Something that was pinned to `host` is gone.
    pub(crate) fn unpin(self: &Arc<Self>, host: ThreadIndex) {
        self.hosts.unpin(host);
        if !self.hosts.is_kept_out_empty() {
            self.wake_no_host();
        }
    }

    /// Whether the calling thread is the one that runs what is pinned to `host`.
    pub(crate) fn is_on(&self, host: ThreadIndex) -> bool {
        match self.is_driven_by_hand() {
            true => self.is_current() && self.hosts.is_hand(),
            false => run_queue::current_index(self.id()) == Some(host),
        }
    }

    /// Like [`schedule`](Pool::schedule), for what should run beside the running callback: a sleeping thread is woken.
    pub(crate) fn schedule_beside(self: &Arc<Self>, task: Task) {
        self.queue.push(self.id(), task);
        self.notify();
    }

    /// Whether the calling thread belongs to this pool (or drives it by hand at this moment).
    pub(crate) fn is_current(&self) -> bool {
        run_queue::current_pool() == self.id()
    }

    /// A number that tells pools of the process apart for as long as they live.
    pub(super) fn id(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(super) fn notify(self: &Arc<Self>) {
        let wake = self.idle.notify();
        self.carry_out(wake);
        if wake == Wake::Nobody && self.threads.is_dynamic() {
            // Perhaps every thread is in a callback that does not return.
            self.watch.arm(self);
        }
    }

    pub(super) fn carry_out(&self, wake: Wake) {
        if wake == Wake::Leader {
            self.reactor.wake();
        }
    }

    /// Takes what is due in the reactor; false when nothing is. On a thread that counts as none of the pool
    /// everything is queued.
    pub(super) fn take_events(&self) -> bool {
        let Some(mut lead) = self.reactor.try_lead() else { return false };
        let batch = lead.poll(PollMode::NonBlocking);
        let any = !batch.is_empty();
        batch.tell(lead).run();
        any
    }

    /// Makes all threads stop once nothing is runnable. Idempotent; never blocks.
    pub(crate) fn close(&self) {
        self.threads.close();
        if self.idle.close() {
            self.reactor.wake();
        }
        self.watch.close();
        self.lanes.close();
        #[cfg(any(feature = "testing", all(test, shuttle)))]
        self.batons().close();
    }

    /// Waits for the threads of a closed pool. Must not be called on one of them.
    pub(crate) fn join(&self) {
        self.threads.join();
        self.lanes.join();
        self.watch.join();
        #[cfg(any(feature = "testing", all(test, shuttle)))]
        self.batons().join();
    }

    /// Adds a thread for a dispatcher that allows sync calls.
    ///
    /// # Errors
    /// [`ThreadRefused::Limit`](ThreadRefused::Limit) when base and reserved threads would exceed the limit.
    pub(crate) fn reserve_thread(self: &Arc<Self>) -> Result<(), ThreadRefused> {
        self.threads.reserve(self)
    }

    /// Gives the thread of [`reserve_thread`](Pool::reserve_thread) back. It stays a while for the next one.
    pub(crate) fn release_thread(self: &Arc<Self>) {
        if self.threads.release() {
            self.watch.arm(self);
        }
    }

    /// Retires whoever sleeps and is surplus: what the stall watch does after a while, which does not pass in a model.
    #[cfg(all(test, shuttle))]
    pub(crate) fn retire_sleepers(&self) {
        self.threads.retire(self, &self.idle.sleeping_threads());
    }

    /// Whether all threads of a closed pool have ended, so that [`join`](Pool::join) would not wait.
    pub(crate) fn has_ended(&self) -> bool {
        #[cfg(any(feature = "testing", all(test, shuttle)))]
        if !self.batons().have_ended() {
            return false;
        }
        self.threads.have_ended() && self.lanes.have_ended() && self.watch.has_ended()
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads).finish_non_exhaustive()
    }
}
