//! `Reactor`: timers and waits of one loop, or of all threads of a pool.
//!
//! Any thread arms and cancels, at any time. One thread at a time *leads*: it holds the right to poll, sleeps until
//! something is due, takes everything that is due out of the tables as a [`Batch`], and tells those concerned. Then it
//! gives the lead up, and only then runs user code. Whoever leads next takes later events, so the events of all polls
//! are told in the order in which they were taken.
//!
//! How the leader sleeps no longer than the next deadline (there is no moment at which a new, earlier deadline goes
//! unheard):
//!
//! 1. The leader takes the alarm's lock and writes down that it is computing. Then it visits each shard of timers.
//! 2. It sets the alarm to the earliest deadline it found, writes that down, and releases the lock.
//! 3. Whoever arms a timer puts it into its shard and then reads what is written down. If that is an earlier
//!    deadline, fine. If it is a later one, or "computing", it takes the alarm's lock, looks again, and sets the
//!    alarm itself.
//!
//! The visit of a shard in step 1 comes either after the timer was put there, and then the leader counts it in; or
//! before, and then the shard's lock has made "computing" (or something newer) visible to the one who arms.
//!
//! Timers that follow each other closely do not ring one by one: after a poll in which some were due, the alarm of a pool
//! rings a [lull](LULL) later at the earliest, and those that have become due meanwhile are told together. One that is due
//! after a longer pause is not delayed.
//!
//! A simulated reactor has no kernel object at all: its poll never sleeps, its clock is virtual, and its waits are on
//! objects that live in memory.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::event_loop::batch::{Batch, Due};
pub(crate) use crate::event_loop::batch::{EventTarget, Fired, Told};
use crate::event_loop::fd_waits::{FdWaits, LOST};
use crate::event_loop::sim_waits::SimWaits;
use crate::event_loop::source::{Interest, Readiness, Source, SourceId, WaitRefused};
use crate::event_loop::timers::{Alarmed, Sharing, TimerId, Timers};
use crate::event_loop::wait_list::Wait;
use crate::event_loop::wake_word::{Sleep, Wake, WakeWord};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::probe::{self, Scarce};
use crate::sync::{Arc, Mutex, MutexGuard, Weak};
use crate::sys::kernel::{Alarm, Poller, Waker};
use crate::sys::sim::Watcher;
use crate::time::{Clock, Instant};

/// How long a poll may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollMode {
    /// Until something is due or somebody calls [`Reactor::wake`]. May return with nothing.
    Block,
    /// Not at all.
    NonBlocking,
}

/// Names an armed wait of one reactor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct WaitId {
    on: On,
    serial: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum On {
    Fd(std::os::fd::RawFd),
    Sim(u64),
}

/// How long the alarm of a pool is silent after it has rung. Half of what it takes others to tell of a timer at all; a
/// wake-up costs as much as it takes to tell of ten.
const LULL: Duration = Duration::from_micros(100);

/// Timers, waits, and the poll that serves both.
pub(crate) struct Reactor {
    clock: Clock,
    timers: Timers,
    sim_waits: SimWaits,
    next_serial: AtomicU64,
    /// The right to poll.
    lead: Mutex<Option<Poller>>,
    kernel: Option<Kernel>,
    /// What came up outside of a poll and is to be told in the next one.
    strays: Mutex<Vec<Due>>,
    has_strays: AtomicBool,
    /// This reactor, for simulated objects that tell it of changes.
    this: Weak<Reactor>,
}

/// What a reactor over the operating system has besides.
struct Kernel {
    fd_waits: FdWaits,
    waker: Waker,
    word: WakeWord,
    alarm: Mutex<AlarmState>,
    /// [`AlarmState::set_to`] to be read without the lock, or [`COMPUTING`].
    alarm_hint: AtomicU64,
    /// Until when the alarm is silent. Written by whoever leads; an older value is as good to everybody else.
    silent_until: AtomicU64,
}

struct AlarmState {
    alarm: Alarm,
    set_to: Instant,
}

/// Later than every deadline, so whoever arms one meanwhile takes the lock.
const COMPUTING: u64 = u64::MAX;

impl Reactor {
    /// A reactor over the operating system, for the threads of a pool.
    ///
    /// # Errors
    /// When the operating system gives no further descriptor.
    pub(crate) fn new(clock: Clock) -> io::Result<Arc<Reactor>> {
        Self::over_kernel(clock, Sharing::Pool)
    }

    /// A reactor over the operating system, for one loop.
    ///
    /// # Errors
    /// When the operating system gives no further descriptor.
    pub(crate) fn of_one_loop(clock: Clock) -> io::Result<Arc<Reactor>> {
        Self::over_kernel(clock, Sharing::OneLoop)
    }

