//! The crank: one turn at a time, and who may turn it.
//!
//! A turn is, in this order: one turn of a dispatcher (a batch of callbacks), one piece of lane work, or all that is due
//! of timers and descriptors; else, when there is nothing of that, one step of a callback that let all others go first,
//! or taking notice of one that blocked out of sight and has come back.

use std::cell::Cell;
use std::fmt;
use std::io::Write;
use std::time::Duration;

use super::pending::pending_of;
use super::watchdog::{Patience, Suspect, Watched, Watching};
use crate::pool::Pool;
use crate::pool::by_hand::TURNS_PER_LOOK;
use crate::pool::ways::Way;
use crate::runtime::{Runtime, RuntimeInner};
use crate::status::Status;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::probe::{self, Actor, Others, Probe};
use crate::sync::{Arc, Mutex, Weak};
use crate::time::Instant;

/// The crank of one runtime.
pub(super) struct Crank {
    /// How many of these turns did something, and how many runs were begun.
    progress: AtomicU64,
    flags: Arc<Flags>,
    /// For pools that are made later too.
    patience: Mutex<Option<Duration>>,
    watched: Arc<Watched>,
    /// The same for whoever looks whether it hangs.
    told: Arc<Patience>,
}

#[derive(Debug, Default)]
struct Flags {
    /// How often it was turned.
    turns: AtomicU64,
    /// Set while somebody turns it.
    is_running: AtomicBool,
    quit: AtomicBool,
    /// Set when a shutdown has told the test that something blocks.
    told_to_block: AtomicBool,
}

/// The crank is in somebody's hand until this is dropped.
pub(super) struct Run<'a> {
    crank: &'a Crank,
    runtime: &'a Runtime,
    /// Up to when the clock may be advanced in this run.
    limit: Cell<Instant>,
    /// Where schedules are explored the whole run is watched.
    _watching: Option<Watching<'a>>,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.crank.flags.is_running.store(false, Ordering::Relaxed);
    }
}

impl Crank {
    /// The crank of a runtime.
    pub(super) fn new(runtime: &Runtime) -> Self {
        let flags = Arc::<Flags>::default();
        let turning = Turning { flags: Arc::clone(&flags), runtime: Arc::downgrade(runtime.inner()) };
        let (progress, patience) = (AtomicU64::new(0), Mutex::new(None));
        let told = Arc::<Patience>::default();
        Crank { progress, flags, patience, watched: Watched::new(&told, turning), told }
    }

    /// Takes the crank.
    pub(super) fn take<'a>(&'a self, runtime: &'a Runtime) -> Run<'a> {
        assert!(
            !self.flags.is_running.swap(true, Ordering::Relaxed),
            "the crank cannot be turned from inside of a callback, or by two at once; return from the callback first"
        );
        runtime.inner().default_pool().note_crank();
        let patience = *self.patience.lock();
        if let Some(patience) = patience {
            runtime.inner().pools().iter().for_each(|pool| pool.batons().set_patience(patience));
        }
        // Whoever turns it may have done something of his own since the last run.
        self.progress.fetch_add(1, Ordering::Relaxed);
        let watching = probe::current().is_none().then(|| self.watched.watch());
        Run { crank: self, runtime, limit: Cell::new(Instant::ZERO), _watching: watching }
    }

    /// Whether somebody turns it.
    pub(super) fn is_taken(&self) -> bool {
        self.flags.is_running.load(Ordering::Relaxed)
    }

    /// Changes how long it waits for what blocks out of sight, from the next run on.
    pub(super) fn set_patience(&self, patience: Duration) {
        self.told.set(patience);
        *self.patience.lock() = Some(patience);
    }

    /// How patient it is.
    pub(super) fn patience(&self) -> &Arc<Patience> {
        &self.told
    }

    /// Changes for how long it may stand still in a turn.
    pub(super) fn set_hang_limit(&self, limit: Duration) {
        self.watched.set_limit(limit);
    }

    /// The test knows that the shutdown does not come to its end.
    pub(super) fn note_told_to_block(&self) {
        self.flags.told_to_block.store(true, Ordering::Relaxed);
    }

    /// Whether it does.
    pub(super) fn has_told_to_block(&self) -> bool {
        self.flags.told_to_block.load(Ordering::Relaxed)
    }

    pub(super) fn quit_handle(&self) -> QuitHandle {
        QuitHandle { flags: Arc::clone(&self.flags) }
    }

    /// Lets runs begin again after a quit.
    pub(super) fn reset_quit(&self) -> Result<(), Status> {
        if self.is_taken() {
            return Err(Status::BadState);
        }
        self.flags.quit.store(false, Ordering::Relaxed);
        Ok(())
    }
}

