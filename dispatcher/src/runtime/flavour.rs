//! What becomes of a callback while its driver is suspended: one word that stands in its entry.

use crate::status::Status;
use crate::sync::unmodelled::{AtomicU64, Ordering};

/// How a callback behaves while its driver is suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flavour(u32);

impl Flavour {
    /// It is parked until the driver is resumed.
    pub(crate) const REGULAR: Flavour = Flavour(0);
    /// It runs all the same.
    pub(crate) const ALWAYS_ON: Flavour = Flavour(1);

    /// It is about a source with an identity: parked, and, if the source is a wake vector, a reason to resume.
    pub(crate) fn of_source(identity: Option<SourceIdentity>) -> Flavour {
        identity.map_or(Flavour::REGULAR, |SourceIdentity(number)| Flavour(number))
    }

    /// As a number of 32 bits, of which 0 is [`REGULAR`](Flavour::REGULAR).
    pub(super) const fn to_bits(self) -> u32 {
        self.0
    }

    /// The inverse of [`to_bits`](Flavour::to_bits).
    pub(super) const fn of_bits(bits: u32) -> Flavour {
        Flavour(bits)
    }

    pub(crate) fn is_always_on(self) -> bool {
        self == Flavour::ALWAYS_ON
    }

    /// The source that it is about, if that has an identity.
    pub(crate) fn source(self) -> Option<SourceIdentity> {
        (self.0 > Flavour::ALWAYS_ON.0).then_some(SourceIdentity(self.0))
    }
}

/// Names a source for as long as the process lives. No number is used twice, as numbers of descriptors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SourceIdentity(u32);

impl SourceIdentity {
    /// A new one; `None` when all numbers have been used, after 2^31 sources.
    pub(crate) fn fresh() -> Option<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self::from_bits(NEXT.fetch_add(1, Ordering::Relaxed) << 1)
    }

    /// The identity as one number. Odd ones are those of simulated objects, which are numbered by themselves.
    #[cfg(not(shuttle))]
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.0)
    }

    /// The inverse of [`to_bits`](SourceIdentity::to_bits); `None` for numbers that are no identity.
    pub(crate) fn from_bits(bits: u64) -> Option<Self> {
        u32::try_from(bits).ok().filter(|&bits| bits > Flavour::ALWAYS_ON.0).map(SourceIdentity)
    }

    /// What a source without an identity is refused with.
    pub(crate) const MISSING: Status = Status::InvalidArgs;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_no_flavour_of_their_own_and_never_repeat() {
        let (first, second) = (SourceIdentity::fresh(), SourceIdentity::fresh());
        assert!(first.is_some() && first != second);
        for identity in [first, second] {
            let flavour = Flavour::of_source(identity);
            assert_eq!(flavour.source(), identity);
            assert!(!flavour.is_always_on() && flavour != Flavour::REGULAR);
        }
        assert_eq!(Flavour::of_source(None), Flavour::REGULAR);
        assert_eq!((Flavour::REGULAR.source(), Flavour::ALWAYS_ON.source()), (None, None));
        assert_eq!(SourceIdentity::from_bits(1 << 32), None, "the end of the numbers is no first number");
    }
}
