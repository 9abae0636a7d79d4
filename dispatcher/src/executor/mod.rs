//! Futures on a dispatcher (L5): spawning, joining, the `await` forms of timers and waits; and values and scopes that are
//! bound to one dispatcher.
//!
//! A future is polled on its dispatcher and nowhere else. A wake is not a post: it never fails and is not counted among
//! callbacks; the future is, once. At shutdown every live future is dropped on the dispatcher, before the observer.

mod bound_call;
mod call;
mod caught_waker;
mod dispatcher_bound;
mod home;
mod join;
mod read;
#[cfg(not(shuttle))]
mod ready;
#[cfg(all(test, shuttle))]
mod shuttle_bound;
mod sleep;
mod spawn;
mod task_scope;
mod told;
mod typed;
mod writable;

pub use bound_call::BoundCall;
pub use call::Call;
pub use dispatcher_bound::DispatcherBound;
pub use join::{JoinError, JoinHandle};
pub use read::ChannelRead;
#[cfg(not(shuttle))]
pub use ready::{Ready, ready};
pub use sleep::{Elapsed, Sleep, Timeout, sleep, sleep_until, timeout};
pub use spawn::SpawnError;
pub use task_scope::TaskScope;
pub use typed::TypedCall;
pub use writable::Writable;
