//! `Clock`: the one place where time is read.
//!
//! A clock is real (the kernel's monotonic clock) or virtual (moved by hand, never by itself). Both carry a *coarse*
//! reading: the time at which somebody last asked for the exact one. It costs a relaxed load where the exact reading
//! costs a call into the kernel's shared page, and it is what dumps and statistics use.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::time::Instant;

/// A handle to a clock; clones read the same one.
#[derive(Clone)]
pub(crate) struct Clock {
    shared: Arc<Shared>,
}

struct Shared {
    /// Written by whoever reads the exact time (real) or advances it (virtual); only ever grows.
    latest: AtomicU64,
    is_virtual: bool,
}

impl Clock {
    /// The kernel's monotonic clock.
    pub(crate) fn real() -> Self {
        let clock = Clock { shared: Arc::new(Shared { latest: AtomicU64::new(0), is_virtual: false }) };
        clock.now();
        clock
    }

    /// A clock that stands at `start` until [`Clock::advance_to`] moves it.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "made for the foreground runtime only"))]
    pub(crate) fn virtual_at(start: Instant) -> Self {
        Clock { shared: Arc::new(Shared { latest: AtomicU64::new(start.as_nanos()), is_virtual: true }) }
    }

    /// Whether this clock only moves when told to.
    pub(crate) fn is_virtual(&self) -> bool {
        self.shared.is_virtual
    }

    /// The exact time. Also refreshes the coarse reading.
    pub(crate) fn now(&self) -> Instant {
        if self.shared.is_virtual {
            return self.coarse();
        }
        let now = read_monotonic();
        // A maximum, so that two threads which read in one order and store in the other never turn the coarse
        // clock back. Nothing is published through it: Relaxed.
        if self.shared.latest.load(Ordering::Relaxed) < now {
            self.shared.latest.fetch_max(now, Ordering::Relaxed);
        }
        Instant::from_nanos(now)
    }

    /// The exact time, without refreshing the coarse reading, which costs an atomic operation: for those who ask often.
    pub(crate) fn exact(&self) -> Instant {
        match self.shared.is_virtual {
            true => self.coarse(),
            false => Instant::from_nanos(read_monotonic()),
        }
    }

    /// The time of the last reading by [`Clock::now`]: never ahead of [`Clock::now`], possibly far behind it.
    pub(crate) fn coarse(&self) -> Instant {
        Instant::from_nanos(self.shared.latest.load(Ordering::Relaxed))
    }

    /// Moves a virtual clock forward to `target`; a target in its past changes nothing.
    ///
    /// # Panics
    /// When the clock is real: nobody moves that one.
    #[cfg_attr(not(feature = "testing"), allow(dead_code, reason = "made for the foreground runtime only"))]
    pub(crate) fn advance_to(&self, target: Instant) {
        assert!(self.shared.is_virtual, "only a virtual clock can be advanced; this one is the kernel's");
        self.shared.latest.fetch_max(target.as_nanos(), Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.is_virtual() { "virtual" } else { "real" };
        write!(f, "Clock({kind}, {:?})", self.coarse())
    }
}

#[cfg(not(any(loom, shuttle)))]
fn read_monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // The monotonic clock counts from the boot of the machine: neither part is ever negative.
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// In a model time stands still: a schedule that depended on how fast the checker runs could not be replayed.
#[cfg(any(loom, shuttle))]
fn read_monotonic() -> u64 {
    1
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn real_clock_never_goes_back_and_coarse_never_leads() {
        let clock = Clock::real();
        let mut last = clock.now();
        for _ in 0..1_000 {
            let now = clock.now();
            assert!(now >= last && clock.coarse() <= clock.now());
            last = now;
        }
    }

    #[test]
    fn virtual_clock_moves_only_forward_and_only_by_hand() {
        let clock = Clock::virtual_at(Instant::from_nanos(10));
        let twin = clock.clone();
        clock.advance_to(Instant::from_nanos(10) + Duration::from_nanos(5));
        clock.advance_to(Instant::ZERO);
        assert_eq!(twin.now().as_nanos(), 15);
    }

    #[test]
    #[should_panic(expected = "only a virtual clock")]
    fn real_clock_refuses_to_be_moved() {
        Clock::real().advance_to(Instant::INFINITE);
    }
}
