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
//! | [`prepare`](EventLoop::prepare), [`check`](EventLoop::check), [`idle`](EventLoop::idle) | the loop's own thread | the same loop, in every iteration | what has to be done once a turn |
//! | [`RateLimiter`] | any thread | the loop one names, not faster than so many in an interval | whatever must not come all at once |
//! | [`net`] | the loop's own thread | the same loop | listeners, connections and datagrams |
//! | [`LoopLocal`] | any thread | the loop one names | state that is split by loop |
//!
//! No callback ever runs before the call that asked for it has returned.

#[cfg(not(loom))]
mod batch;
#[cfg(not(any(loom, shuttle)))]
mod budget;
#[cfg(not(any(loom, shuttle)))]
mod current;
#[cfg(not(any(loom, shuttle)))]
mod deferred;
#[cfg(not(any(loom, shuttle)))]
#[expect(clippy::module_inception, reason = "the file is named after the one type that it is about")]
mod event_loop;
#[cfg(not(any(loom, shuttle)))]
mod fd_waits;
#[cfg(not(any(loom, shuttle)))]
mod handle;
#[cfg(not(any(loom, shuttle)))]
mod hook;
#[cfg(not(any(loom, shuttle)))]
mod iteration;
#[cfg(not(any(loom, shuttle)))]
mod job;
#[cfg(not(any(loom, shuttle)))]
mod job_table;
#[cfg(not(loom))]
mod lane;
#[cfg(not(any(loom, shuttle)))]
mod loop_builder;
#[cfg(not(any(loom, shuttle)))]
mod loop_end;
#[cfg(not(any(loom, shuttle)))]
mod loop_local;
#[cfg(not(any(loom, shuttle)))]
mod loop_manager;
#[cfg(not(any(loom, shuttle)))]
mod loop_timers;
#[cfg(not(any(loom, shuttle)))]
pub mod net;
#[cfg(not(any(loom, shuttle)))]
mod panics;
#[cfg(not(any(loom, shuttle)))]
pub(crate) mod parker;
#[cfg(not(any(loom, shuttle)))]
mod pause;
mod pause_gate;
#[cfg(not(any(loom, shuttle)))]
mod rate_limiter;
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
mod start;
#[cfg(not(any(loom, shuttle)))]
mod summary;
#[cfg(not(any(loom, shuttle)))]
mod timer;
mod timer_state;
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
mod loom_pause;
#[cfg(all(test, loom))]
mod loom_post;
#[cfg(all(test, loom))]
mod loom_timer;
#[cfg(all(test, loom))]
mod loom_wake_word;
#[cfg(all(test, loom))]
mod loom_work;
#[cfg(all(test, shuttle))]
mod shuttle_pause;
#[cfg(all(test, shuttle))]
mod shuttle_worker;

#[cfg(shuttle)]
mod modelled;

#[cfg(shuttle)]
pub use lane::Lane;
#[cfg(shuttle)]
pub(crate) use modelled::{EventTarget, Fired, PollMode, Reactor, TimerId, Told, WaitId};

#[cfg(not(any(loom, shuttle)))]
mod exports {
    pub(crate) use super::event_loop::LoopSeed;
    pub(crate) use super::parker::{Parker, Workload};
    pub(crate) use super::reactor::{EventTarget, Fired, PollMode, Reactor, Told, WaitId};
    pub(crate) use super::timers::TimerId;

    pub use super::current::tid;
    pub use super::event_loop::EventLoop;
    pub use super::handle::{LoopHandle, Refused};
    pub use super::hook::Hook;
    pub use super::job::{Job, JobError};
    pub use super::lane::Lane;
    pub use super::loop_builder::LoopManagerBuilder;
    pub use super::loop_local::LoopLocal;
    pub use super::loop_manager::{LoopManager, ManagerError, ManagerHandle, RunningLoops};
    pub use super::panics::{LoopPanic, LoopPanicPolicy};
    pub use super::pause::{PauseError, PauseGuard, PauseScope, WaitingFor};
    pub use super::rate_limiter::{LimitedCallback, LimitedEvent, RateLimit, RateLimiter, Release, Taken};
    pub use super::signal::{SignalError, SignalHandler};
    pub use super::source::{Source, WaitError, WaitRefused, Waitable};
    pub use super::summary::{Holder, HolderKind, LoopSummary, RunSummary};
    pub use super::timer::{Timer, TimerError, TimerStopper};
    pub use super::timer_state::{MissedTicks, Tick, TimerState};
    pub use super::wait::Wait;
    pub use super::work::{WorkError, WorkHandle, WorkPolicy, WorkRefused};
    pub use super::worker::yield_wanted;
}

#[cfg(not(any(loom, shuttle)))]
pub use exports::*;
