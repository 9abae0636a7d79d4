//! What is timed, and who does it.
//!
//! The loops have three kinds of peers. libuv is the one that counts, as it is what other loop managers stand on; it is
//! there with the feature `libuv`. tokio's single-threaded runtime is there always, with what comes closest. Where two
//! threads wake each other, the kernel itself is measured as well: two threads and two event counters, nothing else.

use clap::ValueEnum;

/// A workload. The names are those under which peers of dispatcher runtimes are commonly compared here: W by posts,
/// C by channels, L by event loops alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Post throughput.
    #[value(name = "W1")]
    PostThroughput,
    /// Self-post hop.
    #[value(name = "W2")]
    SelfPost,
    /// Ping-pong on a pool of one.
    #[value(name = "W3a")]
    PingPongOneThread,
    /// Ping-pong on a pool of two.
    #[value(name = "W3b")]
    PingPongTwoThreads,
    /// Channel round trip, inline.
    #[value(name = "C1")]
    ChannelInline,
    /// Channel round trip across threads.
    #[value(name = "C2")]
    ChannelHop,
    /// A job that arms itself anew.
    #[value(name = "L1")]
    JobChain,
    /// Jobs in batches.
    #[value(name = "L1b")]
    JobBatch,
    /// Asynchronous callback to the own loop.
    #[value(name = "L2")]
    AsyncSelf,
    /// Ping-pong between two loops.
    #[value(name = "L3")]
    LoopPingPong,
    /// Burst from one loop to another.
    #[value(name = "L4")]
    AsyncBurst,
    /// Work, one item at a time.
    #[value(name = "L5")]
    WorkOne,
    /// Work, 64 items in flight.
    #[value(name = "L6")]
    WorkMany,
    /// A timer armed and canceled.
    #[value(name = "L7")]
    TimerArmCancel,
    /// A timer moved among many.
    #[value(name = "L7b")]
    TimerMove,
    /// Many timers due within a second.
    #[value(name = "L8")]
    TimersDue,
    /// All other loops and all workers paused and resumed.
    #[value(name = "L9")]
    PauseResume,
}

/// Who does a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Subject {
    /// Fuchsine.
    #[value(name = "fuchsine")]
    Fuchsine,
    /// tokio: one task a serial queue, messages by an unbounded mpsc channel.
    #[value(name = "tokio-msg")]
    TokioMsg,
    /// tokio's single-threaded runtime, where it has something alike.
    #[value(name = "tokio-loop")]
    TokioLoop,
    /// libuv, with the queues that one writes on top of it.
    #[cfg(feature = "libuv")]
    #[value(name = "libuv")]
    Libuv,
    /// The kernel alone: what waking a thread costs at the least.
    #[value(name = "kernel")]
    Kernel,
}

impl Workload {
    /// All of them.
    pub(crate) const ALL: &[Workload] = &[
        Workload::PostThroughput,
        Workload::SelfPost,
        Workload::PingPongOneThread,
        Workload::PingPongTwoThreads,
        Workload::ChannelInline,
        Workload::ChannelHop,
        Workload::JobChain,
        Workload::JobBatch,
        Workload::AsyncSelf,
        Workload::LoopPingPong,
        Workload::AsyncBurst,
        Workload::WorkOne,
        Workload::WorkMany,
        Workload::TimerArmCancel,
        Workload::TimerMove,
        Workload::TimersDue,
        Workload::PauseResume,
    ];

    /// The short name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Workload::PostThroughput => "W1",
            Workload::SelfPost => "W2",
            Workload::PingPongOneThread => "W3a",
            Workload::PingPongTwoThreads => "W3b",
            Workload::ChannelInline => "C1",
            Workload::ChannelHop => "C2",
            Workload::JobChain => "L1",
            Workload::JobBatch => "L1b",
            Workload::AsyncSelf => "L2",
            Workload::LoopPingPong => "L3",
            Workload::AsyncBurst => "L4",
            Workload::WorkOne => "L5",
            Workload::WorkMany => "L6",
            Workload::TimerArmCancel => "L7",
            Workload::TimerMove => "L7b",
            Workload::TimersDue => "L8",
            Workload::PauseResume => "L9",
        }
    }

    /// What one operation is.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Workload::PostThroughput => {
                "an outside thread posts empty callbacks to one synchronized dispatcher, until all ran"
            }
            Workload::SelfPost => "a callback posts the next one to its own dispatcher",
            Workload::PingPongOneThread => "round trip: two dispatchers post to each other, pool of 1",
            Workload::PingPongTwoThreads => "round trip: two dispatchers post to each other, pool of 2",
            Workload::ChannelInline => "round trip of 64 bytes by channel between two idle drivers, inline",
            Workload::ChannelHop => {
                "round trip of 64 bytes by channel with a server that allows sync calls: a hop each way"
            }
            Workload::JobChain => "a job arms itself anew: one iteration of the loop each",
            Workload::JobBatch => "a job in a batch of 1,000",
            Workload::AsyncSelf => "a callback posts the next one to its own loop: one iteration each",
            Workload::LoopPingPong => "round trip: two loops on two threads post to each other",
            Workload::AsyncBurst => "one loop posts 5,000,000 callbacks to another, until all ran",
            Workload::WorkOne => "work round trip, 1 in flight",
            Workload::WorkMany => "work round trip, 64 in flight, one worker",
            Workload::TimerArmCancel => "a timer is armed and canceled",
            Workload::TimerMove => "one of 100,000 armed timers is armed anew",
            Workload::TimersDue => "100,000 timers fall due within a second: look at the CPU column",
            Workload::PauseResume => {
                "one other loop and four workers are paused and resumed, then that loop answers a post"
            }
        }
    }

    /// Whether it is one of event loops alone.
    pub(crate) fn is_of_loops(self) -> bool {
        self.name().starts_with('L')
    }

    /// Who does it, the first one being compared with the others.
    pub(crate) fn subjects(self) -> &'static [Subject] {
        match self {
            Workload::PostThroughput
            | Workload::SelfPost
            | Workload::PingPongOneThread
            | Workload::PingPongTwoThreads
            | Workload::ChannelInline
            | Workload::ChannelHop => &[Subject::Fuchsine, Subject::TokioMsg],
            Workload::LoopPingPong => &[
                Subject::Fuchsine,
                #[cfg(feature = "libuv")]
                Subject::Libuv,
                Subject::TokioLoop,
                Subject::Kernel,
            ],
            // Nobody else has anything alike.
            Workload::PauseResume => &[Subject::Fuchsine],
            _ => &[
                Subject::Fuchsine,
                #[cfg(feature = "libuv")]
                Subject::Libuv,
                Subject::TokioLoop,
            ],
        }
    }
}

impl Subject {
    /// The name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Subject::Fuchsine => "fuchsine",
            Subject::TokioMsg => "tokio-msg",
            Subject::TokioLoop => "tokio-loop",
            #[cfg(feature = "libuv")]
            Subject::Libuv => "libuv",
            Subject::Kernel => "kernel",
        }
    }
}