    fn over_kernel(clock: Clock, sharing: Sharing) -> io::Result<Arc<Reactor>> {
        let (poller, registrar, waker, alarm) = Poller::new()?;
        let kernel = Kernel {
            fd_waits: FdWaits::new(registrar),
            waker,
            word: WakeWord::new(),
            alarm: Mutex::new(AlarmState { alarm, set_to: Instant::INFINITE }),
            alarm_hint: AtomicU64::new(COMPUTING),
            silent_until: AtomicU64::new(0),
        };
        Ok(Self::with(clock, sharing, Some(poller), Some(kernel)))
    }

    /// A reactor without any kernel object: nothing but what lives in memory can be waited on.
    pub(crate) fn simulated(clock: Clock) -> Arc<Reactor> {
        Self::with(clock, Sharing::Pool, None, None)
    }

    fn with(clock: Clock, sharing: Sharing, poller: Option<Poller>, kernel: Option<Kernel>) -> Arc<Reactor> {
        Arc::new_cyclic(|this| Reactor {
            timers: Timers::new(clock.now(), sharing),
            clock,
            sim_waits: SimWaits::default(),
            next_serial: AtomicU64::new(0),
            lead: Mutex::new(poller),
            kernel,
            strays: Mutex::new(Vec::new()),
            has_strays: AtomicBool::new(false),
            this: this.clone(),
        })
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Arms a timer that tells `target` when `deadline` has come: never before, in the order of arming for equal
    /// deadlines.
    pub(crate) fn arm_timer(&self, deadline: Instant, target: Arc<dyn EventTarget>, key: u64) -> TimerId {
        let id = self.put_timer(deadline, target, key);
        self.heed_timer(deadline);
        id
    }

    /// The first half of [`arm_timer`](Reactor::arm_timer), which makes no system call, so that it may be done under a lock.
    pub(crate) fn put_timer(&self, deadline: Instant, target: Arc<dyn EventTarget>, key: u64) -> TimerId {
        self.timers.arm(deadline, Alarmed { target, key })
    }

    /// The second half, of which a timer is in need that was put with this deadline.
    #[inline]
    pub(crate) fn heed_timer(&self, deadline: Instant) {
        if let Some(kernel) = &self.kernel
            && deadline.as_nanos() < kernel.alarm_hint.load(Ordering::Relaxed)
            && !self.clock.is_virtual()
        {
            kernel.set_alarm_earlier(deadline);
        }
    }

    /// Disarms a timer. `true`: its target is not going to be told.
    pub(crate) fn cancel_timer(&self, id: TimerId) -> bool {
        self.timers.cancel(id).is_some()
    }

    /// Tells `target` once `source` is ready for any of `interest`, once. What is ready at this moment counts.
    ///
    /// # Errors
    /// When the source cannot be waited on; see [`WaitRefused`].
    pub(crate) fn begin_wait(
        &self,
        source: Source<'_>,
        interest: Interest,
        target: Arc<dyn EventTarget>,
        key: u64,
    ) -> Result<WaitId, WaitRefused> {
        self.begin_wait_on(source.into(), interest, target, key)
    }

    /// [`Reactor::begin_wait`] for a source that was given before, by its number.
    pub(crate) fn begin_wait_on(
        &self,
        source: SourceId,
        interest: Interest,
        target: Arc<dyn EventTarget>,
        key: u64,
    ) -> Result<WaitId, WaitRefused> {
        if interest.is_none() {
            return Err(WaitRefused::NoInterest);
        }
        if probe::refuses(Scarce::Registration) {
            return Err(WaitRefused::System(io::ErrorKind::OutOfMemory.into()));
        }
        let serial = self.next_serial.fetch_add(1, Ordering::Relaxed);
        let wait = Wait { serial, interest, target, key };
        match source {
            SourceId::Fd(fd) => {
                let kernel = self.kernel.as_ref().ok_or(WaitRefused::Simulated)?;
                let orphans = kernel.fd_waits.begin(fd, wait)?;
                if !orphans.is_empty() {
                    self.add_strays(orphans);
                }
                Ok(WaitId { on: On::Fd(fd), serial })
            }
            SourceId::Sim(object) => {
                let id = WaitId { on: On::Sim(object.id()), serial };
                if let Some(this) = self.this.upgrade() {
                    object.watch(this);
                }
                self.sim_waits.begin(object, wait);
                self.wake();
                Ok(id)
            }
        }
    }

    /// Disarms a wait. `true`: its target is not going to be told.
    pub(crate) fn cancel_wait(&self, id: WaitId) -> bool {
        let canceled = match (id.on, &self.kernel) {
            (On::Fd(fd), Some(kernel)) => kernel.fd_waits.cancel(fd, id.serial),
            (On::Fd(_), None) => None,
            (On::Sim(object), _) => self.sim_waits.cancel(object, id.serial),
        };
        canceled.is_some()
    }

    /// The right to poll for good, for the loop that this reactor is of, which saves it a lock at each poll. `None` for the
    /// threads of a pool, who take turns.
    pub(crate) fn own_poll(&self) -> Option<OwnPoll> {
        match self.timers.sharing() {
            Sharing::OneLoop => self.lead.lock().take().map(|poller| OwnPoll { poller }),
            Sharing::Pool => None,
        }
    }

    /// The right to poll, unless another thread has it.
    pub(crate) fn try_lead(&self) -> Option<Lead<'_>> {
        self.lead.try_lock().map(|poller| Lead { reactor: self, poller: Right::Lent(poller) })
    }

