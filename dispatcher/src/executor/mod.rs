//! Futures on a dispatcher (L5): spawning, joining, and the `await` forms of timers and waits.
//!
//! A future is polled on its dispatcher and nowhere else. A wake is not a post: it never fails and is not counted among
//! callbacks; the future is, once. At shutdown every live future is dropped on the dispatcher, before the observer.

mod call;
mod join;
mod read;
#[cfg(not(shuttle))]
mod ready;
mod sleep;
mod spawn;
mod told;
mod writable;

pub use call::Call;
pub use join::{JoinError, JoinHandle};
pub use read::ChannelRead;
#[cfg(not(shuttle))]
pub use ready::{Ready, ready};
pub use sleep::{Elapsed, Sleep, Timeout, sleep, sleep_until, timeout};
pub use spawn::SpawnError;
pub use writable::Writable;
