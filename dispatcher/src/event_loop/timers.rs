//! `Timers`: a timer wheel that many threads share.
//!
//! If many threads share it, it is cut into shards by deadline. So threads that arm rarely meet at a lock, and equal
//! deadlines, which must fire in the order of arming, always meet in the same shard.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex};
use crate::time::Instant;

use crate::event_loop::reactor::EventTarget;
use crate::event_loop::timer_wheel::{TimerKey, TimerWheel};

/// Who arms timers of a reactor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// The threads of a pool.
    Pool,
    /// Little but one loop, which keeps its own timers elsewhere: visiting many shards before each sleep would be in vain.
    OneLoop,
}

impl Sharing {
    /// How many upper bits of a hash name a shard.
    const fn shard_bits(self) -> u32 {
        match self {
            Sharing::Pool => 3,
            Sharing::OneLoop => 0,
        }
    }
}

/// Names an armed timer of one reactor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TimerId {
    shard: u8,
    key: TimerKey,
}

/// Whom to tell that a deadline has come.
pub(crate) struct Alarmed {
    pub(crate) target: Arc<dyn EventTarget>,
    pub(crate) key: u64,
}

pub(crate) struct Timers {
    shards: Box<[Shard]>,
    sharing: Sharing,
}

/// On cache lines of its own, so that threads in different shards do not disturb each other.
#[repr(align(128))]
struct Shard {
    wheel: Mutex<TimerWheel<Alarmed>>,
    /// The wheel's next deadline, or something before it after cancellations. Written under its lock; read without it by those for whom a moment's delay is fine.
    next: AtomicU64,
}

impl Shard {
    fn publish(&self, wheel: &TimerWheel<Alarmed>) {
        self.next.store(wheel.next_deadline().as_nanos(), Ordering::Relaxed);
    }

    /// Like [`publish`](Shard::publish) after a timer was armed.
    fn publish_armed(&self, deadline: Instant) {
        if deadline.as_nanos() < self.next.load(Ordering::Relaxed) {
            self.next.store(deadline.as_nanos(), Ordering::Relaxed);
        }
    }

    /// Like [`publish`](Shard::publish) after a timer was canceled. If it was the next one, somebody looks in vain.
    fn publish_canceled(&self, wheel: &TimerWheel<Alarmed>) {
        if wheel.len() == 0 {
            self.next.store(u64::MAX, Ordering::Relaxed);
        }
    }
}

impl Timers {
    pub(crate) fn new(now: Instant, sharing: Sharing) -> Self {
        let shard = |_| Shard { wheel: Mutex::new(TimerWheel::new(now)), next: AtomicU64::new(u64::MAX) };
        Timers { shards: (0..1 << sharing.shard_bits()).map(shard).collect(), sharing }
    }

    pub(crate) fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Whether any timer is armed. May miss what another thread is arming at this moment.
    pub(crate) fn has_armed(&self) -> bool {
        self.shards.iter().any(|shard| shard.next.load(Ordering::Relaxed) != u64::MAX)
    }

    pub(crate) fn arm(&self, deadline: Instant, alarmed: Alarmed) -> TimerId {
        // Fibonacci hashing: deadlines a round number apart still spread over all shards.
        let hash = deadline.as_nanos().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let shard = hash.checked_shr(64 - self.sharing.shard_bits()).unwrap_or(0) as u8;
        let at = &self.shards[usize::from(shard)];
        let mut wheel = at.wheel.lock();
        let key = wheel.arm(deadline, alarmed);
        at.publish_armed(deadline);
        TimerId { shard, key }
    }

    /// Disarms a timer, if it is still armed. What comes back is dropped by the caller, with no lock held.
    pub(crate) fn cancel(&self, id: TimerId) -> Option<Alarmed> {
        let at = self.shards.get(usize::from(id.shard))?;
        let mut wheel = at.wheel.lock();
        let alarmed = wheel.cancel(id.key);
        at.publish_canceled(&wheel);
        alarmed
    }

    /// The earliest deadline (or something before it, after cancellations). Takes each lock once, so that whatever
    /// was armed before is taken into account, and whoever arms later sees all that the caller did before.
    pub(crate) fn next_deadline(&self) -> Instant {
        self.shards.iter().map(|shard| shard.wheel.lock().next_deadline()).min().unwrap_or(Instant::INFINITE)
    }

    /// Takes out all that is due at `now`, ordered by deadline, and by arming for equal deadlines. May miss what
    /// another thread is arming at this moment.
    pub(crate) fn take_due(&self, now: Instant) -> Vec<(Instant, Alarmed)> {
        let mut due = Vec::new();
        for shard in &*self.shards {
            if shard.next.load(Ordering::Relaxed) <= now.as_nanos() {
                let mut wheel = shard.wheel.lock();
                wheel.advance(now, |deadline, alarmed| due.push((deadline, alarmed)));
                shard.publish(&wheel);
            }
        }
        // Stable: equal deadlines come from one shard, in the order of arming.
        due.sort_by_key(|(deadline, _)| *deadline);
        due
    }

    /// Whether anything is due at `now`.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "asked by the testing kit only"))]
    pub(crate) fn has_due(&self, now: Instant) -> bool {
        self.shards.iter().any(|shard| shard.wheel.lock().first_due_at(now).is_some())
    }

    /// Takes out the one that is due first at `now`; of equal ones, the one that was armed first.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "asked by the testing kit only"))]
    pub(crate) fn take_first(&self, now: Instant) -> Option<(Instant, Alarmed)> {
        let due = |shard: &&Shard| shard.wheel.lock().first_due_at(now);
        let first = self.shards.iter().filter(|shard| due(shard).is_some()).min_by_key(due)?;
        let mut wheel = first.wheel.lock();
        let taken = wheel.take_first(now);
        first.publish(&wheel);
        taken
    }

    /// How many timers are armed.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.wheel.lock().len()).sum()
    }
}
