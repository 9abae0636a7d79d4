//! The stall watch: sees to it that nothing waits behind a long callback while a thread of the pool sleeps, and that
//! extra threads come and go.
//!
//! Two things are left undone in the hope that the running callback is short, because a wake-up costs more than most
//! callbacks: a leader that takes events leaves the lead vacant and runs what they are for; and nobody is woken for a
//! runnable that the thread which made it runnable runs next itself. The watch, a thread of its own, is *armed* then. It
//! looks once a millisecond:
//! 1. When the lead has been vacant at two looks in a row with no leader in between, it wakes a parked thread, which
//!    takes it.
//! 2. When a runnable waits in the deque of a thread that has begun no turn since the last look, it wakes any sleeping
//!    thread, which steals it.
//! 3. In dynamic mode, when no thread sleeps or searches, each has been inside of one stretch for [`STALL`], and
//!    something is runnable or becomes so by an event that nobody has taken, it adds a thread. The new one has to be
//!    stuck for as long before another follows.
//! 4. In dynamic mode, when something that may block was kept out of hosts (`hosts.rs`), and there is no other thread or
//!    the others have not taken it for [`STALL`], it adds a thread too.
//! 5. When an extra thread that nobody claims has slept since the last look of this kind, a life of idleness ago, it is
//!    retired; and threads that were retired are joined.
//!
//! After [`QUIET_LOOKS`] looks with nothing to do the watch *dozes* until it is armed again, so an idle pool has no timer.
//! While there are surplus threads, or in dynamic mode no thread that sleeps, it dozes towards a deadline.
//!
//! Why dozing without a deadline overlooks no stall of dynamic mode: somebody slept when it was decided. For all to be
//! active, the last sleeper has to get up. A leader arms the watch when it does. If the last one was parked, the lead was
//! vacant before, and then the watch does not doze: it wakes somebody to lead.
//!
//! States of the word: `ASLEEP` (waits for `arm`), `TICKING` (looks), `ARMED` (looks, and was armed since the last look).

use std::io;
use std::time::Duration;

use super::Pool;
use super::idle::ThreadIndex;
use super::stalls::Stalls;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex, Wakeup, Weak, thread};
use crate::time::{Clock, Instant};

/// How long the lead may be vacant before a parked thread is woken.
const LEAD_VACANCY: Duration = Duration::from_millis(1);
/// How many looks without anything to do send the watch to doze.
const QUIET_LOOKS: u32 = 32;
/// How long a stretch of work has to last to count as a stall, which a thread is added for in dynamic mode.
const STALL: Duration = Duration::from_millis(350);
/// The time between two looks for a stall while nothing else is to be seen to.
const STALL_LOOK: Duration = Duration::from_millis(35);

const ASLEEP: u8 = 0;
const TICKING: u8 = 1;
const ARMED: u8 = 2;

#[derive(Debug, Default)]
struct Control {
    closed: bool,
    started: bool,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    word: AtomicU8,
    /// How often the lead was taken.
    leads: AtomicU64,
    control: Mutex<Control>,
    changed: Condvar,
}

/// The watch of one pool. Its thread starts with the first arming.
#[derive(Debug)]
pub(crate) struct StallWatch {
    name: String,
    idle_life: Duration,
    shared: Arc<Shared>,
}

impl StallWatch {
    pub(crate) fn new(name: String, idle_life: Duration) -> Self {
        let shared = Shared {
            word: AtomicU8::new(ASLEEP),
            leads: AtomicU64::new(0),
            control: Mutex::new(Control::default()),
            changed: Condvar::new(),
        };
        StallWatch { name, idle_life, shared: Arc::new(shared) }
    }

    /// Whether it looks at nothing until it is armed, or at a time that is far away.
    #[cfg(test)]
    pub(crate) fn is_asleep(&self) -> bool {
        self.shared.word.load(Ordering::Relaxed) == ASLEEP
    }

    /// A thread took the lead.
    pub(crate) fn lead_taken(&self) {
        self.shared.leads.fetch_add(1, Ordering::Relaxed);
    }

    /// There is something to watch: a thread left the lead while others are or may be parked, something waits for one
    /// that is busy, or a thread is surplus.
    #[inline]
    pub(crate) fn arm(&self, pool: &Arc<Pool>) {
        if self.shared.word.load(Ordering::Relaxed) != ARMED {
            self.arm_anew(pool);
        }
    }

