//! Event loops: timers, readiness, and callbacks that run on a thread of one's choice.
//!
//! An [`EventLoop`] is one thread's loop; a [`LoopManager`] starts and stops a number of them. Where a callback runs
//! is decided by how it is given to a loop:
//!
//! | | from | runs on | for |
//! |---|---|---|---|
//! | [`Job`] | the loop's own thread | the same loop, next iteration | putting off what one is about to do; costs next to nothing |
//! | [`async_run`](LoopHandle::async_run) | any thread | the loop one names | everything that crosses threads |
//! | [`work`](EventLoop::work) | the loop's own thread | a worker, the result back on the loop | whatever takes long or blocks |
//! | [`Timer`] | the loop's own thread | the same loop, at its time | deadlines and ticks |
//! | [`wait`](EventLoop::wait) | the loop's own thread | the same loop, when a descriptor is ready | sockets and pipes |
//! | [`SignalHandler`] | the loop's own thread | the same loop | signals of the operating system |
//!
//! No callback ever runs before the call that asked for it has returned.

#[cfg(not(any(loom, shuttle)))]
mod budget;
#[cfg(not(any(loom, shuttle)))]
mod current;
#[cfg(not(any(loom, shuttle)))]
#[expect(clippy::module_inception, reason = "the file is named after the one type that it is about")]
mod event_loop;
#[cfg(not(any(loom, shuttle)))]
mod fd_waits;
#[cfg(not(any(loom, shuttle)))]
mod handle;
#[cfg(not(any(loom, shuttle)))]
mod job;
#[cfg(not(any(loom, shuttle)))]
mod loop_builder;
#[cfg(not(any(loom, shuttle)))]
mod loop_end;
#[cfg(not(any(loom, shuttle)))]
mod loop_manager;
#[cfg(not(any(loom, shuttle)))]
mod panics;
#[cfg(not(any(loom, shuttle)))]
pub(crate) mod parker;
#[cfg(not(any(loom, shuttle)))]
pub(crate) mod reactor;
#[cfg(not(any(loom, shuttle)))]
mod signal;
#[cfg(not(any(loom, shuttle)))]
mod sim_waits;
#[cfg(not(any(loom, shuttle)))]
mod slots;
#[cfg(not(any(loom, shuttle)))]
pub(crate) mod source;
#[cfg(not(any(loom, shuttle)))]
mod summary;
#[cfg(not(any(loom, shuttle)))]
mod timer;
#[cfg(not(any(loom, shuttle)))]
mod timer_wheel;
#[cfg(not(any(loom, shuttle)))]
mod timers;
#[cfg(not(any(loom, shuttle)))]
mod wait;
#[cfg(not(any(loom, shuttle)))]
mod wait_list;
mod wake_word;
#[cfg(not(any(loom, shuttle)))]
mod work;
mod work_state;
#[cfg(not(loom))]
mod worker;

#[cfg(all(test, loom))]
mod loom_wake_word;
#[cfg(all(test, loom))]
mod loom_work;
#[cfg(all(test, shuttle))]
mod shuttle_worker;

#[cfg(shuttle)]
mod modelled;

#[cfg(shuttle)]
pub(crate) use modelled::{EventTarget, Fired, Lane, PollMode, Reactor, TimerId, WaitId};

#[cfg(not(any(loom, shuttle)))]
mod exports {
    pub(crate) use super::event_loop::LoopSeed;
    pub(crate) use super::parker::{Parker, Workload};
    pub(crate) use super::reactor::{EventTarget, Fired, PollMode, Reactor, WaitId};
    pub(crate) use super::timers::TimerId;

    pub use super::current::tid;
    pub use super::event_loop::EventLoop;
    pub use super::handle::{LoopHandle, Refused};
    pub use super::job::{Job, JobError};
    pub use super::loop_builder::LoopManagerBuilder;
    pub use super::loop_manager::{LoopManager, ManagerError, ManagerHandle, RunningLoops};
    pub use super::panics::LoopPanic;
    pub use super::signal::{SignalError, SignalHandler};
    pub use super::source::{Source, WaitError, WaitRefused, Waitable};
    pub use super::summary::{Holder, HolderKind, LoopSummary, RunSummary};
    pub use super::timer::{Tick, Timer, TimerError, TimerState, TimerStopper};
    pub use super::wait::Wait;
    pub use super::work::{Lane, WorkError, WorkHandle, WorkPolicy, WorkRefused};
}

#[cfg(not(any(loom, shuttle)))]
pub use exports::*;
