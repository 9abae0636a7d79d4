//! Panics of callbacks: caught, reported, and survived.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::sync::{Arc, message_of};

/// A callback of a loop panicked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoopPanic {
    /// The name of the loop.
    pub loop_name: String,
    /// What kind of callback it was.
    pub callback: &'static str,
    /// What the panic said.
    pub message: String,
}

impl fmt::Display for LoopPanic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} callback of loop {} panicked: {}", self.callback, self.loop_name, self.message)
    }
}

/// What becomes of the loops when a callback of theirs panics. It is caught, counted and reported in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoopPanicPolicy {
    /// They go on.
    #[default]
    Continue,
    /// All loops of the manager shut down, in order.
    Shutdown,
}

/// Whom to tell of panics, besides the log.
pub(crate) type PanicObserver = Arc<dyn Fn(&LoopPanic) + Send + Sync>;

/// Calls `body` and answers with the message of its panic, if it panics.
pub(crate) fn caught<R>(body: impl FnOnce() -> R) -> Result<R, String> {
    // What the body left half-done is its own; the loop's tables are never borrowed across a call.
    catch_unwind(AssertUnwindSafe(body)).map_err(message_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_its_message_even_when_its_payload_panics() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        assert_eq!(caught(|| 1), Ok(1));
        assert_eq!(caught(|| panic!("plain")), Err::<(), _>("plain".to_owned()));
        assert_eq!(caught(|| panic!("{}", 7)), Err::<(), _>("7".to_owned()));
        let payload = caught(|| std::panic::panic_any(Bomb));
        assert_eq!(payload, Err::<(), _>("a panic whose payload is no text".to_owned()));
    }
}
