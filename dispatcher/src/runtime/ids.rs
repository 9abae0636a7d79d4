//! Numbers that name drivers and dispatchers in dumps, logs and comparisons. They are never used twice in a process.

use std::fmt;

use crate::sync::unmodelled::{AtomicU64, Ordering};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(u64);

        impl $name {
            pub(crate) fn fresh() -> Self {
                static NEXT: AtomicU64 = AtomicU64::new(1);
                $name(NEXT.fetch_add(1, Ordering::Relaxed))
            }

            #[allow(dead_code, reason = "of dispatchers only")]
            pub(crate) const fn from_raw(id: u64) -> Option<Self> {
                match id {
                    0 => None,
                    id => Some($name(id)),
                }
            }

            /// The number itself; never 0.
            pub const fn as_raw(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// Names a driver.
    DriverId
}
id! {
    /// Names a dispatcher.
    DispatcherId
}
