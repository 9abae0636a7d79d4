//! [`Interest`]: what somebody waits for; [`Readiness`]: what a source turned out to be ready for.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// What to wait for: readable, writable, or both.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::Interest;
/// let both = Interest::READABLE | Interest::WRITABLE;
/// assert!(both.contains(Interest::WRITABLE));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Interest(u8);

/// What a source is ready for.
///
/// [`READABLE`](Readiness::READABLE) and [`WRITABLE`](Readiness::WRITABLE) say that the operation will not block,
/// which includes that it would fail or find the end; [`HANGUP`](Readiness::HANGUP) that the other side has closed at
/// least one direction; [`ERROR`](Readiness::ERROR) that an error is pending.
///
/// # Examples
/// ```
/// use fuchsine_dispatcher::Readiness;
/// let ready = Readiness::READABLE | Readiness::HANGUP;
/// assert!(ready.is_readable() && ready.is_hangup() && !ready.is_writable());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Readiness(u8);

impl Interest {
    /// Data, a connection, or the end can be read.
    pub const READABLE: Interest = Interest(1);
    /// There is room to write.
    pub const WRITABLE: Interest = Interest(2);

    /// Nothing at all: what a source has when nobody waits on it.
    pub(crate) const NONE: Interest = Interest(0);

    /// Whether all of `other` is part of this.
    pub const fn contains(self, other: Interest) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether this asks for readability.
    pub const fn is_readable(self) -> bool {
        self.contains(Interest::READABLE)
    }

    /// Whether this asks for writability.
    pub const fn is_writable(self) -> bool {
        self.contains(Interest::WRITABLE)
    }

    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// What is left without `other`.
    #[cfg_attr(loom, allow(dead_code, reason = "the runtime is not part of loom's models"))]
    pub(crate) const fn without(self, other: Interest) -> Interest {
        Interest(self.0 & !other.0)
    }
}

impl BitOr for Interest {
    type Output = Interest;
    fn bitor(self, other: Interest) -> Interest {
        Interest(self.0 | other.0)
    }
}

impl BitOrAssign for Interest {
    fn bitor_assign(&mut self, other: Interest) {
        self.0 |= other.0;
    }
}

impl Readiness {
    /// Nothing: the operation would block.
    pub const EMPTY: Readiness = Readiness(0);
    /// Reading does not block.
    pub const READABLE: Readiness = Readiness(1);
    /// Writing does not block.
    pub const WRITABLE: Readiness = Readiness(2);
    /// An error is pending.
    pub const ERROR: Readiness = Readiness(4);
    /// The other side has closed, at least in one direction.
    pub const HANGUP: Readiness = Readiness(8);

    /// Whether all of `other` is part of this.
    pub const fn contains(self, other: Readiness) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether nothing is ready.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether reading does not block.
    pub const fn is_readable(self) -> bool {
        self.contains(Readiness::READABLE)
    }

    /// Whether writing does not block.
    pub const fn is_writable(self) -> bool {
        self.contains(Readiness::WRITABLE)
    }

    /// Whether an error is pending.
    pub const fn is_error(self) -> bool {
        self.contains(Readiness::ERROR)
    }

    /// Whether the other side has closed, at least in one direction.
    pub const fn is_hangup(self) -> bool {
        self.contains(Readiness::HANGUP)
    }

    /// Whether somebody who waits for `interest` wants to hear of this. Errors concern everybody.
    pub(crate) const fn concerns(self, interest: Interest) -> bool {
        self.is_error()
            || (interest.is_readable() && self.is_readable())
            || (interest.is_writable() && self.is_writable())
    }

    /// Both together, in constants.
    pub(crate) const fn and(self, other: Readiness) -> Readiness {
        Readiness(self.0 | other.0)
    }

    /// The bits as a number, for those who carry it through one.
    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// The inverse of [`Readiness::bits`]; bits without a name are dropped.
    pub(crate) const fn from_bits(bits: u8) -> Self {
        Readiness(bits & 15)
    }
}

impl BitOr for Readiness {
    type Output = Readiness;
    fn bitor(self, other: Readiness) -> Readiness {
        Readiness(self.0 | other.0)
    }
}

impl BitOrAssign for Readiness {
    fn bitor_assign(&mut self, other: Readiness) {
        self.0 |= other.0;
    }
}

fn write_names(f: &mut fmt::Formatter<'_>, kind: &str, bits: u8, names: &[&str]) -> fmt::Result {
    write!(f, "{kind}(")?;
    let set = names.iter().enumerate().filter(|(bit, _)| bits & (1 << bit) != 0);
    for (nth, (_, name)) in set.enumerate() {
        write!(f, "{}{name}", if nth == 0 { "" } else { " | " })?;
    }
    f.write_str(")")
}

impl fmt::Debug for Interest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_names(f, "Interest", self.0, &["READABLE", "WRITABLE"])
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_names(f, "Readiness", self.0, &["READABLE", "WRITABLE", "ERROR", "HANGUP"])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_concerns_every_wait_and_readability_only_readers() {
        assert!(Readiness::ERROR.concerns(Interest::WRITABLE));
        assert!(Readiness::READABLE.concerns(Interest::READABLE | Interest::WRITABLE));
        assert!(!(Readiness::READABLE | Readiness::HANGUP).concerns(Interest::WRITABLE));
        assert!(!Readiness::EMPTY.concerns(Interest::READABLE | Interest::WRITABLE));
    }

    #[test]
    fn debug_text_names_the_bits() {
        assert_eq!(format!("{:?}", Readiness::READABLE | Readiness::HANGUP), "Readiness(READABLE | HANGUP)");
        assert_eq!(format!("{:?}", Interest::NONE), "Interest()");
    }
}
