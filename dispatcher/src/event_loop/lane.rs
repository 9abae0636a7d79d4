//! [`Lane`]: which worker a piece of work goes to.

/// Which worker a piece of work goes to. Lanes do not wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Short, bounded work, such as a checksum.
    Fast,
    /// Work that blocks or takes long, such as reading a file.
    Slow,
}

impl Lane {
    pub(crate) const ALL: [Lane; 2] = [Lane::Fast, Lane::Slow];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Lane::Fast => "fast",
            Lane::Slow => "slow",
        }
    }
}