    #[cold]
    fn arm_anew(&self, pool: &Arc<Pool>) {
        // ORDERING: AcqRel, pairs with the compare-exchange to `ASLEEP` in `doze`: either that one fails, or this one
        // sees `ASLEEP` and wakes the watch.
        if self.shared.word.swap(ARMED, Ordering::AcqRel) != ASLEEP {
            return;
        }
        let mut control = self.shared.control.lock();
        if control.closed {
            return;
        }
        if control.started {
            self.shared.changed.notify_one();
            return;
        }
        control.started = true;
        match self.start(Arc::downgrade(pool)) {
            Ok(handle) => control.thread = Some(handle),
            Err(error) => {
                // The next arming tries again; until then long callbacks may hold up timers, which is worth a warning.
                control.started = false;
                // ORDERING: Release, pairs with the swap above on the next arming.
                self.shared.word.store(ASLEEP, Ordering::Release);
                drop(control);
                tracing::warn!(%error, "cannot start the stall watch thread; a long callback may delay timers");
            }
        }
    }

    fn start(&self, pool: Weak<Pool>) -> io::Result<thread::JoinHandle<()>> {
        let watch = Watch {
            shared: Arc::clone(&self.shared),
            pool,
            idle_life: self.idle_life,
            quiet: 0,
            vacant_at: None,
            stalls: Stalls::default(),
            kept_out_since: None,
            was_refused: false,
            idle: None,
        };
        thread::spawn(&self.name, move || watch.run())
    }

    /// Ends the watch.
    pub(crate) fn close(&self) {
        self.shared.control.lock().closed = true;
        self.shared.changed.notify_one();
    }

    /// Whether its thread has ended, if there is one.
    pub(crate) fn has_ended(&self) -> bool {
        self.shared.control.lock().thread.as_ref().is_none_or(thread::JoinHandle::is_finished)
    }

    /// Waits for its thread, if there is one.
    pub(crate) fn join(&self) {
        let handle = self.shared.control.lock().thread.take();
        if let Some(handle) = handle
            && handle.id() != thread::current_id()
        {
            // The watch runs no user code, so there is no panic of a user to hand on.
            let _ = handle.join();
        }
    }
}

/// What the thread of the watch remembers from look to look.
struct Watch {
    shared: Arc<Shared>,
    pool: Weak<Pool>,
    idle_life: Duration,
    /// Looks in a row with nothing to do.
    quiet: u32,
    /// The number of leads at the last look, if the lead was vacant.
    vacant_at: Option<u64>,
    stalls: Stalls,
    /// Since when something that was kept out of hosts waits, or since a thread was added for it.
    kept_out_since: Option<Instant>,
    /// Whether the system has refused a thread since it gave one; that is told once.
    was_refused: bool,
    idle: Option<IdleLook>,
}

/// A look at who sleeps while there are surplus threads.
struct IdleLook {
    /// When it is due to be compared with the next one.
    due: Instant,
    sleeping: Vec<(ThreadIndex, u32)>,
}

/// When the next look is taken.
enum Next {
    Soon,
    /// Then, or when the watch is armed.
    At(Instant),
}

impl Watch {
    fn run(mut self) {
        let mut next = Next::Soon;
        loop {
            let is_open = match next {
                Next::Soon => self.tick(),
                Next::At(deadline) => self.doze(deadline),
            };
            if !is_open {
                return;
            }
            let Some(pool) = self.pool.upgrade() else { return };
            next = self.look(&pool);
        }
    }

    /// Waits for the time of the next look; false when the watch is closed.
    fn tick(&self) -> bool {
        let mut control = self.shared.control.lock();
        if control.closed {
            return false;
        }
        let next_look = Clock::real().now() + LEAD_VACANCY;
        let _ = self.shared.changed.wait_until(&mut control, next_look);
        true
    }

