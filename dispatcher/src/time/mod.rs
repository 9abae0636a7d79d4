//! Time as the rest of the crate sees it: [`Instant`], a point on the monotonic clock in 64-bit nanoseconds, and
//! `Clock`, which is either the kernel's clock or one that a test turns by hand.
//!
//! Nothing above this module reads `std::time::Instant`: a deadline must mean the same to a timer wheel, to a
//! kernel timer (which takes it as an absolute value) and to a virtual clock.

mod clock;
mod instant;

pub(crate) use clock::Clock;
pub use instant::Instant;
