//! What is timed, and who does it.

use clap::ValueEnum;

/// A workload. The names are those under which peers of dispatcher runtimes are commonly compared here: W by posts,
/// C by channels.
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
        }
    }

    /// Who does it, the first one being compared with the others.
    pub(crate) fn subjects(self) -> &'static [Subject] {
        &[Subject::Fuchsine, Subject::TokioMsg]
    }
}

impl Subject {
    /// The name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Subject::Fuchsine => "fuchsine",
            Subject::TokioMsg => "tokio-msg",
        }
    }
}
