//! What sort of callback an operation is, and where it stands.

/// What sort of callback an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A posted task.
    Task,
    /// A task with a deadline.
    Delayed,
    /// A wait for the readiness of a file descriptor or a simulated object.
    Wait,
    /// A registered channel read.
    Read,
    /// A registered wait for room in the queue of a channel.
    Writable,
    /// A call on a channel that waits for its reply.
    Call,
    /// A registered token that waits for its channel.
    Token,
    /// Work on a lane whose result comes back here.
    Offload,
    /// A future that was woken. It is not counted among callbacks: its future is.
    Wake,
    /// A bound irq, from its binding to its one end.
    Irq,
    /// One delivery of an irq. It is not counted among callbacks: its irq is.
    Trigger,
}

impl Kind {
    /// Whether it is counted: a wake is not, its future is; a trigger is not, its irq is.
    pub(crate) const fn is_callback(self) -> bool {
        !matches!(self, Kind::Wake | Kind::Trigger)
    }

    /// Whether what came about is kept when a shutdown begins before the callback runs: it is nowhere else.
    pub(crate) const fn keeps_result(self) -> bool {
        matches!(self, Kind::Offload | Kind::Call | Kind::Token)
    }

    /// The kind's name in dumps and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Task => "task",
            Kind::Delayed => "delayed task",
            Kind::Wait => "wait",
            Kind::Read => "channel read",
            Kind::Writable => "channel room",
            Kind::Call => "channel call",
            Kind::Token => "token",
            Kind::Offload => "offload",
            Kind::Wake => "future",
            Kind::Irq => "irq",
            Kind::Trigger => "irq trigger",
        }
    }
}

/// Where an operation stands. Each stage is a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// In the FIFO, to be invoked next.
    Ready,
    /// What a channel has not told yet: a read without a message, a wait for room, a call without a reply.
    Reading,
    /// A wait without an event.
    Waiting,
    /// A task before its deadline.
    Delayed,
    /// Work that no worker has started.
    Offloaded,
    /// Work that a worker is running.
    OffloadRunning,
    /// A bound irq; where it stands between two deliveries says its own state.
    Bound,
    /// A registered token without a channel; the last to be canceled.
    Token,
    /// Ready, but its driver is suspended.
    Parked,
    /// Parked, and told by a wake vector: it is first on resume.
    ParkedWake,
}

impl Stage {
    /// All stages, in the order of their numbers.
    pub(crate) const ALL: [Stage; 10] = [
        Stage::Ready,
        Stage::Reading,
        Stage::Waiting,
        Stage::Delayed,
        Stage::Offloaded,
        Stage::OffloadRunning,
        Stage::Bound,
        Stage::Token,
        Stage::Parked,
        Stage::ParkedWake,
    ];

    /// Whether it is still waited for what the operation is about.
    pub(crate) const fn is_armed(self) -> bool {
        !matches!(self, Stage::Ready | Stage::Parked | Stage::ParkedWake)
    }

    /// What a dump calls the queue.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Stage::Ready => "ready",
            Stage::Reading => "reads",
            Stage::Waiting => "waits",
            Stage::Delayed => "delayed",
            Stage::Offloaded => "offloads",
            Stage::OffloadRunning => "offloads running",
            Stage::Bound => "irqs",
            Stage::Token => "tokens",
            Stage::Parked => "parked",
            Stage::ParkedWake => "parked to wake",
        }
    }
}
