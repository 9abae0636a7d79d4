//! [`Instant`]: a point in monotonic time, in nanoseconds.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point on the monotonic clock, in nanoseconds.
///
/// On a real clock the number is that of the kernel's `CLOCK_MONOTONIC`; on a virtual clock it starts where the
/// test says. Arithmetic saturates: a deadline too far away to be expressed is [`Instant::INFINITE`], and a distance
/// into the future is zero when asked from the wrong end.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::Instant;
/// use std::time::Duration;
///
/// let start = Instant::from_nanos(1_000);
/// let later = start + Duration::from_micros(1);
/// assert_eq!(later.duration_since(start), Duration::from_micros(1));
/// assert_eq!(start.duration_since(later), Duration::ZERO);
/// assert!((later + Duration::MAX).is_infinite());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The first instant there is: where a virtual clock starts unless told otherwise.
    pub const ZERO: Instant = Instant(0);

    /// The instant that never comes. As a deadline it is refused by whatever would wait for it alone.
    pub const INFINITE: Instant = Instant(u64::MAX);

    /// The instant at this many nanoseconds of its clock.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Nanoseconds of the clock at this instant.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whether this is the instant that never comes.
    pub const fn is_infinite(self) -> bool {
        self.0 == u64::MAX
    }

    /// This instant moved later; [`Instant::INFINITE`] where it would leave the range.
    pub const fn saturating_add(self, duration: Duration) -> Self {
        let nanos = duration.as_nanos();
        if nanos > u64::MAX as u128 {
            return Instant::INFINITE;
        }
        Instant(self.0.saturating_add(nanos as u64))
    }

    /// How long after `earlier` this instant is; zero when it is not after it.
    pub const fn duration_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, duration: Duration) -> Instant {
        self.saturating_add(duration)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = self.saturating_add(duration);
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, earlier: Instant) -> Duration {
        self.duration_since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_infinite() {
            return f.write_str("Instant(infinite)");
        }
        write!(f, "Instant({}.{:09} s)", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addition_saturates_at_infinite() {
        assert!(Instant::from_nanos(5).saturating_add(Duration::MAX).is_infinite());
        assert!((Instant::from_nanos(u64::MAX - 1) + Duration::from_nanos(7)).is_infinite());
        assert!((Instant::INFINITE + Duration::ZERO).is_infinite());
    }

    #[test]
    fn distance_backwards_is_zero() {
        assert_eq!(Instant::ZERO - Instant::from_nanos(1), Duration::ZERO);
        assert_eq!(Instant::from_nanos(8) - Instant::from_nanos(1), Duration::from_nanos(7));
    }

    #[test]
    fn debug_text_reads_in_seconds() {
        assert_eq!(format!("{:?}", Instant::from_nanos(1_500_000_000)), "Instant(1.500000000 s)");
        assert_eq!(format!("{:?}", Instant::INFINITE), "Instant(infinite)");
    }
}