    /// Ends a poll that blocks, or keeps the next one from blocking. One exchange if nobody is asleep.
    pub(crate) fn wake(&self) {
        if let Some(kernel) = &self.kernel {
            kernel.wake();
        }
    }

    /// The earliest deadline (or something before it, after cancellations); infinite if no timer is armed.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "asked by the foreground runtime only"))]
    pub(crate) fn next_deadline(&self) -> Instant {
        self.timers.next_deadline()
    }

    /// Whether anything is due, for a simulated reactor.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "asked by the testing kit only"))]
    pub(crate) fn has_due(&self) -> bool {
        self.timers.has_due(self.clock.now()) || self.sim_waits.is_pending() && !self.sim_waits.ready().is_empty()
    }

    /// Takes out one event of a simulated reactor: the timer that is due first, or one of the waits that are over.
    /// `choose` is told how many these are. By whoever leads.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "asked by the testing kit only"))]
    pub(crate) fn poll_one(&self, choose: impl FnOnce(usize) -> usize) -> Batch {
        let now = self.clock.now();
        let timers = usize::from(self.timers.has_due(now));
        let waits = self.sim_waits.ready();
        let chosen = choose(timers + waits.len());
        let due = match chosen.checked_sub(timers) {
            None => self.timers.take_first(now).map(|(deadline, Alarmed { target, key })| Due {
                target,
                key,
                fired: Fired::Timer { deadline },
            }),
            Some(at) => waits.get(at).and_then(|&ready| {
                let fired = Fired::Ready(ready.readiness);
                self.sim_waits.take(ready).map(|wait| Due { target: wait.target, key: wait.key, fired })
            }),
        };
        Batch { due: due.into_iter().collect() }
    }

    /// Whether a poll would look at a simulated object or tell of a stray.
    pub(crate) fn has_pending_looks(&self) -> bool {
        self.has_strays.load(Ordering::Relaxed) || self.sim_waits.is_pending()
    }

    fn add_strays(&self, orphans: Vec<Wait>) {
        let lost = Fired::Ready(LOST);
        self.strays.lock().extend(orphans.into_iter().map(|wait| Due {
            target: wait.target,
            key: wait.key,
            fired: lost,
        }));
        self.has_strays.store(true, Ordering::Relaxed);
        self.wake();
    }
}

impl Kernel {
    fn wake(&self) {
        if self.word.wake() == Wake::Signal {
            self.waker.wake();
        }
    }

    fn set_alarm_earlier(&self, deadline: Instant) {
        let mut state = self.alarm.lock();
        let at = self.audible(deadline);
        if at < state.set_to {
            state.alarm.set(at);
            state.set_to = at;
            self.alarm_hint.store(at.as_nanos(), Ordering::Relaxed);
            drop(state);
            if !Alarm::REACHES_A_BLOCKED_POLL {
                self.wake();
            }
        }
    }

    /// When the alarm rings for a deadline.
    fn audible(&self, deadline: Instant) -> Instant {
        deadline.max(Instant::from_nanos(self.silent_until.load(Ordering::Relaxed)))
    }

    /// Steps 1 and 2 of the module's header.
    fn set_alarm_to_next(&self, timers: &Timers) -> Instant {
        let mut state = self.alarm.lock();
        self.alarm_hint.store(COMPUTING, Ordering::Relaxed);
        let next = self.audible(timers.next_deadline());
        if next != state.set_to {
            state.alarm.set(next);
            state.set_to = next;
        }
        self.alarm_hint.store(next.as_nanos(), Ordering::Relaxed);
        next
    }
}

impl Watcher for Reactor {
    fn changed(&self, object: u64) {
        if self.sim_waits.changed(object) {
            self.wake();
        }
    }
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.kernel.is_some() { "kernel" } else { "simulated" };
        write!(f, "Reactor({kind}, {} timers)", self.timers.len())
    }
}