    /// Waits until armed, at most until `deadline`; one that is armed ticks once. False when the watch is closed.
    fn doze(&mut self, deadline: Instant) -> bool {
        let mut control = self.shared.control.lock();
        // ORDERING: AcqRel, pairs with the swap in `arm`.
        let slept = self.shared.word.compare_exchange(TICKING, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok();
        let mut is_early = true;
        // ORDERING: Acquire, as above: `ARMED` is never taken back by others.
        while slept && is_early && !control.closed && self.shared.word.load(Ordering::Acquire) == ASLEEP {
            is_early = self.shared.changed.wait_until(&mut control, deadline) != Wakeup::TimedOut;
        }
        drop(control);
        if deadline.is_infinite() {
            self.stalls.forget();
        }
        if is_early {
            self.quiet = 0;
            self.vacant_at = None;
        }
        !is_early || self.tick()
    }

    fn look(&mut self, pool: &Arc<Pool>) -> Next {
        // For the coarse clock: what is only looked at has no other one.
        pool.reactor.clock().now();
        let armed = self.shared.word.swap(TICKING, Ordering::AcqRel) == ARMED; // ORDERING: as in `arm`.
        let now = Clock::real().now();
        self.stalls.look(&pool.pulses.beats(), now);
        let mut is_quiet = !self.wake_for_what_waits(pool) && !armed;
        is_quiet &= pool.threads.join_ended();
        if pool.threads.is_dynamic() {
            self.add_for_stall(pool, now);
            is_quiet &= !self.add_for_kept_out(pool, now);
        }
        let idle_look = self.retire(pool, now);
        self.quiet = if is_quiet { self.quiet + 1 } else { 0 };
        if self.quiet < QUIET_LOOKS {
            return Next::Soon;
        }
        let stall_look =
            if pool.threads.is_dynamic() && pool.idle.nobody_sleeps() { now + STALL_LOOK } else { Instant::INFINITE };
        Next::At(idle_look.min(stall_look))
    }

    /// Steps 1 and 2; false when there was nothing to do.
    fn wake_for_what_waits(&mut self, pool: &Arc<Pool>) -> bool {
        let leads = self.shared.leads.load(Ordering::Relaxed);
        let stalled = self.stalls.standing_still().any(|thread| pool.queue.has_own(thread));
        let lead_is_wanted = pool.idle.lead_is_wanted();
        if stalled || lead_is_wanted && self.vacant_at == Some(leads) {
            let wake = pool.idle.wake_one(!stalled);
            pool.carry_out(wake);
        }
        self.vacant_at = lead_is_wanted.then_some(leads);
        stalled || lead_is_wanted
    }

    /// Step 3.
    fn add_for_stall(&mut self, pool: &Arc<Pool>, now: Instant) {
        let all_are_stuck = pool.idle.all_are_active() && self.stalls.all_for(STALL, now);
        if !all_are_stuck {
            return;
        }
        if pool.queue.is_empty() {
            // Nobody else looks. This is no thread of the pool, so everything is queued and nothing runs here.
            pool.take_events();
        }
        if !pool.queue.is_empty() {
            self.add_thread(pool);
        }
    }

    /// Step 4; false when nothing is kept out.
    fn add_for_kept_out(&mut self, pool: &Arc<Pool>, now: Instant) -> bool {
        if pool.hosts.is_kept_out_empty() {
            self.kept_out_since = None;
            return false;
        }
        let since = *self.kept_out_since.get_or_insert(now);
        let nobody_may = pool.threads.figures().extra == 0 && pool.hosts.all_are_hosts();
        if nobody_may || now.duration_since(since) >= STALL {
            self.add_thread(pool);
            self.kept_out_since = Some(now);
        }
        true
    }

    /// Step 5. The answer is when the next look of this kind is due.
    fn retire(&mut self, pool: &Arc<Pool>, now: Instant) -> Instant {
        if pool.threads.surplus() == 0 {
            self.idle = None;
            return Instant::INFINITE;
        }
        if let Some(idle) = self.idle.as_ref().filter(|idle| now < idle.due) {
            return idle.due;
        }
        if let Some(idle) = self.idle.take()
            && pool.threads.retire(pool, &idle.sleeping) > 0
        {
            // They are joined soon.
            self.quiet = 0;
        }
        let due = now + self.idle_life;
        self.idle = Some(IdleLook { due, sleeping: pool.idle.sleeping_threads() });
        due
    }

    fn add_thread(&mut self, pool: &Arc<Pool>) {
        match pool.threads.add_for_stall(pool) {
            Ok(added) => self.was_refused &= !added,
            Err(_) if self.was_refused => {}
            Err(error) => {
                self.was_refused = true;
                tracing::warn!(%error, "every thread of a pool is stuck, and the system gives no further one");
            }
        }
    }
}
