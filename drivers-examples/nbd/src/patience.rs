//! [`Patience`]: how long a connection may keep the server waiting, and since when it does.
//!
//! Nothing is armed or canceled for a request: the owner sets a timer for the time that [`Patience::look`] names, which
//! is never later than the shortest limit allows, and looks again when it fires. A busy connection costs one timer a
//! stall timeout.

use std::time::Duration;

use fuchsine_driver::Instant;

use crate::config::Timeouts;
use crate::session::WaitsFor;

/// Why a connection that keeps the server waiting is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Exhausted {
    #[error("the handshake was not complete after {0:?}")]
    Handshake(Duration),
    #[error("there was no request for {0:?}")]
    Idle(Duration),
    #[error("the client sent a part of a request and nothing more for {0:?}")]
    Sender(Duration),
    #[error("the client did not read its replies for {0:?}")]
    Reader(Duration),
}

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// The handshake, which has one limit for the whole of it.
    Handshake,
    /// Something of the transmission phase.
    Session(WaitsFor),
}

/// What [`Patience::look`] finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// It is over.
    Close(Exhausted),
    /// Look again at this time at the latest; `None`: there is no limit of any kind.
    At(Option<Instant>),
}

/// What is being waited for, and since when.
#[derive(Debug)]
pub(crate) struct Patience {
    timeouts: Timeouts,
    waiting: Waiting,
    since: Instant,
}

impl Patience {
    pub(crate) fn new(timeouts: Timeouts, now: Instant) -> Self {
        Self { timeouts, waiting: Waiting::Handshake, since: now }
    }

    /// Notes what is waited for now, and whether bytes have come or gone since the last time.
    pub(crate) fn note(&mut self, waiting: Waiting, read: bool, wrote: bool, now: Instant) {
        let progress = match waiting {
            Waiting::Handshake => false,
            // A client that sends on and on without reading makes no progress.
            Waiting::Session(WaitsFor::Reader) => wrote,
            Waiting::Session(_) => read || wrote,
        };
        if progress || waiting != self.waiting {
            self.waiting = waiting;
            self.since = now;
        }
    }

    /// Whether the connection has to be closed, or when to look again.
    pub(crate) fn look(&self, now: Instant) -> Look {
        let Timeouts { handshake, idle, stall } = self.timeouts;
        let (limit, reason): (_, fn(Duration) -> Exhausted) = match self.waiting {
            Waiting::Handshake => (handshake, Exhausted::Handshake),
            Waiting::Session(WaitsFor::NextRequest) => (idle, Exhausted::Idle),
            Waiting::Session(WaitsFor::RestOfRequest) => (stall, Exhausted::Sender),
            Waiting::Session(WaitsFor::Reader) => (stall, Exhausted::Reader),
            Waiting::Session(WaitsFor::Device) => (None, Exhausted::Idle),
        };
        let deadline = limit.map(|limit| self.since + limit);
        if let (Some(limit), Some(deadline)) = (limit, deadline)
            && now >= deadline
        {
            return Look::Close(reason(limit));
        }
        // What is waited for may change before the deadline, to something with a shorter limit.
        let shortest = if self.waiting == Waiting::Handshake { None } else { idle.into_iter().chain(stall).min() };
        Look::At(deadline.into_iter().chain(shortest.map(|limit| now + limit)).min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: Timeouts = Timeouts {
        handshake: Some(Duration::from_secs(10)),
        idle: Some(Duration::from_secs(100)),
        stall: Some(Duration::from_secs(30)),
    };

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_handshake_has_one_limit_whatever_is_sent() {
        let mut patience = Patience::new(TIMEOUTS, at(0));
        patience.note(Waiting::Handshake, true, true, at(9));
        assert_eq!(patience.look(at(9)), Look::At(Some(at(10))));
        assert_eq!(patience.look(at(10)), Look::Close(Exhausted::Handshake(seconds(10))));
    }

    #[test]
    fn idleness_counts_from_the_last_byte() {
        let mut patience = Patience::new(TIMEOUTS, at(0));
        let idle = Waiting::Session(WaitsFor::NextRequest);
        patience.note(idle, true, true, at(5));
        patience.note(idle, true, true, at(50));
        patience.note(idle, false, false, at(140));
        assert_eq!(patience.look(at(149)), Look::At(Some(at(150))));
        assert_eq!(patience.look(at(150)), Look::Close(Exhausted::Idle(seconds(100))));
    }

    #[test]
    fn who_sends_but_does_not_read_has_stalled() {
        let mut patience = Patience::new(TIMEOUTS, at(0));
        let reader = Waiting::Session(WaitsFor::Reader);
        patience.note(reader, true, true, at(1));
        patience.note(reader, true, false, at(25));
        assert_eq!(patience.look(at(31)), Look::Close(Exhausted::Reader(seconds(30))));
        patience.note(reader, false, true, at(30));
        assert_eq!(patience.look(at(31)), Look::At(Some(at(60))));
    }

    #[test]
    fn a_slow_device_is_nobodys_fault() {
        let mut patience = Patience::new(TIMEOUTS, at(0));
        patience.note(Waiting::Session(WaitsFor::Device), true, false, at(0));
        assert_eq!(patience.look(at(1_000_000)), Look::At(Some(at(1_000_030))));
    }

    #[test]
    fn the_next_look_is_in_time_for_whatever_may_come() {
        let mut patience = Patience::new(TIMEOUTS, at(0));
        patience.note(Waiting::Session(WaitsFor::NextRequest), true, true, at(0));
        assert_eq!(patience.look(at(0)), Look::At(Some(at(30))), "a stall that begins now ends then");
        assert_eq!(patience.look(at(80)), Look::At(Some(at(100))));
    }

    #[test]
    fn without_limits_there_is_nothing_to_look_for() {
        let none = Timeouts { handshake: None, idle: None, stall: None };
        let mut patience = Patience::new(none, at(0));
        assert_eq!(patience.look(at(1_000_000)), Look::At(None));
        patience.note(Waiting::Session(WaitsFor::Reader), true, false, at(0));
        assert_eq!(patience.look(at(1_000_000)), Look::At(None));
    }
}
