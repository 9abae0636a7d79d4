//! [`Pace`]: whether a short write may be done where it arrives, which may be the thread of the client.
//!
//! A write to a file mostly ends in the page cache, within microseconds; handing it to a worker and back costs more than
//! that. But the system may also make a writer wait: for a medium that is behind, for a flush or a hole that is being made.
//! Nobody can ask beforehand, and Linux refuses `RWF_NOWAIT` for such writes on most file systems. So it is bounded by
//! looking at what happened:
//!
//! 1. While something that may take long changes or flushes the file, no write is done in place.
//! 2. A write that takes longer than [`SLOW`] makes *suspicious*, for [`REST`]. It may have waited, or its thread had no
//!    processor: on a busy machine that happens all the time, and would happen to a worker too.
//! 3. Who is suspicious counts how often the thread gave its processor away by itself, which costs two calls of the system
//!    a write. One that is slow and did so has waited: then no write is done in place for [`REST`], and suspicion stays for
//!    as long again after that.
//!
//! So at most two writes are waited for at first, and after that one of each [`REST`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use fuchsine_driver::Instant;
use nix::sys::resource::{UsageWho, getrusage};

/// What takes longer than this may have waited: the copy of the longest short write takes a hundredth of it.
pub(crate) const SLOW: Duration = Duration::from_millis(1);

/// How long writes go to workers after one that has waited.
pub(crate) const REST: Duration = Duration::from_millis(250);

/// What the system has lately let writers wait for. All of it are hints: read and written by anyone, in no order.
#[derive(Debug)]
pub(crate) struct Pace {
    /// How often this thread has waited for anything; tests put something else here.
    waits: fn() -> u64,
    /// Changes and flushes with workers that may take long.
    busy: AtomicUsize,
    /// Until then waits are counted, in nanoseconds of the runtime's clock.
    suspects_until: AtomicU64,
    /// In place again from then on.
    rests_until: AtomicU64,
}

/// A write that is done in place.
#[derive(Debug)]
pub(crate) struct InPlace {
    began: Instant,
    /// The waits of the thread before, where they are counted.
    waits: Option<u64>,
}

/// As long as it lives no write is done in place.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Pace>);

impl Pace {
    pub(crate) fn new() -> Self {
        Self::counting(waits_of_thread)
    }

    fn counting(waits: fn() -> u64) -> Self {
        Self { waits, busy: AtomicUsize::new(0), suspects_until: AtomicU64::new(0), rests_until: AtomicU64::new(0) }
    }

    /// Begins a write in place, if one may be done so now.
    pub(crate) fn begin(&self, now: Instant) -> Option<InPlace> {
        let rests = now.as_nanos() < self.rests_until.load(Ordering::Relaxed);
        if rests || self.busy.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let suspects = now.as_nanos() < self.suspects_until.load(Ordering::Relaxed);
        Some(InPlace { began: now, waits: suspects.then(self.waits) })
    }

    /// Ends it on the thread that began it, and draws conclusions.
    pub(crate) fn end(&self, write: InPlace, now: Instant) {
        if now.duration_since(write.began) <= SLOW {
            return;
        }
        let has_waited = write.waits.is_some_and(|before| (self.waits)() > before);
        let rests_until = if has_waited { now + REST } else { now };
        if has_waited {
            self.rests_until.fetch_max(rests_until.as_nanos(), Ordering::Relaxed);
        }
        self.suspects_until.fetch_max((rests_until + REST).as_nanos(), Ordering::Relaxed);
    }

    /// Something begins that writes might have to wait for.
    pub(crate) fn busy(self: &Arc<Self>) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(self))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How often this thread gave its processor away by itself: whenever it waited, and never when another one was preferred.
fn waits_of_thread() -> u64 {
    // It fails for nobody; if it did, each slow write would count as one that has not waited.
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.voluntary_context_switches() as u64)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local!(static WAITS: Cell<u64> = const { Cell::new(0) });

    fn pace() -> Pace {
        Pace::counting(|| WAITS.get())
    }

    fn at(time: Duration) -> Instant {
        Instant::from_nanos(0) + time
    }

    /// A write of so long, which waits or has no processor; returns its end.
    #[track_caller]
    fn write(pace: &Pace, from: Duration, length: Duration, waits: bool) -> Duration {
        let write = pace.begin(at(from)).expect("it may be done in place");
        WAITS.set(WAITS.get() + u64::from(waits));
        pace.end(write, at(from + length));
        from + length
    }

    #[test]
    fn after_two_writes_that_have_waited_workers_do_them_for_a_while() {
        let pace = pace();
        let first = write(&pace, Duration::ZERO, SLOW * 5, true);
        let second = write(&pace, first, SLOW * 5, true);
        assert!(pace.begin(at(second)).is_none() && pace.begin(at(second + REST - Duration::from_nanos(1))).is_none());
        // From now on it takes one.
        let third = write(&pace, second + REST, SLOW * 5, true);
        assert!(pace.begin(at(third)).is_none());
        // And after a time of peace two again.
        let fourth = write(&pace, third + REST * 2, SLOW * 5, true);
        assert!(pace.begin(at(fourth)).is_some());
    }

    #[test]
    fn a_thread_that_has_no_processor_has_not_waited() {
        let pace = pace();
        let mut now = Duration::ZERO;
        for _ in 0..10 {
            now = write(&pace, now, SLOW * 5, false);
        }
        // Nor has one that waited for less than what counts.
        write(&pace, now, SLOW, true);
    }

    #[test]
    fn while_something_long_is_done_workers_do_them() {
        let pace = Arc::new(pace());
        let (flush, trim) = (pace.busy(), pace.busy());
        drop(flush);
        assert!(pace.begin(at(REST)).is_none());
        drop(trim);
        assert!(pace.begin(at(REST)).is_some());
    }

    #[test]
    fn the_system_counts_the_waits_of_a_thread() {
        let before = waits_of_thread();
        std::thread::sleep(Duration::from_millis(1));
        assert!(waits_of_thread() > before);
    }
}
