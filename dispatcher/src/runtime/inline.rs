//! Run in place or queue: the decision, as a pure function.
//!
//! A callback that becomes ready may run at once on the thread that made it ready. Deferring is always legal; an
//! inline call is made only when every rule below allows it. Each reason to defer is a variant, is counted, and has a
//! test. Facts behind the rules: Fuchsia's driver runtime, whose table of the same decision they follow with three
//! differences: an inline call never overtakes what is queued, the depth of nested calls is bounded, and a pinned
//! dispatcher is called inline on its own thread.

/// What made the callback ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was posted, or it is one of several events that were taken at once: it goes to the queue.
    Queued,
    /// A channel message (or the peer's closing) on the thread that wrote it.
    Message,
    /// A wait, an irq or a timer, on the pool thread that took the event.
    Event,
}

/// What the decision asks about the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) synchronized: bool,
    pub(crate) allows_sync_calls: bool,
    /// Whether a thread is inside of it.
    pub(crate) busy: bool,
    /// Whether callbacks are queued.
    pub(crate) queued: bool,
    /// Whether its driver is suspended and the callback is a regular one.
    pub(crate) parked: bool,
}

/// What the decision asks about the calling thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Whether this is a thread of the target's own pool.
    pub(crate) on_own_pool: bool,
    /// Whether the target is pinned to another thread.
    pub(crate) off_pinned_thread: bool,
    /// Whether the target's driver is anywhere in this thread's call stack.
    pub(crate) owner_in_stack: bool,
    /// Whether a dispatcher that allows sync calls is current.
    pub(crate) allows_sync_calls: bool,
    /// How many dispatchers are in this thread's call stack.
    pub(crate) depth: u32,
    /// The deepest stack an inline call may be made from.
    pub(crate) depth_limit: u32,
}

/// Run now or later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// On this thread, before the causing call returns.
    Inline,
    /// In the queue.
    Deferred(Reason),
}

/// Why a call was deferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// It is a task, or one of several events taken at once.
    Queued,
    /// The driver is suspended: it is parked.
    Suspended,
    /// The thread is no thread of the dispatcher's pool.
    OtherPool,
    /// The dispatcher is pinned to another thread.
    Pinned,
    /// The dispatcher's driver is in this thread's call stack.
    Reentrant,
    /// The stack of inline calls is as deep as allowed.
    Depth,
    /// The dispatcher allows sync calls and the calling one does not.
    AllowSyncCalls,
    /// The dispatcher is synchronized and a callback of it is running.
    Parallel,
    /// The dispatcher is synchronized and callbacks are queued, which must not be overtaken.
    Overtaking,
    /// It would have been made, and the testing kit explores what follows when it is not.
    Explored,
}

impl Reason {
    /// All reasons, in the order in which they are looked at.
    pub const ALL: &[Reason] = &[
        Reason::Queued,
        Reason::Suspended,
        Reason::OtherPool,
        Reason::Pinned,
        Reason::Reentrant,
        Reason::Depth,
        Reason::AllowSyncCalls,
        Reason::Parallel,
        Reason::Overtaking,
        Reason::Explored,
    ];

    /// The reason's name in dumps.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Queued => "queued",
            Reason::Suspended => "suspended",
            Reason::OtherPool => "other pool",
            Reason::Pinned => "pinned",
            Reason::Reentrant => "reentrant",
            Reason::Depth => "depth",
            Reason::AllowSyncCalls => "allow sync calls",
            Reason::Parallel => "parallel",
            Reason::Overtaking => "overtaking",
            Reason::Explored => "explored",
        }
    }
}

/// Decides. The first rule that forbids the inline call is the reason.
#[inline(always)]
pub(crate) fn decide(origin: Origin, target: Target, caller: Caller) -> Decision {
    let reason = if target.parked {
        Reason::Suspended
    } else if origin == Origin::Queued {
        Reason::Queued
    } else if !caller.on_own_pool {
        Reason::OtherPool
    } else if caller.off_pinned_thread {
        Reason::Pinned
    } else if caller.owner_in_stack {
        Reason::Reentrant
    } else if caller.depth >= caller.depth_limit {
        Reason::Depth
    } else if target.allows_sync_calls && (origin == Origin::Event || !caller.allows_sync_calls) {
        Reason::AllowSyncCalls
    } else if target.busy && (target.synchronized || origin == Origin::Event) {
        Reason::Parallel
    } else if target.queued && (target.synchronized || origin == Origin::Event) {
        Reason::Overtaking
    } else {
        return Decision::Inline;
    };
    Decision::Deferred(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target =
        Target { synchronized: true, allows_sync_calls: false, busy: false, queued: false, parked: false };
    const CALLER: Caller = Caller {
        on_own_pool: true,
        off_pinned_thread: false,
        owner_in_stack: false,
        allows_sync_calls: false,
        depth: 1,
        depth_limit: 16,
    };

    #[test]
    fn a_message_for_an_idle_dispatcher_of_another_driver_runs_inline() {
        assert_eq!(decide(Origin::Message, TARGET, CALLER), Decision::Inline);
        assert_eq!(decide(Origin::Event, TARGET, CALLER), Decision::Inline);
    }

    #[test]
    fn a_task_is_never_run_inside_its_post() {
        assert_eq!(decide(Origin::Queued, TARGET, CALLER), Decision::Deferred(Reason::Queued));
    }

    #[test]
    fn each_rule_defers_by_itself_and_says_why() {
        let cases = [
            (TARGET, Caller { on_own_pool: false, ..CALLER }, Reason::OtherPool),
            (TARGET, Caller { off_pinned_thread: true, ..CALLER }, Reason::Pinned),
            (TARGET, Caller { owner_in_stack: true, ..CALLER }, Reason::Reentrant),
            (TARGET, Caller { depth: 16, ..CALLER }, Reason::Depth),
            (Target { allows_sync_calls: true, ..TARGET }, CALLER, Reason::AllowSyncCalls),
            (Target { busy: true, ..TARGET }, CALLER, Reason::Parallel),
            (Target { queued: true, ..TARGET }, CALLER, Reason::Overtaking),
            (Target { parked: true, ..TARGET }, CALLER, Reason::Suspended),
        ];
        for (target, caller, reason) in cases {
            assert_eq!(decide(Origin::Message, target, caller), Decision::Deferred(reason));
        }
    }

    #[test]
    fn a_dispatcher_that_allows_sync_calls_is_entered_only_from_its_like_and_never_by_events() {
        let target = Target { allows_sync_calls: true, ..TARGET };
        let caller = Caller { allows_sync_calls: true, ..CALLER };
        assert_eq!(decide(Origin::Message, target, caller), Decision::Inline);
        assert_eq!(decide(Origin::Event, target, caller), Decision::Deferred(Reason::AllowSyncCalls));
    }

    #[test]
    fn an_unsynchronized_dispatcher_takes_messages_inline_also_when_busy() {
        let target = Target { synchronized: false, busy: true, queued: true, ..TARGET };
        assert_eq!(decide(Origin::Message, target, CALLER), Decision::Inline);
        assert_eq!(decide(Origin::Event, target, CALLER), Decision::Deferred(Reason::Parallel));
    }
}
