//! Event loops (layer L1): timers, readiness, and callbacks that run on a thread of one's choice.

#[cfg(not(any(loom, shuttle)))]
mod fd_waits;
#[cfg(not(any(loom, shuttle)))]
pub(crate) mod reactor;
#[cfg(not(any(loom, shuttle)))]
mod sim_waits;
#[cfg(not(any(loom, shuttle)))]
pub(crate) mod source;
#[cfg(not(any(loom, shuttle)))]
mod timer_wheel;
#[cfg(not(any(loom, shuttle)))]
pub(crate) mod timers;
#[cfg(not(any(loom, shuttle)))]
mod wait_list;
mod wake_word;

#[cfg(all(test, loom))]
mod loom_wake_word;

#[cfg(not(any(loom, shuttle)))]
pub use source::WaitRefused;