/// The right to poll, and to tell what came of it. At most one thread has it.
pub(crate) struct Lead<'a> {
    reactor: &'a Reactor,
    poller: Right<'a>,
}

enum Right<'a> {
    /// Until the lead is given up.
    Lent(MutexGuard<'a, Option<Poller>>),
    /// It never belongs to anybody else.
    Owned(&'a mut Poller),
}

/// The right to poll a reactor, taken away from it for good.
#[derive(Debug)]
pub(crate) struct OwnPoll {
    poller: Poller,
}

impl OwnPoll {
    /// The lead of the reactor that this came from.
    pub(crate) fn lead<'a>(&'a mut self, reactor: &'a Reactor) -> Lead<'a> {
        Lead { reactor, poller: Right::Owned(&mut self.poller) }
    }
}

impl Lead<'_> {
    /// Takes out all that is due: timers by deadline, then waits. Sleeps for it if `mode` allows and nothing is due
    /// yet.
    pub(crate) fn poll(&mut self, mode: PollMode) -> Batch {
        let reactor = self.reactor;
        let mut ready = Vec::new();
        let poller = match &mut self.poller {
            Right::Lent(poller) => poller.as_mut(),
            Right::Owned(poller) => Some(&mut **poller),
        };
        if let (Some(poller), Some(kernel)) = (poller, &reactor.kernel) {
            let mut put_aside = |ticket, readiness| {
                kernel.fd_waits.on_event(ticket, readiness, |wait, readiness| {
                    ready.push(Due { target: wait.target, key: wait.key, fired: Fired::Ready(readiness) });
                });
            };
            match mode {
                // Timers are looked at below, whatever the kernel says.
                PollMode::NonBlocking if !kernel.fd_waits.has_registered() => {}
                PollMode::NonBlocking => poller.poll(Some(Duration::ZERO), &mut put_aside),
                PollMode::Block => reactor.block(kernel, poller, &mut put_aside),
            }
        }
        reactor.collect(ready)
    }
}

impl fmt::Debug for Lead<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lead({:?})", self.reactor)
    }
}

impl Reactor {
    fn block(
        &self,
        kernel: &Kernel,
        poller: &mut Poller,
        put_aside: &mut impl FnMut(crate::sys::kernel::Ticket, Readiness),
    ) {
        // A virtual deadline means nothing to the kernel; whoever moves that clock wakes the leader.
        let next = match self.clock.is_virtual() {
            true => self.timers.next_deadline(),
            false => kernel.set_alarm_to_next(&self.timers),
        };
        let now = self.clock.now();
        let overdue = next <= now || self.has_pending_looks();
        if overdue || kernel.word.fall_asleep() == Sleep::Stay {
            return poller.poll(Some(Duration::ZERO), put_aside);
        }
        // What came up between the look above and `fall_asleep` has sent a wake-up, or set the alarm.
        let timeout = if self.clock.is_virtual() { None } else { Alarm::timeout(next, now) };
        poller.poll(timeout, put_aside);
        kernel.word.awake();
    }

    /// Puts due timers, strays and waits on simulated objects before `ready`.
    fn collect(&self, mut ready: Vec<Due>) -> Batch {
        // The threads of a pool keep the coarse clock going by reading the clock here; a loop alone has no use for that.
        if self.timers.sharing() == Sharing::OneLoop && !self.timers.has_armed() && !self.has_pending_looks() {
            return Batch { due: ready };
        }
        let now = self.clock.now();
        let timers = self.timers.take_due(now);
        if let Some(kernel) = &self.kernel
            && !timers.is_empty()
            && self.timers.sharing() == Sharing::Pool
        {
            kernel.silent_until.store((now + LULL).as_nanos(), Ordering::Relaxed);
        }
        let mut due: Vec<Due> = Vec::with_capacity(timers.len() + ready.len());
        due.extend(timers.into_iter().map(|(deadline, Alarmed { target, key })| Due {
            target,
            key,
            fired: Fired::Timer { deadline },
        }));
        if self.has_strays.load(Ordering::Relaxed) {
            let mut strays = self.strays.lock();
            self.has_strays.store(false, Ordering::Relaxed);
            due.append(&mut strays);
        }
        if self.sim_waits.is_pending() {
            self.sim_waits.poll(|wait, readiness| {
                due.push(Due { target: wait.target, key: wait.key, fired: Fired::Ready(readiness) });
            });
        }
        due.append(&mut ready);
        Batch { due }
    }
}

#[cfg(test)]
#[path = "reactor_tests.rs"]
mod tests;
