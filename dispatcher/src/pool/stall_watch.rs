//! The stall watch: sees to it that nothing waits behind a long callback while a thread of the pool sleeps.
//!
//! Two things are left undone in the hope that the running callback is short, because a wake-up costs more than most
//! callbacks: a leader that takes events leaves the lead vacant and runs what they are for; and nobody is woken for a
//! runnable that the thread which made it runnable runs next itself. The watch, a thread of its own, is *armed* then. It
//! looks once a millisecond. When the lead has been vacant at two looks in a row with no leader in between, it wakes a
//! parked thread, which takes it; when a runnable waits in the deque of a thread that has begun no turn since the last
//! look, it wakes any sleeping thread, which steals it.
//! After [`QUIET_LOOKS`] looks with nothing to do it sleeps until it is armed again, so an idle pool has no timer.
//!
//! States of the word: `ASLEEP` (waits for `arm`), `TICKING` (looks), `ARMED` (looks, and was armed since the last look).

use std::io;
use std::time::Duration;

use super::Pool;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex, Weak, thread};
use crate::time::Clock;

/// How long the lead may be vacant before a parked thread is woken.
const LEAD_VACANCY: Duration = Duration::from_millis(1);
/// How many looks without anything to do send the watch to sleep.
const QUIET_LOOKS: u32 = 32;

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
    shared: Arc<Shared>,
}

impl StallWatch {
    pub(crate) fn new(name: String) -> Self {
        let shared = Shared {
            word: AtomicU8::new(ASLEEP),
            leads: AtomicU64::new(0),
            control: Mutex::new(Control::default()),
            changed: Condvar::new(),
        };
        StallWatch { name, shared: Arc::new(shared) }
    }

    /// A thread took the lead.
    pub(crate) fn lead_taken(&self) {
        self.shared.leads.fetch_add(1, Ordering::Relaxed);
    }

    /// A thread left the lead and other threads are or may be parked.
    pub(crate) fn arm(&self, pool: &Arc<Pool>) {
        if self.shared.word.load(Ordering::Relaxed) == ARMED {
            return;
        }
        // ORDERING: AcqRel, pairs with the compare-exchange to `ASLEEP` in `watch`: either that one fails, or this one
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
        let shared = Arc::clone(&self.shared);
        thread::spawn(&self.name, move || watch(&shared, &pool))
    }

    /// Ends the watch.
    pub(crate) fn close(&self) {
        self.shared.control.lock().closed = true;
        self.shared.changed.notify_one();
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

fn watch(shared: &Shared, pool: &Weak<Pool>) {
    let mut quiet = 0;
    let mut seen_vacant_at = None;
    let mut seen_turns: Vec<u32> = Vec::new();
    loop {
        {
            let mut control = shared.control.lock();
            if control.closed {
                return;
            }
            if quiet >= QUIET_LOOKS {
                // ORDERING: AcqRel, pairs with the swap in `arm`.
                let slept = shared.word.compare_exchange(TICKING, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok();
                // ORDERING: Acquire, as above: `ARMED` is never taken back by others.
                while slept && !control.closed && shared.word.load(Ordering::Acquire) == ASLEEP {
                    shared.changed.wait(&mut control);
                }
                quiet = 0;
                seen_vacant_at = None;
                seen_turns.clear();
                continue;
            }
            let next_look = Clock::real().now() + LEAD_VACANCY;
            let _ = shared.changed.wait_until(&mut control, next_look);
        }
        let Some(pool) = pool.upgrade() else { return };
        let armed = shared.word.swap(TICKING, Ordering::AcqRel) == ARMED; // ORDERING: as in `arm`.
        let leads = shared.leads.load(Ordering::Relaxed);
        let turns: Vec<u32> = pool.turns.all().collect();
        let waits_behind =
            |(thread, turn): (usize, &u32)| seen_turns.get(thread) == Some(turn) && pool.queue.has_own(thread);
        let stalled = turns.iter().enumerate().any(waits_behind);
        let lead_is_wanted = pool.idle.lead_is_wanted();
        quiet = if armed || stalled || lead_is_wanted { 0 } else { quiet + 1 };
        if stalled || lead_is_wanted && seen_vacant_at == Some(leads) {
            let wake = pool.idle.wake_one(!stalled);
            pool.carry_out(wake);
        }
        seen_vacant_at = lead_is_wanted.then_some(leads);
        seen_turns = turns;
    }
}