impl Run<'_> {
    /// Whether somebody has asked for the end of this run.
    pub(super) fn has_quit(&self) -> bool {
        self.crank.flags.quit.load(Ordering::Relaxed)
    }

    /// Whether code of the test may be called now: nobody stands aside who may hold a lock of the test.
    pub(super) fn may_call(&self) -> bool {
        !probe::is_interrupted()
    }

    /// Makes one turn; false when nothing can go on and nothing is due.
    pub(super) fn turn(&self) -> bool {
        let probe = probe::current();
        if let Some(probe) = &probe {
            let others: Arc<dyn Others> = Arc::clone(self.runtime.inner()) as Arc<dyn Others>;
            self.runtime.inner().pools().iter().for_each(|pool| pool.batons().settle_outside());
            probe.turn(Arc::downgrade(&others));
        }
        let turn = self.crank.flags.turns.fetch_add(1, Ordering::Relaxed);
        let count = self.runtime.inner().pool_count();
        // The pools take turns at being the first, so that one that is never idle starves no other.
        let (round, first) = (turn / count as u64, turn as usize % count);
        let progress = self.crank.progress.load(Ordering::Relaxed);
        let went_on = match &probe {
            Some(probe) => self.go_on(&**probe, first, round),
            None => self.any_pool(count, first, |pool| pool.as_current(|| pool.run_one(round))),
        };
        let did = went_on
            || self.any_pool(count, 0, |pool| pool.batons().resume_patient())
            || self.any_pool(count, 0, |pool| pool.batons().collect_outside(progress));
        if did {
            self.crank.progress.fetch_add(1, Ordering::Relaxed);
        }
        did
    }

    /// Goes on in one of all ways, as the probe picks; false when there is none.
    fn go_on(&self, probe: &dyn Probe, first: usize, round: u64) -> bool {
        let pools = self.runtime.inner().pools();
        let list = || -> Vec<(usize, Way, Actor)> {
            let order = (first..pools.len()).chain(0..first.min(pools.len()));
            let ways = order.map(|nth| pools[nth].ways(nth).into_iter().map(move |(way, actor)| (nth, way, actor)));
            ways.flatten().collect()
        };
        let mut ways = list();
        if ways.is_empty() {
            // Those who stepped aside for others that are not there any more.
            ways = list();
        }
        if round.is_multiple_of(TURNS_PER_LOOK.into()) {
            // In the usual order what is runnable without end starves nothing else.
            ways.sort_by_key(|(_, way, _)| matches!(way, Way::Run(_)));
        }
        if ways.is_empty() {
            return false;
        }
        let mut actors: Vec<Actor> = ways.iter().map(|&(.., actor)| actor).collect();
        if probe.lets_time_pass() && self.has_timer_to_come() {
            actors.push(Actor::Time);
        }
        match ways.get(probe.next(&actors)) {
            Some(&(nth, way, _)) => pools[nth].as_current(|| pools[nth].go(way)),
            None => drop(self.advance_to_next(self.limit.get())),
        }
        true
    }

    fn has_timer_to_come(&self) -> bool {
        let next = self.next_deadline();
        next > self.runtime.now() && next <= self.limit.get() && !next.is_infinite()
    }

    fn any_pool(&self, count: usize, first: usize, mut act: impl FnMut(&Arc<Pool>) -> bool) -> bool {
        (0..count).any(|nth| self.runtime.inner().pool((first + nth) % count).is_some_and(|pool| act(&pool)))
    }

    /// The earliest deadline of an armed timer; infinite if there is none.
    pub(super) fn next_deadline(&self) -> Instant {
        let inner = self.runtime.inner();
        let pools = (0..inner.pool_count()).filter_map(|nth| inner.pool(nth));
        pools.map(|pool| pool.next_deadline()).min().unwrap_or(Instant::INFINITE)
    }

    /// Time may pass up to `limit` in this run, where a probe lets it.
    pub(super) fn may_advance_to(&self, limit: Instant) {
        self.limit.set(limit);
    }

    /// Advances the clock to the next timer, unless that is after `limit`; false when there is none until then.
    pub(super) fn advance_to_next(&self, limit: Instant) -> bool {
        let next = self.next_deadline();
        if next > limit || next.is_infinite() {
            return false;
        }
        self.runtime.clock().advance_to(next);
        true
    }
}

impl Others for RuntimeInner {
    fn can_go_on(&self) -> bool {
        self.pools().iter().any(|pool| pool.can_go_on())
    }
}

/// Whoever turns the crank, for the watchdog.
struct Turning {
    flags: Arc<Flags>,
    runtime: Weak<RuntimeInner>,
}

impl Suspect for Turning {
    fn beat(&self) -> u64 {
        self.flags.turns.load(Ordering::Relaxed)
    }

    fn report(&self, to: &mut dyn Write) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        // There is nobody left to tell that it cannot be written.
        let _ = writeln!(to, "in turn {} of the crank. What runs or waits:", self.beat());
        let _ = writeln!(to, "{}", pending_of(&runtime));
    }
}

/// Ends the runs of a foreground runtime from anywhere. Made by
/// [`ForegroundRuntime::quit_handle`](super::ForegroundRuntime::quit_handle).
#[derive(Clone)]
pub struct QuitHandle {
    flags: Arc<Flags>,
}

impl QuitHandle {
    /// Ends the current run after its current turn, and every later one before its first, until
    /// [`ForegroundRuntime::reset_quit`](super::ForegroundRuntime::reset_quit).
    ///
    /// # Thread requirements
    /// Any thread, callbacks included.
    pub fn quit(&self) {
        self.flags.quit.store(true, Ordering::Relaxed);
    }
}

impl fmt::Debug for QuitHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuitHandle").field("has_quit", &self.flags.quit.load(Ordering::Relaxed)).finish()
    }
}
