//! The pool (L2): threads that run *runnables*. It knows no callback, no driver and no dispatcher.
//!
//! A pool is a set of event loops that share one reactor. Each has a deque of runnables and steals from its siblings;
//! threads outside use the injector. What is pinned to one thread waits there: [`hosts`]. Who sleeps and who is woken is [`idle`]'s business, described and argued in
//! `pool/README.md`. There is one pool a scheduler role: [`role`].

#[cfg(all(any(feature = "testing", all(test, shuttle)), not(loom)))]
pub(crate) mod batons;
#[cfg(all(any(feature = "testing", all(test, shuttle)), not(loom)))]
pub(crate) mod by_hand;
#[cfg(all(test, not(any(loom, shuttle))))]
mod coarse_tests;
#[cfg(not(loom))]
mod hosts;
pub(crate) mod idle;
#[cfg(not(loom))]
pub(crate) mod lanes;
#[cfg(all(test, loom))]
mod loom_hosts;
#[cfg(all(test, loom))]
mod loom_idle;
#[cfg(not(loom))]
mod members;
#[cfg(not(loom))]
mod patience;
#[cfg(not(loom))]
mod pulse;
#[cfg(not(loom))]
mod role;
#[cfg(not(loom))]
mod run_queue;
#[cfg(not(loom))]
mod scheduling;
#[cfg(all(test, shuttle))]
mod shuttle_batons;
#[cfg(all(test, shuttle))]
mod shuttle_lanes;
#[cfg(not(loom))]
mod stall_watch;
#[cfg(not(loom))]
mod stalls;
#[cfg(not(loom))]
mod threads;
#[cfg(not(loom))]
mod waiter;
#[cfg(all(feature = "testing", not(any(loom, shuttle))))]
pub(crate) mod ways;
#[cfg(not(loom))]
mod worker;

#[cfg(not(loom))]
pub(crate) use hosts::Place;
#[cfg(not(loom))]
pub(crate) use idle::{MOST_THREADS, ThreadIndex};
#[cfg(not(loom))]
pub(crate) use role::{Pool, PoolOptions, Runnable, Task, Turn};
#[cfg(not(loom))]
pub(crate) use run_queue::current_pool;
#[cfg(not(loom))]
pub(crate) use scheduling::SchedulingOutcome;
#[cfg(not(loom))]
pub(crate) use threads::{ThreadFigures, ThreadRefused};
#[cfg(not(loom))]
pub(crate) use waiter::Waiter;
