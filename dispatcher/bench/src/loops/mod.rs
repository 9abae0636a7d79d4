//! Event loops alone, without dispatchers.
//!
//! They have three kinds of peers. libuv is the one that counts, as it is what other loop managers stand on; it is there
//! with the feature `libuv`. tokio's single-threaded runtime is there always, with what comes closest. Where two threads
//! wake each other, the kernel itself is measured as well: two threads and two event counters, nothing else.

mod bulk;
mod fuchsine;
mod kernel;
#[cfg(feature = "libuv")]
mod libuv;
mod tokio_bulk;
mod tokio_loop;

use crate::workload::{Run, Workload};

/// How many operations; `peers/libuv.c` has the same counts.
mod counts {
    use crate::workload::scaled;

    pub(super) const BATCH: u64 = 1_000;
    pub(super) const IN_FLIGHT: u64 = 64;
    pub(super) const POSTS: u64 = 40;

    /// Operations that stay on one thread.
    pub(super) fn hops() -> u64 {
        scaled(1_000_000)
    }

    /// Round trips that cross threads.
    pub(super) fn crossings() -> u64 {
        scaled(50_000)
    }

    pub(super) fn batches() -> u64 {
        scaled(5_000)
    }

    pub(super) fn burst() -> u64 {
        scaled(5_000_000)
    }

    pub(super) fn work_one() -> u64 {
        scaled(25_000)
    }

    pub(super) fn work_many() -> u64 {
        scaled(500_000)
    }

    pub(super) fn armings() -> u64 {
        scaled(5_000_000)
    }

    pub(super) fn moves() -> u64 {
        scaled(2_000_000)
    }

    pub(super) fn timers() -> u64 {
        scaled(100_000)
    }

    pub(super) fn pauses() -> u64 {
        scaled(10_000)
    }

    pub(super) fn post_batches() -> u64 {
        scaled(50_000)
    }

    pub(super) fn outside_posts() -> u64 {
        scaled(2_000_000)
    }

    pub(super) fn canceled_items() -> u64 {
        scaled(200_000)
    }

    pub(super) fn lives() -> u64 {
        scaled(2_000)
    }
}

/// What a loop does.
#[derive(Debug, Clone, Copy)]
enum Doing {
    JobChain,
    JobBatch,
    AsyncSelf,
    PingPong,
    AsyncBurst,
    WorkOne,
    WorkMany,
    TimerArmCancel,
    TimerMove,
    TimersDue,
    PauseResume,
    AsyncBatch,
    PostsFromOutside,
    WorkCancel,
    TimerRemove,
    Life,
}

/// With libuv in the second place, if this was built with it.
#[cfg(feature = "libuv")]
pub(crate) fn with_libuv(name: &'static str, mut runs: Vec<Run>) -> Vec<Run> {
    runs.insert(1, Run::new("libuv", move || libuv::measure(name)));
    runs
}

/// This was built without libuv.
#[cfg(not(feature = "libuv"))]
pub(crate) fn with_libuv(_name: &'static str, runs: Vec<Run>) -> Vec<Run> {
    runs
}

/// The loops that do it: ours, that of libuv, that of tokio.
fn loops(name: &'static str, doing: Doing) -> Vec<Run> {
    let ours = Run::new("fuchsine", move || vec![fuchsine::measure(doing)]);
    let tokio = Run::new("tokio-loop", move || vec![tokio_loop::measure(doing)]);
    with_libuv(name, vec![ours, tokio])
}

/// The workloads and who does them.
pub(crate) fn workloads() -> Vec<Workload> {
    let mut ping_pong = loops("L3", Doing::PingPong);
    ping_pong.push(Run::new("kernel", || vec![kernel::ping_pong(counts::crossings())]));
    // Nobody else has anything alike.
    let pause = vec![Run::new("fuchsine", || vec![fuchsine::measure(Doing::PauseResume)])];
    [
        ("L1", "a job arms itself anew: one iteration of the loop each", loops("L1", Doing::JobChain)),
        ("L1b", "a job in a batch of 1,000", loops("L1b", Doing::JobBatch)),
        ("L2", "a callback posts the next one to its own loop: one iteration each", loops("L2", Doing::AsyncSelf)),
        (
            "L2b",
            "a callback posts a batch of 40 to its own loop, the last of which posts the next",
            loops("L2b", Doing::AsyncBatch),
        ),
        ("L3", "round trip: two loops on two threads post to each other", ping_pong),
        ("L4", "one loop posts 5,000,000 callbacks to another, until all ran", loops("L4", Doing::AsyncBurst)),
        ("L4b", "a thread without a loop posts to one, until all ran", loops("L4b", Doing::PostsFromOutside)),
        ("L5", "work round trip, 1 in flight", loops("L5", Doing::WorkOne)),
        ("L6", "work round trip, 64 in flight, one worker", loops("L6", Doing::WorkMany)),
        ("L6b", "work behind a busy worker is enqueued, canceled, and told so", loops("L6b", Doing::WorkCancel)),
        ("L7", "a timer is armed and canceled", loops("L7", Doing::TimerArmCancel)),
        ("L7b", "one of 100,000 armed timers is armed anew", loops("L7b", Doing::TimerMove)),
        ("L7c", "one of 100,000 armed timers is canceled, until none is left", loops("L7c", Doing::TimerRemove)),
        ("L8", "100,000 timers fall due within a second: look at the CPU column", loops("L8", Doing::TimersDue)),
        ("L9", "one other loop and four workers are paused and resumed, then that loop answers a post", pause),
        ("L10", "two loops on threads of their own are made, answer a post each, and end", loops("L10", Doing::Life)),
    ]
    .map(|(name, description, runs)| Workload::new(name, description, runs))
    .into()
}
